"""The practical search on Tetris, and the library's methods on accumulated matrices."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.curvature import scores as scores_of
from mdpnewton.domains.tetris import RecurrentBoard, Survival, estimate, plain, play
from mdpnewton.domains.tetris.evaluator import TetrisEvaluator, evaluation_of, seed_of
from mdpnewton.domains.tetris.plain_estimates import score_and_covariance
from mdpnewton.domains.tetris.policy import AfterstatePolicy, soft_start
from mdpnewton.simulators import DivergedError
from mdpnewton.training.survival import DISCOUNTS, Clock, SurvivalEvaluator, board_of
from mdpnewton.training.tetris import Schedule, train_tetris

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


TINY = {"pieces": 20_000, "games": 50, "least_games": 8}
# Features, rows, method, seed, iterations, divergence. Steps of 1 and 3 are so long that some are
# undone.
SEARCHES = [
    ("bi", 20, "natural", 3, 12, 0.02),
    ("dt", 10, "second_gauss_newton", 3, 12, 0.02),
    ("dt", 10, "second_gauss_newton", 5, 25, 3.0),
    ("dt", 20, "second_gauss_newton", 5, 25, 1.0),
]


def plain_steps(policy, tried, method, seed, schedule):
    """The loop of the search in plain NumPy, from the points that the search itself went to.

    Yields, point by point: whether it is kept, what its games showed, and where to go next. Each
    step begins where the search was, because games end differently after the last bits.
    """
    last, critic, held, games, height = len(tried) - 1, None, None, schedule.games, 0
    length = 1.0
    for n, w in enumerate(tried[:-1]):
        done = n / last
        stage = next(rows for until, rows in schedule.stages(policy.height) if done < until)
        if stage != height:
            games = max(schedule.least_games, games // 4) if n else games
            height, critic, held = stage, None, None
        discounts = DISCOUNTS[policy.features]
        discount = float(np.interp(height, list(discounts), list(discounts.values())))
        found = estimate(
            w,
            Survival(discount, critic, schedule.share),
            games=games,
            seed=seed_of(jax.random.fold_in(jax.random.key(seed), n)),
            **{**board_of(policy), "height": height},
        )
        kept = held is None or (
            found.mean + 3 * np.hypot(found.stderr, held[1].stderr / 2) >= held[1].mean / 2
        )
        length, held = (1.0, (w, found)) if kept else (length / 2, held)
        begin, good = held
        matrix = (
            -np.asarray(good.h2) if method == "second_gauss_newton" else np.asarray(good.fisher)
        )
        ridge = schedule.damping * np.abs(np.diag(matrix)).mean()
        ahead = np.linalg.solve(matrix + ridge * np.eye(len(w)), np.asarray(good.gradient))
        divergence = schedule.divergence * length**2
        divergence *= (schedule.last_divergence / schedule.divergence) ** done
        curved = ahead @ np.asarray(good.fisher) @ ahead / good.pieces.mean()
        yield kept, found, begin + np.sqrt(2 * divergence / curved) * ahead
        critic = good.survival.tolist()
        wanted = schedule.pieces / max(float(good.pieces.mean()), 1.0)
        games = int(np.clip(wanted, schedule.least_games, schedule.games))


@pytest.mark.parametrize("case", SEARCHES, ids=lambda case: "-".join(map(str, case)))
def test_the_search_goes_the_way_of_a_plain_loop(monkeypatch, case):
    features, height, method, seed, iterations, divergence = case
    tried = thrown(monkeypatch, ())
    schedule = Schedule(**TINY, divergence=divergence, last_divergence=divergence / 20)
    policy = AfterstatePolicy(features, height)
    found = train_tetris(policy, iterations=iterations, method=method, seed=seed, schedule=schedule)
    assert len(tried) == iterations + 1
    assert all(one.kept for one in found.history) == (divergence < 1)
    steps = plain_steps(policy, tried, method, seed, schedule)
    averaged = []
    for n, (one, (kept, games, ahead)) in enumerate(zip(found.history, steps, strict=True)):
        assert (one.kept, one.games, one.lines) == (kept, games.games, games.mean)
        np.testing.assert_allclose(tried[n + 1], ahead, rtol=1e-6, atol=1e-9)
        if kept and one.height == height and n / iterations >= 1 - schedule.averaged:
            averaged.append(tried[n])
    np.testing.assert_allclose(found.average, np.mean(averaged, axis=0), rtol=1e-12)


class Broken(TetrisEvaluator):
    """No gradient."""

    def evaluate(self, key, policy, w):
        found = super().evaluate(key, policy, w)
        return replace(found, gradient=jnp.full_like(found.gradient, jnp.nan))


def test_a_step_has_the_divergence_that_was_asked_for():
    w = soft_start(SMALL)
    method = mn.Precondition("H2", mn.Dense(relative_ridge=1e-3))
    options = {"key": jax.random.key(3), "iterations": 1, "gradient_tolerance": -1.0}
    rule = mn.KLSchedule(lambda iteration: 0.0, 0.01)
    evaluator = TetrisEvaluator(Survival(0.9), games=200)
    moved = mn.search(evaluator, SMALL, w, method, rule, **options)
    found = evaluator.evaluate(jax.random.fold_in(options["key"], 0), SMALL, jnp.asarray(w))
    d, fisher = np.asarray(moved.last) - w, np.asarray(found.matrices["fisher"])
    assert d @ fisher @ d / found.decisions / 2 == pytest.approx(0.01, rel=1e-9)
    (record,) = moved.history
    assert (record.step.divergence, record.report.slope > 0) == (0.01, True)
    kept = mn.search(Broken(Survival(0.9), games=20), SMALL, w, method, rule, **options)
    (record,) = kept.history
    assert np.array_equal(kept.last, w)
    assert (record.step.accepted, record.report.status) == (False, "not finite")


def thrown(monkeypatch, bad):
    """Where the evaluator played; evaluations in `bad` are those of the opposite weights."""
    tried, honest = [], SurvivalEvaluator.evaluate

    def evaluate(self, key, policy, w):
        tried.append(np.asarray(w))
        return honest(self, key, policy, -w if len(tried) - 1 in bad else w)

    monkeypatch.setattr(SurvivalEvaluator, "evaluate", evaluate)
    return tried


def test_a_step_that_loses_half_of_the_lines_is_undone_and_taken_again_half_as_long(monkeypatch):
    tried = thrown(monkeypatch, (10, 11))
    schedule = Schedule(games=200, least_games=200, divergence=0.02, last_divergence=0.02)
    found = train_tetris(SMALL, iterations=14, seed=1, schedule=schedule)
    kept = [one.kept for one in found.history]
    assert [n for n, one in enumerate(kept) if not one] == [10, 11]
    w, first, second, third = tried[9:13]
    np.testing.assert_allclose(second - w, (first - w) / 2)
    np.testing.assert_allclose(third - w, (first - w) / 4)
    asked = [one.divergence for one in found.history]
    assert asked == pytest.approx([0.02] * 10 + [0.02 / 4, 0.02 / 16] + [0.02] * 2)
    seen = [w for w, one in zip(tried, kept, strict=False) if one]  # not the one after the last
    np.testing.assert_allclose(found.average, np.mean(seen[7:], axis=0))
    np.testing.assert_array_equal(found.w, tried[14])


def test_what_was_learnt_from_a_step_that_is_undone_is_forgotten(monkeypatch):
    thrown(monkeypatch, (2,))
    evaluator = SurvivalEvaluator(Schedule(games=50), ((1.0, 6),), Clock(iterations=9))
    w, keys = jnp.asarray(soft_start(SMALL)), jax.random.split(jax.random.key(0), 3)
    known = [evaluator.evaluate(key, SMALL, w) for key in keys[:2]][1]
    before = evaluator.state()
    evaluator.evaluate(keys[2], SMALL, w)
    assert not np.array_equal(evaluator.state()["adapted"]["critic"], before["adapted"]["critic"])
    assert evaluator.revisit(keys[2], SMALL, w, known) is known
    after = evaluator.state()
    np.testing.assert_equal([after["adapted"], after["held"]], [before["adapted"], before["held"]])


def test_a_fall_is_beyond_chance():
    w, board = soft_start(SMALL), {"height": 6, "width": 5, "games": 100, "seed": 3}
    now, rule = estimate(w, Survival(), **board), mn.KeepUnlessLost()
    noisy = np.zeros_like(now.lines)
    noisy[0] = now.lines.sum() / 4  # a quarter of the mean, from one lucky game
    for lines, kept in ((now.lines, True), (now.lines * 0, False), (noisy, True)):
        after = evaluation_of(now._replace(lines=lines))
        assert rule.keeps(evaluation_of(now), after) is kept


def test_fewer_lines_on_another_board_undo_nothing(monkeypatch):
    tall = AfterstatePolicy("bi", 16, 4)
    thrown(monkeypatch, (2,))  # the first games on 14 rows, as bad as they can be
    schedule = Schedule(games=64, least_games=64, lower=(0.5, 0.25))
    found = train_tetris(tall, iterations=4, seed=1, schedule=schedule)
    assert [one.height for one in found.history] == [10, 10, 14, 16]
    assert found.history[2].lines < found.history[1].lines / 2
    assert all(one.kept for one in found.history)


def test_a_search_goes_on_bit_for_bit_from_plain_data():
    """Stopped after each of its iterations, steps that were undone and other boards among them."""
    policy, key = AfterstatePolicy("dt", 12), jax.random.key(5)
    numbers = Schedule(**TINY, divergence=3.0, last_divergence=0.15)

    def parts(spent=0.0):
        clock = Clock(iterations=12, spent=spent)
        rule = mn.KeepUnlessLost(mn.KLSchedule(clock.done, numbers.divergence, 0.15))
        return SurvivalEvaluator(numbers, numbers.stages(12), clock, threads=1), rule

    whole = train_tetris(policy, iterations=12, seed=5, schedule=numbers)
    assert not all(one.kept for one in whole.history)
    assert {one.height for one in whole.history} == {10, 12}
    w, previous, state = soft_start(policy), None, parts()[0].state()
    for n in range(12):
        evaluator, rule = parts()
        evaluator = evaluator.restored(state)
        ended = mn.search(
            evaluator,
            policy,
            w,
            mn.Precondition("H2", mn.Dense(relative_ridge=numbers.damping)),
            rule,
            key=key,
            iterations=n + 1,
            patience=None,
            evaluation=evaluator.held,
            first=n,
            previous=previous,
        )
        w, previous, state = np.asarray(ended.last), ended.history[-1].step, evaluator.state()
    np.testing.assert_array_equal(w, whole.w)
    assert previous == whole.previous
    np.testing.assert_equal(state, whole.evaluator.state())


def test_the_policy_is_that_of_the_game():
    w = soft_start(SMALL)
    rows = list(plain.decisions(w, height=6, width=5, policy="gibbs", seed=1))
    rows = [one for one in rows if len(one.features) == len(rows[0].features)]
    states = jnp.asarray(np.array([one.features for one in rows]))
    actions = jnp.asarray([[one.chosen] for one in rows])
    scores = scores_of(SMALL, jnp.asarray(w), states, actions)
    for one, state, score in zip(rows, states, np.asarray(scores), strict=True):
        expected, covariance = score_and_covariance(one)
        np.testing.assert_allclose(score[0], expected, atol=1e-8)
        hessian = jax.hessian(SMALL.log_prob)(jnp.asarray(w), state, one.chosen)
        np.testing.assert_allclose(hessian, -covariance, atol=1e-8)
    report = mn.check_policy(SMALL, SMALL.initial_parameters(), states)
    assert not report.problems, report.problems


def test_weights_of_another_board_are_a_start():
    start = np.linspace(-1, 0, SMALL.size)
    found = train_tetris(SMALL, iterations=1, start=start, schedule=QUICK)
    assert np.linalg.norm(found.w - start) < 1


def test_higher_boards_begin_on_lower_ones():
    tall = AfterstatePolicy("bi", 16, 4)
    schedule = Schedule(games=8, least_games=8, lower=(0.25, 0.25))
    found = train_tetris(tall, iterations=4, seed=1, schedule=schedule)
    assert [one.height for one in found.history] == [10, 14, 16, 16]


def test_minutes_end_the_search():
    found = train_tetris(SMALL, minutes=0.005, schedule=QUICK)
    seconds = [one.seconds for one in found.history]
    assert seconds == sorted(seconds)
    assert 0 < seconds[0] <= seconds[-1] < 0.3 + seconds[0]  # the last began within the time
    assert (found.interrupted, len(found.history)) == (False, found.evaluator.evaluations - 1)


def test_ctrl_c_keeps_what_there_is():
    def enough(one):
        if one.seconds >= 0:
            raise KeyboardInterrupt

    found = train_tetris(SMALL, iterations=9, schedule=QUICK, callback=enough)
    assert found.interrupted
    assert len(found.history) == 1
    assert np.isfinite(found.average).all()


def test_a_step_beyond_what_the_games_take_is_refused():
    policy = AfterstatePolicy(features="dt", height=10, width=5)
    far = np.full(policy.size, 1e13)
    with pytest.raises(DivergedError, match="beyond 1e"):
        TetrisEvaluator(games=4).evaluate(jax.random.key(0), policy, far)


def test_bad_input():
    with pytest.raises(ValueError, match="either `minutes` or `iterations`"):
        train_tetris(SMALL)
    with pytest.raises(ValueError, match=r"minutes=...\)` must be .* above 0, got 0"):
        train_tetris(SMALL, minutes=0)
    with pytest.raises(ValueError, match="whole number of at least 1, got 0"):
        train_tetris(SMALL, iterations=0)
    with pytest.raises(ValueError, match="must be one of 'second_gauss_newton'"):
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
    assert np.isfinite(np.asarray(found.last)).all()
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
        (["--workers", "0"], "--workers must be at least 1"),
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
    evaluator = TetrisEvaluator(RecurrentBoard(h1=True), games=100)
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


def test_ctrl_c_keeps_the_trainings_of_the_side_by_side(tmp_path, monkeypatch, capsys):
    calls = []

    def tiring(*arguments, **options):
        calls.append(arguments)
        found = train_tetris(*arguments, **options)
        found.interrupted = len(calls) == 4
        return found

    monkeypatch.setattr("mdpnewton.experiments.tetris_training.train_tetris", tiring)
    more = ["--set", "runs=3", "--set", "iterations=1", "--set", "height=6", "--set", "width=5"]
    assert main(["run", "tetris-training", "--out", str(tmp_path), *more]) == 130
    assert "3 of 6 jobs are done; the same command goes on" in capsys.readouterr().err
    assert main(["run", "tetris-training", "--out", str(tmp_path), *more]) == 0
    assert len(calls) == 4 + 3
    found = json.loads((tmp_path / "results.json").read_text())
    assert [len(one["runs"]) for one in found["methods"].values()] == [3, 3]
