"""Steps for noisy objectives, the offset, and the policies that came with them."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, quadratic, random_mdp

import mdpnewton as mn
from mdpnewton.steps.divergence import mean_divergence, promised

MDP = random_mdp(1)
EVALUATOR = mn.FiniteEvaluator(MDP)
POLICY, _, W = gibbs(1, MDP)
W = jnp.asarray(W)
PAIRS = EVALUATOR.evaluate(None, POLICY, W)


def line(divergence, norm=1.0, slope=1.0, surrogate=lambda size: size):
    return mn.Line(0.0, slope, norm, lambda size: 0.0, None, divergence, surrogate)


def test_the_mean_divergence_is_the_plain_sum():
    v = W + 0.3
    weights = np.asarray(PAIRS.occupancy)
    log_w, log_v = (np.asarray(POLICY.log_probs(x, PAIRS.states, PAIRS.actions)) for x in (W, v))
    expected = np.sum(weights * (log_w - log_v)) / weights.sum()
    assert float(mean_divergence(POLICY, W, v, PAIRS)) == pytest.approx(expected, rel=1e-12)
    assert float(mean_divergence(POLICY, W, W, PAIRS)) == 0.0


def test_without_a_closed_form_the_listed_actions_estimate_the_divergence():
    class Bare(mn.Gibbs):
        def kl(self, w, v, state):
            return None

    bare = Bare(POLICY.features)
    found = float(mean_divergence(bare, W, W + 0.3, PAIRS))
    assert found == pytest.approx(float(mean_divergence(POLICY, W, W + 0.3, PAIRS)), rel=1e-10)


def test_half_the_fisher_form_is_the_divergence_of_a_small_step():
    step = 1e-4 * jnp.asarray(np.random.default_rng(0).normal(size=W.shape))
    fisher = mn.curvature(POLICY, W, PAIRS, "fisher").mv(step)
    half = 0.5 * float(step @ fisher) / float(PAIRS.occupancy.sum())
    assert float(mean_divergence(POLICY, W, W + step, PAIRS)) == pytest.approx(half, rel=1e-3)


def test_the_promise_has_the_slope_of_the_objective():
    ahead = mn.direction("natural", POLICY, W, PAIRS)
    size = 1e-6
    rise = float(promised(POLICY, W, W + size * ahead.value, PAIRS)) / size
    assert rise == pytest.approx(ahead.report.slope, rel=1e-4)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("power", [1.0, 2.0, 4.0])
def test_a_kl_step_has_the_divergence_that_was_asked_for(scale, power):
    step = mn.KLStep(0.2).choose(line(lambda size: (size / scale) ** power, norm=1 / scale), 0)
    assert step.accepted
    assert step.divergence == pytest.approx(0.2, rel=0.05)


def test_a_kl_step_meets_walls_flats_and_nothing():
    wall = mn.KLStep(0.2).choose(line(lambda t: t if t < 0.01 else math.inf), 0)
    assert wall.accepted
    assert 0 < wall.divergence < 0.2
    flat = mn.KLStep(0.2).choose(line(lambda t: 0.0), 0)
    assert (flat.accepted, flat.reason) == (False, "the policy does not change along the direction")
    nowhere = mn.KLStep(0.2).choose(line(lambda t: math.nan), 0)
    assert (nowhere.accepted, nowhere.reason) == (False, "no size gives a finite divergence")
    assert not mn.KLStep().choose(line(lambda t: t, norm=0.0), 0).accepted
    assert mn.KLStep(0.2, largest=0.05).choose(line(lambda t: t), 0).size == 0.05


def test_backtracking_shrinks_until_the_samples_promise_a_rise():
    peaked = line(lambda t: t**2, surrogate=lambda t: t - 4 * t**2)
    step = mn.SurrogateBacktracking(mn.KLStep(1.0)).choose(peaked, 0)
    assert step.accepted
    assert 0 < step.size < 0.25
    hopeless = mn.SurrogateBacktracking().choose(line(lambda t: t, surrogate=lambda t: -t), 0)
    assert (hopeless.accepted, hopeless.reason) == (
        False,
        "the samples promise no rise at any size",
    )
    still = mn.SurrogateBacktracking().choose(line(lambda t: t, norm=0.0), 0)
    assert not still.accepted


@pytest.mark.parametrize("rule", [mn.KLStep(0.05), mn.SurrogateBacktracking(mn.KLStep(0.05))])
def test_searches_with_trust_regions_rise(rule):
    found = mn.search(EVALUATOR, POLICY, W, "natural", mn.KeepIfBetter(rule), iterations=15)
    assert found.objective > PAIRS.objective
    for record in found.history:
        assert not record.step.accepted or record.step.divergence <= 0.06


def test_the_tight_offset_makes_the_direction_blind_to_the_rewards_offset():
    method = mn.Precondition("H2", fisher_damping=mn.TightOffset(0.2))
    directions = []
    for constant in (0.0, -5.0, 7.0):
        shifted = mn.FiniteMDP(MDP.transition, MDP.reward + constant, MDP.start, MDP.discount)
        pairs = mn.FiniteEvaluator(shifted).evaluate(None, POLICY, W)
        ahead = mn.direction(method, POLICY, W, pairs)
        values = np.asarray(pairs.state_value)
        spread = values.max() - values.min()
        assert ahead.report.fisher_damping == pytest.approx(-values.min() + 0.2 * spread)
        assert ahead.report.smallest_curvature > 0
        directions.append(np.asarray(ahead.value))
    np.testing.assert_allclose(directions[0], directions[1], rtol=1e-7)
    np.testing.assert_allclose(directions[0], directions[2], rtol=1e-7)
    raw = mn.direction("second_gauss_newton", POLICY, W, PAIRS).value
    assert not np.allclose(raw, directions[0], rtol=0.1)


def test_no_larger_offset_keeps_the_matrix_definite_in_every_state():
    policy = mn.TabularSoftmax(MDP.n_states, MDP.n_actions, reduced=True)
    w = policy.initial_parameters()
    pairs = EVALUATOR.evaluate(None, policy, w)
    least = float(pairs.state_value.min())
    for taken, definite in ((0.999 * least, True), (1.001 * least, False)):
        fisher = mn.curvature(policy, w, pairs, "fisher")
        matrix = -mn.curvature(policy, w, pairs, "V2") + (-taken) * fisher
        assert bool(np.linalg.eigvalsh(matrix.dense()).min() > 0) is definite


def test_the_tight_offset_needs_state_values():
    bare = mn.WeightedPairs(
        PAIRS.states, PAIRS.actions, PAIRS.occupancy, PAIRS.value, PAIRS.advantage, 0.0
    )
    with pytest.raises(ValueError, match="needs state values"):
        mn.direction(mn.Precondition("H2", fisher_damping=mn.TightOffset()), POLICY, W, bare)


def test_a_relative_ridge_is_a_share_of_the_diagonal():
    matrix = -mn.curvature(POLICY, W, PAIRS, "H2")
    b = mn.gradient(POLICY, W, PAIRS)
    dense = np.asarray(matrix.dense())
    ridge = 0.3 * np.abs(np.diag(dense)).mean()
    found, report = mn.Dense(relative_ridge=0.3).solve(matrix, b)
    np.testing.assert_allclose(found, np.linalg.solve(dense + ridge * np.eye(len(b)), b), rtol=1e-9)
    assert report.ridge == pytest.approx(ridge)
    along = np.asarray(b) @ dense @ np.asarray(b) / np.asarray(b @ b)
    found, report = mn.ConjugateGradient(relative_ridge=0.3, tolerance=1e-12).solve(matrix, b)
    expected = np.linalg.solve(dense + 0.3 * along * np.eye(len(b)), b)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert report.ridge == pytest.approx(0.3 * along)


def test_a_random_direction_has_length_one_and_needs_a_key():
    ahead = mn.direction(mn.RandomDirection(), POLICY, W, PAIRS, key=jax.random.key(0))
    assert float(jnp.linalg.norm(ahead.value)) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="pass `key"):
        mn.direction(mn.RandomDirection(), POLICY, W, PAIRS)


def test_new_policies_are_what_they_declare():
    states = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)))
    for policy in (
        mn.NoisyGain(1, 2, 0.7),
        mn.LinearSoftmax(3, 2, lambda state: state),
    ):
        w = jnp.asarray(np.random.default_rng(1).normal(size=policy.initial_parameters().shape))
        report = mn.check_policy(policy, w, states)
        assert not report.problems, report.problems
    with pytest.raises(ValueError, match=r"must be a number above 0, got 0\.0"):
        mn.NoisyGain(1, 2, 0.0)


def test_em_is_the_second_gauss_newton_method_at_step_one_for_a_noisy_gain():
    policy, rng = mn.NoisyGain(1, 2, 2.0), np.random.default_rng(0)
    states, actions = (
        jnp.asarray(rng.normal(size=(40, 2))),
        jnp.asarray(rng.normal(size=(40, 1, 1))),
    )
    weights = jnp.asarray(rng.random((40, 1)))
    pairs = mn.WeightedPairs(states, actions, weights, weights, weights, 0.0)
    w = jnp.asarray(rng.normal(size=(1, 2)))
    em = mn.direction("expectation_maximization", policy, w, pairs).value
    newton = mn.direction("second_gauss_newton", policy, w, pairs).value
    np.testing.assert_allclose(em, newton, rtol=1e-10)


def test_a_quadratic_policy_still_has_a_divergence():
    policy, _, w = quadratic(1, MDP)
    pairs = EVALUATOR.evaluate(None, policy, jnp.asarray(w))
    assert float(mean_divergence(policy, jnp.asarray(w), jnp.asarray(w) + 0.1, pairs)) > 0
