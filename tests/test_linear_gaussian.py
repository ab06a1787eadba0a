"""Exact linear-Gaussian evaluation against a naive reference, derivatives and samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from smoothing import close, problem, reference

import mdpnewton as mn
from mdpnewton.evaluators.linear_gaussian_moments import log_objective

CASES = [
    dict(seed=0, links=1, horizon=1),
    dict(seed=1, links=1, horizon=200),
    dict(seed=2, links=2, horizon=30, rewards=3),
    dict(seed=3, links=3, horizon=20, discount=0.9),
    dict(seed=4, links=5, horizon=10, at_end=True),
    dict(seed=5, links=4, horizon=15, discount=0.95, rewards=2),
]


@pytest.mark.parametrize("log10_sigma", [0, -2, -5, -8])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['links']}-{case['horizon']}")
def test_moments_gradient_and_matrices_agree_with_explicit_smoothing(case, log10_sigma):
    mdp, policy, w = problem(**case, log10_sigma=log10_sigma)
    sigma, k = 10.0**log10_sigma, mdp.n_actions
    log, mass, Sxx, g, trace = reference(mdp, w, sigma)
    evaluator = mn.LinearGaussianEvaluator(mdp)
    pairs = evaluator.evaluate(None, policy, w)
    assert pairs.objective == pytest.approx(log, rel=1e-10)
    assert evaluator.objective(None, policy, w) == pairs.objective
    found = mn.gradient(policy, w, pairs)
    close(found["mean"], g)
    close(found["scale"], sigma**2 * trace)
    H2 = mn.curvature(policy, w, pairs, "H2")
    block, scale = H2.blocks()
    close(block[0], -np.kron(np.eye(k), Sxx) / sigma**2)
    close(scale[0], -2 * (k * mass + sigma**2 * trace))
    cross = H2.mv({"mean": jnp.zeros_like(w["mean"]), "scale": jnp.ones(())})["mean"]
    close(cross, -2 * g)


def test_derivatives_of_log_u_are_the_evaluations():
    mdp, policy, w = problem(7, links=2, horizon=25, rewards=2)
    flat, unravel = ravel_pytree(w)

    def objective(v):
        w = unravel(v)
        means = jnp.broadcast_to(w["mean"], (mdp.horizon, *w["mean"].shape))
        return log_objective(mdp, means, jnp.full(mdp.horizon, jnp.exp(2 * policy.log_sigma(w))))

    pairs = mn.LinearGaussianEvaluator(mdp).evaluate(None, policy, w)
    close(ravel_pytree(mn.gradient(policy, w, pairs))[0], jax.grad(objective)(flat), 1e-12)


@pytest.mark.parametrize("scale", ["log_sigma", "sigma", "precision", "precision_root"])
def test_every_scale_parameter_describes_the_same_policy(scale):
    mdp, policy, w = problem(8, horizon=10)
    other = mn.AffineGaussian(policy.n_actions, policy.n_states, scale)
    v = other.parameters(w["mean"][:, :-1], w["mean"][:, -1], float(jnp.exp(w["scale"])))
    evaluator = mn.LinearGaussianEvaluator(mdp)
    assert evaluator.objective(None, other, v) == pytest.approx(
        evaluator.objective(None, policy, w), rel=1e-13
    )
    tops = [p.maximum(at, evaluator.evaluate(None, p, at)) for p, at in ((policy, w), (other, v))]
    assert float(other.log_sigma(tops[1])) == pytest.approx(float(tops[0]["scale"]), rel=1e-12)
    mn.check_policy(other, v, jnp.ones((2, policy.n_states)), key=jax.random.key(0), throw=True)


def test_em_is_the_argmax_of_its_bound_and_shares_its_mean_with_second_gauss_newton():
    mdp, policy, w = problem(9, horizon=20)
    pairs = mn.LinearGaussianEvaluator(mdp).evaluate(None, policy, w)
    found = mn.direction("expectation_maximization", policy, w, pairs).value
    numeric = mn.ExpectationMaximization(closed_form=False)
    close(found["mean"], mn.direction(numeric, policy, w, pairs).value["mean"], 1e-7)
    newton = mn.direction("block_second_gauss_newton", policy, w, pairs).value
    close(newton["mean"], found["mean"])
    assert float(newton["scale"]) != pytest.approx(float(found["scale"]), rel=1e-3)


def test_em_is_monotone():
    for seed in range(5):
        mdp, policy, w = problem(seed, horizon=20)
        history = mn.search(
            mn.LinearGaussianEvaluator(mdp), policy, w, "expectation_maximization", iterations=60
        ).history
        objective = [record.objective for record in history]
        assert (np.diff(objective) > -1e-13).all(), seed


def test_the_objective_may_be_u_itself():
    mdp, policy, w = problem(10)
    logarithm, plain = (
        mn.LinearGaussianEvaluator(mdp, logarithm=which).evaluate(None, policy, w)
        for which in (True, False)
    )
    U = np.exp(logarithm.objective)
    assert plain.objective == pytest.approx(U, rel=1e-13)
    for method in ("block_second_gauss_newton", "expectation_maximization"):
        one, other = (mn.direction(method, policy, w, p).value for p in (logarithm, plain))
        close(one["mean"], other["mean"])
    one, other = (mn.direction("natural", policy, w, p).value for p in (logarithm, plain))
    close(U * one["mean"], other["mean"])


def test_samples_agree_within_four_standard_errors():
    mdp, policy, w = problem(11, links=1, horizon=8, discount=0.9, log10_sigma=-0.3)
    key, n = jax.random.key(3), 40_000
    roots = [jnp.linalg.cholesky(x) for x in (mdp.start_covariance, mdp.noise)]

    def episode(key):
        first, rest = jax.random.split(key)
        state = mdp.start_mean + roots[0] @ jax.random.normal(first, (mdp.n_states,))

        def step(state, key):
            act, move = jax.random.split(key)
            action = policy.sample(act, w, state)
            noise = roots[1] @ jax.random.normal(move, state.shape)
            score = ravel_pytree(jax.grad(policy.log_prob)(w, state, action))[0]
            return mdp.A @ state + mdp.B @ action + noise, (mdp.reward(state, action), score)

        rewards, scores = jax.lax.scan(step, state, jax.random.split(rest, mdp.horizon))[1]
        weighed = 0.9 ** jnp.arange(float(mdp.horizon)) * rewards
        to_come = jnp.cumsum(weighed[::-1])[::-1]
        return weighed.sum(), to_come @ scores

    returns, gradients = map(np.asarray, jax.vmap(episode)(jax.random.split(key, n)))
    evaluator = mn.LinearGaussianEvaluator(mdp, logarithm=False)
    pairs = evaluator.evaluate(None, policy, w)
    assert abs(returns.mean() - pairs.objective) < 4 * returns.std() / n**0.5
    exact = ravel_pytree(mn.gradient(policy, w, pairs))[0]
    assert (np.abs(gradients.mean(0) - exact) < 4 * gradients.std(0) / n**0.5).all()


def test_the_hessian_and_its_parts():
    mdp, policy, w = problem(12, links=2, horizon=6)
    parts = mn.linear_gaussian_terms(mdp, policy, w)
    flat, unravel = ravel_pytree(w)
    evaluator = mn.LinearGaussianEvaluator(mdp, logarithm=False)
    U = evaluator.objective(None, policy, w)

    def slope(v):
        at = unravel(jnp.asarray(v))
        return np.asarray(
            ravel_pytree(mn.gradient(policy, at, evaluator.evaluate(None, policy, at)))[0]
        )

    step = 1e-5 * np.eye(flat.size)
    differences = [(slope(flat + e) - slope(flat - e)) / 2e-5 for e in step]
    close(parts["hessian"], np.array(differences) / U, 1e-7)
    close(parts["H1"] + parts["H2"] + parts["cross"], parts["hessian"])
    for name in ("H1", "hessian"):
        matrix = np.asarray(parts[name] - (parts["H2"] if name == "hessian" else 0))
        assert np.linalg.eigvalsh(matrix).min() > -1e-9 * np.abs(matrix).max(), name
    mean = slice(0, w["mean"].size)  # in the mean alone the curvature is the same for all actions
    assert np.linalg.eigvalsh(np.asarray(parts["H2"])[mean, mean]).max() < 0


def test_quartic_forms_are_refused_in_one_line():
    mdp, policy, w = problem(13)
    pairs = mn.LinearGaussianEvaluator(mdp).evaluate(None, policy, w)
    for form in ("A1", "H1", "A1+A2", "fisher_score"):
        with pytest.raises(ValueError, match="linear_gaussian_terms"):
            mn.curvature(policy, w, pairs, form)


def test_fisher_in_closed_form():
    mdp, policy, w = problem(14, horizon=9, discount=0.8)
    found = mn.LinearGaussianEvaluator(mdp).moments(policy, w).visited
    k, sigma = policy.n_actions, float(jnp.exp(w["scale"]))
    pairs = mn.LinearGaussianEvaluator(mdp).evaluate(None, policy, w)
    block, scale = mn.curvature(policy, w, pairs, "fisher").blocks()
    mean = np.append(found.mean, 1.0)
    Fxx = np.outer(mean, mean)
    Fxx[:-1, :-1] += found.covariance
    close(block[0], np.kron(np.eye(k), found.mass * Fxx) / sigma**2, 1e-12)
    assert float(scale[0, 0, 0]) == pytest.approx(2 * k * float(found.mass), rel=1e-12)
    assert float(found.mass) == pytest.approx((1 - 0.8**9) / 0.2, rel=1e-12)
