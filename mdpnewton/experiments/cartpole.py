"""Cart-pole swing-up, Section 6.2, Figure 4a: read literally, and with the practical preset.

The literal part is the paper's actor-critic: half of the episodes train a compatible critic, and
a step is undone if the return fell. A random direction with the same check is the control.
The practical part is `mdpnewton.training.train.train` with several directions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from rich.table import Table

from mdpnewton.comparison import paired_differences
from mdpnewton.domains.cartpole import DISCOUNT, CartPole
from mdpnewton.evaluators.compatible import CompatibleCritic, ValueWeight
from mdpnewton.experiments.learning_curves import (
    PRESET,
    Tested,
    add_rows,
    draw_curves,
    summary,
    trained_and_tested,
    trained_summaries,
)
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings, listed
from mdpnewton.experiments.tuning import Tuning, best_size
from mdpnewton.jobs.job import Work
from mdpnewton.loop import Record, search
from mdpnewton.methods import Compatible, Method, Precondition, RandomDirection, Steepest
from mdpnewton.policies import LinearGaussian, RadialBasis
from mdpnewton.report.figures import Look, Looks, legend_below, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.solve import SteepestDescent
from mdpnewton.steps import Decay, KeepIfBetter

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CENTERS, PRECISION, SIGMA, START = 100, (1.0, 0.25), 2.0, 10.0
EPISODES, TEST_EPISODES, DECAY = 10, 20, 100.0
SWUNG_UP, OPTIMUM = 45.0, 52.4
SOON = 12_000  # transitions
GRID = tuple(2.0**power for power in range(-2, 12))  # the paper's values of A
# Paper: steepest descent from the gradient. Here: on |Mx - g|^2 / 2, because on x'Mx / 2 - g'x it
# diverges where M is indefinite, as the sampled A1 and H2 are.
SOLVER = SteepestDescent(250, least_squares=True, start="gradient")


@dataclass(frozen=True)
class Row:
    """A literal method.

    Attributes:
        method: The method that gives the direction.
        size: The constant A of the step size A / (1 + t / 100). It was tuned; see `Config`.
        value_weight: How H2 is weighted: by the critic or by Monte Carlo returns.
        tuned: Whether tuning runs may choose another size.
    """

    method: Method
    size: float
    value_weight: ValueWeight = "critic"
    tuned: bool = True


LITERAL = {
    "steepest": Row(Steepest(), 16.0),
    "natural": Row(Precondition("fisher", SOLVER), 64.0),
    "compatible_natural": Row(Compatible(), 256.0),
    "first_gauss_newton": Row(Precondition("A1", SOLVER), 16.0),
    "second_gauss_newton": Row(Precondition("H2", SOLVER), 16.0),
    "random": Row(RandomDirection(), 1024.0),
    "monte_carlo_second_gauss_newton": Row(Precondition("H2", SOLVER), 64.0, "monte_carlo"),
    # The paper's "good performance could be obtained without step-size tuning"
    "first_gauss_newton_at_1": Row(Precondition("A1", SOLVER), 1.0, tuned=False),
    "second_gauss_newton_at_1": Row(Precondition("H2", SOLVER), 1.0, tuned=False),
}
TUNED = [name for name, row in LITERAL.items() if row.tuned]
VARIANTS: Looks = {
    **PRESET,
    "monte_carlo_second_gauss_newton": Look("second Gauss-Newton, Monte Carlo", "navy"),
    "first_gauss_newton_at_1": Look("first Gauss-Newton, A = 1", "lightcoral"),
    "second_gauss_newton_at_1": Look("second Gauss-Newton, A = 1", "lightskyblue"),
}
# Rows of the practical part, each with its method of `train`, which differ in nothing else.
PREFIX = "practical_"
PRACTICAL = {
    "practical": "second_gauss_newton",
    "practical_natural": "natural",
    "practical_steepest": "steepest",
    "practical_first_gauss_newton": "first_gauss_newton",
    "practical_raw_second_gauss_newton": "raw_second_gauss_newton",
    "practical_random": "random",
}


@dataclass(frozen=True)
class Config:
    """Settings.

    The sizes A in `LITERAL` were tuned roughly on seeds 0-9, that is on six runs of seed 0 with 60
    iterations. Some powers of four were tried, not the same ones for every method; the page of the
    experiment lists them. Results with other seeds share no run with the tuning.

    Attributes:
        runs: Number of runs per literal method.
        iterations: Number of iterations per literal run. An iteration collects a batch of ten
            trajectories of length 2H, which is 2,000 transitions.
        every: Number of iterations between two tests.
        tuning_runs: Number of tuning runs per step size A of the paper's grid. They come before
            all other runs and have their own seeds; the best A is then used. With 0, the sizes in
            `LITERAL` are used.
        methods: Names of the literal methods, separated by commas.
        size: The constant A of all literal methods; with 0, each has its own.
        practical_runs: Number of runs per practical method; with 0, there is no practical part.
        practical_methods: Number of practical methods to run, in the order of `PRACTICAL`.
        transitions: Number of transitions per practical run.
    """

    runs: int = 1
    iterations: int = 5
    every: int = 5
    tuning_runs: int = 0
    methods: str = ",".join(TUNED)
    size: float = 0.0
    practical_runs: int = 1
    practical_methods: int = 2
    transitions: int = 1600

    def __post_init__(self) -> None:
        check_settings(self, tuning_runs=0, size=0, practical_runs=0)


SCALES = {
    "quick": Config(),
    "laptop": Config(30, 200, 10, 0, practical_runs=20, practical_methods=6, transitions=25_000),
    "paper": Config(50, 200, 10, 20, ",".join(LITERAL), 0.0, 100, 6, 25_000),
}


def work(config: Config, seed: int) -> Work:
    """Discounted returns over H = 100 of all methods, against transitions."""
    chosen = listed("methods", config.methods, LITERAL)
    sizes = {name: config.size or LITERAL[name].size for name in chosen}
    tuned: dict[str, Any] = {}
    if config.tuning_runs and not config.size:
        grids = {name: GRID for name in chosen if LITERAL[name].tuned}
        tuning = Tuning(tuning_run, config, seed, grids, config.tuning_runs)
        tuned = tuning.of((yield tuning.jobs))
        sizes |= {name: best_size(tried) for name, tried in tuned.items()}
    rows = {
        name: Runs(literal_run, config, seed, [name], config.runs, more={"size": sizes[name]})
        for name in chosen
    }
    names = list(PRACTICAL)[: config.practical_methods]
    practical = Runs(practical_run, config, seed, names, config.practical_runs)
    jobs = [job for runs in rows.values() for job in runs.jobs]
    jobs.sort(key=lambda job: int(job.arguments["number"]))  # all methods finish a run first
    found = yield [*jobs, *practical.jobs]
    clock = range(0, config.iterations * _batch() + 1, config.every * _batch())
    methods = {}
    for name, runs in rows.items():
        curves = runs.of(found)[name]
        methods[name] = {
            **summary(clock, curves),
            "final_returns": [curve[-1] for curve in curves],
            "step_size": sizes[name],
        }
    tested = {name: [Tested(**one) for one in rows] for name, rows in practical.of(found).items()}
    trained = (
        trained_summaries(tested, config.transitions, SWUNG_UP) if config.practical_runs else {}
    )
    for row in trained.values():
        soon = [n is not None and n <= SOON for n in row["transitions_to_level"]]
        row["share_by_12000"] = float(np.mean(soon))
    both = {**methods, **trained}
    for row in both.values():
        row["swung_up"] = float(np.mean(np.array(row["final_returns"]) >= SWUNG_UP))
    return {
        "methods": both,
        "tuning": tuned,
        "differences": {
            **paired_differences({name: both[name]["final_returns"] for name in methods}),
            **paired_differences({name: both[name]["final_returns"] for name in trained}),
        },
    }


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """The literal part as in Figure 4a, and the practical part beside it."""
    literal, practical = _parts(results)
    figure, axes = new_figure(1, 2 if practical else 1, sharey=True, squeeze=False)
    draw_curves(axes[0, 0], literal, unit=1000, variants=VARIANTS)
    axes[0, 0].set_title("the paper's actor-critic")
    if practical:
        draw_curves(axes[0, 1], practical, PREFIX, 1000, VARIANTS)
        axes[0, 1].set_title("practical preset, several directions")
    for axis in axes.flat:
        axis.axhline(OPTIMUM, color="black", lw=0.8, ls=":", label="optimum")
        axis.set_xlabel("thousands of transitions")
        axis.set_xlim(left=0)
        axis.set_ylim(0, 60)
    axes[0, 0].set_ylabel("discounted return")
    legend_below(figure, axes.flat, 4 if practical else 3)
    return {"cartpole": figure}


def table(results: dict[str, Any]) -> Table:
    """The final return of each method, and how soon it swings the pole up."""
    shown = new_table(
        "Cart-pole, discounted return; differences are paired, with 95 % intervals",
        "method",
        "return",
        "difference",
        f"runs that end above {SWUNG_UP:.0f}",
        f"median transitions to {SWUNG_UP:.0f}",
    )

    def more(found: Mapping[str, Any]) -> tuple[str, str]:
        median = found.get("median_transitions_to_level")
        needed = "" if "transitions_to_level" not in found else "never"
        return f"{100 * found['swung_up']:.0f} %", needed if median is None else f"{median:,.0f}"

    literal, practical = _parts(results)
    differences = results["differences"]
    add_rows(shown, literal, differences, "random", more=more, variants=VARIANTS)
    if practical:
        shown.add_section()
        add_rows(shown, practical, differences, "practical", PREFIX, more, VARIANTS)
    below = " (above) and to the practical preset (below)" if practical else ""
    shown.caption = f"Differences to the random direction{below}."
    return shown


def tuning_run(settings: dict[str, Any], seed: int, method: str, number: int, size: float) -> float:
    """The last return of a run with a step size of the grid, on random numbers of its own."""
    return literal_curve(method, size, [seed, number, 1], Config(**settings))[-1]


def literal_run(
    settings: dict[str, Any], seed: int, method: str, number: int, size: float
) -> list[float]:
    """The curve of one run of a literal method."""
    return literal_curve(method, size, [seed, number], Config(**settings))


def practical_run(
    settings: dict[str, Any], seed: int, method: str, number: int
) -> dict[str, list[Any]]:
    """One training with the preset, tested after every iteration."""
    config, row = Config(**settings), PRACTICAL[method]
    tested = trained_and_tested(CartPole(), row, [seed, number], config.transitions, DISCOUNT)
    return tested._asdict()


def literal_curve(name: str, size: float, entropy: list[int], config: Config) -> list[float]:
    """The return on fresh episodes, at the start and after every `config.every` iterations.

    Args:
        name: Name of a row of `LITERAL`.
        size: The constant A of the step size.
        entropy: Random seed of the centres, the start and the keys. It is the same for all methods.
        config: Settings: how many iterations to run and how often to test.
    """
    rng = np.random.default_rng(entropy)
    box = np.array([np.pi, 4 * np.pi])
    centers = jnp.asarray(rng.uniform(-box, box, (CENTERS, 2)))
    policy = LinearGaussian(SIGMA**2, CENTERS, RadialBasis(centers, jnp.asarray(PRECISION)))
    start = jnp.asarray(START * rng.normal(size=(1, CENTERS)))
    key, test_key = jax.random.split(jax.random.key(int(rng.integers(2**31))))
    simulator, row = CartPole(), LITERAL[name]
    evaluator = CompatibleCritic(
        simulator, DISCOUNT, episodes=EPISODES, value_weight=row.value_weight
    )
    curve: list[float] = []

    def test(w: PyTree) -> None:
        moment = jax.random.fold_in(test_key, len(curve))
        played = simulator.play(moment, policy, w, TEST_EPISODES)
        curve.append(float(played.returns(DISCOUNT).mean()))

    def after(record: Record, w: PyTree) -> bool:
        # A step that is undone costs two batches, and `w` is the same after both.
        batches = min(evaluator.memory.transitions // _batch(), config.iterations)
        while len(curve) <= batches // config.every:
            test(w)
        return batches == config.iterations

    test(start)
    search(
        evaluator,
        policy,
        start,
        row.method,
        KeepIfBetter(Decay(size, DECAY)),
        key=key,
        iterations=config.iterations,
        gradient_tolerance=-1.0,
        patience=None,
        callback=after,
    ).or_interrupt()
    return curve


def _batch() -> int:
    """Number of transitions per iteration."""
    return EPISODES * 2 * CartPole().horizon


def _parts(results: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    methods = results["methods"]
    literal = {name: found for name, found in methods.items() if name in LITERAL}
    return literal, {name: found for name, found in methods.items() if name in PRACTICAL}
