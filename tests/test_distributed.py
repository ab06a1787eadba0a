"""Episodes and evaluations by others: the same bits whoever makes them, and however many."""

import math
import multiprocessing
import sys
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import gymnasium
import jax
import jax.numpy as jnp
import noisy_environment
import numpy as np
import pytest
from problems import random_mdp

import mdpnewton as mn
from mdpnewton.domains.cartpole import CartPole
from mdpnewton.domains.tetris import Survival, estimate, play
from mdpnewton.domains.tetris.policy import soft_start
from mdpnewton.executors import ClusterLostError
from mdpnewton.jobs import Here, Processes
from mdpnewton.simulators import UnitActions
from mdpnewton.simulators.trajectories import concatenated
from mdpnewton.training.black_box import maximize, minimize

KEY = jax.random.key(3)
NOISY, BROKEN = "noisy_environment:Noisy-v0", "noisy_environment:Broken-v0"


def constant(seen):
    """Features that a module defines can be sent; a lambda cannot."""
    return jnp.append(seen, 1.0)


def new_environment():
    return noisy_environment.Noisy()


STEER = mn.LinearGaussian([[0.2]], 3, constant)
W = jnp.array([[-0.3, 0.1, 0.05]])
PUSH = mn.LinearGaussian([[100.0]], 3, constant)


def finite():
    mdp = random_mdp(0, n_states=4, n_actions=2, discount=0.8)
    return mn.FiniteSimulator(mdp, 7), mn.TabularSoftmax(4, 2), jnp.zeros((4, 2))


CASES = {
    "gymnasium": lambda: (mn.GymnasiumSimulator(NOISY, copies=2), STEER, W),
    "function": lambda: (mn.GymnasiumSimulator(new_environment, copies=4, horizon=9), STEER, W),
    "compiled": lambda: (CartPole(), PUSH, W),
    "unit": lambda: (UnitActions(CartPole()), STEER, W),
    "finite": finite,
}


@pytest.fixture(scope="module")
def spawned():
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.fixture(scope="module")
def executors(spawned):
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(3) as three, Processes(2) as ours:
        yield {"here": Here(), "one": one, "three": three, "spawned": spawned, "ours": ours}


def naive(simulator, policy, w, episodes, chunk, first=0, **options):
    """Chunks played here one by one; of the last one only some episodes are wanted."""
    parts = []
    for begin in range(first, first + episodes, chunk):
        part = simulator.play(KEY, policy, w, chunk, first=begin, **options)
        wanted = np.asarray(part.valid) & (np.asarray(part.episode) < first + episodes - begin)
        parts.append(jax.tree.map(lambda leaf, rows=wanted: leaf[rows], part))
    return concatenated(parts)


def same(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("who", ["here", "one", "three", "spawned", "ours"])
def test_chunks_have_the_same_bits_whoever_plays_them(case, who, executors):
    simulator, policy, w = CASES[case]()
    together = mn.Distributed(simulator, executors[who], chunk=4)
    played = together.play(KEY, policy, w, 10, first=3)
    assert played.episodes == 10
    assert same(played, naive(simulator, policy, w, 10, 4, first=3))


def test_it_is_a_simulator_with_the_options_of_one(executors):
    simulator = mn.GymnasiumSimulator(NOISY, copies=2)
    together = mn.Distributed(simulator, executors["three"], chunk=2)
    assert isinstance(together, mn.Simulator)
    assert (together.spaces, together.horizon) == (simulator.spaces, 15)
    options = {"horizon": 5, "greedy": True}
    played = together.play(KEY, STEER, W, 4, **options)
    assert same(played, naive(simulator, STEER, W, 4, 2, **options))
    assert played.times.max() == 4
    mean = mn.MonteCarlo(together, 0.9, episodes=4).evaluate(KEY, STEER, W).objective
    assert np.isfinite(mean)
    together.close()


def test_bits_of_a_whole_play_are_those_of_larger_chunks():
    """As the facts about vectorised programs say: from two episodes on the width has no effect."""
    simulator = mn.GymnasiumSimulator(NOISY, copies=4)
    played = mn.Distributed(simulator, Here(), chunk=4).play(KEY, STEER, W, 8)
    assert same(played, concatenated([simulator.play(KEY, STEER, W, 8)]))


def environments_made(_):
    return noisy_environment.Noisy.made


def test_environments_are_built_once_per_worker():
    simulator = mn.GymnasiumSimulator(NOISY, copies=2)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        together = mn.Distributed(simulator, executor, chunk=2)
        for _ in range(3):
            together.play(KEY, STEER, W, 6)
        assert executor.submit(environments_made, 0).result() == 2


class Sharing:
    """An executor with `share`, as a cluster has it; keys never arrive as objects."""

    def __init__(self):
        self.shared, self.sent = [], []

    def share(self, value):
        self.shared.append(value)
        return ("shared", len(self.shared) - 1)

    def submit(self, function, *arguments):
        self.sent.append(arguments)
        assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(arguments))
        given = [self.shared[one[1]] if one[:1] == ("shared",) else one for one in arguments[:2]]
        future = Future()
        future.set_result(function(*given, *arguments[2:]))
        return future


def test_policy_and_parameters_are_shared_once():
    executor = Sharing()
    together = mn.Distributed(mn.GymnasiumSimulator(NOISY, copies=2), executor, chunk=2)
    for _ in range(2):
        together.play(KEY, STEER, W, 6)
    assert len(executor.sent) == 6
    assert len(executor.shared) == 2  # the simulator, and the policy with its parameters
    together.play(jax.random.key(4), STEER, W + 0, 2)  # equal numbers
    assert len(executor.shared) == 2
    together.play(KEY, STEER, W + 1, 2)
    together.play(KEY, PUSH, W + 1, 2)
    assert len(executor.shared) == 4


@pytest.mark.parametrize("who", ["here", "three", "spawned", "ours"])
def test_an_error_of_the_environment_arrives_as_it_was(who, executors):
    simulator = mn.GymnasiumSimulator(BROKEN, copies=2)
    with pytest.raises(mn.SimulationError) as alone:
        simulator.play(KEY, STEER, W, 20)
    with pytest.raises(mn.SimulationError) as told:
        mn.Distributed(simulator, executors[who], chunk=2).play(KEY, STEER, W, 20)
    assert str(told.value) == str(alone.value)
    assert "raised RuntimeError in step 4: the motor is off" in str(told.value)


def test_what_cannot_be_sent_is_one_line_with_the_remedy(spawned, executors):
    made = mn.GymnasiumSimulator(lambda: noisy_environment.Noisy(), copies=2)
    loose = mn.LinearGaussian([[0.2]], 3, lambda seen: jnp.append(seen, 1.0))
    for who in (spawned, executors["ours"]):
        for what, simulator, policy in (
            ("the simulator", made, STEER),
            ("the policy", mn.GymnasiumSimulator(NOISY), loose),
        ):
            with pytest.raises(ValueError, match=f"^{what} cannot be sent to another") as refused:
                mn.Distributed(simulator, who, chunk=2).play(KEY, policy, W, 4)
            assert "at the top level of a module" in str(refused.value)
            assert "\n" not in str(refused.value)
    played = mn.Distributed(made, executors["three"], chunk=2).play(KEY, loose, W, 4)
    assert same(played, naive(made, loose, W, 4, 2))  # threads need to be sent nothing


def test_an_environment_that_a_worker_does_not_know_names_the_remedy(spawned):
    gymnasium.register(id="Mine-v0", entry_point=noisy_environment.Noisy)  # in this process alone
    simulator = mn.GymnasiumSimulator("Mine-v0", copies=2)
    with pytest.raises(ValueError, match="write `module:Id-v0`"):
        mn.Distributed(simulator, spawned, chunk=2).play(KEY, STEER, W, 2)


def test_a_worker_with_other_numbers_is_refused(monkeypatch):
    class Narrow(Here):
        def submit(self, function, *arguments):
            with jax.enable_x64(False):
                return super().submit(function, *arguments)

    with pytest.raises(ValueError, match="set JAX_ENABLE_X64"):
        mn.Distributed(CartPole(), Narrow(), chunk=2).play(KEY, PUSH, W, 2)


def test_what_an_executor_says_passes_and_the_rest_is_cancelled():
    class Gone:
        def __init__(self):
            self.futures = []

        def submit(self, function, *arguments):
            self.futures.append(Future())
            if len(self.futures) == 1:
                self.futures[0].set_exception(ClusterLostError("the cluster is gone"))
            return self.futures[-1]

    executor = Gone()
    with pytest.raises(ClusterLostError, match="the cluster is gone"):
        mn.Distributed(CartPole(), executor, chunk=2).play(KEY, PUSH, W, 6)
    assert [future.cancelled() for future in executor.futures] == [False, True, True]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: mn.Distributed("CartPole-v1", Here(), 2), r"simulator=...\)` needs a Simulator"),
        (lambda: mn.Distributed(CartPole(), 3, 2), r"executor=...\)` needs a method `submit`"),
        (lambda: mn.Distributed(CartPole(), Here(), 0), r"chunk=...\)` must be a whole number"),
    ],
)
def test_wrong_arguments_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


# Points of a black box


def bowl(x):
    return float(((x - 1.0) ** 2).sum())


@pytest.mark.parametrize("who", ["here", "one", "three", "spawned", "ours"])
def test_points_are_evaluated_by_others_with_the_same_bits(who, executors):
    alone = minimize(bowl, np.zeros(3), budget=100)
    together = minimize(bowl, np.zeros(3), budget=100, executor=executors[who])
    assert together.value == alone.value
    np.testing.assert_array_equal(together.x, alone.x)
    np.testing.assert_array_equal(together.mean, alone.mean)


def test_a_function_that_cannot_be_sent_is_one_line_with_the_remedy(spawned):
    for optimize in (maximize, minimize):
        with pytest.raises(ValueError, match=r"^the function cannot be sent to another process"):
            optimize(lambda x: bowl(x), np.zeros(2), budget=40, executor=spawned)


@pytest.mark.parametrize("optimize", [maximize, minimize])
def test_an_executor_and_batches_exclude_each_other(optimize):
    name = optimize.__name__
    with pytest.raises(ValueError, match=rf"`{name}\(executor=...\)` evaluates points one by one"):
        optimize(math.prod, [1.0], batched=True, executor=Here())
    with pytest.raises(ValueError, match=rf"`{name}\(executor=...\)` needs a method `submit`"):
        optimize(math.prod, [1.0], executor=sys)


@pytest.mark.parametrize("who", ["one", "three", "ours"])
def test_games_of_tetris_have_the_same_bits_whoever_plays_them(who, executors):
    board = {"features": "bi", "height": 6, "width": 5, "games": 40, "seed": 2}
    w = soft_start(mn.AfterstatePolicy("bi", 6, 5))
    here, there = (play(w, policy="gibbs", executor=one, **board) for one in (None, executors[who]))
    np.testing.assert_array_equal(here.boards, there.boards)
    np.testing.assert_array_equal(here.lines, there.lines)
    here, there = (estimate(w, Survival(), executor=one, **board) for one in (None, executors[who]))
    np.testing.assert_array_equal(here.gradient, there.gradient)
    np.testing.assert_array_equal(here.fisher, there.fisher)


# Training


@pytest.mark.parametrize("who", ["here", "three", "ours"])
@pytest.mark.parametrize("episodes", [1, 5, 30])
def test_episodes_are_shared_among_workers_if_no_chunk_is_given(who, episodes, executors):
    simulator = mn.GymnasiumSimulator(NOISY, unit_actions=True)
    policy = mn.Gaussian(simulator.spaces.action_size, simulator.spaces.observation)
    w = policy.initial_parameters()
    alone = simulator.play(KEY, policy, w, episodes)
    shared = mn.Distributed(simulator, executors[who], None).play(KEY, policy, w, episodes)
    np.testing.assert_array_equal(shared.rewards[shared.valid], alone.rewards[alone.valid])
    np.testing.assert_array_equal(shared.actions[shared.valid], alone.actions[alone.valid])


@pytest.mark.parametrize("kind", ["linear", "rbf", "mlp"])
def test_a_training_does_not_depend_on_who_plays(kind, executors):
    simulator = mn.GymnasiumSimulator(NOISY, copies=2, unit_actions=True)

    def trained(who):
        together = mn.Distributed(simulator, executors[who], chunk=4)
        preset = mn.Preset(least_transitions=50, features=10, hidden=8)
        training = mn.train(together, policy=kind, iterations=2, preset=preset)
        return jax.tree.leaves(training.w), training.play(KEY, 3).returns()

    (alone, returns), (others, more) = trained("here"), trained("ours")
    assert all(np.array_equal(one, other) for one, other in zip(alone, others, strict=True))
    np.testing.assert_array_equal(returns, more)
