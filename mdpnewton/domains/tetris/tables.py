"""What the kernels read: the shapes, and what a policy can know beforehand."""

from functools import cache

import numpy as np

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.pieces import NAMES, shapes

FEATURE_NAMES = {
    "dt": (
        "landing height",
        "eroded piece cells",
        "row transitions",
        "column transitions",
        "holes",
        "board wells",
        "hole depth",
        "rows with holes",
        "diversity",
    )
}


FEATURES = ("bi", "dt")  # Bertsekas and Ioffe; Dellacherie and Thiery


def feature_names(features: str, width: int) -> tuple[str, ...]:
    """The names of the features, in the order of the weights."""
    if features == "dt":
        return FEATURE_NAMES["dt"]
    heights = [f"height {c}" for c in range(1, width + 1)]
    steps = [f"difference {c}-{c + 1}" for c in range(1, width)]
    return (*heights, *steps, "largest height", "holes")


@cache
def shape_table() -> tuple[np.ndarray, np.ndarray]:
    """One row per rotated piece, as `layout` has it, and where the rows of each piece begin."""
    rows, begins = [], [0]
    for piece in range(len(NAMES)):
        for shape in shapes(piece):
            row = np.zeros(at.SHAPE_ROW, np.int64)
            row[at.WIDTH], row[at.HEIGHT] = shape.width, shape.height
            row[at.BOTTOM : at.BOTTOM + 4] = 1000  # a column that is not there holds nothing up
            row[at.NEUTRAL : at.NEUTRAL + 4] = -1  # and counts as full
            for j in range(shape.width):
                row[at.BOTTOM + j], row[at.TOP + j] = shape.bottoms[j], shape.tops[j]
                row[at.MASK + j], row[at.NEUTRAL + j] = shape.masks[j], 0
                row[at.LENGTH + j] = shape.tops[j] - shape.bottoms[j]
            for step in np.diff(shape.tops):
                row[at.INNER_STEPS] |= 1 << (step + 3) if abs(step) <= 2 else 0
            row[at.LAST_TOP] = shape.tops[-1]
            masks = [0, *shape.masks, *[0] * (5 - shape.width)]
            flips = [masks[k] ^ masks[k + 1] for k in range(5)]  # at the five sides of the columns
            row[at.ROW_FLIPS] = sum(flip << (4 * k) for k, flip in enumerate(flips))
            row[at.FLIP_COUNT] = int(row[at.ROW_FLIPS]).bit_count()
            rows.append(row)
        begins.append(len(rows))
    table = np.array(rows, np.int32).ravel()
    table.setflags(write=False)
    return table, np.array(begins, np.int64)


def policy_table(weights: np.ndarray, features: str, width: int) -> np.ndarray:
    """The score of a placement that removes no line, as far as the weights alone determine it.

    With heights h, the piece at rest in row y of columns x to x + w - 1 and tops t, heights there
    become y + t_j. Holes are the sum of heights minus cells, so their weight joins those of the
    heights: score = SLOPE y + LEVEL + two differences at the edges + largest height - WINDOWS.
    """
    table = np.zeros(at.TABLES)
    if features == "dt":
        table[at.WEIGHTS : at.WEIGHTS + 9] = weights
        return table
    heights = np.zeros(width + 4)
    steps = np.zeros(width + 4)
    heights[:width] = weights[:width] + weights[-1]
    steps[: width - 1] = weights[width : 2 * width - 1]
    table[at.HEIGHT_WEIGHT : at.HEIGHT_WEIGHT + width] = heights[:width]
    table[at.STEP_WEIGHT : at.STEP_WEIGHT + width] = steps[:width]
    table[at.LARGEST_WEIGHT], table[at.LINE_WEIGHT] = weights[-2], width * weights[-1]
    turned = [shape for piece in range(len(NAMES)) for shape in shapes(piece)]
    for row, shape in enumerate(turned):
        tops = np.array(shape.tops)
        for x in range(width - shape.width + 1):
            here = slice(x, x + shape.width)
            inner = steps[x : x + shape.width - 1] @ np.abs(np.diff(tops))
            table[at.SLOPE + at.LANES * row + x] = heights[here].sum()
            table[at.LEVEL + at.LANES * row + x] = heights[here] @ tops + inner
    return table


def tiles(size: int) -> list[tuple[int, int]]:
    """First row and first column of every tile of a symmetric matrix, in the kernel's order."""
    return [
        (row, column)
        for row in range(0, size, at.TILE_ROWS)
        for column in range(0, row + at.TILE_ROWS, at.TILE_COLUMNS)
    ]


def padded(size: int) -> int:
    """The size of a feature vector in the kernel: whole tiles."""
    return -(-size // at.TILE_COLUMNS) * at.TILE_COLUMNS


def area(features: str, size: int, *, diagonal: bool = False) -> tuple[int, int]:
    """Entries that the kernel keeps of a matrix: products of changes, then tiles.

    Of a diagonal it keeps squares of changes, then one entry per feature, padded.
    """
    lanes = lanes_used((size - 1) // 2) if features == "bi" else 0
    if diagonal:
        return at.LOCALS * lanes, padded(size)
    return at.PAIRS * lanes, len(tiles(size)) * at.TILE_ROWS * at.TILE_COLUMNS


def lanes_used(width: int) -> int:
    """Columns in whole fours."""
    return -(-width // 4) * 4


def whole_matrix(features: str, size: int, flat: np.ndarray) -> np.ndarray:
    """The symmetric matrix of which the kernel kept the parts."""
    side = padded(size)
    square = np.zeros((side, side))
    products, _ = area(features, size)
    shape = (-1, at.TILE_ROWS, at.TILE_COLUMNS)
    for (row, column), tile in zip(tiles(size), flat[products:].reshape(shape), strict=True):
        square[row : row + at.TILE_ROWS, column : column + at.TILE_COLUMNS] = tile
    lower = np.tril(square[:size, :size])
    if products:
        rows, columns, places = _places((size - 1) // 2)
        np.add.at(lower, (rows, columns), flat[places])
    return lower + np.tril(lower, -1).T


def whole_diagonal(features: str, size: int, flat: np.ndarray) -> np.ndarray:
    """The diagonal of which the kernel kept the parts: the same bits as that of `whole_matrix`."""
    products, _ = area(features, size, diagonal=True)
    found = flat[products : products + size].copy()
    if products:
        rows, places = _square_places((size - 1) // 2)
        np.add.at(found, rows, flat[places])
    return found


def _feature(local: int, x: int, width: int) -> int | None:
    """The feature that a change belongs to, for a piece at column x; None outside of the board."""
    if local < at.V:
        column = x + local - at.U
        return column if column < width else None
    if local < at.M:
        side = x - 1 + local - at.V
        return width + side if 0 <= side < width - 1 else None
    return 2 * width - 1 + local - at.M


@cache
def _square_places(width: int) -> tuple[np.ndarray, np.ndarray]:
    """The feature of every square of a change, and where it is kept."""
    found = []
    for one in range(at.LOCALS):
        for x in range(width):
            row = _feature(one, x, width)
            if row is not None:
                found.append((row, one * lanes_used(width) + x))
    rows, places = np.array(found).T
    return rows, places


@cache
def _places(width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Row and column of the matrix for every product of changes, and where it is kept."""
    found = []
    for one in range(at.LOCALS):
        for other in range(one, at.LOCALS):
            for x in range(width):
                first, second = _feature(one, x, width), _feature(other, x, width)
                if first is not None and second is not None:
                    place = at.pair(one, other) * lanes_used(width) + x
                    found.append((max(first, second), min(first, second), place))
    rows, columns, places = np.array(found).T
    return rows, columns, places
