"""The optimum of a finite MDP over all policies, by policy iteration."""

from dataclasses import dataclass

import numpy as np

from mdpnewton.checks import instance
from mdpnewton.models.chains import policy_chain
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.recurrence import SolveError

SAME = 1e-11  # relative difference of values that counts as none
MOST_ROUNDS, MOST_SWEEPS = 1_000, 200_000


@dataclass(frozen=True)
class BestPolicy:
    """A deterministic policy that no other exceeds.

    Attributes:
        objective: The objective U.
        actions: The action of each state, shape (S,), or for a finite horizon of each time and
            state, shape (horizon, S).
        exact: Whether policy iteration found it; otherwise value iteration did, up to round-off.
    """

    objective: float
    actions: np.ndarray
    exact: bool = True


def policy_iteration(mdp: FiniteMDP) -> BestPolicy:
    """The best policy of a finite MDP, by the criterion of the problem.

    Howard's policy iteration, begun with the policy that takes all actions alike; for a finite
    horizon backward induction, which is over policies that see the time. Where a policy on the way
    does not suit the criterion (it never ends, or has several recurrent classes), value iteration
    takes over.

    Args:
        mdp: The problem.
    """
    instance("policy_iteration", "mdp", mdp, FiniteMDP, "pass a finite MDP")
    if mdp.horizon is not None:
        return _backward(mdp, mdp.horizon)
    every = np.eye(mdp.n_actions)
    table = np.full(mdp.reward.shape, 1 / mdp.n_actions)
    chosen: np.ndarray | None = None
    worth = -np.inf
    for _ in range(MOST_ROUNDS):
        try:
            chain = policy_chain(mdp, table)
            objective, action_value = chain.objective, chain.action_value
        except SolveError:
            if chosen is None:
                raise
            break
        size = max(1.0, float(np.abs(action_value).max()))
        if chosen is not None and objective < worth - SAME * size:
            break  # a policy that never ends earns less than it seemed
        worth = objective
        better = action_value.argmax(axis=1)
        if chosen is not None:
            gain = action_value.max(axis=1) - action_value[np.arange(mdp.n_states), chosen]
            better = np.where(gain > SAME * size, better, chosen)
            if (better == chosen).all():
                return BestPolicy(objective, chosen)
        chosen, table = better, every[better]
    return _swept(mdp)


def _backward(mdp: FiniteMDP, horizon: int) -> BestPolicy:
    value = np.zeros(mdp.n_states)
    actions = np.zeros((horizon, mdp.n_states), dtype=int)
    for t in reversed(range(horizon)):
        action_value = mdp.reward + mdp.discount * mdp.expected_next(value)
        actions[t] = action_value.argmax(axis=1)
        value = action_value.max(axis=1)
    return BestPolicy(float(mdp.start @ value), actions)


def _swept(mdp: FiniteMDP) -> BestPolicy:
    """Value iteration; of an average with half of every step at rest, which allows periods."""
    value, average = np.zeros(mdp.n_states), mdp.criterion == "average"
    for _ in range(MOST_SWEEPS):
        action_value = mdp.reward + mdp.discount * mdp.expected_next(value)
        after = action_value.max(axis=1)
        if average:
            rise = after - value
            low, high = float(rise.min()), float(rise.max())
            if high - low <= SAME * max(1.0, abs(high)):
                return BestPolicy(0.5 * (low + high), action_value.argmax(axis=1), exact=False)
            value = value + 0.5 * rise
            value -= value[0]
            continue
        change = float(np.abs(after - value).max())
        value = after
        if change <= 1e-14 * max(1.0, float(np.abs(value).max())):
            objective = float(mdp.start @ value)
            return BestPolicy(objective, action_value.argmax(axis=1), exact=False)
    raise SolveError(
        f"value iteration did not settle in {MOST_SWEEPS:,} sweeps: the best policy may never end "
        f"and earn without bound; use criterion 'discounted' or 'finite'."
    )
