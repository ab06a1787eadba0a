"""Training on environments and with policies that are given as objects."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import user_environments
from user_environments import Walk

import mdpnewton as mn
from mdpnewton.domains.cartpole import CartPole
from mdpnewton.environments.names import simulator_of
from mdpnewton.training.state import Training
from mdpnewton.training.train import begin
from mdpnewton.training.verdict import cut_off

SMALL = mn.Preset(features=20, hidden=8)
HOW = {"iterations": 1, "policy": "linear", "preset": SMALL}


def flat(training):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(training.w)])


def vector(make=lambda: gymnasium.make("CartPole-v1")):
    return gymnasium.vector.SyncVectorEnv([make, make])


def test_an_environment_trains_the_same_however_it_is_given():
    wanted = flat(mn.train("CartPole-v1", **HOW))
    ways = {
        "an instance": gymnasium.make("CartPole-v1"),
        "a function": lambda: gymnasium.make("CartPole-v1"),
        "a vector": vector(),
        "a vector of its own kind": gymnasium.make_vec("CartPole-v1", 2),
    }
    for name, environment in ways.items():
        training = mn.train(environment, **HOW)
        np.testing.assert_array_equal(flat(training), wanted, err_msg=name)
        assert training.environment == ""
        assert training.simulator.horizon == 500


def test_a_class_is_an_environment_too():
    assert simulator_of(Walk).name == "Walk"
    assert simulator_of(Walk()).name == "Walk"
    assert simulator_of(gymnasium.make("user/Walk-v0")).name == "user/Walk-v0"
    simulator = simulator_of(CartPole)
    np.testing.assert_array_equal(simulator.spaces.high, [1.0])
    assert type(simulator_of("cartpole")) is type(simulator)


def test_a_training_says_that_episodes_were_cut_off_where_nobody_gave_a_limit():
    policy = mn.LinearSoftmax(2, 2, mn.Standardized(jnp.zeros(1), jnp.ones(1)))
    for options, said in (
        ({}, "2 of 2 episodes were cut off after 1000 steps"),
        ({"horizon": 9}, ""),
    ):
        simulator = mn.GymnasiumSimulator(lambda: Walk(limit=10**6), **options)
        batch = simulator.play(jax.random.key(0), policy, policy.initial_parameters(), 2)
        assert "".join(cut_off(simulator, batch)).startswith(said)
        assert bool(said) == bool(cut_off(simulator, batch))


def test_wrappers_of_a_vector_are_made_again():
    ends = np.float32([-7.0, 7.0])

    def wrapped():
        return gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), *ends)

    simulator = simulator_of(vector(wrapped))
    assert simulator.interface.spaces.high == [7.0]


def broken():
    raise RuntimeError("no licence\nfor this")


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (None, r"`train\(environment=...\)` needs an environment, got None; pass a Gymnasium id"),
        (3, "got 3; pass a Gymnasium id"),
        (int, "'int' cannot be made: 0 is no environment of Gymnasium, it has no `observation_sp"),
        (broken, "'broken' cannot be made: it raised RuntimeError: no licence for this"),
        (lambda: None, "None is no environment of Gymnasium"),
        (vector(Walk), "has no specification of a single environment; pass a function that makes"),
    ],
)
def test_what_is_no_environment_gets_one_line(environment, words):
    with pytest.raises(ValueError, match=words) as caught:
        mn.train(environment, **HOW)
    assert "\n" not in str(caught.value)


class Curve(mn.Policy):
    """A policy that nothing is known of: its mean is curved, its spread is fixed."""

    log_concave = False
    blockwise_log_concave = False
    constant_curvature = False

    def mode(self, w, state):
        return jnp.tanh(w["weights"] @ state)[None]

    def log_prob(self, w, state, action):
        return -2.0 * jnp.sum((action - self.mode(w, state)) ** 2)

    def sample(self, key, w, state):
        return self.mode(w, state) + 0.5 * jax.random.normal(key, (1,))

    def outputs(self, w, state):
        return self.mode(w, state)

    def output_fisher(self, outputs, u):
        return 4.0 * u

    def initial_parameters(self):
        return {"weights": jnp.zeros(3)}


OWN = {
    "Pendulum-v1": {
        "subclass": Curve(),
        "linear": mn.LinearGaussian([[0.25]], 3),
    },
    "user/Walk-v0": {"softmax": mn.LinearSoftmax(2, 2, mn.Standardized(jnp.zeros(1), jnp.ones(1)))},
}


@pytest.mark.parametrize(
    ("name", "which"), [(name, which) for name, group in OWN.items() for which in group]
)
def test_a_policy_of_ones_own_trains_is_saved_and_acts(name, which, tmp_path):
    policy = OWN[name][which]
    training = mn.train(name, policy=policy, iterations=1, preset=SMALL)
    assert training.kind == "own"
    assert training.policy is policy
    assert np.isfinite(flat(training)).all()
    assert (flat(training) != 0).any()
    file = training.save(tmp_path)
    with pytest.raises(ValueError, match=r"`load\(policy=...\)` is needed: the training was begun"):
        mn.load(file)
    loaded = mn.load(file, policy=policy)
    space = gymnasium.make(name).action_space
    box = training.simulator.interface.spaces
    for seen in np.random.default_rng(0).normal(size=(20, training.simulator.spaces.observation)):
        mode = np.asarray(policy.mode(training.played, jnp.asarray(seen)))
        seen = seen.astype(np.float32)
        action = loaded.act(seen, greedy=True)
        assert space.contains(action)
        if box.continuous:
            wanted = np.clip(box.middle() + box.half_range() * mode, box.low, box.high)
            np.testing.assert_allclose(action, wanted, atol=1e-5)
        assert space.contains(loaded.act(seen, greedy=False))
        assert loaded.act(np.stack([seen, seen]), greedy=False).shape[0] == 2
    if which == "subclass":
        with pytest.raises(ValueError, match="got Curve; act with what `load` returns"):
            loaded.export(tmp_path / "alone")
    else:
        assert loaded.export(tmp_path / "alone").is_file()


def test_a_training_of_ones_own_policy_goes_on_bit_for_bit():
    whole = mn.train("Pendulum-v1", policy=Curve(), iterations=2, preset=SMALL)
    half = mn.train("Pendulum-v1", policy=Curve(), iterations=1, preset=SMALL)
    with pytest.raises(ValueError, match=r"`Training.restored\(policy=...\)` is needed"):
        Training.restored(half.state())
    again = Training.restored(half.state(), policy=Curve())
    np.testing.assert_array_equal(flat(mn.proceed(again, iterations=2)), flat(whole))
    state = begin(simulator_of("CartPole-v1"), "linear", 0, SMALL).state()
    with pytest.raises(ValueError, match="is for policies of one's own, this is 'linear'"):
        Training.restored(state, policy=Curve())


def test_it_is_told_the_time_if_the_preset_says_so():
    policy = mn.LinearGaussian([[0.25]], 4)
    training = begin(simulator_of("Pendulum-v1"), policy, 0, mn.Preset(features=20, deadline=200))
    assert training.simulator.spaces.observation == 4


class Half(Curve):
    def mode(self, w, state):
        return jnp.zeros(2)


class WithoutOutputs(Curve):
    def outputs(self, w, state):
        return mn.Policy.outputs(self, w, state)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (mn.LinearGaussian([[0.2]], 4), "`LinearGaussian.sample` fails with an observation of len"),
        (mn.LinearSoftmax(2, 3, lambda state: state), r"of a float type and of shape \(1,\), its"),
        (Half(), r"its `sample` gives float64 of shape \(2,\)"),
        (WithoutOutputs(), "`WithoutOutputs` offers no `outputs`"),
        (Curve, "must be one of 'linear', 'rbf', 'mlp', got <class"),
        ("tree", "must be one of 'linear', 'rbf', 'mlp', got 'tree'"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused_before_anything_is_played(policy, words):
    class Untouched(gymnasium.Wrapper):
        def reset(self, **options):
            raise AssertionError("it played")

    with pytest.raises(ValueError, match=words) as caught:
        mn.train(Untouched(gymnasium.make("Pendulum-v1")), policy=policy, iterations=1)
    assert "\n" not in str(caught.value)
    assert user_environments  # registers Walk
