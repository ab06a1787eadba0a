"""Bertsekas-Ioffe scores: all columns of a rotated piece at once."""

import math
from typing import Any

from numba.core import cgutils, types

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.emit import (
    I32,
    I64,
    Buffer,
    Lanes,
    emitted,
    lane_numbers,
    offset,
    splat,
)


def columns_scan(builder: Any, ints: Buffer) -> None:
    """PREFIX and SUFFIX: which rows are full to the left, and from a column to the right."""
    columns = ints.lanes(at.COLUMNS) | ~ints.lanes(at.INSIDE)
    before, after = columns.shifted(-1, -1), columns
    for by in (1, 2, 4, 8):
        before = before & before.shifted(-by, -1)
        after = after & after.shifted(by, -1)
    ints.put(at.PREFIX, before)
    ints.put(at.SUFFIX, after)


@emitted(None)
def refresh_bi(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> None:
    """Everything that the scores on a new board start from."""
    heights = ints.lanes(at.HEIGHTS)
    ints.put_scalar(at.TOTALS + at.LARGEST, (heights & ints.lanes(at.INSIDE)).greatest())
    columns_scan(builder, ints)
    steps = tables.lanes(at.STEP_WEIGHT) * (heights - heights.shifted(1)).absolute().doubles()
    terms = tables.lanes(at.HEIGHT_WEIGHT) * heights.doubles() + steps
    reals.put_scalar(at.BASE, terms.total())
    window = steps.shifted(-1)
    for j in range(4):
        window = window + (terms.shifted(j) if j else terms)
        reals.put(at.WINDOWS + j * at.LANES, window)


def dropped(ints: Buffer, shapes: Buffer, row: Any, heights: list[Lanes]) -> Lanes:
    """Row in which the piece rests, for every column of its left side."""
    add = shapes.builder.add
    rest = heights[0] - shapes.scalar(add(row, I64(at.BOTTOM)))
    for j in range(1, 4):
        rest = rest.largest(heights[j] - shapes.scalar(add(row, I64(at.BOTTOM + j))))
    return rest


def filled(
    ints: Buffer, shapes: Buffer, row: Any, rest: Lanes, width: Any, fits: Lanes, slot: Any
) -> Any:
    """Rows that the piece makes full go to FULL; the columns where there are any, as bits."""
    builder = shapes.builder
    level = rest & 31
    full = ints.lanes(at.PREFIX) & ints.lanes(builder.add(width, I64(at.SUFFIX)))
    for j in range(4):
        cells = shapes.scalar(builder.add(row, I64(at.MASK + j)))
        neutral = shapes.scalar(builder.add(row, I64(at.NEUTRAL + j)))
        column = ints.lanes(at.COLUMNS + j)
        full = full & (column | neutral | ((level & 0) + cells << level))
    ints.put(offset(builder, at.FULL, slot, at.LANES), full)
    return Lanes(builder, builder.and_(full.compare("!=", 0).value, fits.value)).bits()


@emitted(types.int64)
def score_bi(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> Any:
    """Scores of rotated piece `a` into slot `b`; the columns where it fills a line, as bits."""
    row = offset(builder, 0, a, at.SHAPE_ROW)
    width = builder.sext(shapes.scalar(builder.add(row, I64(at.WIDTH))), I64)
    heights = [ints.lanes(at.HEIGHTS + j) for j in range(4)]
    rest = dropped(ints, shapes, row, heights)
    top = rest + shapes.scalar(builder.add(row, I64(at.HEIGHT)))
    fits = top.compare("<=", ints.scalar(at.TOTALS + at.ROWS))
    first = rest + shapes.scalar(builder.add(row, I64(at.TOP)))
    last = rest + shapes.scalar(builder.add(row, I64(at.LAST_TOP)))
    left = (ints.lanes(at.HEIGHTS - 1) - first).absolute()
    right = (ints.lanes(builder.add(width, I64(at.HEIGHTS))) - last).absolute()
    largest = top.largest(ints.scalar(at.TOTALS + at.LARGEST))
    lane = offset(builder, 0, a, at.LANES)

    def weigh(count: int) -> None:
        known = tables.lanes(builder.add(lane, I64(at.SLOPE)), count) * rest.part(count).doubles()
        known = known + tables.lanes(builder.add(lane, I64(at.LEVEL)), count)
        before = offset(builder, at.WINDOWS - at.LANES, width, at.LANES)
        score = known - reals.lanes(before, count)
        score = score + tables.lanes(at.STEP_WEIGHT - 1, count) * left.part(count).doubles()
        weight = tables.lanes(builder.add(width, I64(at.STEP_WEIGHT - 1)), count)
        score = score + weight * right.part(count).doubles()
        score = score + largest.part(count).doubles() * tables.scalar(at.LARGEST_WEIGHT)
        score = fits.part(count).where(score, -math.inf)
        reals.put(offset(builder, at.SCORES, b, at.LANES), score)

    # Twelve lanes are three registers instead of four, and most boards are not wider.
    narrow = builder.icmp_signed("<=", ints.scalar(at.TOTALS + at.COLS), I32(12))
    with builder.if_else(narrow) as (twelve, sixteen):
        with twelve:
            weigh(12)
        with sixteen:
            weigh(16)
    ints.put(offset(builder, at.RESTS, b, at.LANES), rest)
    return filled(ints, shapes, row, rest, width, fits, b)


def without_lines(columns: Lanes, full: Any) -> Lanes:
    """The columns after up to four rows, the bits of `full`, are taken out."""
    builder = columns.builder
    place = cgutils.alloca_once_value(builder, columns.value)
    left = cgutils.alloca_once_value(builder, full)
    head, body, done = (builder.append_basic_block(name) for name in ("lines", "line", "gone"))
    builder.branch(head)
    builder.position_at_end(head)
    rows = builder.load(left)
    builder.cbranch(builder.icmp_unsigned("!=", rows, I32(0)), body, done)
    builder.position_at_end(body)
    now = Lanes(builder, builder.load(place))
    lowest = builder.and_(rows, builder.neg(rows))
    below = builder.sub(lowest, I32(1))
    after = (now & below) | ((now >> 1) & builder.not_(below))
    builder.store(after.value, place)
    builder.store(builder.lshr(builder.xor(rows, lowest), I32(1)), left)
    builder.branch(head)
    builder.position_at_end(done)
    return Lanes(builder, builder.load(place))


def placed(ints: Buffer, shapes: Buffer, row: Any, column: Any, rest: Any) -> Lanes:
    """The columns with the piece at rest, zero outside of the board."""
    builder = shapes.builder
    columns = ints.lanes(at.COLUMNS) & ints.lanes(at.INSIDE)
    lanes = lane_numbers(builder) - builder.trunc(column, I32)
    for j in range(4):
        cells = builder.shl(shapes.scalar(builder.add(row, I64(at.MASK + j))), rest)
        columns = columns | lanes.compare("==", j).where((lanes & 0) + cells, 0)
    return columns


@emitted(None)
def clear_bi(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> None:
    """The score of one placement that removes lines: rotated piece `a`, 16 slot + column `b`."""
    row = offset(builder, 0, a, at.SHAPE_ROW)
    rest = ints.scalar(builder.add(b, I64(at.RESTS)))
    columns = placed(ints, shapes, row, builder.and_(b, I64(at.LANES - 1)), rest)
    full = ints.scalar(builder.add(b, I64(at.FULL)))
    heights = 32 - without_lines(columns, full).leading_zeros()
    lines = builder.sitofp(builder.ctpop(full), tables.element)
    steps = tables.lanes(at.STEP_WEIGHT) * (heights - heights.shifted(1)).absolute().doubles()
    terms = tables.lanes(at.HEIGHT_WEIGHT) * heights.doubles() + steps
    score = builder.fsub(terms.total(), reals.scalar(at.BASE))
    largest = builder.sitofp(heights.greatest(), tables.element)
    for weight, feature in ((at.LARGEST_WEIGHT, largest), (at.LINE_WEIGHT, lines)):
        score = builder.fadd(score, builder.fmul(tables.scalar(weight), feature))
    reals.put_scalar(builder.add(b, I64(at.SCORES)), score)


@emitted(types.int64)
def put_down(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> Any:
    """Put rotated piece `a` down at 16 slot + column `b`; the lines removed.

    Whole vectors are stored, because they are soon loaded: a load that several smaller stores
    have to make up waits for all of them.
    """
    row = offset(builder, 0, a, at.SHAPE_ROW)
    rest = ints.scalar(builder.add(b, I64(at.RESTS)))
    full = ints.scalar(builder.add(b, I64(at.FULL)))
    inside = ints.lanes(at.INSIDE)
    walls = ints.lanes(at.COLUMNS) & ~inside
    high = ints.lanes(at.HEIGHTS) & ~inside
    column = builder.and_(b, I64(at.LANES - 1))
    columns = placed(ints, shapes, row, column, rest)
    heights = ints.lanes(at.HEIGHTS)
    lanes = lane_numbers(builder) - builder.trunc(column, I32)
    for j in range(4):
        top = builder.add(rest, shapes.scalar(builder.add(row, I64(at.TOP + j))))
        here = shapes.scalar(builder.add(row, I64(at.MASK + j)))
        there = builder.select(builder.icmp_signed("!=", here, I32(0)), I32(j), I32(-100))
        heights = lanes.compare("==", there).where(splat(builder, top), heights)
    ints.put(at.COLUMNS, columns | walls)
    ints.put(at.HEIGHTS, heights)
    with builder.if_then(builder.icmp_signed("!=", full, I32(0))):
        left = without_lines(columns, full)
        ints.put(at.COLUMNS, left | walls)
        ints.put(at.HEIGHTS, ((32 - left.leading_zeros()) & inside) | high)
    return builder.zext(builder.ctpop(full), I64)
