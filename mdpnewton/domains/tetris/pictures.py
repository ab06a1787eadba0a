"""A board in text and in colour."""

import numpy as np

from mdpnewton.checks import required
from mdpnewton.domains.tetris.pieces import shapes
from mdpnewton.domains.tetris.plain import Decision

CELL = 24  # pixels
PAPER, INK, FILL, NEW = "#ffffff", "#9aa5b1", "#1f77b4", "#d62728"
MARGIN = 4  # rows above the board, where the current piece is shown


def placed_cells(step: Decision) -> np.ndarray:
    """Where the piece of a decision comes to lie, on a board of its own."""
    new = np.zeros_like(step.board)
    for row, column in step.placed.shape.cells:
        new[step.placed.row + row, step.column + column] = True
    return new


def text_picture(board: np.ndarray, piece: int, lines: int, new: np.ndarray | None = None) -> str:
    """Board and piece in text.

    Args:
        board: The board, bottom row first.
        piece: The current piece, shown above the board.
        lines: Number of lines so far.
        new: The cells of the piece placed last, if they are to stand out.
    """
    shape = shapes(piece)[0]
    rows = [
        " ".join("O" if (r, c) in shape.cells else " " for c in range(shape.width))
        for r in reversed(range(shape.height))
    ]
    fresh = np.zeros_like(board) if new is None else new
    for row, marks in zip(board[::-1], fresh[::-1], strict=True):
        cells = (
            "O" if mark else "#" if cell else "." for cell, mark in zip(row, marks, strict=True)
        )
        rows.append("|" + " ".join(cells) + "|")
    rows.append("+" + "-" * (2 * board.shape[1] - 1) + "+")
    return "\n".join([*rows, f"lines {lines}"]) + "\n"


def color_picture(board: np.ndarray, piece: int, new: np.ndarray | None = None) -> np.ndarray:
    """Board and piece as an array of pixels; the arguments are those of `text_picture`."""
    height, width = board.shape
    size = (width * CELL, (height + MARGIN) * CELL)
    picture = required("PIL.Image", "a picture").new("RGB", size, PAPER)
    draw = required("PIL.ImageDraw", "a picture").Draw(picture)

    def square(row: int, column: int, color: str) -> None:
        x, y = column * CELL, (height + MARGIN - 1 - row) * CELL
        draw.rectangle([x + 1, y + 1, x + CELL - 2, y + CELL - 2], fill=color)

    draw.line([(0, MARGIN * CELL - 1), (width * CELL, MARGIN * CELL - 1)], fill=INK)
    for row, column in zip(*np.nonzero(board), strict=True):
        fresh = new is not None and new[row, column]
        square(int(row), int(column), NEW if fresh else FILL)
    shape = shapes(piece)[0]
    left = max((width - shape.width) // 2, 0)
    for row, column in shape.cells:
        square(height + 1 + row, left + column, NEW)
    return np.asarray(picture)
