"""`mdpnewton tetris train`: look for weights."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.tables import method_names
from mdpnewton.cli.tetris.players import players
from mdpnewton.version import RESULTS, __version__

FINAL_GAMES = 1000
FINAL_PIECES = 100_000_000  # in the last games: fewer of them where they are long


@dataclass(frozen=True, kw_only=True)
class Options:
    """On which board, and how long.

    Attributes:
        features: Bertsekas-Ioffe or Dellacherie-Thiery features.
        height: Number of rows.
        width: Number of columns.
        minutes: Minutes of training (default: 1).
        iterations: Number of iterations in place of minutes: the same bits on every machine.
        method: Method of the search: one that `mdpnewton list methods` shows for `tetris`.
        start: Weights to go on from, as those of another board.
        seed: Random seed.
        workers: Number of games at once (default: all processors). The numbers do not depend
            on it.
        cluster: Play on a Ray cluster: `auto` for the one that this machine belongs to, `local` to
            start one here, or an address. The numbers do not depend on it.
        restart: Move the training that is in the folder aside and begin a new one.
    """

    features: Literal["bi", "dt"] = "bi"
    height: int = 10
    width: int = 10
    minutes: float | None = flag(None, above=0)
    iterations: int | None = flag(None, least=1)
    method: str = flag("second_gauss_newton", known=partial(method_names, "tetris"))
    start: Path | None = flag(None, metavar="FILE.json")
    seed: int = flag(0, least=0)
    workers: int | None = flag(None, least=1)
    cluster: str | None = flag(None, metavar="auto|local|ADDRESS")
    restart: bool = False


def _plan(options: Options, folder: Path) -> Plan:
    if options.minutes is not None and options.iterations is not None:
        raise ValueError("--minutes and --iterations: give one of them")
    from mdpnewton.domains.tetris.policy import AfterstatePolicy, soft_start
    from mdpnewton.domains.tetris.simulate import checked_weights
    from mdpnewton.files.identity import MARK
    from mdpnewton.files.weights import load_weights

    policy = AfterstatePolicy(options.features, options.height, options.width)
    start = None
    if options.start is not None:
        start, _ = load_weights(options.start, options.features)
    checked = soft_start(policy) if start is None else start
    checked_weights("train", checked, options.features, options.height, options.width)
    minutes = 1.0 if options.minutes is None and options.iterations is None else options.minutes
    about = {
        "command": "tetris train",
        "features": options.features,
        "height": options.height,
        "width": options.width,
        "method": options.method,
        "start": None if start is None else [float(weight) for weight in start],
        "minutes": minutes,
        "iterations": options.iterations,
        "seed": options.seed,
        "version": __version__,
        MARK: RESULTS,
    }
    executor = players(options.workers, options.cluster)

    def run(progress: Progress) -> Outcome:
        with executor as others:
            return _trained(options, policy, start, minutes, folder, others, progress)

    return Plan(run, title="tetris", about=about, resumes=True, restart=options.restart)


def _trained(
    options: Options,
    policy: Any,
    start: Any,
    minutes: float | None,
    folder: Path,
    executor: Any,
    progress: Progress,
) -> Outcome:
    import numpy as np

    from mdpnewton.files.folder import WEIGHTS, to_json, write_whole
    from mdpnewton.files.lines import add_line, kept_lines
    from mdpnewton.jobs import Checkpoint
    from mdpnewton.report.training import tetris_metrics
    from mdpnewton.training.tetris import Iteration, train_tetris

    progress(0, 1, "compiling, if it is the first time")
    metrics, first = folder / "metrics.jsonl", True

    def show(one: Iteration) -> None:
        nonlocal first
        line = tetris_metrics(one)
        if first:  # of this command: the training may go on
            kept_lines(metrics, line["iteration"])
            first = False
        add_line(metrics, line)
        done = (one.seconds, 60 * minutes) if minutes else (one.number, options.iterations)
        text = f"{one.height} rows, {one.lines:,.0f} lines, {one.report.status}"
        progress(int(done[0]), int(done[1] or 1), text)

    found = train_tetris(
        policy,
        minutes=minutes,
        iterations=options.iterations,
        method=options.method,
        start=None if start is None else np.asarray(start),
        seed=options.seed,
        threads=options.workers,
        executor=executor,
        callback=show,
        checkpoint=Checkpoint(folder / "training.npz"),
    )
    weights = found.average.tolist()
    saved = {"features": options.features, "weights": weights, "width": options.width}
    write_whole(folder / WEIGHTS, to_json(saved).encode())
    results = {
        "features": options.features,
        "height": options.height,
        "width": options.width,
        "method": options.method,
        "seed": options.seed,
        "iterations": len(found.history),
        "pieces": sum(one.pieces for one in found.history),
        "interrupted": found.interrupted,
        "weights": weights,
        "last_weights": found.w.tolist(),
        "curve": [[one.seconds, one.height, one.lines] for one in found.history],
        "greedy": _played(options, weights, found, executor, progress),
    }
    return Outcome(
        results,
        table=partial(_table, results),
        draw=partial(_draw, options, found),
        replay=partial(_replay, options, weights),
        files={"weights": folder / WEIGHTS},
        interrupted=found.interrupted,
    )


def _played(
    options: Options, weights: Any, found: Any, executor: Any, progress: Progress
) -> dict[str, Any]:
    """The averaged weights on fresh games, greedily."""
    from mdpnewton.domains.tetris.simulate import play

    last = found.history[-1] if found.history else None
    length = max(last.pieces / last.games, 1.0) if last else 1.0
    games = int(min(max(FINAL_PIECES / length, 16), FINAL_GAMES))
    progress(0, games, f"playing {games} games")
    done = play(
        weights,
        features=options.features,
        height=options.height,
        width=options.width,
        games=games,
        seed=options.seed + 10_000,
        threads=options.workers,
        executor=executor,
    )
    return {
        "mean": done.mean,
        "stderr": done.stderr,
        "games": done.games,
        "capped": int(done.capped.sum()),
    }


def _replay(options: Options, weights: Any) -> dict[str, Any]:
    import numpy as np

    from mdpnewton.report.replays import game_of

    return game_of(np.array(weights), options.features, options.height, options.width)


def _draw(options: Options, found: Any) -> dict[str, Any]:
    from mdpnewton.report.training import draw_training

    here = [one for one in found.history if one.height == options.height]
    x, lines = [one.seconds for one in here], [one.lines for one in here]
    title = f"Tetris {options.height}x{options.width}, {options.features}"
    figure = draw_training(title, options.method, x, lines, "seconds", "lines per game (Gibbs)")
    return {"learning-curve": figure}


def _table(results: dict[str, Any]) -> Any:
    from mdpnewton.report.tables import new_table

    greedy = results["greedy"]
    table = new_table(f"Tetris {results['height']}x{results['width']}", "", "value")
    table.add_row("greedy lines", f"{greedy['mean']:,.1f} ± {greedy['stderr']:,.1f}")
    table.add_row("fresh games", f"{greedy['games']:,}, capped {greedy['capped']}")
    table.add_row("iterations", f"{results['iterations']:,}")
    table.add_row("pieces of training", f"{results['pieces']:,}")
    table.add_row("method", results["method"].replace("_", " "))
    return table


COMMAND = Command(
    "tetris train",
    "look for weights",
    Options,
    _plan,
    folder="tetris-{features}-{height}x{width}-{method}-{seed}",
)
