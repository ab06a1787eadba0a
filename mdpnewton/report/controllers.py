"""A finite-state controller as a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mdpnewton.checks import required

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from mdpnewton.policies.controller import Tables

SEEN = 1e-3  # edges with a smaller share of all transitions are left out
LIKELY = 0.05  # choices that are less probable are left out
SURE = 0.995  # what is more probable has no number
LINES = 8  # maximum number of lines per label of an edge
WIDTH = 32  # maximum number of letters per line, where words allow it
RADIUS = 0.1  # of a node, on a circle of radius 1
BOX = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
WORDS: dict[str, Any] = {"fontsize": 7.5, "zorder": 5}


class Line(NamedTuple):
    """One thing that an edge says: how often, what is seen, what is done, and how probably."""

    share: float
    seen: str
    done: str
    move: float


def draw_controller(
    tables: Tables,
    used: Tables,
    actions: Sequence[str],
    observations: Sequence[str],
    title: str,
) -> Figure:
    """Draw the nodes in a circle; an edge says what was observed and which action follows.

    An edge that is not always taken after an observation has its probability behind it, in
    brackets, and an action that is not always chosen its own.

    Args:
        tables: Probabilities of the controller.
        used: How often each row is visited, as `Chain.earned` gives it.
        actions: Names of the actions.
        observations: Names of the observations, including the blank one.
        title: Title of the figure.
    """
    initial, transition, action = (np.asarray(table) for table in tables)
    first, visits = np.asarray(used.initial), np.asarray(used.transition)
    flow = visits[:, :, None] * transition  # node, observation, next node
    total = flow.sum() or 1.0
    reached = flow.sum(axis=(0, 1)) + (first[:, None] * initial).sum(axis=0)
    shown = [b for b in range(len(visits)) if reached[b] / (total + first.sum()) > SEEN]
    angle = {b: np.pi / 2 - 2 * np.pi * n / len(shown) for n, b in enumerate(shown)}
    place = {b: np.array([np.cos(a), np.sin(a)]) for b, a in angle.items()}

    new = required("matplotlib.figure", "a figure").Figure
    circle = required("matplotlib.patches", "a figure").Circle
    figure: Figure = new(figsize=(8.6, 8.2), layout="constrained")
    axis = figure.add_subplot()
    starts = {
        b: [
            Line(first[o] * initial[o, b], observations[o], decided(action[b, o], actions), 1.0)
            for o in range(len(first))
            if first[o] > SEEN and initial[o, b] > LIKELY
        ]
        for b in shown
    }
    for b in shown:
        possible = int((visits[b] / total > SEEN).sum())
        for c in shown:
            lines = [
                Line(
                    flow[b, o, c],
                    observations[o],
                    decided(action[c, o], actions),
                    transition[b, o, c],
                )
                for o in range(flow.shape[1])
                if flow[b, o, c] / total > SEEN and transition[b, o, c] > LIKELY
            ]
            if not lines:
                continue
            width, label = (
                0.8 + 3 * np.sqrt(sum(x.share for x in lines) / total),
                _label(lines, possible),
            )
            if b == c:
                _loop(axis, place[b], angle[b] + (1.3 if starts[b] else 0.0), label, width)
            else:
                _edge(axis, place[b], place[c], label, width)
    for b in shown:
        axis.add_patch(
            circle(tuple(place[b]), RADIUS, facecolor="white", edgecolor="tab:blue", lw=2, zorder=3)
        )
        axis.text(place[b][0], place[b][1], str(b), ha="center", va="center", fontsize=12, zorder=4)
        if starts[b]:
            outer = place[b] * 1.42
            _arrow(axis, outer, place[b] * (1 + RADIUS), 0.0, "tab:green", 1.5)
            said = "start\n" + _label(starts[b], 1)
            axis.text(outer[0], outer[1], said, ha="center", va="center", bbox=BOX, **WORDS)
    axis.set(xlim=(-1.8, 1.8), ylim=(-1.6, 1.6), title=title)
    axis.set_aspect("equal")
    axis.axis("off")
    return figure


def decided(probabilities: np.ndarray, actions: Sequence[str]) -> str:
    """The actions that are likely, with their probability unless it is one."""
    order = [n for n in np.argsort(-probabilities) if probabilities[n] > LIKELY]
    return " or ".join(
        actions[n] if probabilities[n] > SURE else f"{actions[n]} {100 * probabilities[n]:.0f} %"
        for n in order
    )


def _label(lines: list[Line], possible: int) -> str:
    """What is observed and which action follows, the most frequent first.

    Args:
        lines: What there is to say.
        possible: Number of observations that the node ever makes; "any" stands for all of them.
    """
    grouped: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in lines:
        moves = "" if line.move > SURE else f" ({100 * line.move:.0f} %)"
        grouped[line.done, moves].append(line)
    ordered = sorted(grouped.items(), key=lambda item: -sum(line.share for line in item[1]))
    text: list[str] = []
    for (done, moves), found in ordered:
        names = [line.seen for line in sorted(found, key=lambda line: -line.share)]
        seen = "any" if len(names) == possible > 1 else ", ".join(names)
        text += wrap(
            f"{seen}{moves}: {done}".replace(" %", "\u00a0%"), WIDTH, break_on_hyphens=False
        )
    if len(text) > LINES:
        text = [*text[: LINES - 1], f"… and {len(text) - LINES + 1} lines, see report.html"]
    return "\n".join(text)


def _loop(axis: Axes, node: np.ndarray, angle: float, label: str, width: float) -> None:
    """An edge from a node to itself: out of its rim and back, in the direction of `angle`."""
    rim = [node + RADIUS * np.array([np.cos(a), np.sin(a)]) for a in (angle + 0.6, angle - 0.6)]
    _arrow(axis, rim[0], rim[1], -3.0, "dimgray", width)
    outward = np.array([np.cos(angle), np.sin(angle)])
    at = node + (RADIUS + 0.2) * outward
    side = "left" if outward[0] > 0.4 else "right" if outward[0] < -0.4 else "center"
    level = "bottom" if outward[1] > 0.4 else "top" if outward[1] < -0.4 else "center"
    axis.text(at[0], at[1], label, ha=side, va=level, bbox=BOX, **WORDS)


def _edge(axis: Axes, start: np.ndarray, end: np.ndarray, label: str, width: float) -> None:
    _arrow(axis, start, end, 0.22, "dimgray", width)
    along = end - start
    # On the arc, nearer to its beginning, because many arcs cross in the middle.
    at = start + 0.36 * along + 0.1 * np.array([along[1], -along[0]])
    axis.text(at[0], at[1], label, ha="center", va="center", bbox=BOX, **WORDS)


def _arrow(
    axis: Axes, start: np.ndarray, end: np.ndarray, bend: float, color: str, width: float
) -> None:
    style = {
        "arrowstyle": "-|>",
        "color": color,
        "linewidth": width,
        "shrinkA": 0 if bend < -1 else 16,
        "shrinkB": 0 if bend < -1 or not bend else 16,
        "connectionstyle": f"arc3,rad={bend}",
        "mutation_scale": 14,
    }
    axis.annotate("", xy=tuple(end), xytext=tuple(start), arrowprops=style, zorder=2)
