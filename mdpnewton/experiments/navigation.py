"""Non-linear navigation, Section 6.3, Figure 4b: without and with a baseline, and the preset."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from mdpnewton.comparison import paired_differences
from mdpnewton.domains.navigation import Navigation
from mdpnewton.evaluators import MonteCarlo
from mdpnewton.evaluators.episodic import Baseline
from mdpnewton.experiments.learning_curves import (
    PRESET,
    Tested,
    add_rows,
    draw_curves,
    shown_difference,
    shown_final,
    summary,
    trained_and_tested,
    trained_summaries,
)
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings
from mdpnewton.jobs.job import Work
from mdpnewton.loop import search
from mdpnewton.policies import NoisyGain
from mdpnewton.report.figures import legend_below, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.steps import Constant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMA = 2.0  # Paper: not given. Here: the best of 0.5, 1 and 2.
EPISODES = 50
LOW, HIGH = np.array([[0.0, -8.0]]), np.array([[60.0, 0.0]])  # the paper's box of starts
LEVEL = 45.0  # a return that the better methods pass
PREFIX = "baseline_"
CHECK = "second_gauss_newton_at_1"


@dataclass(frozen=True)
class Row:
    """A method and how it is run.

    Attributes:
        method: Name of the method in `METHODS`.
        baseline: Baseline that is subtracted from the returns in the gradient.
        size: Size of every step; directions are not normalised. It was tuned; see `Config`.
    """

    method: str
    baseline: Baseline
    size: float


ROWS = {
    "steepest": Row("steepest", "none", 0.05),
    "natural": Row("natural", "none", 1.0),
    "expectation_maximization": Row("expectation_maximization", "none", 1.0),
    "second_gauss_newton": Row("second_gauss_newton", "none", 16.0),
    CHECK: Row("second_gauss_newton", "none", 1.0),
    "baseline_steepest": Row("steepest", "time", 0.4),
    "baseline_natural": Row("natural", "time", 4.0),
    "baseline_expectation_maximization": Row("expectation_maximization", "time", 1.0),
    "baseline_second_gauss_newton": Row("second_gauss_newton", "time", 64.0),
}


@dataclass(frozen=True)
class Config:
    """Settings.

    The step sizes in `ROWS`, for directions that are not normalised, were tuned on seeds 0-9, that
    is on runs 0-5 of seed 0, by the return after 100 iterations. The page of the experiment lists
    what was tried.

    Attributes:
        runs: Number of runs per method.
        iterations: Number of iterations per run. An iteration plays 50 trajectories, which is 4,000
            transitions.
        practical_runs: Number of runs of the practical preset.
        transitions: Number of transitions per run of the practical preset.
    """

    runs: int = 2
    iterations: int = 5
    practical_runs: int = 1
    transitions: int = 2000

    def __post_init__(self) -> None:
        check_settings(self)


SCALES = {
    "quick": Config(),
    "laptop": Config(40, 100, 20, 25_000),
    "paper": Config(100, 100, 100, 25_000),
}


def work(config: Config, seed: int) -> Work:
    """Undiscounted returns over H = 80 of all methods, against transitions."""
    runs = Runs(gain_run, config, seed, list(ROWS), config.runs)
    practical = Runs(practical_run, config, seed, ["practical"], config.practical_runs)
    found = yield [*runs.jobs, *practical.jobs]
    curves = runs.of(found)
    batch = EPISODES * Navigation().horizon
    clock = range(batch, (config.iterations + 1) * batch + 1, batch)
    methods: dict[str, Any] = {}
    for name, rows in curves.items():
        methods[name] = {**summary(clock, rows), "step_size": ROWS[name].size}
    tested = {name: [Tested(**one) for one in rows] for name, rows in practical.of(found).items()}
    methods.update(trained_summaries(tested, config.transitions, LEVEL))
    twins = np.array(curves["expectation_maximization"]) - np.array(curves[CHECK])
    return {
        "methods": methods,
        "differences": paired_differences({n: [row[-1] for row in r] for n, r in curves.items()}),
        "largest_gap_of_em_and_gauss_newton_at_1": float(np.abs(twins).max()),
    }


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """Learning curves without a baseline, as in Figure 4b, and with one."""
    figure, axes = new_figure(1, 2, sharey=True)
    without, with_baseline, practical = _parts(results)
    del without[CHECK]
    draw_curves(axes[0], {**without, **practical}, unit=1000, variants=PRESET)
    draw_curves(axes[1], {**with_baseline, **practical}, PREFIX, 1000, PRESET)
    axes[0].set_title("without a baseline")
    axes[1].set_title("with a baseline for every time step")
    for axis in axes:
        axis.set_xscale("log")
        axis.set_xlabel("thousands of transitions")
        axis.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
        axis.set_ylim(-2, 65)  # a line at 0 is seen
    axes[0].set_ylabel("return over 80 steps")
    legend_below(figure, axes, 5)
    return {"navigation": figure}


def table(results: dict[str, Any]) -> Table:
    """The final return of each method."""
    shown = new_table(
        "Navigation, return over 80 steps; differences are paired, with 95 % intervals",
        "method",
        "return",
        "minus natural gradient",
        "step size",
    )

    def size(found: Mapping[str, Any]) -> tuple[str]:
        return (f"{found['step_size']:g}" if "step_size" in found else "",)

    without, with_baseline, practical = _parts(results)
    differences = results["differences"]
    check = without.pop(CHECK)
    add_rows(shown, without, differences, "natural", more=size)
    gap = shown_difference(differences[CHECK]["natural"])
    shown.add_row("the same at step 1", shown_final(check), gap, *size(check))
    shown.add_section()
    add_rows(shown, with_baseline, differences, PREFIX + "natural", PREFIX, size)
    shown.add_section()
    add_rows(shown, practical, differences, "natural", more=size, variants=PRESET)
    shown.caption = "Sections: without a baseline, with one for every time step, practical preset."
    return shown


def gain_run(settings: dict[str, Any], seed: int, method: str, number: int) -> list[float]:
    """The mean return of the trajectories of every iteration, and of those after the last.

    The random numbers of a run are the same for all methods.
    """
    row, rng = ROWS[method], np.random.default_rng([seed, number])
    found = search(
        MonteCarlo(Navigation(), 1.0, episodes=EPISODES, baseline=row.baseline),
        NoisyGain(1, 2, SIGMA),
        jnp.asarray(rng.uniform(LOW, HIGH)),
        row.method,
        Constant(row.size),
        key=jax.random.key(int(rng.integers(2**31))),
        iterations=Config(**settings).iterations,
        gradient_tolerance=-1.0,
        patience=None,
    ).or_interrupt()
    return found.objectives


def practical_run(
    settings: dict[str, Any], seed: int, method: str, number: int
) -> dict[str, list[Any]]:
    """One training with the preset, tested after every iteration."""
    transitions = Config(**settings).transitions
    tested = trained_and_tested(
        Navigation(), "second_gauss_newton", [seed, number], transitions, 1.0
    )
    return tested._asdict()


def _parts(results: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    methods = results["methods"]
    without = {name: methods[name] for name, row in ROWS.items() if row.baseline == "none"}
    with_baseline = {name: methods[name] for name, row in ROWS.items() if row.baseline == "time"}
    return without, with_baseline, {"practical": methods["practical"]}
