"""Whole games of a Gibbs policy with the sums of `rules`, compiled."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np
from numba import njit

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.choose import best, drawn, powers
from mdpnewton.domains.tetris.kernels.emit import SOURCES
from mdpnewton.domains.tetris.kernels.look import look_bi, look_dt
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

ANY_PIECE, SAME_PIECE = 1, 2  # places in `rules.RESETS`


@njit(inline="always")
def add_to(into, factor, what):
    """into += factor what."""
    for i in range(into.shape[0]):
        into[i] += factor * what[i]


@njit(inline="always")
def add_outer(into, score, side):
    """into += score score', or its diagonal if `into` has room for no more."""
    if into.shape[0] == side:
        for i in range(side):
            into[i] += score[i] * score[i]
    else:
        for i in range(side):
            for j in range(side):
                into[i * side + j] += score[i] * score[j]


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
        reset,
        include_start,
        beta,
        critic,
        share,
        diagonal,
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
        `h1` the same with squares of scores, if it has room for them. With `diagonal` all three
        hold diagonals, and no product of two features is ever formed.
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
        cycles, visit, guided, began = 0, False, survival and critic.any(), 0
        extent = at.DIAGONAL if diagonal else at.WHOLE
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
                wanted, out = extent, curvature
                if survival:
                    out = covariance
                    if (word & U64(share - 1)) == U64(0):
                        covariance[:] = 0.0
                    else:
                        wanted = at.NOTHING
                else:
                    if played == 0:
                        began = piece
                    again = reset == ANY_PIECE or (reset == SAME_PIECE and piece == began)
                    visit = played == 0 or (again and cells == 0)
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
                    if wanted != at.NOTHING:
                        for i in range(covariance.shape[0]):
                            new = share * covariance[i]
                            fisher[i] += new
                            curvature[i] = fade * curvature[i] + new
                        fade = 1.0
                else:
                    if include_start or not visit:
                        add_to(trace, 1.0, score)
                        if squared:
                            add_outer(squares, score, side)
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
