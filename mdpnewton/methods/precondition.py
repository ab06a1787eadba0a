"""Directions from a linear system: Newton, natural, and both Gauss-Newton methods."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import choice, instance, number, refuse
from mdpnewton.curvature import curvature
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.forms import FORMS, Form, form_named
from mdpnewton.hessian import DifferencedHessian, policy_hessian
from mdpnewton.methods.abstract import Method, Situation
from mdpnewton.solve import Dense, Operator, RegionSolver, Solver, SolveReport
from mdpnewton.steps import RegionStep, StepRule


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

    def __check_init__(self) -> None:
        number("TightOffset", "margin", self.margin, least=0)

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
    r"""$d = M^{-1}\nabla U$ with $M = \pm C + \lambda G$: eq. (9), C a form or the full Hessian.

    The form says which sign makes d ascend, see `Form.positive`; for the Hessian it is minus.

    Attributes:
        curvature: A name in `FORMS`, or a `Form`; "hessian" for the full Hessian, exact or from
            episodes; "differenced_hessian" for Appendix B.3's differences of gradients, eq. (61).
        solver: Solves $M d = \nabla U$, eq. (55).
        fisher_damping: $\lambda$, the multiple of the Fisher matrix that is added: any finite
            number, or `TightOffset()`. For C = H2 it does what adding $\lambda(1-\gamma)$ to every
            reward would do.
    """

    curvature: str | Form
    solver: Solver = Dense()
    fisher_damping: float | TightOffset = 0.0

    def __check_init__(self) -> None:
        call = "Precondition"
        if not isinstance(self.curvature, Form):
            choice(call, "curvature", self.curvature, (*FORMS, "hessian", "differenced_hessian"))
        instance(call, "solver", self.solver, Solver, "pass a solver such as `Dense()`")
        if not isinstance(self.fisher_damping, TightOffset):
            number(call, "fisher_damping", self.fisher_damping)
        if self.curvature == "differenced_hessian" and self.fisher_damping:
            refuse(call, "fisher_damping", "must be 0 for 'differenced_hessian'; use 'hessian'")

    @property
    def usual_step(self) -> StepRule | None:
        """`RegionStep` if the solver has a region."""
        return RegionStep(self.solver.radius) if isinstance(self.solver, RegionSolver) else None

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        value, report = self.solver.within(at.radius).solve(self.operator(at), at.gradient)
        return value, replace(report, fisher_damping=self.damping(at))

    def damping(self, at: Situation) -> float:
        """lambda of this evaluation."""
        given = self.fisher_damping
        return given.damping(at.pairs) if isinstance(given, TightOffset) else given

    def operator(self, at: Situation) -> Operator:
        """The matrix that is solved with, M."""
        arguments = (at.policy, at.w, at.evaluation)
        fisher = "fisher"
        if self.curvature == "differenced_hessian":
            if at.evaluator is None:
                raise ValueError(
                    "`direction(method='hessian_free_newton')` evaluates the gradient anew beside "
                    "`w`; pass `evaluator=...`."
                )
            return DifferencedHessian(at.policy, at.w, at.gradient, at.evaluator, at.key)
        if self.curvature == "hessian":
            wanted: Any = -policy_hessian(*arguments)
        else:
            form = form_named("Precondition", self.curvature)
            wanted = curvature(*arguments, self.curvature) * (1.0 if form.positive else -1.0)
            fisher = "generalized_fisher" if form.output else "fisher"
        damping = self.damping(at)
        if damping:
            wanted = wanted + damping * curvature(*arguments, fisher)
        operator: Operator = wanted
        return operator
