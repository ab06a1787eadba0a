"""The greedy and the Gibbs choice among the scores of a piece's placements."""

# mypy: disable-error-code="no-untyped-def"

import math
from typing import Any

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.emit import F64, I64, Buffer, Lanes, emitted, offset, splat
from mdpnewton.domains.tetris.plain import CUT

ROUND = 1.5 * 2.0**52  # added and taken off again, it rounds; the sum's low bits are the integer
FOUR = 4  # lanes at a time
HIGH_LN2 = 6.93147180369123816490e-01  # ln 2 in two parts, fdlibm's e_exp.c
LOW_LN2 = 1.90821492927058770002e-10
# e^r on |r| <= ln 2 / 2: the polynomial that meets it in Chebyshev's eleven points, to 3e-16.
SERIES = (
    1.0,
    1.0000000000000067,
    0.5000000000000006,
    0.166666666665544,
    0.04166666666657305,
    0.008333333385668962,
    0.001388888893252296,
    0.00019841170269209668,
    2.48015043151012e-05,
    2.76401812325532e-06,
    2.762636597328313e-07,
)


@emitted(types.int64)
def best(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> Any:
    """16 slot + column of the best among `a` slots, the first of equals; -1 if nothing fits.

    Its score goes to `reals[BASE + 1]`.
    """
    rows = []
    for slot in range(4):
        there = builder.select(builder.icmp_signed("<", I64(slot), a), I64(slot), I64(0))
        rows.append(reals.lanes(offset(builder, at.SCORES, there, at.LANES)))
    top = rows[0].largest(rows[1]).largest(rows[2].largest(rows[3])).greatest()
    found = I64(0)
    for slot, row in enumerate(rows):
        here = row.compare("==", top).bits()
        found = builder.or_(found, builder.shl(here, I64(at.LANES * slot)))
    reals.put_scalar(at.BASE + 1, top)
    some = builder.fcmp_ordered(">", top, F64(-math.inf))
    return builder.select(some, builder.cttz(found, ir.IntType(1)(0)), I64(-1))


def exponential(x: Lanes) -> Lanes:
    """e^x for x in [-40, 0], to about two units in the last place."""
    builder, kind = x.builder, ir.VectorType(I64, x.value.type.count)
    shifted = x * (1 / math.log(2)) + ROUND
    count = shifted - ROUND
    r = (x - count * HIGH_LN2) - count * LOW_LN2
    # Neighbouring terms first, then pairs of pairs (Estrin): a short chain of dependent steps.
    terms = [r * SERIES[k + 1] + SERIES[k] for k in range(0, len(SERIES) - 1, 2)]
    terms.append(splat(builder, F64(SERIES[-1]), x.value.type.count))
    while len(terms) > 1:
        r = r * r
        lone = terms[-1:] if len(terms) % 2 else []
        pairs = zip(terms[: len(terms) - len(lone) : 2], terms[1::2], strict=True)
        terms = [low + r * high for low, high in pairs] + lone
    power = Lanes(builder, builder.bitcast(shifted.value, kind)) << 52
    bits = Lanes(builder, builder.bitcast(terms[0].value, kind)) + power
    return Lanes(builder, builder.bitcast(bits.value, x.value.type))


@emitted(types.float64)
def powers(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> Any:
    """e^(score - best) of slot `a` into POWERS, 0 for what is cut off; their sum."""
    chunks = builder.sext(ints.scalar(at.TOTALS + at.CHUNKS), I64)
    zero = splat(builder, F64(0.0), FOUR)
    total = cgutils.alloca_once_value(builder, zero.value)
    slot = offset(builder, 0, a, at.LANES)
    top = reals.scalar(at.BASE + 1)
    with cgutils.for_range(builder, chunks) as chunk:
        x = builder.add(slot, builder.mul(chunk.index, I64(FOUR)))
        gap = reals.lanes(builder.add(x, I64(at.SCORES)), FOUR) - top
        value = gap.compare(">=", -CUT).where(exponential(gap.largest(-CUT)), 0.0)
        reals.put(builder.add(x, I64(at.POWERS)), value)
        builder.store((Lanes(builder, builder.load(total)) + value).value, total)
    return Lanes(builder, builder.load(total)).total()


@emitted(types.int64)
def kept(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> Any:
    """The columns of slot `a` that are not cut off, as bits."""
    return reals.lanes(offset(builder, at.POWERS, a, at.LANES)).compare(">", 0.0).bits()


@emitted(types.int64, (types.int64, types.float64))
def _column(
    builder: Any, shapes: Buffer, tables: Buffer, ints: Buffer, reals: Buffer, a: Any, b: Any
) -> Any:
    """16 slot + column where the sum of powers of slot `a` passes `b`; -1 if none does."""
    sums = values = reals.lanes(offset(builder, at.POWERS, a, at.LANES))
    for by in (1, 2, 4, 8):
        sums = sums + sums.shifted(-by)
    past = builder.and_(sums.compare(">", b).bits(), values.compare(">", 0.0).bits())
    first = builder.cttz(past, ir.IntType(1)(0))
    found = builder.add(builder.mul(a, I64(at.LANES)), first)
    return builder.select(builder.icmp_signed("!=", past, I64(0)), found, I64(-1))


@njit(inline="always")
def drawn(shapes, tables, ints, reals, sums, slots, total, uniform, likeliest):
    """16 slot + column, drawn in proportion to POWERS."""
    target = uniform * total
    slot, passed, so_far = 0, 0.0, 0.0
    for k in range(slots - 1):
        so_far += sums[k]
        if target >= so_far:
            slot, passed = k + 1, so_far
    code = _column(shapes, tables, ints, reals, slot, target - passed)
    return code if code >= 0 else likeliest  # rounding
