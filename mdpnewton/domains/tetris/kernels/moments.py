"""Features of the probable placements, their mean and their covariance or its diagonal."""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.bi import placed, without_lines
from mdpnewton.domains.tetris.kernels.emit import (
    F64,
    I32,
    I64,
    Buffer,
    Lanes,
    emitted,
    offset,
    splat,
)

ROW8 = ir.VectorType(F64, at.TILE_COLUMNS)


def _store_row(
    builder: Any, ints: Buffer, rows: Buffer, start: Any, heights: Lanes, largest: Any, cells: Any
) -> None:
    """Bertsekas-Ioffe features from heights (0 outside of the board) and filled cells.

    Sixteen lanes are stored each time: what lies beyond is zero and is written over by the next
    part, or by the next row.
    """
    width = builder.sext(ints.scalar(at.TOTALS + at.COLS), I64)
    steps = (heights - heights.shifted(1)).absolute() & ints.lanes(at.INSIDE + 1)
    rows.put(start, heights.doubles())
    second = builder.add(start, width)
    rows.put(second, steps.doubles())
    third = builder.add(second, builder.sub(width, I64(1)))
    rows.put_scalar(third, builder.sitofp(largest, F64))
    holes = builder.sub(heights.total(), cells)
    rows.put_scalar(builder.add(third, I64(1)), builder.sitofp(holes, F64))


@emitted(None)
def row_now(
    builder: Any, shapes: Buffer, rows: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> None:
    """Features of the board itself, at `rows[a]`."""
    heights = ints.lanes(at.HEIGHTS) & ints.lanes(at.INSIDE)
    largest, cells = (ints.scalar(at.TOTALS + place) for place in (at.LARGEST, at.CELLS))
    _store_row(builder, ints, rows, a, heights, largest, cells)


@emitted(None)
def row_bi_clear(
    builder: Any, shapes: Buffer, rows: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> None:
    """The same for a placement that removes lines."""
    shape = offset(builder, 0, a, at.SHAPE_ROW)
    rest = ints.scalar(builder.add(b, I64(at.RESTS)))
    columns = placed(ints, shapes, shape, builder.and_(b, I64(at.LANES - 1)), rest)
    full = ints.scalar(builder.add(b, I64(at.FULL)))
    heights = 32 - without_lines(columns, full).leading_zeros()
    gone = builder.mul(builder.ctpop(full), ints.scalar(at.TOTALS + at.COLS))
    cells = builder.add(ints.scalar(at.TOTALS + at.CELLS), builder.sub(I32(4), gone))
    start = builder.sext(ints.scalar(at.TOTALS + at.AT), I64)
    _store_row(builder, ints, rows, start, heights, heights.greatest(), cells)


def _vector(builder: Any, buffer: Buffer, start: Any) -> Any:
    return builder.bitcast(builder.gep(buffer.pointer, [start]), ROW8.as_pointer())


def _stride(builder: Any, size: Any) -> Any:
    up = I64(at.TILE_COLUMNS - 1)
    return builder.and_(builder.add(size, up), builder.not_(up))


def _begin_and_size(builder: Any, both: Any) -> tuple[Any, Any]:
    return builder.lshr(both, I64(16)), builder.and_(both, I64(0xFFFF))


@emitted(None)
def centre(
    builder: Any, weights: Buffer, rows: Buffer, mean: Buffer, same: Buffer, count: Any, size: Any
) -> None:
    """The weighted mean of `count` rows, which is then taken off them."""
    stride = _stride(builder, size)
    total = cgutils.alloca_once(builder, ROW8)
    with cgutils.for_range(builder, builder.sdiv(stride, I64(at.TILE_COLUMNS))) as block:
        column = builder.mul(block.index, I64(at.TILE_COLUMNS))
        builder.store(ir.Constant(ROW8, [F64(0.0)] * at.TILE_COLUMNS), total)
        with cgutils.for_range(builder, count) as candidate:
            place = builder.add(builder.mul(candidate.index, stride), column)
            row = builder.load(_vector(builder, rows, place), align=8)
            weight = splat(builder, weights.scalar(candidate.index), at.TILE_COLUMNS).value
            builder.store(builder.fadd(builder.load(total), builder.fmul(weight, row)), total)
        average = builder.load(total)
        builder.store(average, _vector(builder, mean, column), align=8)
        with cgutils.for_range(builder, count) as candidate:
            place = builder.add(builder.mul(candidate.index, stride), column)
            row = builder.load(_vector(builder, rows, place), align=8)
            builder.store(builder.fsub(row, average), _vector(builder, rows, place), align=8)


@emitted(None)
def add_gram(
    builder: Any, weights: Buffer, rows: Buffer, out: Buffer, same: Buffer, count: Any, size: Any
) -> None:
    """Add the tiles of rows' diag(weights) rows, with `count` rows, to `out[size >> 16]` on.

    A tile stays in registers while it runs through the rows: two loads and four broadcasts for
    32 multiplications and additions.
    """
    begin, size = _begin_and_size(builder, size)
    stride = _stride(builder, size)
    blocks = builder.sdiv(builder.add(size, I64(at.TILE_ROWS - 1)), I64(at.TILE_ROWS))
    sums = [cgutils.alloca_once(builder, ROW8) for _ in range(at.TILE_ROWS)]
    tile_start = cgutils.alloca_once(builder, I64)
    builder.store(begin, tile_start)
    with cgutils.for_range(builder, blocks) as block:
        first = builder.mul(block.index, I64(at.TILE_ROWS))
        across = builder.add(builder.sdiv(first, I64(at.TILE_COLUMNS)), I64(1))
        with cgutils.for_range(builder, across) as tile:
            column = builder.mul(tile.index, I64(at.TILE_COLUMNS))
            begin = builder.load(tile_start)
            places = [builder.add(begin, I64(r * at.TILE_COLUMNS)) for r in range(at.TILE_ROWS)]
            for place, total in zip(places, sums, strict=True):
                builder.store(builder.load(_vector(builder, out, place), align=8), total)
            with cgutils.for_range(builder, count) as candidate:
                start = builder.mul(candidate.index, stride)
                where = _vector(builder, rows, builder.add(start, column))
                weight = splat(builder, weights.scalar(candidate.index), at.TILE_COLUMNS).value
                right = builder.fmul(weight, builder.load(where, align=8))
                for r, total in enumerate(sums):
                    one = rows.scalar(builder.add(builder.add(start, first), I64(r)))
                    product = builder.fmul(splat(builder, one, at.TILE_COLUMNS).value, right)
                    builder.store(builder.fadd(builder.load(total), product), total)
            for place, total in zip(places, sums, strict=True):
                builder.store(builder.load(total), _vector(builder, out, place), align=8)
            step = I64(at.TILE_ROWS * at.TILE_COLUMNS)
            builder.store(builder.add(begin, step), tile_start)


@emitted(None)
def add_squares(
    builder: Any, weights: Buffer, rows: Buffer, out: Buffer, same: Buffer, count: Any, size: Any
) -> None:
    """Add the diagonal of what `add_gram` adds, padded, to `out[size >> 16]` on.

    Every entry is added up in the order of `add_gram`, so that the bits are the same.
    """
    begin, size = _begin_and_size(builder, size)
    stride = _stride(builder, size)
    total = cgutils.alloca_once(builder, ROW8)
    with cgutils.for_range(builder, builder.sdiv(stride, I64(at.TILE_COLUMNS))) as block:
        column = builder.mul(block.index, I64(at.TILE_COLUMNS))
        place = _vector(builder, out, builder.add(begin, column))
        builder.store(builder.load(place, align=8), total)
        with cgutils.for_range(builder, count) as candidate:
            start = builder.mul(candidate.index, stride)
            row = builder.load(_vector(builder, rows, builder.add(start, column)), align=8)
            weight = splat(builder, weights.scalar(candidate.index), at.TILE_COLUMNS).value
            square = builder.fmul(row, builder.fmul(weight, row))
            builder.store(builder.fadd(builder.load(total), square), total)
        builder.store(builder.load(total), place, align=8)
