"""Every method of the table under every criterion: its direction against the oracle's matrices."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from criterion_problems import PROBLEMS
from jax.flatten_util import ravel_pytree
from test_controller_criteria import lean, small

import mdpnewton as mn
from mdpnewton.methods import METHODS, Precondition, names
from mdpnewton.solve import Block, ConjugateGradient, Cubic, Dense, Diagonal, TrustRegion

CRITERIA = {
    "discounted": "discounted_stopping",
    "total": "total_stopping",
    "finite": "finite_discounted",
    "average": "average",
}
OTHERS = {"steepest", "expectation_maximization", "compatible_natural"}  # no matrix is solved with


@cache
def made(criterion):
    """A problem, a table of softmaxes, its parameters, and what the oracle says of them."""
    mdp = PROBLEMS[CRITERIA[criterion]](0)
    S, A = mdp.reward.shape
    w = np.random.default_rng(4).normal(size=(S, A - 1))  # the last action has no parameter
    features = np.zeros((S, A, S, A - 1))
    for state in range(S):
        features[state, :-1, state] = np.eye(A - 1)
    twin = reference.GibbsReference(features.reshape(S, A, -1))
    policy = mn.TabularSoftmax(S, A, reduced=True)
    return mdp, policy, jnp.asarray(w), reference.criterion_terms(mdp, twin, w.ravel())


def solved_with(form, terms):
    """The matrix that a method solves with, from the oracle."""
    return {
        "H2": -terms["H2"],
        "generalized": terms["V1"],
        "fisher": terms["fisher"],
        "fisher_score": terms["fisher"],
        "generalized_fisher": terms["fisher"],
        "A1+A2": -(terms["A1"] + terms["A2"]),
        "hessian": -terms["hessian"],
        "differenced_hessian": -terms["hessian"],
    }[form]


def within(solver, matrix, gradient):
    """The step within a region, its multiplier by bisection."""
    least, one = np.linalg.eigvalsh(matrix)[0], np.eye(len(gradient))
    cubic = isinstance(solver, Cubic)
    if least > 0 and not cubic:
        step = np.linalg.solve(matrix, gradient)
        if np.linalg.norm(step) <= solver.radius:
            return step
    low, high = max(0.0, -least), max(0.0, -least) + 1e4
    for _ in range(200):
        middle = 0.5 * (low + high)
        step = np.linalg.solve(matrix + middle * one, gradient)
        long = np.linalg.norm(step) > (2 * solver.radius * middle if cubic else solver.radius)
        low, high = (middle, high) if long else (low, middle)
    return step


def expected(solver, matrix, gradient, states):
    """The direction by plain linear algebra; None where conjugate gradients stop early."""
    if isinstance(solver, Dense):
        return np.linalg.solve(matrix, gradient)
    if isinstance(solver, Diagonal):
        return gradient / np.diag(matrix)
    if isinstance(solver, Block):
        blocks = np.split(np.arange(len(gradient)), states)
        parts = [np.linalg.solve(matrix[np.ix_(at, at)], gradient[at]) for at in blocks]
        return np.concatenate(parts)
    if isinstance(solver, TrustRegion | Cubic):
        return within(solver, matrix, gradient)
    assert isinstance(solver, ConjugateGradient)
    return np.linalg.solve(matrix, gradient) if np.linalg.eigvalsh(matrix)[0] > 0 else None


@pytest.mark.parametrize("name", names("exact"))
@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_direction_is_that_of_the_oracle(criterion, name):
    mdp, policy, w, oracle = made(criterion)
    evaluator = mn.FiniteEvaluator(mdp)
    pairs = evaluator.evaluate(None, policy, w)
    ahead = mn.direction(name, policy, w, pairs, evaluator=evaluator)
    found, gradient = np.asarray(ahead.value).ravel(), oracle["gradient"]
    np.testing.assert_allclose(np.asarray(ahead.gradient).ravel(), gradient, atol=1e-10)
    assert np.isfinite(found).all()
    assert ahead.report.slope == pytest.approx(found @ gradient, abs=1e-9)
    method = METHODS[name]
    if not isinstance(method, Precondition):
        assert name in OTHERS
        known = {
            "steepest": gradient,
            "compatible_natural": np.linalg.solve(oracle["terms"]["fisher"], gradient),
        }
        if name in known:
            np.testing.assert_allclose(found, known[name], atol=1e-8)
        return
    matrix = solved_with(method.curvature, oracle["terms"])
    direction = expected(method.solver, matrix, gradient, mdp.n_states)
    if direction is None:
        assert ahead.report.negative_curvature
        assert ahead.report.slope > 0
        return
    loose = isinstance(method.solver, ConjugateGradient)
    size = np.abs(direction).max()
    np.testing.assert_allclose(found / size, direction / size, atol=1e-3 if loose else 1e-7)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_em_goes_to_the_top_of_its_bound(criterion):
    """Where no value is negative, which the offset of the average reward sees to elsewhere."""
    mdp, policy, w, _ = made(criterion)
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
    raised = jnp.asarray(np.asarray(pairs.value) + 20 * np.asarray(pairs.occupancy))
    lifted = mn.WeightedPairs(
        pairs.states, pairs.actions, pairs.occupancy, raised, pairs.advantage, pairs.objective,
        complete=True,
    )  # fmt: skip
    step = mn.direction("expectation_maximization", policy, w, lifted).value

    def bound(v):
        return (raised * policy.log_probs(v, lifted.states, lifted.actions)).sum()

    slope = jax.grad(bound)(w + step)
    assert float(jnp.abs(slope).max()) < 1e-6 * float(raised.sum())
    assert bound(w + step) > bound(w)


@pytest.mark.parametrize("method", names("controller"))
@pytest.mark.parametrize("name", ["total", "finite", "average"])
def test_every_method_for_controllers_rises_under_every_criterion(name, method):
    evaluator = mn.ControllerEvaluator(lean(small(name)))
    policy = evaluator.controller(2)
    starts = mn.random_starts(policy, 0, 1)
    found = mn.search_controllers(evaluator, policy, starts, method, iterations=6)
    (values,) = found.objective
    assert values[-1] > values[0]
    worth = evaluator.objective(None, policy, found.best_w)
    assert worth == pytest.approx(values[-1], abs=1e-9)
    assert all(np.isfinite(ravel_pytree(found.w)[0]))
