"""How far to go along a direction.

A rule looks at U along the line w + size * d and returns a `Step`. It never changes the
parameters itself: a step that is not accepted leaves exactly the old ones.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import equinox as eqx

from mdpnewton.evaluation import Evaluation


@dataclass(frozen=True)
class Step:
    """What a rule decided.

    Attributes:
        size: Multiple of the direction to move by.
        accepted: False means: stay at the old parameters.
        reason: Why it was not accepted, or why it is not what was asked for.
        evaluations: How many points the rule looked at.
        divergence: Mean KL divergence of the step, where the rule measured it.
    """

    size: float
    accepted: bool = True
    reason: str = ""
    evaluations: int = 0
    divergence: float = float("nan")


@dataclass
class Line:
    """U along a direction, with one key for every point: common random numbers.

    Attributes:
        start: U at size 0.
        slope: Directional derivative at size 0.
        norm: Euclidean norm of the direction.
        objective_at: U at a size; NaN where the policy or U is not finite.
        slope_at: Directional derivative at a size; None where it is not to be had.
        divergence_at: Mean KL divergence of the policy at a size from the policy at 0; needs
            no new samples.
        surrogate_at: What the samples at size 0 promise for a size, by importance weights: the
            objective there less that at 0.
        previous: The step before this one, as it ended; None at the first.
        risen: What U has risen by since the line before this one.
    """

    start: float
    slope: float
    norm: float
    objective_at: Callable[[float], float]
    slope_at: Callable[[float], float] | None = None
    divergence_at: Callable[[float], float] | None = None
    surrogate_at: Callable[[float], float] | None = None
    previous: Step | None = None
    risen: float = math.nan
    evaluations: int = 0
    _known: dict[float, float] = field(default_factory=dict)

    def objective(self, size: float) -> float:
        """U at `size`, or minus infinity where it is not finite; remembered."""
        if size == 0:
            return self.start
        if size not in self._known:
            self.evaluations += 1
            value = self.objective_at(size)
            self._known[size] = value if math.isfinite(value) else -math.inf
        return self._known[size]


class StepRule(eqx.Module):
    """How far to go along a direction."""

    @abstractmethod
    def choose(self, line: Line, iteration: int) -> Step:
        """The step for this line, in iteration 0, 1, ..."""

    def keeps(self, before: Evaluation, after: Evaluation) -> bool:
        """Whether to stay at the new point, now that it has been evaluated."""
        return True


class Constant(StepRule):
    """The same size always. Size 1 suits the second Gauss-Newton method, Theorem 10.

    Attributes:
        size: The size.
    """

    size: float = 1.0

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        return Step(self.size)


class Decay(StepRule):
    """initial / (1 + iteration / time), Section 6.2.

    Attributes:
        initial: A, the first size.
        time: Iterations until it has halved.
    """

    initial: float = 1.0
    time: float = 100.0

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        return Step(self.initial / (1 + iteration / self.time))


class BestOfSet(StepRule):
    """The best of some sizes, all tried with the same random numbers, Section 6.5.

    Attributes:
        sizes: The sizes to try; the paper's by default.
        normalized: Divide by the norm of the direction, so that sizes are distances.
        stay: Whether staying may win too. Paper: a size is always taken.
    """

    sizes: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    normalized: bool = True
    stay: bool = False

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        if self.normalized and line.norm == 0:
            return Step(0.0, False, "the direction is zero")
        scale = 1 / line.norm if self.normalized else 1.0
        values = [(line.objective(size * scale), size * scale) for size in self.sizes]
        value, size = max(values, key=lambda pair: pair[0])
        if value == -math.inf:
            return Step(0.0, False, "no size gives a finite objective", line.evaluations)
        if self.stay and value <= line.start:
            return Step(0.0, False, "no size is better than staying", line.evaluations)
        return Step(size, evaluations=line.evaluations)


class KeepIfBetter(StepRule):
    """Another rule's step, but back to the old point if U fell: the check of Section 6.2.

    It compares the evaluations at both points, which the search makes anyway: no other data.

    Attributes:
        rule: The rule inside.
        tolerance: How far U may fall and the step still stand, in standard errors of U at the
            new point. Exact evaluations have none.
    """

    rule: StepRule = Constant()
    tolerance: float = 0.0

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        return self.rule.choose(line, iteration)

    def keeps(self, before: Evaluation, after: Evaluation) -> bool:
        """See `StepRule`."""
        # Not the error of the difference: a point where no episode earns anything has none, and
        # would stand against every rare reward that was seen before it.
        return after.objective >= before.objective - self.tolerance * after.objective_error
