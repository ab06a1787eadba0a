"""Features that follow the observations: what the policy does stays as it is."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.evaluators import NetworkCritic
from mdpnewton.files.states import load_state, save_state
from mdpnewton.policies import RandomFourier, Standardized
from mdpnewton.training import following
from mdpnewton.training.following import due, follow, turn, turned
from mdpnewton.training.state import Training
from mdpnewton.training.train import begin, proceed

SMALL = mn.Preset(features=20, least_transitions=200, episodes=2, hidden=8)


class Slide(gymnasium.Env):
    """A point that begins near 0 and is paid to go far: what is seen leaves the first batch."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = np.array([0.0, self.np_random.uniform(-1, 1)]), 0
        return self.place.copy(), {}

    def step(self, action):
        self.place = self.place + np.array([float(np.clip(action[0], -1, 1)), 0.0])
        self.time += 1
        return self.place.copy(), float(self.place[0]), False, self.time == 20, {}


def begun(kind, seed=0, preset=SMALL):
    simulator = mn.GymnasiumSimulator(Slide, horizon=20, unit_actions=True)
    return begin(simulator, kind, seed, preset)


def visited(training):
    data = training.evaluator.memory.all()
    return data.observations[np.asarray(data.valid)]


def outputs(training, w, observations):
    return np.asarray(jax.vmap(training.policy.outputs, (None, 0))(w, observations))


def same_bits(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


def test_one_standardisation_is_exactly_affine_in_another():
    rng = np.random.default_rng(0)
    before = Standardized(jnp.array([1.0, -2.0]), jnp.array([0.5, 3.0]), 5.0)
    after = Standardized(jnp.array([2.0, 0.0]), jnp.array([1.0, 6.0]), 5.0)
    seen = rng.uniform(-1, 3, (50, 2))  # nothing is clipped
    old, new = (np.asarray(jax.vmap(f)(jnp.asarray(seen))) for f in (before, after))
    matrix = turn(before, after, old, new)
    np.testing.assert_allclose(matrix @ new.T, old.T, atol=1e-12)
    elsewhere = jnp.array([-1.4, 8.0])  # where nothing was seen and nothing is clipped
    np.testing.assert_allclose(matrix @ after(elsewhere), before(elsewhere), atol=1e-12)


def test_the_turn_is_a_ridge_regression_on_what_affine_leaves():
    rng = np.random.default_rng(1)
    before = Standardized(jnp.zeros(2), jnp.ones(2), 5.0)
    after = Standardized(jnp.array([1.0, 0.0]), jnp.array([2.0, 1.5]), 5.0)
    features = RandomFourier.drawn(jax.random.key(0), before, 7, 1.0)
    wide = RandomFourier(after, features.frequencies, features.phases)
    seen = rng.normal(size=(40, 2)) * 3
    old, new = (np.asarray(jax.vmap(f)(jnp.asarray(seen))) for f in (features, wide))
    start = np.eye(10)
    start[1, :2], start[2, 2] = (1.0, 2.0), 1.5
    ridge = following.RIDGE * np.trace(new.T @ new) / 10
    stacked = np.vstack([new, np.sqrt(ridge) * np.eye(10)])
    rest = np.vstack([old - new @ start.T, np.zeros((10, 10))])
    expected = start + np.linalg.lstsq(stacked, rest, rcond=None)[0].T
    np.testing.assert_allclose(turn(before, after, old, new), expected, atol=1e-8)


def test_features_are_due_when_the_transitions_have_doubled():
    training = begun("linear")
    first = training.evaluator.memory.transitions
    assert training.anchors == [first]
    for played, wanted in ((first, False), (2 * first - 1, False), (2 * first, True)):
        training.evaluator.memory.transitions = played
        assert due(training) is wanted
    training.kind = "own"
    assert not due(training)


@pytest.mark.parametrize("kind", ["linear", "rbf", "mlp"])
def test_the_policy_and_the_critic_stay_as_they_are(kind):
    training = begun(kind)
    proceed(training, iterations=1)
    training.evaluator.memory.transitions = 2 * training.anchors[-1]
    seen, w, best = visited(training), training.w, training.recent[0][1]
    critic = training.evaluator.critic
    values = np.asarray(critic.critics[1].values(seen))
    before, recent = outputs(training, w, seen), outputs(training, best, seen)
    follow(training)
    found = training.features.standardized
    np.testing.assert_allclose(found.mean, seen.mean(0))
    np.testing.assert_allclose(found.scale, seen.std(0))
    change = outputs(training, training.w, seen) - before
    assert np.abs(change).max() < (1e-12 if kind == "linear" else 0.2)
    assert np.sqrt((change**2).mean()) < 0.05
    moved = outputs(training, training.recent[0][1], seen) - recent
    assert np.sqrt((moved**2).mean()) < 0.05
    assert training.anchors[-1] == training.evaluator.memory.transitions
    network = training.evaluator.critic.critics[1]
    assert isinstance(network, NetworkCritic)
    spread = values.std() + 1e-6
    np.testing.assert_allclose(network.values(seen), values, atol=0.02 * spread)
    assert same_bits(network.features, found)


def test_softmax_parameters_turn_too():
    matrix = np.array([[1.0, 0.5], [0.0, 2.0]])
    w = jnp.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_allclose(turned("linear", w, matrix), np.asarray(w) @ matrix)
    gaussian = {"mean": w, "scale": jnp.ones(3)}
    found = turned("rbf", gaussian, matrix)
    np.testing.assert_allclose(found["mean"], np.asarray(w) @ matrix)
    np.testing.assert_array_equal(found["scale"], 1)
    network = eqx.filter(mn.mlp(jax.random.key(0), 2, 1, 2), eqx.is_inexact_array)
    after = turned("mlp", network, matrix)
    np.testing.assert_allclose(
        after.layers[0].weight, np.asarray(network.layers[0].weight) @ matrix
    )
    assert same_bits(after.layers[1:], network.layers[1:])


def test_a_policy_that_would_change_stays_where_it_is(monkeypatch):
    training = begun("rbf")
    proceed(training, iterations=1)
    monkeypatch.setattr(following, "MOST", -1.0)
    before, w = training.features, training.w
    training.evaluator.memory.transitions = 2 * training.anchors[-1]
    follow(training)
    assert training.features is before
    assert training.w is w
    assert not due(training)  # the next look is at twice as many transitions


def test_what_was_out_of_range_in_the_first_batch_is_seen_in_the_end():
    training = begun("rbf")
    first = training.features.standardized
    proceed(training, transitions=3000)
    assert len(training.anchors) >= 3
    far = visited(training)[:, 0].max()
    clipped = (far - float(first.mean[0])) / float(first.scale[0])
    found = training.features.standardized
    assert clipped > 2.5
    assert (far - float(found.mean[0])) / float(found.scale[0]) < 0.8 * clipped


@pytest.mark.parametrize("kind", ["rbf", "mlp"])
@pytest.mark.parametrize("stops", [(1,), (2, 3), (4,)])
def test_a_training_whose_features_followed_resumes_bit_for_bit(kind, stops, tmp_path):
    whole = proceed(begun(kind, seed=3), iterations=6)
    assert len(whole.anchors) >= 2
    part = begun(kind, seed=3)
    for number, iterations in enumerate((*stops, 6)):
        proceed(part, iterations=iterations)
        save_state(tmp_path / f"{number}.npz", part.state())
        simulator = mn.GymnasiumSimulator(Slide, horizon=20, unit_actions=True)
        part = Training.restored(load_state(tmp_path / f"{number}.npz"), simulator)
    assert part.anchors == whole.anchors
    assert same_bits(part.w, whole.w)
    assert same_bits(part.features, whole.features)
    assert repr(part.history) == repr(whole.history)
