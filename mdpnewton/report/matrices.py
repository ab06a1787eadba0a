"""Pictures of matrices: the terms of a policy Hessian side by side."""

import numpy as np
from matplotlib.figure import Figure

from mdpnewton.analysis import Analysis
from mdpnewton.report.figures import new_figure

SHOWN = ("hessian", "H1", "H2", "H12", "A1", "A2", "V1", "fisher")


def draw_terms(analysis: Analysis) -> Figure:
    """Every term as a picture; one colour scale, so that small terms look small."""
    figure, axes = new_figure(2, 4)
    largest = max(np.abs(analysis.terms[name]).max() for name in SHOWN)
    spectra = analysis.spectra
    for axis, name in zip(axes.ravel(), SHOWN, strict=True):
        label, matrix = name, analysis.terms[name]
        if name == "H12":
            label, matrix = "H12+H12'", matrix + matrix.T
        image = axis.imshow(matrix, cmap="RdBu", vmin=-largest, vmax=largest)
        axis.set_title(f"{label}: {spectra[label].definiteness}")
        axis.grid(False)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.colorbar(image, ax=axes, shrink=0.8)
    return figure
