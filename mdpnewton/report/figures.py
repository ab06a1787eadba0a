"""The look of the figures, and the colour and name of every method in them."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from mdpnewton.checks import required

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
    "legend.frameon": False,
    "svg.hashsalt": "mdpnewton",  # the same picture gives the same file
}

FORMATS: dict[str, dict[str, Any]] = {"png": {"dpi": 150}, "svg": {"metadata": {"Date": None}}}

# The colours of Figure 3, and of Section 6 for the others.
COLORS = {
    "steepest": "tab:green",
    "natural": "tab:olive",
    "first_gauss_newton": "tab:red",
    "second_gauss_newton": "tab:blue",
    "diagonal_first_gauss_newton": "tab:purple",
    "diagonal_second_gauss_newton": "black",
    "compatible_natural": "tab:cyan",
    "expectation_maximization": "tab:brown",
    "raw_second_gauss_newton": "deepskyblue",
    "monte_carlo_second_gauss_newton": "navy",
    "random": "tab:gray",
    "practical": "tab:orange",
    "log_second_gauss_newton": "deepskyblue",
    "log_natural": "darkkhaki",
    "log_steepest": "lightgreen",
    "second_gauss_newton_10": "deepskyblue",
    "second_gauss_newton_30": "tab:blue",
    "second_gauss_newton_100": "navy",
    "natural_30": "tab:olive",
    "long_mean_30": "tab:orange",
    "block_second_gauss_newton": "tab:blue",
    "adam": "tab:orange",
    "blockwise_expectation_maximization": "tan",
    "cma_es": "tab:gray",
}
LABELS = {
    "steepest": "steepest ascent",
    "natural": "natural gradient",
    "first_gauss_newton": "first Gauss-Newton",
    "second_gauss_newton": "second Gauss-Newton",
    "diagonal_first_gauss_newton": "diagonal first Gauss-Newton",
    "diagonal_second_gauss_newton": "diagonal second Gauss-Newton",
    "compatible_natural": "compatible natural gradient",
    "expectation_maximization": "expectation maximisation",
    "raw_second_gauss_newton": "second Gauss-Newton, no offset",
    "monte_carlo_second_gauss_newton": "second Gauss-Newton, Monte Carlo",
    "random": "random direction",
    "practical": "practical preset",
    "log_second_gauss_newton": "second Gauss-Newton on log U",
    "log_natural": "natural gradient on log U",
    "log_steepest": "steepest ascent on log U",
    "second_gauss_newton_10": "second Gauss-Newton, step 10",
    "second_gauss_newton_30": "second Gauss-Newton, step 30",
    "second_gauss_newton_100": "second Gauss-Newton, step 100",
    "natural_30": "natural gradient, step 30",
    "long_mean_30": "mean step 30, EM's sigma",
    "block_second_gauss_newton": "second Gauss-Newton, blocks",
    "adam": "Adam",
    "blockwise_expectation_maximization": "EM, about the old mean",
    "cma_es": "CMA-ES",
}


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
