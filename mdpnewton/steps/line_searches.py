"""Line searches: sizes at which U has risen enough, found from values and slopes along the line.

They are for exact objectives, or for samples with common random numbers. A size is too long if U
has not risen by `fraction` of what the slope at the start promises (Armijo), and too short if the
slope there is still above `flatness` of it (Wolfe).

SciPy's `line_search` is not used: its zoom gives up after ten trials, far too few where the first
size may be wrong by a factor of 1e6, and it treats infinite values as numbers. Optax's needs an
objective that JAX can trace.
"""

import math
from typing import Literal, get_args

from mdpnewton.checks import choice, number, refuse, whole
from mdpnewton.steps.abstract import Line, Step, StepRule

Initial = float | Literal["twice", "quadratic"]
Interpolation = Literal["halving", "quadratic", "cubic", "gradient"]
FIRST = ("twice", "quadratic")  # first sizes that follow from the step before
Point = tuple[float, float, float]  # a size, and U and its slope there


class Armijo(StepRule):
    """Shrinks the size, beginning with the first, until U has risen enough.

    Attributes:
        initial: The first size: a number; "twice" the previous one; or "quadratic", the size at
            which a parabola with this slope would have risen twice as far as U has just done.
        shrink: Factor from one trial to the next, for "halving".
        interpolation: Where to look next: "halving"; the top of the parabola through the values
            ("quadratic"); the top of the cubic through the last two values ("cubic"); or the top of
            the cubic through the last value and its slope ("gradient").
        fraction: Share of the promised rise that must be achieved.
        largest: Upper limit of the first size. minFunc has 1, with which a Gauss-Newton step is
            never longer than an EM step.
        trials: Maximum number of sizes to try.
    """

    initial: Initial = 1.0
    shrink: float = 0.5
    interpolation: Interpolation = "halving"
    fraction: float = 1e-4
    largest: float = math.inf
    trials: int = 40

    def __check_init__(self) -> None:
        _check("Armijo", self)
        number("Armijo", "shrink", self.shrink, above=0, below=1)
        choice("Armijo", "interpolation", self.interpolation, get_args(Interpolation))

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        if not line.slope > 0:
            return Step(0.0, False, "not an ascent direction")
        size, before = _first(self.initial, line, self.largest), None
        for _ in range(self.trials):
            value = line.objective(size)
            if value >= line.start + self.fraction * size * line.slope:
                return Step(size, evaluations=line.evaluations)
            after = self._shorter(line, size, value, before)
            before, size = (size, value), after
        return Step(0.0, False, "no size satisfies Armijo's condition", line.evaluations)

    def _shorter(
        self, line: Line, size: float, value: float, before: tuple[float, float] | None
    ) -> float:
        guess = math.nan
        if math.isfinite(value) and self.interpolation != "halving":
            guess = _parabola_top(line, size, value)
            if self.interpolation == "gradient":
                ends = (0.0, line.start, line.slope), (size, value, _slope(line, size))
                guess = _cubic_top(*ends)
            elif self.interpolation == "cubic" and before and math.isfinite(before[1]):
                guess = _cubic_top_by_values(line, (size, value), before)
        if self.interpolation == "halving" or not math.isfinite(guess):
            return self.shrink * size
        return min(max(guess, 0.1 * size), 0.9 * size)


class Bracketing(StepRule):
    """Doubles the size until it is too long, then bisects, to Armijo's and Wolfe's conditions.

    Attributes:
        initial: The first size, as in `Armijo`.
        fraction: Share of the promised rise that must be achieved.
        flatness: Share of the initial slope that may be left.
        largest: Upper limit of the first size.
        trials: Maximum number of sizes to try.
    """

    initial: Initial = 1.0
    fraction: float = 1e-4
    flatness: float = 0.9
    largest: float = math.inf
    trials: int = 60

    def __check_init__(self) -> None:
        _check("Bracketing", self)
        number("Bracketing", "flatness", self.flatness, above=0, below=1)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        if not line.slope > 0:
            return Step(0.0, False, "not an ascent direction")
        size, short, long = _first(self.initial, line, self.largest), 0.0, math.inf
        for _ in range(self.trials):
            if not line.objective(size) >= line.start + self.fraction * size * line.slope:
                long = size
            elif _slope(line, size) > self.flatness * line.slope:
                short = size
            else:
                return Step(size, evaluations=line.evaluations)
            size = 0.5 * (short + long) if math.isfinite(long) else 2 * size
        return _best_known(line, short)


class StrongWolfe(StepRule):
    """Finds a size with enough rise where the slope, up or down, is nearly flat.

    It extrapolates by cubics until the top is bracketed, and then interpolates by cubics, Nocedal &
    Wright, Algorithms 3.5 and 3.6.

    Attributes:
        initial: The first size, as in `Armijo`.
        fraction: Share c1 of the promised rise that must be achieved.
        flatness: Share c2 of the initial slope that may be left.
        largest: Upper limit of the first size.
        extrapolation: Maximum ratio of a trial's size to that of the one before.
        trials: Maximum number of sizes to try.
    """

    initial: Initial = 1.0
    fraction: float = 1e-4
    flatness: float = 0.9
    largest: float = math.inf
    extrapolation: float = 10.0
    trials: int = 60

    def __check_init__(self) -> None:
        _check("StrongWolfe", self)
        number("StrongWolfe", "flatness", self.flatness, above=0, below=1)
        number("StrongWolfe", "extrapolation", self.extrapolation, above=1)

    def choose(self, line: Line, iteration: int) -> Step:
        """See `StepRule`."""
        if not line.slope > 0:
            return Step(0.0, False, "not an ascent direction")
        # `low` has risen enough, and so had `behind` before it; the top lies between `low` and
        # `high`, if `high` is known; at `wall` nothing is finite.
        low = behind = (0.0, line.start, line.slope)
        high: Point | None = None
        wall = math.inf
        size = _first(self.initial, line, self.largest)
        for _ in range(self.trials):
            here: Point = size, line.objective(size), math.nan
            if here[1] == -math.inf:
                wall = size
            elif here[1] < line.start + self.fraction * size * line.slope or here[1] < low[1]:
                high = (*here[:2], _slope(line, size))
            else:
                here = (*here[:2], _slope(line, size))
                if abs(here[2]) <= self.flatness * line.slope:
                    return Step(size, evaluations=line.evaluations)
                ends = [low] if high is None else [low, high]
                # The top lies between `here` and an end on the side that the slope points to.
                beyond = [end for end in ends if (end[0] - size) * here[2] > 0]
                behind, low, high = low, here, beyond[0] if beyond else None
            size = _between(low, high) if high else self._beyond(behind, low, wall)
            if abs(size - low[0]) <= 1e-15 * max(low[0], 1e-300):
                break
        return _best_known(line, low[0])

    def _beyond(self, behind: Point, low: Point, wall: float) -> float:
        """The top of the cubic through the last two points, if that is far enough and finite."""
        if low[0] == 0:
            return 0.1 * wall
        least, most = low[0] + 0.01 * (low[0] - behind[0]), self.extrapolation * low[0]
        guess = _cubic_top(behind, low)
        guess = min(max(guess, least), most) if math.isfinite(guess) and guess > low[0] else most
        return min(guess, 0.5 * (low[0] + wall))


def _check(call: str, rule: Armijo | Bracketing | StrongWolfe) -> None:
    """What all line searches have in common."""
    initial = rule.initial
    if isinstance(initial, str) and initial not in FIRST:
        names = " or ".join(map(repr, FIRST))
        refuse(call, "initial", f"must be a number above 0, {names}, got {initial!r}")
    if not isinstance(initial, str):
        number(call, "initial", initial, above=0)
    number(call, "fraction", rule.fraction, least=0, below=1)
    number(call, "largest", rule.largest, above=0, infinite=True)
    whole(call, "trials", rule.trials, 1)


def _between(low: Point, high: Point) -> float:
    """The top of the cubic, or the middle, not too close to an end."""
    guess, width = _cubic_top(low, high), high[0] - low[0]
    ends = sorted((low[0] + 0.1 * width, low[0] + 0.9 * width))
    return min(max(guess, ends[0]), ends[1]) if math.isfinite(guess) else 0.5 * (low[0] + high[0])


def _first(initial: Initial, line: Line, largest: float) -> float:
    """The first size to try."""
    size = 1.0
    if not isinstance(initial, str):
        size = float(initial)
    elif initial == "twice" and line.previous is not None and line.previous.accepted:
        size = 2 * line.previous.size
    elif initial == "quadratic" and line.risen > 0:
        size = 2 * line.risen / line.slope
    return min(size, largest)


def _slope(line: Line, size: float) -> float:
    if line.slope_at is None:
        raise ValueError(
            "this line search needs slopes along the line, which this evaluator does not give; "
            "use `Armijo()`."
        )
    return line.slope_at(size)


def _best_known(line: Line, size: float) -> Step:
    """The size that has risen enough, if there is one, although the slope is not flat there."""
    if size > 0:
        return Step(size, reason="the slope is not flat there", evaluations=line.evaluations)
    return Step(0.0, False, "no size satisfies the Wolfe conditions", line.evaluations)


def _parabola_top(line: Line, size: float, value: float) -> float:
    """Top of the parabola through the start, its slope and one value."""
    bend = line.start + line.slope * size - value
    return 0.5 * line.slope * size**2 / bend if bend > 0 else math.nan


def _cubic_top_by_values(line: Line, one: tuple[float, float], other: tuple[float, float]) -> float:
    """Top of the cubic through the start, its slope and two values."""
    (x, f), (y, g) = one, other
    p, q = (f - line.start - line.slope * x) / x**2, (g - line.start - line.slope * y) / y**2
    a = (p - q) / (x - y)
    b = p - a * x
    inside = b * b - 3 * a * line.slope
    if inside < 0 or a == 0:
        return math.nan
    return (-b - math.sqrt(inside)) / (3 * a)


def _cubic_top(one: Point, other: Point) -> float:
    """Top of the cubic through two values with their slopes."""
    (x, f, df), (y, g, dg) = one, other
    if x > y:
        (x, f, df), (y, g, dg) = (y, g, dg), (x, f, df)
    mean = 3 * (g - f) / (y - x) - df - dg
    inside = mean * mean - df * dg
    if not inside >= 0:
        return math.nan
    root = math.sqrt(inside)
    below = df - dg + 2 * root
    return y - (y - x) * (root - dg - mean) / below if below else math.nan
