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
from mdpnewton.experiments.tuning import Tuning, best_size, safe_size
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
CHOICES = {"best": best_size, "safe": safe_size}


@dataclass(frozen=True)
class Row:
    """A method and how it is run.

    Attributes:
        method: Name of the method in `METHODS`.
        baseline: Baseline that is subtracted from the returns in the gradient.
        size: Size of every step; directions are not normalised. It was tuned; see `Config`.
        grid: The sizes that tuning runs try; none for a method whose step is 1 by definition.
    """

    method: str
    baseline: Baseline
    size: float
    grid: tuple[float, ...] = ()


def doubled(least: float, number: int) -> tuple[float, ...]:
    """Sizes, each of which is twice the one before."""
    return tuple(least * 2.0**power for power in range(number))


ROWS = {
    "steepest": Row("steepest", "none", 0.05, doubled(0.0125, 6)),
    "natural": Row("natural", "none", 1.0, doubled(0.25, 5)),
    "expectation_maximization": Row("expectation_maximization", "none", 1.0),
    "second_gauss_newton": Row("second_gauss_newton", "none", 16.0, doubled(4.0, 5)),
    CHECK: Row("second_gauss_newton", "none", 1.0),
    "baseline_steepest": Row("steepest", "time", 0.4, doubled(0.1, 5)),
    "baseline_natural": Row("natural", "time", 4.0, doubled(1.0, 5)),
    "baseline_expectation_maximization": Row("expectation_maximization", "time", 1.0),
    "baseline_second_gauss_newton": Row("second_gauss_newton", "time", 64.0, doubled(4.0, 6)),
}


@dataclass(frozen=True)
class Config:
    """Settings.

    The step sizes in `ROWS`, for directions that are not normalised, were tuned on seeds 0-9, that
    is on runs 0-5 of seed 0, by the return after 100 iterations. With `tuning_runs`, those sizes
    are replaced by what the tuning runs choose from the grids in `ROWS`.

    Attributes:
        runs: Number of runs per method.
        iterations: Number of iterations per run. An iteration plays 50 trajectories, which is 4,000
            transitions.
        practical_runs: Number of runs of the practical preset; with 0, it is left out.
        transitions: Number of transitions per run of the practical preset.
        tuning_runs: Number of tuning runs per method and size. They come before all other runs and
            have random numbers of their own. With 0, the sizes in `ROWS` are used.
        choice: Which size the tuning runs choose: "best", or "safe", the best one that is not next
            to where the method breaks down; see `safe_size`.
    """

    runs: int = 2
    iterations: int = 5
    practical_runs: int = 1
    transitions: int = 2000
    tuning_runs: int = 0
    choice: str = "safe"

    def __post_init__(self) -> None:
        check_settings(self, practical_runs=0, tuning_runs=0, choice=CHOICES)


SCALES = {
    "quick": Config(),
    "laptop": Config(40, 100, 20, 25_000),
    "paper": Config(100, 100, 100, 25_000),
}


def work(config: Config, seed: int) -> Work:
    """Undiscounted returns over H = 80 of all methods, against transitions."""
    sizes = {name: row.size for name, row in ROWS.items()}
    tuned: dict[str, Any] = {}
    if config.tuning_runs:
        grids = {name: row.grid for name, row in ROWS.items() if row.grid}
        tuning = Tuning(tuning_run, config, seed, grids, config.tuning_runs)
        tuned = tuning.of((yield tuning.jobs))
        sizes |= {name: CHOICES[config.choice](tried) for name, tried in tuned.items()}
    runs = {
        name: Runs(gain_run, config, seed, [name], config.runs, more={"size": size})
        for name, size in sizes.items()
    }
    practical = Runs(practical_run, config, seed, ["practical"], config.practical_runs)
    jobs = [job for one in runs.values() for job in one.jobs]
    jobs.sort(key=lambda job: int(job.arguments["number"]))  # all methods finish a run first
    found = yield [*jobs, *practical.jobs]
    curves = {name: one.of(found)[name] for name, one in runs.items()}
    batch = EPISODES * Navigation().horizon
    clock = range(batch, (config.iterations + 1) * batch + 1, batch)
    methods: dict[str, Any] = {}
    for name, rows in curves.items():
        methods[name] = {**summary(clock, rows), "step_size": sizes[name]}
    tested = {name: [Tested(**one) for one in rows] for name, rows in practical.of(found).items()}
    if config.practical_runs:
        methods.update(trained_summaries(tested, config.transitions, LEVEL))
    twins = np.array(curves["expectation_maximization"]) - np.array(curves[CHECK])
    return {
        "methods": methods,
        "tuning": tuned,
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
    shown.caption = "Sections: without a baseline, with one for every time step"
    if practical:
        shown.add_section()
        add_rows(shown, practical, differences, "natural", more=size, variants=PRESET)
        shown.caption += ", practical preset"
    shown.caption += "."
    return shown


def gain_run(
    settings: dict[str, Any], seed: int, method: str, number: int, size: float
) -> list[float]:
    """The mean return of the trajectories of every iteration, and of those after the last.

    The random numbers of a run are the same for all methods.
    """
    return gain_curve(ROWS[method], size, [seed, number], Config(**settings).iterations)


def tuning_run(settings: dict[str, Any], seed: int, method: str, number: int, size: float) -> float:
    """The last return of a run with a size of the grid, on random numbers of its own."""
    entropy = [seed, number, 1]
    return gain_curve(ROWS[method], size, entropy, Config(**settings).iterations)[-1]


def gain_curve(row: Row, size: float, entropy: list[int], iterations: int) -> list[float]:
    """The mean return of every iteration's trajectories, and of those after the last.

    Args:
        row: The method and its baseline.
        size: Size of every step.
        entropy: Random seed of the start and the keys.
        iterations: Number of iterations.
    """
    rng = np.random.default_rng(entropy)
    found = search(
        MonteCarlo(Navigation(), 1.0, episodes=EPISODES, baseline=row.baseline),
        NoisyGain(1, 2, SIGMA),
        jnp.asarray(rng.uniform(LOW, HIGH)),
        row.method,
        Constant(size),
        key=jax.random.key(int(rng.integers(2**31))),
        iterations=iterations,
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
    return without, with_baseline, {n: methods[n] for n in ("practical",) if n in methods}
