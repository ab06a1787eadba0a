"""The ball-in-a-cup experiment: its budget, its counts and tests, and what Ctrl-C leaves."""

import json
import sys
from functools import wraps
from math import comb

import numpy as np
import pytest
from job_functions import results_of

from mdpnewton.cli import main
from mdpnewton.domains.ball_in_cup import BallInCup
from mdpnewton.experiments import ball_in_cup
from mdpnewton.experiments.ball_in_cup import CMA, PAPER, Config, _compare, _p_value, work

SMALL = Config(runs=2, updates=2, samples=4, reuse=2, threads=1)


def run(config, seed):
    return results_of(work(config, seed))


@pytest.fixture
def asked(monkeypatch):
    """How many movements the game was asked to play, call by call."""
    counts = []
    whole = BallInCup.play

    def counted(self, weights, **options):
        counts.append(len(np.atleast_2d(weights)))
        return whole(self, weights, **options)

    monkeypatch.setattr(BallInCup, "play", counted)
    return counts


@pytest.mark.parametrize("method", ["second_gauss_newton", CMA])
def test_every_method_pays_for_its_samples_alike(asked, method):
    found = run(Config(runs=1, updates=5, samples=4, reuse=2, methods=method), 0)
    one = found["methods"][method]
    assert one["curve"]["x"] == [0, 1, 2, 3, 4]
    assert one["share_curve"]["x"] == [0, 5]
    batches = sum(count == SMALL.samples for count in asked)
    # The Gaussian draws once more at the end, from which nothing is learnt any more.
    assert batches == (5 if method == CMA else 6)


@pytest.fixture(scope="module")
def small():
    return run(SMALL, 0)


def test_all_but_cma_es_begin_with_the_same_samples(small):
    first = {name: one["curve"]["mean"][0] for name, one in small["methods"].items()}
    own = first.pop(CMA)
    assert len(set(first.values())) == 1
    assert own not in first.values()


def test_the_start_does_not_catch(small):
    assert small["start"] == {"reward": -100.0, "caught": False}
    assert all(one["share_curve"]["mean"][0] == 0 for one in small["methods"].values())


def test_the_number_of_threads_changes_nothing_but_the_time():
    one, two = (run(Config(updates=2, methods=f"natural,{CMA}", threads=n), 0) for n in (1, 2))
    for found in (one, two):
        for method in found["methods"].values():
            del method["seconds"]
    assert one == two


def test_the_gradient_of_the_mean_utility_is_that_of_the_sum_by_the_samples():
    common = {"updates": 3, "samples": 4, "reuse": 2}
    by_mean = run(Config(**common, methods=ball_in_cup.BY_MEAN, natural_step=1.0), 0)
    shorter = run(Config(**common, methods="natural", natural_step=1.0 / 8), 0)
    one, other = by_mean["methods"][ball_in_cup.BY_MEAN], shorter["methods"]["natural"]
    assert one["curve"]["mean"] == other["curve"]["mean"]
    assert len(set(one["curve"]["mean"])) > 1


def test_fishers_exact_test_of_the_papers_counts():
    """Symmetric groups: twice the chance that 45 or more of the 81 catches fall to one of them."""
    tail = sum(comb(50, k) * comb(50, 81 - k) for k in range(45, 51)) / comb(100, 81)
    assert _p_value((45, 50), (36, 50)) == pytest.approx(2 * tail, rel=1e-9)
    counts = {name: {"caught": n, "runs": of} for name, (n, of) in PAPER.items()}
    _compare(counts, "second_gauss_newton")
    assert counts["expectation_maximization"]["p_to_reference"] == _p_value((45, 50), (36, 50))
    assert counts["second_gauss_newton"]["p_to_paper"] == 1
    assert "p_to_reference" not in counts["second_gauss_newton"]


def test_ctrl_c_keeps_the_searches_that_are_done(tmp_path, monkeypatch, capsys):
    whole, calls = ball_in_cup.searched, []

    @wraps(whole)
    def tiring(**arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return whole(**arguments)

    monkeypatch.setattr(ball_in_cup, "searched", tiring)
    more = ["--set", "runs=3", "--set", f"methods=natural,{CMA}", "--set", "updates=1"]
    assert main(["run", "ball-in-cup", "--out", str(tmp_path), *more]) == 130
    assert "4 of 7 jobs are done; the same command goes on" in capsys.readouterr().err
    assert main(["run", "ball-in-cup", "--out", str(tmp_path), *more]) == 0
    assert len(calls) == 4 + 3
    found = json.loads((tmp_path / "results.json").read_text())
    assert [one["runs"] for one in found["methods"].values()] == [3, 3]
    assert found["seeds"] == [0, 2]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("methods=newton", "choose from second_gauss_newton"),
        ("reference=newton", "--set reference=newton: choose from"),
        ("weighting=some", "'pooled'"),
        ("sigma=0", "sigma"),
        ("duration=0.1", "duration"),
    ],
)
def test_bad_settings_are_one_line(tmp_path, capsys, setting, message):
    assert main(["run", "ball-in-cup", "--out", str(tmp_path), "--set", setting]) == 2
    assert message in capsys.readouterr().err


def test_without_cma_a_run_says_so_before_it_begins(tmp_path, monkeypatch, capsys, asked):
    monkeypatch.setitem(sys.modules, "cma", None)
    assert main(["run", "ball-in-cup", "--out", str(tmp_path)]) == 2
    assert "pip install 'mdpnewton[mujoco]'" in capsys.readouterr().err
    assert asked == []


def test_without_opengl_a_run_is_complete_and_says_what_is_missing(tmp_path, monkeypatch, capsys):
    from mdpnewton.domains.ball_in_cup.pictures import PicturesUnavailableError

    def broken(*_):
        raise PicturesUnavailableError("pictures of ball-in-a-cup need OpenGL")

    monkeypatch.setattr("mdpnewton.report.ball_in_cup.Camera", broken)
    more = ["--set", "methods=natural", "--set", "updates=1"]
    assert main(["run", "ball-in-cup", "--out", str(tmp_path), *more]) == 0
    assert "need OpenGL" in capsys.readouterr().err
    assert (tmp_path / "results.json").exists()
    assert not (tmp_path / "attempts.png").exists()
