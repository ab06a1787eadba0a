"""Steps that become shorter: as the search goes on, and after one that lost too much."""

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
