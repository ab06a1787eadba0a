"""Gaussian policies with a full covariance on linear-Gaussian MDPs, each number said twice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from smoothing import close, problem

import mdpnewton as mn
from mdpnewton.evaluators.linear_gaussian_moments import law_of, log_objective

every_scale = pytest.mark.parametrize("scale", ["precision", "precision_root"])


def extended(state):
    return jnp.append(state, 1.0)


def made(scale, covariance=None, **options):
    """A problem, a policy with a full covariance and its parameters, and the affine policy."""
    mdp, affine, v = problem(3, links=2, horizon=8, rewards=2, **options)
    policy = mn.FullGaussian(2, 5, extended, scale=scale)
    sigma = np.exp(2 * float(affine.log_sigma(v))) * np.eye(2) if covariance is None else covariance
    return mdp, policy, policy.parameters(v["mean"], sigma), affine, v


COVARIANCE = [[0.3, 0.12], [0.12, 0.1]]


@every_scale
def test_with_one_variance_it_is_the_affine_policy(scale):
    mdp, policy, w, affine, v = made(scale)
    evaluator = mn.LinearGaussianEvaluator(mdp)
    found, other = evaluator.evaluate(None, policy, w), evaluator.evaluate(None, affine, v)
    assert found.objective == pytest.approx(other.objective, rel=1e-12)
    close(mn.gradient(policy, w, found)["mean"], mn.gradient(affine, v, other)["mean"])
    for form in ("H2", "fisher"):
        block = mn.curvature(policy, w, found, form).blocks()[0]
        close(block, mn.curvature(affine, v, other, form).blocks()[0])


@every_scale
def test_the_gradient_is_that_of_log_u(scale):
    mdp, policy, w, _, _ = made(scale, COVARIANCE)
    flat, unravel = ravel_pytree(w)

    def objective(flat):
        mean, covariance = law_of(policy, unravel(flat), mdp.n_states)
        shape = (mdp.horizon, *mean.shape), (mdp.horizon, *covariance.shape)
        return log_objective(
            mdp, jnp.broadcast_to(mean, shape[0]), jnp.broadcast_to(covariance, shape[1])
        )

    pairs = mn.LinearGaussianEvaluator(mdp).evaluate(None, policy, w)
    assert pairs.objective == pytest.approx(float(objective(flat)), rel=1e-12)
    close(ravel_pytree(mn.gradient(policy, w, pairs))[0], jax.grad(objective)(flat))


def test_h2_in_closed_form():
    mdp, policy, w, _, _ = made("precision", COVARIANCE)
    evaluator = mn.LinearGaussianEvaluator(mdp)
    pairs, moments = evaluator.evaluate(None, policy, w), evaluator.moments(policy, w)
    valued, sigma = moments.valued, np.array(COVARIANCE)
    x = np.append(valued.mean, 1.0)
    second = np.outer(x, x)
    second[:-1, :-1] += valued.covariance
    H2 = mn.curvature(policy, w, pairs, "H2")
    mean, scale = H2.blocks()
    close(mean[0], -np.kron(np.linalg.inv(sigma), valued.mass * second))
    turns = [np.array(one) for one in ([[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]])]
    expected = [[np.trace(sigma @ one @ sigma @ other) for other in turns] for one in turns]
    close(scale[0], -0.5 * valued.mass * np.array(expected))
    for number, turn in enumerate(turns):
        along = {"mean": jnp.zeros_like(w["mean"]), "scale": jnp.eye(3)[number]}
        close(H2.mv(along)["mean"], turn @ sigma @ moments.gradient)


@every_scale
def test_em_is_the_argmax_of_its_bound_and_raises_the_objective(scale):
    mdp, policy, w, _, _ = made(scale, COVARIANCE)
    evaluator = mn.LinearGaussianEvaluator(mdp)
    pairs = evaluator.evaluate(None, policy, w)
    best = policy.maximum(w, pairs)
    slope = jax.grad(mn.surrogate(policy, w, pairs, "H2"))
    here, there = (float(jnp.abs(ravel_pytree(slope(v))[0]).max()) for v in (w, best))
    assert there < 1e-9 * here
    assert evaluator.objective(None, policy, best) > pairs.objective


@every_scale
def test_the_parts_of_the_hessian_add_up(scale):
    mdp, policy, w, _, _ = made(scale, COVARIANCE)
    parts = mn.linear_gaussian_terms(mdp, policy, w)
    whole = parts["H1"] + parts["H2"] + parts["cross"]
    close(whole, parts["hessian"])
    flat, unravel = ravel_pytree(w)

    def log_u(flat):
        return mn.LinearGaussianEvaluator(mdp).objective(None, policy, unravel(flat))

    step, n = 1e-4, flat.size
    rng = np.random.default_rng(0)
    p = rng.normal(size=n)
    p /= np.linalg.norm(p)
    values = [np.exp(log_u(flat + t * step * p) - log_u(flat)) for t in (-1, 0, 1)]
    second = (values[0] - 2 * values[1] + values[2]) / step**2
    assert p @ np.asarray(parts["hessian"]) @ p == pytest.approx(second, rel=1e-4)


def test_the_second_method_learns_the_covariance():
    mdp, policy, w, _, _ = made("precision_root", COVARIANCE)
    evaluator, method = mn.LinearGaussianEvaluator(mdp), mn.Precondition("H2", mn.Block())
    found = mn.search(evaluator, policy, w, method, mn.Armijo(), iterations=15)
    assert found.objectives[-1] > found.objectives[0]
    before, after = policy.covariance(w), policy.covariance(found.w)
    assert np.abs(np.asarray(after) - before).max() > 0.01
    assert np.linalg.eigvalsh(np.asarray(after)).min() > 0


def test_other_policies_are_refused_in_one_line():
    mdp, *_ = made("precision")
    evaluator = mn.LinearGaussianEvaluator(mdp)
    bent = mn.FullGaussian(2, 4, jnp.square)
    with pytest.raises(ValueError, match="features that are affine in the state"):
        evaluator.evaluate(None, bent, bent.initial_parameters())
    short = mn.FullGaussian(2, 3)
    with pytest.raises(ValueError, match="a policy for 3 features, but for the MDP's 4 dimensions"):
        evaluator.evaluate(None, short, short.initial_parameters())
    gibbs = mn.Gaussian(2, 4)
    with pytest.raises(ValueError, match="`AffineGaussian` and `FullGaussian` alone, got Gaussian"):
        evaluator.evaluate(None, gibbs, gibbs.initial_parameters())
