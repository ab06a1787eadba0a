"""The chain of a finite MDP under a policy, by its criterion."""

import numpy as np

from mdpnewton.models.closed_loop import ClosedLoop
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.horizon import HorizonChain
from mdpnewton.models.policy_chain import PolicyChain


def policy_chain(mdp: FiniteMDP, probabilities: np.ndarray) -> PolicyChain:
    """The values and occupancies of a finite MDP under action probabilities.

    Args:
        mdp: The problem, of any criterion.
        probabilities: Action probabilities pi(a|s), shape (S, A).
    """
    if mdp.criterion == "finite":
        return HorizonChain(mdp, probabilities)
    return ClosedLoop(mdp, probabilities)
