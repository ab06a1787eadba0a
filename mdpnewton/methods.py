"""The methods of the paper, as a table, and the one way to ask any of them for a direction."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from mdpnewton.bound import maximize
from mdpnewton.curvature import curvature, gradient
from mdpnewton.evaluation import Evaluation, Evaluator, WeightedPairs
from mdpnewton.forms import Form
from mdpnewton.hessian import DifferencedHessian, policy_hessian, score_table
from mdpnewton.policies import Policy
from mdpnewton.solve import (
    Block,
    ConjugateGradient,
    Dense,
    Diagonal,
    Operator,
    Solver,
    SolveReport,
    inner,
    on_host,
)


@dataclass(frozen=True)
class Direction:
    """Where to go: always finite, in the sense of ascent, to be scaled by a step rule.

    Attributes:
        value: The direction d, shaped like `w`.
        gradient: The policy gradient at `w`.
        report: How it was found; `report.slope` is d' grad U.
    """

    value: PyTree
    gradient: PyTree
    report: SolveReport


@dataclass(frozen=True)
class Situation:
    """All that a method may look at: where we are and what the evaluator said."""

    policy: Policy
    w: PyTree
    evaluation: Evaluation
    gradient: PyTree
    evaluator: Evaluator | None
    key: Any

    @property
    def pairs(self) -> WeightedPairs:
        """The evaluation, for a method that needs pairs."""
        if not isinstance(self.evaluation, WeightedPairs):
            raise ValueError(
                "this method looks at pairs of states and actions, and the evaluation has matrices "
                "only; use steepest, natural or second Gauss-Newton."
            )
        return self.evaluation


class TightOffset(eqx.Module):
    r"""The multiple of G that takes the largest harmless constant off the values.

    $-H_2 + \lambda G$ with $\lambda = -\min V$ over the visited states weighs each state by
    $V(s) - \min V \geq 0$: no larger constant can be taken off with $-H_2$ still sure to be
    positive semidefinite. The step then does not depend on the offset of the rewards.

    Attributes:
        margin: This share of the range of V is left on, so that the states of least value
            keep some curvature too.
    """

    margin: float = 0.2

    def damping(self, evaluation: WeightedPairs) -> float:
        r"""$\lambda = -\min V + \text{margin} (\max V - \min V)$."""
        if evaluation.state_value is None:
            raise ValueError(
                "`TightOffset` needs state values, which this evaluator does not estimate; give "
                "`fisher_damping` as a number."
            )
        visited = np.asarray(evaluation.occupancy).sum(axis=1) > 0
        values = np.asarray(evaluation.state_value)[visited]
        return float(-values.min() + self.margin * (values.max() - values.min()))


class Method(eqx.Module):
    """A rule for a search direction."""

    @abstractmethod
    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """The direction and the report of the solve behind it."""


class Steepest(Method):
    """The gradient itself, eq. (10)."""

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        return at.gradient, SolveReport("none", "solved")


class RandomDirection(Method):
    """A direction drawn from the sphere of radius one: the control, which knows nothing."""

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        flat, unravel = ravel_pytree(at.gradient)
        if at.key is None:
            raise ValueError("`RandomDirection` draws at random; pass `key=...`.")
        drawn = jax.random.normal(jax.random.fold_in(at.key, flat.size), flat.shape, flat.dtype)
        return unravel(drawn / jnp.linalg.norm(drawn)), SolveReport("none", "solved")


class Precondition(Method):
    r"""$d = -C^{-1}\nabla U$, eq. (9), with C a row of `FORMS` or the full Hessian.

    Attributes:
        curvature: A name in `FORMS`; "hessian" for the exact Hessian of a finite MDP;
            "differenced_hessian" for Appendix B.3's differences of gradients, eq. (61).
        solver: Solves $-C d = \nabla U$, eq. (55).
        fisher_damping: $\lambda$ in $-C + \lambda G$. For C = H2 this is what adding
            $\lambda(1-\gamma)$ to every reward would do. A number, or `TightOffset()`.
    """

    curvature: str | Form
    solver: Solver = Dense()
    fisher_damping: float | TightOffset = 0.0

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        value, report = self.solver.solve(self.operator(at), at.gradient)
        return value, replace(report, fisher_damping=self.damping(at))

    def damping(self, at: Situation) -> float:
        """lambda of this evaluation."""
        given = self.fisher_damping
        return given.damping(at.pairs) if isinstance(given, TightOffset) else given

    def operator(self, at: Situation) -> Operator:
        """The matrix that is solved with, -C plus the damping."""
        arguments = (at.policy, at.w, at.evaluation)
        if self.curvature == "differenced_hessian":
            if at.evaluator is None:
                raise ValueError(
                    "`direction(method='hessian_free_newton')` evaluates the gradient anew beside "
                    "`w`; pass `evaluator=...`."
                )
            if self.fisher_damping:
                raise ValueError("`Precondition('differenced_hessian')` takes no Fisher damping.")
            return DifferencedHessian(at.policy, at.w, at.gradient, at.evaluator, at.key)
        if self.curvature == "hessian":
            negated: Any = -policy_hessian(at.policy, at.w, at.pairs)
        else:
            positive = self.curvature in ("fisher", "fisher_score", "generalized_fisher")
            negated = curvature(*arguments, self.curvature) * (1.0 if positive else -1.0)
        damping = self.damping(at)
        if damping:
            fisher = "generalized_fisher" if self.curvature == "generalized" else "fisher"
            negated = negated + damping * curvature(*arguments, fisher)
        return negated


class Compatible(Method):
    r"""The weights of the compatible critic, Section 6.2: least squares in place of a solve.

    $\theta$ minimises $\sum_i p_i (Q_i - \theta^\top\nabla\log\pi_i)^2$; with exact weights
    it is the natural gradient.

    Attributes:
        ridge: Multiple of $|\theta|^2$ added to the sum.
    """

    ridge: float = 0.0

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        theta, rank = _least_squares(
            _scores_of(at), at.pairs.occupancy, at.pairs.gradient_weights, self.ridge
        )
        flat, unravel = ravel_pytree(at.gradient)
        finite = bool(jnp.isfinite(theta).all())
        theta = theta if finite else jnp.zeros_like(theta)
        fisher = curvature(at.policy, at.w, at.evaluation, "fisher_score")
        error = ravel_pytree(fisher.mv(unravel(theta)))[0] + self.ridge * theta - flat
        norm = float(jnp.linalg.norm(flat))
        singular = int(rank) < theta.size
        return unravel(theta), SolveReport(
            solver="least_squares",
            status="not finite" if not finite else "singular" if singular else "solved",
            residual=float(jnp.linalg.norm(error)) / norm if norm > 0 else 0.0,
            singular=singular,
            ridge=self.ridge,
        )


class ExpectationMaximization(Method):
    r"""$d = \arg\max_v \mathcal{Q}(v, w) - w$, eq. (16): to be taken with step 1.

    In closed form where the policy has one, otherwise by a Newton trust-region search on the
    surrogate from `w`.

    Attributes:
        closed_form: Use the policy's closed form if it has one.
        tolerance: Norm of the surrogate's gradient, relative to that at `w`, at which the
            numeric search stops.
        iterations: At most this many steps of it.
    """

    closed_form: bool = True
    tolerance: float = 1e-10
    iterations: int = 200

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        pairs = at.pairs
        top = at.policy.maximum(at.w, pairs) if self.closed_form else None
        if top is not None:
            report = SolveReport("closed_form", "solved")
        else:
            bound = curvature(at.policy, at.w, pairs, "H2")
            top, report = maximize(bound, self.tolerance, self.iterations)
        value = jax.tree.map(lambda v, w: v - w, top, at.w)
        if not np.isfinite(on_host(value)).all():
            value = jax.tree.map(jnp.zeros_like, at.w)
            report = replace(report, status="not finite")
        return value, report


METHODS: dict[str, Method] = {
    "steepest": Steepest(),
    "natural": Precondition("fisher"),
    "conjugate_gradient_natural": Precondition("fisher_score", ConjugateGradient()),
    "compatible_natural": Compatible(),
    "expectation_maximization": ExpectationMaximization(),
    "newton": Precondition("hessian"),
    "conjugate_gradient_newton": Precondition("hessian", ConjugateGradient()),
    "hessian_free_newton": Precondition("differenced_hessian", ConjugateGradient()),
    "first_gauss_newton": Precondition("A1+A2"),
    "diagonal_first_gauss_newton": Precondition("A1+A2", Diagonal()),
    "block_first_gauss_newton": Precondition("A1+A2", Block()),
    "second_gauss_newton": Precondition("H2"),
    "diagonal_second_gauss_newton": Precondition("H2", Diagonal()),
    "block_second_gauss_newton": Precondition("H2", Block()),
    "conjugate_gradient_second_gauss_newton": Precondition("H2", ConjugateGradient()),
    "generalized_gauss_newton": Precondition("generalized", ConjugateGradient()),
    "network_natural": Precondition("generalized_fisher", ConjugateGradient()),
}


def method_named(method: str | Method) -> Method:
    """The method of that name, or the method itself."""
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[method]


def direction(
    method: str | Method,
    policy: Policy,
    w: PyTree,
    evaluation: Evaluation,
    *,
    evaluator: Evaluator | None = None,
    key: Any = None,
) -> Direction:
    """The search direction of a method at `w`.

    Args:
        method: A name in `METHODS`, or a `Method`.
        policy: The policy.
        w: Its parameters, any PyTree.
        evaluation: What an evaluator returned at `w`.
        evaluator: Only for "hessian_free_newton", which evaluates beside `w`.
        key: Handed to that evaluator.

    Returns:
        The direction, the gradient and a report. A failed solve or a descent direction is
        reported there, not raised.
    """
    at = Situation(policy, w, evaluation, gradient(policy, w, evaluation), evaluator, key)
    if not np.isfinite(on_host(at.gradient)).all():
        nothing = jax.tree.map(jnp.zeros_like, w)
        return Direction(nothing, at.gradient, SolveReport("none", "not finite", float("nan"), 0))
    value, report = method_named(method).direct(at)
    return Direction(value, at.gradient, replace(report, slope=inner(value, at.gradient)))


def _scores_of(at: Situation) -> Array:
    """Grad log pi of every pair, (pairs, n)."""
    table = score_table(at.policy, at.w, at.pairs)
    return jnp.asarray(table.reshape(-1, table.shape[2]))


@eqx.filter_jit
def _least_squares(table: Array, occupancy: Array, value: Array, ridge: float) -> Any:
    weight = jnp.sqrt(occupancy.ravel())
    seen = weight > 0
    # The fit to Q and the fit to A have the same normal equations where E grad log pi = 0.
    target = jnp.where(seen, value.ravel() / jnp.where(seen, weight, 1.0), 0.0)
    rows = weight[:, None] * table
    if ridge:
        rows = jnp.concatenate([rows, ridge**0.5 * jnp.eye(table.shape[1])])
        target = jnp.concatenate([target, jnp.zeros(table.shape[1])])
    theta, _, rank, _ = jnp.linalg.lstsq(rows, target)
    return theta, rank
