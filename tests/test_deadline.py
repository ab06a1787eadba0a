"""Tasks in which the time matters: they are recognised, and the policy is told the time."""

from concurrent.futures import ThreadPoolExecutor

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.domains.cartpole import CartPole
from mdpnewton.environments.names import simulator_of
from mdpnewton.simulators import Distributed, Timed, UnitActions, timed, with_time
from mdpnewton.training.deadline import deadline_of
from mdpnewton.training.train import begin, train

STEPS = 8


class Approach(gymnasium.Env):
    """A point on a line whose place pays in the end; how it ends is said at the beginning."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float64)

    def __init__(self, *, terminates=False, pays_always=False, limit=STEPS):
        self.terminates, self.pays_always, self.limit = terminates, pays_always, limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.time = self.np_random.uniform(-1, 1), 0
        return np.array([self.place]), {}

    def step(self, action):
        self.place += 0.3 * float(action[0])
        self.time += 1
        last = self.time == self.limit
        reward = -abs(self.place) if last or self.pays_always else 0.0
        over = (last and self.terminates, last and not self.terminates)
        return np.array([self.place]), reward, *over, {}


class Dash(Approach):
    """A point that should stay where it is, and be far to the right in the end."""

    def step(self, action):
        seen, _, *over, about = super().step(action)
        last = self.time == self.limit
        return seen, 4 * self.place if last else -(self.place**2), *over, about


def simulated(task=Approach, **how):
    return mn.GymnasiumSimulator(lambda: task(**how), horizon=STEPS, unit_actions=True)


def played(simulator, episodes=6):
    policy = mn.LinearGaussian(np.eye(1), simulator.spaces.observation)
    return simulator.play(jax.random.key(0), policy, policy.initial_parameters(), episodes)


@pytest.mark.parametrize("terminates", [False, True])
@pytest.mark.parametrize("pays_always", [False, True])
def test_time_matters_if_the_end_terminates_or_pays(terminates, pays_always):
    batch = played(simulated(terminates=terminates, pays_always=pays_always))
    matters = terminates or not pays_always
    assert deadline_of(batch) == (STEPS if matters else 0)


def test_time_does_not_matter_on_the_domains_or_where_lengths_differ():
    assert deadline_of(played(simulator_of("cartpole"))) == 0
    assert deadline_of(played(simulator_of("navigation"))) == 0
    cart = mn.GymnasiumSimulator("CartPole-v1")
    policy = mn.LinearSoftmax(2, 4, jnp.asarray)
    batch = cart.play(jax.random.key(0), policy, policy.initial_parameters(), 6)
    assert deadline_of(batch) == 0


def test_a_batch_with_time_is_what_the_timed_simulator_plays():
    class Blind:  # the same actions whatever is seen
        def sample(self, key, w, seen):
            return jax.random.normal(key, (1,))

        def log_prob(self, w, seen, action):
            return jnp.zeros(())

    compiled = UnitActions(CartPole())
    for plain in (simulated(), simulated(terminates=True), compiled):
        steps = plain.horizon
        own = timed(plain, steps)
        batch = with_time(plain.play(jax.random.key(1), Blind(), None, 3), steps)
        for name in ("observations", "next_observations", "terminated", "ends", "rewards"):
            found = getattr(own.play(jax.random.key(1), Blind(), None, 3), name)
            np.testing.assert_allclose(found, getattr(batch, name), atol=1e-12)
        last = np.asarray(batch.ends)
        assert np.asarray(batch.terminated)[last].all()
        np.testing.assert_allclose(batch.next_observations[last, -1], 1.0)
        np.testing.assert_allclose(batch.observations[::steps, -1], 0.0)


def test_an_episode_may_outlast_its_usual_length():
    longer = mn.GymnasiumSimulator(lambda: Approach(limit=2 * STEPS), horizon=2 * STEPS)
    batch = played(timed(longer, STEPS), 1)
    assert batch.transitions == 2 * STEPS
    np.testing.assert_allclose(batch.next_observations[-1, -1], 2.0)


def test_the_timed_simulator_of_others_tells_the_time_too():
    with ThreadPoolExecutor(2) as pool:
        parts = [Distributed(one, pool, 2) for one in (simulated(), simulator_of("cartpole"))]
        for part in parts:
            found = timed(part, STEPS)
            assert found.spaces.observation == part.spaces.observation + 1
            assert timed(found, STEPS).spaces == found.spaces
    with pytest.raises(ValueError, match="cannot tell the time of a object"):
        timed(object(), STEPS)


def test_training_finds_the_deadline_and_learns_with_it():
    """It runs in the last steps, which a policy that does not know the time cannot."""
    simulator, found = simulated(Dash, terminates=True), []
    for deadline in (None, 0):
        preset = mn.Preset(deadline=deadline, features=20)
        training = train(simulator, transitions=4000, preset=preset)
        assert training.preset.deadline == (STEPS if deadline is None else 0)
        found.append(training.play(jax.random.key(5), 40).returns().mean())
    assert found[0] > found[1] + 1


def test_a_training_with_a_deadline_is_restored():
    preset = mn.Preset(deadline=100, features=8, least_transitions=100)
    training = train("cartpole", policy="linear", iterations=1, preset=preset)
    again = mn.Training.restored(training.state())
    assert isinstance(again.simulator, Timed)
    play = [one.play(jax.random.key(1), 2).rewards for one in (training, again)]
    np.testing.assert_array_equal(*play)
    known = mn.Training.restored(training.state(), training.simulator)
    assert known.simulator is training.simulator


def test_a_simulator_of_another_class_is_trained_on_without_the_time():
    class Own:
        def __init__(self, inside):
            self.spaces, self.horizon, self.play = inside.spaces, inside.horizon, inside.play

    training = begin(Own(simulated()), "linear", 0)
    assert training.preset.deadline == 0
    assert training.features.standardized.mean.shape == (1,)


def test_begin_counts_the_blind_batch_once():
    training = begin(simulated(), "linear", 0)
    assert training.evaluator.memory.transitions == training.evaluator.memory.batches[0].transitions
    assert training.features.standardized.mean.shape == (2,)
