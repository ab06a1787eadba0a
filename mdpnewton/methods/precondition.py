"""Directions from a linear system: Newton, natural, and both Gauss-Newton methods."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import PyTree

from mdpnewton.curvature import curvature
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.forms import Form
from mdpnewton.hessian import DifferencedHessian, policy_hessian
from mdpnewton.methods.abstract import Method, Situation
from mdpnewton.solve import Dense, Operator, Solver, SolveReport


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
        operator: Operator = negated
        return operator
