"""Statistics over runs and tasks, with intervals over runs drawn anew within each task.

Agarwal et al. 2021, Deep reinforcement learning at the edge of the statistical precipice: what is
drawn anew are whole runs, never episodes within a run.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import stdtrit

Runs = Mapping[str, np.ndarray]  # scores of the runs of one kind, by task

CONFIDENCE = 0.95
DRAWS = 2_000


def interquartile_mean(scores: np.ndarray) -> float:
    """The mean of the middle half: a quarter of the scores, rounded down, is cut at either end."""
    ordered = np.sort(np.ravel(scores))
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def interval(
    statistic: Callable[[Sequence[Runs]], Any], groups: Sequence[Runs], draws: int | None = None
) -> tuple[Any, Any, Any]:
    """A statistic, and the ends of its 95 % interval over runs drawn anew within every task.

    Args:
        statistic: Gives a number or an array for some groups of runs.
        groups: Scores of the runs of each group, by task.
        draws: How often the runs are drawn anew; 2,000 by default.
    """
    generator = np.random.default_rng(0)

    def again(runs: np.ndarray) -> np.ndarray:
        return runs[generator.integers(len(runs), size=len(runs))]

    drawn = [
        statistic([{task: again(runs) for task, runs in group.items()} for group in groups])
        for _ in range(DRAWS if draws is None else draws)
    ]
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    found = statistic(groups)
    if np.ndim(found):
        return found, low, high
    return found, float(low), float(high)


def overall(groups: Sequence[Runs]) -> float:
    """The interquartile mean over all tasks and runs of the first group."""
    return interquartile_mean(np.concatenate(list(groups[0].values())))


def improvement(groups: Sequence[Runs]) -> float:
    """The probability that a run of the first group beats one of the second, over common tasks."""
    one, other = groups
    wins = []
    for task in one.keys() & other.keys():
        difference = one[task][:, None] - other[task]
        wins.append((difference > 0).mean() + 0.5 * (difference == 0).mean())
    return float(np.mean(wins))


def gain(groups: Sequence[Runs]) -> float:
    """The mean of the first group minus that of the second, in one task."""
    (one,), (other,) = (group.values() for group in groups)
    return float(one.mean() - other.mean())


def profile(runs: Runs, levels: np.ndarray) -> np.ndarray:
    """The share of runs above each level; the mean over tasks."""
    shares = [(one[:, None] > levels).mean(axis=0) for one in runs.values()]
    return np.asarray(np.mean(shares, axis=0))


def paired_differences(finals: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """For every two methods, first minus second: the mean over runs and its 95 % interval.

    Run i of both methods has the same start and the same random numbers. The interval is
    Student's t. A single run has no interval: both ends are None.

    Args:
        finals: For every method, one number per run.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in finals}
    for first, second in combinations(finals, 2):
        gap = np.asarray(finals[first], float) - np.asarray(finals[second], float)
        mean, number = float(gap.mean()), len(gap)
        half = None
        if number > 1:
            quantile = stdtrit(number - 1, 0.5 + CONFIDENCE / 2)
            half = float(quantile * gap.std(ddof=1) / np.sqrt(number))
        for one, other, sign in ((first, second, 1), (second, first, -1)):
            found[one][other] = {
                "mean": sign * mean,
                "low": None if half is None else sign * mean - half,
                "high": None if half is None else sign * mean + half,
            }
    return found
