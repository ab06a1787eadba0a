"""What a training says of itself: worth, divergence, and which policy is played."""

import json
from dataclasses import replace

import gymnasium
import jax
import numpy as np
import pytest
import scipy.stats
import user_environments  # noqa: F401

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.environments.names import simulator_of
from mdpnewton.files.states import load_state, save_state
from mdpnewton.training import choice, verdict
from mdpnewton.training.state import Chosen, Training
from mdpnewton.training.train import begin, proceed, train

SMALL = mn.Preset(features=20, hidden=8)
KEY = jax.random.key(5)


class Pushed(gymnasium.Env):
    """Gives the action as reward, plus noise that depends on the seed, for ten steps."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def __init__(self, low=-1.0, high=1.0, worth=1.0, noise=1.0):
        self.action_space = gymnasium.spaces.Box(low, high, (1,), dtype=np.float64)
        self.worth, self.noise = worth, noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.luck = 0, self.noise * self.np_random.normal()
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.steps += 1
        reward = self.worth * float(action[0]) + self.luck
        return np.full(1, self.steps / 10, np.float32), reward, False, self.steps == 10, {}


def pushed(*words, **options):
    return mn.GymnasiumSimulator(lambda: Pushed(*words, **options), unit_actions=True)


def flat(training):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(training.w)])


def test_intervals_are_those_of_student_and_welch():
    draws = np.random.default_rng(0)
    one, other = draws.normal(1, 2, 20), draws.normal(0, 1, 20)
    paired = scipy.stats.ttest_rel(one, other).confidence_interval(0.95)
    found = verdict._difference(one - other, other.mean())
    np.testing.assert_allclose([found.low, found.high], paired, rtol=1e-12)
    apart = scipy.stats.ttest_ind(one, other[:7], equal_var=False).confidence_interval(0.95)
    found = verdict._compared(one, other[:7])
    np.testing.assert_allclose([found.low, found.high], apart, rtol=1e-12)
    np.testing.assert_allclose(found.difference, one.mean() - other[:7].mean(), rtol=1e-12)
    same = verdict._difference(np.zeros(3), 1.0)
    assert (same.low, same.high) == (0.0, 0.0)
    alone = verdict._difference(np.ones(1), 1.0)
    assert (alone.low, alone.high) == (-np.inf, np.inf)


@pytest.mark.parametrize(
    ("low", "high", "still"),
    [(-1, 1, 0), (-1, 3, 0), (0, 2, 0), (1, 2, 1), (-4, -2, -2), (-np.inf, np.inf, 0)],
)
def test_to_do_nothing_is_the_action_zero_or_the_nearest_to_it(low, high, still):
    training = begin(pushed(low, high, noise=0.0), "linear", 0, SMALL)
    returns = verdict.do_nothing(training, KEY, 3).returns()
    np.testing.assert_allclose(returns, 10 * still, atol=1e-12)


def test_to_do_nothing_among_choices_is_to_choose_at_random():
    training = begin(simulator_of("user/Walk-v0"), "linear", 0, SMALL)
    played = verdict.do_nothing(training, KEY, 100)
    shares = np.bincount(np.asarray(played.actions)[np.asarray(played.valid)]) / played.transitions
    np.testing.assert_allclose(shares, 1 / len(shares), atol=0.05)


def test_a_policy_that_learnt_is_better_and_the_same_starts_say_so():
    patient = replace(SMALL, share=np.inf)  # small batches cannot learn from so much noise
    training = train(pushed(noise=100.0), policy="linear", transitions=4000, preset=patient)
    found = verdict.verdict_on(training, KEY, training.play(KEY, 20))
    assert found.status == "better"
    assert found.nothing.high - found.nothing.low < 1e-6 < found.nothing.low  # luck is paired
    assert found.blind.high - found.blind.low > 100  # and here it is not
    assert found.sentence.startswith("The policy returns")
    assert "more than doing nothing (95 % interval" in found.sentence
    assert "the first batch, which was blind" in found.sentence


@pytest.mark.parametrize(
    ("options", "iterations", "status", "words"),
    [
        ({"worth": 0.0}, 12, "no better", "Try more transitions, --policy rbf or --policy mlp"),
        ({"worth": 0.0}, 2, "no better", "It made only 2 iterations: allow more transitions"),
        ({"worth": 0.0, "noise": 0.0}, 2, "no better", "All returns were equal: reward"),
    ],
)
def test_a_policy_that_learnt_nothing_says_so_and_what_to_try(options, iterations, status, words):
    training = train(pushed(**options), policy="linear", iterations=iterations, preset=SMALL)
    found = verdict.verdict_on(training, KEY, training.play(KEY, 20))
    assert found.status == status
    assert found.sentence.startswith("No better than doing nothing: the policy returns")
    assert words in found.sentence


def test_a_policy_that_is_worse_says_so():
    training = begin(pushed(), "linear", 0, SMALL)
    training.w = {**training.w, "mean": training.w["mean"] - 1.0}
    found = verdict.verdict_on(training, KEY, training.play(KEY, 20))
    assert found.status == "worse"
    assert found.sentence.startswith("No better than doing nothing, but worse: the policy returns")
    assert "less than doing nothing (95 % interval" in found.sentence


def test_the_command_prints_the_verdict_and_writes_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mdpnewton.cli.train.FINAL_EPISODES", 4)
    words = ["train", "cartpole", "--policy=linear", "--iterations=1", "--out", str(tmp_path)]
    assert main(words) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["verdict"]["sentence"] in " ".join(capsys.readouterr().out.split())
    assert results["verdict"]["status"] in ("better", "worse", "no better")
    assert set(results["verdict"]["nothing"]) == {"mean", "difference", "low", "high"}
    assert results["restarts"] == []


# Divergence


def test_a_training_has_diverged_if_all_of_the_last_batches_are_below_the_blind_one():
    training = train("cartpole", policy="linear", iterations=1, preset=SMALL)
    one = training.history[0]

    def with_returns(*returns):
        training.history = [replace(one, mean_return=each) for each in returns]
        return choice.diverged(training)

    training.blind = [1.0, 3.0]  # mean 2, standard error 1
    assert with_returns(*[-0.1] * 10)
    assert not with_returns(*[-0.1] * 9)
    assert not with_returns(*[0.1] * 10)
    assert not with_returns(*[-0.1] * 9, 0.1)
    assert with_returns(5.0, *[-0.1] * 10)
    training.restarts = [2]
    assert not with_returns(*[-0.1] * 11)
    assert with_returns(*[-0.1] * 12)
    training.blind, training.restarts = [1.0], []
    assert not with_returns(*[-0.1] * 12)


@pytest.mark.parametrize("stops", [(), (2,), (3,), (2, 4, 5)])
def test_a_training_that_diverged_goes_back_and_resumes_bit_for_bit(stops, tmp_path, monkeypatch):
    monkeypatch.setattr(choice, "LONG", 2)

    def hopeless(seed):
        training = begin(simulator_of("cartpole"), "linear", seed, SMALL, environment="cartpole")
        training.blind = [1e6, 1e6 + 1]
        return training

    whole = proceed(hopeless(3), iterations=6)
    assert whole.restarts == [2, 4]
    bounds = [one.record.step.share for one in whole.history]
    limits = [one.record.step.divergence for one in whole.history]
    assert bounds[2] == bounds[4] == 1.0
    np.testing.assert_allclose([limits[2], limits[4]], [0.025, 0.0125], rtol=0.05)
    part = hopeless(3)
    for number, iterations in enumerate((*stops, 6)):
        proceed(part, iterations=iterations)
        save_state(tmp_path / f"{number}.npz", part.state())
        part = Training.restored(load_state(tmp_path / f"{number}.npz"))
    assert part.restarts == whole.restarts
    assert np.array_equal(flat(part), flat(whole))
    assert repr(part.history) == repr(whole.history)


def test_it_goes_back_to_the_best_point_of_all():
    training = train("cartpole", policy="linear", iterations=3, preset=SMALL)
    assert training.highest[0] == max(bound for bound, _ in training.recent)
    training.w = jax.tree.map(lambda leaf: leaf + 1, training.w)
    choice.go_back(training)
    assert training.w is training.highest[1]
    assert training.restarts == [3]


# The choice


def test_the_highest_mean_return_on_the_same_episodes_is_chosen():
    training = train(pushed(noise=100.0), policy="linear", transitions=3000, preset=SMALL)
    assert training.transitions <= 3000 + 400
    assert 0 < training.chosen.transitions <= 300
    key = jax.random.fold_in(jax.random.key(0), training.iteration)
    found = {
        (point, greedy): training.simulator.play(
            jax.random.fold_in(key, 2), training.policy, w, 4, greedy=greedy
        )
        .returns()
        .mean()
        for point, w in (
            ("best", training.best),
            ("average", training.average),
            ("newest", training.w),
        )
        for greedy in (True, False)
    }
    best = max(found, key=lambda one: found[one])
    assert (training.chosen.point, training.chosen.greedy) == best
    assert training.chosen.transitions == 6 * 4 * 10


@pytest.mark.parametrize(
    ("transitions", "candidates", "episodes"),
    [
        (199, 0, 0),
        (200, 1, 2),
        (400, 2, 2),
        (800, 2, 4),
        (2400, 6, 4),
        (4800, 6, 8),
        (10**6, 6, 16),
    ],
)
def test_a_tenth_of_the_transitions_is_for_the_choice(transitions, candidates, episodes):
    training = begin(pushed(), "linear", 0, SMALL)  # episodes of ten steps
    listed, number = choice._trials(training, transitions)
    assert (len(listed), number) == (candidates, episodes)
    assert choice.to_choose_with(training, transitions) == candidates * episodes * 10


def test_drawn_actions_are_worth_what_the_last_batches_brought_where_episodes_are_few():
    training = train(pushed(), policy="linear", transitions=1000, preset=SMALL)
    for bound, expected in ((1e6, Chosen("best", False)), (-1e6, Chosen("best"))):
        training.recent = [(bound, training.w) for _ in training.recent]
        choice.choose(training, 1000)
        found = (training.chosen.point, training.chosen.greedy)
        assert found == (expected.point, expected.greedy)
        assert training.chosen.transitions == 2 * 4 * 10  # only the greedy ones were played


def test_the_average_is_the_mean_of_the_last_points():
    training = train("cartpole", policy="linear", iterations=4, preset=SMALL)
    points = [w["mean"] for _, w in training.recent]
    assert len(points) == 4
    np.testing.assert_allclose(training.average["mean"], np.mean(points, axis=0), rtol=1e-12)
    fresh = begin(pushed(), "linear", 0, SMALL)
    assert fresh.average is fresh.w


def test_what_is_chosen_is_played_and_saved(tmp_path):
    training = train("cartpole", policy="linear", iterations=2, preset=SMALL)
    for chosen in (Chosen("newest", False, 7), Chosen("best", True), Chosen("average")):
        training.chosen = chosen
        save_state(tmp_path / "policy.npz", training.state())
        again = Training.restored(load_state(tmp_path / "policy.npz"))
        assert again.chosen == chosen
        assert again.transitions == training.evaluator.memory.transitions + chosen.transitions
        points = {"newest": training.w, "best": training.best, "average": training.average}
        w = points[chosen.point]
        there = training.simulator.play(KEY, training.policy, w, 4, greedy=chosen.greedy)
        np.testing.assert_array_equal(again.play(KEY, 4).rewards, there.rewards)
    state = training.state()
    with pytest.raises(ValueError, match="must be one of 'best', 'newest', 'average'"):
        Training.restored({**state, "chosen": {**state["chosen"], "point": "worst"}})


def test_solves_that_went_wrong_are_told():
    training = train("cartpole", policy="linear", iterations=2, preset=SMALL)
    assert verdict.remarks(training.history) == []
    one = training.history[0]
    bad = replace(one.record.report, residual=2.0, negative_curvature=True)
    training.history[0] = replace(one, record=replace(one.record, report=bad))
    assert verdict.remarks(training.history) == [
        "1 of 2 linear systems left a residual above 1",
        "1 of 2 linear systems were indefinite",
    ]
