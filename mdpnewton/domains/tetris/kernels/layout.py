"""Where the kernels keep things: four flat arrays and the offsets of what they hold.

`shapes` (int32) has a row for each of the 19 rotated pieces, `tables` (float64) what a policy can
know beforehand, `ints` (int32) and `reals` (float64) the state of a game. There is one entry per
column of the board, 16 at most, and rows of them are `ROW` apart, with room on both sides for the
walls: column c of HEIGHTS is `ints[HEIGHTS + c]`, the left wall `ints[HEIGHTS - 1]`.
"""

LANES = 16
ROW = 32
WALL_HEIGHT = 100  # no piece fits on a wall

# A row of `shapes`.
SHAPE_ROW = 28
WIDTH, HEIGHT, BOTTOM, TOP, MASK, NEUTRAL, LENGTH, INNER_STEPS = 0, 1, 2, 6, 10, 14, 18, 22
LAST_TOP, ROW_FLIPS, FLIP_COUNT = 23, 24, 25

# `ints`.
HEIGHTS = 8
COLUMNS = HEIGHTS + ROW
INSIDE = COLUMNS + ROW  # -1 for columns of the board
PREFIX = INSIDE + ROW  # AND of the columns to the left
SUFFIX = PREFIX + ROW  # AND of this column and those to the right
HOLES = SUFFIX + ROW  # rows of a column's holes, and of all holes to the left or right
HOLES_LEFT = HOLES + ROW
HOLES_RIGHT = HOLES_LEFT + ROW
STEPS_LEFT = HOLES_RIGHT + ROW  # differences that occur to the left or right, as bits
STEPS_RIGHT = STEPS_LEFT + ROW
WELLS = STEPS_RIGHT + ROW
SHUT = WELLS + ROW  # 1 for a column with holes
RESTS = SHUT + ROW  # row where the piece rests: 4 rotations
FULL = RESTS + 4 * LANES  # rows that become full there, as bits
FEATURES = FULL + 4 * LANES  # DT: 9 features of 4 rotations
CURRENT = FEATURES + 9 * 4 * LANES  # DT: those of the board itself
TOTALS = CURRENT + LANES
INTS = TOTALS + LANES

# Numbers of the board at `ints[TOTALS + ...]`; then the features at `ints[CURRENT + ...]`.
ROWS, COLS, LARGEST, CELLS, AT, CHUNKS = range(6)
LANDING, ERODED, ROW_STEPS, COLUMN_STEPS, HOLE_COUNT, WELL_SUM, DEPTH, HOLE_ROWS = range(8)
DIVERSITY = 8

# `reals`.
WINDOWS = 0  # what a piece of width 1 to 4 removes from the score
SCORES = WINDOWS + 4 * LANES
POWERS = SCORES + 4 * LANES
BASE = POWERS + 4 * LANES  # score of the board, best score, 1 / sum of powers
MEANS = BASE + 16  # expected changes, one row per feature: see `changes`
REALS = MEANS + 11 * ROW

# `tables`, Bertsekas-Ioffe.
HEIGHT_WEIGHT = 8  # of a column's height, holes included
STEP_WEIGHT = HEIGHT_WEIGHT + ROW  # of its difference to the next column
SLOPE = STEP_WEIGHT + ROW  # score = SLOPE row + LEVEL + ..., 19 rotations
LEVEL = SLOPE + 19 * LANES
SCALARS = LEVEL + 19 * LANES
LARGEST_WEIGHT, LINE_WEIGHT = SCALARS, SCALARS + 1
WEIGHTS = SCALARS + 2  # Dellacherie-Thiery: the nine
TABLES = WEIGHTS + 9

# What a placement of width w changes: heights U of its columns, differences V at their sides, from
# the left one on, the largest height M and the holes O. Products of two are kept as rows.
U, V, M, O, LOCALS = 0, 4, 9, 10, 11  # noqa: E741
PAIRS = LOCALS * (LOCALS + 1) // 2


def pair(one: int, other: int) -> int:
    """The row of a product, one <= other."""
    return one * LOCALS - one * (one - 1) // 2 + other - one


# Matrices of n features are kept as tiles of 4 rows by 8 columns, those on or below the diagonal.
TILE_ROWS, TILE_COLUMNS = 4, 8

# How much of a decision's covariance is added up.
NOTHING, DIAGONAL, WHOLE = range(3)
