"""The analysis of a linear-Gaussian model: JSON, a table and a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Group
from rich.table import Table

from mdpnewton.analysis.linear_gaussian import LinearGaussianAnalysis
from mdpnewton.checks import required
from mdpnewton.report.figures import look, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROUND_OFF = 1e-15
LINES = 8  # maximum number of components of the state in a picture
NAMES = {
    "H2_theta_block": "H2 / U, a row of [K|m]",
    "H2_log_sigma": "H2 / U, log sigma",
    "fisher_theta_block": "Fisher, a row of [K|m]",
}


def as_json(analysis: LinearGaussianAnalysis) -> dict[str, Any]:
    """Everything but the distribution of the states, in full precision."""
    found = analysis.derivatives
    return {
        "log_objective": float(found.log_objective),
        "gradient_gain": found.gain.tolist(),
        "gradient_offset": found.offset.tolist(),
        "gradient_log_sigma": float(found.log_sigma),
        "H2_theta_block": found.H2.tolist(),
        "H2_log_sigma": float(found.H2_log_sigma),
        "fisher_theta_block": found.fisher.tolist(),
        "spectra": {
            name: {
                "smallest": float(spectrum.values[0]),
                "largest": float(spectrum.values[-1]),
                "definiteness": spectrum.definiteness,
            }
            for name, spectrum in analysis.spectra.items()
        },
    }


def table(analysis: LinearGaussianAnalysis) -> Group:
    """The eigenvalue ranges, the norms of the gradient, and the closed loop."""
    found = analysis.derivatives
    shown = Table(title=f"Linear-Gaussian model at log U(w) = {found.log_objective:.6g}")
    for column in ("matrix", "smallest", "largest", "definiteness"):
        right = column in ("smallest", "largest")
        shown.add_column(column, justify="right" if right else "left")
    for name, spectrum in analysis.spectra.items():
        low, high = f"{spectrum.values[0]:.4g}", f"{spectrum.values[-1]:.4g}"
        shown.add_row(NAMES[name], low, high, spectrum.definiteness)
    (steps, d), k = analysis.mean.shape, len(found.offset)
    return Group(
        shown,
        f"horizon: {steps}, states: {d}, actions: {k}, parameters: {k * (d + 1) + 1}, "
        f"sigma: {analysis.sigma:.4g}",
        f"gradient of log U, norms: gain {np.linalg.norm(found.gain):.4g}, offset "
        f"{np.linalg.norm(found.offset):.4g}, log sigma {abs(found.log_sigma):.4g}",
        f"spectral radius of A + BK: {analysis.radius:.6g}",
    )


def draw(analysis: LinearGaussianAnalysis) -> Figure:
    """The mean states with one standard deviation on both sides, and the two spectra."""
    figure, (left, right) = new_figure(1, 2)
    _draw_states(left, analysis)
    _draw_spectra(right, analysis)
    return figure


def _draw_states(axis: Axes, analysis: LinearGaussianAnalysis) -> None:
    mean, deviation = analysis.mean, analysis.deviation
    reach = (np.abs(mean) + deviation).max(axis=0)
    chosen = sorted(np.argsort(-reach, kind="stable")[:LINES])
    times = np.arange(len(mean))
    marker = "o" if len(mean) == 1 else ""
    for i in chosen:
        (line,) = axis.plot(times, mean[:, i], marker=marker, label=f"state {i}")
        low, high = mean[:, i] - deviation[:, i], mean[:, i] + deviation[:, i]
        axis.fill_between(times, low, high, color=line.get_color(), alpha=0.18, linewidth=0)
    left_out = mean.shape[1] - len(chosen)
    rest = f"; {left_out} smaller ones not shown" if left_out else ""
    axis.set_title(f"Mean states, one standard deviation about them{rest}")
    axis.set_xlabel("step")
    axis.margins(x=0.02)
    axis.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def _draw_spectra(axis: Axes, analysis: LinearGaussianAnalysis) -> None:
    """Draw eigenvalues in descending order, without zeros up to round-off, on a log axis."""
    for name, sign, label, color in (
        ("H2_theta_block", -1, "-H2 / U", look("second_gauss_newton").color),
        ("fisher_theta_block", 1, "Fisher", look("natural").color),
    ):
        values = np.sort(sign * analysis.spectra[name].values)[::-1]
        kept = values > ROUND_OFF * values[0]
        ranks = np.arange(1, len(values) + 1)[kept]
        axis.semilogy(ranks, values[kept], "o-", color=color, label=label)
    axis.set_title("Eigenvalues for one row of [K|m]")
    axis.set_xlabel("rank")
    ticker = required("matplotlib.ticker", "a figure")
    axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    axis.legend()
