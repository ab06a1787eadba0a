"""How the manipulator's results are shown: Figure 6, a table, and the arm at work."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array
from rich.table import Table

from mdpnewton.domains.arm import Arm, simulate
from mdpnewton.domains.manipulator import manipulator
from mdpnewton.experiments.learning_curves import draw_curves, median_reached, shown_final
from mdpnewton.experiments.manipulator_rows import VARIANTS
from mdpnewton.report.figures import legend_below, look, new_figure
from mdpnewton.report.tables import new_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(results: dict[str, Any], config: Any) -> dict[str, "Figure"]:
    """Figure 6: shares of the best reward against iterations, and against time."""
    figure, axes = new_figure(1, 2, sharey=True)
    methods = results["methods"]
    draw_curves(axes[0], methods, variants=VARIANTS)
    timed = {name: {"curve": found["time_curve"]} for name, found in methods.items()}
    draw_curves(axes[1], timed, variants=VARIANTS)
    axes[0].set_xlabel("iteration")
    axes[1].set_xlabel("seconds of processor time")
    axes[0].set_ylabel("share of the best reward")
    for axis in axes:
        first = 10 if axis is axes[0] else 0.1  # below it the scale is linear
        if axis.get_xlim()[1] > 5 * first:
            axis.set_xscale("symlog", linthresh=first)
            axis.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
            axis.xaxis.set_major_formatter("{x:g}")
        axis.set_ylim(-0.02, 1.02)
        axis.set_xlim(left=0)
    axes[0].set_title(f"{config.links}-link manipulator, {config.steps}")
    axes[1].set_title(f"{len(results['best'])} runs, mean and standard error")
    legend_below(figure, axes, 4)
    return {"manipulator": figure}


def table(results: dict[str, Any]) -> Table:
    """The final share of each method, how soon it is close to the best, and when it stopped."""
    shown = new_table(
        "Manipulator: share of the best reward; iterations to 90 % and 95 % of it\n"
        "(medians) and to the stop (mean); runs that diverged",
        "method",
        "final\nshare",
        "to\n90 %",
        "to\n95 %",
        "to the\nstop",
        "diverged",
    )
    shown.columns[0].min_width = 14
    for name, found in results["methods"].items():
        shown.add_row(
            look(name, VARIANTS).label,
            shown_final(found, 2),
            _needed(found["iterations_to_90_percent"]),
            _needed(found["iterations_to_95_percent"]),
            f"{np.mean(found['iterations_at_stop']):.0f}",
            f"{found['diverged']}",
        )
    reach = results.get("to_reach_em")
    if reach and reach["iterations"] is not None:
        shown.caption = (
            f"Step 30 reaches EM's final value in {100 * reach['iterations']:.1f} % of EM's "
            f"iterations and {100 * reach['seconds']:.1f} % of its time (medians of "
            f"{reach['runs']} runs)."
        )
    return shown


def _needed(iterations: Sequence[int | None]) -> str:
    """The median over all runs, and how many runs reached the level if not all did."""
    median, count = median_reached(iterations), sum(n is not None for n in iterations)
    if count == len(iterations):
        return f"{median:.0f}"
    return f"{'-' if median is None else f'{median:.0f}'} ({count}/{len(iterations)})"


def pictures(results: dict[str, Any], folder: Path) -> list[Path]:
    """PNG and GIF of the nonlinear arm under the best policy's mean and the linearising torque."""
    from mdpnewton.report.arm import arm_film, arm_picture

    mean = np.asarray(results["shown"]["mean"])
    links = len(mean)
    problem = manipulator(results["shown"]["seed"], links, results["shown"]["horizon"])
    arm = Arm.uniform(links)
    still = np.zeros(links)
    command = jax.tree_util.Partial(_command, jax.numpy.asarray(mean))
    states = simulate(arm, command, problem.start, still, problem.dt, problem.mdp.horizon)
    paths = [folder / "arm.png", folder / "arm.gif"]
    arm_picture(paths[0], arm, states, problem.target)
    arm_film(paths[1], arm, states, problem.target)
    return paths


def _command(mean: Array, step: Any, state: Array) -> Array:
    return mean[:, :-1] @ state + mean[:, -1]
