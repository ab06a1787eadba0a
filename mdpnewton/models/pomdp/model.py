"""Finite POMDPs, validated on construction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy import sparse

from mdpnewton.checks import choice, instance, refuse, whole
from mdpnewton.models.checks import check_distributions, check_finite, finite_array
from mdpnewton.models.criteria import Criterion, checked_criterion
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.pomdp.outcomes import OutcomeReward

CALL = "FinitePOMDP"


@dataclass(frozen=True, eq=False)
class FinitePOMDP:
    r"""A POMDP with finitely many states, actions and observations.

    Dense models hold arrays, large ones tuples of scipy CSR matrices; if either `transition` or
    `observation` is sparse, both are stored as sparse. In both cases the first index is the action.

    Attributes:
        transition: Transition probabilities $p(s'|s,a)$, shape (A, S, S'), or a sequence of A
            sparse matrices (S, S').
        observation: Observation probabilities $p(o|s',a)$ after the action, shape (A, S', O), or a
            sequence of A sparse matrices.
        reward: Reward $R(s,a)$, shape (S, A), always a reward and not a cost; None to take the
            expectation of `outcome_reward`.
        start: Distribution of the first state, shape (S,).
        discount: Discount factor $\gamma$ in [0, 1), or 1 for the criterion "total" or "average".
        first_observation: Distribution $p(o_0|s_0)$ of an observation before the first action,
            shape (S, O); None if there is none, as in the .pomdp format.
        outcome_reward: Reward $R(a,s,s',o)$, if rewards depend on more than state and action;
            otherwise it is stored as None and `reward` says everything.
        values: Whether a file of the model counts in "reward" or in "cost".
        states: Names of the states, or None.
        actions: Names of the actions, or None.
        observations: Names of the observations, or None.
        rescaled_rows: Number of distributions that a reader had to divide by their sum.
        criterion: What the objective adds up: see `FiniteMDP`.
        horizon: Number of actions, for the criterion "finite" and no other.
    """

    transition: Any
    observation: Any
    reward: Any
    start: np.ndarray
    discount: float = None  # type: ignore[assignment]  # a number as soon as it is checked
    first_observation: Any = None
    outcome_reward: OutcomeReward | None = None
    values: Literal["reward", "cost"] = "reward"
    states: tuple[str, ...] | None = None
    actions: tuple[str, ...] | None = None
    observations: tuple[str, ...] | None = None
    rescaled_rows: int = 0
    criterion: Criterion = "discounted"
    horizon: int | None = None

    def __post_init__(self) -> None:
        transition, observation = _same_form(
            _matrices("transition", self.transition), _matrices("observation", self.observation)
        )
        sizes = _check_shapes(transition, observation)
        start = _distributions("start", self.start, (sizes["states"],), "S")
        discount, horizon = checked_criterion(CALL, self.criterion, self.discount, self.horizon)
        choice(CALL, "values", self.values, ("reward", "cost"))
        whole(CALL, "rescaled_rows", self.rescaled_rows)
        if self.outcome_reward is not None:
            remedy = "pass rules and their values"
            instance(CALL, "outcome_reward", self.outcome_reward, OutcomeReward, remedy)
        kept: dict[str, Any] = {
            "transition": transition,
            "observation": observation,
            "start": start,
            "discount": discount,
            "horizon": horizon,
        }
        if self.first_observation is not None:
            shape = (sizes["states"], sizes["observations"])
            kept["first_observation"] = _distributions(
                "first_observation", self.first_observation, shape, "S, O"
            )
        for name, size in sizes.items():
            if getattr(self, name) is not None:
                kept[name] = _names(name, getattr(self, name), size)
        kept["reward"] = _reward(
            self.reward, self.outcome_reward, transition, observation, list(sizes.values())
        )
        if self.outcome_reward is not None and self.outcome_reward.of_pairs:
            kept["outcome_reward"] = None
        for name, value in kept.items():
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
    def n_observations(self) -> int:
        """Number of observations O."""
        return int(self.observation[0].shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether `transition` and `observation` are tuples of CSR matrices."""
        return isinstance(self.transition, tuple)

    def labels(self, kind: Literal["states", "actions", "observations"]) -> tuple[str, ...]:
        """Names of the states, actions or observations; numbers from "0" if they have no names."""
        return getattr(self, kind) or tuple(map(str, range(getattr(self, f"n_{kind}"))))

    def with_first_observation(self) -> "FinitePOMDP":
        """The same problem, except that the first state is observed before the first action.

        This needs observations with the same distribution after every action.
        """
        matrices = [sparse.csr_array(matrix).toarray() for matrix in self.observation]
        if any((matrix != matrices[0]).any() for matrix in matrices):
            raise ValueError(
                "`FinitePOMDP.with_first_observation()` needs observations that are the same after "
                "every action; pass `first_observation` to dataclasses.replace instead."
            )
        return replace(self, first_observation=matrices[0])

    def fully_observed(self) -> FiniteMDP:
        """The MDP of an agent that sees the states: no controller of observations earns more."""
        transition = list(self.transition) if self.is_sparse else np.swapaxes(self.transition, 0, 1)
        return FiniteMDP(
            transition,
            self.reward,
            self.start,
            self.discount,
            criterion=self.criterion,
            horizon=self.horizon,
            state_names=self.states,
            action_names=self.actions,
        )


def _matrices(name: str, value: Any) -> Any:
    if sparse.issparse(value):
        refuse(CALL, name, "needs one sparse matrix for each action, in a list, got a single one")
    if not isinstance(value, Sequence) or not any(map(sparse.issparse, value)):
        return finite_array(CALL, name, value, 3)
    stored = tuple(sparse.csr_array(matrix, dtype=float, copy=True) for matrix in value)
    for matrix in stored:
        matrix.sum_duplicates()
        check_finite(CALL, name, matrix)
    return stored


def _same_form(transition: Any, observation: Any) -> tuple[Any, Any]:
    if isinstance(transition, tuple) != isinstance(observation, tuple):
        return tuple(map(sparse.csr_array, transition)), tuple(map(sparse.csr_array, observation))
    return transition, observation


def _check_shapes(transition: Any, observation: Any) -> dict[str, int]:
    shapes = [tuple(matrix.shape) for matrix in transition]
    seen = [tuple(matrix.shape) for matrix in observation]
    if not shapes or set(shapes) != {(shapes[0][0], shapes[0][0])} or not shapes[0][0]:
        refuse(CALL, "transition", f"needs shape (A, S, S), got {len(shapes)} of {set(shapes)}")
    n, width = shapes[0][0], seen[0][1] if seen else 0
    if len(seen) != len(shapes) or set(seen) != {(n, width)} or not width:
        refuse(
            CALL,
            "observation",
            f"needs shape (A, S, O) = ({len(shapes)}, {n}, O) to match `transition`, got "
            f"{len(seen)} of {set(seen)}",
        )
    for name, matrices in (("transition", transition), ("observation", observation)):
        for action, matrix in enumerate(matrices):
            where = f"action {action}, state"
            check_distributions(CALL, name, matrix, f"{where} {{}}".format)
    return {"states": n, "actions": len(shapes), "observations": width}


def _distributions(name: str, value: Any, shape: tuple[int, ...], letters: str) -> np.ndarray:
    array = finite_array(CALL, name, value, len(shape), shape=shape, letters=f"({letters})")
    check_distributions(CALL, name, np.atleast_2d(array), "row {}".format)
    return array


def _names(name: str, value: Any, size: int) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    if len(names) != size or not all(isinstance(each, str) and each for each in names):
        refuse(CALL, name, f"needs {size} names or None, got {value!r}")
    if len(set(names)) != size:
        twice = next(each for each in names if names.count(each) > 1)
        refuse(CALL, name, f"must differ from each other, but {twice!r} occurs twice")
    return names


def _reward(
    reward: Any, outcome: OutcomeReward | None, transition: Any, observation: Any, sizes: list[int]
) -> np.ndarray:
    n_states, n_actions, n_observations = sizes
    if outcome is None and reward is None:
        refuse(CALL, "reward", "is None, which needs an `outcome_reward` to take its expectation")
    expected = None
    if outcome is not None:
        limits = np.array([n_actions, n_states, n_states, n_observations])
        if (outcome.rules >= limits).any():
            row = int(np.argmax((outcome.rules >= limits).any(axis=1)))
            refuse(
                CALL,
                "outcome_reward",
                f"has the rule {outcome.rules[row].tolist()}, beyond the sizes {limits.tolist()} "
                "of action, state, next state and observation",
            )
        expected = outcome.expected(transition, observation)
    if reward is None:
        return expected  # type: ignore[return-value]
    shape = (n_states, n_actions)
    array = finite_array(CALL, "reward", reward, 2, shape=shape, letters="(S, A)")
    if expected is not None and not np.allclose(array, expected, rtol=1e-9, atol=1e-12):
        refuse(CALL, "reward", "differs from the expectation of `outcome_reward`; pass None")
    return array
