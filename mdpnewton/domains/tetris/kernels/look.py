"""What a decision shows: the score of the chosen placement, and the covariance of the features."""

# mypy: disable-error-code="no-untyped-def"

from numba import njit

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.changes import add_changes, begin_means, row_means
from mdpnewton.domains.tetris.kernels.choose import kept
from mdpnewton.domains.tetris.kernels.emit import lowest
from mdpnewton.domains.tetris.kernels.moments import (
    add_gram,
    add_squares,
    centre,
    row_bi_clear,
    row_now,
)


@njit(inline="always")
def padded_size(size):
    """The length of a row of features."""
    return (size + at.TILE_COLUMNS - 1) // at.TILE_COLUMNS * at.TILE_COLUMNS


@njit
def add_change(shapes, ints, shape, code, score):
    """What one placement that removes no line changes, added to `score`."""
    width, largest = ints[at.TOTALS + at.COLS], ints[at.TOTALS + at.LARGEST]
    row, column, rest = shape * at.SHAPE_ROW, code & (at.LANES - 1), ints[at.RESTS + code]
    wide, holes = shapes[row + at.WIDTH], -4
    old = new = ints[at.HEIGHTS + column - 1]  # of the column to the left
    for here in range(column, column + wide + 1):
        height = ints[at.HEIGHTS + here]
        after = height
        if here < column + wide:
            after = rest + shapes[row + at.TOP + here - column]
            score[here] += after - height
            holes += after - height
        if 0 < here < width:
            score[width + here - 1] += abs(after - new) - abs(height - old)
        old, new = height, after
    score[2 * width - 1] += max(rest + shapes[row + at.HEIGHT] - largest, 0)
    score[2 * width] += holes


@njit
def look_bi(
    shapes,
    tables,
    ints,
    reals,
    begin,
    slots,
    total,
    chosen,
    clears,
    rows,
    p,
    now,
    score,
    wanted,
    out,
):
    """The score of the chosen placement; as much of the covariance as is wanted goes to `out`.

    Features are taken relative to those of the board. Placements that remove lines are few: they
    have rows of their own; the others are treated column by column.
    """
    width = ints[at.TOTALS + at.COLS]
    side, size = padded_size(2 * width + 1), 2 * width + 1
    count, taken = 0, -1
    while clears:
        code = lowest(clears)
        clears &= clears - 1
        power = reals[at.POWERS + code]
        if power > 0.0:
            if code == chosen:
                taken = count
            if count == 0:
                row_now(shapes, now, ints, reals, 0, 0)
            p[count] = power / total
            reals[at.POWERS + code] = 0.0
            ints[at.TOTALS + at.AT] = count * side
            row_bi_clear(shapes, rows, ints, reals, begin + (code >> 4), code)
            for i in range(side):
                rows[count * side + i] -= now[i]
            count += 1
    reals[at.BASE + 2] = 1.0 / total
    begin_means(shapes, tables, ints, reals, 0, 0)
    for slot in range(slots):
        if kept(shapes, tables, ints, reals, slot, 0):
            add_changes(shapes, out, ints, reals, begin + slot, slot, wanted)
    mean = count * side
    row_means(shapes, rows, ints, reals, mean, 0)
    for k in range(count):
        for i in range(side):
            rows[mean + i] += p[k] * rows[k * side + i]
    for i in range(side):
        score[i] = -rows[mean + i]
    if taken >= 0:
        for i in range(side):
            score[i] += rows[taken * side + i]
    else:
        add_change(shapes, ints, begin + chosen // at.LANES, chosen, score)
    p[count] = -1.0
    lanes = 4 * ints[at.TOTALS + at.CHUNKS]
    if wanted == at.WHOLE:
        add_gram(p, rows, out, out, count + 1, size + (at.PAIRS * lanes << 16))
    elif wanted == at.DIAGONAL:
        add_squares(p, rows, out, out, count + 1, size + (at.LOCALS * lanes << 16))


@njit
def look_dt(shapes, tables, ints, reals, slots, total, chosen, rows, p, score, wanted, out):
    """The same for Dellacherie-Thiery features, a row for every placement."""
    side, count, taken = padded_size(9), 0, 0
    for slot in range(slots):
        bits = kept(shapes, tables, ints, reals, slot, 0)
        while bits:
            column = lowest(bits)
            bits &= bits - 1
            code = at.LANES * slot + column
            if code == chosen:
                taken = count
            p[count] = reals[at.POWERS + code] / total
            start = at.FEATURES + slot * 9 * at.LANES + column
            rows[count * side] = 0.5 * ints[start]
            for k in range(1, 9):
                rows[count * side + k] = ints[start + k * at.LANES]
            count += 1
    centre(p, rows, score, score, count, 9)
    for i in range(side):
        score[i] = rows[taken * side + i]
    if wanted == at.WHOLE:
        add_gram(p, rows, out, out, count, 9)
    elif wanted == at.DIAGONAL:
        add_squares(p, rows, out, out, count, 9)
