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
    """Decision of a step rule.

    Attributes:
        size: Multiple of the direction to move by.
        accepted: Whether to move; False means to stay at the old parameters.
        reason: Why the step was not accepted, or why it differs from what was requested.
        evaluations: Number of points that the rule looked at.
        divergence: Mean KL divergence of the step, if the rule measured it.
        share: Share of the usual length that the step has, if the rule shortened it because the
            previous step was undone.
    """

    size: float
    accepted: bool = True
    reason: str = ""
    evaluations: int = 0
    divergence: float = float("nan")
    share: float = 1.0

    @property
    def undone(self) -> bool:
        """Whether the step led somewhere and the search came back."""
        return self.size > 0 and not self.accepted


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

    def keeps(self, before: Evaluation, after: Evaluation) -> bool:
        """Whether to stay at the new point, now that it has been evaluated."""
        return True
