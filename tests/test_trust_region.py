"""Steps for noisy objectives, the offset, and the policies that came with them."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, quadratic, random_mdp

import mdpnewton as mn
from mdpnewton.steps.divergence import fisher_form, mean_divergence, promised

MDP = random_mdp(1)
EVALUATOR = mn.FiniteEvaluator(MDP)
POLICY, _, W = gibbs(1, MDP)
W = jnp.asarray(W)
PAIRS = EVALUATOR.evaluate(None, POLICY, W)


def line(divergence, norm=1.0, slope=1.0, surrogate=lambda size: size):
    return mn.Line(0.0, slope, norm, lambda size: 0.0, None, divergence, surrogate)


def test_the_mean_divergence_is_the_plain_sum():
    v = W + 0.3
    weights = np.asarray(PAIRS.occupancy)
    log_w, log_v = (np.asarray(POLICY.log_probs(x, PAIRS.states, PAIRS.actions)) for x in (W, v))
    expected = np.sum(weights * (log_w - log_v)) / weights.sum()
    assert float(mean_divergence(POLICY, W, v, PAIRS)) == pytest.approx(expected, rel=1e-12)
    assert float(mean_divergence(POLICY, W, W, PAIRS)) == 0.0


def test_without_a_closed_form_the_listed_actions_estimate_the_divergence():
    class Bare(mn.Gibbs):
        def kl(self, w, v, state):
            return None

    bare = Bare(POLICY.features)
    found = float(mean_divergence(bare, W, W + 0.3, PAIRS))
    assert found == pytest.approx(float(mean_divergence(POLICY, W, W + 0.3, PAIRS)), rel=1e-10)


def test_half_the_fisher_form_is_the_divergence_of_a_small_step():
    step = 1e-4 * jnp.asarray(np.random.default_rng(0).normal(size=W.shape))
    fisher = mn.curvature(POLICY, W, PAIRS, "fisher").mv(step)
    half = 0.5 * float(step @ fisher) / float(PAIRS.occupancy.sum())
    assert float(mean_divergence(POLICY, W, W + step, PAIRS)) == pytest.approx(half, rel=1e-3)


def test_the_promise_has_the_slope_of_the_objective():
    ahead = mn.direction("natural", POLICY, W, PAIRS)
    size = 1e-6
    rise = float(promised(POLICY, W, W + size * ahead.value, PAIRS)) / size
    assert rise == pytest.approx(ahead.report.slope, rel=1e-4)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("power", [1.0, 2.0, 4.0])
def test_a_kl_step_has_the_divergence_that_was_asked_for(scale, power):
    step = mn.KLStep(0.2).choose(line(lambda size: (size / scale) ** power, norm=1 / scale), 0)
    assert step.accepted
    assert step.divergence == pytest.approx(0.2, rel=0.05)


def quadratic_line(form, norm=1.0, slope=1.0, previous=None):
    """A line whose divergence is known to second order alone."""
    found = line(lambda size: 0.5 * form * size**2, norm, slope)
    found.fisher_form, found.previous = (lambda: form), previous
    return found


@pytest.mark.parametrize("form", [1e-12, 0.37, 1e12])
def test_a_kl_step_has_a_closed_form_where_the_divergence_is_quadratic(form):
    step = mn.KLStep(0.2).choose(quadratic_line(form), 0)
    assert (step.size, step.divergence) == (math.sqrt(0.4 / form), 0.2)
    short = mn.KLStep(0.2, largest=step.size / 2).choose(quadratic_line(form), 0)
    assert short.size == step.size / 2
    assert short.divergence == pytest.approx(0.05, rel=1e-12)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (0.0, "the policy does not change along the direction"),
        (-1e-20, "the policy does not change along the direction"),
        (math.nan, "no size gives a finite divergence"),
        (math.inf, "no size gives a finite divergence"),
    ],
)
def test_a_kl_step_refuses_a_form_that_gives_no_size(form, reason):
    step = mn.KLStep(0.2).choose(quadratic_line(form), 0)
    assert (step.accepted, step.size, step.reason) == (False, 0.0, reason)


def test_accumulated_matrices_give_the_divergence_of_the_pairs_to_second_order():
    fisher = mn.curvature(POLICY, W, PAIRS, "fisher").dense()
    mass = float(PAIRS.occupancy.sum())
    added = mn.AccumulatedMatrices(W, {"fisher": fisher}, 0.0, decisions=mass)
    d = 1e-4 * jnp.asarray(np.random.default_rng(0).normal(size=W.shape))
    expected = float(mean_divergence(POLICY, W, W + d, PAIRS))
    assert 0.5 * fisher_form(d, added) == pytest.approx(expected, rel=1e-3)
    with pytest.raises(ValueError, match="accumulated H2, and not 'fisher'"):
        fisher_form(d, mn.AccumulatedMatrices(W, {"H2": fisher}, 0.0))


class Matrices(mn.Evaluator):
    """What `FiniteEvaluator` says, as matrices in place of pairs."""

    def evaluate(self, key, policy, w):
        pairs = EVALUATOR.evaluate(key, policy, w)
        forms = {name: mn.curvature(policy, w, pairs, name).dense() for name in ("H2", "fisher")}
        mass = float(pairs.occupancy.sum())
        return mn.AccumulatedMatrices(
            mn.gradient(policy, w, pairs), forms, pairs.objective, decisions=mass
        )

    def objective(self, key, policy, w):
        return EVALUATOR.objective(key, policy, w)


def test_searches_on_matrices_and_on_pairs_agree_to_second_order():
    for rule in (mn.KLStep(1e-6, tolerance=1e-9), mn.KLSchedule(lambda n: n / 3, 1e-6, 1e-7)):
        ways = [
            mn.search(evaluator, POLICY, W, "natural", rule, iterations=3)
            for evaluator in (EVALUATOR, Matrices())
        ]
        moves = [np.asarray(found.w - W) for found in ways]
        np.testing.assert_allclose(*moves, rtol=0.03, atol=1e-3 * np.abs(moves[0]).max())
        assert ways[1].history[0].step.divergence == 1e-6
    with pytest.raises(ValueError, match="looks at pairs"):
        mn.search(Matrices(), POLICY, W, "natural", mn.SurrogateBacktracking(), iterations=1)


def test_the_divergence_of_a_schedule_falls_geometrically():
    rule = mn.KLSchedule(lambda iteration: iteration / 4, 0.16, 0.01)
    steps = [rule.choose(quadratic_line(2.0), n) for n in range(6)]
    asked = [step.divergence for step in steps]
    assert asked == pytest.approx([0.16, 0.08, 0.04, 0.02, 0.01, 0.01])
    down = rule.choose(quadratic_line(2.0, slope=-1.0), 0)
    assert (down.accepted, down.size, down.reason) == (False, 0.0, "not an ascent direction")


def test_steps_are_shortened_until_one_is_kept():
    rule, previous = mn.KeepUnlessLost(mn.KLStep(0.08)), None
    sizes, divergences = [], []
    for accepted in (False, False, True, True):
        step = rule.choose(quadratic_line(1.0, previous=previous), 0)
        sizes.append(step.size)
        divergences.append(step.divergence)
        previous = replace(step, accepted=accepted)
    assert sizes == [0.4, 0.2, 0.1, 0.4]
    assert divergences == pytest.approx([0.08, 0.02, 0.005, 0.08])
    plain = mn.KeepUnlessLost(shorten=0.1).choose(line(None), 0)
    assert plain == mn.Step(1.0)
    refused = mn.Step(0.0, False, "the direction is zero")
    assert rule.choose(quadratic_line(1.0, previous=refused), 0).size == 0.4
    assert not rule.choose(quadratic_line(1.0, norm=0.0, previous=step), 0).accepted


def test_a_step_is_kept_unless_a_share_is_lost():
    def at(objective, error=0.0):
        return mn.AccumulatedMatrices(W, {}, objective, error)

    rule = mn.KeepUnlessLost(left=0.5, tolerance=3.0)
    assert rule.keeps(at(10.0), at(5.0))
    assert not rule.keeps(at(10.0), at(4.99))
    assert rule.keeps(at(10.0, 2.0), at(2.1, 0.0))  # half of the old error counts
    assert rule.keeps(at(10.0), at(2.1, 1.0))
    assert not rule.keeps(at(10.0, 2.0), at(1.9, 0.0))
    assert not rule.keeps(at(10.0), at(math.nan))


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: mn.KLSchedule(0.5), "needs a Callable"),
        (lambda: mn.KLSchedule(lambda n: 0.0, first=0.0), r"`KLSchedule\(first=...\)`"),
        (lambda: mn.KLSchedule(lambda n: 0.0, last=-1.0), r"`KLSchedule\(last=...\)`"),
        (lambda: mn.KeepUnlessLost(0.5), "needs a StepRule, got float"),
        (lambda: mn.KeepUnlessLost(left=1.5), r"`KeepUnlessLost\(left=...\)`"),
        (lambda: mn.KeepUnlessLost(tolerance=-1), r"`KeepUnlessLost\(tolerance=...\)`"),
        (lambda: mn.KeepUnlessLost(shorten=1.0), r"`KeepUnlessLost\(shorten=...\)`"),
        (lambda: mn.search(EVALUATOR, POLICY, W, previous=1.0), "needs a Step, got float"),
    ],
)
def test_wrong_rules_are_refused(build, said):
    with pytest.raises(ValueError, match=said) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_a_kl_step_meets_walls_flats_and_nothing():
    wall = mn.KLStep(0.2).choose(line(lambda t: t if t < 0.01 else math.inf), 0)
    assert wall.accepted
    assert 0 < wall.divergence < 0.2
    flat = mn.KLStep(0.2).choose(line(lambda t: 0.0), 0)
    assert (flat.accepted, flat.reason) == (False, "the policy does not change along the direction")
    nowhere = mn.KLStep(0.2).choose(line(lambda t: math.nan), 0)
    assert (nowhere.accepted, nowhere.reason) == (False, "no size gives a finite divergence")
    assert not mn.KLStep().choose(line(lambda t: t, norm=0.0), 0).accepted
    assert mn.KLStep(0.2, largest=0.05).choose(line(lambda t: t), 0).size == 0.05


def test_backtracking_shrinks_until_the_samples_promise_a_rise():
    peaked = line(lambda t: t**2, surrogate=lambda t: t - 4 * t**2)
    step = mn.SurrogateBacktracking(mn.KLStep(1.0)).choose(peaked, 0)
    assert step.accepted
    assert 0 < step.size < 0.25
    hopeless = mn.SurrogateBacktracking().choose(line(lambda t: t, surrogate=lambda t: -t), 0)
    assert (hopeless.accepted, hopeless.reason) == (
        False,
        "the samples promise no rise at any size",
    )
    still = mn.SurrogateBacktracking().choose(line(lambda t: t, norm=0.0), 0)
    assert not still.accepted


@pytest.mark.parametrize("rule", [mn.KLStep(0.05), mn.SurrogateBacktracking(mn.KLStep(0.05))])
def test_searches_with_trust_regions_rise(rule):
    found = mn.search(EVALUATOR, POLICY, W, "natural", mn.KeepIfBetter(rule), iterations=15)
    assert found.last_objective > PAIRS.objective
    for record in found.history:
        assert not record.step.accepted or record.step.divergence <= 0.06


def test_the_tight_offset_makes_the_direction_blind_to_the_rewards_offset():
    method = mn.Precondition("H2", fisher_damping=mn.TightOffset(0.2))
    directions = []
    for constant in (0.0, -5.0, 7.0):
        shifted = mn.FiniteMDP(MDP.transition, MDP.reward + constant, MDP.start, MDP.discount)
        pairs = mn.FiniteEvaluator(shifted).evaluate(None, POLICY, W)
        ahead = mn.direction(method, POLICY, W, pairs)
        values = np.asarray(pairs.state_value)
        spread = values.max() - values.min()
        assert ahead.report.fisher_damping == pytest.approx(-values.min() + 0.2 * spread)
        assert ahead.report.smallest_curvature > 0
        directions.append(np.asarray(ahead.value))
    np.testing.assert_allclose(directions[0], directions[1], rtol=1e-7)
    np.testing.assert_allclose(directions[0], directions[2], rtol=1e-7)
    raw = mn.direction("second_gauss_newton", POLICY, W, PAIRS).value
    assert not np.allclose(raw, directions[0], rtol=0.1)


def test_no_larger_offset_keeps_the_matrix_definite_in_every_state():
    policy = mn.TabularSoftmax(MDP.n_states, MDP.n_actions, reduced=True)
    w = policy.initial_parameters()
    pairs = EVALUATOR.evaluate(None, policy, w)
    least = float(pairs.state_value.min())
    for taken, definite in ((0.999 * least, True), (1.001 * least, False)):
        fisher = mn.curvature(policy, w, pairs, "fisher")
        matrix = -mn.curvature(policy, w, pairs, "V2") + (-taken) * fisher
        assert bool(np.linalg.eigvalsh(matrix.dense()).min() > 0) is definite


def test_the_tight_offset_needs_state_values():
    bare = mn.WeightedPairs(
        PAIRS.states, PAIRS.actions, PAIRS.occupancy, PAIRS.value, PAIRS.advantage, 0.0
    )
    with pytest.raises(ValueError, match="needs state values"):
        mn.direction(mn.Precondition("H2", fisher_damping=mn.TightOffset()), POLICY, W, bare)


def test_a_relative_ridge_is_a_share_of_the_diagonal():
    matrix = -mn.curvature(POLICY, W, PAIRS, "H2")
    b = mn.gradient(POLICY, W, PAIRS)
    dense = np.asarray(matrix.dense())
    ridge = 0.3 * np.abs(np.diag(dense)).mean()
    found, report = mn.Dense(relative_ridge=0.3).solve(matrix, b)
    np.testing.assert_allclose(found, np.linalg.solve(dense + ridge * np.eye(len(b)), b), rtol=1e-9)
    assert report.ridge == pytest.approx(ridge)
    along = np.asarray(b) @ dense @ np.asarray(b) / np.asarray(b @ b)
    found, report = mn.ConjugateGradient(relative_ridge=0.3, tolerance=1e-12).solve(matrix, b)
    expected = np.linalg.solve(dense + 0.3 * along * np.eye(len(b)), b)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert report.ridge == pytest.approx(0.3 * along)


def test_a_random_direction_has_length_one_and_needs_a_key():
    ahead = mn.direction(mn.RandomDirection(), POLICY, W, PAIRS, key=jax.random.key(0))
    assert float(jnp.linalg.norm(ahead.value)) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="pass `key"):
        mn.direction(mn.RandomDirection(), POLICY, W, PAIRS)


def test_new_policies_are_what_they_declare():
    states = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)))
    for policy in (
        mn.NoisyGain(1, 2, 0.7),
        mn.LinearSoftmax(3, 2, lambda state: state),
    ):
        w = jnp.asarray(np.random.default_rng(1).normal(size=policy.initial_parameters().shape))
        report = mn.check_policy(policy, w, states)
        assert not report.problems, report.problems
    with pytest.raises(ValueError, match=r"must be a number above 0, got 0\.0"):
        mn.NoisyGain(1, 2, 0.0)


def test_em_is_the_second_gauss_newton_method_at_step_one_for_a_noisy_gain():
    policy, rng = mn.NoisyGain(1, 2, 2.0), np.random.default_rng(0)
    states, actions = (
        jnp.asarray(rng.normal(size=(40, 2))),
        jnp.asarray(rng.normal(size=(40, 1, 1))),
    )
    weights = jnp.asarray(rng.random((40, 1)))
    pairs = mn.WeightedPairs(states, actions, weights, weights, weights, 0.0)
    w = jnp.asarray(rng.normal(size=(1, 2)))
    em = mn.direction("expectation_maximization", policy, w, pairs).value
    newton = mn.direction("second_gauss_newton", policy, w, pairs).value
    np.testing.assert_allclose(em, newton, rtol=1e-10)


def test_a_quadratic_policy_still_has_a_divergence():
    policy, _, w = quadratic(1, MDP)
    pairs = EVALUATOR.evaluate(None, policy, jnp.asarray(w))
    assert float(mean_divergence(policy, jnp.asarray(w), jnp.asarray(w) + 0.1, pairs)) > 0
