"""The analysis: definiteness in words, witnesses, guarantees, and rates only where they hold."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, quadratic, random_mdp, tabular

import mdpnewton as mn
from mdpnewton.analysis.spectra import Spectrum, eigenvalues, ends
from mdpnewton.domains.mazes import HALLWAY, MCCALLUM
from mdpnewton.report.analysis import analysis_table, as_json
from mdpnewton.report.matrices import _pooled


@pytest.mark.parametrize(
    ("smallest", "largest", "word"),
    [
        (1.0, 2.0, "positive definite"),
        (-2.0, -1.0, "negative definite"),
        (0.0, 2.0, "positive semidefinite"),
        (-2.0, 1e-14, "negative semidefinite"),
        (-1.0, 1.0, "indefinite"),
        (-1e-15, 1e-15, "zero"),
    ],
)
def test_definiteness_in_words(smallest, largest, word):
    assert Spectrum(smallest, largest, 2.0).definiteness == word


def test_constant_curvature_is_told_apart():
    mdp = random_mdp(0)
    for make, constant in ((gibbs, True), (tabular, True), (quadratic, False)):
        policy, _, w = make(0, mdp)
        assert mn.analyze(mdp, policy, jnp.asarray(w)).constant_curvature == constant


def test_the_guarantee_of_theorem_5_needs_values_that_are_not_negative():
    mdp = random_mdp(0)
    policy, _, w = gibbs(0, mdp)
    assert mn.analyze(mdp, policy, jnp.asarray(w)).guaranteed
    costs = mn.FiniteMDP(mdp.transition, -mdp.reward, mdp.start, mdp.discount)
    assert not mn.analyze(costs, policy, jnp.asarray(w)).guaranteed
    crooked, _, v = quadratic(0, mdp)
    assert not mn.analyze(mdp, crooked, jnp.asarray(v)).guaranteed


def test_the_hallway_is_value_consistent_and_mccallums_grid_has_a_witness():
    w = jnp.array([0.3, -0.2, 0.1, 0.4])
    assert mn.analyze(HALLWAY.mdp(0.95), HALLWAY.policy(0.95), w).consistency.consistent
    found = mn.analyze(MCCALLUM.mdp(0.95), MCCALLUM.policy(0.95), jnp.zeros(4)).consistency
    assert not found.consistent
    assert found.witness["kind"] == "opposite signs"
    up, down = found.witness["value_gradient"]
    assert up > 0 > down
    policy, mdp = MCCALLUM.policy(0.95), MCCALLUM.mdp(0.95)
    step = 1e-5 * jnp.eye(4)[found.witness["parameter"]]
    evaluator = mn.FiniteEvaluator(mdp)
    rise = evaluator.closed_loop(policy, step).value - evaluator.closed_loop(policy, -step).value
    np.testing.assert_allclose(rise[found.witness["states"]] / 2e-5, [up, down], rtol=1e-6)


def test_a_state_whose_policy_moves_but_not_its_value_is_a_witness_too():
    # State 1 has two actions that do the same; one parameter moves both states' policies.
    transition = np.zeros((2, 2, 2))
    transition[:, :, 1] = 1
    mdp = mn.FiniteMDP(transition, np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([1.0, 0.0]), 0.9)
    policy = mn.Gibbs(np.array([[[1.0], [0.0]], [[1.0], [0.0]]]))
    found = mn.analyze(mdp, policy, jnp.zeros(1)).consistency
    assert found.witness["kind"] == "policy moves, value does not"
    assert found.witness["states"] == [0, 1]


def test_rates_are_predicted_only_where_the_gradient_vanishes():
    mdp, policy = MCCALLUM.mdp(0.95), MCCALLUM.policy(0.95)
    assert mn.analyze(mdp, policy, jnp.zeros(4)).rates == {}
    found = mn.search(
        mn.FiniteEvaluator(mdp), policy, jnp.zeros(4), iterations=500, gradient_tolerance=1e-11
    )
    analysis = mn.analyze(mdp, policy, found.w)
    assert analysis.stationary
    rate = analysis.rates["second_gauss_newton"]
    assert rate.rate < 1 < rate.largest_step
    H2, H = analysis.terms["H2"], analysis.terms["hessian"]
    np.testing.assert_allclose(rate.jacobian, np.eye(4) - np.linalg.solve(H2, H), atol=1e-9)
    assert analysis.rates["expectation_maximization"].rate == rate.rate


def test_a_feature_that_is_zero_everywhere_is_reported():
    mdp = random_mdp(0)
    policy, _, w = gibbs(0, mdp)
    dead = mn.Gibbs(np.asarray(policy.features) * np.array([1.0, 0.0, 1.0, 1.0]))
    analysis = mn.analyze(mdp, dead, jnp.asarray(w))
    assert analysis.singular
    assert analysis.unused_parameters == [1]
    evaluator = mn.FiniteEvaluator(mdp)
    pairs = evaluator.evaluate(None, dead, jnp.asarray(w))
    step = mn.direction("second_gauss_newton", dead, jnp.asarray(w), pairs)
    assert (step.report.status, step.report.ridge) == ("singular", 0.0)
    assert float(step.value[1]) == pytest.approx(0.0, abs=1e-12)
    damped = mn.direction(mn.Precondition("H2", mn.Dense(ridge=0.1)), dead, jnp.asarray(w), pairs)
    assert (damped.report.status, damped.report.ridge) == ("solved", 0.1)


def test_eigenvalues_part_by_part_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, n)) for n in (1, 3, 4)]
    blocks = np.zeros((9, 9))
    for begin, part in zip((0, 1, 4), parts, strict=True):
        at = slice(begin, begin + len(part))
        blocks[at, at] = part + part.T
    order = rng.permutation(9)
    mixed = blocks[np.ix_(order, order)]
    np.testing.assert_allclose(eigenvalues(mixed), np.linalg.eigvalsh(mixed), atol=1e-12)
    low, high = ends(lambda x: mixed @ x, 9)
    assert [low, high] == pytest.approx(np.linalg.eigvalsh(mixed)[[0, -1]].tolist(), rel=1e-5)
    assert ends(lambda x: 0 * x, 9) == (0.0, 0.0)


@pytest.mark.parametrize("sparse_scores", [False, True])
def test_more_parameters_than_matrices_can_have_leave_the_ends_of_the_spectra(
    monkeypatch, sparse_scores
):
    mdp = random_mdp(1)
    policy = mn.TabularSoftmax(mdp.n_states, mdp.n_actions)
    w = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    monkeypatch.setattr("mdpnewton.hessian.SPARSE", 2.0 if sparse_scores else 0.0)
    whole = mn.analyze(mdp, policy, w)
    assert not whole.left_out
    monkeypatch.setattr("mdpnewton.analysis.finite.DENSE", 10)
    found = mn.analyze(mdp, policy, w)
    assert found.terms == {}
    assert found.consistency is None
    assert found.singular is None
    assert "matrices, value consistency, singularity and rates are left out" in found.left_out
    assert "more than 10 parameters" in found.left_out
    for name, spectrum in whole.spectra.items():
        other, size = found.spectra[name], 1e-5 * spectrum.scale
        assert other.smallest == pytest.approx(spectrum.smallest, abs=size), name
        assert other.largest == pytest.approx(spectrum.largest, abs=size), name
        assert other.definiteness == spectrum.definiteness, name
    assert found.unused_parameters == whole.unused_parameters
    data = as_json(found, policy, mdp)
    assert data["left_out"] == found.left_out
    assert data["value_consistent"] is None
    assert "H2" not in data
    assert any(found.left_out in line for line in analysis_table(found).renderables[1:])


def test_a_picture_of_many_parameters_keeps_the_largest_entries():
    matrix = np.zeros((1_300, 1_300))
    matrix[7, 1_299], matrix[8, 1_299] = 2.0, -5.0
    pooled = _pooled(matrix)
    assert max(pooled.shape) <= 500
    assert pooled[2, -1] == -5.0
    assert np.count_nonzero(pooled) == 1
