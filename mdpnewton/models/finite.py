"""Finite Markov decision processes, validated on construction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from mdpnewton.checks import choice, number, refuse
from mdpnewton.models.checks import check_distributions, check_finite, finite_array
from mdpnewton.threads import threads_for

CALL, FITS = "FiniteMDP", "to match `reward`"
LinearSolver = Literal["auto", "direct", "iterative"]


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    r"""A discounted MDP with finitely many states and actions, Section 2.1.

    Attributes:
        transition: Transition probabilities $P(s'|s,a)$: a dense array of shape (S, A, S), or for
            large problems scipy sparse: one matrix of shape (S*A, S) with row `s * A + a`, or a
            sequence of A matrices of shape (S, S). Sparse forms are stored as the one CSR matrix.
        reward: Reward $R(s,a)$, shape (S, A).
        start: Distribution $D$ of the first state, shape (S,).
        discount: Discount factor $\gamma$ in [0, 1).
        linear_solver: How a sparse closed loop is solved: by "direct" (LU), by "iterative"
            (BiCGSTAB), or by "auto", which uses LU where a narrow band bounds its fill-in, as on
            grids, and BiCGSTAB elsewhere. Dense problems always use LU.
    """

    transition: Any
    reward: np.ndarray
    start: np.ndarray
    discount: float
    linear_solver: LinearSolver = "auto"

    def __post_init__(self) -> None:
        reward = finite_array(CALL, "reward", self.reward, 2)
        transition = _stored_transition(self.transition, reward.shape)
        start = finite_array(
            CALL, "start", self.start, 1, shape=reward.shape[:1], letters="(S,)", fits=FITS
        )
        check_distributions(CALL, "start", start[None], lambda row: "the whole of it")
        discount = number(CALL, "discount", self.discount, least=0, below=1)
        choice(CALL, "linear_solver", self.linear_solver, get_args(LinearSolver))
        for name, value in (
            ("reward", reward),
            ("transition", transition),
            ("start", start),
            ("discount", discount),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return len(self.reward)

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return int(self.reward.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether `transition` is the CSR matrix of shape (S*A, S)."""
        return bool(sparse.issparse(self.transition))

    @property
    def transition_matrix(self) -> Any:
        """The transitions with one row per pair, (S*A, S), dense or CSR."""
        if self.is_sparse:
            return self.transition
        return self.transition.reshape(-1, self.n_states)

    def expected_next(self, x: np.ndarray) -> np.ndarray:
        """E[x(s') | s, a] for x of shape (S, ...), as (S, A, ...)."""
        with threads_for(2.0 * self.reward.size * x.size):
            product: np.ndarray = self.transition_matrix @ x.reshape(self.n_states, -1)
        return product.reshape(*self.reward.shape, *x.shape[1:])


def _stored_transition(value: Any, shape: tuple[int, ...]) -> Any:
    n_states, n_actions = shape
    if isinstance(value, Sequence) and any(sparse.issparse(matrix) for matrix in value):
        value = _stack_by_state(value, n_states, n_actions)
    if sparse.issparse(value):
        matrix = sparse.csr_array(value, dtype=float)
        if matrix.shape != (n_states * n_actions, n_states):
            refuse(
                CALL,
                "transition",
                f"as one sparse matrix needs shape (S*A, S) = "
                f"({n_states * n_actions}, {n_states}) to match `reward`, got {matrix.shape}",
            )
        matrix.sum_duplicates()
        check_finite(CALL, "transition", matrix)
        stored = rows = matrix
    else:
        whole = (n_states, n_actions, n_states)
        stored = finite_array(
            CALL, "transition", value, 3, shape=whole, letters="(S, A, S)", fits=FITS
        )
        rows = stored.reshape(-1, n_states)

    def called(row: int) -> str:
        return f"state {row // n_actions}, action {row % n_actions}"

    check_distributions(CALL, "transition", rows, called)
    return stored


def _stack_by_state(matrices: Sequence[Any], n_states: int, n_actions: int) -> sparse.coo_array:
    shapes = {tuple(matrix.shape) for matrix in matrices}
    if len(matrices) != n_actions or shapes != {(n_states, n_states)}:
        refuse(
            CALL,
            "transition",
            f"as a sequence of sparse matrices needs {n_actions} of shape "
            f"({n_states}, {n_states}), got {len(matrices)} of shapes {sorted(shapes)}",
        )
    parts = [sparse.coo_array(matrix) for matrix in matrices]
    data = np.concatenate([part.data for part in parts])
    rows = np.concatenate([part.row * n_actions + a for a, part in enumerate(parts)])
    columns = np.concatenate([part.col for part in parts])
    return sparse.coo_array((data, (rows, columns)), shape=(n_states * n_actions, n_states))
