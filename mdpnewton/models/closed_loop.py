"""The Markov chain of a finite MDP under a policy, and its two linear solves."""

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

from mdpnewton.checks import refuse
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.policy_chain import PolicyChain, Responses, closed_chain, without
from mdpnewton.models.recurrence import SolveError, recurrent_class, resting
from mdpnewton.threads import threads_for

DIRECT_FILL = 2e8  # most entries of a banded LU factor that "auto" accepts
ITERATIVE_TOLERANCE = 1e-13
RESTARTS = 5
MOST_STEPS = 1e13  # until the end or the return: a sum of more has lost too many digits
RARE = 1e-3  # least frequency, of that of the most frequent state, of one that ends the cycles
SINGULAR = (
    "the policy so hardly ever ends or returns that its values have no digits left; use smaller "
    "weights, or criterion 'discounted'."
)


Solution = Callable[[np.ndarray, bool], np.ndarray]  # of a vector; whether it is transposed


class ClosedLoop(PolicyChain):
    r"""Values and occupancies of a finite MDP under action probabilities, the same at every step.

    With $P_\pi(s'|s) = \sum_a \pi(a|s) P(s'|s,a)$, every quantity is a solve with
    $I - \gamma P_\pi$ (values look forward) or its transpose (occupancies look back). The matrix is
    factorised once; nothing of size S x S is formed for a sparse MDP.

    For the criterion "total", $\gamma = 1$, and what is left of $P_\pi$ are the states in which the
    process has not ended. For "average", the inverse is that on the complement of the constants,
    $(I - P_\pi + 1\mu^\top)^{-1} - 1\mu^\top$ with the stationary distribution $\mu$: values are
    differential values with $\mu^\top V = 0$, and the occupancy sums to 1. It costs one solve with
    the chain that ends when it comes to a certain recurrent state, which is sparse and regular.

    Args:
        mdp: The problem, of any criterion but "finite"; see `policy_chain`.
        probabilities: Action probabilities $\pi(a|s)$, shape (S, A).
    """

    def __init__(self, mdp: FiniteMDP, probabilities: np.ndarray):
        if mdp.criterion == "finite":
            rule = "has another chain at every step for criterion 'finite'; use `HorizonChain`"
            refuse("ClosedLoop", "mdp", rule)
        super().__init__(mdp, probabilities)

    @cached_property
    def value(self) -> np.ndarray:
        """V(s), eq. (3), shape (S,); the differential value for the criterion "average"."""
        return self.accumulate((self.probabilities * self.mdp.reward).sum(axis=1))

    @cached_property
    def action_value(self) -> np.ndarray:
        """Q(s, a), eq. (4), shape (S, A); less the average reward where that is the criterion."""
        found: np.ndarray = self.mdp.reward + self.mdp.discount * self.mdp.expected_next(self.value)
        return found - self.objective if self._averages else found

    @cached_property
    def occupancy(self) -> np.ndarray:
        """Discounted visits p_gamma(s, a), eq. (7), shape (S, A); for "average" their frequency."""
        visits = self._cycle[1] if self._averages else self.visits(self.mdp.start)
        found: np.ndarray = visits[:, None] * self.probabilities
        return found

    @cached_property
    def objective(self) -> float:
        """U = E V(s_1), eq. (1), or the average reward per step."""
        if self._averages:
            return float((self.occupancy * self.mdp.reward).sum())
        return float(self.mdp.start @ self.value)

    @property
    def value_weights(self) -> np.ndarray:
        """Visits times Q, shape (S, A)."""
        return np.asarray(self.occupancy * self.action_value)

    @property
    def advantage_weights(self) -> np.ndarray:
        """Visits times A, shape (S, A)."""
        return np.asarray(self.occupancy * self.advantage)

    @property
    def mean_value(self) -> np.ndarray:
        """V(s), shape (S,): it is the same at every visit."""
        return self.value

    @cached_property
    def ended(self) -> np.ndarray | None:
        """In which states the process has ended, for the criterion "total", shape (S,)."""
        if self.mdp.criterion != "total":
            return None
        return resting(self.mdp, self.probabilities, self._chain)

    def value_gradient(self, scores: np.ndarray) -> np.ndarray:
        """grad V(s), Lemma 1, eq. (37), shape (S, n), from scores of shape (S, A, n)."""
        slopes = self._slopes(scores)
        if not self._averages:
            return slopes
        # The distribution that V has mean zero under changes too: a constant for all states.
        return slopes - np.tensordot(self.accumulate(self.value), self._reached(scores), axes=1)

    def cross_term(self, scores: np.ndarray) -> np.ndarray:
        """H12, eq. (20), shape (n, n), from scores of shape (S, A, n)."""
        # eq. (23): grad Q(s, a) = gamma E[grad V(s')]. Sending the scores on to s' leaves a product
        # over S rows rather than over S * A.
        reached = self._reached(scores)
        slopes = self._slopes(scores)
        with threads_for(2.0 * slopes.size * slopes.shape[1]):
            product: np.ndarray = self.mdp.discount * (reached.T @ slopes)
        return product

    def cross_weights(self, along: np.ndarray) -> np.ndarray:
        """Weights of scores, (S, A), that sum to (H12 + H12')p; `along` is p'grad log pi."""
        gain = self.probabilities * self.action_value
        gamma = self.mdp.discount
        value_along = self.accumulate((gain * along).sum(axis=1))  # p' grad V(s)
        ahead = self.occupancy * gamma * self.mdp.expected_next(value_along)  # H12 p
        behind = self.visits(gamma * self.flow(self.occupancy * along))  # H12' p
        found: np.ndarray = ahead + behind[:, None] * gain
        return found

    def responses(self, scores: np.ndarray) -> Responses:
        """What Definition 2 looks at, from scores of shape (S, A, n).

        Differential values are relative to each other, so that no parameter moves all of them one
        way. What the average reward adds up instead are the gains of single states.
        """
        gains = self.probabilities * self.action_value
        local = np.einsum("sa,sai->si", np.abs(gains), np.abs(scores))
        moves = np.abs(self.probabilities[:, :, None] * scores).max(axis=1)  # |grad pi|, (S, n)
        if self._averages:
            slopes = np.einsum("sa,sai->si", gains, scores)
        else:
            slopes, local = self._slopes(scores), self.accumulate(local)
        if self.ended is not None:
            moves[self.ended] = 0.0
        return Responses(np.arange(len(slopes)), slopes, moves, float(local.max()))

    def accumulate(self, x: np.ndarray) -> np.ndarray:
        """Discounted sum of `x` from each state on, (I - gamma P_pi)^-1 x; x is (S, ...)."""
        if not self._averages:
            return self._solve(x, False)
        frequency = self._cycle[1]
        summed = self._solve(x - np.tensordot(frequency, x, axes=1), False)
        found: np.ndarray = summed - np.tensordot(frequency, summed, axes=1)
        return found

    def visits(self, x: np.ndarray) -> np.ndarray:
        """Discounted visits when started from `x`, (I - gamma P_pi)^-T x; x is (S, ...)."""
        if not self._averages:
            found = self._solve(x, True)
            if self.ended is not None:
                found[self.ended] = 0.0
            return found
        frequency = self._cycle[1]
        reached = self._solve(x - np.multiply.outer(frequency, x.sum(axis=0)), True)
        balanced: np.ndarray = reached - np.multiply.outer(frequency, reached.sum(axis=0))
        return balanced

    @property
    def _averages(self) -> bool:
        return self.mdp.criterion == "average"

    def _slopes(self, scores: np.ndarray) -> np.ndarray:
        weights = self.probabilities * self.action_value
        return self.accumulate(np.einsum("sa,sai->si", weights, scores))

    def _reached(self, scores: np.ndarray) -> np.ndarray:
        return self.flow(scores * self.occupancy[:, :, None])

    @cached_property
    def _chain(self) -> Any:
        return closed_chain(self.mdp, self.probabilities)

    @cached_property
    def _cycle(self) -> tuple[Solution, np.ndarray]:
        """Solves with the chain that ends in a recurrent state, and the stationary distribution."""
        chain, n_states = self._chain, self.mdp.n_states
        members = recurrent_class(self.mdp, self.probabilities, chain)
        inflow = np.asarray(chain.sum(axis=0)).ravel()
        state = int(members[np.argmax(inflow[members])])
        for _ in range(2):
            solve = self._factorised(without(chain, np.array([state])))
            cycle = np.maximum(solve(np.eye(1, n_states, state)[0], True), 0.0)
            frequency = cycle / cycle.sum()
            often = int(np.argmax(frequency))
            if frequency[state] >= RARE * frequency[often]:
                break
            state = often  # a state that is hardly ever visited would cost digits
        return solve, frequency

    @cached_property
    def _solve(self) -> Solution:
        if self._averages:
            return self._cycle[0]
        chain = self._chain
        if self.ended is not None and self.ended.any():
            chain = without(chain, np.flatnonzero(self.ended))
        return self._factorised(chain)

    def _factorised(self, chain: Any) -> Solution:
        """Solves with I - gamma P for the chain P."""
        solution = self._sparse(chain) if self.mdp.is_sparse else self._dense(chain)
        if self.mdp.criterion in ("total", "average"):
            steps = solution(np.ones(self.mdp.n_states), False)  # until the end or the return
            if not (steps < MOST_STEPS).all() or not (steps > 0).all():
                raise SolveError(SINGULAR)
        return solution

    def _dense(self, chain: np.ndarray) -> Solution:
        system = np.eye(self.mdp.n_states) - self.mdp.discount * chain
        with threads_for(len(system) ** 3), warnings.catch_warnings():
            warnings.simplefilter("ignore", scipy.linalg.LinAlgWarning)  # the solution tells
            factor = scipy.linalg.lu_factor(system)

        def solve(x: np.ndarray, transposed: bool) -> np.ndarray:
            with threads_for(2.0 * len(system) * x.size):
                solved: np.ndarray = scipy.linalg.lu_solve(factor, x, trans=int(transposed))
            return solved

        return solve

    def _sparse(self, chain: Any) -> Solution:
        system = sparse.csr_array(sparse.eye_array(self.mdp.n_states) - self.mdp.discount * chain)
        hubs = _hubs(system)
        if self.mdp.linear_solver == "direct" or (
            self.mdp.linear_solver == "auto" and _banded_fill(system, hubs) <= DIRECT_FILL
        ):
            # Rows are diagonally dominant, so that no pivoting is needed and the order may be one
            # for symmetric patterns, with 40 % less fill on grids. Hubs would make it slow.
            symmetric = not hubs.any()
            try:
                direct = sparse_linalg.splu(
                    sparse.csc_array(system),
                    permc_spec="MMD_AT_PLUS_A" if symmetric else "COLAMD",
                    diag_pivot_thresh=0.0,
                    options={"SymmetricMode": symmetric},
                )
            except RuntimeError:  # a pivot is zero
                raise SolveError(SINGULAR) from None
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
        if (not failed and np.linalg.norm(rest) <= 1e-8 * size) or (
            np.linalg.norm(rest) <= 1e-10 * size
        ):
            break
    else:
        # Rings, on which BiCGSTAB breaks down at every start, are solved by full products.
        y, _ = sparse_linalg.gmres(
            system, column, rtol=ITERATIVE_TOLERANCE, atol=0.0, restart=100, maxiter=20
        )
        rest = column - system @ y
    if np.linalg.norm(rest) <= 1e-8 * size:
        found: np.ndarray = np.ldexp(y, exponent)
        return found
    raise SolveError(
        f"BiCGSTAB left a relative residual of {np.linalg.norm(rest) / size:.2g} on the closed "
        f"loop of {len(x)} states; pass `FiniteMDP(..., linear_solver='direct')`."
    )
