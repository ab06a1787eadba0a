"""The Markov chain of a finite MDP under a policy, and its two linear solves."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

from mdpnewton.models.finite import FiniteMDP
from mdpnewton.threads import threads_for

DIRECT_FILL = 2e8  # most entries of a banded LU factor that "auto" accepts
ITERATIVE_TOLERANCE = 1e-13
RESTARTS = 5


class SolveError(ArithmeticError):
    """A linear solve did not reach its tolerance; `search` takes it for a point without a value."""


class ClosedLoop:
    r"""Values and occupancies of a finite MDP under action probabilities.

    With $P_\pi(s'|s) = \sum_a \pi(a|s) P(s'|s,a)$, every quantity is a solve with
    $I - \gamma P_\pi$ (values look forward) or its transpose (occupancies look back). The matrix is
    factorised once; nothing of size S x S is formed for a sparse MDP.

    Args:
        mdp: The problem.
        probabilities: Action probabilities $\pi(a|s)$, shape (S, A).
    """

    def __init__(self, mdp: FiniteMDP, probabilities: np.ndarray):
        self.mdp = mdp
        self.probabilities = np.asarray(probabilities, dtype=float)

    @cached_property
    def value(self) -> np.ndarray:
        """V(s), eq. (3), shape (S,)."""
        return self.accumulate((self.probabilities * self.mdp.reward).sum(axis=1))

    @cached_property
    def action_value(self) -> np.ndarray:
        """Q(s, a), eq. (4), shape (S, A)."""
        return self.mdp.reward + self.mdp.discount * self.mdp.expected_next(self.value)

    @cached_property
    def advantage(self) -> np.ndarray:
        """A(s, a) = Q(s, a) - V(s), shape (S, A)."""
        found: np.ndarray = self.action_value - self.value[:, None]
        return found

    @cached_property
    def occupancy(self) -> np.ndarray:
        """Discounted visits p_gamma(s, a), eq. (7), shape (S, A)."""
        found: np.ndarray = self.visits(self.mdp.start)[:, None] * self.probabilities
        return found

    @property
    def objective(self) -> float:
        """U = E V(s_1), eq. (1)."""
        return float(self.mdp.start @ self.value)

    def accumulate(self, x: np.ndarray) -> np.ndarray:
        """Discounted sum of `x` from each state on, (I - gamma P_pi)^-1 x; x is (S, ...)."""
        return self._solve(x, False)

    def visits(self, x: np.ndarray) -> np.ndarray:
        """Discounted visits when started from `x`, (I - gamma P_pi)^-T x; x is (S, ...)."""
        return self._solve(x, True)

    def flow(self, x: np.ndarray) -> np.ndarray:
        """Sum of `x` (S, A, ...) that pairs send to each next state, shape (S, ...)."""
        with threads_for(2.0 * self.mdp.n_states * x.size):
            product: np.ndarray = self.mdp.transition_matrix.T @ x.reshape(self.mdp.reward.size, -1)
        return product.reshape(self.mdp.n_states, *x.shape[2:])

    @cached_property
    def _system(self) -> Any:
        n_states, n_actions = self.mdp.reward.shape
        if not self.mdp.is_sparse:
            closed = np.einsum("sa,sat->st", self.probabilities, self.mdp.transition)
            return np.eye(n_states) - self.mdp.discount * closed
        select = sparse.csr_array(
            (
                self.probabilities.ravel(),
                np.arange(n_states * n_actions),
                np.arange(n_states + 1) * n_actions,
            ),
            shape=(n_states, n_states * n_actions),
        )
        closed = select @ self.mdp.transition
        return sparse.csr_array(sparse.eye_array(n_states) - self.mdp.discount * closed)

    @cached_property
    def _solve(self) -> Callable[[np.ndarray, bool], np.ndarray]:
        system = self._system
        if not self.mdp.is_sparse:
            with threads_for(len(system) ** 3):
                factor = scipy.linalg.lu_factor(system)

            def solve(x: np.ndarray, transposed: bool) -> np.ndarray:
                with threads_for(2.0 * len(system) * x.size):
                    solved: np.ndarray = scipy.linalg.lu_solve(factor, x, trans=int(transposed))
                return solved

            return solve
        hubs = _hubs(system)
        if self.mdp.linear_solver == "direct" or (
            self.mdp.linear_solver == "auto" and _banded_fill(system, hubs) <= DIRECT_FILL
        ):
            # Rows are diagonally dominant, so that no pivoting is needed and the order may be one
            # for symmetric patterns, with 40 % less fill on grids. Hubs would make it slow.
            symmetric = not hubs.any()
            direct = sparse_linalg.splu(
                sparse.csc_array(system),
                permc_spec="MMD_AT_PLUS_A" if symmetric else "COLAMD",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": symmetric},
            )
            return lambda x, transposed: direct.solve(x, trans="T" if transposed else "N")
        return lambda x, transposed: _iterate(system.T if transposed else system, x)


def _hubs(system: Any) -> np.ndarray:
    """States with so many predecessors, such as a restart state, that no band contains them."""
    n_states = system.shape[0]
    hubs: np.ndarray = np.bincount(system.indices, minlength=n_states) > 10 * n_states**0.5
    return hubs


def _banded_fill(system: Any, hubs: np.ndarray) -> float:
    """Number of entries of an LU factor in the band of reverse Cuthill-McKee, and in the hubs."""
    filled = 2.0 * int(hubs.sum()) * len(hubs)
    system = system[~hubs][:, ~hubs] if hubs.any() else system
    order = csgraph.reverse_cuthill_mckee(sparse.csr_array(system), symmetric_mode=False)
    position = np.empty_like(order)
    position[order] = np.arange(len(order), dtype=order.dtype)
    entries = system.tocoo()
    bandwidth = np.abs(position[entries.row].astype(int) - position[entries.col]).max(initial=0)
    return filled + 2.0 * (int(bandwidth) + 1) * len(order)


def _iterate(system: Any, x: np.ndarray) -> np.ndarray:
    columns = x.reshape(len(x), -1)
    solved = np.empty_like(columns)
    for j, column in enumerate(columns.T):
        solved[:, j] = _iterated(system, column)
    return solved.reshape(x.shape)


def _iterated(system: Any, x: np.ndarray) -> np.ndarray:
    """The solution for one column, whatever its scale."""
    largest = np.abs(x).max()
    if largest == 0 or not np.isfinite(largest):
        return np.full_like(x, 0.0 if largest == 0 else np.nan)
    # BiCGSTAB compares products with absolute numbers; a power of two changes no digit.
    exponent = int(np.frexp(largest)[1])
    column: np.ndarray = np.ldexp(x, -exponent)
    size = np.linalg.norm(column)
    y, rest = np.zeros_like(column), column
    for _ in range(RESTARTS):
        # Started at zero, BiCGSTAB breaks down when all reward is in one absorbing state; a sweep
        # of value iteration, y + rest, is a better start, and restarts recover from breakdowns.
        y, failed = sparse_linalg.bicgstab(
            system, column, x0=y + rest, rtol=ITERATIVE_TOLERANCE, atol=0.0, maxiter=2000
        )
        rest = column - system @ y
        if not failed or np.linalg.norm(rest) <= 1e-10 * size:
            found: np.ndarray = np.ldexp(y, exponent)
            return found
    raise SolveError(
        f"BiCGSTAB left a relative residual of {np.linalg.norm(rest) / size:.2g} on the closed "
        f"loop of {len(x)} states; pass `FiniteMDP(..., linear_solver='direct')`."
    )
