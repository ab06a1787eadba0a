"""Tetris: the rules, the compiled games against the plain ones, and the environment."""

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import mdpnewton.environments  # noqa: F401 - registers the game
from mdpnewton.domains.tetris import DT_10, DT_20, feature_names, plain, play
from mdpnewton.domains.tetris.pictures import text_picture
from mdpnewton.domains.tetris.pieces import NAMES, placements, shapes
from mdpnewton.domains.tetris.streams import Stream, mixed, piece_of, uniform_of

SIZES = ((10, 10), (20, 10), (6, 5), (32, 4), (8, 16), (5, 3), (4, 2), (31, 12))


def board_of(*rows, height=6):
    """From the top down; rows that are not given are empty."""
    marks = [[mark == "#" for mark in row] for row in reversed(rows)]
    board = np.zeros((height, len(rows[0])), bool)
    board[: len(marks)] = marks
    return board


def as_columns(board):
    return (board * (1 << np.arange(len(board), dtype=np.int64))[:, None]).sum(axis=0)


def as_board(columns, height):
    return (np.asarray(columns)[None, :] >> np.arange(height)[:, None] & 1).astype(bool)


@pytest.fixture(scope="session")
def compiled_placement():
    """One placement on any board, by the parts of the compiled game."""
    from numba import njit

    from mdpnewton.domains.tetris.kernels import layout as at
    from mdpnewton.domains.tetris.kernels import play as kernel
    from mdpnewton.domains.tetris.tables import policy_table, shape_table

    @njit
    def run(shapes, tables, dt, height, columns, begin, slots, code):
        ints, reals = kernel.workspace(height, len(columns))
        kernel.empty_board(ints)
        for c in range(len(columns)):
            ints[at.COLUMNS + c] = columns[c]
            top = 0
            while columns[c] >> top:
                top += 1
            ints[at.HEIGHTS + c] = top
        kernel.score_piece(dt, shapes, tables, ints, reals, begin, slots)
        if reals[at.SCORES + code] == -np.inf:
            return -1, columns
        lines = kernel.place(dt, shapes, tables, ints, reals, begin + code // at.LANES, code)
        return lines, ints[at.COLUMNS : at.COLUMNS + len(columns)].astype(np.int64)

    def placement(board, piece, rotation, column):
        table, begins = shape_table()
        height, width = board.shape
        weights = policy_table(np.arange(1.0, 2 * width + 2), "bi", width)
        slots = begins[piece + 1] - begins[piece]
        code = 16 * rotation + column
        lines, columns = run(
            table, weights, False, height, as_columns(board), begins[piece], slots, code
        )
        return None if lines < 0 else (lines, as_board(columns, height))

    return placement


def test_there_are_162_placements_on_ten_columns():
    counts = [len(placements(piece, 10)) for piece in range(7)]
    assert sum(counts) == 162
    assert (min(counts), max(counts)) == (9, 34)
    assert [len(shapes(piece)) for piece in range(7)] == [2, 1, 4, 2, 2, 4, 4]
    for piece in range(7):
        for shape in shapes(piece):
            assert len(shape.cells) == sum(mask.bit_count() for mask in shape.masks) == 4
            assert min(shape.bottoms) == 0


# Board before, piece, column, the piece as it lies, lines, board after.
TABLE = {
    "one line": (["##..##"], "O", 2, ("XX", "XX"), 1, ["..##.."]),
    "two lines": (["##..##", "##..##"], "O", 2, ("XX", "XX"), 2, ["......"]),
    "three lines": (
        ["#####.", "#####.", "#####."],
        "I",
        5,
        ("X", "X", "X", "X"),
        3,
        [".....#"],
    ),
    "four lines": (["#####."] * 4, "I", 5, ("X", "X", "X", "X"), 4, ["......"]),
    "two lines apart": (
        ["###..#", "###..#", "###.##", "###..#"],
        "I",
        3,
        ("X", "X", "X", "X"),
        1,
        ["####.#", "####.#", "####.#"],
    ),
    "a line above a hole": (["####..", "#.####"], "O", 4, ("XX", "XX"), 1, ["....##", "#.####"]),
    "a hole stays covered": (["#....#", ".####."], "I", 1, ("XXXX",), 1, [".####."]),
    "hanging on one side": ([".##...", ".##..."], "J", 2, ("XX", "X.", "X."), 0, None),
    "rests on its highest support": (
        ["#.....", "#....."],
        "L",
        0,
        ("XXX", "X.."),
        0,
        ["###...", "#.....", "#.....", "#....."],
    ),
    "up to the ceiling": (
        ["#....."] * 4,
        "O",
        0,
        ("XX", "XX"),
        0,
        ["##....", "##....", *["#....."] * 4],
    ),
    "above the ceiling": (["#....."] * 5, "O", 0, ("XX", "XX"), None, None),
    "a line would make room, too late": (
        ["#####.", *["#.###."] * 4],
        "O",
        4,
        ("XX", "XX"),
        None,
        None,
    ),
    "the last place": (
        [*["#####."] * 2, *["#.###."] * 4],
        "I",
        5,
        ("X", "X", "X", "X"),
        0,
        [*["#####."] * 2, *["#.####"] * 4],
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_single_placement(name, compiled_placement):
    before, letter, column, lying, lines, after = TABLE[name]
    piece = NAMES.index(letter)
    cells = {
        (r, c) for r, row in enumerate(reversed(lying)) for c, mark in enumerate(row) if mark == "X"
    }
    rotation = [set(shape.cells) for shape in shapes(piece)].index(cells)
    board = board_of(*before)
    found = plain.place(board, shapes(piece)[rotation], column)
    compiled = compiled_placement(board, piece, rotation, column)
    if lines is None:
        assert found is None
        assert compiled is None
        return
    assert found.lines == compiled[0] == lines
    assert np.array_equal(found.board, compiled[1])
    if after is not None:
        assert np.array_equal(found.board, board_of(*after))


def test_a_placement_that_ends_the_game_is_taken_only_if_there_is_no_other():
    board = board_of(*["#####."] * 2, *["#.####"] * 4)
    assert not plain.candidates(board, NAMES.index("O"))
    assert not plain.candidates(board, NAMES.index("I"))
    roomy = board_of(*["#####."] * 2, *["#.###."] * 4)
    assert list(plain.candidates(roomy, NAMES.index("I"))) == [(1, 5)]


def test_random_boards_random_placements(compiled_placement):
    rng = np.random.default_rng(0)
    for height, width in ((6, 5), (32, 4), (8, 16), (20, 10)):
        for _ in range(60):
            tops = rng.integers(0, height + 1, width)
            board = (rng.random((height, width)) < 0.9) & (np.arange(height)[:, None] < tops)
            board[board.all(axis=1)] = False
            piece = int(rng.integers(7))
            rotation, column = placements(piece, width)[
                int(rng.integers(len(placements(piece, width))))
            ]
            expected = plain.place(board, shapes(piece)[rotation], column)
            found = compiled_placement(board, piece, rotation, column)
            assert (expected is None) == (found is None)
            if expected is not None:
                assert expected.lines == found[0]
                assert np.array_equal(expected.board, found[1])


def test_bertsekas_ioffe_features_of_a_board():
    placed = plain.Placement(board_of("#....", "##..#", "#.#.#"), 0, 0, 0, shapes(0)[0])
    found = plain.bertsekas_ioffe(placed)
    assert found.tolist() == [3, 2, 1, 0, 2, 1, 1, 1, 2, 3, 1]
    assert len(feature_names("bi", 5)) == len(found)


def test_dellacherie_thiery_features_of_a_board():
    shape = shapes(NAMES.index("O"))[0]
    board = board_of("##...", "#.#.#", "#.#.#", height=4)
    found = plain.dellacherie_thiery(plain.Placement(board, 1, 2, 3, shape))
    assert found.tolist() == [
        1.5,  # rows 1 and 2
        6,  # 2 lines, 3 cells of the piece in them
        4 + 4 + 2 + 2,  # from the bottom: 1 0 1 0 1 twice; 1 1 0 0 0; an empty row
        1 + 3 + 1 + 1 + 1,  # column 2 is empty, empty, filled
        2,
        (1 + 2) + (1 + 2),  # columns 2 and 4, two rows each
        1,
        2,
        4,  # steps 0, -1, -2, 2
    ]


def test_an_empty_board_and_a_full_column_have_the_transitions_of_the_literature():
    shape = shapes(0)[0]
    empty = plain.dellacherie_thiery(plain.Placement(np.zeros((4, 3), bool), 0, 0, 0, shape))
    assert empty[2:4].tolist() == [2 * 4, 3]
    column = np.zeros((4, 3), bool)
    column[:, 1] = True  # touches the ceiling: still one transition
    full = plain.dellacherie_thiery(plain.Placement(column, 0, 0, 0, shape))
    assert full[2:4].tolist() == [4 * 4, 3]


def generic_weights(rng, features, width):
    size = len(feature_names(features, width))
    weights = rng.normal(size=size)
    if features == "bi" and rng.random() < 0.7:  # some that survive for a while
        weights = -np.abs(weights)
    return weights * rng.choice([0.1, 0.5, 2.0])


def assert_same_games(rng, features, policy, height, width, games, cap):
    weights = generic_weights(rng, features, width)
    seed = int(rng.integers(1 << 40))
    common = {"features": features, "height": height, "width": width, "policy": policy}
    played = play(weights, **common, games=games, seed=seed, cap=cap)
    for game in range(games):
        expected = plain.play_game(weights, **common, seed=seed, game=game, cap=cap)
        found = (played.lines[game], played.pieces[game], played.capped[game])
        assert found == (expected.lines, expected.pieces, expected.capped)
        assert np.array_equal(as_board(played.boards[game], height), expected.board)
    return played


@pytest.mark.parametrize("policy", ["greedy", "gibbs"])
@pytest.mark.parametrize("features", ["bi", "dt"])
@pytest.mark.parametrize(("height", "width"), SIZES)
def test_compiled_games_are_the_plain_games(features, policy, height, width):
    rng = np.random.default_rng([height, width, features == "dt", policy == "gibbs"])
    for _ in range(2):
        assert_same_games(
            rng, features, policy, height, width, games=3, cap=40 if features == "bi" else 20
        )


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["greedy", "gibbs"])
@pytest.mark.parametrize("features", ["bi", "dt"])
def test_thousands_of_compiled_games_are_the_plain_games(features, policy):
    rng = np.random.default_rng(0)
    games = 0
    count, cap = (10, 200) if features == "bi" else (5, 20)  # plain features are slow
    for height, width in (*SIZES, *((int(h), int(w)) for h, w in rng.integers(2, 17, (12, 2)))):
        for _ in range(6):
            games += assert_same_games(rng, features, policy, height, width, count, cap).games
    assert games == 120 * count


def test_well_played_games_are_the_plain_games():
    rng = np.random.default_rng(3)
    weights = np.r_[np.zeros(10), np.full(9, -2.0), -0.5, -8.0] + 0.3 * rng.normal(size=21)
    for policy in ("greedy", "gibbs"):
        played = play(weights, games=2, policy=policy, cap=250)
        for game in range(2):
            expected = plain.play_game(weights, policy=policy, game=game, cap=250)
            assert (played.lines[game], played.pieces[game]) == (expected.lines, expected.pieces)
        assert played.lines.max() > 20


def test_cells_are_conserved():
    played = play(DT_10, features="dt", games=50, cap=5000)
    cells = np.array([sum(int(c).bit_count() for c in board) for board in played.boards])
    assert np.array_equal(10 * played.lines, 4 * played.pieces - cells)


@pytest.mark.parametrize("policy", ["greedy", "gibbs"])
def test_any_number_of_threads_plays_the_same_games(policy):
    weights = np.r_[np.zeros(10), np.full(9, -0.31), 0.0, -1.0]
    one, two, three = (
        play(weights, games=70, policy=policy, seed=5, threads=threads) for threads in (1, 2, 3)
    )
    for other in (two, three):
        assert all(np.array_equal(a, b) for a, b in zip(one[:4], other[:4], strict=True))


def test_games_have_an_index_and_pieces_do_not_depend_on_the_policy():
    weights = np.full(21, -0.1)
    whole = play(weights, games=40, seed=1)
    part = play(weights, games=10, seed=1, first=30)
    assert np.array_equal(whole.lines[30:], part.lines)
    assert np.array_equal(whole.boards[30:], part.boards)
    assert not np.array_equal(whole.boards, play(weights, games=40, seed=2).boards)


def test_a_cap_stops_games_and_says_so():
    played = play(DT_20, features="dt", height=20, games=3, cap=500)
    assert played.capped.all()
    assert played.pieces.tolist() == [500] * 3
    short = play(np.zeros(9), features="dt", games=3, cap=500)
    assert not short.capped.any()


def test_published_weights_reach_the_published_score_roughly():
    # 5,000 lines (Scherrer et al. 2015). Scores are geometric: 60 games are within 50 %.
    assert 2500 < play(DT_10, features="dt", games=60, seed=1).mean < 7500


@pytest.mark.slow
def test_published_weights_reach_the_published_score():
    played = play(DT_10, features="dt", games=1000, seed=0)
    assert played.stderr < 200
    assert abs(played.mean - 5000) < 4 * played.stderr


def test_streams_are_those_of_the_published_generator():
    # The first outputs of splitmix64 from state 1234567, as its public C version prints them.
    state, found = 1234567, []
    for _ in range(3):
        state += 0x9E3779B97F4A7C15
        found.append(mixed(state & (1 << 64) - 1))
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    words = [Stream(0, game, 1).word() for game in range(7000)]
    counts = np.bincount([piece_of(word) for word in words], minlength=7)
    assert abs(counts - 1000).max() < 4 * 1000**0.5
    assert all(0 <= uniform_of(word) < 1 for word in words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"weights": [1.0] * 20}, "needs 21 numbers"),
        ({"weights": [1.0] * 21, "features": "dt"}, "needs 9 numbers"),
        ({"weights": [1.0] * 20 + [np.nan]}, "finite"),
        ({"weights": [1.0] * 20 + [np.inf]}, "finite"),
        ({"weights": "abc"}, "list of numbers"),
        ({"weights": [1.0] * 35, "width": 17}, "width=.*at least 2 and at most 16, got 17"),
        ({"weights": [1.0] * 21, "height": 33}, "height=.*at least 2 and at most 32, got 33"),
        ({"weights": [1.0] * 21, "height": 10.0}, "height=.*whole number"),
        ({"weights": [1.0] * 21, "games": 0}, "games"),
        ({"weights": [1.0] * 21, "threads": 0}, "threads"),
        ({"weights": [1.0] * 21, "seed": -1}, "seed"),
        ({"weights": [1.0] * 21, "cap": 0}, "cap"),
        ({"weights": [1.0] * 21, "policy": "best"}, "greedy, gibbs"),
        ({"weights": [1.0] * 21, "features": "x"}, "'bi' or 'dt'"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(arguments, words):
    with pytest.raises(ValueError, match=words) as refused:
        play(**arguments)
    assert "\n" not in str(refused.value)


def test_numba_is_imported_only_when_games_are_played():
    code = (
        "import sys, mdpnewton, mdpnewton.domains.tetris as t\n"
        "assert not {'numba', 'llvmlite', 'jax'} & set(sys.modules)\n"
        "t.play([0.0] * 21, games=1)\n"
        "assert 'numba' in sys.modules and 'jax' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_the_environment_passes_gymnasiums_checker(mode):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make("mdpnewton/Tetris-v0", render_mode=mode).unwrapped)


def test_the_environment_plays_by_the_rules():
    environment = gymnasium.make("mdpnewton/Tetris-v0", height=8, width=6, render_mode="ansi")
    seen, info = environment.reset(seed=3)
    environment.action_space.seed(0)
    total, over = 0.0, False
    while not over:
        mask = info["action_mask"]
        turns = [r * 6 + c for r, c in plain.candidates(seen["board"].astype(bool), seen["piece"])]
        assert np.flatnonzero(mask).tolist() == turns
        action = environment.action_space.sample(mask)
        rotation, column = divmod(int(action), 6)
        expected = plain.place(
            seen["board"].astype(bool), shapes(int(seen["piece"]))[rotation], column
        )
        seen, reward, over, cut, info = environment.step(action)
        assert np.array_equal(seen["board"], expected.board)
        assert reward == expected.lines
        assert not cut
        total += reward
    assert not info["action_mask"].any()
    assert info["lines"] == total
    assert environment.render().count("\n") >= 10


def test_a_masked_action_ends_the_episode_without_reward():
    environment = gymnasium.make("mdpnewton/Tetris-v0", height=8, width=6)
    _, info = environment.reset(seed=0)
    forbidden = int(np.flatnonzero(info["action_mask"] == 0)[0])
    _, reward, over, cut, info = environment.step(forbidden)
    assert (reward, over, cut) == (0.0, True, False)
    assert not info["action_mask"].any()


def test_pictures_show_the_board():
    board = board_of("#..", "##.", height=3)
    assert text_picture(board, NAMES.index("O"), 7).splitlines() == [
        "O O",
        "O O",
        "|. . .|",
        "|# . .|",
        "|# # .|",
        "+-----+",
        "lines 7",
    ]
    environment = gymnasium.make("mdpnewton/Tetris-v0", height=5, width=4, render_mode="rgb_array")
    environment.reset(seed=0)
    picture = environment.render()
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"height": 40}, "height=.*at least 2"), ({"width": 1}, "width=.*at least 2")],
)
def test_the_environment_refuses_boards_that_cannot_be(arguments, words):
    with pytest.raises(ValueError, match=words):
        gymnasium.make("mdpnewton/Tetris-v0", **arguments)
