"""Whole games, compiled."""

# mypy: disable-error-code="no-untyped-def"

import numpy as np
from numba import njit

from mdpnewton.domains.tetris.kernels import layout as at
from mdpnewton.domains.tetris.kernels.bi import clear_bi, put_down, refresh_bi, score_bi
from mdpnewton.domains.tetris.kernels.choose import best, drawn, powers
from mdpnewton.domains.tetris.kernels.dt import clear_dt, refresh_dt, score_dt
from mdpnewton.domains.tetris.kernels.emit import SOURCES, lowest
from mdpnewton.domains.tetris.streams import FIRST, SECOND, SPARE_BITS, STEP

U64 = np.uint64
STEP64, FIRST64, SECOND64 = U64(STEP), U64(FIRST), U64(SECOND)
POLL = (1 << 16) - 1  # pieces between two looks at the stop flag


@njit(inline="always")
def mixed(word):
    """See `streams`."""
    word = (word ^ (word >> U64(30))) * FIRST64
    word = (word ^ (word >> U64(27))) * SECOND64
    return word ^ (word >> U64(31))


@njit(inline="always")
def start_stream(seed, game, which):
    """See `streams.Stream`."""
    return mixed(mixed(seed) + (U64(2) * U64(game) + U64(which)) * STEP64)


@njit(inline="always")
def piece_of(word):
    """See `streams`."""
    return np.int64(((word >> U64(32)) * U64(7)) >> U64(32))


@njit(inline="always")
def uniform_of(word):
    """See `streams`."""
    return np.float64(word >> U64(SPARE_BITS)) * 2.0**-53


@njit
def workspace(height, width):
    """The state of a game, see `layout`."""
    ints = np.zeros(at.INTS, np.int32)
    reals = np.zeros(at.REALS)
    ints[at.TOTALS + at.ROWS] = height
    ints[at.TOTALS + at.COLS] = width
    ints[at.TOTALS + at.CHUNKS] = (width + 3) // 4
    ints[at.INSIDE : at.INSIDE + width] = -1
    ints[at.SUFFIX : at.SUFFIX + at.ROW] = -1
    reals[at.SCORES : at.SCORES + 4 * at.LANES] = -np.inf
    return ints, reals


@njit
def empty_board(ints):
    """Begin a game."""
    height, width = ints[at.TOTALS + at.ROWS], ints[at.TOTALS + at.COLS]
    wall = np.int32((np.int64(1) << height) - 1)
    for c in range(-8, at.ROW - 8):
        inside = 0 <= c < width
        ints[at.HEIGHTS + c] = 0 if inside else at.WALL_HEIGHT
        ints[at.COLUMNS + c] = 0 if inside else wall
    ints[at.CURRENT : at.CURRENT + 9] = 0
    ints[at.CURRENT + at.ROW_STEPS] = 2 * height
    ints[at.CURRENT + at.COLUMN_STEPS] = width


@njit(inline="always")
def score_piece(dt, shapes, tables, ints, reals, begin, slots):
    """Scores of every placement; those that remove lines as bits, 16 slot + column."""
    clears = 0
    if dt:
        refresh_dt(shapes, tables, ints, reals, 0, 0)
        for slot in range(slots):
            found = score_dt(shapes, tables, ints, reals, begin + slot, slot)
            clears |= found << (at.LANES * slot)
    else:
        refresh_bi(shapes, tables, ints, reals, 0, 0)
        for slot in range(slots):
            found = score_bi(shapes, tables, ints, reals, begin + slot, slot)
            clears |= found << (at.LANES * slot)
    left = clears
    while left:
        code = lowest(left)
        left &= left - 1
        if dt:
            clear_dt(shapes, tables, ints, reals, begin + (code >> 4), code)
        else:
            clear_bi(shapes, tables, ints, reals, begin + (code >> 4), code)
    return clears


@njit(inline="always")
def place(dt, shapes, tables, ints, reals, shape, code):
    """Put the piece down; the lines removed."""
    if dt:
        start = at.FEATURES + (code // at.LANES) * 9 * at.LANES + (code & (at.LANES - 1))
        for k in range(9):
            ints[at.CURRENT + k] = ints[start + k * at.LANES]
    return put_down(shapes, tables, ints, reals, shape, code)


def _kept_on_disk(sources):
    @njit(nogil=True, cache=True)
    def play_games(
        shapes,
        begins,
        tables,
        dt,
        gibbs,
        height,
        width,
        seed,
        first,
        cap,
        stop,
        lines,
        pieces,
        capped,
        boards,
    ):
        """Play as many games as `lines` has room for; the number that were completed."""
        sources  # noqa: B018
        ints, reals = workspace(height, width)
        sums = np.zeros(4)
        for game in range(lines.shape[0]):
            piece_state = start_stream(seed, first + game, 1)
            action_state = start_stream(seed, first + game, 2)
            empty_board(ints)
            gained, played, over = 0, 0, False
            while played < cap:
                if (played & POLL) == 0 and stop[0]:
                    return game
                piece_state += STEP64
                piece = piece_of(mixed(piece_state))
                begin = begins[piece]
                slots = begins[piece + 1] - begin
                score_piece(dt, shapes, tables, ints, reals, begin, slots)
                code = best(shapes, tables, ints, reals, slots, 0)
                if code < 0:
                    over = True
                    break
                if gibbs:
                    total = 0.0
                    for slot in range(slots):
                        sums[slot] = powers(shapes, tables, ints, reals, slot, 0)
                        total += sums[slot]
                    action_state += STEP64
                    uniform = uniform_of(mixed(action_state))
                    code = drawn(shapes, tables, ints, reals, sums, slots, total, uniform, code)
                gained += place(dt, shapes, tables, ints, reals, begin + code // at.LANES, code)
                played += 1
            lines[game], pieces[game], capped[game] = gained, played, not over
            for c in range(width):
                boards[game, c] = ints[at.COLUMNS + c]
        return lines.shape[0]

    return play_games


play_games = _kept_on_disk(SOURCES)
