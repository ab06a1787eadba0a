"""Faults that an attack found in solves and searches on numbers of extreme scale, one test each."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import random_mdp
from scipy import sparse

import mdpnewton as mn
from mdpnewton.jobs import Here
from mdpnewton.models import SolveError
from mdpnewton.models.closed_loop import ClosedLoop
from mdpnewton.simulators import SimulationError
from mdpnewton.solve import Block, Dense, Diagonal


def iterative(scale, n_states=40, discount=0.95, seed=0):
    """A sparse problem whose rewards have this scale, solved by iterations."""
    mdp = random_mdp(seed, n_states=n_states, n_actions=3, discount=discount)
    rows = [sparse.csr_array(mdp.transition[:, action]) for action in range(3)]
    reward = scale * mdp.reward
    return mn.FiniteMDP(rows, reward, mdp.start, discount, linear_solver="iterative")


@pytest.mark.parametrize("seed", range(5))
def test_the_iterative_solver_does_not_depend_on_the_scale_of_rewards(seed):
    table = np.full((40, 3), 1 / 3)
    plain = ClosedLoop(iterative(1.0, seed=seed), table).value
    for power in (-1000, -53, -10, 10, 500, 990):
        found = ClosedLoop(iterative(2.0**power, seed=seed), table).value
        assert np.array_equal(np.ldexp(found, -power), plain)
    direct = random_mdp(seed, n_states=40, n_actions=3, discount=0.95)
    np.testing.assert_allclose(plain, ClosedLoop(direct, table).value, rtol=1e-9)


def test_rewards_of_1e_minus_16_are_solved_and_searched():
    for seed in range(5):
        mdp = iterative(1e-16, seed=seed)
        policy = mn.TabularSoftmax(40, 3, reduced=True)
        found = mn.search(
            mn.FiniteEvaluator(mdp),
            policy,
            policy.initial_parameters(),
            "newton",
            mn.Armijo(),
            iterations=5,
        )
        assert found.status in ("iterations", "converged", "stagnated")
        assert len(found.history) >= 1


class Failing(mn.FiniteEvaluator):
    """Its solves fail, as those of an iterative solver may, after some that succeed."""

    def __init__(self, mdp, evaluations=math.inf, objectives=math.inf):
        super().__init__(mdp)
        self.left = {"evaluate": evaluations, "objective": objectives}

    def _take(self, what):
        self.left[what] -= 1
        if self.left[what] < 0:
            raise SolveError("the solve failed")

    def evaluate(self, key, policy, w):
        self._take("evaluate")
        return super().evaluate(key, policy, w)

    def objective(self, key, policy, w):
        self._take("objective")
        return super().objective(key, policy, w)


POLICY = mn.TabularSoftmax(5, 3, reduced=True)
START = POLICY.initial_parameters()


def test_a_solve_that_fails_at_a_new_point_refuses_the_step():
    mdp = random_mdp(0)
    good = mn.search(mn.FiniteEvaluator(mdp), POLICY, START, "steepest", iterations=3)
    found = mn.search(Failing(mdp, 4), POLICY, START, "steepest", iterations=6)
    assert [record.step.accepted for record in found.history] == [True] * 3 + [False] * 3
    assert found.history[-1].step.reason == "the objective is not finite there"
    assert np.array_equal(found.w, good.w)
    assert found.history[:3] == good.history


def test_a_solve_that_fails_in_a_line_search_shortens_the_step_or_refuses_it():
    found = mn.search(
        Failing(random_mdp(0), objectives=3), POLICY, START, "natural", mn.Armijo(), iterations=6
    )
    assert [record.step.accepted for record in found.history] == [True] * 3 + [False] * 3
    assert found.status == "iterations"
    wolfe = mn.search(
        Failing(random_mdp(0), 6), POLICY, START, "steepest", mn.StrongWolfe(), iterations=6
    )
    assert len(wolfe.history) == 6


class Explosive(mn.CompiledSimulator):
    """The reward overflows for large actions."""

    spaces = mn.Spaces(1, None, np.array([-np.inf]), np.array([np.inf]))
    horizon = 3

    def reset(self, key):
        return jnp.ones(1)

    def step(self, key, state, action):
        return state, jnp.exp(jnp.sum(action)), jnp.array(False)


RULES = [mn.Constant(1e6), mn.Armijo(1e6), mn.StrongWolfe(1e6)]


@pytest.mark.parametrize("rule", RULES)
def test_a_simulation_that_diverges_at_a_new_point_refuses_or_shortens_the_step(rule):
    policy = mn.LinearGaussian([[0.1]], 1, jnp.asarray)
    evaluator = mn.MonteCarlo(Explosive(), 0.9, episodes=4)
    together = mn.MonteCarlo(mn.Distributed(Explosive(), Here(), 2), 0.9, episodes=4)
    for each in (evaluator, together):
        found = mn.search(
            each, policy, jnp.zeros((1, 1)), "steepest", rule, key=jax.random.key(0), iterations=2
        )
        assert np.isfinite(found.objective)
        if isinstance(rule, mn.Constant):
            assert not found.w.any()
            assert found.history[0].step.reason == "the objective is not finite there"
    with pytest.raises(SimulationError, match="Explosive returned a reward that is not finite"):
        mn.search(evaluator, policy, jnp.full((1, 1), 1e4), key=jax.random.key(0))


def test_a_solve_that_fails_for_the_direction_keeps_the_history():
    class Tired(mn.Method):
        left: list

        def direct(self, at):
            self.left.pop()
            if not self.left:
                raise SolveError("BiCGSTAB left a relative residual of 0.3")
            return mn.METHODS["natural"].direct(at)

    found = mn.search(mn.FiniteEvaluator(random_mdp(0)), POLICY, START, Tired([0] * 4))
    good = mn.search(mn.FiniteEvaluator(random_mdp(0)), POLICY, START, "natural", iterations=3)
    assert found.status == "failed"
    assert found.failure == "BiCGSTAB left a relative residual of 0.3"
    assert found.history == good.history
    assert np.array_equal(found.w, good.w)
    assert found.objective == good.objective
    assert good.failure == ""


def test_other_errors_of_numbers_are_not_taken_for_failed_solves():
    def callback(record, w):
        raise ZeroDivisionError("a fault of the caller")

    with pytest.raises(ZeroDivisionError, match="a fault of the caller"):
        mn.search(mn.FiniteEvaluator(random_mdp(0)), POLICY, START, callback=callback)


@pytest.mark.parametrize("scale", [2.0**-30, 2.0**-50, 2.0**-100])
def test_small_rewards_are_searched_as_far_as_others(scale):
    mdp = random_mdp(0)
    small = mn.FiniteMDP(mdp.transition, scale * mdp.reward, mdp.start, mdp.discount)
    plain, tiny = (
        mn.search(mn.FiniteEvaluator(each), POLICY, START, iterations=20) for each in (mdp, small)
    )
    assert len(tiny.history) == 20
    np.testing.assert_allclose(tiny.w, plain.w, rtol=1e-6)


def test_rewards_that_are_all_zero_have_converged():
    mdp = random_mdp(0)
    none = mn.FiniteMDP(mdp.transition, 0 * mdp.reward, mdp.start, mdp.discount)
    found = mn.search(mn.FiniteEvaluator(none), POLICY, START)
    assert (found.status, found.history) == ("converged", ())
    patient = mn.search(mn.FiniteEvaluator(none), POLICY, START, gradient_tolerance=-1.0)
    assert (patient.status, len(patient.history)) == ("stagnated", 21)


@pytest.mark.parametrize("solver", [Dense(), Block(), Diagonal(), Dense(ridge=1.0)])
@pytest.mark.parametrize("scale", [1e160, 1e250])
def test_large_rewards_are_solved_with_the_residual_that_they_have(solver, scale):
    mdp = random_mdp(0)
    large = mn.FiniteMDP(mdp.transition, scale * mdp.reward, mdp.start, mdp.discount)
    method = mn.Precondition("H2", solver)
    found = mn.search(mn.FiniteEvaluator(large), POLICY, START, method, iterations=2)
    for record in found.history:
        assert record.report.status == "solved"
        assert record.report.residual < 1e-9


@pytest.mark.parametrize("method", list(mn.METHODS))
@pytest.mark.parametrize("scale", [1e200, 1e300])
def test_nothing_is_solved_with_a_residual_that_is_not_finite(method, scale):
    mdp = random_mdp(0)
    large = mn.FiniteMDP(mdp.transition, scale * mdp.reward, mdp.start, mdp.discount)
    found = mn.search(mn.FiniteEvaluator(large), POLICY, START, method, iterations=2)
    for record in found.history:
        assert record.report.status == "not finite" or math.isfinite(record.report.residual)
    assert np.isfinite(found.w).all()


def test_a_fit_that_round_off_spoils_is_not_solved():
    spoilt = []
    for seed in range(10):
        mdp = random_mdp(seed, discount=1 - 2.0**-53)
        evaluator, w = mn.FiniteEvaluator(mdp), jnp.zeros((5, 2))
        pairs = evaluator.evaluate(None, POLICY, w)
        report = mn.direction(mn.Compatible(), POLICY, w, pairs).report
        spoilt.append(report.residual > 1e-6)
        assert (report.status == "inaccurate") == spoilt[-1]
    assert any(spoilt)


def test_a_reduced_table_of_one_action_is_refused():
    with pytest.raises(ValueError, match="must be at least 2 with `reduced=True`"):
        mn.TabularSoftmax(3, 1, reduced=True)


def test_the_iterative_solver_of_controllers_does_not_depend_on_the_scale_of_rewards():
    pomdp = mn.load_pomdp("tiger")
    found = []
    for power in (0, -53, -200, 300):
        scaled = replace(pomdp, reward=np.ldexp(pomdp.reward, power), outcome_reward=None)
        evaluator = mn.ControllerEvaluator(scaled)
        evaluator.chain = replace(evaluator.chain, dense=0)
        policy = evaluator.controller(nodes=3)
        w = mn.random_starts(policy, seed=0, starts=1)
        first = jax.tree.map(lambda leaf: leaf[0], w)
        found.append(math.ldexp(evaluator.evaluate(None, policy, first).objective, -power))
    assert math.isfinite(found[0])
    np.testing.assert_allclose(found, found[0], rtol=1e-13)
