"""Black-box optimisation of any function."""

import numpy as np
import pytest

from mdpnewton.methods import METHODS
from mdpnewton.steps import Constant
from mdpnewton.training.black_box import BLACK_BOX_METHODS, maximize, minimize

# All runs use 150 samples at once, so that little is compiled.
TARGET = np.array([1.0, -2.0, 0.5])


def bowl(x):
    return float(((x - TARGET) ** 2 * [1.0, 4.0, 9.0]).sum())


@pytest.mark.parametrize("method", BLACK_BOX_METHODS)
def test_every_method_runs_within_its_budget_and_reports(method):
    asked = []

    def function(x):
        asked.append(x.copy())
        return -bowl(x)

    step = 0.01 if method == "steepest" else 1.0
    found = maximize(function, np.zeros(3), method=method, step=step, budget=200)
    assert found.evaluations == len(asked) <= 200
    assert len(found.history) == 12
    assert found.value == max(-bowl(x) for x in asked)
    assert -bowl(found.x) == found.value > -bowl(np.zeros(3))
    assert (found.sigma > 0).all()
    assert found.mean_value == -bowl(found.mean)
    last = found.history[-1]
    assert last.best_value <= found.value
    assert last.record.report.status in ("solved", "indefinite", "singular")


@pytest.mark.parametrize(
    "method", ["second_gauss_newton", "natural", "blockwise_expectation_maximization"]
)
def test_methods_that_keep_some_spread_find_the_minimum(method):
    found = minimize(bowl, np.zeros(3), method=method, reuse=3, samples=50, budget=4000)
    np.testing.assert_allclose(found.x, TARGET, atol=1e-3)
    assert found.value == bowl(found.x) < 1e-5
    assert found.history[0].mean_value > found.history[-1].mean_value
    assert found.history[-1].record.objective > 0


def test_it_does_not_matter_how_the_values_are_scaled():
    one = minimize(bowl, np.zeros(3), budget=300)
    other = minimize(lambda x: np.exp(7 * bowl(x) ** 0.25), np.zeros(3), budget=300)
    np.testing.assert_array_equal(one.mean, other.mean)


def test_the_first_gauss_newton_method_meets_negative_curvature():
    found = maximize(lambda x: -bowl(x), np.zeros(3), method="first_gauss_newton", budget=300)
    assert any(one.record.report.negative_curvature for one in found.history)


def test_same_seed_same_way_and_batches_are_the_same_function():
    one = minimize(bowl, np.zeros(3), seed=3, budget=200, weighting="importance")
    other = minimize(
        lambda points: [bowl(x) for x in points],
        np.zeros(3),
        seed=3,
        budget=200,
        weighting="importance",
        batched=True,
    )
    third = minimize(bowl, np.zeros(3), seed=4, budget=200, weighting="importance")
    np.testing.assert_array_equal(one.x, other.x)
    assert one.value == other.value
    assert (one.x != third.x).any()


def test_holes_and_plateaus_are_survived():
    def plateau(x):
        if x[0] < -0.5:
            return np.nan
        return -bowl(x) if bowl(x) < 10 else -100.0

    found = maximize(plateau, np.zeros(3), sigma=[1.0, 1.0, 1.0], budget=1500, seed=1)
    assert found.value > -0.5
    flat = maximize(lambda x: 1.0, np.zeros(3), budget=100)
    assert flat.value == 1.0
    with pytest.raises(ValueError, match="objective is nan"):
        maximize(lambda x: np.nan, np.zeros(3), budget=100)


def test_an_interrupt_keeps_what_there_is():
    calls = 0

    def function(x):
        nonlocal calls
        calls += 1
        if calls == 40:
            raise KeyboardInterrupt
        return -bowl(x)

    found = maximize(function, np.zeros(3), budget=500)
    assert found.status == "interrupted"
    assert found.value == -bowl(found.x)
    assert found.evaluations == 30
    assert np.isnan(found.mean_value)

    def at_once(x):
        raise KeyboardInterrupt

    found = maximize(at_once, np.ones(3), budget=500)
    assert found.status == "interrupted"
    np.testing.assert_array_equal(found.x, np.ones(3))
    assert np.isnan(found.value)


def test_a_callback_stops_and_small_sigmas_end_it():
    seen = []

    def stop(generation):
        seen.append(generation)
        return generation.best_value < 3.0

    found = minimize(bowl, np.zeros(3), budget=5000, callback=stop)
    assert found.status == "stopped"
    assert seen[-1].best_value < 3.0
    assert found.value <= seen[-1].best_value
    found = minimize(bowl, np.zeros(3), samples=150, reuse=1, budget=9000, tolerance=1e-2)
    assert found.status == "converged"
    assert (found.sigma < 1e-2).all()


def test_methods_and_rules_of_ones_own():
    found = maximize(
        lambda x: -bowl(x),
        np.zeros(3),
        method=METHODS["diagonal_second_gauss_newton"],
        step=Constant(0.5),
        budget=100,
    )
    assert found.status == "budget"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": [[0.0]]}, "start"),
        ({"start": [np.nan]}, "start"),
        ({"budget": 10}, "budget"),
        ({"method": "newton"}, "second_gauss_newton"),
        ({"sigma": -1.0}, "sigma"),
        ({"sigma": [1.0, 2.0]}, "sigma"),
        ({"samples": 0}, "samples"),
    ],
)
def test_wrong_arguments_are_refused(options, message):
    arguments = {"start": [0.0], **options}
    with pytest.raises(ValueError, match=message):
        maximize(lambda x: 0.0, **arguments)
