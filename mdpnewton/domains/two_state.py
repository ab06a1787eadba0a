"""Kakade's two-state problem (A Natural Policy Gradient, NIPS 2002), Section 6.1."""

import numpy as np

from mdpnewton.checks import number, refuse
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.policies import Gibbs

STAY, MOVE = 0, 1


def two_state_mdp(discount: float | None, start: tuple[float, float] = (0.8, 0.2)) -> FiniteMDP:
    """Two states, each with a self-loop and a move to the other state.

    The self-loop of the first state earns 1, that of the second earns 2, and a move earns nothing.

    Args:
        discount: Discount factor, as the paper has elsewhere; None for average rewards, which
            Kakade uses.
        start: Distribution of the initial state.
    """
    transition = np.zeros((2, 2, 2))
    for state in range(2):
        transition[state, STAY, state] = 1
        transition[state, MOVE, 1 - state] = 1
    reward = np.array([[1.0, 0.0], [2.0, 0.0]])
    if discount is None:
        return FiniteMDP(transition, reward, np.array(start), criterion="average")
    return FiniteMDP(transition, reward, np.array(start), discount)


def two_state_policy() -> Gibbs:
    """A softmax with one parameter per state: the logit of its self-loop over its move."""
    features = np.zeros((2, 2, 2))
    features[0, STAY, 0] = features[1, STAY, 1] = 1
    return Gibbs(features)


def start_parameters(move_first: float, occupied_first: float = 0.8) -> np.ndarray:
    """Logits for which the first state is occupied for a given share of the time.

    Args:
        move_first: Probability of leaving the first state. The probability of leaving the second
            follows from `occupied_first * move_first = (1 - occupied_first) * move_second`.
        occupied_first: Share of the time in the first state.
    """
    call = "start_parameters"
    number(call, "move_first", move_first, above=0, below=1)
    number(call, "occupied_first", occupied_first, above=0, below=1)
    move = np.array([move_first, move_first * occupied_first / (1 - occupied_first)])
    if not ((move > 0) & (move < 1)).all():
        most = (1 - occupied_first) / occupied_first
        rule = f"must be below {most:.6g}, so that the second state's is a probability too"
        refuse(call, "move_first", f"{rule}, got {move_first!r}")
    return np.log(1 - move) - np.log(move)
