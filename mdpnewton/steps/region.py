"""Steps that a model of U limits itself: how far the model is trusted follows what steps bring."""

import math
from dataclasses import replace

from mdpnewton.checks import number
from mdpnewton.evaluation import Evaluation
from mdpnewton.steps.abstract import Line, Step, StepRule

ROUND_OFF = 1e-13  # of U, which a difference of two objectives cannot tell from zero


class RegionStep(StepRule):
    """Takes the step that a region's model promises, if U keeps enough of the promise.

    The ratio of the rise of U to the gain of the model decides: the step is undone if it is below
    `accept`, the region shrinks if it is below `poor` and grows if it is above `good` and the
    region limited the step. The objectives' own evaluations are compared, so that nothing else is
    played or solved. For samples both sides of the ratio are relaxed by the noise (Sun & Nocedal
    2023): a gain that drowns in noise neither undoes a step nor shrinks the region for ever.

    Attributes:
        radius: Region of the first step, see `Region`.
        largest: Largest region.
        accept: Ratio below which a step is undone.
        poor: Ratio below which the region shrinks.
        good: Ratio above which it grows.
        shrink: Factor by which it shrinks.
        grow: Factor by which it grows.
        noise: Standard errors of the difference of both objectives by which the ratio is relaxed.
    """

    radius: float = 1.0
    largest: float = 1e6
    accept: float = 1e-3
    poor: float = 0.25
    good: float = 0.75
    shrink: float = 0.25
    grow: float = 2.0
    noise: float = 1.0

    def __check_init__(self) -> None:
        call = "RegionStep"
        number(call, "radius", self.radius, above=0)
        number(call, "largest", self.largest, least=self.radius, infinite=True)
        number(call, "accept", self.accept, least=0, below=1)
        number(call, "poor", self.poor, least=self.accept, below=1)
        number(call, "good", self.good, least=self.poor, below=1)
        number(call, "shrink", self.shrink, above=0, below=1)
        number(call, "grow", self.grow, least=1)
        number(call, "noise", self.noise, least=0)

    def region(self, previous: Step | None) -> float | None:
        """See `StepRule`: what the step before left, or the first radius."""
        known = previous is not None and math.isfinite(previous.radius)
        return previous.radius if previous is not None and known else self.radius

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        at = line.region
        if not math.isfinite(at.radius):
            raise ValueError(
                "`RegionStep` needs a step that a region limits; use a method with the solver "
                "`TrustRegion()` or `Cubic()`, such as 'trust_region_newton'."
            )
        if not at.gain > 0:
            return Step(0.0, False, "the model promises nothing", radius=at.radius)
        return Step(1.0, radius=at.radius)

    def settled(self, step: Step, line: Line, before: Evaluation, after: Evaluation | None) -> Step:
        """See `StepRule`: the ratio decides, and the step says how large the next region is."""
        at, ratio = line.region, -math.inf
        if after is not None:
            noise = self.noise * math.hypot(before.objective_error, after.objective_error)
            slack = noise + ROUND_OFF * max(abs(before.objective), abs(after.objective))
            if math.isfinite(slack):  # values that overflow say nothing
                ratio = (after.objective - before.objective + slack) / (at.gain + slack)
        radius = at.radius
        if ratio < self.poor:  # a step that the region did not limit would come again
            radius = self.shrink * (at.radius if at.boundary else min(at.radius, line.norm))
        elif ratio > self.good and at.boundary:
            radius = min(self.grow * at.radius, self.largest)
        if ratio >= self.accept:
            return replace(step, ratio=ratio, radius=radius)
        told = "the objective is not finite there" if after is None else f"a ratio of {ratio:.2g}"
        return replace(step, accepted=False, reason=told, ratio=ratio, radius=radius)
