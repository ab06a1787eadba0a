"""What the theorems of the paper become for total, finite-horizon and average reward."""

from dataclasses import replace
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from criterion_problems import PROBLEMS, average, finite, total_stopping
from problems import gibbs, tabular

import mdpnewton as mn
from mdpnewton.domains.mazes import MCCALLUM
from mdpnewton.domains.two_state import start_parameters, two_state_mdp, two_state_policy

OFFSET = mn.Precondition("H2", mn.Dense(), mn.TightOffset())
GRID = MCCALLUM.mdp(0.95)


def earning(mdp):
    """The same problem with rewards that are not negative."""
    return replace(mdp, reward=np.abs(mdp.reward), discount=given_discount(mdp))


def given_discount(mdp):
    return mdp.discount if mdp.criterion in ("discounted", "finite") else None


def grid(criterion):
    """McCallum's grid by another criterion: its aliased states have an optimum in the interior."""
    parts = GRID.transition, GRID.reward, GRID.start
    if criterion == "total":
        stop = np.full(GRID.reward.shape, 0.05)
        return mn.FiniteMDP(0.95 * parts[0], *parts[1:], criterion="total", stop=stop)
    horizon = 12 if criterion == "finite" else None
    return mn.FiniteMDP(*parts, criterion=criterion, horizon=horizon)


@cache
def optimum(criterion):
    """The grid, its policy, and a stationary point."""
    mdp, policy = grid(criterion), MCCALLUM.policy(0.95)
    evaluator = mn.FiniteEvaluator(mdp)
    found = mn.search(
        evaluator, policy, jnp.zeros(4), OFFSET, iterations=300, gradient_tolerance=1e-9
    )
    w = found.w
    for _ in range(3):  # the last digits by Newton's steps
        pairs = evaluator.evaluate(None, policy, w)
        w = w + mn.direction("newton", policy, w, pairs).value
    return mdp, policy, w


@pytest.mark.parametrize("problem", PROBLEMS)
def test_theorems_3_and_4_both_expansions_give_the_hessian_under_every_criterion(problem):
    mdp = PROBLEMS[problem](1)
    policy, _, w = gibbs(1, mdp)
    terms = mn.analyze(mdp, policy, jnp.asarray(w)).terms
    cross = terms["H12"] + terms["H12"].T
    size = max(1.0, *(np.abs(matrix).max() for matrix in terms.values()))
    for parts in (("H1", "H2"), ("A1", "A2")):
        total = terms[parts[0]] + terms[parts[1]] + cross
        assert np.abs(total - terms["hessian"]).max() < 1e-12 * size


def test_the_average_reward_is_the_limit_of_discounted_rewards():
    """Less the constant that values grow by: it is a multiple of the Fisher matrix in H2."""
    mdp = average()
    policy, _, w = gibbs(0, mdp)
    limit = mn.analyze(mdp, policy, jnp.asarray(w))
    share = 1e-6  # 1 - gamma
    near = mn.FiniteMDP(mdp.transition, mdp.reward, mdp.start, 1 - share)
    found = mn.analyze(near, policy, jnp.asarray(w))
    assert share * found.objective == pytest.approx(limit.objective, abs=1e-4)
    for name in ("A1", "A2", "H12", "hessian", "fisher"):
        np.testing.assert_allclose(share * found.terms[name], limit.terms[name], atol=1e-4)
    np.testing.assert_allclose(found.value - found.occupancy.sum(1) @ found.value * share,
                               limit.value, atol=1e-4)  # fmt: skip
    level = share * (found.occupancy.sum(axis=1) @ found.value)
    raised = share * (found.terms["H2"] + level * found.terms["fisher"])
    np.testing.assert_allclose(raised, limit.terms["H2"], atol=1e-4)


@pytest.mark.parametrize("make", [total_stopping, finite])
def test_theorem_5_holds_for_total_and_finite_rewards_that_are_not_negative(make):
    mdp = earning(make(2))
    policy, _, w = gibbs(2, mdp)
    found = mn.analyze(mdp, policy, jnp.asarray(w))
    assert found.guaranteed
    assert found.spectra["H2"].definiteness.startswith("negative")


def test_theorem_5_fails_for_differential_values_and_the_fisher_matrix_repairs_it():
    mdp = earning(average(2))
    policy, _, w = gibbs(2, mdp)
    found = mn.analyze(mdp, policy, jnp.asarray(w))
    assert not found.guaranteed
    assert found.spectra["H2"].definiteness == "indefinite"
    offset = -found.value.min()
    values = np.linalg.eigvalsh(found.terms["H2"] - offset * found.terms["fisher"])
    assert values.max() <= 1e-12
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, jnp.asarray(w))
    step = mn.direction(OFFSET, policy, jnp.asarray(w), pairs)
    assert float(jnp.vdot(step.value, step.gradient)) > 0


def test_theorem_6_tables_are_value_consistent_for_total_reward():
    mdp = total_stopping()
    policy, _, w = tabular(0, mdp)
    assert mn.analyze(mdp, policy, jnp.asarray(w)).consistency.consistent


def test_theorem_6_needs_tables_over_states_and_times_for_a_finite_horizon():
    transition = np.zeros((2, 2, 2))
    transition[0] = np.eye(2)  # stay and earn 1, or go where every step earns 2
    transition[1, :, 1] = 1
    reward, start = np.array([[1.0, 0.0], [2.0, 2.0]]), np.array([1.0, 0.0])
    mdp = mn.FiniteMDP(transition, reward, start, criterion="finite", horizon=4)
    w = jnp.zeros((2, 2))
    witness = mn.analyze(mdp, mn.TabularSoftmax(2, 2), w).consistency.witness
    assert witness["kind"] == "opposite signs"
    assert witness["states"] == [0, 0]  # one state, at two times
    product, w = mn.unrolled(mdp), jnp.zeros((8, 2))
    assert mn.analyze(product, mn.TabularSoftmax(8, 2), w).consistency.consistent


def test_theorem_6_holds_by_gains_of_states_for_average_reward_but_not_by_differential_values():
    mdp = average()
    policy, _, w = tabular(0, mdp)
    w = jnp.asarray(w)
    assert mn.analyze(mdp, policy, w).consistency.consistent
    slopes = mn.value_gradient(policy, w, mn.FiniteEvaluator(mdp).evaluate(None, policy, w))
    assert ((slopes > 1e-6).any(axis=0) & (slopes < -1e-6).any(axis=0)).any()


def best_table(mdp):
    """An optimal deterministic policy, by trying all of them."""
    tables = np.stack(np.meshgrid(*[range(mdp.n_actions)] * mdp.n_states, indexing="ij"), -1)
    every = np.eye(mdp.n_actions)[tables.reshape(-1, mdp.n_states)]
    soft = 0.999 * every + 0.001 / mdp.n_actions
    worth = [mn.policy_chain(mdp, table).objective for table in soft]
    return every[int(np.argmax(worth))]


@pytest.mark.parametrize("make", [total_stopping, average])
def test_theorem_7_h12_vanishes_for_tables_near_an_optimum(make):
    mdp = make(4)
    mdp = replace(mdp, reward=-np.abs(mdp.reward), discount=None)  # so that it is best to end
    policy = mn.TabularSoftmax(mdp.n_states, mdp.n_actions)
    table, ratios = best_table(mdp), []
    for size in (2.0, 6.0, 10.0):
        terms = mn.analyze(mdp, policy, jnp.asarray(size * table)).terms
        cross = terms["H12"] + terms["H12"].T
        ratios.append(np.linalg.norm(cross, 2) / np.linalg.norm(terms["hessian"], 2))
    assert ratios[0] > ratios[1] > ratios[2]
    assert ratios[2] < 0.01


@pytest.mark.parametrize("criterion", ["total", "finite", "average"])
def test_theorem_7_aliased_states_keep_their_h12_under_every_criterion(criterion):
    found = mn.analyze(*optimum(criterion))
    assert found.stationary
    assert not found.consistency.consistent
    cross = found.terms["H12"] + found.terms["H12"].T
    assert np.linalg.norm(cross, 2) > 0.05 * np.linalg.norm(found.terms["hessian"], 2)


@pytest.mark.parametrize("name", ["first_gauss_newton", "second_gauss_newton", "newton"])
@pytest.mark.parametrize("make", [total_stopping, finite, average])
def test_theorem_8_affine_invariance_under_every_criterion(make, name):
    mdp = make(3)
    policy, _, w = gibbs(3, mdp)
    change = np.random.default_rng(0).normal(size=(4, 4)) + 2 * np.eye(4)
    turned = mn.Gibbs(np.asarray(policy.features) @ change)
    evaluator, w = mn.FiniteEvaluator(mdp), jnp.asarray(w)
    v = jnp.asarray(np.linalg.solve(change, w))
    step = mn.direction(name, policy, w, evaluator.evaluate(None, policy, w)).value
    other = mn.direction(name, turned, v, evaluator.evaluate(None, turned, v)).value
    np.testing.assert_allclose(change @ np.asarray(other), step, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("theorem", "name"), [(9, "first_gauss_newton"), (10, "second_gauss_newton")]
)
@pytest.mark.parametrize("criterion", ["total", "finite", "average"])
def test_theorems_9_and_10_the_jacobian_of_the_update_under_every_criterion(
    criterion, theorem, name
):
    mdp, policy, w = optimum(criterion)
    evaluator = mn.FiniteEvaluator(mdp)

    def updated(v):
        pairs = evaluator.evaluate(None, policy, v)
        return np.asarray(v + mn.direction(name, policy, v, pairs).value)

    rate = mn.analyze(mdp, policy, w).rates[name]
    step = 1e-4
    measured = np.stack(
        [(updated(w + step * e) - updated(w - step * e)) / (2 * step) for e in np.eye(4)], axis=1
    )
    np.testing.assert_allclose(measured, rate.jacobian, atol=2e-4 * max(1, np.abs(measured).max()))


@pytest.mark.parametrize("criterion", ["total", "finite"])
def test_theorem_10_every_step_below_two_converges_for_total_and_finite_rewards(criterion):
    rate = mn.analyze(*optimum(criterion)).rates["second_gauss_newton"]
    assert rate.rate < 1
    assert rate.largest_step >= 2


def test_theorem_10_steps_below_two_need_the_offset_for_average_reward():
    mdp, policy, w = optimum("average")
    found = mn.analyze(mdp, policy, w)
    rate = found.rates["second_gauss_newton"]
    assert rate.largest_step is None or rate.largest_step < 2
    raised = found.terms["H2"] - 20 * found.terms["fisher"]
    values = np.linalg.eigvals(np.linalg.solve(raised, found.terms["hessian"]))
    assert (values.real > 0).all()
    assert np.abs(values).max() < 1


@pytest.mark.parametrize("criterion", ["total", "finite"])
def test_theorem_11_the_em_step_is_the_second_gauss_newton_step_to_first_order(criterion):
    mdp, policy, best = optimum(criterion)
    evaluator, gaps = mn.FiniteEvaluator(mdp), []
    for size in (1e-1, 1e-2):
        w = best + size * jnp.array([1.0, -0.5, 0.3, 0.7])
        pairs = evaluator.evaluate(None, policy, w)
        em = mn.direction("expectation_maximization", policy, w, pairs).value
        newton = mn.direction("second_gauss_newton", policy, w, pairs).value
        gaps.append(float(jnp.linalg.norm(em - newton)))
    assert gaps[1] < 0.02 * gaps[0]


@pytest.mark.parametrize("criterion", ["total", "finite"])
def test_theorems_2_and_12_em_rises_and_has_the_rate_of_the_second_method(criterion):
    mdp, policy, best = optimum(criterion)
    evaluator = mn.FiniteEvaluator(mdp)
    w, found = jnp.zeros(4), []
    for _ in range(10):
        pairs = evaluator.evaluate(None, policy, w)
        found.append(pairs.objective)
        w = w + mn.direction("expectation_maximization", policy, w, pairs).value
    assert (np.diff(found) > 0).all()
    rate = mn.analyze(mdp, policy, best).rates["expectation_maximization"]

    def updated(v):
        at = evaluator.evaluate(None, policy, v)
        return np.asarray(v + mn.direction("expectation_maximization", policy, v, at).value)

    turned = np.linalg.eig(rate.jacobian)
    along = turned[1][:, np.argmax(np.abs(turned[0]))].real
    rise = (updated(best + 1e-4 * along) - updated(best - 1e-4 * along)) / 2e-4
    assert np.linalg.norm(rise) / np.linalg.norm(along) == pytest.approx(rate.rate, abs=1e-3)


def test_kakades_problem_in_its_own_setting_reaches_the_better_loop():
    """Average reward: natural and second Gauss-Newton steps leave the plateau, steepest does not.

    The first state is occupied four fifths of the time, and its loop earns 1, which is the plateau.
    The loop of the second earns 2, the optimum.
    """
    mdp, policy = two_state_mdp(None), two_state_policy()
    evaluator, start, reached = mn.FiniteEvaluator(mdp), jnp.asarray(start_parameters(0.2)), {}
    for name, method in (("natural", "natural"), ("second", OFFSET), ("steepest", "steepest")):
        found = mn.search(evaluator, policy, start, method, step=mn.Constant(1.0), iterations=30)
        reached[name] = found.objective
    assert reached["second"] > 1.99
    assert reached["natural"] > 1.99
    assert reached["steepest"] < 1.0
