"""Finite Markov decision processes, validated on construction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from mdpnewton.threads import threads_for

ROW_TOLERANCE = 1e-8  # how far from 1 the sum of a distribution may be


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
    linear_solver: Literal["auto", "direct", "iterative"] = "auto"

    def __post_init__(self) -> None:
        reward = _finite_array("reward", self.reward, 2)
        transition = _stored_transition(self.transition, reward.shape)
        start = _finite_array("start", self.start, 1)
        if start.shape != reward.shape[:1]:
            _refuse(
                "start",
                f"needs one probability per state: expected shape ({reward.shape[0]},), "
                f"got {start.shape}",
            )
        _check_rows("start", start[None], lambda row: "the whole of it")
        discount = float(self.discount)
        if not 0 <= discount < 1:
            _refuse("discount", f"must be in [0, 1), got {discount}")
        if self.linear_solver not in ("auto", "direct", "iterative"):
            _refuse(
                "linear_solver",
                f"must be 'auto', 'direct' or 'iterative', got {self.linear_solver!r}",
            )
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


def _refuse(name: str, rule: str) -> None:
    raise ValueError(f"`FiniteMDP({name}=...)` {rule}.")


def _finite_array(name: str, value: ArrayLike, ndim: int) -> np.ndarray:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`FiniteMDP({name}=...)` needs an array of numbers: {error}.") from None
    if array.ndim != ndim or array.size == 0:
        _refuse(name, f"needs {ndim} non-empty axes, got shape {array.shape}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        _refuse(name, f"must be finite, but entry {where} is {array[where]}")
    return array


def _stored_transition(value: Any, shape: tuple[int, ...]) -> Any:
    n_states, n_actions = shape
    if isinstance(value, Sequence) and any(sparse.issparse(matrix) for matrix in value):
        value = _stack_by_state(value, n_states, n_actions)
    if sparse.issparse(value):
        matrix = sparse.csr_array(value, dtype=float)
        if matrix.shape != (n_states * n_actions, n_states):
            _refuse(
                "transition",
                f"as one sparse matrix needs shape (S*A, S) = "
                f"({n_states * n_actions}, {n_states}) to match `reward`, got {matrix.shape}",
            )
        matrix.sum_duplicates()
        if not np.isfinite(matrix.data).all():
            _refuse("transition", "must be finite, but has NaN or infinite entries")
        stored = rows = matrix
    else:
        stored = _finite_array("transition", value, 3)
        if stored.shape != (n_states, n_actions, n_states):
            _refuse(
                "transition",
                f"needs shape (S, A, S) = ({n_states}, {n_actions}, {n_states}) to match "
                f"`reward`, got {stored.shape}",
            )
        rows = stored.reshape(-1, n_states)
    _check_rows(
        "transition", rows, lambda row: f"state {row // n_actions}, action {row % n_actions}"
    )
    return stored


def _stack_by_state(matrices: Sequence[Any], n_states: int, n_actions: int) -> sparse.coo_array:
    shapes = {tuple(matrix.shape) for matrix in matrices}
    if len(matrices) != n_actions or shapes != {(n_states, n_states)}:
        _refuse(
            "transition",
            f"as a sequence of sparse matrices needs {n_actions} of shape "
            f"({n_states}, {n_states}), got {len(matrices)} of shapes {sorted(shapes)}",
        )
    parts = [sparse.coo_array(matrix) for matrix in matrices]
    data = np.concatenate([part.data for part in parts])
    rows = np.concatenate([part.row * n_actions + a for a, part in enumerate(parts)])
    columns = np.concatenate([part.col for part in parts])
    return sparse.coo_array((data, (rows, columns)), shape=(n_states * n_actions, n_states))


def _check_rows(name: str, rows: Any, describe: Any) -> None:
    smallest = rows.min(axis=1).toarray().ravel() if sparse.issparse(rows) else rows.min(axis=1)
    if (smallest < 0).any():
        row = int(np.argmin(smallest))
        _refuse(name, f"has a negative probability, {smallest[row]:.6g}, in {describe(row)}")
    sums = np.asarray(rows.sum(axis=1)).ravel()
    if (np.abs(sums - 1) > ROW_TOLERANCE).any():
        row = int(np.argmax(np.abs(sums - 1)))
        _refuse(
            name,
            f"must sum to one over its last axis, but {describe(row)} sums to {sums[row]:.10g}; "
            f"normalise it, or send the missing probability to an absorbing state",
        )
