"""Garnet: random finite MDPs (Archibald, McKinnon and Thomas, 1995)."""

import numpy as np

from mdpnewton.models.finite import FiniteMDP


def garnet(
    seed: int,
    n_states: int = 50,
    n_actions: int = 4,
    branching: int = 5,
    discount: float = 0.95,
) -> FiniteMDP:
    """A random MDP in which each action leads to a few random states.

    Args:
        seed: Random seed; the same seed gives the same problem.
        n_states: Number of states.
        n_actions: Number of actions.
        branching: Number of successors per pair of state and action.
        discount: Discount factor. Rewards are uniform in [0, 1].
    """
    if not 1 <= branching <= n_states:
        raise ValueError(f"`garnet(branching=...)` must be in 1..{n_states}, got {branching}.")
    rng = np.random.default_rng(seed)
    transition = np.zeros((n_states, n_actions, n_states))
    for state in range(n_states):
        for action in range(n_actions):
            reached = rng.choice(n_states, branching, replace=False)
            transition[state, action, reached] = rng.dirichlet(np.ones(branching))
    start = rng.dirichlet(np.ones(n_states))
    return FiniteMDP(transition, rng.random((n_states, n_actions)), start, discount)
