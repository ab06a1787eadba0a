"""Ball-in-a-cup, Section 6.6: which methods learn to catch the ball, and in how many runs."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy  # which loads its statistics only when they are used: they take a second
from rich.table import Table

from mdpnewton.checks import required
from mdpnewton.domains.ball_in_cup import BallInCup, load_demonstration
from mdpnewton.domains.ball_in_cup.model import STEP
from mdpnewton.experiments.learning_curves import draw_curves, shown_final, summary
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings, listed
from mdpnewton.jobs.job import Work
from mdpnewton.report.figures import Look, Looks, legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.training.black_box import BLACK_BOX_METHODS, Generation, maximize

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CMA, BY_MEAN = "cma_es", "mean_natural"
PEERS: Looks = {CMA: Look("CMA-ES", "tab:gray"), BY_MEAN: Look("natural, mean", "darkkhaki")}
After = Callable[[float, np.ndarray], None]  # called after an update: samples' reward, new mean
EVERY = 5  # the mean is played after every fifth update
FINE = 0.001  # seconds per step when a mean that caught is played again
PAPER = {"second_gauss_newton": (45, 50), "expectation_maximization": (36, 50)}


@dataclass(frozen=True)
class Config:
    """Settings. A run succeeds if the ball lies in the cup at the end when the last mean is played.

    Methods other than natural gradient and steepest ascent have step size 1.

    Attributes:
        runs: Number of runs per method. All methods but CMA-ES share the first samples of a run.
        updates: Number of policy updates per run.
        samples: Number of rollouts per update.
        reuse: Number of batches that a direction is computed from, including the newest.
        weighting: How old batches are weighted: "pooled" or "importance".
        sigma: Initial standard deviation of every weight. The paper's precision is 0.01.
        scale: Factor that multiplies the demonstrated movement in the start.
        bump: Height of the start's sideways swing, in rad.
        natural_step: Step size of the natural gradient, of the sum of utilities, or with the method
            "mean_natural" of their mean, which is as many times smaller as there are samples.
        steepest_step: Step size of steepest ascent.
        duration: Length of an episode in seconds.
        methods: Names of the methods, separated by commas.
        reference: Name of the method that the others are tested against.
        threads: Number of rollouts that run at once. Only the time depends on it.
    """

    runs: int = 1
    updates: int = 3
    samples: int = 6
    reuse: int = 3
    weighting: str = "pooled"
    sigma: float = 10.0
    scale: float = 0.75
    bump: float = 0.05
    natural_step: float = 1.0
    steepest_step: float = 0.1
    duration: float = 1.5
    methods: str = ",".join([*BLACK_BOX_METHODS, CMA])
    reference: str = "second_gauss_newton"
    threads: int = 2

    def __post_init__(self) -> None:
        bounds = {n: {"above": 0.0} for n in ("sigma", "natural_step", "steepest_step", "duration")}
        check_settings(self, weighting=("pooled", "importance"), **bounds)


SCALES = {
    "quick": Config(),
    "laptop": Config(runs=10, updates=100, samples=15, reuse=10),
    "paper": Config(runs=50, updates=100, samples=15, reuse=10),
}


class Run(NamedTuple):
    """One search.

    Attributes:
        rewards: Mean reward of the samples that each update was computed from.
        tried: Numbers of updates after which the mean was played; the first is 0.
        caught: Whether each of these means caught the ball; the last one is the result.
        mean: The last mean.
        seconds: Processor time of the search.
        again: Whether the last mean caught, and catches again with finer time steps.
    """

    rewards: list[float]
    tried: list[int]
    caught: list[bool]
    mean: np.ndarray
    seconds: float
    again: bool


def work(config: Config, seed: int) -> Work:
    """Rewards and catches of every method."""
    known = (*BLACK_BOX_METHODS, BY_MEAN, CMA)
    listed("reference", config.reference, known)
    names = listed("methods", config.methods, known)
    if CMA in names:
        required("cma", "CMA-ES")  # fail now if it is missing, not after the other methods
    _game(config)
    runs = Runs(searched, config, seed, names, config.runs)
    first = Runs(played_start, config, seed, ["start"], 1)
    done = yield [*first.jobs, *runs.jobs]
    (start,) = first.of(done)["start"]
    found = {name: [Run(**one) for one in rows] for name, rows in runs.of(done).items()}
    methods = {name: _summary(rows) for name, rows in found.items()}
    _compare(methods, config.reference)
    return {
        "methods": methods,
        "start": start,
        "reference": config.reference,
        "shown": _shown(found, _start(config)),
        "seeds": [seed, seed + config.runs - 1],
    }


def played_start(settings: dict[str, Any], seed: int, method: str, number: int) -> dict[str, Any]:
    """What the start does."""
    config = Config(**settings)
    first = _game(config).play(_start(config))
    return {"reward": float(first.reward[0]), "caught": bool(first.caught[0])}


def searched(settings: dict[str, Any], seed: int, method: str, number: int) -> dict[str, Any]:
    """One search; see `Run`."""
    config = Config(**settings)
    game, start, began = _game(config), _start(config), time.process_time()
    tried, caught = [0], [bool(game.play(start).caught[0])]
    rewards: list[float] = []

    def after(reward: float, mean: np.ndarray) -> None:
        rewards.append(reward)
        if len(rewards) % EVERY == 0 or len(rewards) == config.updates:
            tried.append(len(rewards))
            caught.append(bool(game.play(mean).caught[0]))

    search = _cma_es if method == CMA else _gaussian
    mean = search(config, method, game, start, seed + number, after)
    seconds = time.process_time() - began
    again = caught[-1] and bool(_game(config, FINE).play(mean).caught[0])
    return Run(rewards, tried, caught, mean, seconds, again)._asdict()


def _game(config: Config, dt: float = STEP) -> BallInCup:
    return BallInCup(dt=dt, duration=config.duration, threads=config.threads)


def _start(config: Config) -> np.ndarray:
    demonstration = load_demonstration().imperfect(config.scale, config.bump)
    return demonstration.weights(_game(config).primitives)


def _gaussian(
    config: Config, name: str, game: BallInCup, start: np.ndarray, seed: int, after: After
) -> np.ndarray:
    steps = {"natural": config.natural_step, "steepest": config.steepest_step}
    steps[BY_MEAN] = config.natural_step / (config.samples * config.reuse)

    def update(generation: Generation) -> None:
        after(generation.record.objective, generation.mean)

    found = maximize(
        game,
        start,
        sigma=config.sigma,
        method=name.removeprefix("mean_"),
        step=steps.get(name, 1.0),
        budget=config.updates * config.samples + config.samples + 1,
        samples=config.samples,
        reuse=config.reuse,
        weighting=config.weighting,  # type: ignore[arg-type]
        tolerance=0.0,
        batched=True,
        seed=seed,
        callback=update,
    )
    if found.status == "interrupted":
        raise KeyboardInterrupt
    return found.history[-1].mean


def _cma_es(
    config: Config, name: str, game: BallInCup, start: np.ndarray, seed: int, after: After
) -> np.ndarray:
    generator = np.random.default_rng(seed)
    options = {
        "popsize": config.samples,
        "randn": lambda *shape: generator.standard_normal(shape),
        "seed": np.nan,  # leave NumPy's own generator alone
        "verbose": -9,
    }
    search = required("cma", "CMA-ES").CMAEvolutionStrategy(start, config.sigma, options)
    for _ in range(config.updates):  # ignores its own stopping tests, which end on a plateau
        points = search.ask()
        rewards = game(points)
        search.tell(points, -rewards)
        after(float(rewards.mean()), np.array(search.mean))
    return np.array(search.mean)


def _summary(runs: list[Run]) -> dict[str, Any]:
    caught = [one.caught[-1] for one in runs]
    share = scipy.stats.binomtest(sum(caught), len(caught)).proportion_ci()
    shares = np.mean([one.caught for one in runs], axis=0)
    return {
        **summary(range(len(runs[0].rewards)), [one.rewards for one in runs]),
        "caught": sum(caught),
        "runs": len(runs),
        "share_interval": [float(share.low), float(share.high)],
        "caught_again_at_1_ms": sum(one.again for one in runs),
        "catches": caught,
        "share_curve": {"x": runs[0].tried, "mean": shares.tolist()},
        "seconds": float(np.mean([one.seconds for one in runs])),
    }


def _compare(methods: dict[str, dict[str, Any]], reference: str) -> None:
    """Fisher's exact test, two-sided, against the reference and against the paper's counts."""
    for name, found in methods.items():
        here = (found["caught"], found["runs"])
        if reference in methods and name != reference:
            other = methods[reference]
            found["p_to_reference"] = _p_value(here, (other["caught"], other["runs"]))
        if name in PAPER:
            found["p_to_paper"] = _p_value(here, PAPER[name])


def _p_value(*counts: tuple[int, int]) -> float:
    return float(scipy.stats.fisher_exact([[c, runs - c] for c, runs in counts]).pvalue)


def _shown(found: dict[str, list[Run]], start: np.ndarray) -> dict[str, Any]:
    """The start, and the mean with the best last samples; if any mean caught, one that did."""
    every = [(name, one) for name, runs in found.items() for one in runs]
    name, one = max(every, key=lambda row: (row[1].caught[-1], row[1].rewards[-1]))
    weights = {"start": start.tolist(), "weights": one.mean.tolist()}
    return {"method": name, "caught": one.caught[-1], **weights}


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """Figure 8b: the reward against updates; and the share of runs whose mean catches."""
    figure, axes = new_figure(1, 2)
    draw_curves(axes[0], results["methods"], variants=PEERS)
    for name, found in results["methods"].items():
        curve = found["share_curve"]
        label, color = look(name, PEERS)
        axes[1].plot(curve["x"], curve["mean"], color=color, label=label)
    axes[0].set_ylabel("reward of the samples")
    axes[1].set_ylabel("share of runs whose mean catches")
    axes[1].set_ylim(-0.02, 1.02)
    if not any(any(found["share_curve"]["mean"]) for found in results["methods"].values()):
        axes[1].set_title(f"no mean catches within {config.updates} updates")
    for axis in axes:
        axis.set_xlabel("update")
    runs = len(next(iter(results["methods"].values()))["catches"])
    axes[0].set_title(f"Ball-in-a-cup: {config.samples} rollouts per update, runs: {runs}")
    legend_below(figure, axes, 4)
    return {"ball_in_cup": figure}


def table(results: dict[str, Any]) -> Table:
    """Catches, how many of them remain with finer time steps, and the last reward."""
    shown = new_table(
        "Ball-in-a-cup: runs whose last mean catches",
        "method",
        "caught",
        "95 %",
        "again with\n1 ms steps",
        "p",
        "reward",
        "CPU s",
    )
    for name, found in results["methods"].items():
        low, high = found["share_interval"]
        shown.add_row(
            look(name, PEERS).label,
            f"{found['caught']}/{found['runs']}",
            f"{100 * low:.0f}-{100 * high:.0f}",
            f"{found['caught_again_at_1_ms']}/{found['caught']}",
            f"{found['p_to_reference']:.2g}" if "p_to_reference" in found else "",
            shown_final(found),
            f"{found['seconds']:.0f}",
        )
    start = results["start"]
    shown.caption = (
        f"p: Fisher's exact test against {look(results['reference'], PEERS).label}. The start "
        f"{'catches' if start['caught'] else 'does not catch'}."
    )
    return shown


def pictures(results: dict[str, Any], folder: Path) -> list[Path]:
    """The first attempt and the best one, as a strip and as an animation."""
    from mdpnewton.domains.ball_in_cup.pictures import PicturesUnavailableError
    from mdpnewton.report.ball_in_cup import save_attempts

    shown = results["shown"]
    best = look(shown["method"], PEERS).label
    attempts = {"first attempt": shown["start"], best: shown["weights"]}
    strip, film = folder / "attempts.png", folder / "attempts.gif"
    try:
        save_attempts(strip, film, {name: np.array(weights) for name, weights in attempts.items()})
    except PicturesUnavailableError as missing:
        print(f"mdpnewton: {missing}", file=sys.stderr)
        return []
    return [strip, film]
