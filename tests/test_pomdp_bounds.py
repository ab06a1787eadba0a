"""Upper bounds of POMDPs, controllers that are played, and what `solve` shows of both."""

import json

import jax
import numpy as np
import pytest
from test_pomdpx import TIGER

import mdpnewton as mn
from mdpnewton.cli import main

QUICK = ["--nodes", "1", "--restarts", "1", "--iterations", "10"]


@pytest.mark.parametrize("name", ["tiger", "cheese", "load_unload"])
def test_the_bounds_are_in_order(name):
    pomdp = mn.load_pomdp(name)
    found, optimum = mn.upper_bounds(pomdp), mn.optimal_value(pomdp)
    full = mn.policy_iteration(pomdp.fully_observed()).objective
    assert optimum <= found.fast_informed + 1e-9
    assert found.fast_informed <= found.qmdp + 1e-9
    assert found.qmdp <= full + 1e-9


def test_the_bounds_of_the_tiger_are_those_of_a_plain_computation():
    pomdp, gamma = mn.load_pomdp("tiger"), 0.95
    T, Z, R = pomdp.transition, pomdp.observation, pomdp.reward
    Q = np.zeros((2, 3))
    for _ in range(2_000):
        Q = np.array([[R[s, a] + gamma * T[a, s] @ Q.max(axis=1) for a in range(3)]
                      for s in range(2)])  # fmt: skip
    F = Q
    for _ in range(2_000):
        F = np.array([[R[s, a] + gamma * sum(
            max(sum(T[a, s, t] * Z[a, t, o] * F[t, b] for t in range(2)) for b in range(3))
            for o in range(2)) for a in range(3)] for s in range(2)])  # fmt: skip
    found = mn.upper_bounds(pomdp)
    assert found.qmdp == pytest.approx((pomdp.start @ Q).max(), rel=1e-9)
    assert found.fast_informed == pytest.approx((pomdp.start @ F).max(), rel=1e-6)


@pytest.mark.parametrize("name", ["tiger", "hallway"])
def test_a_played_controller_earns_its_value_within_four_standard_errors(name):
    pomdp = mn.load_pomdp(name)
    evaluator = mn.ControllerEvaluator(pomdp)
    policy = evaluator.controller(2)
    w = policy.random_parameters(jax.random.key(0))
    played = mn.simulated_value(pomdp, policy.tables(w), episodes=2_000, seed=1)
    left = 1e-4 * np.abs(pomdp.reward).max() / (1 - pomdp.discount)
    assert abs(played.mean - evaluator.objective(None, policy, w)) < 4 * played.error + left


def solved(capsys, *arguments):
    assert main(["solve", *arguments, *QUICK, "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def test_solve_shows_the_gap_and_what_was_played(tmp_path, capsys):
    found, _ = solved(capsys, "load_unload", "--out", str(tmp_path))
    assert found["gap"] == found["upper"] - found["value"] >= 0
    assert found["upper"] <= found["upper_qmdp"] + 1e-9
    low, high = found["simulated_interval"]
    assert low < found["simulated"] < high


def test_solve_reads_pomdpx(tmp_path, capsys):
    (tmp_path / "tiger.pomdpx").write_text(TIGER)
    found, _ = solved(capsys, str(tmp_path / "tiger.pomdpx"), "--out", str(tmp_path / "run"))
    known = mn.upper_bounds(mn.load_pomdp("tiger"))
    assert found["upper"] == pytest.approx(known.fast_informed, rel=1e-9)


MISSPELT = """discount: 1.0\nvalues: rewards\nstates: a b goal\nactions: go wait\nobservations: o
start: a b\nT: go : a : goal 1\nT: go : b : a 1\nT: go : goal : goal 1\nT: wait identity
O: * uniform\nR: go : a : * : * 1\n"""


def test_solve_reads_what_breaks_the_grammar_where_it_is_asked_to(tmp_path, capsys):
    path = tmp_path / "mine.pomdp"
    path.write_text(MISSPELT)
    assert main(["solve", str(path), *QUICK]) == 2
    assert "mine.pomdp:2:9: `values:` must be reward or cost" in capsys.readouterr().err
    found, err = solved(capsys, str(path), "--lenient", "--out", str(tmp_path / "run"))
    assert "mine.pomdp:2:9: took `rewards` for `reward`" in err
    assert "mine.pomdp:6:8: took 2 states after `start:`" in err
    assert found["value"] == pytest.approx(1, abs=1e-6)  # of total reward, however late


def test_a_file_without_discount_that_never_ends_asks_for_one(tmp_path, capsys):
    path = tmp_path / "endless.pomdp"
    text = "discount: 1\nvalues: reward\nstates: 2\nactions: 1\nobservations: 1\n"
    path.write_text(text + "T: * uniform\nO: * uniform\nR: * : * : * : * 1\n")
    assert main(["solve", str(path), *QUICK]) == 2
    err = capsys.readouterr().err
    assert "needs a proper policy" in err
    assert "states 0, 1" in err
    found, _ = solved(capsys, str(path), "--discount", "0.9", "--out", str(tmp_path / "run"))
    assert found["value"] == pytest.approx(10)
