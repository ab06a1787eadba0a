"""The seven pieces, their rotations, and where they can be put."""

from functools import cache
from typing import NamedTuple

from mdpnewton.checks import whole

SMALLEST, LARGEST_WIDTH, LARGEST_HEIGHT = 2, 16, 32

# A piece as its rows from the top down.
PIECES = {
    "I": ("XXXX",),
    "O": ("XX", "XX"),
    "T": (".X.", "XXX"),
    "S": (".XX", "XX."),
    "Z": ("XX.", ".XX"),
    "J": ("X..", "XXX"),
    "L": ("..X", "XXX"),
}
NAMES = tuple(PIECES)
ROTATIONS = 4  # at most


class Shape(NamedTuple):
    """A piece in one rotation. Rows are counted from its lowest, columns from its leftmost.

    Attributes:
        cells: The four (row, column) that it fills.
        width: Columns.
        height: Rows.
        bottoms: The lowest filled row of every column.
        tops: The row above the highest filled one, of every column.
        masks: The filled rows of every column as bits.
    """

    cells: tuple[tuple[int, int], ...]
    width: int
    height: int
    bottoms: tuple[int, ...]
    tops: tuple[int, ...]
    masks: tuple[int, ...]


@cache
def shapes(piece: int) -> tuple[Shape, ...]:
    """The different rotations of a piece, each a quarter turn after the one before."""
    rows = PIECES[NAMES[piece]][::-1]
    cells = {(r, c) for r, row in enumerate(rows) for c, mark in enumerate(row) if mark == "X"}
    found: list[Shape] = []
    for _ in range(ROTATIONS):
        shape = _shape(cells)
        if shape not in found:
            found.append(shape)
        height = max(r for r, _ in cells)
        cells = {(c, height - r) for r, c in cells}
    return tuple(found)


def _shape(cells: set[tuple[int, int]]) -> Shape:
    width, height = 1 + max(c for _, c in cells), 1 + max(r for r, _ in cells)
    columns = [[r for r, column in cells if column == c] for c in range(width)]
    return Shape(
        tuple(sorted(cells)),
        width,
        height,
        tuple(min(rows) for rows in columns),
        tuple(max(rows) + 1 for rows in columns),
        tuple(sum(1 << r for r in rows) for rows in columns),
    )


def placements(piece: int, width: int) -> list[tuple[int, int]]:
    """Every (rotation, leftmost column) of a piece, in the order in which ties are broken.

    On 10 columns the seven pieces have 9 to 34 each, 162 together.
    """
    return [
        (rotation, column)
        for rotation, shape in enumerate(shapes(piece))
        for column in range(width - shape.width + 1)
    ]


def check_size(call: str, height: int, width: int) -> None:
    """Refuse a board on which the game cannot be played."""
    whole(call, "height", height, SMALLEST, LARGEST_HEIGHT)
    whole(call, "width", width, SMALLEST, LARGEST_WIDTH)
