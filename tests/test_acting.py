"""Policies in NumPy choose as they do in JAX, and a simulator plays the same with both."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.policies import RandomFourier, Standardized

STANDARDIZED = Standardized(jnp.array([0.5, -1.0, 2.0]), jnp.array([2.0, 0.1, 1.0]))
FEATURES = {
    "standardized": STANDARDIZED,
    "fourier": RandomFourier.drawn(jax.random.key(0), STANDARDIZED, 7, 1.5),
}
KINDS = ("softmax", "correlated", "log_sigma", "precision", "logits", "means", "fixed sigma")
DISCRETE = ("softmax", "logits")
OBSERVATION = np.array([1.0, -0.95, 30.0])  # the last is clipped


def policy_and_parameters(kind, features):
    network = mn.mlp(jax.random.key(1), features.size, 2, width=5)
    policy = {
        "softmax": lambda: mn.LinearSoftmax(2, features.size, features),
        "correlated": lambda: mn.LinearGaussian([[1.0, 0.3], [0.3, 0.5]], features.size, features),
        "log_sigma": lambda: mn.Gaussian(2, features.size, features),
        "precision": lambda: mn.Gaussian(2, features.size, features, scale="precision"),
        "logits": lambda: mn.NetworkCategorical(network, features),
        "means": lambda: mn.NetworkGaussian(network, [0.3, 2.0], features=features),
        "fixed sigma": lambda: mn.NetworkGaussian(network, [0.3, 2.0], False, features),
    }[kind]()
    rng = np.random.default_rng(2)
    start = policy.initial_parameters()
    w = jax.tree.map(lambda leaf: leaf + 0.2 * jnp.asarray(rng.normal(size=leaf.shape)), start)
    return policy, w


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("kind", KINDS)
def test_actions_and_their_probabilities_are_those_of_the_policy(kind, features):
    policy, w = policy_and_parameters(kind, FEATURES[features])
    act, generator = policy.actor(w), np.random.default_rng(3)
    drawn = [act(OBSERVATION, generator) for _ in range(4000)]
    actions, logs = (np.array(column) for column in zip(*drawn, strict=True))
    found, log_prob = act(OBSERVATION, None)

    @jax.jit
    def expected(seen, actions):
        log_probs = jax.vmap(lambda action: policy.log_prob(w, seen, action))
        return policy.mode(w, seen), log_probs(actions), policy.outputs(w, seen)

    together = np.concatenate([[found], actions])
    mode, wanted, outputs = map(np.asarray, expected(OBSERVATION, together))
    single = 1e-6 if features == "fourier" else 0.0  # these have single precision
    np.testing.assert_allclose(found, mode, rtol=1e-12 + single, atol=1e-14 + single)
    np.testing.assert_allclose([log_prob, *logs], wanted, rtol=1e-9 + single, atol=1e-12 + single)
    if kind in DISCRETE:
        share, expected_share = actions.mean(), np.exp(outputs[1]) / np.exp(outputs).sum()
        assert abs(share - expected_share) < 4 * np.sqrt(0.25 / 4000)
    else:
        error = actions.std(axis=0) / np.sqrt(4000)
        assert (np.abs(actions.mean(axis=0) - mode) < 4 * error).all()
        # the entropy says that the spread is right, correlation included
        entropy = -np.asarray(wanted)[1:]
        assert abs(entropy.mean() - (1 - wanted[0])) < 4 * entropy.std() / np.sqrt(4000)


def test_what_numpy_does_not_know_is_left_to_jax():
    policy = mn.LinearSoftmax(2, 3, jnp.asarray)
    assert policy.actor(policy.initial_parameters()) is None
    network = mn.mlp(jax.random.key(0), 4, 2, width=3, activation=jax.nn.relu)
    policy = mn.NetworkCategorical(network, STANDARDIZED)
    assert policy.actor(policy.initial_parameters()) is None
    policy = mn.TabularSoftmax(3, 2)
    assert policy.actor(policy.initial_parameters()) is None


def test_extreme_logits_give_finite_probabilities():
    policy = mn.LinearSoftmax(2, 4, STANDARDIZED)
    act = policy.actor(jnp.full((2, 4), 500.0) * jnp.array([[1.0], [-1.0]]))
    for generator in (None, np.random.default_rng(0)):
        action, log_prob = act(np.array([2.5, -0.9, 3.0]), generator)
        assert (action, log_prob) == (0, 0.0)


class InJax(mn.LinearGaussian):
    """The same policy without its form in NumPy."""

    def actor(self, w):
        return None


@pytest.mark.parametrize("greedy", [True, False])
def test_a_simulator_plays_the_same_with_both(greedy):
    simulator = mn.GymnasiumSimulator("Pendulum-v1", horizon=20, unit_actions=True)
    features = Standardized(jnp.zeros(3), jnp.ones(3))
    w = jnp.array([[0.1, -0.4, 0.2, 0.3]])
    key, played = jax.random.key(5), []
    for kind in (mn.LinearGaussian, InJax):
        policy = kind([[1e-12 if greedy else 0.2]], 4, features)
        played.append(simulator.play(key, policy, w, 5, greedy=greedy))
    starts = [np.asarray(one.observations)[::20] for one in played]
    np.testing.assert_array_equal(*starts)  # the environment's seeds are the same
    assert len(np.unique(starts[0][:, 0])) == 5
    if greedy:
        rewards = [np.asarray(one.rewards) for one in played]
        np.testing.assert_allclose(*rewards, rtol=1e-6)  # actions have 32 bits there
    policy = mn.LinearGaussian([[0.2]], 4, features)
    whole = simulator.play(key, policy, w, 5, greedy=greedy)
    part = simulator.play(key, policy, w, 2, first=3, greedy=greedy)
    np.testing.assert_array_equal(np.asarray(whole.rewards)[60:], np.asarray(part.rewards))
