"""The report of `peers.py` on its runs: summaries, tables and the figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers_tasks import LEARNERS, OURS, Task
from rich.console import Console

from mdpnewton.report.figures import figure_style, new_figure
from mdpnewton.report.tables import new_table

Curve = tuple[np.ndarray, np.ndarray]  # transitions, scores


def ticks(task: Task, budget: int) -> np.ndarray:
    return np.arange(0, budget + 1, task.clock)


def held(curve: Curve, x: np.ndarray) -> np.ndarray:
    """The scores at x, where each score holds until the next."""
    at, scores = curve
    return scores[np.searchsorted(at, x, side="right") - 1]


def to_goal(curve: Curve, goal: float) -> int | None:
    """The number of transitions after which the score first reached the goal."""
    at, scores = curve
    reached = np.flatnonzero(scores >= goal)
    return int(at[reached[0]]) if reached.size else None


def spread(values: np.ndarray) -> np.ndarray:
    """Standard errors over the first axis."""
    return values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0 * values[0]


def summary(task: Task, budget: int, curves: Sequence[Curve]) -> dict[str, Any]:
    """Curve, final score and transitions to the goal of one learner's seeds."""
    x = ticks(task, budget)
    along = np.array([held(curve, x) for curve in curves])
    final = np.array([curve[1][-1] for curve in curves])
    return {
        "budget": budget,
        "curve": {
            "x": x.tolist(),
            "mean": along.mean(axis=0).round(4).tolist(),
            "stderr": spread(along).round(4).tolist(),
        },
        "final": {
            "mean": round(float(final.mean()), 4),
            "stderr": round(float(spread(final)), 4),
            "runs": final.round(4).tolist(),
        },
        "transitions_to_goal": [to_goal(curve, task.goal) for curve in curves],
    }


def median_to_goal(method: dict[str, Any]) -> float:
    """The median over seeds; infinite if half of them never reached the goal."""
    reached = [np.inf if x is None else x for x in method["transitions_to_goal"]]
    return float(np.quantile(reached, 0.5, method="higher"))


def show(results: dict[str, Any]) -> None:
    """Print one table per environment; `over ours` divides transitions to the goal by `train`'s."""
    heads = ("seeds", "budget", "to goal, median", "reached", "final", "over ours")
    for environment, entry in results.items():
        table = new_table(f"{environment}, goal {entry['goal']:g}", "learner", *heads)
        methods, digits = entry["methods"], 0 if abs(entry["goal"]) >= 100 else 1
        own = median_to_goal(methods[OURS]) if OURS in methods else np.nan
        for name, method in methods.items():
            median, final = median_to_goal(method), method["final"]
            reached = [x is not None for x in method["transitions_to_goal"]]
            table.add_row(
                name,
                str(len(reached)),
                f"{method['budget']:,}",
                _transitions(median, method["budget"]),
                f"{np.mean(reached):.0%}",
                f"{final['mean']:.{digits}f} ± {final['stderr']:.{digits}f}",
                _ratio(median, own, method["budget"]),
            )
        Console().print(table)


def _transitions(median: float, budget: int) -> str:
    return f"{median:,.0f}" if np.isfinite(median) else f"> {budget:,}"


def _ratio(median: float, own: float, budget: int) -> str:
    if not np.isfinite(own) or own == 0:
        return "-"
    return f"{median / own:.1f}" if np.isfinite(median) else f"> {budget / own:.1f}"


def draw(results: dict[str, Any], tasks: Sequence[Task], folder: Path) -> None:
    """Draw learning curves, one panel per environment: means and standard errors over seeds."""
    with figure_style():
        columns = min(len(tasks), 2 if len(tasks) == 4 else 3)
        figure, axes = new_figure(-(-len(tasks) // columns), columns, squeeze=False)
        panels, handles = axes.ravel(), {}
        for axis, task in zip(panels, tasks, strict=False):
            _panel(axis, task, results[task.id])
            handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        for axis in panels[len(tasks) :]:
            axis.axis("off")
        order = sorted(handles, key="goal".__eq__)  # the goal comes last
        figure.legend(
            [handles[name] for name in order],
            order,
            loc="outside lower center",
            ncols=len(order),
            fontsize=10,
        )
        for kind in ("png", "svg"):
            metadata = {"Date": None} if kind == "svg" else {}
            figure.savefig(folder / f"peers.{kind}", dpi=130, metadata=metadata)


def _panel(axis: Any, task: Task, entry: dict[str, Any]) -> None:
    colors = {learner.name: learner.color for learner in LEARNERS}
    for name, method in entry["methods"].items():
        x = np.array(method["curve"]["x"]) / 1000
        mean, error = (np.array(method["curve"][key]) for key in ("mean", "stderr"))
        axis.plot(x, mean, color=colors[name], label=name, zorder=3 if name == OURS else 2)
        axis.fill_between(x, mean - error, mean + error, color=colors[name], alpha=0.2, lw=0)
    axis.axhline(entry["goal"], color="0.4", ls="--", lw=1, label="goal")
    axis.set(title=task.title, xlabel="transitions, thousands", ylabel=_score(task))
    axis.set_ylim(bottom=task.floor)
    axis.set_xlim(left=0)


def _score(task: Task) -> str:
    return "return" if task.discount == 1.0 else f"return, discounted by {task.discount:g}"
