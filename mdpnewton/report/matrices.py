"""Pictures of matrices: the terms of a policy Hessian side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdpnewton.analysis.finite import Analysis
from mdpnewton.checks import required
from mdpnewton.report.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("hessian", "H1", "H2", "H12", "A1", "A2", "V1", "V2", "fisher")


def draw_terms(analysis: Analysis) -> Figure:
    """Draw every term as a picture.

    All share one colour scale, so that small terms look small. The Fisher matrix has other units
    and its own scale.
    """
    whole = required("matplotlib.ticker", "a figure").MaxNLocator
    figure, axes = new_figure(3, 3)
    figure.set_size_inches(8.6, 8.4)
    spectra = analysis.spectra
    matrices = {name: analysis.terms[name] for name in SHOWN}
    matrices["H12"] = matrices["H12"] + matrices["H12"].T
    largest = max(np.abs(m).max() for name, m in matrices.items() if name != "fisher")
    for axis, (name, matrix) in zip(axes.ravel(), matrices.items(), strict=True):
        label = "H12+H12'" if name == "H12" else name
        scale = np.abs(matrix).max() if name == "fisher" else largest
        image = axis.imshow(matrix, cmap="RdBu", vmin=-scale, vmax=scale)
        axis.set_title(f"{label}\n{spectra[label].definiteness}", fontsize=9)
        axis.grid(False)
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_locator(whole(integer=True, nbins=5))
        axis.tick_params(labelsize=7, length=2)
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
