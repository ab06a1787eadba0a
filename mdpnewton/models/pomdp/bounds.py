"""Bounds of what any policy can earn on a POMDP."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.checks import instance
from mdpnewton.models.chains import policy_chain
from mdpnewton.models.optimum import policy_iteration
from mdpnewton.models.pomdp.model import FinitePOMDP
from mdpnewton.models.pomdp.pairs import Pairs
from mdpnewton.models.pomdp.product import first_observations
from mdpnewton.models.recurrence import SolveError

WORK = 2e9  # products and additions that the fast informed bound may take
SETTLED = 1e-9  # relative change of a sweep at which it stops


@dataclass(frozen=True)
class UpperBounds:
    """Values that no policy exceeds, whatever its memory.

    Attributes:
        qmdp: If the state were seen from the second step on.
        fast_informed: The fast informed bound (Hauskrecht 2000), which is never above it.
    """

    qmdp: float
    fast_informed: float


def upper_bounds(pomdp: FinitePOMDP) -> UpperBounds | None:
    """Upper bounds of the optimum of a POMDP; None where that of the MDP behind it is not finite.

    Any number of sweeps of the fast informed bound begun at QMDP gives a bound, so that a large
    problem gets fewer. For a finite horizon the sweeps are its times. An average reward has the
    same bound twice, the best average of the MDP behind it.

    Args:
        pomdp: The problem.
    """
    instance("upper_bounds", "pomdp", pomdp, FinitePOMDP, "pass `load_pomdp(name)`")
    mdp = pomdp.fully_observed()
    first = np.asarray(pomdp.start)[:, None] * first_observations(pomdp)  # (S, O')
    try:
        if pomdp.horizon is not None:
            return _swept(pomdp, mdp, first, pomdp.horizon)
        best = policy_iteration(mdp)
        if pomdp.criterion == "average":
            return UpperBounds(best.objective, best.objective)
        value = policy_chain(mdp, np.eye(mdp.n_actions)[best.actions]).value
        informed = _Informed(pomdp)
    except SolveError:
        return None
    Q = mdp.reward + mdp.discount * mdp.expected_next(value)
    qmdp = _at_first(first, Q)
    for _ in range(int(min(1_000, max(1, WORK // max(1, informed.work))))):
        after = informed.before(Q)
        change = np.abs(after - Q).max()
        Q = np.minimum(Q, after)
        if change <= SETTLED * max(1.0, np.abs(Q).max()):
            break
    return UpperBounds(qmdp, _at_first(first, Q))


def _swept(pomdp: FinitePOMDP, mdp: Any, first: np.ndarray, horizon: int) -> UpperBounds:
    informed = _Informed(pomdp)
    seen = blind = np.asarray(mdp.reward, dtype=float)
    for _ in range(horizon - 1):
        seen = mdp.reward + mdp.discount * mdp.expected_next(seen.max(axis=1))
        blind = informed.before(blind)
    return UpperBounds(_at_first(first, seen), _at_first(first, blind))


def _at_first(first: np.ndarray, Q: np.ndarray) -> float:
    return float((first.T @ Q).max(axis=1).sum())


class _Informed:
    """Q(s, a) = R(s, a) + gamma sum_o max_a' sum_s' p(s', o|s, a) Q(s', a')."""

    def __init__(self, pomdp: FinitePOMDP):
        pairs = Pairs(pomdp)
        ways = sparse.coo_array(pairs.ways)
        key = ways.row.astype(np.int64) * len(pairs.groups) + pairs.observations[ways.col]
        known, row = np.unique(key, return_inverse=True)  # a state, an action, what is seen then
        shape = len(known), pomdp.n_states
        self._arrive = sparse.csr_array((ways.data, (row, pairs.states[ways.col])), shape=shape)
        self._pair = known // len(pairs.groups)
        self._pomdp, self.work = pomdp, ways.nnz * pomdp.n_actions

    def before(self, Q: np.ndarray) -> np.ndarray:
        """Q a step earlier."""
        reward = np.asarray(self._pomdp.reward)
        best = (self._arrive @ Q).max(axis=1)
        summed = np.bincount(self._pair, best, reward.size).reshape(reward.shape)
        return np.asarray(reward + self._pomdp.discount * summed)
