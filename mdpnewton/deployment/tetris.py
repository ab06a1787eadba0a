"""Weights of a Tetris policy that play on a board of the user."""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mdpnewton.checks import choice, refuse
from mdpnewton.deployment.recipe import Piece, Stored, made, written
from mdpnewton.domains.tetris import pieces, placing, plain
from mdpnewton.domains.tetris.placing import Placing, TetrisMove
from mdpnewton.domains.tetris.plain import FEATURES
from mdpnewton.files.exported import GAME, export_numpy


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
        if not np.isfinite(self.weights).all():
            refuse("LoadedTetris", "weights", "must be finite, but has NaN or infinite entries")
        self._recipe = Piece(Placing, (FEATURES[features], Stored("weights"), greedy))
        self._placing: Placing = made(self._recipe, {"weights": self.weights})

    def __repr__(self) -> str:
        return f"LoadedTetris({self.features} features)"

    def reset(self, seed: int | None = None) -> None:
        """Begin a game; the policy remembers nothing of the one before.

        Args:
            seed: Random seed of the placements from now on, if they are drawn.
        """
        self._placing.reset(seed)

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
        return self._placing.act(board, piece, greedy=greedy, rng=rng)

    def export(self, folder: str | PathLike[str]) -> Path:
        """Write `policy.py`, which needs NumPy alone, and the weights beside it.

        Args:
            folder: The folder, which is created. One that holds an export already is refused.

        Returns:
            The file policy.py, which has `act` and `reset` as they are here.
        """
        what = f"Weights of {len(self.weights)} features of Tetris"
        sources, arrays = [pieces, plain, placing], {"weights": self.weights}
        return export_numpy(Path(folder), what, written(self._recipe), sources, arrays, GAME)
