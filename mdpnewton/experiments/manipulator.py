"""The 3-link manipulator, Section 6.4, Figure 6 and Table 1: line search, and a fixed step size.

Every direction is exact. Rewards are shares of the best reward that any method reached from the
same start.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, PyTree
from rich.table import Table

from mdpnewton.domains.arm import Arm, simulate
from mdpnewton.domains.manipulator import Manipulator, manipulator
from mdpnewton.evaluators import LinearGaussianEvaluator
from mdpnewton.experiments.learning_curves import (
    at_points,
    draw_curves,
    first_reaching,
    median_reached,
    shown_final,
    summary,
)
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings
from mdpnewton.experiments.timed_search import Way, timed_search
from mdpnewton.jobs.job import Work
from mdpnewton.methods import ExpectationMaximization, Method, Situation
from mdpnewton.report.figures import Look, Looks, legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.solve import SolveReport
from mdpnewton.steps import Constant, StepRule, StrongWolfe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 101  # number of points per curve
DIVERGED = 0.5  # a run diverged if it ends below this share of its own best


class LongMean(Method):
    """EM with a longer step of the mean; sigma follows EM's rule and therefore stays positive.

    Attributes:
        factor: Factor by which the step of the mean is longer than EM's.
    """

    factor: float

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        step, report = ExpectationMaximization().direct(at)
        return {**step, "mean": self.factor * step["mean"]}, report


@dataclass(frozen=True)
class Row:
    """A method with its step rule.

    Attributes:
        method: The method that gives the direction.
        step: The step rule that says how far to go.
        iterations: Number of iterations as a multiple of `Config.iterations`.
        logarithm: Whether the line search looks at log U instead of U.
    """

    method: str | Method
    step: StepRule
    iterations: float = 1.0
    logarithm: bool = True


WOLFE = StrongWolfe(initial="twice")
BLOCK = "block_second_gauss_newton"
EM = "expectation_maximization"
ROWS = {
    "line search": {
        "second_gauss_newton": Row(BLOCK, WOLFE, logarithm=False),
        "log_second_gauss_newton": Row(BLOCK, WOLFE),
        "natural": Row("natural", WOLFE, logarithm=False),
        "log_natural": Row("natural", WOLFE),
        "expectation_maximization": Row(EM, Constant(1.0), 3.0),
        "steepest": Row("steepest", WOLFE, logarithm=False),
        "log_steepest": Row("steepest", WOLFE),
    },
    "fixed step": {
        "second_gauss_newton_30": Row(BLOCK, Constant(30.0)),
        "second_gauss_newton_10": Row(BLOCK, Constant(10.0)),
        "second_gauss_newton_100": Row(BLOCK, Constant(100.0)),
        "long_mean_30": Row(LongMean(30.0), Constant(1.0)),
        "expectation_maximization": Row(EM, Constant(1.0)),
        "natural_30": Row("natural", Constant(30.0), logarithm=False),
    },
}
VARIANTS: Looks = {
    "log_second_gauss_newton": Look("second Gauss-Newton on log U", "deepskyblue"),
    "log_natural": Look("natural gradient on log U", "darkkhaki"),
    "log_steepest": Look("steepest ascent on log U", "lightgreen"),
    "second_gauss_newton_10": Look("second Gauss-Newton, step 10", "deepskyblue"),
    "second_gauss_newton_30": Look("second Gauss-Newton, step 30", "tab:blue"),
    "second_gauss_newton_100": Look("second Gauss-Newton, step 100", "navy"),
    "natural_30": Look("natural gradient, step 30", "tab:olive"),
    "long_mean_30": Look("mean step 30, EM's sigma", "tab:orange"),
}


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        steps: Step rule of the methods: "line search" or "fixed step".
        runs: Number of problems. Each has its own start, target and initial parameters.
        iterations: Number of iterations per method. In the comparison with line searches, EM has no
            line search and gets three times as many.
        links: Number of links, N.
        horizon: Number of time steps per episode, H.
    """

    steps: str = "line search"
    runs: int = 2
    iterations: int = 15
    links: int = 3
    horizon: int = 100

    def __post_init__(self) -> None:
        check_settings(self, steps=ROWS)


SCALES = {
    "quick": Config(),
    "laptop": Config(runs=24, iterations=1000),
    "paper": Config(runs=100, iterations=1000),
}


def work(config: Config, seed: int) -> Work:
    """Shares of the best reward against iterations and seconds, for every method."""
    rows = ROWS[config.steps]
    runs = Runs(searched_way, config, seed, list(rows), config.runs)
    found = runs.of((yield runs.jobs))
    ways = {name: [Way(**one) for one in each] for name, each in found.items()}
    best: list[float] = []
    poses: list[Any] = []
    for ended in zip(*ways.values(), strict=True):
        best.append(max(way.objective.max() for way in ended))
        poses.append(max(ended, key=lambda way: way.objective[-1]).w["mean"])
    methods = {name: _summary(each, best, rows[name], config) for name, each in ways.items()}
    results: dict[str, Any] = {"methods": methods, "best": [float(b) for b in best]}
    results["seeds"] = [seed, seed + len(best) - 1]
    if config.steps == "fixed step":
        results["to_reach_em"] = _to_reach_em(ways)
    # The problem whose best policy is best, for the pictures
    place = int(np.argmax(best))
    results["shown"] = {
        "seed": seed + place,
        "horizon": config.horizon,
        "mean": np.asarray(poses[place]).tolist(),
    }
    return results


def searched_way(settings: dict[str, Any], seed: int, method: str, number: int) -> dict[str, Any]:
    """One search on one problem; some steps come first, so that compilation is not timed."""
    config = Config(**settings)
    problem = manipulator(seed + number, config.links, config.horizon)
    way = searched(problem, ROWS[config.steps][method], config.iterations, warm=True)
    return {**vars(way), "w": {name: np.asarray(leaf) for name, leaf in way.w.items()}}


def searched(problem: Manipulator, row: Row, iterations: int, *, warm: bool = False) -> Way:
    """One search from the problem's initial parameters; the values are those of U, never log U."""
    evaluator = LinearGaussianEvaluator(problem.mdp, logarithm=row.logarithm)
    limit = round(row.iterations * iterations)
    found = timed_search(
        evaluator, problem.policy, problem.w, row.method, row.step, limit, warm=warm
    )
    return replace(found, objective=np.exp(found.objective)) if row.logarithm else found


def _summary(ways: list[Way], best: list[float], row: Row, config: Config) -> dict[str, Any]:
    shares = [way.objective / top for way, top in zip(ways, best, strict=True)]
    length = round(row.iterations * config.iterations)
    clock = np.unique(np.linspace(0, length, POINTS).round().astype(int))
    curves = [at_points(clock.tolist(), range(len(share)), share.tolist()) for share in shares]
    until = float(np.median([way.seconds[-1] for way in ways]))
    times = np.linspace(0, until, POINTS)
    by_time = [
        at_points(times.tolist(), way.seconds.tolist(), share.tolist())
        for way, share in zip(ways, shares, strict=True)
    ]
    return {
        **summary(clock, curves),
        "time_curve": summary(times, by_time)["curve"],
        "final_shares": [float(share[-1]) for share in shares],
        "iterations_at_stop": [len(share) - 1 for share in shares],
        "iterations_to_90_percent": [_first(share, 0.90) for share in shares],
        "iterations_to_95_percent": [_first(share, 0.95) for share in shares],
        "seconds": [float(way.seconds[-1]) for way in ways],
        "diverged": sum(_diverged(way) for way in ways),
        "refused": sum(way.refused for way in ways),
        "monotone": sum(
            bool((np.diff(way.objective) > -1e-9 * way.objective[1:]).all()) for way in ways
        ),
        "log10_sigma": [float(np.asarray(way.w["scale"]) / np.log(10)) for way in ways],
    }


def _first(share: np.ndarray, level: float) -> int | None:
    return first_reaching(range(len(share)), share, level)


def _diverged(way: Way) -> bool:
    return bool(way.objective[-1] < DIVERGED * way.objective.max())


def _to_reach_em(ways: dict[str, list[Way]]) -> dict[str, Any]:
    """The cost at which second Gauss-Newton reaches EM's final value, as a share of EM's cost."""
    iterations, seconds = [], []
    pairs = zip(ways["second_gauss_newton_30"], ways["expectation_maximization"], strict=True)
    for way, em in pairs:
        reached = np.flatnonzero(way.objective >= em.objective[-1])
        if reached.size:
            iterations.append(int(reached[0]) / (len(em.objective) - 1))
            seconds.append(float(way.seconds[reached[0]] / em.seconds[-1]))
    return {
        "runs": len(iterations),
        "iterations": float(np.median(iterations)) if iterations else None,
        "seconds": float(np.median(seconds)) if seconds else None,
    }


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
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
