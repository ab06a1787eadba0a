"""Mean and second moments of Bertsekas-Ioffe features, four columns of a rotated piece at a time.

A piece of width w at column x that removes no line changes 2 w + 3 features: the heights of its
columns, the differences at their sides, the largest height and the holes. Their products are added
up by their place in the piece and by x; `tables.whole_matrix` knows which features these are. Two
changes of one placement are never changes of the same feature, so that squares make the diagonal.
"""

# mypy: disable-error-code="no-untyped-def"

from itertools import combinations_with_replacement
from typing import Any

from numba import njit
from numba.core import cgutils

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.emit import I64, Buffer, Lanes, emitted, offset, splat

FOUR = 4


def _changes(width: int) -> Any:
    @emitted(None)
    def changes(
        builder: Any, shapes: Buffer, out: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
    ) -> None:
        """Add the expected changes of a rotated piece to MEANS, and their products to `out`.

        `a` is its row in `shapes`; b = 4 slot + wanted says how many products: see `layout`.
        1 / (sum of powers) is `reals[BASE + 2]`.
        """
        start = offset(builder, 0, a, at.SHAPE_ROW)
        slot = offset(builder, 0, builder.lshr(b, I64(2)), at.LANES)
        wanted = builder.and_(b, I64(3))

        def shape(place: int) -> Any:
            return shapes.scalar(builder.add(start, I64(place)))

        tops = [shape(at.TOP + j) for j in range(width)]
        inner = [None, *(builder.sub(tops[i], tops[i - 1]) for i in range(1, width))]
        tall = shape(at.HEIGHT)
        largest = ints.scalar(at.TOTALS + at.LARGEST)
        chunks = builder.sext(ints.scalar(at.TOTALS + at.CHUNKS), I64)
        total = reals.scalar(at.BASE + 2)
        with cgutils.for_range(builder, chunks) as chunk:
            x = builder.mul(chunk.index, I64(FOUR))

            def here(buffer: Buffer, place: int, also: Any = None) -> Lanes:
                where = builder.add(x, I64(place))
                where = where if also is None else builder.add(where, also)
                return buffer.lanes(where, FOUR)

            rest = here(ints, at.RESTS, slot)
            heights = [here(ints, at.HEIGHTS + j) for j in range(-1, width + 1)]
            old = [(heights[i] - heights[i + 1]).absolute() for i in range(width + 1)]
            found = {at.U + j: rest + tops[j] - heights[j + 1] for j in range(width)}
            left = (heights[0] - (rest + tops[0])).absolute() - old[0]
            found[at.V] = left & here(ints, at.INSIDE - 1)
            for i in range(1, width):
                found[at.V + i] = splat(builder, inner[i], FOUR).absolute() - old[i]
            right = (heights[-1] - (rest + tops[-1])).absolute() - old[width]
            found[at.V + width] = right & here(ints, at.INSIDE + width)
            found[at.M] = (rest + tall).largest(largest) - largest
            holes = rest & 0
            for j in range(width):
                holes = holes + found[at.U + j]
            found[at.O] = holes - 4
            p = here(reals, at.POWERS, slot) * total
            values = {which: change.doubles() for which, change in found.items()}
            weighed = {which: p * value for which, value in values.items()}
            for which, value in weighed.items():
                place = builder.add(x, I64(at.MEANS + at.ROW * which))
                reals.put(place, reals.lanes(place, FOUR) + value)

            def add_product(row: int, one: int, other: int) -> None:
                where = builder.add(builder.mul(chunks, I64(FOUR * row)), x)
                out.put(where, out.lanes(where, FOUR) + weighed[one] * values[other])

            with builder.if_then(builder.icmp_signed("==", wanted, I64(at.WHOLE))):
                for one, other in combinations_with_replacement(sorted(values), 2):
                    add_product(at.pair(one, other), one, other)
            with builder.if_then(builder.icmp_signed("==", wanted, I64(at.DIAGONAL))):
                for which in values:
                    add_product(which, which, which)

    return changes


changes_1, changes_2, changes_3, changes_4 = (_changes(width) for width in range(1, 5))


@njit
def add_changes(shapes, out, ints, reals, shape, slot, wanted):
    """Call the function for the width of the piece; `wanted` as in `layout`."""
    width = shapes[shape * at.SHAPE_ROW + at.WIDTH]
    flag = 4 * slot + wanted
    if width == 2:
        changes_2(shapes, out, ints, reals, shape, flag)
    elif width == 3:
        changes_3(shapes, out, ints, reals, shape, flag)
    elif width == 4:
        changes_4(shapes, out, ints, reals, shape, flag)
    else:
        changes_1(shapes, out, ints, reals, shape, flag)


@emitted(None)
def begin_means(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> None:
    """Set MEANS to zero."""
    zero = splat(builder, reals.element(0.0))
    for which in range(at.LOCALS):
        reals.put(at.MEANS + at.ROW * which, zero)


@emitted(None)
def row_means(
    builder: Any, shapes: Buffer, rows: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> None:
    """MEANS as a row of features, at `rows[a]`: every change in the column that it belongs to."""
    width = builder.sext(ints.scalar(at.TOTALS + at.COLS), I64)
    heights = reals.lanes(at.MEANS + at.ROW * at.U)
    for j in range(1, 4):
        heights = heights + reals.lanes(at.MEANS + at.ROW * (at.U + j) - j)
    steps = reals.lanes(at.MEANS + at.ROW * at.V + 1)
    for i in range(1, 5):
        steps = steps + reals.lanes(at.MEANS + at.ROW * (at.V + i) + 1 - i)
    rows.put(a, heights)
    second = builder.add(a, width)
    rows.put(second, steps)
    third = builder.add(second, builder.sub(width, I64(1)))
    for k, which in enumerate((at.M, at.O)):
        total = reals.lanes(at.MEANS + at.ROW * which).total()
        rows.put_scalar(builder.add(third, I64(k)), total)
