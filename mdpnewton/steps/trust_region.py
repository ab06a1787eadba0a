"""Steps for noisy objectives, limited by the change of the policy and not by its return."""

import math

from mdpnewton.checks import instance, number, whole
from mdpnewton.steps.abstract import Line, Step, StepRule


class KLStep(StepRule):
    """The size at which the mean KL divergence from the old policy has a given value.

    It depends neither on the scale of the rewards nor on that of the direction, and needs no new
    samples: the divergence is taken over the states of the evaluation. If an
    evaluation has matrices in place of states, the Fisher matrix gives the size in closed form, to
    second order.

    Attributes:
        divergence: Target for the mean KL divergence of the step.
        largest: Upper limit of the size, even if the divergence stays below its target.
        tolerance: Relative error of the divergence that is good enough.
        trials: Maximum number of sizes to try.
    """

    divergence: float = 0.1
    largest: float = math.inf
    tolerance: float = 0.05
    trials: int = 40

    def __check_init__(self) -> None:
        number("KLStep", "divergence", self.divergence, above=0)
        number("KLStep", "largest", self.largest, above=0, infinite=True)
        number("KLStep", "tolerance", self.tolerance, above=0)
        whole("KLStep", "trials", self.trials, 1)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        if line.norm == 0:
            return Step(0.0, False, "the direction is zero")
        size, found = (_size_of if line.fisher_form is None else _closed_size)(line, self)
        if found == 0:
            return Step(0.0, False, "the policy does not change along the direction")
        if not math.isfinite(found):
            return Step(0.0, False, "no size gives a finite divergence")
        return Step(size, divergence=found)


class SurrogateBacktracking(StepRule):
    """Shrinks another rule's size until the samples promise a rise, as TRPO does.

    Attributes:
        rule: Rule for the first size; `KLStep` makes it a trust region.
        fraction: Share of the rise predicted by the slope that the samples must promise.
        shrink: Factor from one trial to the next.
        trials: Maximum number of sizes to try.
    """

    rule: StepRule = KLStep()
    fraction: float = 0.1
    shrink: float = 0.7
    trials: int = 15

    def __check_init__(self) -> None:
        call, remedy = "SurrogateBacktracking", "pass a rule, as `KLStep(0.1)`"
        instance(call, "rule", self.rule, StepRule, remedy)
        number(call, "fraction", self.fraction, least=0, below=1)
        number(call, "shrink", self.shrink, above=0, below=1)
        whole(call, "trials", self.trials, 1)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        step = self.rule.choose(line, iteration)
        if not step.accepted:
            return step
        assert line.surrogate_at is not None
        size = step.size
        for _ in range(self.trials):
            promise = line.surrogate_at(size)
            if promise > 0 and promise >= self.fraction * size * line.slope:
                assert line.divergence_at is not None
                return Step(size, divergence=line.divergence_at(size))
            size *= self.shrink
        return Step(0.0, False, "the samples promise no rise at any size")


def _closed_size(line: Line, rule: KLStep) -> tuple[float, float]:
    """A size and its divergence, where that is a known multiple of the size's square."""
    assert line.fisher_form is not None
    form = line.fisher_form()
    if not form > 0 or math.isinf(form):
        return 0.0, 0.0 if form <= 0 else math.nan
    size = math.sqrt(2 * rule.divergence / form)
    if size <= rule.largest:
        return size, rule.divergence
    return rule.largest, 0.5 * form * rule.largest**2


def _size_of(line: Line, rule: KLStep) -> tuple[float, float]:
    """Find a size and its divergence, by the secant rule on logarithms inside a bracket."""
    if line.divergence_at is None:
        raise ValueError("`KLStep` needs divergences along the line; use it with `search`.")
    low, high = 0.0, math.inf
    size, best = min(1 / line.norm, rule.largest), (0.0, math.nan)
    for _ in range(rule.trials):
        found = line.divergence_at(size)
        if found == 0 and size >= min(rule.largest, 1e12 / line.norm):
            return size, 0.0
        if math.isfinite(found):
            best = (size, found)
            if abs(found / rule.divergence - 1) <= rule.tolerance:
                break
            if found < rule.divergence:
                low = size
                if size >= rule.largest:
                    break
            else:
                high = size
            # Near zero the divergence is quadratic in the size.
            guess = size * min(max(math.sqrt(rule.divergence / max(found, 1e-300)), 1e-3), 1e3)
        else:
            high, guess = size, size / 8
        if not low < guess < high:
            guess = 0.5 * (low + high) if math.isfinite(high) else 4 * size
        size = min(guess, rule.largest)
    return best
