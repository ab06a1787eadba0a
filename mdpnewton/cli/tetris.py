"""`mdpnewton tetris`: play and watch; `cli_tetris_train` adds train."""

import argparse
import time
from pathlib import Path
from typing import Any

from mdpnewton.cli.tetris_train import add_command

FEATURES = ("bi", "dt")
POLICIES = ("greedy", "gibbs")


def add_commands(commands: Any) -> None:
    """The commands under `mdpnewton tetris`."""
    tetris = commands.add_parser("tetris", help="play Tetris, watch it, or look for weights")
    actions = tetris.add_subparsers(title="commands", metavar="COMMAND", required=True)

    playing = actions.add_parser("play", help="many games: mean lines and speed")
    _common(playing, required=True)
    playing.add_argument("--games", type=int, default=1000, help="how many (default: 1000)")
    playing.add_argument("--threads", type=int, help="at once (default: all processors)")
    playing.add_argument(
        "--cap", type=int, default=10_000_000, help="pieces of a game at most (default: 10000000)"
    )
    playing.add_argument("--json", action="store_true", help="print JSON and nothing else")
    playing.set_defaults(command=_play)

    watching = actions.add_parser("watch", help="one game in the terminal")
    _common(watching, required=False)
    watching.add_argument("--game", type=int, default=0, help="its index (default: 0)")
    watching.add_argument("--pieces", type=int, help="stop after so many")
    watching.add_argument(
        "--delay", type=float, default=0.2, help="seconds a piece, in a terminal (default: 0.2)"
    )
    watching.set_defaults(command=_watch)
    add_command(actions)


def _common(parser: Any, *, required: bool) -> None:
    default = "" if required else " (default: published weights for dt)"
    parser.add_argument(
        "--features",
        choices=FEATURES,
        help="Bertsekas-Ioffe or Dellacherie-Thiery (default: what FILE says, else bi)",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        required=required,
        metavar="FILE.json",
        help="a list of numbers, or an object with `weights` and `features`" + default,
    )
    parser.add_argument("--height", type=int, default=10, help="rows (default: 10)")
    parser.add_argument("--width", type=int, default=10, help="columns (default: 10)")
    parser.add_argument("--policy", choices=POLICIES, default="greedy")
    parser.add_argument("--seed", type=int, default=0, help="of all randomness (default: 0)")


def _play(options: argparse.Namespace) -> None:
    from mdpnewton.domains.tetris.simulate import joined, play_chunks
    from mdpnewton.report.progress import progress_bar

    weights, features = _weights(options)
    done: list[Any] = []
    games, interrupted, begin = 0, False, time.process_time()
    with progress_bar("tetris", quiet=options.json) as bar:
        bar(0, options.games, "compiling, if it is the first time")
        try:
            chunks = play_chunks(
                weights,
                features=features,
                height=options.height,
                width=options.width,
                games=options.games,
                policy=options.policy,
                seed=options.seed,
                threads=options.threads,
                cap=options.cap,
            )
            begin = time.process_time()
            for chunk in chunks:
                done.append(chunk)
                games += chunk.games
                lines = sum(int(part.lines.sum()) for part in done)
                bar(games, options.games, f"{lines / games:,.1f} lines a game")
        except KeyboardInterrupt:
            interrupted = True
    if done:
        _report(options, features, joined(done, time.process_time() - begin))
    if interrupted:
        raise KeyboardInterrupt


def _report(options: argparse.Namespace, features: str, played: Any) -> None:
    pieces = int(played.pieces.sum())
    found = {
        "mean": played.mean,
        "stderr": played.stderr,
        "games": played.games,
        "pieces": pieces,
        "pieces_per_cpu_second": pieces / max(played.cpu_seconds, 1e-9),
        "capped": int(played.capped.sum()),
    }
    if options.json:
        from mdpnewton.files.folder import to_json

        print(to_json(found), end="")
        return
    from rich.console import Console

    from mdpnewton.report.tables import new_table

    board = f"{options.height}x{options.width}, {features} features, {options.policy} policy"
    table = new_table(f"Tetris {board}", "", "value")
    table.add_row("lines a game", f"{found['mean']:,.2f} ± {found['stderr']:,.2f}")
    for name in ("games", "pieces", "capped"):
        table.add_row(name, f"{found[name]:,}")
    table.add_row("pieces per CPU second", f"{found['pieces_per_cpu_second']:,.0f}")
    Console().print(table)


def _watch(options: argparse.Namespace) -> None:
    for name, least in (("pieces", 1), ("game", 0), ("seed", 0), ("delay", 0)):
        value = getattr(options, name)
        if value is not None and not value >= least:
            raise ValueError(f"--{name} must be at least {least}, got {value}")
    from itertools import islice

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from mdpnewton.domains.tetris.pictures import placed_cells, text_picture
    from mdpnewton.domains.tetris.plain import decisions
    from mdpnewton.domains.tetris.simulate import checked_weights

    weights, features = _weights(options)
    given = checked_weights("watch", weights, features, options.height, options.width)
    steps = decisions(
        given,
        features=features,
        height=options.height,
        width=options.width,
        policy=options.policy,
        seed=options.seed,
        game=options.game,
    )
    console, lines, pieces = Console(), 0, 0
    with Live(console=console, auto_refresh=False) as live:
        for step in islice(steps, options.pieces):
            new = placed_cells(step)
            lines, pieces = lines + step.placed.lines, pieces + 1
            frame = text_picture(step.board | new, step.piece, lines, new)
            if console.is_terminal:
                live.update(Text(frame), refresh=True)
                time.sleep(options.delay)
            else:
                print(frame)
    print(f"{lines} lines, {pieces} pieces")


def _weights(options: argparse.Namespace) -> tuple[Any, str]:
    """The weights of the file, and the features they are for."""
    from mdpnewton.files.weights import load_weights

    path = options.weights
    if path is None:
        from mdpnewton.domains.tetris import DT_10

        if options.features == "bi":
            raise ValueError("--features bi needs --weights FILE.json")
        return DT_10, "dt"
    return load_weights(path, options.features)
