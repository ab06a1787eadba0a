"""A thousand singular, indefinite and badly scaled problems: nothing leaks, all is reported."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdpnewton as mn

S, A, N = 4, 3, 3
METHODS = [*mn.METHODS, mn.ExpectationMaximization(iterations=20)]
RULES = (
    mn.Constant(1.0),
    mn.Constant(1e6),
    mn.BestOfSet((0.1, 1.0, 1e8)),
    mn.KeepIfBetter(),
    mn.Armijo(trials=6),
)
STATUSES = {
    "solved",
    "singular",
    "indefinite",
    "corrected",
    "negative curvature",
    "iterations",
    "not finite",
}


def problem(seed):
    """A problem that is hard in a way the seed chooses, and parameters to start from."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(S, 0.3), size=(S, A))
    reward = rng.normal(size=(S, A)) * 10.0 ** rng.integers(-12, 12)
    features = rng.normal(size=(S, A, N)) * 10.0 ** rng.integers(-6, 6, size=N)
    hardship = seed % 6
    if hardship == 0:
        features[:, :, rng.integers(N)] = 0  # a parameter that does nothing
    elif hardship == 1:
        features[:, :, 1] = features[:, :, 0]  # two that do the same
    elif hardship == 2:
        features[:] = 0
    elif hardship == 3:
        reward[:] = 0
    elif hardship == 4:
        transition[:] = np.eye(S)[:, None]
    w = rng.normal(size=N) * 10.0 ** rng.integers(-3, 4)
    discount = float(rng.choice([0.0, 0.5, 0.99, 0.999999]))
    start = np.eye(S)[rng.integers(S)]
    return mn.FiniteMDP(transition, reward, start, discount), mn.Gibbs(features), w


@pytest.mark.parametrize("batch", range(10))
def test_no_nan_no_leak_and_every_solve_reported(batch):
    for seed in range(100 * batch, 100 * batch + 100):
        mdp, policy, w = problem(seed)
        method, rule = METHODS[seed % len(METHODS)], RULES[seed // 7 % len(RULES)]
        found = mn.search(
            mn.FiniteEvaluator(mdp), policy, w, method, rule, iterations=3, keep_trace=True
        )
        assert np.isfinite(np.asarray(found.w)).all(), seed
        assert math.isfinite(found.objective), seed
        for record, before, after in zip(found.history, found.trace, found.trace[1:], strict=False):
            assert record.report.status in STATUSES, seed
            assert math.isfinite(record.report.slope), seed
            assert record.report.solver, seed
            if not record.step.accepted:
                assert record.step.reason, seed
                assert np.array_equal(before, after), seed


finite = st.floats(-1e6, 1e6, allow_subnormal=False)


class Matrix:
    """An operator given by its matrix."""

    def __init__(self, matrix):
        self.matrix, self.w = jnp.asarray(matrix), jnp.zeros(len(matrix))

    def mv(self, p):
        return self.matrix @ p

    def dense(self):
        return self.matrix

    def diagonal(self):
        return jnp.diagonal(self.matrix)

    def blocks(self):
        return [self.matrix[None]]


@pytest.mark.parametrize("solver", [mn.Dense(), mn.Dense(absolute=True), mn.Block(), mn.Diagonal()])
@given(
    entries=st.lists(finite, min_size=9, max_size=9),
    b=st.lists(finite, min_size=3, max_size=3),
    kind=st.sampled_from(["symmetric", "rank one", "zero", "nan", "inf"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_direct_solvers_return_finite_solutions_and_true_reports(solver, entries, b, kind):
    square = np.array(entries).reshape(3, 3)
    matrix = {
        "symmetric": square + square.T,
        "rank one": np.outer(square[0], square[0]),
        "zero": np.zeros((3, 3)),
        "nan": np.full((3, 3), np.nan),
        "inf": np.full((3, 3), np.inf),
    }[kind]
    x, report = solver.solve(Matrix(matrix), jnp.array(b))
    assert np.isfinite(np.asarray(x)).all()
    assert report.status in STATUSES
    if kind in ("nan", "inf"):
        assert report.status == "not finite"
    if report.status == "solved" and not isinstance(solver, mn.Diagonal):
        assert np.linalg.eigvalsh(matrix).min() > 0
