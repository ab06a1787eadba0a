"""Garnet: random finite MDPs (Archibald, McKinnon and Thomas, 1995)."""

import numpy as np

from mdpnewton.checks import number, whole
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
    whole("garnet", "seed", seed)
    whole("garnet", "n_states", n_states, 1)
    whole("garnet", "n_actions", n_actions, 1)
    whole("garnet", "branching", branching, 1, n_states)
    number("garnet", "discount", discount, least=0, below=1)
    rng = np.random.default_rng(seed)
    transition = np.zeros((n_states, n_actions, n_states))
    for state in range(n_states):
        for action in range(n_actions):
            reached = rng.choice(n_states, branching, replace=False)
            transition[state, action, reached] = rng.dirichlet(np.ones(branching))
    start = rng.dirichlet(np.ones(n_states))
    return FiniteMDP(transition, rng.random((n_states, n_actions)), start, discount)
