"""The report of `peers.py` on its runs: summaries, tables and figures.

Intervals are 95 % bootstrap intervals over runs, drawn anew within each task (Agarwal et al. 2021,
Deep reinforcement learning at the edge of the statistical precipice). Scores are made comparable
over tasks by their reference: doing nothing is 0 and the reference 1; without a reference, the best
run of any learner is 1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers_tasks import LEARNERS, Study, Task
from rich.console import Console

from mdpnewton.comparison import gain, improvement, interval, overall, profile
from mdpnewton.report.figures import figure_style, new_figure
from mdpnewton.report.tables import new_table

Runs = Mapping[str, np.ndarray]  # scores of a learner's runs, by task

CLOSE = 0.1  # of the span from doing nothing to the best run, for "close to the best"


def summary(
    task: Task, budget: int, first: int, found: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """What the runs of one learner on one task come to."""
    x = np.arange(0, budget + 1, task.clock)
    return {
        "budget": budget,
        "seeds": [first, first + len(found) - 1],
        "x": x.tolist(),
        "curves": [_held(one, x).round(3).tolist() for one in found],
        "final": [round(float(one["score"][-1]), 3) for one in found],
        "to_goal": [_to_goal(one, task.goal) for one in found],
        "cpu": round(float(np.median([1e4 * one["cpu"] / one["x"][-1] for one in found])), 2),
    }


def _held(found: Mapping[str, Any], x: np.ndarray) -> np.ndarray:
    """The scores at x, where each score holds until the next; the first one before it."""
    at = np.searchsorted(found["x"], x, side="right") - 1
    return np.asarray(found["score"])[np.maximum(at, 0)]


def _to_goal(found: Mapping[str, Any], goal: float | None) -> int | None:
    """The number of transitions after which the score first reached the goal."""
    if goal is None:
        return None
    reached = np.flatnonzero(np.asarray(found["score"]) >= goal)
    return int(found["x"][reached[0]]) if reached.size else None


# Numbers over runs and tasks


def comparable(results: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """The final scores by learner and task: 0 is doing nothing, 1 the reference."""
    found: dict[str, dict[str, np.ndarray]] = {}
    for task, entry in results.items():
        nothing, best = entry["nothing"], _reference(entry)
        for learner, one in entry["learners"].items():
            scores = (np.asarray(one["final"]) - nothing) / (best - nothing)
            found.setdefault(learner, {})[task] = scores
    return found


def _reference(entry: Mapping[str, Any]) -> float:
    if entry["reference"] is not None:
        return float(entry["reference"])
    return max(max(one["final"]) for one in entry["learners"].values())


def close_to_the_best(entry: Mapping[str, Any]) -> dict[str, float]:
    """The share of each learner's runs that end close to the median of the best learner."""
    finals = {name: np.asarray(one["final"]) for name, one in entry["learners"].items()}
    best = max(float(np.median(runs)) for runs in finals.values())
    span = max(float(runs.max()) for runs in finals.values()) - entry["nothing"]
    return {name: float((runs >= best - CLOSE * span).mean()) for name, runs in finals.items()}


# Tables


def show(study: Study, results: Mapping[str, Any]) -> None:
    """Print one table per task, and one over all of them.

    "close" is the share of runs close to the best learner's median, "CPU s" the seconds of a core
    per 10,000 transitions, and "ours more by" the difference of the means.
    """
    console = Console()
    for task in study.tasks:
        console.print(_task_table(task, results[task.id]))
    scores = comparable(results)
    mine = study.entries[0].learner.name
    heads = ("middle half", "95 %", "ours better", "95 %")
    table = new_table("all tasks", "learner", *heads)
    for learner, runs in scores.items():
        mean, low, high = interval(overall, [runs])
        row = [f"{mean:.2f}", f"{low:.2f} to {high:.2f}", "", ""]
        if learner != mine and mine in scores:
            wins, low, high = interval(improvement, [scores[mine], runs])
            row[2:] = [f"{wins:.0%}", f"{low:.0%} to {high:.0%}"]
        table.add_row(learner, *row)
    console.print(table)


def _task_table(task: Task, entry: Mapping[str, Any]) -> Any:
    goal = "" if task.goal is None else f", goal {task.goal:g}"
    title = f"{task.title}, {task.budget:,} transitions{goal}, nothing {_told(entry['nothing'])}"
    heads = ["runs", "median", "ours more by", "95 %", "close", "CPU s"]
    table = new_table(title, "learner", *heads, *([] if task.goal is None else ["to goal"]))
    close, learners = close_to_the_best(entry), entry["learners"]
    mine = next(iter(learners))
    for name, one in learners.items():
        final = np.asarray(one["final"])
        more, ends = "", ""
        if name != mine:
            groups = [{task.id: np.asarray(learners[which]["final"])} for which in (mine, name)]
            middle, low, high = interval(gain, groups)
            more, ends = _told(middle), f"{_told(low)} to {_told(high)}"
        row = [str(len(final)), _told(float(np.median(final))), more, ends]
        row += [f"{close[name]:.0%}", f"{one['cpu']:.1f}"]
        table.add_row(name, *row, *([] if task.goal is None else [_goal(one)]))
    return table


def _told(score: float) -> str:
    return f"{score:,.0f}" if abs(score) >= 100 else f"{score:.1f}"


def _goal(one: Mapping[str, Any]) -> str:
    """Median transitions to the goal, and in how many runs it was reached."""
    reached = [np.inf if x is None else x for x in one["to_goal"]]
    median = float(np.quantile(reached, 0.5, method="higher"))
    number = f"{median:,.0f}" if np.isfinite(median) else f"> {one['budget']:,}"
    return f"{number}, {np.isfinite(reached).sum()} of {len(reached)}"


# Figures


def draw(study: Study, results: Mapping[str, Any], folder: Path) -> None:
    """Draw learning curves, a panel per task, and the profile of all final scores."""
    colors = {learner.name: learner.color for learner in LEARNERS}
    with figure_style():
        panels = len(study.tasks) + 1
        columns = 4 if panels > 6 else 3
        rows = -(-panels // columns)
        figure, axes = new_figure(rows, columns, squeeze=False)
        spare = axes.ravel()[panels:]
        for axis, task in zip(axes.ravel(), study.tasks, strict=False):
            _panel(axis, task, results[task.id], colors)
        _profile(axes.ravel()[panels - 1], comparable(results), colors)
        for axis in spare:
            axis.axis("off")
        handles: dict[str, Any] = {}
        for axis in axes.ravel():
            handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=min(len(handles), 6),
            fontsize=10,
        )
        for kind in ("png", "svg"):
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(folder / f"curves.{kind}", dpi=130, metadata=metadata)


def _panel(axis: Any, task: Task, entry: Mapping[str, Any], colors: Mapping[str, str]) -> None:
    """Medians over runs, and the middle half."""
    for name, one in entry["learners"].items():
        x, curves = np.asarray(one["x"]) / 1000, np.asarray(one["curves"])
        low, middle, high = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
        axis.plot(x, middle, color=colors[name], label=name)
        axis.fill_between(x, low, high, color=colors[name], alpha=0.2, lw=0)
    for level, style in ((task.goal, "--"), (entry["nothing"], ":")):
        if level is not None:
            label = "goal" if style == "--" else "doing nothing"
            axis.axhline(level, color="0.4", ls=style, lw=1, label=label)
    score = "return" if task.discount == 1.0 else f"return, discounted by {task.discount:g}"
    axis.set(title=task.title, xlabel="transitions, thousands", ylabel=score)
    axis.set_xlim(left=0)


def _profile(axis: Any, scores: Mapping[str, Runs], colors: Mapping[str, str]) -> None:
    """The share of runs above each level of the comparable score; the mean over tasks."""
    levels = np.linspace(0, 1.2, 121)
    for name, runs in scores.items():
        axis.plot(levels, profile(runs, levels), color=colors[name])
    axis.set(title="all tasks", xlabel="score / reference", ylabel="share of runs above")
    axis.set_ylim(0, 1)
