"""How far to go along a direction.

A rule looks at U along the line w + size * d and returns a `Step`. It never changes the
parameters itself: a step that is not accepted leaves exactly the old ones.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import equinox as eqx

from mdpnewton.evaluation import Evaluation


@dataclass(frozen=True)
class Step:
    """Decision of a step rule.

    Attributes:
        size: Multiple of the direction to move by.
        accepted: Whether to move; False means to stay at the old parameters.
        reason: Why the step was not accepted, or why it differs from what was requested.
        evaluations: Number of points that the rule looked at.
        divergence: Mean KL divergence of the step, if the rule measured it.
        share: Share of the usual length that the step has, if the rule shortened it because the
            previous step was undone.
        radius: Radius of the region that the next step should have, if the rule sets one.
        ratio: Rise of U by the gain that the region's model promised, if the rule compared them.
    """

    size: float
    accepted: bool = True
    reason: str = ""
    evaluations: int = 0
    divergence: float = float("nan")
    share: float = 1.0
    radius: float = math.nan
    ratio: float = math.nan

    @property
    def undone(self) -> bool:
        """Whether the step led somewhere and the search came back."""
        return self.size > 0 and not self.accepted


@dataclass(frozen=True)
class Region:
    """Certificate of a step that maximises a quadratic model of U within a region.

    The model is b's - s'As / 2, for a cubic term less |s|^3 / (6 radius). The step s is its global
    maximum if (A + multiplier I) s = b, which the residual of the report says, and if the smallest
    curvature of A, which the report has too, is not below minus the multiplier.

    Attributes:
        radius: Largest length of a step; for a cubic term one over its weight.
        gain: What the model promises, cubic term included.
        multiplier: Multiple of the identity that the region adds to A.
        boundary: Whether the region limited the step; a cubic term always does.
    """

    radius: float = math.nan
    gain: float = math.nan
    multiplier: float = math.nan
    boundary: bool = False


NOWHERE = Region()  # of a step that no region limits


@dataclass
class Line:
    """U along a direction, with one key for every point: common random numbers.

    Attributes:
        start: Objective U at size 0.
        slope: Directional derivative at size 0.
        norm: Euclidean norm of the direction.
        objective_at: Function that gives U at a size; NaN where the policy or U is not finite.
        slope_at: Function that gives the directional derivative at a size; None if it is not
            available.
        divergence_at: Function that gives the mean KL divergence of the policy at a size from the
            policy at 0; it needs no new samples.
        surrogate_at: Function that gives the rise of the objective from size 0 to a size, as the
            samples at size 0 promise it by importance weights.
        fisher_form: Function that gives d'Fd, with F the Fisher matrix of one decision, if the
            divergence is known to second order only: `divergence_at(size)` is then
            d'Fd size^2 / 2. Otherwise None.
        previous: The step before this one, as it ended; None at the first.
        risen: Rise of U since the line before this one.
        region: Certificate of the direction, if a region limited it.
    """

    start: float
    slope: float
    norm: float
    objective_at: Callable[[float], float]
    slope_at: Callable[[float], float] | None = None
    divergence_at: Callable[[float], float] | None = None
    surrogate_at: Callable[[float], float] | None = None
    fisher_form: Callable[[], float] | None = None
    previous: Step | None = None
    risen: float = math.nan
    region: Region = NOWHERE
    evaluations: int = 0
    _known: dict[float, float] = field(default_factory=dict)

    def objective(self, size: float) -> float:
        """U at `size`, computed once; minus infinity where it is not finite."""
        if size == 0:
            return self.start
        if size not in self._known:
            self.evaluations += 1
            value = self.objective_at(size)
            self._known[size] = value if math.isfinite(value) else -math.inf
        return self._known[size]


class StepRule(eqx.Module):
    """A rule that says how far to go along a direction."""

    @abstractmethod
    def choose(self, line: Line, iteration: int) -> Step:
        """Choose the step for this line, in iteration 0, 1, ..."""

    def region(self, previous: Step | None) -> float | None:
        """Region for the next step, for methods that have one; None leaves it to the method."""
        return None

    def keeps(self, before: Evaluation, after: Evaluation) -> bool:
        """Whether to stay at the new point, now that it has been evaluated."""
        return True

    def settled(self, step: Step, line: Line, before: Evaluation, after: Evaluation | None) -> Step:
        """The step as it stands, or undone, now that the new point has been evaluated.

        Args:
            step: What `choose` decided.
            line: The line that it was chosen for.
            before: Evaluation of the old point.
            after: Evaluation of the new point; None where it is not finite.
        """
        if after is None:
            return replace(step, accepted=False, reason="the objective is not finite there")
        if self.keeps(before, after):
            return step
        return replace(step, accepted=False, reason="the objective fell")
