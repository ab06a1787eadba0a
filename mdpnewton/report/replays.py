"""What is recorded so that a report can play it again: an episode, or a game of Tetris."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import jax
import numpy as np

from mdpnewton.domains.tetris.pictures import placed_cells
from mdpnewton.domains.tetris.plain import decisions

STEPS, PIECES = 500, 120  # that are kept at most
MOST = 16  # numbers of an observation or an action that are kept
# The angle of the pole from the upright, to the right, by the name of the environment.
POLES: dict[str, Callable[[np.ndarray], float]] = {
    "cartpole": lambda seen: seen[0],
    "mdpnewton/CartPoleSwingUp-v0": lambda seen: seen[0],
    "CartPole-v1": lambda seen: seen[2],
    "Pendulum-v1": lambda seen: -np.arctan2(seen[1], seen[0]),
}


def episode_of(environment: str, played: Any) -> dict[str, Any]:
    """The first of some episodes as replay.json holds it.

    Args:
        environment: Name of the environment.
        played: The episodes, `Trajectories`.
    """
    valid = np.asarray(played.valid)
    over = np.cumsum(np.asarray(played.ends) & valid) - (np.asarray(played.ends) & valid)
    rows = np.flatnonzero(valid & (over == 0))[:STEPS]
    seen, acted = (_rows(tree, rows) for tree in (played.observations, played.actions))
    pole = POLES.get(environment.rpartition(":")[2])
    rewards = np.asarray(played.rewards, float)[rows]
    return {
        "episode": {
            "title": f"One of the last episodes of {environment}",
            "observations": seen[:, :MOST].round(6).tolist(),
            "actions": acted[:, :MOST].round(6).tolist(),
            "rewards": rewards.round(6).tolist(),
            "pole": [] if pole is None else [round(float(pole(one)), 5) for one in seen],
        }
    }


def game_of(weights: np.ndarray, features: str, height: int, width: int) -> dict[str, Any]:
    """The beginning of a greedy game as replay.json holds it: boards as text, the top row first."""
    board: dict[str, Any] = {"features": features, "height": height, "width": width}
    boards = []
    for step in islice(decisions(weights, policy="greedy", seed=0, game=0, **board), PIECES):
        cells = np.where(placed_cells(step), "O", np.where(step.board, "#", "."))
        boards.append("".join(cells[::-1].ravel()))
    title = f"A greedy game with these weights, the first {len(boards)} pieces"
    return {"game": {"title": title, "width": width, "height": height, "boards": boards}}


def _rows(tree: Any, rows: np.ndarray) -> np.ndarray:
    """Some rows of all arrays side by side."""
    leaves = [np.asarray(leaf, float)[rows] for leaf in jax.tree.leaves(tree)]
    return np.concatenate([leaf.reshape(len(rows), -1) for leaf in leaves], axis=1)
