"""Pictures of matrices: the terms of a policy Hessian side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mdpnewton.analysis.finite import Analysis
from mdpnewton.checks import required
from mdpnewton.report.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 12  # parameters that are called by their names
PIXELS = 500  # entries of a row that a picture can show
SHOWN = ("hessian", "H1", "H2", "H12", "A1", "A2", "V1", "V2", "fisher")


def draw_terms(analysis: Analysis, names: Sequence[str] = ()) -> Figure:
    """Draw every term as a picture.

    All share one colour scale, so that small terms look small. The Fisher matrix has other units
    and its own scale.

    Args:
        analysis: The analysis.
        names: Names of the parameters, which few of them are called by; others are numbered.
    """
    whole = required("matplotlib.ticker", "a figure").MaxNLocator
    figure, axes = new_figure(3, 3)
    figure.set_size_inches(8.6, 8.4)
    spectra = analysis.spectra
    matrices = {name: analysis.terms[name] for name in SHOWN}
    matrices["H12"] = matrices["H12"] + matrices["H12"].T
    size = len(matrices["H2"])
    named = 0 < len(names) == size <= NAMED
    largest = max(np.abs(m).max() for name, m in matrices.items() if name != "fisher")
    for axis, (name, matrix) in zip(axes.ravel(), matrices.items(), strict=True):
        label = "H12+H12'" if name == "H12" else name
        scale = np.abs(matrix).max() if name == "fisher" else largest
        image = axis.imshow(
            _pooled(matrix),
            extent=(-0.5, size - 0.5, size - 0.5, -0.5),
            cmap="RdBu",
            vmin=-scale,
            vmax=scale,
        )
        axis.set_title(f"{label}\n{spectra[label].definiteness}", fontsize=9)
        axis.grid(False)
        if named:
            axis.set_xticks(range(size), names, rotation=90)
            axis.set_yticks(range(size), names)
        else:
            for side in (axis.xaxis, axis.yaxis):
                side.set_major_locator(whole(integer=True, nbins=5))
        axis.tick_params(labelsize=5 if named else 7, length=2)
        axis.spines[:].set_visible(False)
        if axis.get_subplotspec().is_first_col():
            axis.set_ylabel("parameter")
        if axis.get_subplotspec().is_last_row():
            axis.set_xlabel("parameter")
        if name in ("H2", "A2", "fisher"):
            figure.colorbar(image, ax=axis, shrink=0.8)
    figure.suptitle(
        "Terms of the policy Hessian by their parameters: one colour scale, Fisher has its own"
    )
    return figure


def _pooled(matrix: np.ndarray) -> np.ndarray:
    """A matrix of more entries than a picture has, by the largest entry of every square."""
    step = -(-len(matrix) // PIXELS)
    if step == 1:
        return matrix
    more = -len(matrix) % step
    square = np.pad(matrix, ((0, more), (0, more)))
    count = len(square) // step
    cells = square.reshape(count, step, count, step).swapaxes(1, 2).reshape(count, count, -1)
    place = np.abs(cells).argmax(axis=2)
    return np.take_along_axis(cells, place[:, :, None], axis=2)[:, :, 0]
