"""Chunks of games as the kernels play them, in whatever process they are called."""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mdpnewton.domains.tetris.rules import standard_error
from mdpnewton.domains.tetris.tables import shape_table


class Played(NamedTuple):
    """Games that were played to their end or to the cap.

    Attributes:
        lines: Number of lines of every game.
        pieces: Number of pieces placed in every game.
        capped: Whether the game was stopped at the cap.
        boards: The last board of every game: its columns as bits, the lowest row lowest.
        cpu_seconds: Processor time, all threads together.
    """

    lines: np.ndarray
    pieces: np.ndarray
    capped: np.ndarray
    boards: np.ndarray
    cpu_seconds: float

    @property
    def games(self) -> int:
        """How many were played."""
        return len(self.lines)

    @property
    def mean(self) -> float:
        """Mean number of lines per game."""
        return float(self.lines.mean())

    @property
    def stderr(self) -> float:
        """Standard error of `mean`."""
        return standard_error(self.lines)


@dataclass(frozen=True, eq=False)
class PlayChunk:
    """Plays some games to their end; it can be sent to another process.

    Attributes:
        table: The policy, as `policy_table` gives it.
        dt: Whether the features are those of Dellacherie and Thiery.
        gibbs: Whether placements are drawn; otherwise the best is taken.
        height: Number of rows.
        width: Number of columns.
        seed: Random seed.
        cap: Number of pieces after which a game is stopped.
    """

    table: np.ndarray
    dt: bool
    gibbs: bool
    height: int
    width: int
    seed: int
    cap: int

    def __call__(self, start: int, count: int, stop: np.ndarray) -> Played:
        """Play `count` games from number `start`; an entry of `stop` other than 0 ends them."""
        from mdpnewton.domains.tetris.kernels.play import play_games

        lines, pieces = np.zeros(count, np.int64), np.zeros(count, np.int64)
        capped, boards = np.zeros(count, bool), np.zeros((count, self.width), np.uint32)
        fixed = (*shape_table(), self.table, self.dt, self.gibbs, self.height, self.width)
        seed, begin = np.uint64(self.seed), time.thread_time()
        play_games(*fixed, seed, start, self.cap, stop, lines, pieces, capped, boards)
        return Played(lines, pieces, capped, boards, time.thread_time() - begin)


@dataclass(frozen=True, eq=False)
class EstimateChunk:
    """Plays some games and adds up what an estimate needs; it can be sent to another process.

    Attributes:
        game: Table of the policy, whether the features are DT, rows and columns.
        run: Random seed, and the number of pieces after which a game is stopped.
        settings: Settings of the rule, in the order of the kernel.
        sizes: Lengths of the sums: gradient, H1, H2 and Fisher matrix.
    """

    game: tuple[np.ndarray, bool, int, int]
    run: tuple[int, int]
    settings: tuple[Any, ...]
    sizes: tuple[int, int, int, int]

    def __call__(self, start: int, count: int, stop: np.ndarray) -> tuple[Any, ...]:
        """Play `count` games from number `start`; an entry of `stop` other than 0 ends them."""
        from mdpnewton.domains.tetris.kernels.estimate import estimate_games

        height, (seed, cap) = self.game[2], self.run
        lines, pieces = np.zeros(count, np.int64), np.zeros(count, np.int64)
        capped = np.zeros(count, bool)
        sums = [np.zeros(size) for size in self.sizes]
        sums += [np.zeros(height + 1, np.int64), np.zeros(height + 1)]
        game, run = (*shape_table(), *self.game), (np.uint64(seed), start, cap, stop)
        cycles = estimate_games(*game, *run, *self.settings, lines, pieces, capped, *sums)
        return lines, pieces, capped, cycles, *sums
