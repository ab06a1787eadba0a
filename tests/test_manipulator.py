"""The manipulator: the published problem, its searches, and the arm behind it."""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from job_functions import results_of

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.domains.arm import Arm, simulate
from mdpnewton.domains.manipulator import manipulator
from mdpnewton.experiments import EXPERIMENTS
from mdpnewton.experiments.manipulator import searched
from mdpnewton.experiments.manipulator_rows import BLOCK, EM, ROWS, RULES, Row
from mdpnewton.policies import AffineGaussian
from mdpnewton.steps import Constant

FIELDS = (
    *("A", "B", "noise", "start_mean", "start_covariance"),
    *("reward_map", "reward_target", "reward_covariance"),
)
NAMES = ("manipulator-line-search", "manipulator-fixed-step")


def test_the_starts_are_the_published_ones():
    """log10 U at the start: median -7, from -49 to -2.5 over seeds 0 to 23."""
    logs = []
    for seed in range(24):
        one = manipulator(seed)
        evaluator = mn.LinearGaussianEvaluator(one.mdp)
        logs.append(evaluator.objective(None, one.policy, one.w) / np.log(10))
    assert np.median(logs) == pytest.approx(-7, abs=0.5)
    assert min(logs) == pytest.approx(-49, abs=0.5)
    assert max(logs) == pytest.approx(-2.5, abs=0.3)


def test_second_gauss_newton_escapes_the_plateau_within_30_steps():
    for seed in range(4):
        way = searched(manipulator(seed), ROWS["fixed step"]["second_gauss_newton_30"], 30)
        assert way.objective[-1] > 1e3 * way.objective[0], seed


def test_mean_steps_with_em_sigma_rise_in_every_step():
    for seed in range(3):
        way = searched(manipulator(seed), ROWS["fixed step"]["long_mean_30"], 40)
        assert (np.diff(way.objective) >= -1e-12 * way.objective[1:]).all(), seed


def test_no_nan_from_any_start():
    """Targets so far away that U is below 1e-300, and sigmas from large to none."""
    smallest = np.inf
    for far in (10.0, 30.0, 300.0):
        for sigma in (10.0, 1e-3, 1e-8):
            one = manipulator(0)
            mdp = mn.LinearGaussianMDP(
                *(getattr(one.mdp, name) for name in ("A", "B", "noise")),
                start_mean=np.r_[np.full(3, far), np.zeros(3)],
                start_covariance=one.mdp.start_covariance,
                reward_map=one.mdp.reward_map,
                reward_target=one.mdp.reward_target,
                reward_covariance=one.mdp.reward_covariance,
                horizon=100,
            )
            w = one.policy.parameters(np.zeros((3, 6)), np.zeros(3), sigma)
            for logarithm in (True, False):
                for method in ("block_second_gauss_newton", "natural", "steepest"):
                    found = mn.search(
                        mn.LinearGaussianEvaluator(mdp, logarithm=logarithm),
                        one.policy,
                        w,
                        method,
                        mn.StrongWolfe(initial="twice"),
                        iterations=2,
                        gradient_tolerance=-1.0,
                    )
                    assert np.isfinite(found.objective)
                    start = found.history[0].objective
                    smallest = min(smallest, start) if logarithm else smallest
                    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found.w))
    assert smallest < np.log(1e-300)


def test_the_linear_model_is_the_nonlinear_arm_under_the_linearising_torque():
    one = manipulator(3)
    mean = one.w["mean"] - jnp.eye(3, 7)  # a spring on the angles
    states = simulate(
        Arm.uniform(3),
        jax.tree_util.Partial(lambda m, t, s: m[:, :-1] @ s + m[:, -1], mean),
        one.start,
        np.zeros(3),
        one.dt,
        100,
    )
    linear = np.asarray(one.mdp.start_mean)
    for state in np.asarray(states)[1:]:
        action = np.asarray(mean[:, :-1]) @ linear + np.asarray(mean[:, -1])
        linear = np.asarray(one.mdp.A) @ linear + np.asarray(one.mdp.B) @ action
        np.testing.assert_allclose(state, linear, rtol=1e-9, atol=1e-9)


def test_rewards_at_the_end_only_are_maximised_too():
    one = manipulator(5, links=2, horizon=20, at_end=True)
    evaluator = mn.LinearGaussianEvaluator(one.mdp)
    found = mn.search(
        evaluator,
        one.policy,
        one.w,
        "block_second_gauss_newton",
        mn.StrongWolfe(initial="twice"),
        iterations=30,
    )
    assert found.last_objective > evaluator.objective(None, one.policy, one.w) + 2


@pytest.mark.parametrize("name", NAMES)
def test_the_experiments_run_at_small_scale(name, tmp_path):
    row = EXPERIMENTS[name]
    config = row.config("quick", {"runs": "2", "iterations": "6", "links": "2", "horizon": "30"})
    module = row.load()
    results = results_of(module.work(config, 0))
    assert list(results["methods"]) == [n for n, row in ROWS[config.steps].items() if row.default]
    for found in results["methods"].values():
        assert 0 <= found["final"]["mean"] <= 1
    assert results["methods"]["expectation_maximization"]["monotone"] == 2
    assert results["shown"]["horizon"] == 30
    assert module.draw(results, config)
    assert module.table(results).row_count == len(results["methods"])


def test_bad_models_are_refused_in_one_line():
    one = manipulator(0).mdp
    good = {
        name: np.array(getattr(one, name))
        for name in [
            "A",
            "B",
            "noise",
            "start_mean",
            "start_covariance",
            "reward_map",
            "reward_target",
            "reward_covariance",
        ]
    } | {"horizon": 5}
    crooked = good["noise"] + np.triu(np.ones((6, 6)), 1)
    for changes, message in (
        ({"A": np.eye(5)}, r"needs shape"),
        ({"B": np.zeros(6)}, r"needs 2 axes"),
        ({"noise": crooked}, r"not symmetric"),
        ({"noise": -np.eye(6)}, r"positive semidefinite"),
        ({"reward_covariance": np.zeros((1, 9, 9))}, r"positive definite"),
        ({"start_mean": np.full(6, np.nan)}, r"must be finite"),
        ({"horizon": 0}, r"at least 1"),
        ({"discount": 1.5}, r"above 0 and at most 1, got 1.5"),
        ({"reward_weight": [-1.0]}, r"must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            mn.LinearGaussianMDP(**(good | changes))
    with pytest.raises(ValueError, match="needs a gain"):
        mn.AffineGaussian(3, 6).parameters(np.zeros((6, 3)), np.zeros(3), 0.1)
    with pytest.raises(ValueError, match=r"must be a number above 0, got 0\.0"):
        mn.AffineGaussian(3, 6).parameters(np.zeros((3, 6)), np.zeros(3), 0.0)


def test_ctrl_c_keeps_the_searches_that_are_done(tmp_path, monkeypatch, capsys):
    whole, calls = sys.modules["mdpnewton.experiments.manipulator"].searched, []

    def tiring(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 11:  # in the second of two runs with seven searches each
            raise KeyboardInterrupt
        return whole(*arguments, **options)

    monkeypatch.setattr("mdpnewton.experiments.manipulator.searched", tiring)
    more = [f"--set={each}" for each in ("iterations=2", "links=2", "horizon=30")]
    command = ["run", NAMES[0], "--out", str(tmp_path), *more]
    assert main(command) == 130
    assert "10 of 14 jobs are done; the same command goes on" in capsys.readouterr().err
    assert main(command) == 0
    assert len(calls) == 11 + 4
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["seeds"] == [0, 1]
    assert all(len(found["final_shares"]) == 2 for found in results["methods"].values())


def test_a_fixed_step_in_sigma_is_the_papers_and_agrees_with_autodiff():
    """The natural gradient and second Gauss-Newton in (K, m, sigma), from their definitions."""
    one, size = manipulator(1), 0.3
    sigma = float(np.exp(one.w["scale"]))
    evaluator = mn.LinearGaussianEvaluator(one.mdp, logarithm=True)
    raw = AffineGaussian(3, 6, scale="sigma")
    there = {**one.w, "scale": jnp.exp(one.w["scale"])}
    pairs = evaluator.evaluate(None, raw, there)
    for name, blocks in (("natural", False), ("steepest", False), (BLOCK, True)):
        wanted = mn.direction(name, raw, there, pairs).value
        step = Row(name, Constant(size)).with_raw_sigma()
        found = mn.direction(
            step.method, one.policy, one.w, evaluator.evaluate(None, one.policy, one.w)
        ).value
        np.testing.assert_allclose(found["mean"], size * wanted["mean"], rtol=1e-8, err_msg=name)
        after = sigma * np.exp(found["scale"])
        np.testing.assert_allclose(after, sigma + size * wanted["scale"], rtol=1e-8, err_msg=name)
        assert blocks == (name == BLOCK)


def test_a_step_to_a_negative_sigma_is_refused():
    one = manipulator(1)
    w = one.policy.parameters(np.zeros((3, 6)), np.zeros(3), 30.0)
    row = Row("steepest", Constant(1e6)).with_raw_sigma()
    evaluator = mn.LinearGaussianEvaluator(one.mdp)
    step = mn.direction(row.method, one.policy, w, evaluator.evaluate(None, one.policy, w)).value
    assert np.isnan(step["scale"])
    found = mn.search(evaluator, one.policy, w, row.method, row.step, iterations=2)
    assert all(np.array_equal(found.last[name], w[name]) for name in w)


def test_rules_and_first_sizes_are_chosen_on_problems_of_their_own():
    row = EXPERIMENTS[NAMES[0]]
    changes = {"runs": "1", "iterations": "3", "links": "1", "horizon": "20", "tuning_runs": "1"}
    config = row.config("quick", {**changes, "methods": f"second_gauss_newton,natural,{EM}"})
    found = results_of(row.load().work(config, 0))
    assert set(found["tuning"]) == {"second_gauss_newton", "natural"}  # EM has no line search
    for one in found["tuning"].values():
        assert len(one["shares"]) == len(RULES) * 2
        assert one["shares"][f"{one['rule']}-{one['first']}"] == max(one["shares"].values())


def test_a_search_stops_where_the_gradient_of_log_u_is_small():
    one, name = manipulator(2, 1, 20), "second_gauss_newton"
    long = searched(one, ROWS["line search"][name], 60)
    ended = searched(one, ROWS["line search"][name], 60, flat=1e-2)
    assert len(ended.objective) < len(long.objective)
    assert ended.objective[-1] > 0.9 * long.objective[-1]
