"""Weights of a Tetris policy that play on a board of the user."""

from typing import Any, NamedTuple

import numpy as np

from mdpnewton.checks import choice, refuse, told
from mdpnewton.domains.tetris.pieces import NAMES
from mdpnewton.domains.tetris.plain import FEATURES, candidates, gibbs, score
from mdpnewton.domains.tetris.simulate import checked_weights


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


class LoadedTetris:
    """Weights of a Tetris policy: a board and a piece give a placement.

    Attributes:
        weights: One weight per feature.
        features: "bi" or "dt", see `docs/tetris.md`.
        greedy: Whether it takes the best placement, or draws one as a Gibbs policy.
    """

    def __init__(self, weights: list[float], features: str, greedy: bool):
        self.features = choice("LoadedTetris", "features", features, FEATURES)
        self.weights, self.greedy = np.asarray(weights, float), greedy
        self._generator: np.random.Generator | None = None

    def __repr__(self) -> str:
        return f"LoadedTetris({self.features} features)"

    def reset(self, seed: int | None = None) -> None:
        """Begin a game; the policy remembers nothing of the one before.

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
            greedy: Whether to take the best placement or to draw one; by default as `load` said.
            rng: NumPy generator to draw with; by default the policy's own, which `load` or `reset`
                seeds.
        """
        cells = np.asarray(board).astype(bool)
        if cells.ndim != 2:
            refuse("act", "board", f"needs shape (height, width), got {cells.shape}")
        checked_weights("act", self.weights, self.features, *cells.shape)
        options = candidates(cells, _number(piece))
        if not options:
            return None
        rows = (FEATURES[self.features](placed) for placed in options.values())
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


def _number(piece: Any) -> int:
    number = NAMES.index(piece) if piece in NAMES else piece
    if not isinstance(number, int | np.integer) or not 0 <= number < len(NAMES):
        refuse("act", "piece", f"must be 0 to 6 or one of {', '.join(NAMES)}, got {told(piece)}")
    return int(number)
