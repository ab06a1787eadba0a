"""Several runs side by side: groups of runs that differ in their seeds alone, compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from mdpnewton.comparison.intervals import (
    improvement,
    interval,
    overall,
    paired_differences,
    profile,
)

LEVELS = 101  # points of a performance profile
SHARE = 0.9  # of the way from the start to the best group, for a level that nobody chose
SMOOTH = 5  # points that a curve must hold on average to have reached a level


@dataclass(frozen=True)
class Run:
    """One run as it is compared.

    Attributes:
        group: What it has in common with the runs that differ in their seeds alone.
        task: What was to be learnt.
        seed: Random seed; runs of two groups with the same task and seed are a pair.
        score: What it came to; more is better.
        x: Positions of its curve, as numbers of transitions.
        y: Values of its curve.
        nothing: The score of doing nothing in the task; None if unknown.
        seconds: How long it had taken at each position of its curve, None where that is unknown;
            empty if nothing is known.
        steps: What the positions count.
    """

    group: str
    task: str
    seed: int
    score: float
    x: Sequence[float] = field(default_factory=tuple)
    y: Sequence[float] = field(default_factory=tuple)
    nothing: float | None = None
    seconds: Sequence[float | None] = field(default_factory=tuple)
    steps: str = "transitions"


def compared(runs: Sequence[Run], level: float | None = None) -> dict[str, Any]:
    """Everything that can be said about several groups of runs, as plain data.

    Scores of several tasks are made comparable: doing nothing is 0, or the worst run where that is
    unknown, and the best run is 1. In one task they stay what they are.

    Args:
        runs: The runs.
        level: Value that a curve is to reach; by default 90 % of the way from where curves begin
            to the median score of the best group, for each task.
    """
    tasks = list(dict.fromkeys(run.task for run in runs))
    groups = list(dict.fromkeys(run.group for run in runs))
    scores = _comparable(runs, tasks, groups)
    levels = {task: _level([run for run in runs if run.task == task], level) for task in tasks}
    return {
        "tasks": tasks,
        "score": "score" if len(tasks) == 1 else "score, 0 doing nothing or the worst, 1 the best",
        "groups": {name: _summary(runs, name, scores[name], levels) for name in groups},
        "levels": levels,
        "differences": _differences(runs, tasks, groups),
        "improvement": [
            _named(first, second, interval(improvement, [scores[first], scores[second]]))
            for first, second in combinations(groups, 2)
            if scores[first].keys() & scores[second].keys()
        ],
        "profile": _profiles(scores),
    }


def _comparable(
    runs: Sequence[Run], tasks: Sequence[str], groups: Sequence[str]
) -> dict[str, dict[str, np.ndarray]]:
    """The scores by group and task."""
    low, span = dict.fromkeys(tasks, 0.0), dict.fromkeys(tasks, 1.0)
    if len(tasks) > 1:
        for task in tasks:
            here = [run for run in runs if run.task == task]
            known = [run.nothing for run in here if run.nothing is not None]
            worst = min(run.score for run in here)
            low[task] = float(np.mean(known)) if len(known) == len(here) else worst
            span[task] = max(run.score for run in here) - low[task] or 1.0
    found: dict[str, dict[str, np.ndarray]] = {}
    for group in groups:
        for task in tasks:
            each = [run.score for run in runs if (run.group, run.task) == (group, task)]
            if each:
                values = (np.array(each, float) - low[task]) / span[task]
                found.setdefault(group, {})[task] = values
    return found


def _summary(
    runs: Sequence[Run],
    group: str,
    scores: Mapping[str, np.ndarray],
    levels: Mapping[str, float | None],
) -> dict[str, Any]:
    """The scores of a group, their interquartile mean, and when its curves reach the level."""
    mine = [run for run in runs if run.group == group]
    middle, low, high = interval(overall, [scores])
    places = [(run, _first_reaching(run, levels[run.task])) for run in mine]
    reached = [None if at is None else float(run.x[at]) for run, at in places]
    seconds = [None if at is None or not run.seconds else run.seconds[at] for run, at in places]
    return {
        "runs": len(mine),
        "seeds": [run.seed for run in mine],
        "scores": [run.score for run in mine],
        "mean": float(np.concatenate(list(scores.values())).mean()),
        "interquartile_mean": middle,
        "low": low if len(mine) > 1 else None,
        "high": high if len(mine) > 1 else None,
        "steps_to_level": reached,
        "median_steps_to_level": _median(reached),
        "seconds_to_level": seconds,
        "median_seconds_to_level": _median(seconds),
    }


def _level(runs: Sequence[Run], level: float | None) -> float | None:
    """What curves of a task are to reach; None if no run has a curve."""
    curves = [run for run in runs if len(run.y)]
    if level is not None or not curves:
        return level if curves else None
    groups = {run.group for run in curves}
    best = max(
        float(np.median([_smooth(run)[-1] for run in curves if run.group == group]))
        for group in groups
    )
    start = float(np.median([run.y[0] for run in curves]))
    return start + SHARE * (best - start)


def _smooth(run: Run) -> np.ndarray:
    """The mean of each point and of those before it, at most five."""
    y = np.asarray(run.y, float)
    total = np.concatenate([[0.0], np.cumsum(y)])
    end = np.arange(1, len(y) + 1)
    begin = np.maximum(end - SMOOTH, 0)
    return np.asarray((total[end] - total[begin]) / (end - begin))


def _first_reaching(run: Run, level: float | None) -> int | None:
    """The number of the first point of a curve at which it has reached the level."""
    if level is None or not len(run.y):
        return None
    reached = np.flatnonzero(_smooth(run) >= level)
    return int(reached[0]) if reached.size else None


def _median(values: Sequence[float | None]) -> float | None:
    """The median over all runs; None if half of them or more have no value."""
    known = [np.inf if value is None else value for value in values]
    middle = float(np.quantile(known, 0.5, method="higher"))
    return middle if np.isfinite(middle) else None


def _differences(
    runs: Sequence[Run], tasks: Sequence[str], groups: Sequence[str]
) -> list[dict[str, Any]]:
    """Paired by task and seed: the first of two groups minus the second."""
    found = []
    for task in tasks:
        by_group = {
            group: {run.seed: run.score for run in runs if (run.group, run.task) == (group, task)}
            for group in groups
        }
        for first, second in combinations(groups, 2):
            common = sorted(by_group[first].keys() & by_group[second].keys())
            if common:
                finals = {name: [by_group[name][s] for s in common] for name in (first, second)}
                gap = paired_differences(finals)[first][second]
                about = {"task": task, "first": first, "second": second, "pairs": len(common)}
                found.append({**about, **gap})
    return found


def _named(first: str, second: str, found: tuple[float, float, float]) -> dict[str, Any]:
    probability, low, high = found
    return {"first": first, "second": second, "probability": probability, "low": low, "high": high}


def _profiles(scores: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """The share of runs above each level, for every group, with intervals."""
    every = np.concatenate([one for group in scores.values() for one in group.values()])
    low, high = float(every.min()), float(every.max())
    margin = 0.05 * (high - low) or 0.05 * max(abs(high), 1.0)
    levels = np.linspace(low - margin, high + margin, LEVELS)
    shares = {}
    for name, group in scores.items():
        found = interval(lambda drawn: profile(drawn[0], levels), [group], 500)
        shares[name] = {
            key: value.tolist() for key, value in zip(("share", "low", "high"), found, strict=True)
        }
    return {"levels": levels.tolist(), "groups": shares}
