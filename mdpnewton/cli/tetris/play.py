"""`mdpnewton tetris play`: many games, mean lines and speed."""

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.tetris.players import players
from mdpnewton.cli.tetris.weights import given_weights


@dataclass(frozen=True, kw_only=True)
class Options:
    """What plays, on which board, and how often.

    Attributes:
        features: Bertsekas-Ioffe or Dellacherie-Thiery (default: what FILE says, else bi; dt
            without FILE).
        weights: A list of numbers, or an object with `weights` and `features` (default:
            published weights for dt).
        height: Number of rows.
        width: Number of columns.
        policy: Greedy takes the best placement of a piece, gibbs draws one.
        seed: Random seed.
        games: Number of games.
        workers: Number of games at once (default: all processors).
        cluster: Play on a Ray cluster: `auto` for the one that this machine belongs to, `local` to
            start one here, or an address. The numbers do not depend on it.
        cap: Maximum number of pieces per game.
    """

    features: Literal["bi", "dt"] | None = None
    weights: Path | None = flag(None, metavar="FILE.json")
    height: int = 10
    width: int = 10
    policy: Literal["greedy", "gibbs"] = "greedy"
    seed: int = flag(0, least=0)
    games: int = flag(1000, least=1)
    workers: int | None = flag(None, least=1)
    cluster: str | None = flag(None, metavar="auto|local|ADDRESS")
    cap: int = flag(10_000_000, least=1)


def _plan(options: Options, folder: Path) -> Plan:
    weights, features = given_weights(options.weights, options.features)
    executor = players(options.workers, options.cluster)

    def run(progress: Progress) -> Outcome:
        with executor as others:
            return _played(options, weights, features, others, progress)

    return Plan(run, title="tetris")


def _played(
    options: Options, weights: Any, features: str, executor: Any, progress: Progress
) -> Outcome:
    from mdpnewton.domains.tetris.simulate import joined, play_chunks

    progress(0, options.games, "compiling, if it is the first time")
    done: list[Any] = []
    games, interrupted, begin = 0, False, time.process_time()
    try:
        chunks = play_chunks(
            weights,
            features=features,
            height=options.height,
            width=options.width,
            games=options.games,
            policy=options.policy,
            seed=options.seed,
            threads=options.workers,
            executor=executor,
            cap=options.cap,
        )
        begin = time.process_time()
        for chunk in chunks:
            done.append(chunk)
            games += chunk.games
            lines = sum(int(part.lines.sum()) for part in done)
            progress(games, options.games, f"{lines / games:,.1f} lines per game")
    except KeyboardInterrupt:
        if not done:
            raise
        interrupted = True
    seconds = time.process_time() - begin  # those of others are in their chunks
    if executor is not None:
        seconds = sum(chunk.cpu_seconds for chunk in done)
    results = _results(joined(done, seconds))
    table = partial(_table, options, features, results)
    return Outcome(results, table, interrupted=interrupted)


def _results(played: Any) -> dict[str, Any]:
    pieces = int(played.pieces.sum())
    return {
        "mean": played.mean,
        "stderr": played.stderr,
        "games": played.games,
        "pieces": pieces,
        "pieces_per_cpu_second": pieces / max(played.cpu_seconds, 1e-9),
        "capped": int(played.capped.sum()),
    }


def _table(options: Options, features: str, results: dict[str, Any]) -> Any:
    from mdpnewton.report.tables import new_table

    board = f"{options.height}x{options.width}, {features} features, {options.policy} policy"
    table = new_table(f"Tetris {board}", "", "value")
    table.add_row("lines per game", f"{results['mean']:,.2f} ± {results['stderr']:,.2f}")
    for name in ("games", "pieces", "capped"):
        table.add_row(name, f"{results[name]:,}")
    table.add_row("pieces per CPU second", f"{results['pieces_per_cpu_second']:,.0f}")
    return table


COMMAND = Command("tetris play", "many games: mean lines and speed", Options, _plan)
