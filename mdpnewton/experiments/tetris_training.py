"""Practical policy search on Tetris, second Gauss-Newton and natural gradient side by side."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from mdpnewton.comparison import paired_differences
from mdpnewton.domains.tetris import play
from mdpnewton.domains.tetris.policy import AfterstatePolicy
from mdpnewton.experiments.learning_curves import (
    FRESH,
    mean_and_error,
    shown_difference,
)
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings, listed
from mdpnewton.jobs import job_checkpoint
from mdpnewton.jobs.job import Work
from mdpnewton.methods import names
from mdpnewton.report.figures import legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.training.tetris import train_tetris

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        runs: Number of runs per method.
        minutes: Length of a run in minutes. The results then depend on the machine. With 0, a run
            stops after `iterations`.
        iterations: Number of iterations per run if `minutes` is 0.
        fresh_games: Number of new games per run, played greedily with the averaged weights.
        height: Number of rows of the board.
        width: Number of columns of the board.
        features: Set of features: "bi" or "dt".
        methods: Names of the methods, separated by commas.
        threads: Number of threads. The default is 2 because the goals are set for two cores.
    """

    runs: int = 1
    minutes: float = 0.0
    iterations: int = 3
    fresh_games: int = 100
    height: int = 10
    width: int = 10
    features: str = "bi"
    methods: str = "second_gauss_newton,natural"
    threads: int = 2

    def __post_init__(self) -> None:
        check_settings(self, minutes=0)


SCALES = {
    "quick": Config(),
    "laptop": Config(runs=10, minutes=1.0, fresh_games=1000),
    "paper": Config(runs=10, minutes=1.0, fresh_games=1000),
}


def work(config: Config, seed: int) -> Work:
    """Greedy lines of every run on games that it has not seen, and its learning curve."""
    chosen = listed("methods", config.methods, names("tetris"))
    _policy(config)  # refuses what cannot be before anything is played
    every_run = Runs(trained, config, seed, chosen, config.runs)
    found = every_run.of((yield every_run.jobs))
    finals = {name: [one["greedy"] for one in runs] for name, runs in found.items()}
    return {
        "methods": {
            name: {
                **mean_and_error(finals[name], [one["stderr"] for one in runs]),
                "least": min(finals[name]),
                "runs": runs,
            }
            for name, runs in found.items()
        },
        "differences": paired_differences(finals),
        "board": [config.height, config.width],
        "features": config.features,
        "seeds": [seed, seed + config.runs - 1],
    }


def trained(settings: dict[str, Any], seed: int, method: str, number: int) -> dict[str, Any]:
    """One training, and what its averaged weights do on fresh games."""
    config, seed = Config(**settings), seed + number
    limit: dict[str, Any] = {"iterations": config.iterations}
    if config.minutes > 0:
        limit = {"minutes": config.minutes}
    training = train_tetris(
        _policy(config),
        method=method,
        seed=seed,
        threads=config.threads,
        checkpoint=job_checkpoint(),
        **limit,
    )
    if training.interrupted:
        raise KeyboardInterrupt
    fresh = play(
        training.average,
        features=config.features,
        height=config.height,
        width=config.width,
        games=config.fresh_games,
        seed=FRESH + seed,
        threads=config.threads,
    )
    steps = training.history
    return {
        "greedy": float(fresh.mean),
        "stderr": float(fresh.stderr),
        "capped": int(fresh.capped.sum()),
        "iterations": len(steps),
        "pieces": int(sum(one.pieces for one in steps)),
        "seconds": [float(one.seconds) for one in steps],
        "rows": [int(one.height) for one in steps],
        "lines": [float(one.lines) for one in steps],
        "undone": sum(not one.kept for one in steps),
        "weights": training.average.tolist(),
    }


def _policy(config: Config) -> AfterstatePolicy:
    return AfterstatePolicy(config.features, config.height, config.width)


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """Lines of the Gibbs policy against time, one curve per run, and the fresh greedy games.

    If training began on lower boards, the scale is logarithmic, because the number of lines jumps
    whenever the board grows.
    """
    figure, axis = new_figure()
    timed = config.minutes > 0
    boards: set[int] = set()
    for name, found in results["methods"].items():
        for number, one in enumerate(found["runs"]):
            boards.update(one["rows"])
            x = one["seconds"] if timed else range(1, 1 + one["iterations"])
            label, color = look(name)
            axis.plot(x, one["lines"], color=color, lw=0.8, label=None if number else label)
            axis.plot(x[-1], one["greedy"], ".", color=color)
    axis.set_xlabel("seconds" if timed else "iteration")
    axis.set_ylabel("lines per game (dots: greedy, fresh games)")
    axis.set_title(f"Tetris {config.height}x{config.width}, {config.features}, practical search")
    if len(boards) > 1:
        axis.set_yscale("log")
        axis.set_xlabel(f"{axis.get_xlabel()}; rows: {', then '.join(map(str, sorted(boards)))}")
    legend_below(figure, [axis], 2)
    return {"tetris_training": figure}


def table(results: dict[str, Any]) -> Table:
    """Greedy lines on fresh games: mean over runs, worst run and paired difference."""
    board = "x".join(map(str, results["board"]))
    runs = len(next(iter(results["methods"].values()))["runs"])
    shown = new_table(
        f"Tetris {board}, {results['features']}: greedy lines on fresh games, runs: {runs}",
        "method",
        "mean",
        "worst run",
        "minus the first",
    )
    first = next(iter(results["methods"]))
    for name, found in results["methods"].items():
        shown.add_row(
            look(name).label,
            f"{found['mean']:,.0f} ± {found['stderr']:,.0f}",
            f"{found['least']:,.0f}",
            shown_difference(results["differences"].get(name, {}).get(first)),
        )
    return shown
