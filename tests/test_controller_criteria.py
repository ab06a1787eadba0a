"""Controllers by every criterion: dense, iterated and sparse, against the product chain."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import sparse

import mdpnewton as mn
from mdpnewton.evaluators.controller import numbers_of
from mdpnewton.evaluators.sparse_chain import SparseChain

CRITERIA = {
    "discounted": {"discount": 0.9},
    "total": {},
    "finite": {"horizon": 4},
    "finite, discounted": {"horizon": 3, "discount": 0.8},
    "finite, once": {"horizon": 1},
    "average": {},
    "average, periodic": {},
}


def small(name, first=False):
    """Three states, three actions of which two are observed alike, by a criterion."""
    rng = np.random.default_rng(3)
    transition, reward = rng.dirichlet(np.ones(3), size=(3, 3)), rng.normal(size=(3, 3))
    if name == "total":
        transition[:, 2] = np.eye(3)[2]
        reward[2] = 0
    if name == "average, periodic":
        transition[:] = np.eye(3)[[1, 2, 0]]
    seen = rng.dirichlet(np.ones(2), size=(3, 3))
    seen[2] = seen[0]
    before = rng.dirichlet(np.ones(2), size=3) if first else None
    return mn.FinitePOMDP(
        transition,
        seen,
        reward,
        np.array([0.6, 0.4, 0.0]),
        first_observation=before,
        criterion=name.split(",")[0],
        **CRITERIA[name],
    )


def lean(pomdp):
    """The same problem with sparse matrices."""
    return replace(pomdp, transition=[sparse.csr_array(matrix) for matrix in pomdp.transition])


def evaluators(pomdp):
    dense, iterated = mn.ControllerEvaluator(pomdp), mn.ControllerEvaluator(pomdp)
    iterated.chain = replace(iterated.chain, dense=0)
    thin = mn.ControllerEvaluator(lean(pomdp))
    assert isinstance(thin.chain, SparseChain)
    return {"dense": dense, "iterated": iterated, "sparse": thin}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", CRITERIA)
def test_every_chain_agrees_with_the_product(name, first):
    pomdp = small(name, first)
    policy = mn.ControllerEvaluator(pomdp).controller(2)
    w = policy.random_parameters(jax.random.key(0))
    expected = mn.FiniteEvaluator(mn.product_mdp(pomdp, 2)).evaluate(None, policy, w)
    for kind, evaluator in evaluators(pomdp).items():
        found = evaluator.evaluate(None, policy, w)
        assert found.objective == pytest.approx(expected.objective, abs=1e-10), kind
        assert evaluator.objective(None, policy, w) == pytest.approx(found.objective, abs=1e-12)
        slopes = [ravel_pytree(mn.gradient(policy, w, pairs))[0] for pairs in (found, expected)]
        np.testing.assert_allclose(*slopes, atol=1e-10)
        for form in ("H1", "H2", "A1+A2", "fisher_score"):
            matrices = [mn.curvature(policy, w, one, form).dense() for one in (found, expected)]
            np.testing.assert_allclose(*matrices, atol=1e-10, err_msg=f"{kind} {form}")


@pytest.mark.parametrize("name", CRITERIA)
def test_rows_of_a_sparse_chain_are_those_of_a_dense_one(name):
    pomdp = small(name, first=True)
    dense, thin = mn.ControllerEvaluator(pomdp).chain, SparseChain(lean(pomdp))
    policy = mn.ControllerEvaluator(pomdp).controller(3)
    w = policy.random_parameters(jax.random.key(1))
    tables = numbers_of(policy, w)
    closed = thin.closed(tables)
    expected = dense.earned(policy.tables(w), dense.closed(policy.tables(w)))
    for one, other in zip(thin.earned(tables, closed), expected, strict=True):
        for table, known in zip(one, other, strict=True):
            np.testing.assert_allclose(table, known, atol=1e-10)
    near = {key: leaf + 0.01 for key, leaf in w.items()}
    again = thin.closed(tables, thin.closed(numbers_of(policy, near)))
    assert again.objective == pytest.approx(closed.objective, abs=1e-10)


@pytest.mark.parametrize("criterion", ["total", "finite", "average"])
def test_an_offset_belongs_to_discounted_rewards(criterion):
    with pytest.raises(ValueError, match=f"must be 0 for criterion '{criterion}'"):
        mn.ControllerEvaluator(small(criterion), offset=1.0)


@pytest.mark.parametrize("form", [lambda pomdp: pomdp, lean])
def test_several_recurrent_classes_are_named(form):
    moves = np.stack([np.eye(2), np.eye(2)])
    pomdp = mn.FinitePOMDP(
        moves, np.ones((2, 2, 1)), np.ones((2, 2)), [0.5, 0.5], criterion="average",
        states=("left", "right"),
    )  # fmt: skip
    with pytest.raises(mn.ChainError, match=r"there are 2, with the states \{left\}; \{right\}"):
        mn.ControllerEvaluator(form(pomdp))


@pytest.mark.parametrize("name", ["total", "finite", "average"])
def test_a_controller_that_is_played_earns_what_the_criterion_says(name):
    pomdp = small(name)
    evaluator = mn.ControllerEvaluator(pomdp)
    policy = evaluator.controller(2)
    w = policy.random_parameters(jax.random.key(0))
    played = mn.simulated_value(pomdp, policy.tables(w), episodes=500, seed=1)
    value, bounds = evaluator.objective(None, policy, w), mn.upper_bounds(pomdp)
    assert abs(played.mean - value) < 4 * played.error
    assert value <= bounds.fast_informed + 1e-12 <= bounds.qmdp + 2e-12


def test_the_bound_of_a_finite_horizon_is_that_of_a_plain_recursion():
    pomdp = small("finite, discounted")
    T, Z, R = pomdp.transition, pomdp.observation, pomdp.reward
    Q = R
    for _ in range(2):
        Q = np.array([[R[s, a] + 0.8 * sum(
            max(sum(T[a, s, t] * Z[a, t, o] * Q[t, b] for t in range(3)) for b in range(3))
            for o in range(2)) for a in range(3)] for s in range(3)])  # fmt: skip
    found = mn.upper_bounds(pomdp)
    assert found.fast_informed == pytest.approx((pomdp.start @ Q).max(), rel=1e-12)


def test_a_horizon_that_would_fill_the_memory_is_refused_in_a_line(monkeypatch):
    monkeypatch.setattr("mdpnewton.evaluators.sparse_chain.MOST", 10)
    evaluator = mn.ControllerEvaluator(lean(small("finite")))
    policy = evaluator.controller(2)
    with pytest.raises(ValueError, match=r"a horizon of 4 and 2 nodes, and 1e\+01 at most"):
        evaluator.objective(None, policy, policy.initial_parameters())
