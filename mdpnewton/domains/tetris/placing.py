"""Weights that place pieces with NumPy alone; an export is made of this file and of `plain`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mdpnewton.domains.tetris.pieces import NAMES
from mdpnewton.domains.tetris.plain import Placement, candidates, gibbs, score


class TetrisMove(NamedTuple):
    """Where a piece goes.

    Attributes:
        rotation: Number of quarter turns that make a difference.
        column: Column of the piece's left side.
        action: The same as a number, as `mdpnewton/Tetris-v0` takes it.
    """

    rotation: int
    column: int
    action: int


class Placing:
    """Chooses placements for boards and pieces.

    Attributes:
        weights: One weight per feature.
        greedy: Whether it takes the best placement by default, or draws one as a Gibbs policy.
    """

    def __init__(
        self, features: Callable[[Placement], np.ndarray], weights: np.ndarray, greedy: bool
    ):
        self.weights, self.greedy = weights, greedy
        self._features = features
        self._generator: np.random.Generator | None = None

    def reset(self, seed: int | None = None) -> None:
        """Begin a game; nothing is remembered of the one before.

        Args:
            seed: Random seed of the placements from now on, if they are drawn.
        """
        if seed is not None:
            self._generator = np.random.default_rng(seed)

    def act(
        self,
        board: Any,
        piece: int | str,
        *,
        greedy: bool | None = None,
        rng: np.random.Generator | None = None,
    ) -> TetrisMove | None:
        """The placement of the piece, or None if it fits nowhere and the game is over.

        Args:
            board: Filled cells as 1 or True, shape (height, width), the bottom row first.
            piece: Number of the piece, 0 to 6 for I, O, T, S, Z, J, L, or its letter.
            greedy: Whether to take the best placement or to draw one; by default as `greedy` says.
            rng: NumPy generator to draw with; by default one of its own.
        """
        cells = np.asarray(board).astype(bool)
        if cells.ndim != 2:
            raise ValueError(f"`act(board=...)` needs shape (height, width), got {cells.shape}.")
        number = NAMES.index(piece) if piece in NAMES else piece
        if not isinstance(number, int | np.integer) or not 0 <= number < len(NAMES):
            known = ", ".join(NAMES)
            raise ValueError(f"`act(piece=...)` must be 0 to 6 or one of {known}, got {piece!r}.")
        options = candidates(cells, int(number))
        if not options:
            return None
        rows = [self._features(placed) for placed in options.values()]
        if len(rows[0]) != len(self.weights):
            needed = f"{len(rows[0])} weights, there are {len(self.weights)}"
            raise ValueError(f"`act(board=...)` of {cells.shape[1]} columns needs {needed}.")
        scores = np.array([score(self.weights, row) for row in rows])
        if self.greedy if greedy is None else greedy:
            chosen = int(scores.argmax())
        else:
            if rng is None:
                self._generator = self._generator or np.random.default_rng()
                rng = self._generator
            chosen = int(rng.choice(len(scores), p=gibbs(scores)))
        rotation, column = list(options)[chosen]
        return TetrisMove(rotation, column, rotation * cells.shape[1] + column)
