"""`mdpnewton analyze` on linear-Gaussian models: values, fields, pictures and one-line errors."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from smoothing import close, problem, reference

import mdpnewton as mn
from mdpnewton.analysis.linear_gaussian import analyze_linear_gaussian, derivatives
from mdpnewton.cli import main

KEYS = ("A", "B", "noise", "start_mean", "start_covariance", "horizon")
REWARD = ("reward_map", "reward_target", "reward_covariance")
FIELDS = {
    "log_objective",
    "gradient_gain",
    "gradient_offset",
    "gradient_log_sigma",
    "H2_theta_block",
    "H2_log_sigma",
    "fisher_theta_block",
    "spectra",
}


def content(mdp, w, **changes):
    """The keys of a model file; a change to None leaves a key out."""
    single = len(mdp.reward_weight) == 1
    found = {name: np.asarray(getattr(mdp, name)) for name in KEYS}
    found |= {name: np.asarray(getattr(mdp, name))[0 if single else ...] for name in REWARD}
    if not single or float(mdp.reward_weight[0]) != 1:
        found["reward_weight"] = np.asarray(mdp.reward_weight)
    if mdp.discount < 1:
        found["discount"] = mdp.discount
    if mdp.at_end:
        found["at_end"] = True
    gain, offset = np.asarray(w["mean"][:, :-1]), np.asarray(w["mean"][:, -1])
    found |= {"gain": gain, "offset": offset, "sigma": np.exp(float(w["scale"])), **changes}
    return {name: value for name, value in found.items() if value is not None}


def write(folder, mdp, w, **changes):
    path = folder / "model.npz"
    np.savez(path, **content(mdp, w, **changes))
    return path


def run(capsys, *arguments):
    status = main([str(word) for word in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def occupancy(mdp, w, sigma):
    """E x x' by p_gamma, step by step."""
    A, B, noise = (np.asarray(x) for x in (mdp.A, mdp.B, mdp.noise))
    K, m = np.asarray(w["mean"])[:, :-1], np.asarray(w["mean"])[:, -1]
    mean, covariance = np.asarray(mdp.start_mean), np.asarray(mdp.start_covariance)
    total = 0.0
    for t in range(mdp.horizon):
        x = np.append(mean, 1.0)
        second = np.outer(x, x)
        second[:-1, :-1] += covariance
        total = total + mdp.discount**t * second
        mean = (A + B @ K) @ mean + B @ m
        covariance = (A + B @ K) @ covariance @ (A + B @ K).T + sigma**2 * B @ B.T + noise
    return total


CASES = [
    dict(seed=0, links=1, horizon=1),
    dict(seed=1, links=3, horizon=25, log10_sigma=-4),
    dict(seed=2, links=2, horizon=15, rewards=3, discount=0.9),
    dict(seed=3, links=2, horizon=12, at_end=True, log10_sigma=-1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["seed"]))
def test_the_json_agrees_with_explicit_smoothing(tmp_path, capsys, case):
    mdp, policy, w = problem(**case)
    sigma, k = float(jnp.exp(w["scale"])), policy.n_actions
    status, out, err = run(capsys, "analyze", write(tmp_path, mdp, w), "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert set(found) == FIELDS
    log, mass, Sxx, g, trace = reference(mdp, w, sigma)
    assert found["log_objective"] == pytest.approx(log, rel=1e-10)
    close(found["gradient_gain"], g[:, :-1])
    close(found["gradient_offset"], g[:, -1])
    assert found["gradient_log_sigma"] == pytest.approx(sigma**2 * trace, rel=1e-8)
    close(found["H2_theta_block"], -Sxx / sigma**2)
    assert found["H2_log_sigma"] == pytest.approx(-2 * (k * mass + sigma**2 * trace), rel=1e-10)
    close(found["fisher_theta_block"], occupancy(mdp, w, sigma) / sigma**2)
    assert set(found["spectra"]) == {"H2_theta_block", "H2_log_sigma", "fisher_theta_block"}
    values = np.linalg.eigvalsh(found["H2_theta_block"])
    assert found["spectra"]["H2_theta_block"]["smallest"] == pytest.approx(values[0])
    assert "negative" in found["spectra"]["H2_theta_block"]["definiteness"]
    assert "positive" in found["spectra"]["fisher_theta_block"]["definiteness"]


def test_the_derivatives_are_those_of_gradient_and_curvature():
    mdp, policy, w = problem(4, horizon=10)
    found = derivatives(mdp, policy, w)
    pairs = mn.LinearGaussianEvaluator(mdp).evaluate(None, policy, w)
    slope, n = mn.gradient(policy, w, pairs), policy.n_states + 1
    close(jnp.column_stack([found.gain, found.offset]), slope["mean"], 1e-12)
    close(found.log_sigma, slope["scale"], 1e-12)
    for form, block in (("H2", found.H2), ("fisher", found.fisher)):
        whole = mn.curvature(policy, w, pairs, form).blocks()[0][0]
        close(whole, np.kron(np.eye(policy.n_actions), block), 1e-12)
        assert whole.shape == (policy.n_actions * n,) * 2


def test_many_problems_at_once():
    mdp, policy, w = problem(5, links=1, horizon=6)
    starts = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2)))

    def at(start):
        return derivatives(eqx.tree_at(lambda m: m.start_mean, mdp, start), policy, w)

    together = jax.vmap(at)(starts)
    for i, start in enumerate(starts):
        jax.tree.map(lambda one, all_, i=i: close(all_[i], one, 1e-12), at(start), together)


def test_definiteness_does_not_depend_on_units():
    mdp, policy, w = problem(6, links=1, horizon=6)
    units = np.array([1.0, 1e-7])  # the second state in units ten million times as large
    scale, back = np.diag(units), np.diag(1 / units)
    other = mn.LinearGaussianMDP(
        A=scale @ mdp.A @ back,
        B=scale @ mdp.B,
        noise=scale @ mdp.noise @ scale,
        start_mean=scale @ mdp.start_mean,
        start_covariance=scale @ mdp.start_covariance @ scale,
        reward_map=mdp.reward_map / np.append(units, 1.0),
        reward_target=mdp.reward_target,
        reward_covariance=mdp.reward_covariance,
        horizon=mdp.horizon,
        reward_weight=mdp.reward_weight,
    )
    v = {**w, "mean": w["mean"] / np.append(units, 1.0)}
    one, two = (analyze_linear_gaussian(m, policy, at) for m, at in ((mdp, w), (other, v)))
    for name, spectrum in one.spectra.items():
        assert spectrum.definiteness == two.spectra[name].definiteness
    assert one.spectra["H2_theta_block"].definiteness == "negative definite"


def test_a_table_and_a_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mdp, _, w = problem(7, links=5, horizon=5)
    status, out, _ = run(capsys, "analyze", write(tmp_path, mdp, w))
    assert status == 0
    assert "negative definite" in out
    assert "parameters: 56" in out
    assert max(map(len, out.splitlines())) <= 80
    names = {path.name for path in (tmp_path / "runs" / "analyze-model").iterdir()}
    pictures = {"linear-gaussian.png", "linear-gaussian.svg"}
    assert names == {"config.json", "results.json", "sessions.json", "report.html", *pictures}


BAD = {
    "missing key": (dict(reward_target=None), "missing key 'reward_target'"),
    "no policy": (dict(gain=None, offset=None), "missing key 'gain', missing key 'offset'"),
    "unknown key": (dict(weights=np.ones(2)), "unknown key 'weights'"),
    "A not square": (dict(A=np.ones((4, 3))), "needs shape (4, 4)"),
    "B that does not fit": (dict(B=np.ones((3, 2))), "needs shape (4, 2)"),
    "a flat noise": (dict(noise=np.ones(4)), "needs shape (4, 4)"),
    "gain that does not fit": (dict(gain=np.ones((4, 2))), "a gain of shape (2, 4)"),
    "reward map": (dict(reward_map=np.ones((6, 4))), "needs shape (6, 6)"),
    "three axes too many": (dict(reward_map=np.ones((1, 1, 6, 6))), "for a mixture"),
    "asymmetric": (dict(noise=np.triu(np.ones((4, 4)))), "is not symmetric"),
    "indefinite": (dict(start_covariance=-np.eye(4)), "must be positive semidefinite"),
    "singular reward": (dict(reward_covariance=np.zeros((6, 6))), "must be positive definite"),
    "horizon 0": (dict(horizon=0), "whole number of at least 1"),
    "half a step": (dict(horizon=2.5), "whole number of at least 1"),
    "two horizons": (dict(horizon=np.ones(2)), "horizon must be one number"),
    "NaN in A": (dict(A=np.full((4, 4), np.nan)), "A must be finite"),
    "NaN in gain": (dict(gain=np.full((2, 4), np.nan)), "gain must be finite"),
    "infinite horizon": (dict(horizon=np.inf), "horizon must be finite"),
    "sigma 0": (dict(sigma=0.0), "must be a number above 0"),
    "negative sigma": (dict(sigma=-1.0), "must be a number above 0"),
    "discount 0": (dict(discount=0.0), "above 0 and at most 1, got 0"),
    "at_end": (dict(at_end=2), "at_end must be true or false"),
    "reward weight": (dict(reward_weight=np.array([-1.0])), "must be positive"),
    "empty": (dict(start_mean=np.zeros(0)), "start_mean is empty"),
    "overflow": (dict(gain=np.full((2, 4), 1e150)), "not finite"),
    "complex": (dict(A=np.eye(4, dtype=complex)), "real numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_model_is_one_line_on_standard_error(tmp_path, capsys, name):
    changes, message = BAD[name]
    mdp, _, w = problem(8, horizon=4)
    status, out, err = run(capsys, "analyze", write(tmp_path, mdp, w, **changes), "--json")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("mdpnewton: error: ")
    assert message in err


def test_other_scales_are_refused():
    mdp, _, w = problem(9, links=1, horizon=3)
    with pytest.raises(ValueError, match="log_sigma"):
        analyze_linear_gaussian(mdp, mn.AffineGaussian(1, 2, "precision"), w)
