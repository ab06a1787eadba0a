"""What an exact evaluation asks of the Markov chain under a policy, whatever the criterion."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mdpnewton.models.finite import FiniteMDP
from mdpnewton.threads import threads_for


class Responses(NamedTuple):
    """How much every parameter changes what is earned from a state on.

    Attributes:
        states: Number of the state of each row, shape (m,).
        slopes: Derivatives by the parameters, shape (m, n).
        moves: How far every parameter moves the policy of the state, shape (m, n).
        size: The largest slope that there would be if nothing in it cancelled.
    """

    states: np.ndarray
    slopes: np.ndarray
    moves: np.ndarray
    size: float


class PolicyChain(ABC):
    """A finite MDP under action probabilities: values, occupancies, and how they change.

    Attributes:
        mdp: The problem.
        probabilities: Action probabilities pi(a|s), shape (S, A).
    """

    mdp: FiniteMDP
    probabilities: np.ndarray

    def __init__(self, mdp: FiniteMDP, probabilities: np.ndarray):
        self.mdp = mdp
        self.probabilities = np.asarray(probabilities, dtype=float)

    @property
    @abstractmethod
    def objective(self) -> float:
        """U, eq. (1)."""

    @property
    @abstractmethod
    def value(self) -> np.ndarray:
        """V(s), eq. (3), shape (S,): from the first step on, or the differential value."""

    @property
    @abstractmethod
    def action_value(self) -> np.ndarray:
        """Q(s, a), eq. (4), shape (S, A), at the first step."""

    @property
    def advantage(self) -> np.ndarray:
        """A(s, a) = Q(s, a) - V(s), shape (S, A)."""
        found: np.ndarray = self.action_value - self.value[:, None]
        return found

    @property
    @abstractmethod
    def occupancy(self) -> np.ndarray:
        """Visits of each pair, eq. (7), shape (S, A)."""

    @property
    @abstractmethod
    def value_weights(self) -> np.ndarray:
        """Visits times Q, shape (S, A)."""

    @property
    @abstractmethod
    def advantage_weights(self) -> np.ndarray:
        """Visits times A, shape (S, A)."""

    @property
    @abstractmethod
    def mean_value(self) -> np.ndarray:
        """V(s) averaged over the visits of s, shape (S,)."""

    @abstractmethod
    def value_gradient(self, scores: np.ndarray) -> np.ndarray:
        """grad V(s), Lemma 1, eq. (37), shape (S, n), from scores of shape (S, A, n)."""

    @abstractmethod
    def cross_term(self, scores: np.ndarray) -> np.ndarray:
        """H12, eq. (20), shape (n, n), from scores of shape (S, A, n)."""

    @abstractmethod
    def cross_weights(self, along: np.ndarray) -> np.ndarray:
        """Weights of scores, (S, A), that sum to (H12 + H12')p; `along` is p'grad log pi."""

    @abstractmethod
    def responses(self, scores: np.ndarray) -> Responses:
        """What Definition 2 looks at, from scores of shape (S, A, n)."""

    def flow(self, x: np.ndarray) -> np.ndarray:
        """Sum of `x` (S, A, ...) that pairs send to each next state, shape (S, ...)."""
        with threads_for(2.0 * self.mdp.n_states * x.size):
            product: np.ndarray = self.mdp.transition_matrix.T @ x.reshape(self.mdp.reward.size, -1)
        return product.reshape(self.mdp.n_states, *x.shape[2:])


def closed_chain(mdp: FiniteMDP, probabilities: np.ndarray) -> Any:
    """The transitions from state to state under action probabilities, dense or CSR, (S, S)."""
    n_states, n_actions = mdp.reward.shape
    if not mdp.is_sparse:
        return np.einsum("sa,sat->st", probabilities, mdp.transition)
    select = sparse.csr_array(
        (
            probabilities.ravel(),
            np.arange(n_states * n_actions),
            np.arange(n_states + 1) * n_actions,
        ),
        shape=(n_states, n_states * n_actions),
    )
    return select @ mdp.transition


def without(chain: Any, states: np.ndarray) -> Any:
    """The chain that ends when it comes to one of these states; begun there, it goes on."""
    kept = np.ones(chain.shape[0])
    kept[states] = 0.0
    if not sparse.issparse(chain):
        return chain * kept
    ended = sparse.csr_array(chain @ sparse.diags_array(kept))
    ended.eliminate_zeros()
    return ended
