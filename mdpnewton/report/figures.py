"""The look of the figures, and how a method is shown in them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
        if note:
            figure.supxlabel(note, fontsize=7, color="0.35")
        for axis in figure.axes:
            counted = axis.get_xlabel() in ("iteration", "update", "step")
            if counted and axis.get_xscale() == "linear":
                axis.xaxis.set_major_locator(whole(integer=True))
    return figures


def save_figure(path: str | Path, figure: Figure, dpi: int) -> None:
    """Write a figure in the format that the file's name ends with, whole or not at all."""
    content, path = io.BytesIO(), Path(path)
    figure.savefig(content, format=path.suffix.removeprefix(".") or "png", dpi=dpi)
    write_whole(path, content.getvalue())
