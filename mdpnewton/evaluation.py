"""What crosses the layers: the weights that an evaluator gives to state-action pairs."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn, Protocol, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from mdpnewton.forms import FORMS, Form
from mdpnewton.models.policy_chain import PolicyChain


class Crossing(Protocol):
    """How the score of a decision meets the gradient of what follows it: all that H12 needs."""

    def cross_term(self, scores: np.ndarray) -> np.ndarray:
        """H12, eq. (20), shape (m, m), from scores of shape (n, k, m)."""

    def cross_weights(self, along: np.ndarray) -> np.ndarray:
        """Weights of scores, (n, k), that sum to (H12 + H12')p; `along` is p'grad log pi."""


class WeightedPairs(eqx.Module):
    """n states with k actions each, and the three weights that an evaluator gives to every pair.

    Sampled pairs have k = 1; an exact finite evaluator lists every action of every state. The
    weights contain the occupancy already. Nothing is ever differentiated through them.

    Attributes:
        states: The states; their leading axis is n.
        actions: The actions; their leading axes are n and k.
        occupancy: Occupancy p_gamma(s, a), eq. (7).
        value: Weights p_gamma(s, a) Q(s, a), eq. (16).
        advantage: Weights p_gamma(s, a) A(s, a), Theorem 4.
        objective: Objective U(w), known exactly or estimated.
        objective_error: Standard error of `objective`; 0 if it is exact.
        ascent: Weights of the gradient if they differ from `value`: subtracting a baseline lowers
            the variance and leaves the mean, since E grad log pi = 0 in every state.
        state_value: Value V(s), known exactly or estimated; None if it is unknown.
        complete: Whether the k actions of a state are all its actions, so that sums over
            them are expectations. It allows exact shortcuts, never approximations.
        averaged: Whether an action stands for many, and log pi for its average over them. Forms
            with products of scores are then refused.
        closed_loop: The Markov chain behind an exact finite evaluation, else None.
        crossing: How sampled decisions meet what follows them, for H12 and the full Hessian; None
            if it is unknown, or if `closed_loop` knows it exactly.
        stage: Number of the problem, for an evaluator that goes from easier problems to harder
            ones. Objectives of different stages are not compared.
    """

    states: PyTree[Array | np.ndarray]
    actions: PyTree[Array | np.ndarray]
    occupancy: Float[Array, "n k"]
    value: Float[Array, "n k"]
    advantage: Float[Array, "n k"]
    objective: float
    objective_error: float = 0.0
    ascent: Float[Array, "n k"] | None = None
    state_value: Float[Array, " n"] | None = None
    complete: bool = eqx.field(static=True, default=False)
    averaged: bool = eqx.field(static=True, default=False)
    closed_loop: PolicyChain | None = None
    crossing: Crossing | None = None
    stage: int = eqx.field(static=True, default=0)

    def __check_init__(self) -> None:
        shape = self.occupancy.shape
        if len(shape) != 2:
            raise ValueError(
                f"`WeightedPairs(occupancy=...)` needs shape (states, actions per state), got "
                f"{shape}; for one action per state add an axis: `occupancy[:, None]`."
            )
        for name in ("value", "advantage", "ascent"):
            if name == "ascent" and self.ascent is None:
                continue
            if getattr(self, name).shape != shape:
                raise ValueError(
                    f"`WeightedPairs({name}=...)` needs one weight per pair: expected shape "
                    f"{shape} to match `occupancy`, got {getattr(self, name).shape}."
                )
        for name, lead in (("states", shape[:1]), ("actions", shape)):
            for leaf in jax.tree.leaves(getattr(self, name)):
                if leaf.shape[: len(lead)] != lead:
                    raise ValueError(
                        f"`WeightedPairs({name}=...)` needs leading axes {lead} to match "
                        f"`occupancy`, got shape {leaf.shape}."
                    )

    def weights(self, name: str, *, squares: bool) -> Float[Array, "n k"]:
        """The weights with this name, for a form with or without squares of scores."""
        if self.averaged and squares:
            raise ValueError(
                "this evaluation knows averages of log pi, not of squares of scores; use H2, A2, "
                "V2 or 'fisher', or for a LinearGaussianMDP `linear_gaussian_terms`."
            )
        found: Array = getattr(self, name)
        return found

    @property
    def baseline(self) -> Float[Array, "n k"]:
        """p_gamma(s, a) V(s), eq. (45)."""
        if self.state_value is None:
            return self.value - self.advantage
        return self.occupancy * self.state_value[:, None]

    @property
    def gradient_weights(self) -> Float[Array, "n k"]:
        """The weights of grad log pi in the policy gradient, eq. (11)."""
        return self.value if self.ascent is None else self.ascent


class Matrix(eqx.Module):
    """A symmetric matrix that is given by its entries, as an operator on PyTrees like `w`."""

    w: PyTree
    entries: Float[Array, "n n"]

    def __add__(self, other: "Matrix") -> "Matrix":
        return Matrix(self.w, self.entries + other.dense())

    def __mul__(self, factor: float) -> "Matrix":
        return Matrix(self.w, factor * self.entries)

    __rmul__ = __mul__

    def __neg__(self) -> "Matrix":
        return self * -1.0

    def mv(self, p: PyTree) -> PyTree:
        """The product with p."""
        flat, unravel = ravel_pytree(p)
        return unravel(self.entries @ flat)

    def dense(self) -> Float[Array, "n n"]:
        """The matrix."""
        return self.entries

    def diagonal(self) -> PyTree:
        """Its diagonal."""
        return ravel_pytree(self.w)[1](jnp.diagonal(self.entries))

    def blocks(self) -> list[Float[Array, "1 m m"]]:
        """The diagonal block of every leaf of `w`."""
        ends = np.cumsum([leaf.size for leaf in jax.tree.leaves(self.w)])
        begins = [0, *ends[:-1]]
        return [self.entries[i:j, i:j][None] for i, j in zip(begins, ends, strict=True)]


class MatrixDiagonal(eqx.Module):
    """The diagonal of a symmetric matrix of which nothing else is known, for `Diagonal` solves."""

    w: Float[Array, " n"]
    entries: Float[Array, " n"]

    def __add__(self, other: "MatrixDiagonal") -> "MatrixDiagonal":
        return MatrixDiagonal(self.w, self.entries + other.diagonal())

    def __mul__(self, factor: float) -> "MatrixDiagonal":
        return MatrixDiagonal(self.w, factor * self.entries)

    __rmul__ = __mul__

    def __neg__(self) -> "MatrixDiagonal":
        return self * -1.0

    def diagonal(self) -> Float[Array, " n"]:
        """The diagonal."""
        return self.entries

    def mv(self, p: Float[Array, " n"]) -> NoReturn:
        """Refused, and with it iterative solvers and the divergence of a step."""
        self._refuse("mv")

    def dense(self) -> NoReturn:
        """Refused."""
        self._refuse("dense")

    def blocks(self) -> NoReturn:
        """Refused."""
        self._refuse("blocks")

    def _refuse(self, name: str) -> NoReturn:
        raise ValueError(
            f"`{name}` of this matrix is not available, because only the diagonal was accumulated; "
            f"use a method with `solver=Diagonal()` and a step rule that needs no divergence, or "
            f"evaluate with `diagonal=False`."
        )


class AccumulatedMatrices(eqx.Module):
    """Gradient and matrices that a simulator adds up itself, if pairs are too many to keep.

    Attributes:
        gradient: Gradient of U, shaped like `w`.
        matrices: The accumulated matrices, by their names in `FORMS`; a vector is the diagonal of
            a matrix of which nothing else was accumulated.
        objective: Estimated objective U(w).
        objective_error: Standard error of `objective`.
        decisions: Number of decisions behind the matrices, in the unit of the objective: "fisher"
            divided by it is the Fisher matrix of one decision.
        stage: As in `WeightedPairs`.
    """

    gradient: PyTree
    matrices: dict[str, Float[Array, "n n"] | Float[Array, " n"]]
    objective: float
    objective_error: float = 0.0
    decisions: float = 1.0
    stage: int = eqx.field(static=True, default=0)

    def matrix(self, w: PyTree, form: str | Form) -> Matrix | MatrixDiagonal:
        """The matrix of that name, or of a form that equals the row of one of the names."""
        for name, entries in self.matrices.items():
            if form in (name, FORMS.get(name)):
                return Matrix(w, entries) if entries.ndim == 2 else MatrixDiagonal(w, entries)
        raise ValueError(
            f"this evaluation accumulated {', '.join(self.matrices)}, and not {form!r}: its "
            f"simulator adds up matrices in place of pairs; use a method that needs those."
        )


Evaluation = WeightedPairs | AccumulatedMatrices

# Plain data: dictionaries, lists, numbers, strings, None and NumPy arrays, so that it can be saved.
State = Mapping[str, Any]


class Evaluator(ABC):
    """Turns a policy at `w` into an evaluation. Exact evaluators ignore the key.

    `search` calls nothing but methods of this class. An evaluator that remembers something
    between evaluations returns it from `state`, and another one that was built in the same way goes
    on from there, bit for bit, once it is `restored`. A wrapper passes all methods on.
    """

    @abstractmethod
    def evaluate(self, key: Any, policy: Any, w: PyTree) -> Evaluation:
        """The weighted pairs or matrices at `w`."""

    @abstractmethod
    def objective(self, key: Any, policy: Any, w: PyTree) -> float:
        """U(w) alone: what a line search asks for."""

    def revisit(self, key: Any, policy: Any, w: PyTree, known: Evaluation) -> Evaluation:
        """Evaluate a point that the search returns to because it undid a step.

        Without a key nothing is random, and `known` stands; otherwise the point is evaluated again,
        so that a lucky draw does not stay for ever.

        Args:
            key: Random key for samples, or None.
            policy: The policy.
            w: The parameters that the search returns to.
            known: The evaluation that was made there before.
        """
        return known if key is None else self.evaluate(key, policy, w)

    def again(self, key: Any, policy: Any, w: PyTree) -> Evaluation:
        """Rebuild the last evaluation, which a search that goes on begins with.

        It changes nothing that the evaluator remembers.

        Args:
            key: The key that the evaluation was made with, or None.
            policy: The policy.
            w: The parameters at which it was made.
        """
        return self.restored(self.state()).evaluate(key, policy, w)

    def state(self) -> State:
        """What the evaluator remembers between evaluations, as plain data."""
        return {}

    def restored(self, state: State) -> Self:
        """Return a copy of this evaluator with the state of another one, built in the same way.

        Raises:
            ValueError: The state does not fit.
        """
        if state:
            raise ValueError(
                f"`{type(self).__name__}.restored(state)` remembers nothing, but was given "
                f"{', '.join(state)}; restore the evaluator that the state came from."
            )
        return self
