"""Steps whose length depends on the search so far: how long it is, and what steps brought."""

import math
from collections.abc import Callable
from dataclasses import replace

from mdpnewton.checks import instance, number
from mdpnewton.evaluation import Evaluation
from mdpnewton.steps.abstract import Line, Step, StepRule
from mdpnewton.steps.rules import Constant
from mdpnewton.steps.trust_region import KLStep


class KLSchedule(StepRule):
    """Steps of a mean KL divergence that falls geometrically from `first` to `last`.

    A direction that does not ascend is not taken.

    Attributes:
        done: Gives the share of the search that is done at an iteration, from 0 to 1.
        first: Mean KL divergence at the beginning.
        last: Mean KL divergence at the end.
    """

    done: Callable[[int], float]
    first: float = 0.02
    last: float = 0.001

    def __check_init__(self) -> None:
        remedy = "pass a function of the iteration, as `lambda n: n / 100`"
        instance("KLSchedule", "done", self.done, Callable, remedy)
        number("KLSchedule", "first", self.first, above=0)
        number("KLSchedule", "last", self.last, above=0)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        if not line.slope > 0:
            return Step(0.0, False, "not an ascent direction")
        done = min(self.done(iteration), 1.0)
        return KLStep(self.first * (self.last / self.first) ** done).choose(line, iteration)


class KeepUnlessLost(StepRule):
    """Another rule's step, but back to the old point if a large share of U is lost.

    After that the next step is shortened, and again until one is kept. For noisy objectives that
    are positive: what a step may lose is measured by U itself, beyond a few standard errors.

    Attributes:
        rule: The rule inside.
        left: Share of U that must be left for the step to stand.
        tolerance: Number of standard errors by which U must be below that share.
        shorten: Factor of the length after a step that was undone.
    """

    rule: StepRule = Constant()
    left: float = 0.5
    tolerance: float = 3.0
    shorten: float = 0.5

    def __check_init__(self) -> None:
        call = "KeepUnlessLost"
        instance(call, "rule", self.rule, StepRule, "pass a rule, as `Constant(0.5)`")
        number(call, "left", self.left, least=0, most=1)
        number(call, "tolerance", self.tolerance, least=0)
        number(call, "shorten", self.shorten, above=0, below=1)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        step, previous = self.rule.choose(line, iteration), line.previous
        if not step.accepted or previous is None or not previous.undone:
            return step
        share = self.shorten * previous.share
        size, divergence = share * step.size, math.nan
        if line.divergence_at is not None and not math.isnan(step.divergence):
            divergence = line.divergence_at(size)
        return replace(step, size=size, divergence=divergence, share=share)

    def keeps(self, before: Evaluation, after: Evaluation) -> bool:
        """See `StepRule`."""
        error = math.hypot(after.objective_error, self.left * before.objective_error)
        return after.objective + self.tolerance * error >= self.left * before.objective


class TrustedStep(StepRule):
    """A step of limited KL divergence that is undone if U fell; the limit follows what steps bring.

    A step stands unless U fell by more than `tolerance` standard errors of the difference. After a
    step that was undone the limit is smaller, after one that stood it is a little larger.

    Attributes:
        divergence: Mean KL divergence of the first step.
        least: Smallest limit of the mean KL divergence.
        most: Largest limit.
        tolerance: Number of standard errors by which U may fall.
        shorten: Factor of the limit after a step that was undone.
        lengthen: Factor of the limit after a step that stood.
        fading: Number of iterations after which the largest limit falls, in inverse proportion to
            the iterations: long steps are fast at first, and then follow noise.
    """

    divergence: float = 0.05
    least: float = 0.01
    most: float = 0.1
    tolerance: float = 2.0
    shorten: float = 0.5
    lengthen: float = 1.1
    fading: float = math.inf

    def __check_init__(self) -> None:
        call = "TrustedStep"
        number(call, "divergence", self.divergence, above=0)
        number(call, "least", self.least, above=0, most=self.divergence)
        number(call, "most", self.most, least=self.divergence)
        number(call, "tolerance", self.tolerance, least=0, infinite=True)
        number(call, "shorten", self.shorten, above=0, most=1)
        number(call, "lengthen", self.lengthen, least=1)
        number(call, "fading", self.fading, above=0, infinite=True)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        limit, previous = self.divergence, line.previous
        if previous is not None:
            factor = self.shorten if previous.undone else self.lengthen
            limit = self.divergence * previous.share * factor
        most = self.most * min(1.0, self.fading / (iteration + 1))
        limit = max(min(limit, most), self.least)
        step = KLStep(limit).choose(line, iteration)
        return replace(step, share=limit / self.divergence)

    def keeps(self, before: Evaluation, after: Evaluation) -> bool:
        """See `StepRule`."""
        error = math.hypot(before.objective_error, after.objective_error)
        return after.objective >= before.objective - self.tolerance * error
