"""Tetris, Section 6.5: the paper's algorithm, literally."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

from mdpnewton.comparison import paired_differences
from mdpnewton.domains.tetris import RecurrentBoard, play
from mdpnewton.domains.tetris.evaluator import TetrisEvaluator
from mdpnewton.domains.tetris.policy import AfterstatePolicy, soft_start
from mdpnewton.domains.tetris.rules import RESETS
from mdpnewton.experiments.learning_curves import (
    FRESH,
    draw_curves,
    mean_and_error,
    summary,
)
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings, listed
from mdpnewton.jobs import job_checkpoint
from mdpnewton.jobs.job import Work
from mdpnewton.loop import search
from mdpnewton.methods import Method, Precondition, Settings, Steepest, method_for, names
from mdpnewton.report.figures import legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.solve import Dense, Diagonal
from mdpnewton.steps import BestOfSet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Ties, and steps no better than staying, go to the shorter step: long steps end in policies that
# are nearly deterministic and have no gradient.
SIZES = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
STUCK = 0.2  # a run below this share of the best run's lines has not learnt
FRAMES = 200  # number of frames of the replay
FIRST = "first_gauss_newton"  # an extra, which the paper leaves out of Section 6.5


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        runs: Number of runs per method. A run has the same seeds for all methods.
        iterations: Number of iterations per run.
        games: Number of games per direction, and per step size that is tried.
        fresh_games: Number of new games at the end of a run, for the greedy policy and again for
            the Gibbs policy itself.
        height: Number of rows of the board.
        width: Number of columns of the board.
        features: Set of features: "bi" or "dt".
        start: Initial weights: "soft", "zero" or "bertsekas". Bertsekas had -10 for the largest
            height and -1 for holes.
        damping: Ridge of every solve, as a share of the matrix's mean diagonal.
        methods: Names of the methods, separated by commas.
        cap: Maximum number of pieces per game.
        recurrent: What Algorithm 2's recurrent state is: "empty", an empty board whatever the
            piece; "piece", one with the piece that the game began with; "start", the start alone.
    """

    runs: int = 1
    iterations: int = 2
    games: int = 50
    fresh_games: int = 50
    height: int = 10
    width: int = 10
    features: str = "bi"
    start: str = "soft"
    damping: float = 1e-2
    methods: str = "steepest,natural,diagonal_second_gauss_newton,second_gauss_newton"
    cap: int = 10_000_000
    recurrent: str = "empty"

    def __post_init__(self) -> None:
        check_settings(self, damping=0, recurrent=RESETS)


SCALES = {
    "quick": Config(),
    "laptop": Config(runs=10, iterations=50, games=1000, fresh_games=1000),
    "paper": Config(runs=100, iterations=100, games=1000, fresh_games=1000),
}


def method_of(name: str, damping: float) -> Method:
    """The method of that name with the experiment's damping."""
    if name == FIRST:  # it needs H1, which only this experiment's rule can add up
        return Precondition("A1+A2", Dense(relative_ridge=damping))
    return method_for(name, "tetris", Settings(damping=damping))


def reads_diagonals(method: Method) -> bool:
    """Whether no more of a matrix than its diagonal is read, so that no more is accumulated."""
    solver = method.solver if isinstance(method, Precondition) else None
    return isinstance(method, Steepest) or isinstance(solver, Diagonal)


def start_of(policy: AfterstatePolicy, name: str) -> np.ndarray:
    """The first weights."""
    if name == "soft":
        return soft_start(policy)
    if name == "zero":
        return np.zeros(policy.size)
    if name == "bertsekas" and policy.features == "bi":
        start = np.zeros(policy.size)
        start[-2:] = -10.0, -1.0
        return start
    raise ValueError(f"--set start={name}: choose soft, zero, or bertsekas for bi features")


def work(config: Config, seed: int) -> Work:
    """Lines against iterations for every method, and lines on fresh games at the end."""
    chosen = listed("methods", config.methods, (*names("tetris"), FIRST))
    start_of(_policy(config), config.start)  # refuses what cannot be before anything is played
    every_run = Runs(searched, config, seed, chosen, config.runs)
    found = every_run.of((yield every_run.jobs))
    results = {name: _summary(runs) for name, runs in found.items()}
    best = max(max(one["finals"]) for one in results.values())
    for one in results.values():
        one["stuck"] = sum(lines < STUCK * best for lines in one["finals"])
    every = [one for runs in found.values() for one in runs]
    shown = max(every, key=lambda one: one["greedy"])
    return {
        "methods": results,
        "differences": paired_differences({n: one["finals"] for n, one in results.items()}),
        "best": {"weights": shown["w"], "greedy": shown["greedy"]},
        "board": [config.height, config.width],
        "features": config.features,
        "seeds": [seed, seed + config.runs - 1],
    }


def searched(settings: dict[str, Any], seed: int, method: str, number: int) -> dict[str, Any]:
    """One search, and what its last weights do on fresh games."""
    config = Config(**settings)
    policy, way, seed = _policy(config), method_of(method, config.damping), seed + number
    evaluator = TetrisEvaluator(
        RecurrentBoard(config.recurrent, h1=method == FIRST),
        games=config.games,
        line_games=config.games,
        cap=config.cap,
        diagonal=reads_diagonals(way),
    )
    kept = job_checkpoint()
    before = kept.load()
    if before is not None:
        evaluator = evaluator.restored(before["evaluator"])
    ended = search(
        evaluator,
        policy,
        jnp.asarray(start_of(policy, config.start)),
        way,
        BestOfSet(SIZES),
        key=jax.random.key(seed),
        iterations=config.iterations,
        gradient_tolerance=0.0,
        patience=None,
        checkpoint=kept.keep,
        resume=before,
    ).or_interrupt()
    w = np.asarray(ended.last)
    board = {"features": config.features, "height": config.height, "width": config.width}
    again: dict[str, Any] = {
        "games": config.fresh_games,
        "seed": FRESH + seed,
        "cap": config.cap,
        **board,
    }
    gibbs = play(w, policy="gibbs", **again)
    greedy = play(w, policy="greedy", **again)
    return {
        "curve": ended.objectives,
        "gibbs": float(gibbs.mean),
        "gibbs_error": float(gibbs.stderr),
        "greedy": float(greedy.mean),
        "greedy_error": float(greedy.stderr),
        "capped": evaluator.capped + int(gibbs.capped.sum() + greedy.capped.sum()),
        "pieces": evaluator.pieces,
        "w": w.tolist(),
    }


def _policy(config: Config) -> AfterstatePolicy:
    return AfterstatePolicy(config.features, config.height, config.width)


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    curves = [one["curve"] for one in runs]
    finals = {name: [one[name] for one in runs] for name in ("gibbs", "greedy")}
    errors = {name: [one[f"{name}_error"] for one in runs] for name in finals}
    return {
        **summary(range(len(curves[0])), curves),
        "finals": finals["gibbs"],
        "fresh": mean_and_error(finals["gibbs"], errors["gibbs"]),
        "fresh_greedy": mean_and_error(finals["greedy"], errors["greedy"]),
        "greedy_finals": finals["greedy"],
        "capped": sum(one["capped"] for one in runs),
        "pieces": sum(one["pieces"] for one in runs),
    }


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """Figure 8a: lines against iterations."""
    figure, axis = new_figure()
    draw_curves(axis, results["methods"])
    axis.set_xlabel("iteration")
    axis.set_ylabel("lines per game")
    runs = len(next(iter(results["methods"].values()))["finals"])
    axis.set_title(f"Tetris {config.height}x{config.width}, {config.features}, runs: {runs}")
    legend_below(figure, [axis], 2)
    return {"tetris": figure}


def table(results: dict[str, Any]) -> Table:
    """Lines on fresh games at the end of the runs, and the runs that did not learn."""
    height, width = results["board"]
    shown = new_table(
        f"Tetris {height}x{width}, {results['features']}: lines on fresh games",
        "method",
        "Gibbs",
        "greedy",
        "runs that did not learn",
    )
    for name, found in results["methods"].items():
        shown.add_row(
            look(name).label,
            *(
                f"{x['mean']:,.0f} ± {x['stderr']:,.0f}"
                for x in (found["fresh"], found["fresh_greedy"])
            ),
            f"{found['stuck']}/{len(found['finals'])}",
        )
    return shown


def pictures(results: dict[str, Any], folder: Path) -> list[Path]:
    """A replay of the best weights, as a GIF, and the weights as `tetris play` reads them."""
    from mdpnewton.domains.tetris.pictures import color_picture, placed_cells
    from mdpnewton.domains.tetris.plain import decisions
    from mdpnewton.files.folder import WEIGHTS, to_json, write_whole
    from mdpnewton.report.training import save_animation

    height, width = results["board"]
    weights = results["best"]["weights"]
    board: dict[str, Any] = {"features": results["features"], "height": height, "width": width}
    frames = []
    for step in islice(
        decisions(np.array(weights), policy="greedy", seed=0, game=0, **board), FRAMES
    ):
        new = placed_cells(step)
        frames.append(color_picture(step.board | new, step.piece, new))
    save_animation(folder / "replay.gif", frames, 150)
    saved = {"features": results["features"], "weights": weights, "width": width}
    write_whole(folder / WEIGHTS, to_json(saved).encode())
    return [folder / "replay.gif"]
