"""Several runs on one page: their curves over each other, and what can be said of them together."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdpnewton.comparison import Run, compared
from mdpnewton.files.found import Found
from mdpnewton.report.page import facts, training
from mdpnewton.report.page.parts import (
    Part,
    chart,
    curve,
    interval,
    level,
    mapping,
    section,
    table,
    text,
)
from mdpnewton.report.page.scores import runs_of

CLOCK = 200  # points of a common axis


def compare(every: Sequence[Found], goal: float | None = None) -> dict[str, Any]:
    """The comparison of some runs as plain data.

    Args:
        every: What was found in the run folders.
        goal: Value that curves are to reach; see `compared`.

    Raises:
        ValueError: There is nothing that could be compared.
    """
    runs = runs_of(every)
    if not runs:
        raise ValueError(
            "the runs have no results that could be compared; name folders of `run`, `train`, "
            "`solve` or `tetris train` that have begun"
        )
    return {"runs": [str(one.folder) for one in every], **compared(runs, goal)}


def sections(every: Sequence[Found], result: Mapping[str, Any]) -> list[Part]:
    """The sections of a comparison.

    Args:
        every: What was found in the run folders.
        result: What `compare` gives.
    """
    runs = runs_of(every)
    charts = [_curves(runs, task, result["levels"].get(task)) for task in result["tasks"]]
    return [
        section("Learning curves", charts),
        section("Scores over seeds", [_scores(result), _profile(result)]),
        section("Pairs", [_differences(result), _improvement(result)]),
        section("To a level", [_to_level(result)]),
        section("The runs", [_folders(every)]),
    ]


def title(every: Sequence[Found], result: Mapping[str, Any]) -> str:
    """What is compared."""
    tasks, groups = ", ".join(result.get("tasks", [])), list(result.get("groups", []))
    if len(groups) == 1:
        return f"{tasks} by {groups[0]}: {len(every)} runs"
    return f"{len(every)} runs compared{f': {tasks}' if tasks else ''}"


def better_than_nothing(every: Sequence[Found]) -> str:
    """How many trainings are worth more than doing nothing; empty if none says so."""
    said = [text(mapping(one.results.get("verdict")).get("status")) for one in every]
    known = [one for one in said if one]
    return (
        f" {known.count('better')} of {len(known)} are better than doing nothing." if known else ""
    )


def sentence(result: Mapping[str, Any]) -> tuple[str, str]:
    """Which group is best, and whether that is sure."""
    groups = result["groups"]
    ranked = sorted(groups, key=lambda name: -groups[name]["interquartile_mean"])
    best = ranked[0]
    score = f"{groups[best]['interquartile_mean']:.4g}"
    if len(ranked) == 1:
        ends = interval(groups[best]["low"], groups[best]["high"])
        more = f" (95 % interval {ends})" if ends else ""
        count = f"{groups[best]['runs']} runs that differ in their seeds"
        return "open", f"{count}: interquartile mean {score}{more}."
    second = ranked[1]
    pair = next(
        (o for o in result["improvement"] if {o["first"], o["second"]} == {*ranked[:2]}), None
    )
    if pair is None:
        return "open", f"{best} has the highest score, {score}, but shares no task with {second}."
    wins = [pair["probability"], pair["low"], pair["high"]]
    if pair["first"] != best:
        wins = [1 - wins[0], 1 - wins[2], 1 - wins[1]]
    sure = wins[1] > 0.5 and min(groups[best]["runs"], groups[second]["runs"]) > 1
    told = "is better" if sure else "is not surely better"
    return ("good" if sure else "open"), (
        f"{best} {told} than {second}: a run of it wins with probability {wins[0]:.2f} "
        f"(95 % interval {wins[1]:.2f} to {wins[2]:.2f}); interquartile means {score} and "
        f"{groups[second]['interquartile_mean']:.4g}."
    )


# What is shown


def _curves(runs: Sequence[Run], task: str, goal: float | None) -> Part:
    """The mean curve of each group on a common clock, a band over seeds, and the single runs."""
    here = [run for run in runs if run.task == task and len(run.x)]
    drawn = []
    for name in dict.fromkeys(run.group for run in here):
        mine = [run for run in here if run.group == name]
        first, last = max(run.x[0] for run in mine), max(run.x[-1] for run in mine)
        clock = np.linspace(first, max(last, first + 1), CLOCK)
        lines = np.array([_held(run, clock) for run in mine])
        mean = lines.mean(axis=0)
        low: Any = []
        high: Any = []
        runs_shown: list[Any] = []
        if len(mine) > 1 and not (lines == lines[0]).all():
            half = 1.96 * lines.std(axis=0, ddof=1) / len(mine) ** 0.5
            low, high = mean - half, mean + half
            runs_shown = list(lines)
        drawn.append(curve(name, clock, mean, low, high, runs_shown))
    steps = here[0].steps if here else ""
    note = "Means of five batches; the bands are 95 % intervals of the mean over seeds."
    return chart(task, steps, "return", drawn, levels=[level("level", goal)], note=note)


def _held(run: Run, clock: np.ndarray) -> np.ndarray:
    """The smoothed curve on a clock: each value holds until the next."""
    y = np.array([np.nan if one is None else one for one in training.smoothed(list(run.y))])
    at = np.searchsorted(np.asarray(run.x, float), clock, side="right") - 1
    return np.asarray(y[np.maximum(at, 0)])


def _scores(result: Mapping[str, Any]) -> Part:
    rows = [
        [
            name,
            one["runs"],
            one["mean"],
            one["interquartile_mean"],
            interval(one["low"], one["high"]),
        ]
        for name, one in result["groups"].items()
    ]
    head = ["group", "runs", "mean score", "interquartile mean", "95 % over seeds"]
    note = "" if result["score"] == "score" else f"Means are of the {result['score']}."
    return table("Scores", head, rows, note)


def _profile(result: Mapping[str, Any]) -> Part:
    levels = result["profile"]["levels"]
    drawn = [
        curve(name, levels, one["share"], one["low"], one["high"])
        for name, one in result["profile"]["groups"].items()
    ]
    note = "The further to the right a curve stays high, the better; bands are 95 % intervals."
    return chart("Performance profile", result["score"], "share of runs above", drawn, note=note)


def _differences(result: Mapping[str, Any]) -> Part:
    rows = [
        [
            one["task"],
            f"{one['first']} minus {one['second']}",
            one["pairs"],
            one["mean"],
            interval(one["low"], one["high"]) or "needs two pairs",
        ]
        for one in result["differences"]
    ]
    head = ["task", "difference", "pairs", "mean", "95 % (Student's t)"]
    return table("Differences, paired by seed", head, rows)


def _improvement(result: Mapping[str, Any]) -> Part:
    rows = [
        [
            f"{one['first']} over {one['second']}",
            one["probability"],
            interval(one["low"], one["high"]),
        ]
        for one in result["improvement"]
    ]
    note = "How probable it is that a run of the first has a higher score than one of the second."
    return table("Probability of improvement", ["", "probability", "95 %"], rows, note)


def _to_level(result: Mapping[str, Any]) -> Part:
    rows = []
    for name, one in result["groups"].items():
        reached = sum(each is not None for each in one["steps_to_level"])
        took = one["median_seconds_to_level"]
        rows.append(
            [
                name,
                f"{reached} of {one['runs']}",
                "never" if one["median_steps_to_level"] is None else one["median_steps_to_level"],
                "-" if took is None else facts.duration(took),
            ]
        )
    levels = {task: one for task, one in result["levels"].items() if one is not None}
    told = ", ".join(f"{one:.4g} in {task}" for task, one in levels.items())
    head = ["group", "runs that reach it", "median transitions", "median duration"]
    note = (
        f"The level is {told}. A curve reaches it with its mean of five batches; the duration is "
        f"what the run had taken by then."
    )
    return table("How soon a level is reached", head, rows if levels else [], note)


def _folders(every: Sequence[Found]) -> Part:
    rows = []
    for one in every:
        spent = facts.seconds(one)
        took = "-" if spent is None else facts.duration(spent)
        rows.append(
            [
                str(Path(one.folder)),
                one.config.get("seed"),
                facts.state(one) or "-",
                took,
                text(one.config.get("version"), "?"),
            ]
        )
    return table("Folders", ["folder", "seed", "state", "duration", "version"], rows)
