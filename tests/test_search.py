"""The loop: every method with every rule, transactions, stops, records."""

from dataclasses import replace
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import POLICIES, gibbs, random_mdp

import mdpnewton as mn
from mdpnewton.methods import Direction, Method
from mdpnewton.solve import SolveReport

MDP = random_mdp(1)
EVALUATOR = mn.FiniteEvaluator(MDP)
POLICY, _, START = gibbs(1, MDP)
RULES = {
    "constant": mn.Constant(0.5),
    "decay": mn.Decay(0.5),
    "best of set": mn.BestOfSet((0.1, 0.5, 1.0)),
    "keep if better": mn.KeepIfBetter(),
    "keep unless lost": mn.KeepUnlessLost(),
    "kl schedule": mn.KLSchedule(lambda iteration: iteration / 3),
    "armijo": mn.Armijo(),
    "strong wolfe": mn.StrongWolfe(),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", mn.METHODS)
def test_protocol_every_method_goes_with_every_rule(method, rule):
    found = mn.search(EVALUATOR, POLICY, START, method, RULES[rule], iterations=3)
    assert np.isfinite(np.asarray(found.w)).all()
    assert len(found.history) == 3
    for record in found.history:
        assert np.isfinite([record.objective, record.gradient_norm]).all()
        assert record.report.status in (
            "solved",
            "indefinite",
            "singular",
            "negative curvature",
            "iterations",
        )
    if rule in ("keep if better", "armijo", "strong wolfe"):
        objectives = found.objectives
        assert all(b >= a - 1e-12 for a, b in pairwise(objectives))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("method", mn.METHODS)
def test_protocol_every_method_goes_with_every_policy(method, policy):
    chosen, _, w = POLICIES[policy](1, MDP)
    w = jnp.asarray(w)
    pairs = EVALUATOR.evaluate(None, chosen, w)
    found = mn.direction(method, chosen, w, pairs, evaluator=EVALUATOR)
    assert isinstance(found, Direction)
    assert jax.tree.structure(found.value) == jax.tree.structure(w)
    assert np.isfinite(np.asarray(found.value)).all()
    expected = float(jnp.sum(found.value * found.gradient))
    assert found.report.slope == pytest.approx(expected, abs=1e-12)


def test_second_gauss_newton_with_step_one_never_lowers_the_objective():
    found = mn.search(EVALUATOR, POLICY, START, iterations=100)
    objectives = found.objectives
    assert (np.diff(objectives) >= -1e-12).all()
    assert objectives[-1] > objectives[0] + 0.1


def test_it_stops_when_converged():
    found = mn.search(
        EVALUATOR, POLICY, START, step=mn.StrongWolfe(), iterations=500, gradient_tolerance=1e-3
    )
    assert found.status == "converged"
    assert found.gradient_norm <= 1e-3
    assert all(record.gradient_norm > 1e-3 for record in found.history)


class Sideways(Method):
    """A direction that is given, whatever the situation."""

    value: jnp.ndarray

    def direct(self, at):
        return self.value, SolveReport("none", "solved")


def test_a_rejected_step_leaves_exactly_the_old_parameters():
    """Tianshou 1287: the parameters of a rejected step leak into the policy."""
    down = Sideways(
        -mn.gradient(POLICY, jnp.asarray(START), EVALUATOR.evaluate(None, POLICY, START))
    )
    found = mn.search(
        EVALUATOR, POLICY, START, down, mn.KeepIfBetter(), iterations=5, keep_trace=True
    )
    assert not any(record.step.accepted for record in found.history)
    for w in found.trace:
        assert np.array_equal(np.asarray(w), START)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
def test_no_step_to_where_parameters_are_not_finite(value):
    wild = Sideways(jnp.full(4, value))
    found = mn.search(EVALUATOR, POLICY, START, wild, mn.Constant(10.0), iterations=2)
    assert np.array_equal(np.asarray(found.w), START)
    assert [record.step.accepted for record in found.history] == [False, False]
    assert "finite" in found.history[0].step.reason


def test_it_stops_on_stagnation_with_what_it_has():
    still = Sideways(jnp.zeros(4))
    found = mn.search(EVALUATOR, POLICY, START, still, iterations=100, patience=7)
    assert found.status == "stagnated"
    assert len(found.history) == 8


class Staged(mn.Evaluator):
    """Two problems one after the other; the second is worth a tenth of the first."""

    def __init__(self, change):
        self.change, self.evaluations = change, 0

    def evaluate(self, key, policy, w):
        found = EVALUATOR.evaluate(key, policy, w)
        stage = int(self.evaluations >= self.change)
        self.evaluations += 1
        return replace(found, objective=found.objective * 0.1**stage, stage=stage)

    def objective(self, key, policy, w):
        return EVALUATOR.objective(key, policy, w)


def test_objectives_of_two_stages_are_not_compared():
    risen = []

    class Watching(mn.Constant):
        def choose(self, line, iteration):
            risen.append(line.risen)
            return super().choose(line, iteration)

        def keeps(self, before, after):
            assert before.stage == after.stage
            return after.objective >= before.objective

    found = mn.search(Staged(4), POLICY, START, step=Watching(), iterations=9, patience=2)
    assert found.status == "iterations"  # no stagnation below what another problem gave
    assert all(record.step.accepted for record in found.history)
    assert found.history[4].objective < found.history[3].objective / 5
    assert [n for n, each in enumerate(risen) if np.isnan(each)] == [0, 4]
    assert all(each >= 0 for n, each in enumerate(risen) if n not in (0, 4))


def test_a_search_goes_on_from_its_last_step():
    rule = mn.Armijo(initial="twice")
    whole = mn.search(EVALUATOR, POLICY, START, step=rule, iterations=6)
    half = mn.search(EVALUATOR, POLICY, START, step=rule, iterations=3)
    options = {"step": rule, "iterations": 6, "first": 3}
    rest = mn.search(EVALUATOR, POLICY, half.last, previous=half.history[-1].step, **options)
    assert half.history + rest.history == whole.history
    alone = mn.search(EVALUATOR, POLICY, half.last, **options)
    assert alone.history[0].step.size != rest.history[0].step.size


def test_an_interrupt_ends_the_search_with_what_it_has():
    def interrupt(record, w):
        if record.iteration == 3:
            raise KeyboardInterrupt

    found = mn.search(EVALUATOR, POLICY, START, iterations=50, callback=interrupt)
    assert found.status == "interrupted"
    assert len(found.history) == 4
    same = mn.search(EVALUATOR, POLICY, START, iterations=4)
    assert np.array_equal(np.asarray(found.w), np.asarray(same.w))
    assert found.history == same.history


def test_the_callback_sees_each_record_and_the_parameters_after_it():
    seen = []
    found = mn.search(
        EVALUATOR, POLICY, START, iterations=3, callback=lambda *a: seen.append(a), keep_trace=True
    )
    assert [record for record, _ in seen] == list(found.history)
    for (_, w), traced in zip(seen, found.trace[1:], strict=True):
        assert np.array_equal(w, traced)


def test_a_search_repeats_bit_for_bit():
    first = mn.search(EVALUATOR, POLICY, START, iterations=10, step=mn.Armijo())
    second = mn.search(EVALUATOR, POLICY, START, iterations=10, step=mn.Armijo())
    assert np.array_equal(np.asarray(first.w), np.asarray(second.w))
    assert first.history == second.history


class Counting(mn.Categorical):
    """Counts how often its code is traced."""

    features: jnp.ndarray
    log: list = eqx.field(static=True)
    log_concave = blockwise_log_concave = constant_curvature = True

    def logits(self, w, state):
        self.log.append(1)
        return self.features[state] @ w

    def initial_parameters(self):
        return jnp.zeros(self.features.shape[2])

    def __hash__(self):
        return 0


class _Log(list):
    __hash__ = object.__hash__

    def __eq__(self, other):
        return self is other


@pytest.mark.parametrize(
    "method",
    [
        "steepest",
        "compatible_natural",
        "expectation_maximization",
        "newton",
        "hessian_free_newton",
        "diagonal_first_gauss_newton",
        "second_gauss_newton",
        "conjugate_gradient_second_gauss_newton",
    ],
)
def test_iterations_after_the_first_compile_nothing(method):
    policy = Counting(POLICY.features, _Log())
    counts = []
    mn.search(
        EVALUATOR,
        policy,
        START,
        method,
        mn.StrongWolfe(),
        iterations=6,
        callback=lambda *_: counts.append(len(policy.log)),
    )
    assert counts[0] > 0
    assert counts[-1] == counts[1], counts


def test_bad_arguments_are_refused_in_one_line():
    with pytest.raises(
        ValueError, match="there is no method 'newtn'; choose one of second_gauss_newton"
    ):
        mn.search(EVALUATOR, POLICY, START, "newtn")
    with pytest.raises(ValueError, match="must be finite"):
        mn.search(EVALUATOR, POLICY, np.full(4, np.nan))
    for options, words in (
        ({"step": 0.5}, r"search\(step=...\)` needs a StepRule, got float; pass a rule"),
        ({"iterations": -1}, r"search\(iterations=...\)` must be a whole number"),
        ({"iterations": 1.5}, r"search\(iterations=...\)` must be a whole number"),
        ({"gradient_tolerance": np.nan}, r"search\(gradient_tolerance=...\)` must be a number"),
        ({"patience": 0}, r"search\(patience=...\)` must be a whole number of at least 1"),
        ({"first": -1}, r"search\(first=...\)` must be a whole number of at least 0"),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            mn.search(EVALUATOR, POLICY, START, **options)
        assert "\n" not in str(caught.value)
    w = jnp.asarray(START)
    pairs = EVALUATOR.evaluate(None, POLICY, w)
    with pytest.raises(ValueError, match="pass `evaluator"):
        mn.direction("hessian_free_newton", POLICY, w, pairs)


def test_a_search_says_that_it_went_downhill_and_that_systems_were_indefinite():
    negative = mn.FiniteMDP(MDP.transition, MDP.reward - 10.0, MDP.start, MDP.discount)
    evaluator = mn.FiniteEvaluator(negative)
    raw = mn.Precondition("H2", mn.Dense(), 0.0)
    found = mn.search(evaluator, POLICY, START, raw, mn.Constant(0.5), iterations=3)
    assert found.last_objective < found.history[0].objective
    downhill, indefinite = found.remarks
    assert downhill.startswith(f"it ended at {found.last_objective:.6g}, below the ")
    assert "of iteration 0, whose parameters are `w`; take shorter steps" in downhill
    assert found.objective == found.history[0].objective
    assert found.gradient_norm == found.history[0].gradient_norm
    assert np.array_equal(found.w, START)
    assert indefinite.startswith("3 of 3 linear systems were indefinite; for the second")
    advised = mn.Precondition("V2", fisher_damping=mn.TightOffset())
    found = mn.search(evaluator, POLICY, START, advised, mn.Constant(0.5), iterations=3)
    assert found.objective > found.history[0].objective
    assert found.remarks == ()
    assert found.w is found.last
    assert found.objective == found.last_objective


class ThereAndBack(mn.Constant):
    """Goes uphill for three steps and downhill after that."""

    def choose(self, line, iteration):
        return replace(super().choose(line, iteration), size=0.1 if iteration < 3 else -0.2)


WANDER = (EVALUATOR, POLICY, START, "steepest", ThereAndBack())


def test_a_search_returns_the_best_of_all_points_beside_the_last_one():
    found = mn.search(*WANDER, iterations=9, keep_trace=True)
    objectives = [EVALUATOR.objective(None, POLICY, w) for w in found.trace]
    assert int(np.argmax(objectives)) == 3
    assert np.array_equal(found.w, found.trace[int(np.argmax(objectives))])
    assert found.objective == pytest.approx(max(objectives), rel=1e-12)
    assert found.gradient_norm == found.history[3].gradient_norm
    assert np.array_equal(found.last, found.trace[-1])
    assert found.last_objective < found.objective
    np.testing.assert_allclose(found.objectives, objectives, rtol=1e-12)


def test_round_off_does_not_make_an_earlier_point_the_best():
    class Rounded(mn.FiniteEvaluator):
        """Later evaluations are lower by less than what numbers can tell."""

        times = 0

        def evaluate(self, key, policy, w):
            self.times += 1
            found = super().evaluate(key, policy, w)
            return replace(found, objective=1.0 - 1e-15 * self.times)

    found = mn.search(Rounded(MDP), POLICY, START, iterations=4)
    assert found.w is found.last
    assert found.remarks == ()


def test_the_best_point_is_of_the_last_stage_only():
    found = mn.search(Staged(4), POLICY, START, iterations=9, keep_trace=True)
    assert found.w is found.last
    assert found.objective == found.last_objective < found.history[0].objective
    assert found.remarks == ()


@pytest.mark.parametrize("keep_trace", [False, True])
def test_the_best_point_survives_a_stop(keep_trace):
    states = []
    options = {"iterations": 9, "keep_trace": keep_trace}
    whole = mn.search(*WANDER, checkpoint=lambda state: states.append(state()), **options)
    assert whole.objective > whole.last_objective
    for state in states[:-1]:
        again = mn.search(*WANDER, resume=state, **options)
        assert np.array_equal(again.w, whole.w)
        assert repr(again.objectives) == repr(whole.objectives)
        assert (again.objective, again.gradient_norm) == (whole.objective, whole.gradient_norm)
    older = states[-2] | {"trace": states[-2]["trace"][-1:]}  # as it was before best points
    again = mn.search(*WANDER, resume=older, iterations=9)
    assert np.array_equal(again.last, whole.last)
