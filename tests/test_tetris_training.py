"""The practical search on Tetris, and the library's methods on accumulated matrices."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.domains.tetris import RecurrentState, Survival, estimate, play
from mdpnewton.domains.tetris.evaluator import AfterstatePolicy, TetrisEvaluator
from mdpnewton.training.tetris import Schedule, fell, soft_start, stepped, train_tetris

SMALL = AfterstatePolicy("bi", 6, 5)
QUICK = Schedule(games=64, least_games=64)


@pytest.mark.parametrize("method", ["second_gauss_newton", "natural"])
def test_a_few_iterations_play_better(method):
    found = train_tetris(SMALL, iterations=15, method=method, seed=1, schedule=QUICK)
    assert len(found.history) == 15
    board = {"height": 6, "width": 5, "games": 400, "seed": 99}
    before = play(soft_start(SMALL), policy="gibbs", **board)
    after = play(found.average, policy="gibbs", **board)
    assert after.mean - before.mean > 4 * np.hypot(after.stderr, before.stderr)
    assert all(one.report.status == "solved" for one in found.history)


def test_results_are_the_same_bits_for_any_number_of_threads():
    ways = [
        train_tetris(SMALL, iterations=3, seed=2, threads=n, schedule=QUICK).w for n in (1, 2, 3)
    ]
    assert np.array_equal(ways[0], ways[1])
    assert np.array_equal(ways[0], ways[2])


def test_a_step_has_the_divergence_that_was_asked_for():
    w = soft_start(SMALL)
    found = estimate(w, Survival(0.9), height=6, width=5, games=200, seed=3)
    rule = mn.Precondition("H2", mn.Dense(relative_ridge=1e-3))
    moved, report, taken = stepped(rule, w, found, 0.01)
    d = moved - w
    assert d @ found.fisher @ d / found.pieces.mean() / 2 == pytest.approx(0.01, rel=1e-9)
    assert (taken, report.slope > 0) == (0.01, True)
    broken = found._replace(gradient=np.full_like(w, np.nan))
    kept, report, taken = stepped(rule, w, broken, 0.01)
    assert np.array_equal(kept, w)
    assert (taken, report.status) == (0.0, "not finite")


def test_a_step_that_loses_half_of_the_lines_is_undone_and_taken_again_half_as_long(monkeypatch):
    tried = []

    def thrown(method, w, found, divergence):
        moved, report, taken = stepped(method, w, found, divergence)
        bad = 9 <= len(tried) < 11
        tried.append((w, moved, divergence))
        return (-moved if bad else moved), report, taken

    monkeypatch.setattr(tetris_training, "stepped", thrown)
    schedule = Schedule(games=200, least_games=200, divergence=0.02, last_divergence=0.02)
    found = train_tetris(SMALL, iterations=14, seed=1, schedule=schedule)
    kept = [one.kept for one in found.history]
    assert [n for n, one in enumerate(kept) if not one] == [10, 11]
    (w, first, k), (again, second, half), (third, _, quarter), after = tried[9:13]
    assert np.array_equal(w, again)
    assert np.array_equal(w, third)
    assert (half, quarter, after[2]) == pytest.approx((k / 4, k / 16, k))
    np.testing.assert_allclose(second - w, (first - w) / 2)
    seen = [w for (w, *_), one in zip(tried, kept, strict=True) if one]
    np.testing.assert_allclose(found.average, np.mean(seen[7:], axis=0))


def test_a_fall_is_beyond_chance():
    w, board = soft_start(SMALL), {"height": 6, "width": 5, "games": 100, "seed": 3}
    now = estimate(w, Survival(), **board)
    assert not fell(now, now)
    assert fell(now._replace(lines=now.lines * 0), now)
    noisy = np.zeros_like(now.lines)
    noisy[0] = now.lines.sum() / 4  # a quarter of the mean, from one lucky game
    assert not fell(now._replace(lines=noisy), now)


def test_weights_of_another_board_are_a_start():
    start = np.linspace(-1, 0, SMALL.size)
    found = train_tetris(SMALL, iterations=1, start=start, schedule=QUICK)
    assert np.linalg.norm(found.w - start) < 1


def test_higher_boards_begin_on_lower_ones():
    tall = AfterstatePolicy("bi", 16, 4)
    schedule = Schedule(games=8, least_games=8, lower=(0.25, 0.25))
    found = train_tetris(tall, iterations=4, seed=1, schedule=schedule)
    assert [one.height for one in found.history] == [10, 14, 16, 16]


def test_ctrl_c_keeps_what_there_is():
    def enough(one):
        if one.seconds >= 0:
            raise KeyboardInterrupt

    found = train_tetris(SMALL, iterations=9, schedule=QUICK, callback=enough)
    assert found.interrupted
    assert len(found.history) == 1
    assert np.isfinite(found.average).all()


def test_bad_input():
    with pytest.raises(ValueError, match="either `minutes` or `iterations`"):
        train_tetris(SMALL)
    with pytest.raises(ValueError, match="is one of second_gauss_newton, natural"):
        train_tetris(SMALL, iterations=1, method="magic")
    with pytest.raises(ValueError, match="needs 11 numbers"):
        train_tetris(SMALL, iterations=1, start=np.zeros(3))


@pytest.mark.parametrize(
    "method", ["steepest", "natural", "diagonal_second_gauss_newton", "second_gauss_newton"]
)
def test_the_librarys_search_runs_on_accumulated_matrices(method):
    evaluator = TetrisEvaluator(games=100, line_games=50)
    sizes = mn.BestOfSet(sizes=(0.0, 0.1, 0.5))
    w = jnp.asarray(soft_start(SMALL))
    found = mn.search(
        evaluator, SMALL, w, method, sizes, key=jax.random.key(0), iterations=2, patience=None
    )
    assert len(found.history) == 2
    assert np.isfinite(np.asarray(found.w)).all()
    assert evaluator.pieces > 0


def test_methods_that_need_pairs_say_so():
    pairs = TetrisEvaluator(games=20).evaluate(
        jax.random.key(0), SMALL, jnp.asarray(soft_start(SMALL))
    )
    w = jnp.asarray(soft_start(SMALL))
    with pytest.raises(ValueError, match="accumulated H2, fisher, and not 'A1"):
        mn.direction("first_gauss_newton", SMALL, w, pairs)
    with pytest.raises(ValueError, match="looks at pairs"):
        mn.direction("expectation_maximization", SMALL, w, pairs)


def test_the_command_saves_weights_that_play_reads(tmp_path, capsys):
    run = tmp_path / "run"
    board = ["--height", "6", "--width", "5"]
    arguments = ["tetris", "train", *board, "--iterations", "2", "--seed", "1"]
    assert main([*arguments, "--out", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["greedy"]["games"] == 1000
    assert len(found["weights"]) == 11
    assert (run / "learning-curve.png").stat().st_size > 1000
    played = ["tetris", "play", *board, "--weights", str(run / "weights.json"), "--games", "1000"]
    assert main([*played, "--seed", "10001", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == found["greedy"]["mean"]
    again = ["--start", str(run / "weights.json"), "--out", str(tmp_path / "again"), "--json"]
    assert main([*arguments, *again]) == 0


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--minutes", "0"], "--minutes must be positive"),
        (["--minutes", "1", "--iterations", "1"], "give one of them"),
        (["--iterations", "0"], "--iterations must be at least 1"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--start", "none.json"], "name a JSON file of weights"),
        (["--width", "40"], "40"),
    ],
)
def test_bad_input_of_the_command_gets_one_line(more, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["tetris", "train", *more]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_first_gauss_newton_has_its_matrix_if_asked_for():
    evaluator = TetrisEvaluator(RecurrentState(h1=True), games=100)
    w = jnp.asarray(soft_start(SMALL))
    pairs = evaluator.evaluate(jax.random.key(0), SMALL, w)
    matrices = {name: np.asarray(matrix) for name, matrix in pairs.matrices.items()}
    np.testing.assert_allclose(matrices["A1+A2"], matrices["H1"] + matrices["H2"])
    ahead = mn.direction("first_gauss_newton", SMALL, w, pairs)
    expected = np.linalg.solve(-matrices["A1+A2"], np.asarray(pairs.gradient))
    np.testing.assert_allclose(np.asarray(ahead.value), expected, rtol=1e-6)
    assert ahead.report.negative_curvature  # and it says so


def test_the_first_gauss_newton_method_is_an_extra_of_the_experiment(tmp_path):
    more = ["--set", "methods=first_gauss_newton", "--set", "games=20", "--set", "height=6"]
    assert main(["run", "tetris", "--out", str(tmp_path), *more]) == 0
    found = json.loads((tmp_path / "results.json").read_text())
    assert list(found["methods"]) == ["first_gauss_newton"]


def test_ctrl_c_keeps_the_complete_runs_of_the_side_by_side(tmp_path, monkeypatch):
    calls = []

    def tiring(*arguments, **options):
        calls.append(arguments)
        found = train_tetris(*arguments, **options)
        found.interrupted = len(calls) > 3
        return found

    monkeypatch.setattr("mdpnewton.experiments.tetris_training.train_tetris", tiring)
    more = ["--set", "runs=3", "--set", "iterations=1", "--set", "height=6", "--set", "width=5"]
    assert main(["run", "tetris-training", "--out", str(tmp_path), *more]) == 130
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["interrupted"] is True
    assert [len(one["runs"]) for one in found["methods"].values()] == [1, 1]
