"""The game, its features and its policies, written to be read: the oracle of the kernels.

A board is a boolean array, rows from the bottom up. The rules are those of Bertsekas and Ioffe
(1996), Section 6.5: the current piece is known, it is turned, moved and dropped; it must lie fully
inside the board before lines are removed; the game is over when it cannot.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from mdpnewton.domains.tetris.pieces import Shape, placements, shapes
from mdpnewton.domains.tetris.streams import (
    ACTION_STREAM,
    PIECE_STREAM,
    SPARE_BITS,
    Stream,
    piece_of,
    uniform_of,
)

# A Gibbs policy leaves out what is e^25 times less probable than the best, 7e10 times: what is
# left out changes no probability by more than 5e-10, and near-greedy policies become fast.
CUT = 25.0


class Placement(NamedTuple):
    """What a piece does to a board.

    Attributes:
        board: The board afterwards, without its full lines.
        row: Row where the lowest cells of the piece come to rest.
        lines: Number of lines that were removed.
        eroded: Number of cells of the piece in the lines that were removed.
        shape: The piece as it was turned.
    """

    board: np.ndarray
    row: int
    lines: int
    eroded: int
    shape: Shape


class Decision(NamedTuple):
    """One decision, as the accumulations of `plain_estimates` see it.

    Attributes:
        board: The board before the piece is placed.
        piece: The current piece.
        column: Column of the left side of the piece.
        placed: What the piece does to the board.
        probabilities: Probability of each candidate, 0 for those left out.
        features: One row per candidate.
        chosen: Index of the candidate taken.
        word: The random number of the action.
    """

    board: np.ndarray
    piece: int
    column: int
    placed: Placement
    probabilities: np.ndarray
    features: np.ndarray
    chosen: int
    word: int


class Game(NamedTuple):
    """A game: complete, or stopped at the cap."""

    lines: int
    pieces: int
    board: np.ndarray
    capped: bool


def column_heights(board: np.ndarray) -> np.ndarray:
    """The row above the highest filled cell of every column."""
    rows = np.arange(1, board.shape[0] + 1)
    return (board * rows[:, None]).max(axis=0)


def place(board: np.ndarray, shape: Shape, column: int) -> Placement | None:
    """The piece dropped with its left side in the column; None where it does not fit."""
    heights = column_heights(board)
    row = max(int(heights[column + j]) - shape.bottoms[j] for j in range(shape.width))
    if row + shape.height > board.shape[0]:
        return None
    after = board.copy()
    for r, c in shape.cells:
        after[row + r, column + c] = True
    full = np.asarray(after.all(axis=1))
    eroded = sum(bool(full[row + r]) for r, _ in shape.cells)
    left = np.zeros_like(board)
    left[: (~full).sum()] = after[~full]
    return Placement(left, row, int(full.sum()), eroded, shape)


def holes(board: np.ndarray) -> np.ndarray:
    """Where an empty cell has a filled one above it in its column."""
    covered = np.logical_or.accumulate(board[::-1], axis=0)[::-1]
    return covered & ~board


def bertsekas_ioffe(placed: Placement) -> np.ndarray:
    """Column heights, absolute differences of neighbours, largest height, holes."""
    heights = column_heights(placed.board)
    differences = np.abs(np.diff(heights))
    return np.array([*heights, *differences, heights.max(), holes(placed.board).sum()], float)


def dellacherie_thiery(placed: Placement) -> np.ndarray:
    """The nine features of Thiery and Scherrer (2009), in the order of Scherrer et al. (2015).

    Landing height, eroded piece cells, row transitions, column transitions, holes, board wells,
    hole depth, rows with holes, diversity.
    """
    board = placed.board
    height, width = board.shape
    covered = holes(board)
    walled = np.pad(board, ((0, 0), (1, 1)), constant_values=True)
    grounded = np.pad(board, ((1, 0), (0, 0)), constant_values=True)
    grounded = np.pad(grounded, ((0, 1), (0, 0)), constant_values=False)
    wells = 0
    for c in range(width):
        for r in range(height):
            if not board[r, c] and walled[r, c] and walled[r, c + 2]:  # both neighbours filled
                below = r
                while below >= 0 and not board[below, c]:
                    wells, below = wells + 1, below - 1
    depth = 0
    for c in range(width):
        for r in range(height):
            if covered[r, c]:
                above = r + 1
                while above < height and board[above, c]:
                    depth, above = depth + 1, above + 1
    steps = set(np.diff(column_heights(board)).tolist())
    return np.array(
        [
            placed.row + (placed.shape.height - 1) / 2,
            placed.lines * placed.eroded,
            (walled[:, 1:] != walled[:, :-1]).sum(),
            (grounded[1:] != grounded[:-1]).sum(),
            covered.sum(),
            wells,
            depth,
            covered.any(axis=1).sum(),
            len(steps & {-2, -1, 0, 1, 2}),
        ],
        float,
    )


FEATURES: dict[str, Callable[[Placement], np.ndarray]] = {
    "bi": bertsekas_ioffe,
    "dt": dellacherie_thiery,
}


def candidates(board: np.ndarray, piece: int) -> dict[tuple[int, int], Placement]:
    """Every placement that fits, by (rotation, column)."""
    found = {}
    for rotation, column in placements(piece, board.shape[1]):
        placed = place(board, shapes(piece)[rotation], column)
        if placed is not None:
            found[rotation, column] = placed
    return found


def gibbs(scores: np.ndarray) -> np.ndarray:
    """Probabilities proportional to exp(score), 0 for those more than `CUT` below the best."""
    gap = scores - scores.max()
    powers = np.where(gap < -CUT, 0.0, np.exp(np.maximum(gap, -CUT)))
    return powers / powers.sum()


def score(weights: np.ndarray, features: np.ndarray) -> float:
    """weights' features, added from the first to the last: equal features tie exactly."""
    total = 0.0
    for weight, feature in zip(weights.tolist(), features.tolist(), strict=True):
        total += weight * feature
    return total


def decisions(
    weights: np.ndarray,
    *,
    features: str = "bi",
    height: int = 10,
    width: int = 10,
    policy: str = "greedy",
    seed: int = 0,
    game: int = 0,
) -> Iterator[Decision]:
    """The decisions of one game, to its end; the arguments are those of `play_game`."""
    pieces, actions = (Stream(seed, game, which) for which in (PIECE_STREAM, ACTION_STREAM))
    board = np.zeros((height, width), bool)
    while True:
        piece = piece_of(pieces.word())
        options = candidates(board, piece)
        if not options:
            return
        rows = np.array([FEATURES[features](option) for option in options.values()])
        scores = np.array([score(weights, row) for row in rows])
        word, probabilities = 0, np.zeros(len(options))
        if policy == "greedy":
            chosen = int(scores.argmax())
            probabilities[chosen] = 1.0
        else:
            word, probabilities = actions.word(), gibbs(scores)
            chosen = _drawn(probabilities, uniform_of(word))
        (_, column), placed = list(options.items())[chosen]
        yield Decision(board, piece, column, placed, probabilities, rows, chosen, word)
        board = placed.board


def play_game(
    weights: np.ndarray,
    *,
    features: str = "bi",
    height: int = 10,
    width: int = 10,
    policy: str = "greedy",
    seed: int = 0,
    game: int = 0,
    cap: int = 10_000_000,
    watch: Callable[[Decision], None] | None = None,
) -> Game:
    """One game; the same as game number `game` of `mdpnewton.domains.tetris.play`.

    Args:
        weights: One weight per feature.
        features: "bi" or "dt".
        height: Number of rows.
        width: Number of columns.
        policy: "greedy" or "gibbs".
        seed: Random seed of all games.
        game: Index of the game.
        cap: Number of pieces after which the game is stopped.
        watch: Called at every decision.
    """
    board, lines, played = np.zeros((height, width), bool), 0, 0
    size: dict[str, Any] = {"features": features, "height": height, "width": width}
    for step in decisions(weights, **size, policy=policy, seed=seed, game=game):
        if watch is not None:
            watch(step)
        board, lines, played = step.placed.board, lines + step.placed.lines, played + 1
        if played == cap:
            return Game(lines, played, board, True)
    return Game(lines, played, board, False)


def _drawn(probabilities: np.ndarray, uniform: float) -> int:
    passed = np.flatnonzero(np.cumsum(probabilities) > uniform)
    return int(passed[0] if passed.size else np.flatnonzero(probabilities)[-1])


def sampled(word: int, share: int) -> bool:
    """Whether a step is among one in `share`, a power of two up to 2^11, by its spare bits."""
    return word & (share - 1) & ((1 << SPARE_BITS) - 1) == 0
