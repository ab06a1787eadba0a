"""Dellacherie-Thiery scores: all columns of a rotated piece at once.

A piece that removes no line changes only what lies in and beside its columns. The features are
whole numbers, changed as such and weighed in one order, so that equal features tie exactly.
"""

import math
from typing import Any

from numba.core import cgutils, types

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.bi import (
    columns_scan,
    dropped,
    filled,
    placed,
    without_lines,
)
from mdpnewton.domains.tetris.kernels.emit import I32, I64, Buffer, Lanes, emitted, offset

ALL_STEPS = 0b0111110  # differences -2 to 2, as `step_bits` writes them


def step_bits(step: Lanes) -> Lanes:
    """A difference of heights as one bit; none beyond 2."""
    return ((step & 0) + 1 << step.largest(-3).smallest(3) + 3) & ALL_STEPS


def hole_rows(columns: Lanes) -> Lanes:
    """Empty cells below the highest filled one."""
    below = columns >> 1
    for by in (1, 2, 4, 8, 16):
        below = below | (below >> by)
    return below & ~columns


def well_sums(builder: Any, wells: list[Lanes], empties: list[Lanes]) -> Lanes:
    """Over well cells, how many empty cells lie there and directly below, columns added up."""
    kind = wells[0].value.type
    sums = cgutils.alloca_once_value(builder, kind(None))
    cells = [cgutils.alloca_once(builder, kind) for _ in wells]
    for place, well in zip(cells, wells, strict=True):
        builder.store(well.value, place)
    head, body, done = (builder.append_basic_block(name) for name in ("wells", "deeper", "done"))
    builder.branch(head)
    builder.position_at_end(head)
    now = [Lanes(builder, builder.load(place)) for place in cells]
    some = now[0]
    for well in now[1:]:
        some = some | well
    builder.cbranch(builder.icmp_signed("!=", some.any_bits(), I32(0)), body, done)
    builder.position_at_end(body)
    total = Lanes(builder, builder.load(sums))
    for place, well, empty in zip(cells, now, empties, strict=True):
        total = total + well.ones()
        builder.store(((well >> 1) & empty).value, place)
    builder.store(total.value, sums)
    builder.branch(head)
    builder.position_at_end(done)
    return Lanes(builder, builder.load(sums))


def weighed(tables: Buffer, features: list[Lanes]) -> Lanes:
    """weights' features, from the first to the last."""
    builder = tables.builder
    score = features[0].doubles() * 0.5 * tables.scalar(at.WEIGHTS)  # LANDING is kept doubled
    for k, feature in enumerate(features[1:], 1):
        score = score + Lanes(builder, feature.doubles().value) * tables.scalar(at.WEIGHTS + k)
    return score


@emitted(None)
def refresh_dt(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> None:
    """Everything that the scores on a new board start from, but for its features."""
    columns_scan(builder, ints)
    inside = ints.lanes(at.INSIDE)
    columns = ints.lanes(at.COLUMNS)
    covered = hole_rows(columns & inside)
    ints.put(at.HOLES, covered)
    ints.put(at.SHUT, (0 - covered.compare("!=", 0).where(inside, 0)))
    heights = ints.lanes(at.HEIGHTS)
    ints.put_scalar(at.TOTALS + at.LARGEST, (heights & inside).greatest())
    steps = step_bits(ints.lanes(at.HEIGHTS + 1) - heights) & inside
    for values, left, right, skip in (
        (covered, at.HOLES_LEFT, at.HOLES_RIGHT, -1),
        (steps, at.STEPS_LEFT, at.STEPS_RIGHT, -2),
    ):
        before, after = values.shifted(skip), values
        for by in (1, 2, 4, 8):
            before = before | before.shifted(-by)
            after = after | after.shifted(by)
        ints.put(left, before)
        ints.put(right, after)
    empty = ~columns & inside & ints.scalar(at.COLUMNS - 1)
    wells = empty & ints.lanes(at.COLUMNS - 1) & ints.lanes(at.COLUMNS + 1)
    ints.put(at.WELLS, well_sums(builder, [wells], [empty]))


@emitted(types.int64)
def score_dt(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> Any:
    """Scores and features of rotated piece `a` into slot `b`; where it fills a line, as bits."""
    row = offset(builder, 0, a, at.SHAPE_ROW)

    def shape(place: int) -> Any:
        return shapes.scalar(builder.add(row, I64(place)))

    width = builder.sext(shape(at.WIDTH), I64)
    heights = [ints.lanes(at.HEIGHTS + j) for j in range(4)]
    rest = dropped(ints, shapes, row, heights)
    fits = (rest + shape(at.HEIGHT)).compare("<=", ints.scalar(at.TOTALS + at.ROWS))
    level, one, none = rest & 31, (rest & 0) + 1, rest & 0
    gaps = hidden = depth = none
    covered = ints.lanes(at.HOLES_LEFT) | ints.lanes(builder.add(width, I64(at.HOLES_RIGHT)))
    for j in range(4):
        here = ~(none + shape(at.NEUTRAL + j))
        bottom = rest + shape(at.BOTTOM + j)
        gap = (bottom - heights[j]) & here
        hides = (0 - gap) >> 31
        gaps, hidden = gaps + gap, hidden + hides
        shut = hides | ints.lanes(at.SHUT + j)
        depth = depth + ((0 - shut) & shape(at.LENGTH + j))
        rows = (one << (bottom & 31)) - (one << (heights[j] & 31))
        covered = covered | ((ints.lanes(at.HOLES + j) | rows) & here)
    sides = none
    columns = [ints.lanes(at.COLUMNS + j) for j in range(-2, 6)]  # two to the left come first
    for k in range(5):
        side = ((columns[k + 1] ^ columns[k + 2]) >> level) & 15
        sides = sides | (side << (4 * k))
    flips = none + shape(at.FLIP_COUNT) - ((sides & shape(at.ROW_FLIPS)).ones() << 1)
    first = rest + shape(at.TOP)
    last = rest + shape(at.LAST_TOP)
    steps = ints.lanes(at.STEPS_LEFT) | ints.lanes(builder.add(width, I64(at.STEPS_RIGHT)))
    steps = steps | shape(at.INNER_STEPS) | step_bits(first - ints.lanes(at.HEIGHTS - 1))
    right = ints.lanes(builder.add(width, I64(at.HEIGHTS)))
    steps = steps | step_bits(right - last)
    wells = _wells(builder, shape, ints, columns, level, fits)

    def current(place: int) -> Any:
        return ints.scalar(at.CURRENT + place)

    features = [
        (rest << 1) + builder.sub(shape(at.HEIGHT), I32(1)),
        none,
        flips + current(at.ROW_STEPS),
        (hidden << 1) + current(at.COLUMN_STEPS),
        gaps + current(at.HOLE_COUNT),
        wells + current(at.WELL_SUM),
        depth + current(at.DEPTH),
        covered.ones(),
        steps.ones(),
    ]
    for k, feature in enumerate(features):
        start = offset(builder, at.FEATURES + k * at.LANES, b, 9 * at.LANES)
        ints.put(start, feature)
    score = fits.where(weighed(tables, features), -math.inf)
    reals.put(offset(builder, at.SCORES, b, at.LANES), score)
    ints.put(offset(builder, at.RESTS, b, at.LANES), rest)
    return filled(ints, shapes, row, rest, width, fits, b)


def _wells(
    builder: Any, shape: Any, ints: Buffer, columns: list[Lanes], level: Lanes, fits: Lanes
) -> Lanes:
    """How the sum of wells changes, in the columns of the piece and the two beside them."""
    none = level & 0
    after = [columns[0], columns[1]]
    after += [columns[2 + j] | (none + shape(at.MASK + j) << level) for j in range(4)]
    after += [columns[6], columns[7]]
    inside = [ints.lanes(at.INSIDE + j) for j in range(-1, 5)]
    board = ints.scalar(at.COLUMNS - 1)
    fitting = fits.where(none - 1, 0)
    empties = [~after[k] & board & inside[k - 1] & fitting for k in range(1, 7)]
    wells = [empties[k - 1] & after[k - 1] & after[k + 1] for k in range(1, 7)]
    before = none
    for j in range(-1, 5):
        before = before + ints.lanes(at.WELLS + j)
    return well_sums(builder, wells, empties) - before


@emitted(None)
def clear_dt(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> None:
    """Score and features of one placement that removes lines: as `clear_bi`."""
    row = offset(builder, 0, a, at.SHAPE_ROW)
    rest = ints.scalar(builder.add(b, I64(at.RESTS)))
    inside, board = ints.lanes(at.INSIDE), ints.scalar(at.COLUMNS - 1)
    before = placed(ints, shapes, row, builder.and_(b, I64(at.LANES - 1)), rest)
    full = ints.scalar(builder.add(b, I64(at.FULL)))
    eroded = I32(0)
    for j in range(4):
        cells = builder.shl(shapes.scalar(builder.add(row, I64(at.MASK + j))), rest)
        eroded = builder.add(eroded, builder.ctpop(builder.and_(cells, full)))
    columns = without_lines(before, full)
    walled = columns | (~inside & board)
    left, right = walled.shifted(-1, board), walled.shifted(1, board)
    covered = hole_rows(columns)
    empty = ~columns & inside & board
    heights = 32 - columns.leading_zeros()
    steps = step_bits(heights.shifted(1) - heights) & inside & inside.shifted(1)
    sides = ((walled ^ right) & inside).ones().total()
    first = builder.xor(builder.extract_element(columns.value, I32(0)), board)
    upward = (((columns << 1) | 1) ^ columns) & inside
    height = shapes.scalar(builder.add(row, I64(at.HEIGHT)))
    features = [
        builder.add(builder.shl(rest, I32(1)), builder.sub(height, I32(1))),
        builder.mul(eroded, builder.ctpop(full)),
        builder.add(sides, builder.ctpop(first)),
        (upward.ones() + (columns >> 31)).total(),
        covered.ones().total(),
        well_sums(builder, [empty & left & right], [empty]).total(),
        (columns & (columns + 1)).ones().total(),
        builder.ctpop(covered.any_bits()),
        builder.ctpop(steps.any_bits()),
    ]
    slot = builder.lshr(b, I64(4))
    start = offset(builder, at.FEATURES, slot, 9 * at.LANES)
    start = builder.add(start, builder.and_(b, I64(at.LANES - 1)))
    for k, feature in enumerate(features):
        ints.put_scalar(builder.add(start, I64(k * at.LANES)), feature)
    score = None
    for k, feature in enumerate(features):
        value = builder.sitofp(feature, tables.element)
        value = builder.fmul(value, tables.element(0.5)) if k == 0 else value
        term = builder.fmul(value, tables.scalar(at.WEIGHTS + k))
        score = term if score is None else builder.fadd(score, term)
    reals.put_scalar(builder.add(b, I64(at.SCORES)), score)
