"""Step rules on known lines, bad ones included."""

import math

import jax.numpy as jnp
import pytest

import mdpnewton as mn


def line(objective, slope_at=None, slope=1.0, norm=2.0, start=None):
    start = objective(0.0) if start is None else start
    return mn.Line(start, slope, norm, objective, slope_at)


def parabola(peak):
    """U rises from 0 to its top at `peak`, with slope 1 at the start."""
    return line(lambda t: t - t**2 / (2 * peak), lambda t: 1 - t / peak)


def test_constant_and_decay_follow_their_formulas():
    assert mn.Constant(0.7).choose(parabola(1.0), 5).size == 0.7
    rule = mn.Decay(4.0)
    assert [rule.choose(parabola(1.0), t).size for t in (0, 100, 300)] == [4.0, 2.0, 1.0]


def test_best_of_set_takes_the_best_distance():
    step = mn.BestOfSet().choose(parabola(2.1), 0)
    assert step.size * 2.0 == 4.0  # of the distances 0.1 ... 128, halved by the norm
    assert step.evaluations == 10
    plain = mn.BestOfSet(normalized=False).choose(parabola(2.1), 0)
    assert plain.size == 2.0


def test_best_of_set_stays_only_if_told_to():
    falling = line(lambda t: -t)
    assert mn.BestOfSet().choose(falling, 0).accepted
    step = mn.BestOfSet(stay=True).choose(line(lambda t: -t), 0)
    assert (step.accepted, step.reason) == (False, "no size is better than staying")


def test_best_of_set_survives_zero_directions_and_infinite_objectives():
    assert not mn.BestOfSet().choose(line(lambda t: t, norm=0.0), 0).accepted
    step = mn.BestOfSet().choose(line(lambda t: math.nan, start=0.0), 0)
    assert (step.accepted, step.reason) == (False, "no size gives a finite objective")


def evaluated(objective, error=0.0):
    one = jnp.ones((1, 1))
    return mn.WeightedPairs(jnp.zeros(1), one, one, one, one, objective, error)


def test_keep_if_better_is_the_two_point_check():
    rule = mn.KeepIfBetter(mn.Constant(1.0))
    assert rule.choose(parabola(2.0), 0) == mn.Step(1.0)
    assert rule.keeps(evaluated(1.0), evaluated(1.0))
    assert not rule.keeps(evaluated(1.0), evaluated(0.99))
    assert not rule.keeps(evaluated(1.0), evaluated(math.nan))
    lenient = mn.KeepIfBetter(tolerance=1.0)
    assert lenient.keeps(evaluated(1.0, 0.3), evaluated(0.61, 0.4))
    assert not lenient.keeps(evaluated(1.0, 0.3), evaluated(0.59, 0.4))


def test_armijo_halves_until_the_rise_is_enough():
    step = mn.Armijo().choose(parabola(0.2), 0)
    assert step.size == 0.25
    assert step.evaluations == 3


def test_armijo_steps_back_from_where_the_objective_is_not_finite():
    cliff = line(lambda t: t if t < 0.3 else math.nan)
    assert mn.Armijo().choose(cliff, 0).size == 0.25


def test_armijo_gives_up_on_a_line_that_only_falls():
    step = mn.Armijo(trials=5).choose(line(lambda t: -t), 0)
    assert (step.accepted, step.evaluations) == (False, 5)


@pytest.mark.parametrize("rule", [mn.Armijo(), mn.StrongWolfe()])
@pytest.mark.parametrize("slope", [0.0, -1.0, math.nan])
def test_line_searches_refuse_what_does_not_ascend(rule, slope):
    step = rule.choose(line(lambda t: t, lambda t: 1.0, slope=slope), 0)
    assert (step.accepted, step.reason) == (False, "not an ascent direction")


@pytest.mark.parametrize("peak", [1e-4, 0.3, 1.0, 50.0, 1e4])
def test_strong_wolfe_meets_its_conditions(peak):
    rule = mn.StrongWolfe(flatness=0.1)
    step = rule.choose(parabola(peak), 0)
    assert step.accepted
    assert step.size - step.size**2 / (2 * peak) >= 1e-4 * step.size
    assert abs(1 - step.size / peak) <= 0.1


def test_strong_wolfe_says_when_there_is_no_such_size():
    step = mn.StrongWolfe(trials=3).choose(line(lambda t: -t, lambda t: -1.0), 0)
    assert (step.accepted, step.reason) == (False, "no size satisfies the Wolfe conditions")


def test_strong_wolfe_needs_slopes():
    with pytest.raises(ValueError, match="use `Armijo"):
        mn.StrongWolfe().choose(line(lambda t: t), 0)


def test_a_line_evaluates_each_point_once():
    seen = []
    along = line(lambda t: seen.append(t) or t, start=0.0)
    assert [along.objective(0.5), along.objective(0.5), along.objective(0.0)] == [0.5, 0.5, 0.0]
    assert seen == [0.5]


SEARCHES = {
    "halving": mn.Armijo(),
    "quadratic": mn.Armijo(interpolation="quadratic"),
    "cubic": mn.Armijo(interpolation="cubic"),
    "gradient": mn.Armijo(interpolation="gradient"),
    "bracketing": mn.Bracketing(),
    "strong Wolfe": mn.StrongWolfe(),
}


def bump(peak, width):
    """exp of a parabola, so flat far away that U is 0 there."""

    def value(t):
        return math.exp(-(((t - peak) / width) ** 2))

    return line(
        value, lambda t: -2 * (t - peak) / width**2 * value(t), value(0) * 2 * peak / width**2
    )


def log_wall(end):
    """log(end - t) + t: no number from `end` on."""

    def value(t):
        return math.log(end - t) + 2 * t / end if t < end else math.nan

    return line(value, lambda t: 2 / end - 1 / (end - t), 1 / end)


LINES = {
    "short": lambda: parabola(1e-6),
    "one": lambda: parabola(0.8),
    "long": lambda: parabola(1e6),
    "bump": lambda: bump(3.0, 1.5),
    "far bump": lambda: bump(1.0, 30.0),
    "wall": lambda: log_wall(1e-3),
    "far wall": lambda: log_wall(1e3),
}


@pytest.mark.parametrize("shape", LINES)
@pytest.mark.parametrize("name", SEARCHES)
def test_a_line_search_ends_where_its_conditions_hold(name, shape):
    rule, at = SEARCHES[name], LINES[shape]()
    step = rule.choose(at, 0)
    assert step.accepted
    assert not step.reason
    assert at.objective(step.size) >= at.start + rule.fraction * step.size * at.slope
    assert step.evaluations <= rule.trials
    if name == "bracketing":
        assert at.slope_at(step.size) <= rule.flatness * at.slope
    if name == "strong Wolfe":
        assert abs(at.slope_at(step.size)) <= rule.flatness * at.slope


@pytest.mark.parametrize("name", SEARCHES)
def test_a_line_search_refuses_descent_and_hopeless_lines(name):
    rule = SEARCHES[name]
    assert rule.choose(line(lambda t: -t, lambda t: -1.0, slope=-1.0), 0).reason
    step = rule.choose(line(lambda t: -t, lambda t: -1.0, slope=1.0), 0)  # the slope is wrong
    assert (step.accepted, step.size) == (False, 0.0)
    step = rule.choose(line(lambda t: math.nan if t else 0.0, lambda t: math.nan), 0)
    assert (step.accepted, step.size) == (False, 0.0)


def test_first_sizes():
    def first(rule, **known):
        tried = []
        at = line(lambda t: tried.append(t) or t, lambda t: 1.0, start=0.0)
        for name, value in known.items():
            setattr(at, name, value)
        rule.choose(at, 0)
        return tried[0]

    assert first(mn.Armijo(initial=0.3)) == 0.3
    assert first(mn.Armijo(initial="twice")) == 1.0
    assert first(mn.Armijo(initial="twice"), previous=mn.Step(3.0)) == 6.0
    assert first(mn.Armijo(initial="twice", largest=1.0), previous=mn.Step(3.0)) == 1.0
    assert first(mn.Armijo(initial="quadratic"), risen=0.25) == 0.5
    assert first(mn.StrongWolfe(initial="quadratic"), risen=math.nan) == 1.0
    with pytest.raises(ValueError, match="'twice' or 'quadratic'"):
        first(mn.Bracketing(initial="thrice"))


def test_interpolation_finds_the_top_of_its_own_curve():
    top = mn.Armijo(interpolation="quadratic", fraction=0.4).choose(parabola(0.4), 0)
    assert top.size == pytest.approx(0.4, rel=1e-12)

    def cubic(t):
        return t + t**2 - 2 * t**3

    peak = (1 + math.sqrt(7)) / 6
    found = mn.Armijo(interpolation="gradient", initial=1.1, fraction=0.5).choose(
        line(cubic, lambda t: 1 + 2 * t - 6 * t**2), 0
    )
    assert found.size == pytest.approx(peak, rel=1e-12)
    sharp = mn.StrongWolfe(initial=1.1, flatness=1e-9).choose(
        line(cubic, lambda t: 1 + 2 * t - 6 * t**2), 0
    )
    assert sharp.size == pytest.approx(peak, rel=1e-9)
