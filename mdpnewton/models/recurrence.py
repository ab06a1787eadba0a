"""Where a Markov chain stays for ever: its recurrent classes, and what a criterion asks of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.names import listed


class SolveError(ArithmeticError):
    """A linear solve did not reach its tolerance; `search` takes it for a point without a value."""


class ChainError(SolveError):
    """The chain under a policy does not suit the criterion; the text names the states."""


def recurrent_classes(chain: Any, leaves: np.ndarray) -> list[np.ndarray]:
    """The sets of states that a chain never leaves, each as the numbers of its states.

    Args:
        chain: Matrix whose positive entries are the possible steps, dense or sparse, (S, S).
        leaves: Whether the process may end in a state, shape (S,).
    """
    steps = sparse.coo_array(sparse.csr_array(chain))
    positive = steps.data > 0
    row, column = steps.row[positive], steps.col[positive]
    graph = sparse.csr_array((np.ones(len(row)), (row, column)), shape=steps.shape)
    number, label = csgraph.connected_components(graph, connection="strong")
    closed = np.ones(number, dtype=bool)
    closed[label[row[label[row] != label[column]]]] = False
    closed[label[leaves]] = False
    members = np.flatnonzero(closed[label])
    members = members[np.argsort(label[members], kind="stable")]
    ends = np.flatnonzero(np.diff(label[members])) + 1
    found = np.split(members, ends) if len(members) else []
    return sorted(found, key=lambda one: int(one[0]))


def resting(mdp: FiniteMDP, probabilities: np.ndarray, chain: Any) -> np.ndarray:
    """Where the process of a total-reward problem has ended: in classes without any reward.

    Args:
        mdp: The problem.
        probabilities: Action probabilities, shape (S, A).
        chain: Transitions under the policy, (S, S).

    Raises:
        ChainError: A recurrent class goes on to earn, so that the policy is not proper.
    """
    earns = ((probabilities > 0) & (mdp.reward != 0)).any(axis=1)
    classes = recurrent_classes(chain, leaving(mdp, probabilities))
    return ends(classes, earns, mdp.states, "FiniteMDP")


def ends(
    classes: list[np.ndarray], earns: np.ndarray, names: Sequence[str], call: str
) -> np.ndarray:
    """Where a process that adds up all its rewards has ended, shape (S,).

    Args:
        classes: The sets of states that it never leaves.
        earns: Whether a reward may be earned in a state, shape (S,).
        names: Names of the states.
        call: The class of the problem, as the error names it.

    Raises:
        ChainError: It goes on earning in one of the classes.
    """
    found = np.zeros(len(earns), dtype=bool)
    endless: list[int] = []
    for states in classes:
        if earns[states].any():
            endless += states.tolist()
        found[states] = True
    if endless:
        some = "state" if len(endless) == 1 else "states"
        raise ChainError(
            f"`{call}(criterion='total')` needs a proper policy, one that ends, but from {some} "
            f"{listed(names, sorted(endless))} it goes on for ever and earns; let them lead to a "
            f"goal that earns nothing, give an MDP a `stop` probability, or use criterion "
            f"'discounted', 'finite' or 'average'."
        )
    return found


def recurrent_class(mdp: FiniteMDP, probabilities: np.ndarray, chain: Any) -> np.ndarray:
    """The one recurrent class that an average-reward problem needs, as numbers of states.

    Args:
        mdp: The problem.
        probabilities: Action probabilities, shape (S, A).
        chain: Transitions under the policy, (S, S).

    Raises:
        ChainError: There are several, so that the average depends on where the process starts.
    """
    classes = recurrent_classes(chain, leaving(mdp, probabilities))
    if len(classes) != 1:
        shown = "; ".join(f"{{{listed(mdp.states, states)}}}" for states in classes[:4])
        more = f" and {len(classes) - 4} more" if len(classes) > 4 else ""
        raise ChainError(
            f"`FiniteMDP(criterion='average')` needs one recurrent class, but under this policy "
            f"there are {len(classes)}, with the states {shown}{more}; connect them, keep one, or "
            f"use criterion 'discounted' or 'finite'."
        )
    return classes[0]


def leaving(mdp: FiniteMDP, probabilities: np.ndarray) -> np.ndarray:
    """Whether the process may end in a state, shape (S,)."""
    if mdp.stop is None:
        return np.zeros(mdp.n_states, dtype=bool)
    return np.asarray(((probabilities > 0) & (mdp.stop > 0)).any(axis=1))
