"""Simulators: one interface, reproducible episodes, termination and truncation apart."""

import subprocess
import sys
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import user_environments  # noqa: F401
from gymnasium.utils.env_checker import check_env
from problems import gibbs, random_mdp

import mdpnewton as mn
from mdpnewton.domains.ball_in_cup.pictures import pictures_available
from mdpnewton.domains.cartpole import CartPole, advance
from mdpnewton.domains.navigation import Navigation
from mdpnewton.environments import ENVIRONMENTS, IDS
from mdpnewton.simulators import FiniteSimulator, GymnasiumSimulator, SimulationError, UnitActions
from mdpnewton.simulators.trajectories import Trajectories, accumulated, concatenated

KEY = jax.random.key(0)
SOFTMAX = mn.LinearSoftmax(2, 1, lambda seen: seen)
PUSH = mn.LinearGaussian([[100.0]], 1, lambda seen: jnp.ones(1))


def same(one, other):
    return all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    )


def test_the_same_key_gives_the_same_episodes_and_numbers_tell_them_apart():
    simulator, w = CartPole(), jnp.zeros((1, 1))
    four = simulator.play(KEY, PUSH, w, 4)
    assert same(four, simulator.play(KEY, PUSH, w, 4))
    last = simulator.play(KEY, PUSH, w, 1, first=3)
    np.testing.assert_allclose(four.rewards[300:], last.rewards, rtol=1e-12, atol=1e-15)
    assert not same(four, simulator.play(jax.random.key(1), PUSH, w, 4))


@pytest.mark.parametrize("copies", [1, 3])
def test_gymnasium_results_do_not_depend_on_the_number_of_copies(copies):
    w = jnp.zeros((2, 1))
    reference = GymnasiumSimulator("user/Walk-v0", copies=4).play(KEY, SOFTMAX, w, 4)
    other = GymnasiumSimulator("user/Walk-v0", copies=copies).play(KEY, SOFTMAX, w, 4)
    assert same(reference, other)
    tail = GymnasiumSimulator("user/Walk-v0", copies=copies).play(KEY, SOFTMAX, w, 2, first=2)
    assert np.array_equal(tail.rewards, np.asarray(reference.rewards)[20:])


def test_termination_and_truncation_are_kept_apart():
    w = jnp.zeros((2, 1))
    over = GymnasiumSimulator("user/Walk-v0").play(KEY, SOFTMAX, w, 2)
    assert over.transitions == 20
    assert over.terminated.sum() == over.ends.sum() == 2
    cut = GymnasiumSimulator("user/Endless-v0", horizon=7).play(KEY, SOFTMAX, w, 2)
    assert (cut.transitions, cut.terminated.sum(), cut.ends.sum()) == (14, 0, 2)
    assert list(cut.times[:8]) == [0, 1, 2, 3, 4, 5, 6, 0]
    assert np.array_equal(cut.next_observations[:6], cut.observations[1:7])


def test_an_environment_without_a_limit_is_cut_at_1000_steps():
    simulator = GymnasiumSimulator("user/Endless-v0")
    assert simulator.horizon == 1000


def test_unclipped_actions_are_recorded_and_clipped_ones_are_sent():
    wild = mn.LinearGaussian([[1e4]], 1, lambda seen: jnp.ones(1))
    played = GymnasiumSimulator("Pendulum-v1").play(KEY, wild, jnp.zeros((1, 1)), 1, horizon=20)
    assert np.abs(played.actions).max() > 10  # the box ends at 2


def test_unit_actions_stand_for_the_ends_of_the_box():
    full = mn.LinearGaussian([[1e-12]], 1, lambda seen: jnp.ones(1))
    plain = CartPole().play(KEY, full, jnp.full((1, 1), 25.0), 1)
    unit = UnitActions(CartPole()).play(KEY, full, jnp.full((1, 1), 0.5), 1)
    np.testing.assert_allclose(plain.observations, unit.observations, atol=1e-3)
    one = GymnasiumSimulator("Pendulum-v1").play(KEY, full, jnp.ones((1, 1)), 1, horizon=20)
    two = GymnasiumSimulator("Pendulum-v1", unit_actions=True).play(
        KEY, full, jnp.full((1, 1), 0.5), 1, horizon=20
    )
    np.testing.assert_allclose(one.observations, two.observations, atol=1e-4)


@pytest.mark.parametrize("name", IDS)
def test_our_environments_pass_gymnasiums_checker(name):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*symmetric and normalized")  # newtons, on purpose
        mode = "rgb_array"
        if name == "ball-in-cup" and not pictures_available():
            mode = None  # pictures need OpenGL, which not every machine has
        check_env(gymnasium.make(IDS[name], render_mode=mode).unwrapped)


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium, mdpnewton.environments; gymnasium.make('{}')",
        "import mdpnewton.environments, gymnasium; gymnasium.make('{}')",
        "import gymnasium; gymnasium.make('mdpnewton.environments:{}')",
        "import mdpnewton; mdpnewton.GymnasiumSimulator('{}')",
    ],
)
def test_our_environments_are_found(code):
    command = [sys.executable, "-c", code.format(IDS["cartpole"])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_environment_says_what_one_does_in_it(name):
    row = ENVIRONMENTS[name]
    assert row.sentence.endswith(".")
    assert gymnasium.spec(row.id).max_episode_steps == row.steps
    assert type(gymnasium.make(row.id).unwrapped).__name__ == row.entry.partition(":")[2]


def test_the_environment_and_the_compiled_simulator_have_the_same_dynamics():
    environment = gymnasium.make(IDS["cartpole"]).unwrapped
    environment.reset(seed=0)
    noise = np.random.Generator(type(environment.np_random.bit_generator)(0))
    noise.bit_generator.state = environment.np_random.bit_generator.state
    state = jnp.array([jnp.pi, 0.0])
    for force in (30.0, -20.0, 5.0):
        state, expected = advance(jnp, state, force, noise.uniform(-1.0, 1.0))
        _, reward, *_ = environment.step(np.array([force], np.float32))
        np.testing.assert_allclose(environment.state, state, atol=1e-12)
        assert reward == pytest.approx(float(expected), abs=1e-12)


def test_a_finite_simulator_visits_states_as_often_as_the_occupancy_says():
    mdp = random_mdp(0, n_states=4, n_actions=2, discount=0.8)
    policy, _, w = gibbs(0, mdp, n=2)
    played = FiniteSimulator(mdp, 50).play(KEY, policy, jnp.asarray(w), 4000)
    weights = np.asarray(played.discounts(0.8)) / 4000
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, jnp.asarray(w))
    found = np.zeros((4, 2))
    np.add.at(found, (np.asarray(played.observations), np.asarray(played.actions)), weights)
    np.testing.assert_allclose(found, pairs.occupancy, atol=0.03)


@pytest.mark.parametrize("shape", [(), (3,)])
def test_accumulated_is_the_plain_loop_backwards(shape):
    rng = np.random.default_rng(0)
    n = 40
    terms, decay = rng.normal(size=(n, *shape)), rng.random(n)
    ends, valid = rng.random(n) < 0.2, rng.random(n) < 0.9
    zeros, over = jnp.zeros(n), jnp.asarray(ends)
    data = Trajectories(*(zeros,) * 4, over, over, zeros.astype(int), zeros, jnp.asarray(valid))
    expected, following = np.zeros((n, *shape)), np.zeros(shape)
    for t in reversed(range(n)):
        on = 0.0 if ends[t] or not valid[t] else decay[t]
        following = (terms[t] if valid[t] else 0.0) + on * following
        expected[t] = following
    found = accumulated(jnp.asarray(terms), jnp.asarray(decay), data)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_joining_keeps_the_valid_rows_and_few_lengths():
    lengths = set()
    for episodes in range(1, 30):
        batch = GymnasiumSimulator("user/Walk-v0").play(KEY, SOFTMAX, jnp.zeros((2, 1)), 1)
        whole = concatenated([batch] * episodes)
        assert (whole.transitions, whole.episodes) == (10 * episodes, episodes)
        np.testing.assert_allclose(whole.returns(), batch.returns().repeat(episodes))
        lengths.add(whole.rewards.shape[0])
    assert len(lengths) <= 16


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NoSuch-v0", "there is no environment"),
        ("no_such_module:X-v0", "cannot import"),
        ("user/Image-v0", "image (8x8x3) observations"),
        ("user/DictImage-v0", "image (4x4) observations"),
        ("user/Text-v0", "Text observations"),
        ("user/DictActions-v0", "Dict actions"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(name, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)")) as refused:
        GymnasiumSimulator(name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("fault", ["Raises", "NaNReward", "NaNObservation"])
def test_a_fault_in_mid_episode_is_named(fault):
    simulator = GymnasiumSimulator(f"user/{fault}-v0", copies=1)
    with pytest.raises(SimulationError, match="in step"):
        simulator.play(KEY, SOFTMAX, jnp.zeros((2, 1)), 400)


def test_the_zero_force_returns_of_the_facts():
    # Explicit Euler pumps energy into the pole: 15.5 for the zero policy.
    still = mn.LinearGaussian([[1e-12]], 1, lambda seen: jnp.zeros(1))
    returns = CartPole().play(KEY, still, jnp.zeros((1, 1)), 2000).returns(0.99)
    assert abs(returns.mean() - 15.5) < 4 * returns.std() / 2000**0.5 + 0.1


def test_navigation_is_the_benchmark_of_vlassis():
    gain = mn.NoisyGain(1, 2, 2.0)
    w = jnp.array([[8.8, -3.2]])
    returns = Navigation().play(KEY, gain, w, 4000, horizon=300, greedy=True).returns(0.95)
    assert abs(returns.mean() - 8.46) < 4 * returns.std() / 4000**0.5 + 0.005
