"""Several choices at once: the policy against sums over its factors, and training with it."""

import itertools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.training.train import train

SIZES = (2, 1, 3)
ALL = np.array(list(itertools.product(*map(range, SIZES))))
STANDARDIZED = mn.Standardized(jnp.array([0.5, -1.0]), jnp.array([2.0, 0.1]))
SEEN = jnp.array([0.3, -0.9])
KINDS = ("linear", "mlp")


def policy_and_parameters(kind):
    if kind == "linear":
        inside = mn.LinearSoftmax(sum(SIZES), 3, STANDARDIZED)
    else:
        inside = mn.NetworkCategorical(mn.mlp(jax.random.key(0), 3, sum(SIZES), 4), STANDARDIZED)
    policy, draws = mn.Product(inside, SIZES), np.random.default_rng(1)
    start = policy.initial_parameters()
    return policy, jax.tree.map(lambda leaf: leaf + draws.normal(size=leaf.shape), start)


def factors(policy, w):
    logits = np.asarray(policy.policy.logits(w, SEEN))
    parts = np.split(logits, np.cumsum(SIZES)[:-1])
    return [np.exp(part) / np.exp(part).sum() for part in parts]


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_products_and_sum_to_one(kind):
    policy, w = policy_and_parameters(kind)
    found = np.exp(jax.vmap(lambda a: policy.log_prob(w, SEEN, a))(ALL))
    by_hand = [np.prod([p[a] for p, a in zip(factors(policy, w), row, strict=True)]) for row in ALL]
    np.testing.assert_allclose(found, by_hand, rtol=1e-12)
    np.testing.assert_allclose(found.sum(), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(policy.mode(w, SEEN), ALL[np.argmax(by_hand)])


@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_these_probabilities(kind):
    policy, w = policy_and_parameters(kind)
    keys = jax.random.split(jax.random.key(2), 4000)
    compiled = np.asarray(jax.vmap(lambda key: policy.sample(key, w, SEEN))(keys))
    act, generator = policy.actor(w), np.random.default_rng(3)
    drawn = [act(np.asarray(SEEN), generator) for _ in range(4000)]
    plain = np.array([action for action, _ in drawn])
    for actions in (compiled, plain):
        for entry, p in enumerate(factors(policy, w)):
            share = np.bincount(actions[:, entry], minlength=len(p)) / len(actions)
            np.testing.assert_allclose(share, p, atol=4 * np.sqrt(0.25 / 4000))
    wanted = jax.vmap(lambda a: policy.log_prob(w, SEEN, a))(plain)
    np.testing.assert_allclose([one for _, one in drawn], wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(act(np.asarray(SEEN), None)[0], policy.mode(w, SEEN))


@pytest.mark.parametrize("kind", KINDS)
def test_divergence_and_fisher_matrix_are_sums_over_all_actions(kind):
    policy, w = policy_and_parameters(kind)
    v = jax.tree.map(lambda leaf: leaf * 1.1, w)
    here, there = (
        np.asarray(jax.vmap(lambda a, x=x: policy.log_prob(x, SEEN, a))(ALL)) for x in (w, v)
    )
    np.testing.assert_allclose(policy.kl(w, v, SEEN), np.exp(here) @ (here - there), rtol=1e-10)
    z = policy.outputs(w, SEEN)

    def log_probs(z):
        parts = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
        every = [jax.nn.log_softmax(z[part]) for part in parts]
        return jnp.stack([sum(p[a] for p, a in zip(every, row, strict=True)) for row in ALL])

    scores = np.asarray(jax.jacobian(log_probs)(z))
    fisher = np.einsum("n,ni,nj->ij", np.exp(here), scores, scores)
    columns = jax.vmap(lambda u: policy.output_fisher(z, u))(jnp.eye(sum(SIZES)))
    np.testing.assert_allclose(columns, fisher, atol=1e-12)


def test_it_declares_what_the_policy_inside_declares():
    linear, network = (policy_and_parameters(kind)[0] for kind in KINDS)
    assert linear.log_concave
    assert linear.blockwise_log_concave
    assert linear.constant_curvature
    assert not network.log_concave
    assert not network.blockwise_log_concave
    assert not network.constant_curvature


def test_the_curvature_does_not_depend_on_the_action_and_is_concave():
    policy, w = policy_and_parameters("linear")
    flat, unravel = jax.flatten_util.ravel_pytree(w)
    bend = jax.vmap(lambda a: jax.hessian(lambda x: policy.log_prob(unravel(x), SEEN, a))(flat))(
        ALL
    )
    np.testing.assert_allclose(bend, np.broadcast_to(bend[0], bend.shape), atol=1e-12)
    assert np.linalg.eigvalsh(bend[0]).max() < 1e-12


def test_logits_that_do_not_fit_are_refused():
    policy = mn.Product(mn.LinearSoftmax(4, 2, jnp.asarray), (2, 3))
    with pytest.raises(ValueError, match="add up to 5, not to 4 logits"):
        policy.log_prob(policy.initial_parameters(), SEEN, jnp.zeros(2, int))


class Lights(gymnasium.Env):
    """Rewards every lamp that is set as the observation says, for eight steps."""

    observation_space = gymnasium.spaces.MultiBinary(2)

    def __init__(self, actions):
        self.action_space = actions

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._look(), {}

    def _look(self):
        self.wanted = self.np_random.integers(2, size=2).astype(np.int8)
        return self.wanted

    def step(self, action):
        assert self.action_space.contains(action), action
        chosen = np.ravel(action - getattr(self.action_space, "start", 0))
        self.steps += 1
        reward = float((chosen == self.wanted).sum())
        return self._look(), reward, False, self.steps == 8, {}


SPACES = {
    "choices": gymnasium.spaces.MultiDiscrete([2, 3], start=[1, -4]),
    "table": gymnasium.spaces.MultiDiscrete([[2], [3]]),
    "switches": gymnasium.spaces.MultiBinary(2),
    "grid": gymnasium.spaces.MultiBinary([1, 2]),
}


@pytest.mark.parametrize(
    ("space", "policy"), [*((name, "linear") for name in SPACES), ("table", "mlp")]
)
def test_training_learns_all_choices(space, policy):
    simulator = mn.GymnasiumSimulator(lambda: Lights(SPACES[space]), unit_actions=True)
    training = train(
        simulator, policy=policy, iterations=12, preset=mn.Preset(features=20, hidden=8)
    )
    returns = training.play(jax.random.key(1), 20).returns()
    assert returns.mean() > 14.5  # of 16; random choices have 8 or less
