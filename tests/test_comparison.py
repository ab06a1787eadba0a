"""Statistics over runs, against naive loops; groups of runs compared."""

import itertools

import numpy as np
import pytest

from mdpnewton import comparison
from mdpnewton.comparison import Run, compared, intervals, paired_differences


def test_the_interquartile_mean_and_its_interval(monkeypatch):
    monkeypatch.setattr(intervals, "DRAWS", 200)
    scores = np.array([100.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, -100.0])
    assert comparison.interquartile_mean(scores) == np.sort(scores)[2:6].mean()
    draws = np.random.default_rng(0)
    runs = {"a": draws.normal(0, 1, 40), "b": draws.normal(0, 1, 40)}
    mean, low, high = comparison.interval(comparison.overall, [runs])
    assert low < mean < high
    assert 0.2 < high - low < 0.8  # about 2 * 1.96 * 1.2 / sqrt(80) for this estimate
    assert comparison.interval(comparison.overall, [runs]) == (mean, low, high)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9, 20])
def test_the_interquartile_mean_is_that_of_scipy(count):
    from scipy.stats import trim_mean

    scores = np.random.default_rng(count).normal(size=count)
    assert comparison.interquartile_mean(scores) == pytest.approx(trim_mean(scores, 0.25))


def test_the_probability_of_improvement_counts_ties_half_and_common_tasks_only():
    one = {"a": np.array([1.0, 2.0]), "b": np.array([0.0])}
    other = {"a": np.array([1.0, 3.0]), "c": np.array([9.0])}
    assert comparison.improvement([one, other]) == (0.5 + 0 + 1 + 0) / 4
    wins = [
        np.mean([(x > y) + 0.5 * (x == y) for x, y in itertools.product(one[task], other[task])])
        for task in ("a",)
    ]
    assert comparison.improvement([one, other]) == pytest.approx(np.mean(wins))


def test_a_profile_is_the_mean_share_over_tasks():
    runs = {"a": np.array([1.0, 3.0]), "b": np.array([2.0])}
    found = comparison.profile(runs, np.array([0.0, 1.0, 2.5]))
    assert found.tolist() == [1.0, (0.5 + 1.0) / 2, 0.25]


def test_paired_differences_have_the_interval_of_students_t():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 10))
    found = paired_differences({"a": first, "b": second, "c": first})
    gap = first - second
    half = 2.2621571628 * gap.std(ddof=1) / 10**0.5  # the quantile of 9 degrees of freedom
    assert found["a"]["b"] == pytest.approx(
        {"mean": gap.mean(), "low": gap.mean() - half, "high": gap.mean() + half}
    )
    assert found["b"]["a"]["high"] == pytest.approx(-found["a"]["b"]["low"])
    assert found["a"]["c"] == {"mean": 0, "low": 0, "high": 0}
    alone = paired_differences({"a": [2.0], "b": [1.0]})["a"]["b"]
    assert alone == {"mean": 1.0, "low": None, "high": None}


def some_runs():
    x, spent = [100.0, 200.0, 300.0], [7.0, 8.0, None]
    return [
        Run("new", "task", 0, 12.0, x, [0.0, 20.0, 20.0], seconds=spent),
        Run("new", "task", 1, 14.0, x, [0.0, 0.0, 0.0], seconds=spent),
        Run("new", "task", 2, 16.0, x, [12.0, 20.0, 20.0], seconds=spent),
        Run("old", "task", 0, 10.0, x, [0.0, 0.0, 12.0]),
        Run("old", "task", 1, 11.0, x, [0.0, 0.0, 0.0]),
        Run("old", "task", 9, 19.0, x, [0.0, 0.0, 0.0]),
    ]


def test_pairs_share_task_and_seed(monkeypatch):
    monkeypatch.setattr(intervals, "DRAWS", 50)
    found = compared(some_runs())
    (pair,) = found["differences"]
    assert (pair["pairs"], pair["mean"]) == (2, 2.5)
    assert pair["low"] < 2.5 < pair["high"]
    assert found["groups"]["new"]["interquartile_mean"] == 14.0
    (wins,) = found["improvement"]
    assert wins["probability"] == pytest.approx(6 / 9)
    assert 0 <= wins["low"] <= wins["probability"] <= wins["high"] <= 1


def test_a_level_is_reached_by_the_mean_of_five_points_and_took_what_the_clock_said(monkeypatch):
    monkeypatch.setattr(intervals, "DRAWS", 50)
    new = compared(some_runs(), level=10.0)["groups"]["new"]
    # means of the points so far: 0, 10, 13.3; never; 12
    assert new["steps_to_level"] == [200.0, None, 100.0]
    assert new["seconds_to_level"] == [8.0, None, 7.0]
    assert new["median_steps_to_level"] == 200.0
    old = compared(some_runs(), level=10.0)["groups"]["old"]
    assert old["median_steps_to_level"] is None
    assert old["seconds_to_level"] == [None, None, None]


def test_scores_of_several_tasks_are_comparable(monkeypatch):
    monkeypatch.setattr(intervals, "DRAWS", 50)
    runs = [
        Run("a", "one", 0, 5.0, nothing=-5.0),
        Run("b", "one", 0, 15.0, nothing=-5.0),
        Run("a", "two", 0, 3.0),
        Run("b", "two", 0, 1.0),
    ]
    found = compared(runs)
    assert found["groups"]["a"]["mean"] == np.mean([0.5, 1.0])
    assert found["groups"]["b"]["mean"] == np.mean([1.0, 0.0])
    assert found["groups"]["a"]["low"] is not None
    assert "the best" in found["score"]
