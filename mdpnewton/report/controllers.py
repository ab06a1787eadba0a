"""A finite-state controller as a graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdpnewton.checks import required
from mdpnewton.policies.controller import Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEEN = 1e-3  # edges with a smaller share of all transitions are left out
LIKELY = 0.05  # choices that are less probable are left out
LINES = 3  # maximum number of lines per label of an edge


def draw_controller(
    tables: Tables,
    used: Tables,
    actions: Sequence[str],
    observations: Sequence[str],
    title: str,
) -> Figure:
    """Draw the nodes in a circle; an edge says what was observed and which action follows.

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

    def decided(node: int, seen: int) -> str:
        return " / ".join(
            actions[a] for a in np.argsort(-action[node, seen]) if action[node, seen, a] > LIKELY
        )

    new = required("matplotlib.figure", "a figure").Figure
    figure: Figure = new(figsize=(7.5, 7), layout="constrained")
    axis = figure.add_subplot()
    for b in shown:
        for c in shown:
            lines = [
                (flow[b, o, c], observations[o], decided(c, o))
                for o in range(flow.shape[1])
                if flow[b, o, c] / total > SEEN and transition[b, o, c] > LIKELY
            ]
            if lines:
                width = 0.8 + 3 * np.sqrt(sum(line[0] for line in lines) / total)
                _edge(axis, place[b], place[c], angle[b], b == c, _label(lines), width)
    for b in shown:
        axis.scatter(
            [place[b][0]],
            [place[b][1]],
            s=900,
            color="white",
            edgecolor="tab:blue",
            linewidth=2,
            zorder=3,
        )
        axis.text(place[b][0], place[b][1], str(b), ha="center", va="center", fontsize=12, zorder=4)
    for b in shown:
        lines = [
            (first[o] * initial[o, b], observations[o], decided(b, o))
            for o in range(len(first))
            if first[o] > SEEN and initial[o, b] > LIKELY
        ]
        if lines:
            outer = place[b] * 1.42
            _arrow(axis, outer, place[b], 0.0, "tab:green", 1.5)
            axis.text(
                outer[0], outer[1], "start\n" + _label(lines), ha="center", va="center", fontsize=8
            )
    axis.set(xlim=(-1.55, 1.55), ylim=(-1.5, 1.5), title=title)
    axis.set_aspect("equal")
    axis.axis("off")
    return figure


def _label(lines: list[tuple[float, str, str]]) -> str:
    """What is observed and which action follows, the most frequent first."""
    grouped: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for share, seen, done in lines:
        grouped[done].append((share, seen))
    ordered = sorted(grouped.items(), key=lambda item: -sum(share for share, _ in item[1]))
    text = []
    for done, found in ordered[:LINES]:
        names = [seen for _, seen in sorted(found, reverse=True)]
        seen = ", ".join(names) if len(names) <= 2 else f"{names[0]} + {len(names) - 1} more"
        text.append(f"{seen}: {done}")
    if len(ordered) > LINES:
        text.append(f"… {len(ordered) - LINES} more")
    return "\n".join(text)


def _edge(
    axis: Axes,
    start: np.ndarray,
    end: np.ndarray,
    angle: float,
    loop: bool,
    label: str,
    width: float,
) -> None:
    outward = np.array([np.cos(angle), np.sin(angle)])
    if loop:
        across = np.array([-outward[1], outward[0]])
        left, right = (start + 0.12 * outward + s * 0.1 * across for s in (1, -1))
        _arrow(axis, left, right, -1.9, "dimgray", width)
        at = start + 0.36 * outward
    else:
        _arrow(axis, start, end, 0.22, "dimgray", width)
        along = end - start
        # On the arc, nearer to its beginning, because many arcs cross in the middle.
        at = start + 0.36 * along + 0.1 * np.array([along[1], -along[0]])
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    axis.text(at[0], at[1], label, ha="center", va="center", fontsize=7.5, bbox=box, zorder=5)


def _arrow(
    axis: Axes, start: np.ndarray, end: np.ndarray, bend: float, color: str, width: float
) -> None:
    style = {
        "arrowstyle": "-|>",
        "color": color,
        "linewidth": width,
        "shrinkA": 2 if bend < -1 else 16,
        "shrinkB": 2 if bend < -1 else 16,
        "connectionstyle": f"arc3,rad={bend}",
        "mutation_scale": 14,
    }
    axis.annotate("", xy=tuple(end), xytext=tuple(start), arrowprops=style, zorder=2)
