"""A robot that looks for good rocks, in the manner of RockSample (Smith and Simmons, 2004)."""

from itertools import product

import numpy as np
from scipy import sparse

from mdpnewton.checks import number, whole
from mdpnewton.models.pomdp import FinitePOMDP

MOVES = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}
WORTH = 10.0  # of a good rock, of leaving; a sample of anything else costs as much
HALF = 20.0  # distance at which the sensor is half as good as beside the rock


def rocks(size: int, number_of_rocks: int, *, seed: int = 0, discount: float = 0.95) -> FinitePOMDP:
    """A POMDP of size² · 2^rocks + 1 states, as sparse matrices.

    A robot on a square grid starts in the middle of the western edge; in the east it leaves, for
    10. Every rock is good or bad with the same probability. A sample of a good rock earns 10 and
    spoils it, any other sample costs 10. Checking a rock lets the sensor beep with probability
    (1 + 2^(-d/20)) / 2 if it is good, and with the rest if it is bad, d being the distance. The
    robot sees its cell and whether there is a beep.

    Args:
        size: Number of rows and of columns of the grid.
        number_of_rocks: Number of rocks, on random cells.
        seed: Random seed of their places.
        discount: Discount factor.
    """
    whole("rocks", "size", size, 2, 20)
    whole("rocks", "number_of_rocks", number_of_rocks, 1, min(12, size * size))
    whole("rocks", "seed", seed)
    number("rocks", "discount", discount, least=0, below=1)
    places = np.random.default_rng(seed).choice(size * size, number_of_rocks, replace=False)
    cells, kinds = size * size, 2**number_of_rocks
    n, gone = cells * kinds + 1, cells * kinds
    cell, good = np.divmod(np.arange(gone), kinds)
    row, column = np.divmod(cell, size)
    every, still = np.arange(gone), np.zeros(gone)
    ways: list[tuple[np.ndarray, np.ndarray]] = []  # next state and reward of each action
    for down, right in MOVES.values():
        beside = np.clip(row + down, 0, size - 1) * size + np.clip(column + right, 0, size - 1)
        leaves = column + right == size
        ways.append((np.where(leaves, gone, beside * kinds + good), WORTH * leaves))
    here = np.full(cells, -1)
    here[places] = np.arange(number_of_rocks)
    bit = np.where(here[cell] >= 0, 1 << np.maximum(here[cell], 0), 0)
    found = (good & bit) > 0
    ways.append((cell * kinds + (good & ~bit), np.where(found, WORTH, -WORTH)))
    ways += [(every, still)] * number_of_rocks
    silent = _seen(np.full(gone, 0.0), cell, n, cells)
    seen = [silent] * (len(MOVES) + 1)
    for rock, place in enumerate(places):
        away = np.hypot(row - place // size, column - place % size)
        sure = (1 + 2.0 ** (-away / HALF)) / 2
        seen.append(_seen(np.where(good >> rock & 1, sure, 1 - sure), cell, n, cells))
    ones = np.ones(n)
    start = np.zeros(n)
    start[(size // 2 * size) * kinds + np.arange(kinds)] = 1 / kinds
    names = [f"r{r}c{c}" for r, c in product(range(size), repeat=2)]
    return FinitePOMDP(
        [
            sparse.csr_array((ones, (np.arange(n), [*after, gone])), shape=(n, n))
            for after, _ in ways
        ],
        seen,
        np.stack([np.append(earned, 0.0) for _, earned in ways], axis=1),
        start,
        discount,
        actions=(*MOVES, "sample", *(f"check{rock}" for rock in range(number_of_rocks))),
        observations=(*names, *(f"{name}-beep" for name in names), "gone"),
    )


def _seen(beeps: np.ndarray, cell: np.ndarray, n: int, cells: int) -> sparse.csr_array:
    """p(o|s'): the cell, with a beep or without one."""
    every = np.arange(n - 1)
    rows = np.concatenate([every, every, [n - 1]])
    columns = np.concatenate([cell, cell + cells, [2 * cells]])
    p = np.concatenate([1 - beeps, beeps, [1.0]])
    found = sparse.csr_array((p, (rows, columns)), shape=(n, 2 * cells + 1))
    found.eliminate_zeros()
    return found
