"""`run saddle`: out of a saddle by Newton's steps within a region."""

import json

import jax
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.experiments.saddle import FRESH, METHODS, _verdict, begun
from mdpnewton.models.pomdp import product_mdp


def test_newton_leaves_the_saddle_that_holds_the_gauss_newton_and_natural_steps(shared_run):
    found = json.loads((shared_run("saddle") / "results.json").read_text())
    (case,) = found["cases"].values()
    shares = {name: one["share"] for name, one in case["methods"].items()}
    assert tuple(shares) == METHODS
    assert max(shares["trust_region_newton"], shares["cubic_newton"]) > 0.5
    assert max(shares["second_gauss_newton"], shares["natural"]) < 0.1
    assert case["tuning"]["rate"] in (0.1, 0.3)
    assert case["best"] <= case["optimum"] + 1e-6
    for one in case["methods"].values():
        assert one["low"] <= one["share"] <= one["high"]
        assert np.all(np.diff(one["curve"]["mean"]) >= -1e-12)
    assert "the best of the others" in found["verdict"]


def test_the_starts_are_almost_a_saddle_and_those_of_tuning_are_others():
    pomdp = mn.load_pomdp("load_unload")
    policy = mn.ControllerEvaluator(pomdp).controller(2)
    evaluator = mn.FiniteEvaluator(product_mdp(pomdp, 2))
    # the nodes are alike: what would tell them apart has no gradient, but curvature of both signs
    starts = begun(policy, 1e-9, range(FRESH, FRESH + 2))
    w = jax.tree.map(lambda leaf: leaf[0], starts)
    pairs = evaluator.evaluate(None, policy, w)
    slope = mn.gradient(policy, w, pairs)
    actions = np.asarray(slope["action"]).reshape(2, policy.n_observations, -1)
    assert np.abs(actions[0] - actions[1]).max() < 1e-8
    assert np.abs(slope["transition"]).max() < 1e-8
    assert np.abs(actions).max() > 1e-4
    values = np.linalg.eigvalsh(mn.policy_hessian(policy, w, pairs).dense())
    assert values[0] < -1e-5
    assert values[-1] > 1e-5
    other = jax.tree.map(lambda leaf: leaf[0], begun(policy, 1e-9, range(1)))
    assert np.abs(np.asarray(other["action"] - w["action"])).max() > 0.1


def told(ours, others):
    finals = dict.fromkeys(METHODS, others) | {METHODS[0]: ours}
    return _verdict({"x": {"methods": {name: {"finals": f} for name, f in finals.items()}}})


def test_the_verdict_says_what_the_pairs_say():
    low, high = [0.1, 0.2, 0.1, 0.2], [0.8, 0.9, 0.9, 0.8]
    assert "is ahead of" in told(high, low)
    assert "is level with" in told(low, [x + 1e-5 for x in low])
    assert "is not told apart from" in told([0.1, 0.9, 0.2, 0.3], [0.2, 0.8, 0.1, 0.2])
    worse = dict.fromkeys(METHODS, high) | dict.fromkeys(METHODS[:2], low)
    cases = {"x": {"methods": {name: {"finals": f} for name, f in worse.items()}}}
    assert "is behind" in _verdict(cases)


@pytest.mark.parametrize("setting", ["spreads=0", "rates=-1", "spreads=a,b", "problems=moon"])
def test_settings_that_cannot_be_are_refused(setting, tmp_path, capsys):
    given = ["run", "saddle", "--set", setting, "--out", str(tmp_path / "run")]
    assert main(given) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "run" / "jobs").exists()
