"""What the preset of training is made of, each part against what it promises."""

import math
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.evaluators.memory import Memory, estimated_return, played
from mdpnewton.methods import Exploring
from mdpnewton.plain import arrays_of, with_arrays
from mdpnewton.simulators.trajectories import Trajectories, concatenated

KEY = jax.random.key(0)


def episodes(*returns, length=2):
    """A batch of episodes that earn their return with the first step."""
    n = len(returns) * length
    first = np.arange(n) % length == 0
    rewards = np.zeros(n)
    rewards[first] = returns
    return Trajectories(
        observations=jnp.zeros((n, 1)),
        actions=jnp.zeros((n, 1)),
        rewards=jnp.asarray(rewards),
        next_observations=jnp.zeros((n, 1)),
        terminated=jnp.zeros(n, bool),
        ends=jnp.asarray(np.arange(n) % length == length - 1),
        times=jnp.asarray(np.arange(n) % length),
        log_probs=jnp.zeros(n),
        valid=jnp.ones(n, bool),
    )


class Lengths:
    """A simulator whose episodes have the lengths given, and which counts its calls."""

    spaces = mn.Spaces(1, 2)

    def __init__(self, length, horizon):
        self.length, self.horizon, self.calls = length, horizon, []

    def play(self, key, policy, w, episodes_, *, first=0, horizon=None, greedy=False):
        self.calls.append((first, episodes_))
        parts = [episodes(1.0, length=self.length(first + n)) for n in range(episodes_)]
        return concatenated(parts)


# -- batches


def test_a_round_has_as_many_episodes_as_are_sure_to_be_needed():
    fixed = Lengths(lambda n: 50, horizon=50)
    assert played(fixed, KEY, None, None, 1, 400).transitions == 400
    assert fixed.calls == [(0, 8)]
    short = Lengths(lambda n: 10, horizon=1000)
    batch = played(short, KEY, None, None, 1, 100)
    # the first tells that they are short, and from then on none is expected beyond 20 steps
    assert short.calls == [(0, 1), (1, 4), (5, 2), (7, 1), (8, 1), (9, 1)]
    assert batch.transitions == 100
    short.calls.clear()
    played(short, KEY, None, None, 1, 100, before=batch)
    assert short.calls[0] == (0, 4)


def test_two_episodes_with_enough_transitions_are_a_batch():
    long = Lengths(lambda n: 50, horizon=50)
    assert played(long, KEY, None, None, 1, 400, 120).transitions == 150
    assert played(long, KEY, None, None, 1, 400, 30).transitions == 100
    assert played(long, KEY, None, None, 1, 40, 30).transitions == 50


def test_batches_grow_with_what_has_been_played_and_with_steps_that_failed():
    memory = Memory(Lengths(lambda n: 100, 100), 1, 1000, share=0.1)
    sizes = []
    for _ in range(30):
        sizes.append(memory.play(KEY, None, None).transitions)
    assert sizes[0] == 200  # however few have been played
    assert sizes[-1] == 1000  # the full size
    assert all(low <= high for low, high in pairwise(sizes))
    for size, so_far in zip(sizes, np.cumsum([0, *sizes]), strict=False):
        assert size <= max(200, so_far / 10 + 100)
    memory.doubt()
    assert memory.few == 300
    restored = Memory(memory.simulator, 1, 1000, share=0.1).restored(memory.state())
    assert restored.few == 300


@pytest.mark.parametrize("least", [1, 57, 400])
def test_a_batch_has_enough_and_at_most_one_round_too_much(least):
    simulator = Lengths(lambda n: 5 + 7 * (n % 3), horizon=100)
    batch = played(simulator, KEY, None, None, 3, least)
    assert batch.transitions >= least
    assert batch.episodes >= 3
    numbers = [first + n for first, count in simulator.calls for n in range(count)]
    assert numbers == list(range(batch.episodes))  # none is left out, none played twice


def test_a_memory_with_a_capacity_has_one_shape():
    memory = Memory(Lengths(lambda n: 2, 2), 1, reuse=3, capacity=10)
    shapes, kept = set(), []
    for returns in ([1.0], [1.0, 2.0], [3.0, 4.0], [5.0, 6.0, 7.0]):
        memory.keep(episodes(*returns))
        shapes.add(memory.all().rewards.shape)
        kept.append([batch.episodes for batch in memory.batches])
        assert memory.all().transitions == 2 * sum(kept[-1])
    assert shapes == {(10,)}
    assert kept == [[1], [1, 2], [1, 2, 2], [2, 3]]  # the third and fourth leave no room for more
    memory.keep(episodes(*range(7)))  # a batch that is too long alone makes room for two of them
    assert (memory.all().rewards.shape, memory.all().transitions) == ((28,), 14)


# -- judging a step


def test_a_batch_is_judged_by_its_own_error_unless_that_is_unusual():
    memory = Memory(Lengths(lambda n: 2, 2), 1)
    plain = episodes(1.0, 2.0, 3.0)
    assert memory.judged(plain, 1.0) == estimated_return(plain, 1.0)
    memory.judged(episodes(1.0, 2.5, 3.0), 1.0)
    wild = episodes(1.0, 2.0, -1000.0)
    mean, error = memory.judged(wild, 1.0)
    assert mean == pytest.approx(-997 / 3)
    usual = np.median([np.std([1, 2, 3], ddof=1), np.std([1, 2.5, 3], ddof=1)])
    assert error == pytest.approx(usual / 3**0.5)
    quiet = memory.judged(episodes(2.0, 2.0, 2.0), 1.0)
    assert quiet == (2.0, 0.0)  # a batch may be better than usual


def test_a_single_episode_is_compared_with_the_batch_before():
    memory = Memory(Lengths(lambda n: 2, 2), 1)
    assert memory.judged(episodes(5.0), 1.0) == (5.0, 5.0)
    assert memory.judged(episodes(7.0), 1.0) == (7.0, 2.0)
    mean, error = memory.judged(episodes(-500.0), 1.0)
    assert (mean, error) == (-500.0, 3.5)  # the median of 5 and 2


def test_judgements_survive_saving():
    memory = Memory(Lengths(lambda n: 2, 2), 1, capacity=8)
    memory.keep(episodes(1.0, 4.0))
    for returns in ([1.0, 4.0], [2.0, 2.5], [0.0]):
        memory.judged(episodes(*returns), 1.0)
    again = Memory(Lengths(lambda n: 2, 2), 1).restored(memory.state())
    assert (again.judgements, again.capacity) == (memory.judgements, 8)
    assert again.judged(episodes(9.0, 1.0), 1.0) == memory.judged(episodes(9.0, 1.0), 1.0)


def evaluated(objective, error=0.0):
    one = jnp.ones((1, 1))
    return mn.WeightedPairs(jnp.zeros(1), one, one, one, one, objective, error)


def test_a_trusted_step_is_undone_only_beyond_the_noise():
    rule = mn.TrustedStep(tolerance=2.0)
    assert rule.keeps(evaluated(1.0, 0.3), evaluated(0.01, 0.4))
    assert not rule.keeps(evaluated(1.0, 0.3), evaluated(-0.01, 0.4))
    assert not rule.keeps(evaluated(1.0), evaluated(0.99))
    assert not rule.keeps(evaluated(1.0), evaluated(math.nan))


def test_the_limit_of_a_trusted_step_follows_what_steps_bring():
    rule = mn.TrustedStep(0.05, least=0.02, most=0.06)

    def chosen(previous):
        line = mn.Line(0.0, 1.0, 1.0, lambda t: t, divergence_at=lambda t: t**2)
        line.previous = previous
        step = rule.choose(line, 0)
        assert step.divergence == pytest.approx(0.05 * step.share, rel=0.05)
        return step

    first = chosen(None)
    assert first.share == 1.0
    longer = chosen(first)
    assert longer.share == pytest.approx(1.1)
    assert chosen(longer).share == pytest.approx(1.2)  # 0.0605 is beyond the largest
    undone = mn.Step(0.1, False, "the objective fell", share=1.1)
    shorter = chosen(undone)
    assert shorter.share == pytest.approx(0.55)
    assert chosen(mn.Step(0.1, False, "", share=0.55)).share == pytest.approx(0.4)  # 0.02


def test_the_largest_step_shrinks_with_the_iterations():
    rule = mn.TrustedStep(0.05, least=0.02, most=0.1, fading=10)

    def chosen(iteration, share):
        line = mn.Line(0.0, 1.0, 1.0, lambda t: t, divergence_at=lambda t: t**2)
        line.previous = mn.Step(0.1, True, "", share=share)
        return rule.choose(line, iteration).divergence

    assert chosen(9, 2.0) == pytest.approx(0.1, rel=0.05)
    assert chosen(19, 2.0) == pytest.approx(0.05, rel=0.05)
    assert chosen(999, 2.0) == pytest.approx(0.02, rel=0.05)  # the smallest limit stays
    assert chosen(19, 0.5) == pytest.approx(0.0275, rel=0.05)


# -- directions


def situation(policy, w, pairs, method):
    return mn.direction(method, policy, w, pairs, key=jax.random.key(0))


def gaussian_pairs(advantage):
    rng = np.random.default_rng(0)
    n = len(advantage)
    states, actions = rng.normal(size=(n, 3)), rng.normal(size=(n, 1, 2))
    weights = jnp.full((n, 1), 1 / n)
    return mn.WeightedPairs(
        jnp.asarray(states),
        jnp.asarray(actions),
        weights,
        weights * 5.0,
        weights * jnp.asarray(advantage)[:, None],
        0.0,
        ascent=weights * jnp.asarray(advantage)[:, None],
        state_value=jnp.full(n, 5.0),
    )


def test_standard_deviations_go_a_share_of_their_way():
    policy = mn.Gaussian(2, 3)
    pairs = gaussian_pairs(np.sin(np.arange(8.0)))
    w = policy.initial_parameters()
    natural = mn.METHODS["natural"]
    whole, slow = (
        situation(policy, w, pairs, method).value for method in (natural, Exploring(natural, 0.25))
    )
    np.testing.assert_array_equal(whole["mean"], slow["mean"])
    np.testing.assert_allclose(slow["scale"], 0.25 * whole["scale"], rtol=1e-14)
    assert np.abs(whole["scale"]).max() > 0


def test_without_any_advantage_the_direction_is_random_and_repeats():
    policy = mn.Gaussian(2, 3)
    w = policy.initial_parameters()
    flat = gaussian_pairs(1e-12 * np.sin(np.arange(8.0)))
    method = Exploring(mn.METHODS["natural"])
    found, again = (situation(policy, w, flat, method).value for _ in range(2))
    assert jax.tree.all(jax.tree.map(np.array_equal, found, again))
    drawn = situation(policy, w, flat, mn.RandomDirection()).value
    assert jax.tree.all(jax.tree.map(np.array_equal, found, drawn))
    nothing = gaussian_pairs(np.zeros(8))
    assert np.abs(situation(policy, w, nothing, method).value["mean"]).max() > 0


@pytest.mark.parametrize(("nothing", "stays"), [(-1.0, True), (0.0, False), (1.0, False)])
def test_a_search_stays_where_all_actions_are_alike_and_better_than_nothing(nothing, stays):
    policy = mn.Gaussian(2, 3)
    w = policy.initial_parameters()
    flat = gaussian_pairs(np.zeros(8))  # with the objective 0
    method = Exploring(mn.METHODS["natural"], nothing=nothing)
    found = situation(policy, w, flat, method).value
    assert all(np.any(leaf) != stays for leaf in jax.tree.leaves(found))


# -- critics


def walk(rewards, terminated=False, position=0.0):
    """One episode along a line, from `position` on."""
    n = len(rewards)
    places = position + np.arange(n + 1.0)[:, None]
    over = np.arange(n) == n - 1
    return Trajectories(
        observations=jnp.asarray(places[:-1]),
        actions=jnp.zeros((n, 1)),
        rewards=jnp.asarray(rewards, float),
        next_observations=jnp.asarray(places[1:]),
        terminated=jnp.asarray(over & terminated),
        ends=jnp.asarray(over),
        times=jnp.arange(n),
        log_probs=jnp.zeros(n),
        valid=jnp.ones(n, bool),
    )


@pytest.mark.parametrize(
    ("rewards", "terminated", "low", "high"),
    [([-2.0, -1.0], False, -20, -10), ([-2.0, -1.0], True, -20, 0), ([1.0, 3.0], True, 0, 30)],
)
def test_values_stay_within_what_the_rewards_allow(rewards, terminated, low, high):
    batch = walk(rewards, terminated)
    critic = mn.LinearCritic(lambda x: jnp.append(x, 1.0), size=2, ridge=0.0)
    fitted = critic.fitted(batch, 0.9, jnp.ones(2))
    far = fitted.values(jnp.array([[-1e6], [1e6]]))
    assert float(far.min()) >= low - 1e-9
    assert float(far.max()) <= high + 1e-9
    assert (float(fitted.low), float(fitted.high)) == pytest.approx((low, high))
    undiscounted = critic.fitted(batch, 1.0, jnp.ones(2))
    assert np.isinf([float(undiscounted.low), float(undiscounted.high)]).all()


def test_an_anchored_critic_standardises_on_what_it_sees():
    standardized = mn.Standardized(jnp.zeros(1), jnp.ones(1), 5.0)
    critic = mn.LinearCritic(standardized, ridge=0.0, trace=1.0, anchored=True)
    batch = concatenated([walk([1.0] * 5, position=1e4)], 9)  # with padding
    fitted = critic.fitted(batch, 0.5, jnp.ones(9))
    places = 1e4 + np.arange(5.0)
    np.testing.assert_allclose(fitted.features.mean, [places.mean()])
    np.testing.assert_allclose(fitted.features.scale, [places.std()])
    np.testing.assert_allclose(fitted.values(batch.observations)[:5], 2.0)
    still = jnp.full((4, 1), 7.0)
    one = mn.Standardized(jnp.zeros(1), jnp.ones(1)).anchored(still, jnp.full(4, 0.25))
    assert (float(one.mean[0]), float(one.scale[0])) == (7.0, 1.0)  # a constant is only shifted


def test_a_linear_critic_is_the_same_when_it_is_fitted_again():
    draw = jax.random.key(0)
    features = mn.RandomFourier.drawn(draw, mn.Standardized(jnp.zeros(1), jnp.ones(1)), 5, 1.0)
    critic = mn.LinearCritic(features, anchored=True)
    batch = walk(np.sin(np.arange(12.0)))
    once = critic.fitted(batch, 0.9, jnp.ones(12))
    twice = once.fitted(batch, 0.9, jnp.ones(12))
    np.testing.assert_array_equal(once.parameters, twice.parameters)
    np.testing.assert_array_equal(once.values(batch.observations), twice.values(batch.observations))


# -- rivals


class Says(mn.Critic):
    """A critic that says the same everywhere, whatever it sees."""

    value: float

    def fitted(self, data, discount, ratios):
        return self

    def values(self, observations):
        return jnp.full(len(jax.tree.leaves(observations)[0]), jnp.asarray(self.value))


def returns_beyond(batch, value, discount):
    """What is returned from each row on, less `value`, one sum after the other."""
    found = []
    for t in range(len(batch.rewards)):
        total, weight = -value, 1.0
        for k in range(t, len(batch.rewards)):
            total, weight = total + weight * float(batch.rewards[k]), weight * discount
            if batch.ends[k]:
                total += 0.0 if batch.terminated[k] else weight * value
                break
        found.append(total)
    return np.array(found)


def test_rivals_are_judged_by_what_they_foretold_of_fresh_transitions():
    batch = concatenated([walk([1.0, 2.0, 0.5]), walk([3.0, 1.0], terminated=True)], 7)
    fresh = jnp.array([False] * 3 + [True] * 2 + [False] * 2)
    rivals = mn.Rivals(Says(0.0), Says(1.5), Says(9.0), old=0.75)
    found = rivals.judged(batch, 0.9, fresh)
    squares = [np.sum(returns_beyond(batch, v, 0.9)[3:5] ** 2) for v in (0.0, 1.5, 9.0)]
    expected = 0.75 + 0.25 * np.array(squares) / np.mean(squares)
    np.testing.assert_allclose(found.errors, expected, rtol=1e-12)
    np.testing.assert_array_equal(found.values(batch.observations), 1.5)
    again = found.judged(batch, 0.9, fresh).errors
    np.testing.assert_allclose(again, 0.75 * expected + expected - 0.75, rtol=1e-12)
    first = rivals.values(batch.observations)
    np.testing.assert_array_equal(first, 0.0)  # as long as none is better, the first one counts
    for nothing in (found.judged(batch, 0.9, fresh & False), found.fitted(batch, 0.9, jnp.ones(7))):
        np.testing.assert_array_equal(nothing.errors, found.errors)


def test_rivals_that_are_all_right_or_not_finite_are_not_judged():
    batch = walk([0.0, 0.0])
    rivals = mn.Rivals(Says(0.0), Says(0.0))
    np.testing.assert_array_equal(rivals.judged(batch, 0.9, batch.valid).errors, 1.0)
    wild = mn.Rivals(Says(0.0), Says(float("inf")))
    np.testing.assert_array_equal(wild.judged(batch, 0.9, batch.valid).errors, 1.0)


def test_all_rivals_are_fitted_and_saved():
    table = mn.Standardized(jnp.zeros(1), jnp.ones(1))
    rivals = mn.Rivals(mn.LinearCritic(table), mn.LinearCritic(table, trace=0.0))
    fitted = rivals.fitted(walk(np.sin(np.arange(9.0))), 0.9, jnp.ones(9))
    one, other = (np.asarray(critic.parameters) for critic in fitted.critics)
    assert np.any(one != 0)
    assert np.any(one != other)
    again = with_arrays("test", "critic", rivals, arrays_of(fitted))
    np.testing.assert_equal(arrays_of(again), arrays_of(fitted))


class Counts(Says):
    """A critic that counts the transitions that were fresh when it was judged."""

    fresh: jax.Array

    def judged(self, data, discount, fresh):
        newest = jnp.where(fresh, jnp.arange(fresh.size), fresh.size).min()
        older = data.valid & (jnp.arange(fresh.size) < newest)
        told = jnp.stack([fresh.sum(), older.sum()]).astype(float)
        return eqx.tree_at(lambda critic: critic.fresh, self, told)


def test_only_the_newest_batch_is_fresh():
    policy, w = mn.Gaussian(1, 1, lambda x: jnp.ones(1)), {"mean": jnp.zeros((1, 1))}
    w = {**w, "scale": jnp.zeros(1)}
    evaluator = mn.ActorCritic(
        mn.GymnasiumSimulator("Pendulum-v1"), Counts(0.0, jnp.zeros(2)), 0.9, episodes=1, reuse=3
    )
    for n, older in enumerate((0, 200, 400, 400)):
        known = evaluator.evaluate(jax.random.key(n), policy, w)
        np.testing.assert_array_equal(evaluator.critic.fresh, [200, older])
    evaluator.revisit(jax.random.key(9), policy, w, known)
    assert evaluator.critic.fresh[0] == 0  # nothing was played
    evaluator.revisit(jax.random.key(9), policy, w, known)
    np.testing.assert_array_equal(evaluator.critic.fresh, [200, 400])
    told = evaluator.critic.fresh
    evaluator.again(None, policy, w)
    np.testing.assert_array_equal(evaluator.critic.fresh, told)


@pytest.mark.parametrize("held_out", [False, True])
def test_a_critic_that_is_held_out_has_not_seen_the_newest_batch(held_out):
    policy = mn.Gaussian(1, 1, lambda x: jnp.ones(1))
    w = {"mean": jnp.zeros((1, 1)), "scale": jnp.zeros(1)}
    seen = mn.Standardized(jnp.zeros(3), jnp.ones(3))
    evaluator = mn.ActorCritic(
        mn.GymnasiumSimulator("Pendulum-v1"),
        mn.Rivals(
            mn.LinearCritic(seen), mn.NetworkCritic(mn.mlp(jax.random.key(0), 4, 1, 4), seen)
        ),
        0.9,
        episodes=1,
        reuse=2,
        held_out=held_out,
    )
    evaluator.evaluate(jax.random.key(0), policy, w)
    first = evaluator.critic
    pairs = evaluator.evaluate(jax.random.key(1), policy, w)
    data = evaluator.memory.all()
    judge = first if held_out else evaluator.critic
    inside = [one.values(data.observations) for one in judge.critics]
    expected = inside[int(np.argmin(evaluator.critic.errors))]
    np.testing.assert_array_equal(pairs.state_value, expected)
    again = evaluator.restored(evaluator.state()).again(None, policy, w)
    for name in ("state_value", "advantage", "value"):
        np.testing.assert_array_equal(getattr(again, name), getattr(pairs, name))


# -- what adapts


@pytest.mark.parametrize(
    ("horizon", "dimension", "discount", "least", "width"),
    [
        (10, 1, 0.9, 400, 0.3),
        (50, 11, 0.95, 400, 2 * 200 ** (-1 / 11)),
        (200, 3, 0.9875, 800, 2 * 200 ** (-1 / 3)),
        (1000, 17, 0.995, 1000, 2 * 200 ** (-1 / 17)),
    ],
)
def test_the_preset_adapts_to_horizon_and_dimension(horizon, dimension, discount, least, width):
    found = mn.PRACTICAL.adapted(horizon, dimension, terminates=True)
    assert (found.discount, found.least_transitions) == (pytest.approx(discount), least)
    assert found.width == pytest.approx(width)
    longer = mn.PRACTICAL.adapted(horizon, dimension, terminates=False).discount
    assert longer == pytest.approx(0.9975 if horizon == 1000 else discount)
    assert mn.PRACTICAL.adapted(10_000, dimension, terminates=False).discount == 0.999
    given = mn.Preset(discount=0.5, least_transitions=7, width=2.0)
    assert given.adapted(horizon, dimension, terminates=False) == given
