"""Bounds of what any policy can earn on a POMDP, and a controller played to check its value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.checks import instance, whole
from mdpnewton.models.chains import policy_chain
from mdpnewton.models.optimum import policy_iteration
from mdpnewton.models.pomdp.model import FinitePOMDP
from mdpnewton.models.pomdp.product import first_observations, observations
from mdpnewton.models.recurrence import SolveError

WORK = 2e9  # products and additions that the fast informed bound may take
SETTLED = 1e-9  # relative change of a sweep at which it stops
LEFT = 1e-4  # share of the discounted future that a simulation leaves out
MOST_STEPS = 5_000


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
    problem gets fewer.

    Args:
        pomdp: The problem, of discounted or total reward.
    """
    instance("upper_bounds", "pomdp", pomdp, FinitePOMDP, "pass `load_pomdp(name)`")
    if pomdp.criterion not in ("discounted", "total"):
        return None
    mdp = pomdp.fully_observed()
    try:
        best = policy_iteration(mdp)
        value = policy_chain(mdp, np.eye(mdp.n_actions)[best.actions]).value
    except SolveError:
        return None
    Q = mdp.reward + mdp.discount * mdp.expected_next(value)
    first = np.asarray(pomdp.start)[:, None] * first_observations(pomdp)  # (S, O')
    qmdp = float((first.T @ Q).max(axis=1).sum())
    ways = _ways(pomdp)
    sweep = sum(way.nnz for each in ways for way in each) * pomdp.n_actions
    for _ in range(int(min(1_000, max(1, WORK // max(1, sweep))))):
        after = np.stack(
            [
                pomdp.reward[:, a] + pomdp.discount * sum((way @ Q).max(axis=1) for way in ways[a])
                for a in range(pomdp.n_actions)
            ],
            axis=1,
        )
        change = np.abs(after - Q).max()
        Q = np.minimum(Q, after)
        if change <= SETTLED * max(1.0, np.abs(Q).max()):
            break
    return UpperBounds(qmdp, float((first.T @ Q).max(axis=1).sum()))


def _ways(pomdp: FinitePOMDP) -> list[list[Any]]:
    """p(s', o|s, a) as one sparse matrix (S, S') for each action and observation that occurs."""
    found = []
    for a in range(pomdp.n_actions):
        T = sparse.csr_array(pomdp.transition[a])
        seen = sparse.csc_array(pomdp.observation[a])
        each = []
        for o in range(pomdp.n_observations):
            column = seen[:, [o]].toarray().ravel()
            if column.any():
                way = sparse.csr_array(T @ sparse.diags_array(column))
                way.eliminate_zeros()
                each.append(way)
        found.append(each)
    return found


@dataclass(frozen=True)
class Simulated:
    """What a controller earned when it was played.

    Attributes:
        mean: Mean of the returns.
        error: Standard error of the mean.
        episodes: Number of episodes.
    """

    mean: float
    error: float
    episodes: int

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that covers the value with a probability of 95 %."""
        return self.mean - 1.96 * self.error, self.mean + 1.96 * self.error


def simulated_value(
    pomdp: FinitePOMDP, tables: Any, *, episodes: int = 1_000, seed: int = 0
) -> Simulated:
    """Play a finite-state controller, as a check of its value that shares no code with it.

    Rewards are those expected of state and action. An episode lasts until a share of 1e-4 of the
    discounted future is left, or 5,000 steps.

    Args:
        pomdp: The problem.
        tables: Probabilities of the first node (O, B), the next node (B, O, B) and the action
            (B, O, A), as `FiniteStateController.tables` gives them.
        episodes: Number of episodes.
        seed: Random seed.
    """
    whole("simulated_value", "episodes", episodes, 2)
    rng = np.random.default_rng(seed)
    initial, transition, action = (np.asarray(table) for table in tables)
    moves = [sparse.csr_array(pomdp.transition[a]) for a in range(pomdp.n_actions)]
    seen, first = observations(pomdp), first_observations(pomdp)
    steps = pomdp.horizon or MOST_STEPS
    if 0 < pomdp.discount < 1:
        steps = min(steps, int(np.ceil(np.log(LEFT) / np.log(pomdp.discount))))
    state = rng.choice(pomdp.n_states, episodes, p=np.asarray(pomdp.start))
    seeing = _drawn(rng, first[state])
    node = _drawn(rng, initial[seeing])
    returns, weight = np.zeros(episodes), 1.0
    for _ in range(steps if pomdp.discount else 1):
        chosen = _drawn(rng, action[node, seeing])
        returns += weight * np.asarray(pomdp.reward)[state, chosen]
        weight *= pomdp.discount
        after = np.empty_like(state)
        for a in np.unique(chosen):
            mine = np.flatnonzero(chosen == a)
            for part in np.array_split(mine, max(1, len(mine) * pomdp.n_states // 10_000_000)):
                after[part] = _drawn(rng, moves[a][state[part]].toarray())
        state = after
        seeing = _drawn(rng, seen[chosen, state])
        node = _drawn(rng, transition[node, seeing])
    return Simulated(
        float(returns.mean()), float(returns.std(ddof=1) / np.sqrt(episodes)), episodes
    )


def _drawn(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """One draw from the distribution in each row."""
    summed = rows.cumsum(axis=1)
    point = rng.random(len(rows))[:, None] * summed[:, -1:]
    return np.asarray(np.minimum((summed <= point).sum(axis=1), rows.shape[1] - 1))
