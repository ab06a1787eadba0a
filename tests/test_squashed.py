"""Actions between -1 and 1: the squashed policy against integrals, and training with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, norm

import mdpnewton as mn
from mdpnewton.training.train import train

SEEN = jnp.array([0.7, -0.4])
FEATURES = mn.Standardized(jnp.zeros(2), jnp.ones(2))


def policy_and_parameters(size=1):
    inside = mn.Gaussian(size, 3, FEATURES, floor=0.05)
    draws = np.random.default_rng(1)
    start = inside.initial_parameters()
    w = jax.tree.map(lambda leaf: leaf + 0.5 * draws.normal(size=leaf.shape), start)
    return mn.Squashed(inside), w


def mean_and_sigma(policy, w):
    mean, log_sigma = np.split(np.asarray(policy.outputs(w, SEEN)), 2)
    return mean, np.exp(log_sigma)


def test_the_density_integrates_to_one_and_to_the_probabilities_of_the_policy_inside():
    policy, w = policy_and_parameters()
    mean, sigma = mean_and_sigma(policy, w)

    def density(a):
        return float(np.exp(policy.log_prob(w, SEEN, jnp.array([a]))))

    assert abs(quad(density, -1, 1, limit=200)[0] - 1) < 1e-6
    below = norm.cdf(np.arctanh(0.3), mean[0], sigma[0])
    assert abs(quad(density, -1, 0.3, limit=200)[0] - below) < 1e-6


def test_draws_have_this_distribution_compiled_and_in_numpy():
    policy, w = policy_and_parameters()
    mean, sigma = mean_and_sigma(policy, w)
    keys = jax.random.split(jax.random.key(2), 2000)
    compiled = np.asarray(jax.vmap(lambda key: policy.sample(key, w, SEEN))(keys))
    act, generator = policy.actor(w), np.random.default_rng(3)
    drawn = [act(np.asarray(SEEN), generator) for _ in range(2000)]
    plain = np.array([action for action, _ in drawn])
    for actions in (compiled, plain):
        assert np.abs(actions).max() < 1
        found = kstest(actions[:, 0], lambda a: norm.cdf(np.arctanh(a), mean[0], sigma[0]))
        assert found.pvalue > 0.01  # fixed keys
    wanted = jax.vmap(lambda a: policy.log_prob(w, SEEN, a))(plain)
    np.testing.assert_allclose([one for _, one in drawn], wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(act(np.asarray(SEEN), None)[0], policy.mode(w, SEEN), rtol=1e-12)


def test_scores_curvature_and_divergence_are_those_of_the_policy_inside():
    policy, w = policy_and_parameters(2)
    free = jnp.array([0.4, -1.3])
    for derivative in (jax.grad, jax.hessian):
        found = derivative(policy.log_prob)(w, SEEN, jnp.tanh(free))
        wanted = derivative(policy.policy.log_prob)(w, SEEN, free)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found, wanted)
    v = jax.tree.map(lambda leaf: 1.1 * leaf, w)
    assert policy.kl(w, v, SEEN) == policy.policy.kl(w, v, SEEN)


def test_it_keeps_what_it_declares():
    policy, w = policy_and_parameters(2)
    assert mn.check_policy(policy, w, SEEN[None], key=jax.random.key(0)).ok
    assert (policy.log_concave, policy.blockwise_log_concave) == (False, False)
    fixed = mn.Squashed(mn.LinearGaussian(np.eye(2), 3, FEATURES))
    assert fixed.log_concave
    assert fixed.constant_curvature
    w = jnp.ones((2, 3))
    assert mn.check_policy(fixed, w, SEEN[None], key=jax.random.key(0)).ok


def test_no_action_is_too_far_out():
    policy, w = policy_and_parameters()
    far = {**w, "mean": 100 * jnp.ones_like(w["mean"])}
    action = policy.sample(jax.random.key(0), far, SEEN)
    assert np.abs(action).max() < 1
    assert np.isfinite(policy.log_prob(w, SEEN, action))
    assert np.isfinite(policy.log_prob(w, SEEN, jnp.ones(1)))


def test_training_with_squashed_actions():
    preset = mn.Preset(squashed=True, features=8, least_transitions=100)
    training = train("cartpole", policy="linear", iterations=2, preset=preset)
    actions = np.asarray(training.evaluator.memory.all().actions)
    assert np.abs(actions).max() < 1
    again = mn.Training.restored(training.state())
    assert isinstance(again.policy, mn.Squashed)
    play = [one.play(jax.random.key(1), 2).rewards for one in (training, again)]
    np.testing.assert_array_equal(*play)


def test_actions_without_bounds_cannot_be_squashed():
    spaces = mn.Spaces(2, low=np.array([-np.inf]), high=np.array([1.0])).unit()
    features = mn.RandomFourier(FEATURES, jnp.zeros((0, 2)), jnp.zeros(0))
    from mdpnewton.training.presets import policy_of

    with pytest.raises(ValueError, match="finite"):
        policy_of("linear", spaces, features, mn.Preset(squashed=True))
