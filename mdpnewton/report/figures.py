"""The look of the figures, and how a method is shown in them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mdpnewton.checks import required
from mdpnewton.files.folder import write_whole
from mdpnewton.methods import row_named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.titlesize": 10,
    "font.size": 10,
    "figure.titlesize": 10,
    "legend.fontsize": 8,
    "legend.edgecolor": "none",  # a pane, so that curves below a legend leave it readable
    "legend.framealpha": 0.85,
    "svg.hashsalt": "mdpnewton",  # the same picture gives the same file
}

NEAR = 2.0  # pixels: lines that are nowhere further apart look like one
DASHES = ((0, (4, 4)), (0, (1.5, 3)), (0, (7, 2, 1.5, 2)))

FORMATS: dict[str, dict[str, Any]] = {"png": {"dpi": 150}, "svg": {"metadata": {"Date": None}}}


class Look(NamedTuple):
    """How something is shown in figures and tables.

    Attributes:
        label: Its name there.
        color: Its colour, as Matplotlib knows it.
    """

    label: str
    color: str


Looks = Mapping[str, Look]


def look(name: str, variants: Looks | None = None) -> Look:
    """How a method is shown: as its row in the table of methods says.

    Args:
        name: Name of a method, or of a variant.
        variants: What an experiment shows beside the methods, by name: a method at a certain step
            size, or somebody else's.
    """
    if variants is not None and name in variants:
        return variants[name]
    row = row_named(name)
    return Look(row.label, row.color)


def new_figure(rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure that needs no screen, and its axes. Draw on it inside `figure_style`."""
    figure = required("matplotlib.figure", "a figure").Figure(
        figsize=(5.2 * columns, 3.9 * rows), layout="constrained"
    )
    return figure, figure.subplots(rows, columns, **options)


def figure_style() -> AbstractContextManager[None]:
    """The context in which figures are drawn and saved."""
    return required("matplotlib", "a figure").rc_context(STYLE)


def rendered(figures: Mapping[str, Figure]) -> dict[str, bytes]:
    """Every figure as PNG and SVG by file name, without dates: equal data give equal files."""
    found = {}
    with figure_style():
        for name, figure in figures.items():
            for ending, options in FORMATS.items():
                content = io.BytesIO()
                figure.savefig(content, format=ending, **options)
                found[f"{name}.{ending}"] = content.getvalue()
    return found


def with_note(figures: Mapping[str, Figure], note: str) -> Mapping[str, Figure]:
    """The figures with a sentence below, and without halves of what is counted in whole numbers."""
    whole = required("matplotlib.ticker", "a figure").MaxNLocator
    for figure in figures.values():
        if note and figure.legends:  # below the figure, where a label would be, too
            figure.legends[0].set_title(note)
            figure.legends[0].get_title().set_fontsize(8)
        elif note:
            figure.supxlabel(note, fontsize=8)
        for axis in figure.axes:
            counted = axis.get_xlabel() in ("iteration", "update", "step")
            if counted and axis.get_xscale() == "linear":
                axis.xaxis.set_major_locator(whole(integer=True))
    return figures


def legend_below(figure: Figure, axes: Iterable[Any], columns: int = 3) -> None:
    """One legend for all axes, below the figure, where it lies on no curve.

    A curve that lies on another one of its axis is dashed, wherever it is shown: both are seen.

    Args:
        figure: The figure.
        axes: Its axes, as they will be shown: scales and limits are set.
        columns: Columns of the legend.
    """
    axes = list(axes)
    for axis in axes:
        axis.autoscale_view()  # now, and not when it is drawn: pixels are compared
    lines = [line for axis in axes for line in axis.get_lines() if line.get_label()[0] != "_"]
    dashes: dict[str, int] = {}
    for n, line in enumerate(lines):
        below = [one for one in lines[:n] if one.axes is line.axes and _coincide(one, line)]
        if below:
            name = str(line.get_label())
            dashes[name] = max(dashes.get(name, 0), len(below))
    for line in lines:
        if line.get_label() in dashes:
            line.set_linestyle(DASHES[(dashes[str(line.get_label())] - 1) % len(DASHES)])
    shown = {line.get_label(): line for line in reversed(lines)}
    names = list(dict.fromkeys(line.get_label() for line in lines))
    handles = [shown[name] for name in names]
    figure.legend(handles, names, loc="outside lower center", ncols=min(columns, len(names)))


def _coincide(one: Any, other: Any) -> bool:
    """Whether two lines of an axis are seen as one."""
    ways = [line.axes.transData.transform(line.get_xydata()) for line in (one, other)]
    if ways[0].shape != ways[1].shape or one.get_marker() != other.get_marker():
        return False
    apart = np.abs(ways[0] - ways[1])
    return bool((np.nanmax(apart, initial=0.0) if apart.size else 0.0) < NEAR)


def save_figure(path: str | Path, figure: Figure, dpi: int) -> None:
    """Write a figure in the format that the file's name ends with, whole or not at all."""
    content, path = io.BytesIO(), Path(path)
    figure.savefig(content, format=path.suffix.removeprefix(".") or "png", dpi=dpi)
    write_whole(path, content.getvalue())
