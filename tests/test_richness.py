"""`run richness`: from one feature to a table."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.experiments.richness import Turned


def test_a_table_has_no_h12_and_no_rate_but_features_on_the_way_may_have_more(shared_run):
    found = json.loads((shared_run("richness") / "results.json").read_text())
    rows = found["features"]
    one, table = rows["1"]["median"], rows["8"]["median"]
    assert one["ratio"] > 1e-3
    assert table["ratio"] < 1e-9
    assert table["first_rate"] < 1e-6
    assert "to" in found["verdict"]
    for name in ("1", "4"):  # the paper's rate, of |U - L|, is the square of that of the distance
        median = rows[name]["median"]
        assert median["measured"] == pytest.approx(median["first_rate"] ** 2, rel=0.3, abs=1e-3)


def test_the_policy_is_what_it_promises():
    policy = Turned(jnp.asarray(np.random.default_rng(0).normal(size=(4, 2))), 0.05)
    w = jnp.array([0.3, -0.7])
    shares = jnp.exp(policy.log_probs(w, jnp.arange(4), jnp.tile(jnp.arange(2), (4, 1))))
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
    assert float(shares.min()) >= 0.05
    angle = np.pi / 4 + np.asarray(policy.features) @ np.asarray(w)
    np.testing.assert_allclose(shares[:, 1], 0.05 + 0.9 * np.sin(angle) ** 2, atol=1e-12)
    mn.check_policy(policy, w, jnp.arange(4), n_actions=2, throw=True)


@pytest.mark.parametrize("features", ["0", "1,13", "two", "1,,2"])
def test_numbers_of_features_that_cannot_be_are_refused(features, tmp_path, capsys):
    given = ["run", "richness", "--set", f"features={features}", "--out", str(tmp_path / "run")]
    assert main(given) == 2
    err = capsys.readouterr().err
    assert "needs whole numbers from 1 to the number of states" in err
    assert not (tmp_path / "run" / "jobs").exists()
