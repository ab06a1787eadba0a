"""Whole games of a Gibbs policy with the sums of `rules`, compiled."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np
from numba import njit

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.changes import add_changes, begin_means, row_means
from mdpnewton.domains.tetris.kernels.choose import best, drawn, kept, powers
from mdpnewton.domains.tetris.kernels.emit import SOURCES, lowest
from mdpnewton.domains.tetris.kernels.moments import (
    add_gram,
    centre,
    row_bi_clear,
    row_now,
)
from mdpnewton.domains.tetris.kernels.play import (
    POLL,
    STEP64,
    U64,
    empty_board,
    mixed,
    piece_of,
    place,
    score_piece,
    start_stream,
    uniform_of,
    workspace,
)


@njit(inline="always")
def padded_size(size):
    """The length of a row of features."""
    return (size + at.TILE_COLUMNS - 1) // at.TILE_COLUMNS * at.TILE_COLUMNS


@njit(inline="always")
def add_to(into, factor, what):
    """into += factor what."""
    for i in range(into.shape[0]):
        into[i] += factor * what[i]


@njit(inline="always")
def add_square(into, score, side):
    """into += score score'."""
    for i in range(side):
        for j in range(side):
            into[i * side + j] += score[i] * score[j]


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
    """The score of the chosen placement; if wanted, the covariance is added to `out`.

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
    if wanted:
        p[count] = -1.0
        products = at.PAIRS * 4 * ints[at.TOTALS + at.CHUNKS]
        add_gram(p, rows, out, out, count + 1, size + (products << 16))


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
    if wanted:
        add_gram(p, rows, out, out, count, 9)


def _kept_on_disk(sources):
    @njit(nogil=True, cache=True)
    def estimate_games(
        shapes,
        begins,
        tables,
        dt,
        height,
        width,
        seed,
        first,
        cap,
        stop,
        survival,
        at_empty,
        include_start,
        beta,
        critic,
        share,
        size,
        lines,
        pieces,
        capped,
        gradient,
        h1,
        h2,
        fisher,
        visits,
        seen,
    ):
        """Play as many games as `lines` has room for and add to the sums; the traces begun.

        -1 if it was stopped. `h2` collects sum lines Phi2, without the sign, or with `survival` P2;
        `h1` the same with squares of scores, if it has room for them.
        """
        sources  # noqa: B018
        ints, reals = workspace(height, width)
        sums = np.zeros(4)
        side = gradient.shape[0]
        rows, p = np.zeros((4 * at.LANES + 4) * side), np.zeros(4 * at.LANES + 4)
        trace, score, now = np.zeros(side), np.zeros(side + at.ROW), np.zeros(side + at.ROW)
        covariance, curvature = np.zeros(h2.shape[0]), np.zeros(h2.shape[0])
        squares, squared = np.zeros(h1.shape[0]), h1.shape[0] > 0
        recent = np.zeros(height + 1)  # beta^(pieces since) by height
        cycles, visit, guided = 0, False, survival and critic.any()
        for game in range(lines.shape[0]):
            piece_state = start_stream(seed, first + game, 1)
            action_state = start_stream(seed, first + game, 2)
            empty_board(ints)
            gained, played, over = 0, 0, False
            cells, level, fade = 0, 0, 1.0
            trace[:] = 0.0
            curvature[:] = 0.0
            recent[:] = 0.0
            cycles += survival
            while True:
                if (played & POLL) == 0 and stop[0]:
                    return -1
                piece_state += STEP64
                piece = piece_of(mixed(piece_state))
                begin = begins[piece]
                slots = begins[piece + 1] - begin
                clears = score_piece(dt, shapes, tables, ints, reals, begin, slots)
                before, level = level, ints[at.TOTALS + at.LARGEST]
                if guided and played:
                    add_to(gradient, critic[before] - beta * critic[level], trace)
                if played == cap:
                    break
                code = best(shapes, tables, ints, reals, slots, 0)
                if code < 0:
                    over = True
                    break
                total = 0.0
                for slot in range(slots):
                    sums[slot] = powers(shapes, tables, ints, reals, slot, 0)
                    total += sums[slot]
                action_state += STEP64
                word = mixed(action_state)
                uniform = uniform_of(word)
                code = drawn(shapes, tables, ints, reals, sums, slots, total, uniform, code)
                ints[at.TOTALS + at.CELLS] = cells
                visits[level] += 1
                wanted, out = True, curvature
                if survival:
                    wanted, out = (word & U64(share - 1)) == U64(0), covariance
                    if wanted:
                        covariance[:] = 0.0
                else:
                    visit = played == 0 or (at_empty and cells == 0)
                    if visit:
                        cycles += 1
                        add_to(fisher, 1.0, curvature)
                        trace[:] = 0.0
                        squares[:] = 0.0
                        curvature[:] = 0.0
                        if not include_start:
                            out = fisher
                if dt:
                    look_dt(
                        *(shapes, tables, ints, reals, slots),
                        *(total, code, rows, p, score, wanted, out),
                    )
                else:
                    look_bi(
                        *(shapes, tables, ints, reals, begin, slots),
                        *(total, code, clears, rows, p, now, score, wanted, out),
                    )
                removed = place(dt, shapes, tables, ints, reals, begin + code // at.LANES, code)
                if survival:
                    fade *= beta
                    for i in range(side):
                        trace[i] = beta * trace[i] + score[i]
                    for i in range(height + 1):
                        recent[i] *= beta
                    recent[level] += 1.0
                    if wanted:
                        for i in range(covariance.shape[0]):
                            new = share * covariance[i]
                            fisher[i] += new
                            curvature[i] = fade * curvature[i] + new
                        fade = 1.0
                else:
                    if include_start or not visit:
                        add_to(trace, 1.0, score)
                        if squared:
                            add_square(squares, score, side)
                    if removed:
                        add_to(gradient, removed, trace)
                        add_to(h1, removed, squares)
                        add_to(h2, removed, curvature)
                cells += 4 - removed * width
                gained += removed
                played += 1
            if survival and over and played:
                add_to(gradient, -beta * (1.0 - critic[level]), trace)
                add_to(h2, beta * fade, curvature)
                add_to(seen, beta, recent)
            elif not survival:
                add_to(fisher, 1.0, curvature)
            lines[game], pieces[game], capped[game] = gained, played, not over
        return cycles

    return estimate_games


estimate_games = _kept_on_disk(SOURCES)
