"""`mdpnewton tetris train`."""

import argparse
from pathlib import Path
from typing import Any

FINAL_GAMES = 1000
FINAL_PIECES = 100_000_000  # of the last games: fewer of them where they are long


def add_command(actions: Any) -> None:
    """The command, among those of `mdpnewton tetris`."""
    training = actions.add_parser("train", help="look for weights")
    training.add_argument("--features", choices=("bi", "dt"), default="bi")
    training.add_argument("--height", type=int, default=10, help="rows (default: 10)")
    training.add_argument("--width", type=int, default=10, help="columns (default: 10)")
    training.add_argument("--minutes", type=float, help="how long (default: 1)")
    training.add_argument(
        "--iterations", type=int, help="in place of minutes: the same bits on every machine"
    )
    training.add_argument(
        "--method", choices=("second_gauss_newton", "natural"), default="second_gauss_newton"
    )
    training.add_argument(
        "--start", type=Path, metavar="FILE.json", help="weights to go on from, as of another board"
    )
    training.add_argument("--seed", type=int, default=0, help="of all randomness (default: 0)")
    training.add_argument("--threads", type=int, help="at once (default: all processors)")
    training.add_argument(
        "--out", type=Path, help="run folder (default: runs/tetris-FEATURES-HEIGHTxWIDTH-SEED)"
    )
    training.add_argument("--json", action="store_true", help="print JSON and nothing else")
    training.set_defaults(command=_train)


def _train(options: argparse.Namespace) -> None:
    if options.minutes is not None and options.iterations is not None:
        raise ValueError("--minutes and --iterations: give one of them")
    if options.minutes is not None and not options.minutes > 0:
        raise ValueError(f"--minutes must be positive, got {options.minutes}")
    for name in ("iterations", "threads"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}")
    if options.seed < 0:
        raise ValueError(f"--seed must not be negative, got {options.seed}")
    import numpy as np

    from mdpnewton.domains.tetris.policy import AfterstatePolicy, soft_start
    from mdpnewton.domains.tetris.simulate import checked_weights
    from mdpnewton.files.folder import prepare, to_json, write_run, write_whole
    from mdpnewton.files.weights import load_weights
    from mdpnewton.report.figures import figure_style, rendered
    from mdpnewton.report.progress import progress_bar
    from mdpnewton.report.training import draw_training
    from mdpnewton.training.tetris import Iteration, train_tetris

    policy = AfterstatePolicy(options.features, options.height, options.width)
    start = None
    if options.start is not None:
        start, _ = load_weights(options.start, options.features)
    checked = soft_start(policy) if start is None else start
    checked_weights("train", checked, options.features, options.height, options.width)
    name = f"tetris-{options.features}-{options.height}x{options.width}-{options.seed}"
    folder = options.out or Path("runs") / name
    prepare(folder)
    minutes = options.minutes
    if minutes is None and options.iterations is None:
        minutes = 1.0
    with progress_bar("tetris", quiet=options.json) as bar:
        bar(0, 1, "compiling, if it is the first time")

        def show(one: Iteration) -> None:
            done = (one.seconds, 60 * minutes) if minutes else (one.number, options.iterations)
            text = f"{one.height} rows, {one.lines:,.0f} lines, {one.report.status}"
            bar(int(done[0]), int(done[1] or 1), text)

        found = train_tetris(
            policy,
            minutes=minutes,
            iterations=options.iterations,
            method=options.method,
            start=None if start is None else np.asarray(start),
            seed=options.seed,
            threads=options.threads,
            callback=show,
        )
    weights = found.average.tolist()
    saved = {"features": options.features, "weights": weights, "width": options.width}
    write_whole(folder / "weights.json", to_json(saved).encode())
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
        "greedy": _played(options, weights, found),
    }
    settings = {"command": "tetris train", "minutes": minutes, "iterations": options.iterations}
    here = [one for one in found.history if one.height == options.height]
    with figure_style():
        x, lines = [one.seconds for one in here], [one.lines for one in here]
        title = f"Tetris {options.height}x{options.width}, {options.features}"
        figure = draw_training(title, options.method, x, lines, "seconds", "lines a game (Gibbs)")
    pictures = rendered({"learning-curve": figure})
    write_run(folder, {**settings, "seed": options.seed}, results, pictures)
    if options.json:
        print(to_json(results), end="")
        return
    _show(results, folder)


def _played(options: argparse.Namespace, weights: list[float], found: Any) -> dict[str, Any]:
    """The averaged weights on fresh games, greedily."""
    from rich.console import Console

    from mdpnewton.domains.tetris.simulate import play

    board = {"features": options.features, "height": options.height, "width": options.width}
    last = found.history[-1] if found.history else None
    length = max(last.pieces / last.games, 1.0) if last else 1.0
    games = int(min(max(FINAL_PIECES / length, 16), FINAL_GAMES))
    with Console(stderr=True).status(f"playing {games} games"):
        done = play(
            weights, games=games, seed=options.seed + 10_000, threads=options.threads, **board
        )
    return {
        "mean": done.mean,
        "stderr": done.stderr,
        "games": done.games,
        "capped": int(done.capped.sum()),
    }


def _show(results: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    from mdpnewton.report.tables import new_table

    greedy = results["greedy"]
    table = new_table(f"Tetris {results['height']}x{results['width']}", "", "value")
    table.add_row("greedy lines", f"{greedy['mean']:,.1f} ± {greedy['stderr']:,.1f}")
    table.add_row("fresh games", f"{greedy['games']:,}, capped {greedy['capped']}")
    table.add_row("iterations", f"{results['iterations']:,}")
    table.add_row("pieces of training", f"{results['pieces']:,}")
    table.add_row("method", results["method"].replace("_", " "))
    Console().print(table)
    if results["interrupted"]:
        print("interrupted: these are the weights so far")
    print(f"weights: {folder / 'weights.json'}\nfigure: {folder / 'learning-curve.png'}")
