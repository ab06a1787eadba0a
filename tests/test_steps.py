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
