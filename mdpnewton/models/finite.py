"""Finite Markov decision processes, validated on construction."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy import sparse

from mdpnewton.checks import choice, refuse
from mdpnewton.models.checks import check_distributions, check_finite, finite_array
from mdpnewton.models.criteria import Criterion, checked_criterion
from mdpnewton.models.names import Numbers, checked_names
from mdpnewton.threads import threads_for

CALL, FITS = "FiniteMDP", "to match `reward`"
LinearSolver = Literal["auto", "direct", "iterative"]


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    r"""An MDP with finitely many states and actions, Section 2.1.

    Attributes:
        transition: Transition probabilities $P(s'|s,a)$: a dense array of shape (S, A, S), or for
            large problems scipy sparse: one matrix of shape (S*A, S) with row `s * A + a`, or a
            sequence of A matrices of shape (S, S). Sparse forms are stored as the one CSR matrix.
        reward: Reward $R(s,a)$, shape (S, A).
        start: Distribution $D$ of the first state, shape (S,).
        discount: Discount factor $\gamma$ in [0, 1). It is 1 for the criteria "total" and
            "average", which need none, and in [0, 1] for "finite", where it is 1 unless given.
        linear_solver: How a sparse closed loop is solved: by "direct" (LU), by "iterative"
            (BiCGSTAB), or by "auto", which uses LU where a narrow band bounds its fill-in, as on
            grids, and BiCGSTAB elsewhere. Dense problems always use LU.
        criterion: What the objective adds up: "discounted" rewards; "total" rewards until the
            process ends, in states that no action leaves or earns in, or by `stop`; the rewards of
            a "finite" number of steps; or the "average" reward per step.
        horizon: Number of actions, for the criterion "finite" and no other.
        stop: Probability $\mathrm{stop}(s,a)$ that the process ends after an action, shape (S, A);
            None if it never does. The probabilities of a pair's next states and this one sum to 1.
        state_names: Names of the states in errors, tables and figures; None for their numbers.
        action_names: Names of the actions; None for their numbers.
    """

    transition: Any
    reward: np.ndarray
    start: np.ndarray
    discount: float = None  # type: ignore[assignment]  # a number as soon as it is checked
    linear_solver: LinearSolver = "auto"
    criterion: Criterion = "discounted"
    horizon: int | None = None
    stop: np.ndarray | None = None
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        reward = finite_array(CALL, "reward", self.reward, 2)
        n_states, n_actions = reward.shape
        names = {
            "state_names": checked_names(CALL, "state_names", self.state_names, n_states),
            "action_names": checked_names(CALL, "action_names", self.action_names, n_actions),
        }
        for name, called in names.items():
            object.__setattr__(self, name, called)
        discount, horizon = checked_criterion(CALL, self.criterion, self.discount, self.horizon)
        stop = None if self.stop is None else self._checked_stop(reward.shape)
        transition = _stored_transition(self.transition, reward.shape)
        rows = transition if sparse.issparse(transition) else transition.reshape(-1, n_states)
        check_distributions(CALL, "transition", rows, self._pair, stop)
        start = finite_array(
            CALL, "start", self.start, 1, shape=reward.shape[:1], letters="(S,)", fits=FITS
        )
        check_distributions(CALL, "start", start[None], lambda row: "the whole of it")
        choice(CALL, "linear_solver", self.linear_solver, get_args(LinearSolver))
        for name, value in (
            ("reward", reward),
            ("transition", transition),
            ("start", start),
            ("discount", discount),
            ("horizon", horizon),
            ("stop", stop),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_function(
        cls, states: Any, actions: Any, step: Any, *, most: int = 10_000_000, **given: Any
    ) -> "FiniteMDP":
        """The problem that a function describes, explored from its start states; it is sparse.

        Args:
            states: The start states, which are equally likely, or their probabilities in a dict.
                States are hashable; they become names and are numbered as they are reached.
            actions: The actions in a list, or a function from a state to the actions it offers.
                An action that a state does not offer does there what its first one does.
            step: Function of state and action that yields (probability, next state, reward, done);
                with `done` the process stops, whatever the next state.
            most: Maximum number of states.
            given: Further arguments of `FiniteMDP`, as `discount`; without discount and criterion
                the reward is "total".
        """
        from mdpnewton.models.bringing import from_function

        return from_function(states, actions, step, most, given)

    @classmethod
    def from_gymnasium(cls, environment: Any, **given: Any) -> "FiniteMDP":
        """The problem of a tabular environment, such as FrozenLake, with the numbers of its states.

        Args:
            environment: An environment with a table `P` of (probability, next state, reward,
                terminated) for each state and action, or its name.
            given: Further arguments of `FiniteMDP`, as `discount`; without discount and criterion
                the reward is "total".
        """
        from mdpnewton.models.bringing import from_gymnasium

        return from_gymnasium(environment, given)

    @classmethod
    def from_discrete_dp(cls, ddp: Any, **given: Any) -> "FiniteMDP":
        """The problem of a QuantEcon `DiscreteDP`, in product form or as pairs; start is uniform.

        Args:
            ddp: Anything with its attributes `R`, `Q`, `beta` and, for pairs, `s_indices` and
                `a_indices`. Pairs that are missing or earn minus infinity are not offered.
            given: Further arguments of `FiniteMDP`, as `start` or `criterion`.
        """
        from mdpnewton.models.bringing import from_discrete_dp

        return from_discrete_dp(ddp, given)

    @classmethod
    def from_matrices(cls, P: Any, R: Any, **given: Any) -> "FiniteMDP":
        """The problem of matrices as pymdptoolbox takes them; start is uniform unless given.

        Args:
            P: One matrix (S, S) per action, dense or scipy sparse, or an array (A, S, S).
            R: Rewards (S,) or (S, A), or one matrix (S, S) per action for rewards that depend on
                the next state.
            given: Further arguments of `FiniteMDP`, as `discount` or `start`; without discount and
                criterion the reward is "total".
        """
        from mdpnewton.models.bringing import from_matrices

        return from_matrices(P, R, given)

    def _checked_stop(self, shape: tuple[int, ...]) -> np.ndarray | None:
        stop = finite_array(CALL, "stop", self.stop, 2, shape=shape, letters="(S, A)", fits=FITS)
        if (stop < 0).any() or (stop > 1).any():
            row = int(np.argmax(np.maximum(-stop, stop - 1)))
            refuse(
                CALL,
                "stop",
                f"must be a probability, got {stop.flat[row]:.6g} in {self._pair(row)}",
            )
        if stop.any() and self.criterion == "average":
            rule = "must be zero for criterion 'average', which goes on for ever"
            refuse(CALL, "stop", f"{rule}; send the probability to a start state, or use 'total'")
        return stop if stop.any() else None

    def _pair(self, row: int) -> str:
        """A pair of a state and an action as an error tells it."""
        state, action = divmod(row, np.shape(self.reward)[1])
        return f"state {self.states[state]}, action {self.actions[action]}"

    @property
    def n_states(self) -> int:
        """Number of states S."""
        return len(self.reward)

    @property
    def states(self) -> Sequence[str]:
        """Names of the states, or their numbers as text."""
        return self.state_names or Numbers(len(self.reward))

    @property
    def actions(self) -> Sequence[str]:
        """Names of the actions, or their numbers as text."""
        return self.action_names or Numbers(np.shape(self.reward)[1])

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
        return matrix
    whole = (n_states, n_actions, n_states)
    return finite_array(CALL, "transition", value, 3, shape=whole, letters="(S, A, S)", fits=FITS)


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
