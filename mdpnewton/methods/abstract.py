"""What a method sees and what it answers."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import equinox as eqx
from jaxtyping import PyTree

from mdpnewton.evaluation import Evaluation, Evaluator, WeightedPairs
from mdpnewton.policies import Policy
from mdpnewton.solve import SolveReport
from mdpnewton.steps import StepRule


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
    """All that a method may look at: where we are and what the evaluator said.

    `radius` is that of the step rule, for methods whose step a region limits.
    """

    policy: Policy
    w: PyTree
    evaluation: Evaluation
    gradient: PyTree
    evaluator: Evaluator | None
    key: Any
    radius: float | None = None

    @property
    def pairs(self) -> WeightedPairs:
        """The evaluation, for a method that needs pairs."""
        if not isinstance(self.evaluation, WeightedPairs):
            raise ValueError(
                "this method looks at pairs of states and actions, and the evaluation has matrices "
                "only; use steepest, natural or second Gauss-Newton."
            )
        return self.evaluation


class Method(eqx.Module):
    """A rule for a search direction."""

    @property
    def usual_step(self) -> StepRule | None:
        """The step rule that the method is made for, if there is one."""
        return None

    @abstractmethod
    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """The direction and the report of the solve behind it."""
