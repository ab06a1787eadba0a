"""Gaussian policies with a full covariance: density, scores, Fisher matrix, concavity, learning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats

import mdpnewton as mn

SCALES = ("precision", "precision_root")
COVARIANCE = np.array([[0.9, 0.4, -0.2], [0.4, 0.7, 0.1], [-0.2, 0.1, 0.5]])
STATES = jnp.array([[0.5, -1.0], [1.5, 0.3], [-0.4, 0.8]])
every_scale = pytest.mark.parametrize("scale", SCALES)


def made(scale, covariance=COVARIANCE):
    k = len(covariance)
    policy = mn.FullGaussian(k, 2, scale=scale)
    mean = np.random.default_rng(0).normal(size=(k, 2))
    return policy, policy.parameters(mean, covariance)


def drawn(policy, w, state, number=6):
    keys = jax.random.split(jax.random.key(0), number)
    return jax.vmap(lambda key: policy.sample(key, w, state))(keys)


@every_scale
def test_it_keeps_what_it_declares(scale):
    policy, w = made(scale)
    found = mn.check_policy(policy, w, STATES, spread=0.05)  # score and Hessian by differences too
    assert found.problems == ()
    assert policy.blockwise_log_concave
    assert not policy.log_concave
    assert found.largest_eigenvalue > 0.01  # it is not concave jointly


@every_scale
def test_density_and_samples_follow_scipy(scale):
    policy, w = made(scale)
    np.testing.assert_allclose(policy.covariance(w), COVARIANCE, rtol=1e-12)
    mean = np.asarray(w["mean"] @ STATES[0])
    law = stats.multivariate_normal(mean, COVARIANCE)
    actions = np.asarray(drawn(policy, w, STATES[0], 4000))
    ours = jax.vmap(policy.log_prob, (None, None, 0))(w, STATES[0], jnp.asarray(actions[:20]))
    np.testing.assert_allclose(ours, law.logpdf(actions[:20]), rtol=1e-12)
    assert np.all(np.abs(actions.mean(0) - mean) < 4 * np.sqrt(np.diag(COVARIANCE) / 4000))
    np.testing.assert_allclose(np.cov(actions.T), COVARIANCE, atol=0.08)


@every_scale
@pytest.mark.parametrize("seed", range(3))
def test_log_pi_is_concave_in_the_mean_and_in_the_scale_along_whole_lines(scale, seed):
    policy, w = made(scale)
    rng = np.random.default_rng(seed)
    action = jnp.asarray(3 * rng.normal(size=3))
    for block in ("mean", "scale"):
        ahead = jnp.asarray(rng.normal(size=w[block].shape))

        def along(size, block=block, ahead=ahead):
            moved = {**w, block: w[block] + size * ahead}
            return policy.log_prob(moved, STATES[0], action)

        bends = jax.vmap(jax.grad(jax.grad(along)))(jnp.linspace(-0.3, 0.3, 31))
        known = np.isfinite(np.asarray(bends))
        assert known.sum() > 10
        assert np.all(np.asarray(bends)[known] <= 1e-9)


@every_scale
def test_the_fisher_matrix_is_that_of_the_scores(scale):
    policy, w = made(scale, COVARIANCE[:2, :2])
    flat, unravel = ravel_pytree(w)
    points, weights = np.polynomial.hermite_e.hermegauss(5)  # exact for squares of scores
    z = np.stack(np.meshgrid(points, points, indexing="ij"), -1).reshape(-1, 2)
    shares = np.outer(weights, weights).ravel() / weights.sum() ** 2
    actions = w["mean"] @ STATES[0] + jnp.asarray(z) @ jnp.linalg.cholesky(policy.covariance(w)).T
    score = jax.grad(lambda v, a: policy.log_prob(unravel(v), STATES[0], a))
    rows = jax.vmap(score, (None, 0))(flat, actions)
    np.testing.assert_allclose(shares @ rows, 0, atol=1e-12)
    squares = jnp.einsum("n,ni,nj->ij", shares, rows, rows)
    bend = jax.hessian(lambda v, a: policy.log_prob(unravel(v), STATES[0], a))
    bends = -jnp.einsum("n,nij->ij", shares, jax.vmap(bend, (None, 0))(flat, actions))
    np.testing.assert_allclose(squares, bends, atol=1e-11)
    outputs = policy.outputs(w, STATES[0])
    J = jax.jacfwd(lambda v: policy.outputs(unravel(v), STATES[0]))(flat)
    F = jax.vmap(lambda u: policy.output_fisher(outputs, u), out_axes=1)(jnp.eye(outputs.size))
    np.testing.assert_allclose(J.T @ F @ J, squares, atol=1e-11)


@every_scale
def test_the_divergence_is_that_of_two_gaussians(scale):
    policy, w = made(scale)
    v = jax.tree.map(lambda leaf: leaf + 0.1, w)
    here, there = (np.asarray(policy.covariance(x)) for x in (w, v))
    error = np.asarray((w["mean"] - v["mean"]) @ STATES[0])
    inverse = np.linalg.inv(there)
    logs = np.linalg.slogdet(there)[1] - np.linalg.slogdet(here)[1]
    expected = 0.5 * (np.trace(inverse @ here) - 3 + error @ inverse @ error + logs)
    assert policy.kl(w, v, STATES[0]) == pytest.approx(expected, rel=1e-10)
    assert policy.kl(w, w, STATES[0]) == 0
    fisher = jax.hessian(lambda flat: policy.kl(w, ravel_pytree(w)[1](flat), STATES[0]))
    assert np.linalg.eigvalsh(fisher(ravel_pytree(w)[0])).min() > -1e-9


def test_a_precision_that_is_not_positive_has_no_density_and_a_step_to_it_is_undone():
    policy, w = made("precision")
    wrong = {**w, "scale": -w["scale"]}
    assert jnp.isnan(policy.log_prob(wrong, STATES[0], jnp.zeros(3)))
    assert jnp.isnan(policy.covariance(wrong)).any()
    evaluator, policy, w = control("precision")
    found = mn.search(evaluator, policy, w, "steepest", mn.Constant(1e4), iterations=1)
    assert not found.history[0].step.accepted
    np.testing.assert_array_equal(found.last["scale"], w["scale"])


@every_scale
def test_actors_act_as_the_policy_says(scale):
    policy = mn.FullGaussian(3, 3, mn.Standardized(jnp.zeros(2), jnp.ones(2)), scale)
    w = policy.parameters(np.random.default_rng(0).normal(size=(3, 3)), COVARIANCE)
    act, generator = policy.actor(w), np.random.default_rng(0)
    drawn = [act(np.asarray(STATES[0]), generator) for _ in range(3000)]
    actions = np.array([action for action, _ in drawn])
    np.testing.assert_allclose(actions.mean(0), policy.mode(w, STATES[0]), atol=0.08)
    np.testing.assert_allclose(np.cov(actions.T), COVARIANCE, atol=0.08)
    expected = jax.vmap(policy.log_prob, (None, None, 0))(w, STATES[0], jnp.asarray(actions[:9]))
    np.testing.assert_allclose([said for _, said in drawn[:9]], expected, rtol=1e-10)
    wrong = policy.actor({**w, "scale": jnp.full(6, jnp.nan)})
    assert np.isnan(wrong(np.asarray(STATES[0]), generator)[0]).all()


def control(scale):
    mdp = mn.QuadraticMDP(
        A=[[0.9, 0.2], [-0.1, 0.8]],
        B=[[1.0, 0.3], [0.0, 0.5]],
        state_cost=np.eye(2),
        action_cost=[[0.5, 0.3], [0.3, 0.4]],
        noise=0.1 * np.eye(2),
        start_mean=np.ones(2),
        start_covariance=np.eye(2),
        discount=0.9,
    )
    policy = mn.FullGaussian(2, 2, scale=scale)
    w = policy.parameters(np.zeros((2, 2)), [[0.6, 0.2], [0.2, 0.5]])
    return mn.QuadraticEvaluator(mdp), policy, w


@every_scale
def test_every_sampled_form_agrees_with_the_exact_ones_in_the_linear_gaussian_setting(scale):
    evaluator, policy, w = control(scale)
    simulator, samples = mn.QuadraticSimulator(evaluator.mdp, horizon=80), []
    exact = quantities(policy, w, evaluator.evaluate(None, policy, w))
    for repeat in range(16):
        sampled = mn.MonteCarlo(simulator, 0.9, episodes=100)
        pairs = sampled.evaluate(jax.random.key(repeat), policy, w)
        samples.append(quantities(policy, w, pairs))
    for name, expected in exact.items():
        rows = np.array([one[name] for one in samples])
        error = rows.std(0, ddof=1) / len(rows) ** 0.5
        allowed = 4 * error + 3e-3 * np.abs(expected).max()
        assert np.all(np.abs(rows.mean(0) - expected) <= allowed), name


def quantities(policy, w, pairs):
    found = {"gradient": ravel_pytree(mn.gradient(policy, w, pairs))[0]}
    for form in ("H2", "A1+A2", "fisher", "fisher_score", "generalized_fisher"):
        found[form] = mn.curvature(policy, w, pairs, form).dense()
    return {name: np.asarray(value) for name, value in found.items()}


@every_scale
def test_it_is_learnt_exactly_and_the_covariance_turns_as_the_costs_say(scale):
    evaluator, policy, w = control(scale)
    method = mn.Precondition("A1+A2", mn.Block(absolute=True))
    found = mn.search(
        evaluator, policy, w, method, mn.Armijo(), iterations=12, gradient_tolerance=1e-9
    )
    assert found.objective > found.history[0].objective
    moments = evaluator.moments(policy, found.w)
    # what costs most is explored least: the covariance shrinks most along the stiffest direction
    stiffest = np.linalg.eigh(moments.curvature)[1][:, -1]
    shares = np.asarray(policy.covariance(found.w)) @ stiffest
    assert stiffest @ shares < 0.2 * (stiffest @ np.asarray(policy.covariance(w)) @ stiffest)
    best = evaluator.mdp.optimal_gain()
    assert np.abs(found.w["mean"] - best).max() < 0.05 * np.abs(best).max()


def test_em_finds_the_weighted_covariance():
    policy, w = made("precision", COVARIANCE[:2, :2])
    actions = drawn(policy, w, STATES[0], 400)[:, None]
    states = jnp.tile(STATES, (134, 1))[:400]
    weights = jnp.asarray(np.random.default_rng(0).uniform(size=(400, 1)))
    pairs = mn.WeightedPairs(states, actions, weights, weights, weights, 0.0)
    best = policy.maximum(w, pairs)
    bound = mn.surrogate(policy, w, pairs, "H2")
    slope = ravel_pytree(jax.grad(bound)(best))[0]
    assert jnp.abs(slope).max() < 1e-8 * jnp.abs(ravel_pytree(jax.grad(bound)(w))[0]).max()


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: mn.FullGaussian(0, 2), r"`FullGaussian\(n_actions=...\)` must be"),
        (lambda: mn.FullGaussian(1, 2, scale="sigma"), r"`FullGaussian\(scale=...\)` must be one"),
        (
            lambda: mn.FullGaussian(1, 1).parameters([[0.0]], [[-1.0]]),
            r"`FullGaussian.parameters\(covariance=...\)`",
        ),
    ],
)
def test_what_cannot_be_is_refused(build, words):
    with pytest.raises(ValueError, match=words):
        build()
