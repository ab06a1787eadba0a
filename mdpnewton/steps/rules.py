"""Steps of a given size, and rules that look at a few sizes or at where a step led."""

import math

from mdpnewton.checks import flag, instance, number, refuse
from mdpnewton.evaluation import Evaluation
from mdpnewton.steps.abstract import Line, Step, StepRule


class Constant(StepRule):
    """Always the same size. Size 1 suits the second Gauss-Newton method, Theorem 10.

    Attributes:
        size: Multiple of the direction to move by.
    """

    size: float = 1.0

    def __check_init__(self) -> None:
        number("Constant", "size", self.size, above=0)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        return Step(self.size)


class Decay(StepRule):
    """The size initial / (1 + iteration / time), Section 6.2.

    Attributes:
        initial: The first size.
        time: Number of iterations until the size has halved.
    """

    initial: float = 1.0
    time: float = 100.0

    def __check_init__(self) -> None:
        number("Decay", "initial", self.initial, above=0)
        number("Decay", "time", self.time, above=0, infinite=True)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        return Step(self.initial / (1 + iteration / self.time))


class BestOfSet(StepRule):
    """The best of some sizes, all tried with the same random numbers, Section 6.5.

    Attributes:
        sizes: The sizes to try, the paper's by default; 0 stays and counts as a step.
        normalized: Whether to divide by the norm of the direction, so that sizes are distances.
        stay: Whether staying may win too. Paper: a size is always taken.
    """

    sizes: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
    normalized: bool = True
    stay: bool = False

    def __check_init__(self) -> None:
        call, sizes = "BestOfSet", self.sizes
        if not isinstance(sizes, tuple) or not sizes:
            refuse(call, "sizes", f"needs a tuple of at least one size, got {sizes!r}; pass (1.0,)")
        for size in sizes:
            number(call, "sizes", size, least=0)  # 0 is to stay
        flag(call, "normalized", self.normalized)
        flag(call, "stay", self.stay)

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
    """Takes another rule's step, but returns to the old point if U fell: the check of Section 6.2.

    It compares the evaluations at both points, which the search makes anyway, and needs no others.

    Attributes:
        rule: The rule inside.
        tolerance: How far U may fall for the step to stand, in standard errors of U at the new
            point. Exact evaluations have no error.
    """

    rule: StepRule = Constant()
    tolerance: float = 0.0

    def __check_init__(self) -> None:
        call, remedy = "KeepIfBetter", "pass a rule, as `Constant(0.5)`"
        instance(call, "rule", self.rule, StepRule, remedy)
        number(call, "tolerance", self.tolerance, least=0, infinite=True)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        return self.rule.choose(line, iteration)

    def keeps(self, before: Evaluation, after: Evaluation) -> bool:
        """See `StepRule`."""
        # The error of the difference would not do: a point where no episode earns anything has no
        # error of its own, and would stand against every rare reward that was seen before it.
        return after.objective >= before.objective - self.tolerance * after.objective_error
