"""`mdpnewton tetris watch`: one game in the terminal."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.tetris.weights import given_weights


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which game to watch.

    Attributes:
        features: Bertsekas-Ioffe or Dellacherie-Thiery (default: what FILE says, else bi; dt
            without FILE).
        weights: A list of numbers, or an object with `weights` and `features` (default:
            published weights for dt).
        height: Number of rows.
        width: Number of columns.
        policy: Greedy takes the best placement of a piece, gibbs draws one.
        seed: Random seed.
        game: Index of the game among those of the seed.
        pieces: Stop after so many pieces.
        delay: Seconds per piece in a terminal.
    """

    features: Literal["bi", "dt"] | None = None
    weights: Path | None = flag(None, metavar="FILE.json")
    height: int = 10
    width: int = 10
    policy: Literal["greedy", "gibbs"] = "greedy"
    seed: int = flag(0, least=0)
    game: int = flag(0, least=0)
    pieces: int | None = flag(None, least=1)
    delay: float = flag(0.2, least=0)


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.domains.tetris.plain import decisions
    from mdpnewton.domains.tetris.simulate import checked_weights

    weights, features = given_weights(options.weights, options.features)
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
    return Plan(partial(_watched, options, islice(steps, options.pieces)))


def _watched(options: Options, steps: Any, progress: Progress) -> Outcome:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from mdpnewton.domains.tetris.pictures import placed_cells, text_picture

    console, lines, pieces, interrupted = Console(), 0, 0, False
    try:
        with Live(console=console, auto_refresh=False) as live:
            for step in steps:
                new = placed_cells(step)
                lines, pieces = lines + step.placed.lines, pieces + 1
                frame = text_picture(step.board | new, step.piece, lines, new)
                if console.is_terminal:
                    live.update(Text(frame), refresh=True)
                    time.sleep(options.delay)
                else:
                    print(frame)
    except KeyboardInterrupt:
        interrupted = True
    results = {"lines": lines, "pieces": pieces}
    return Outcome(results, lambda: f"{lines} lines, {pieces} pieces", interrupted=interrupted)


COMMAND = Command("tetris watch", "one game in the terminal", Options, _plan, json=False)
