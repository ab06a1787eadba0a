"""Tetris as a Gymnasium environment."""

from typing import Any

import numpy as np

from mdpnewton.checks import required
from mdpnewton.domains.tetris.pictures import color_picture, text_picture
from mdpnewton.domains.tetris.pieces import NAMES, ROTATIONS, check_size
from mdpnewton.domains.tetris.plain import Placement, candidates

required("gymnasium", "an environment")
import gymnasium  # noqa: E402


class Tetris(gymnasium.Env):
    """Place the current piece: one of seven, drawn uniformly; only the current one is known.

    Action: rotation * width + column, where the rotation counts quarter turns that make a
    difference and the column is the piece's leftmost. The piece is dropped from above and must lie
    fully inside the board before full lines are removed. `info["action_mask"]` is 1 for the actions
    for which it does; `sample(mask)` of the action space takes this mask. An action that is masked
    out ends the episode without reward. A piece without a placement does so too, and then the mask
    is all zeros.

    Observation: a dictionary of "board" (height, width), with 1 for filled cells and the bottom row
    first, and "piece", 0 to 6 for I, O, T, S, Z, J, L. Reward: the number of lines removed.

    Args:
        height: Number of rows, 2 to 32.
        width: Number of columns, 2 to 16.
        render_mode: "ansi" for text, "rgb_array" for a picture, or None.
    """

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 5}  # noqa: RUF012

    def __init__(self, height: int = 20, width: int = 10, render_mode: str | None = None):
        check_size("Tetris", height, width)
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"`Tetris(render_mode=...)` is 'ansi', 'rgb_array' or None, got {render_mode!r}."
            )
        self.render_mode, self.width = render_mode, width
        self.board = np.zeros((height, width), bool)
        self.piece, self.lines = 0, 0
        self._options: dict[int, Placement] = {}
        self.action_space = gymnasium.spaces.Discrete(ROTATIONS * width)
        self.observation_space = gymnasium.spaces.Dict(
            {
                "board": gymnasium.spaces.MultiBinary([height, width]),
                "piece": gymnasium.spaces.Discrete(len(NAMES)),
            }
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        """See Gymnasium."""
        super().reset(seed=seed)
        self.board, self.lines = np.zeros_like(self.board), 0
        self._next_piece()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[dict, float, bool, bool, dict]:
        """See Gymnasium."""
        placed = self._options.get(int(action))
        if placed is None:
            self._options = {}
            return self._observation(), 0.0, True, False, self._info()
        self.board, self.lines = placed.board, self.lines + placed.lines
        self._next_piece()
        over = not self._options
        return self._observation(), float(placed.lines), over, False, self._info()

    def render(self) -> Any:
        """See Gymnasium."""
        if self.render_mode == "ansi":
            return text_picture(self.board, self.piece, self.lines)
        return color_picture(self.board, self.piece) if self.render_mode else None

    def _next_piece(self) -> None:
        self.piece = int(self.np_random.integers(len(NAMES)))
        fitting = candidates(self.board, self.piece)
        self._options = {r * self.width + c: placed for (r, c), placed in fitting.items()}

    def _observation(self) -> dict:
        return {"board": self.board.astype(np.int8), "piece": np.int64(self.piece)}

    def _info(self) -> dict:
        mask = np.zeros(ROTATIONS * self.width, np.int8)
        mask[list(self._options)] = 1
        return {"action_mask": mask, "lines": self.lines}
