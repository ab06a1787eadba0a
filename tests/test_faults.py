"""Faults that an attack found in simulators, solvers and searches, one test each."""

import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fault_environments import Faulty, box

import mdpnewton as mn
from mdpnewton.domains.cartpole import CartPole
from mdpnewton.environments.check import warnings_of
from mdpnewton.policies.features import constant_entries
from mdpnewton.simulators import GymnasiumSimulator, SimulationError, Spaces, UnitActions
from mdpnewton.simulators.environment import Episode
from mdpnewton.training.train import train

KEY = jax.random.key(0)
SOFTMAX = mn.LinearSoftmax(2, 2, lambda seen: seen)
PUSH = mn.LinearGaussian([[0.16]], 2, lambda seen: seen)


def play(simulator, episodes=2):
    policy = SOFTMAX if simulator.spaces.actions else PUSH
    return simulator.play(KEY, policy, policy.initial_parameters(), episodes)


def faulty(fault="", **settings):
    def Broken():  # errors name it
        return Faulty(fault, **settings)

    return Broken


# Environments that break the rules: each error names the environment and is one line.


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("reward None", "Broken returned the reward None in step 0, not a number"),
        (
            "reward array",
            r"Broken returned the reward array\(\[1., 1., 1.\]\) in step 0, not a num",
        ),
        ("reward text", "Broken returned the reward 'much' in step 0, not a number"),
        ("reward nan", "Broken returned the reward nan in step 0"),
        ("shape", r"Broken returned an observation of shape \(3,\) in step 0, its space has 2"),
        ("four values", "Broken returned 4 values in step 0, not .observation, reward, term"),
        ("bare reset", "Broken returned array.* from reset, which is no pair"),
        ("empty observation", "'Broken' has empty observations, which are not supported"),
    ],
)
def test_an_error_names_the_environment(fault, words):
    with pytest.raises(ValueError, match=words) as caught:
        play(GymnasiumSimulator(faulty(fault)))
    assert "\n" not in str(caught.value)
    assert "safe" not in str(caught.value)  # there is no policy yet


def test_an_empty_box_of_actions_names_the_environment():
    kind = type(box(0.0, 1.0))
    empty = kind(np.zeros(0), np.zeros(0), dtype=np.float64)
    with pytest.raises(ValueError, match="environment 'Broken' has empty actions"):
        GymnasiumSimulator(faulty(actions=empty))


@pytest.mark.parametrize("fault", ["exit in reset", "exit in step"])
def test_an_environment_that_exits_is_an_error(fault):
    with pytest.raises(SimulationError, match="Broken raised SystemExit in step 0"):
        play(GymnasiumSimulator(faulty(fault)))


def test_what_an_environment_prints_goes_to_standard_error(capsys):
    play(GymnasiumSimulator("fault/Print-v0"))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "an environment is made" in shown.err
    assert "an environment steps" in shown.err


def test_environments_in_threads_leave_standard_output_as_it_was():
    begun, over = threading.Event(), threading.Event()

    class Slow(Faulty):
        def reset(self, **options):
            begun.set()
            over.wait(10)
            return super().reset(**options)

    before = sys.stdout
    thread = threading.Thread(target=lambda: Episode(Slow(), 0, face))
    simulator = GymnasiumSimulator(faulty())
    face = simulator.interface
    thread.start()
    begun.wait(10)
    second = threading.Thread(target=lambda: play(simulator))  # begins later and ends later
    second.start()
    over.set()
    for each in (thread, second):
        each.join()
    assert sys.stdout is before


class NotFinite(CartPole):
    what: str = "reward"

    def step(self, key, state, action):
        after, reward, over = CartPole.step(self, key, state, action)
        late = jnp.abs(after[0]) > 0.3
        if self.what == "reward":
            return after, jnp.where(late, jnp.nan, reward), over
        return jnp.where(late, jnp.inf, after), reward, over


@pytest.mark.parametrize("what", ["reward", "observation"])
def test_a_compiled_simulator_that_is_not_finite_stops_training(what):
    article = "an" if what == "observation" else "a"
    words = rf"NotFinite returned {article} {what} that is not finite in step \d+ of episode \d+"
    with pytest.raises(SimulationError, match=words) as caught:
        train(NotFinite(what), iterations=2, preset=mn.Preset(features=5))
    assert "\n" not in str(caught.value)


def test_a_horizon_of_zero_is_refused():
    class Endless(CartPole):
        @property
        def horizon(self):
            return 0

    with pytest.raises(ValueError, match=r"Endless\(horizon=...\)` must be a whole number of at l"):
        train(Endless(), iterations=1)


# Boxes of actions.


def sent(actions, unit):
    """What the environment gets for a unit action."""
    simulator = GymnasiumSimulator(faulty(actions=actions), unit_actions=True, copies=1)
    still = mn.LinearGaussian([[1e-24]], 1, lambda seen: jnp.ones(1))
    simulator.play(KEY, still, jnp.full((1, 1), unit), 1, horizon=1)
    return simulator._environments[0].sent[0]


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [(5.0, np.inf, (5, 6, 7)), (-np.inf, 3.0, (1, 2, 3)), (-np.inf, np.inf, (-1, 0, 1))],
)
def test_half_open_boxes_begin_at_their_bound(low, high, ends):
    assert [sent(box(low, high), unit)[0] for unit in (-1.0, 0.0, 1.0)] == pytest.approx(ends)


def test_boxes_of_integers_are_rounded():
    units = np.array([-1.0, -0.4, 0.4, 1.0])
    assert [int(sent(box(0, 3, np.int64), unit)[0]) for unit in units] == [0, 1, 2, 3]


def test_boxes_as_wide_as_numbers_get_finite_actions():
    wide = box(-1.7e308, 1.7e308, np.float64)
    found = [sent(wide, unit)[0] / 1.7e308 for unit in (-2.0, 0.0, 0.5, 2.0)]
    assert found == pytest.approx([-1.0, 0.0, 0.5, 1.0], abs=1e-9)
    spaces = Spaces(1, low=np.array([-1.7e308]), high=np.array([1.7e308]))
    assert np.isfinite([spaces.middle(), spaces.half_range()]).all()


# Observations.


def test_small_observations_are_not_constant():
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(200, 2))
    for scale in (1e-12, 1.0, 1e12):
        scaled = np.asarray(jax.vmap(mn.Standardized.of(scale * seen).scaled)(scale * seen))
        np.testing.assert_allclose(scaled.std(axis=0), 1.0, rtol=1e-9)


def test_round_off_is_constant():
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(200, 5))
    seen[:, 1] = 0.1 + 1e-17 * seen[:, 1]
    seen[:, 2] = 6e-17 * seen[:, 2]  # as the cosine of a right angle beside numbers of size one
    seen[:, 3] = 1e12 / 3
    seen[:, 4] = 1e-12 * seen[:, 4]
    assert constant_entries(seen[:, :3]).tolist() == [False, True, True]
    assert constant_entries(seen[:, [0, 4]]).tolist() == [False, False]
    assert constant_entries(seen[:, [3]]).tolist() == [True]


def test_training_does_not_depend_on_the_scale_of_the_observations():
    small = mn.Preset(features=10)
    plain, tiny = (
        train(GymnasiumSimulator(faulty(scale=scale)), iterations=2, preset=small)
        for scale in (1.0, 2.0**-40)
    )
    np.testing.assert_allclose(plain.w, tiny.w, rtol=1e-9)
    assert np.abs(np.asarray(plain.w)).max() > 1e-3


# The check before a training.


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"fault": "global randomness"}, ["an episode does not repeat under its seed"]),
        ({"fault": "seeded global randomness"}, ["an episode does not repeat under its seed"]),
        ({"fault": "python randomness"}, ["an episode does not repeat under its seed"]),
        ({"fault": "constant"}, ["entry 1 of the observation did not change in 40 steps"]),
        ({"fault": "reward nan"}, ["returned the reward nan in step 0"]),
        ({"fault": "shape"}, ["returned an observation of shape"]),
        (
            {"actions": box(5.0, np.inf)},
            ["one bound is infinite in entry 0 of the action, so that training begins about 6"],
        ),
        ({"actions": box(-np.inf, np.inf)}, ["both bounds are infinite in entry 0 of the action"]),
        ({"actions": box(0, 3, np.int64)}, ["its box of actions is one of integers"]),
        ({}, []),
    ],
    ids=lambda each: str(each)[:30],
)
def test_the_check_before_a_training_warns(settings, words):
    simulator = GymnasiumSimulator(faulty(**settings), unit_actions=True)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    found = warnings_of(simulator, KEY)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert len(found) == len(words)
    for text, part in zip(found, words, strict=True):
        assert part in text
        assert text.startswith("Broken")
        assert "\n" not in text


def test_the_check_leaves_the_copies_of_the_training_alone():
    simulator = GymnasiumSimulator(faulty(), unit_actions=True)
    reference = GymnasiumSimulator(faulty(), unit_actions=True)
    warnings_of(simulator, KEY)
    assert np.array_equal(play(simulator).rewards, play(reference).rewards)
    assert warnings_of(UnitActions(CartPole()), KEY) == []
