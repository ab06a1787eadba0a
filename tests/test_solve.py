"""Solvers against NumPy: good, indefinite, singular and badly scaled systems, and their reports."""

from dataclasses import dataclass

import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
import reference
from jax.flatten_util import ravel_pytree
from problems import arrays, gibbs, random_mdp, tabular
from reference import GibbsReference

import mdpnewton as mn

N = 6
SEEDS = range(4)
EYE = np.eye(N)
SHAPE = {"first": jnp.zeros(2), "second": jnp.zeros(4)}


@dataclass(frozen=True)
class Matrix:
    """A dense matrix as an operator that is no `Curvature`: iterated with on the host."""

    matrix: jnp.ndarray

    @property
    def w(self):
        return SHAPE

    def mv(self, p):
        flat, unravel = ravel_pytree(p)
        return unravel(self.matrix @ flat)

    def dense(self):
        return self.matrix

    def diagonal(self):
        return ravel_pytree(SHAPE)[1](jnp.diagonal(self.matrix))

    def blocks(self):
        return [self.matrix[None, :2, :2], self.matrix[None, 2:, 2:]]


def on_host(matrix, b):
    return Matrix(jnp.asarray(matrix)), ravel_pytree(SHAPE)[1](jnp.asarray(b))


def traced(matrix, b):
    """The same matrix as minus the H2 of a linear-Gaussian policy: each eigenvector a state."""
    values, vectors = np.linalg.eigh(matrix)
    states = jnp.asarray(np.sqrt(np.abs(values))[:, None] * vectors.T)
    weights = jnp.asarray(np.sign(values))[:, None]
    actions = jnp.zeros((len(b), 1, 1))
    pairs = mn.WeightedPairs(states, actions, weights, weights, weights, 0.0)
    policy = mn.LinearGaussian(1.0, len(b))
    return -mn.curvature(policy, jnp.zeros((1, len(b))), pairs, "H2"), jnp.asarray(b)[None]


BOTH_PATHS = pytest.mark.parametrize("path", [on_host, traced])


def solved(solver, path, matrix, b):
    x, report = solver.solve(*path(matrix, b))
    return np.asarray(ravel_pytree(x)[0]), report


def system(seed, eigenvalues):
    """A symmetric matrix with these eigenvalues in a random basis, and a right-hand side."""
    rng = np.random.default_rng(seed)
    n = len(eigenvalues)
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    return (basis * eigenvalues) @ basis.T, rng.normal(size=n)


def definite(seed, spread=1.0):
    return system(seed, 2 * 10.0 ** np.linspace(0, spread, N))


def indefinite(seed):
    return system(seed, np.array([-3.0, -0.5, 1.0, 2.0, 4.0, 8.0]))


def singular(seed):
    return system(seed, np.array([0.0, 0.0, 2.0, 3.0, 4.0, 5.0]))


def apart(x, y):
    """Relative distance of two arrays."""
    return np.linalg.norm(np.asarray(x) - np.asarray(y)) / np.linalg.norm(y)


def residual(matrix, x, b):
    return np.linalg.norm(matrix @ x - b) / np.linalg.norm(b)


def textbook_conjugate_gradients(matrix, b, x, iterations):
    """Every iterate of Hestenes and Stiefel, no safeguards."""
    r = b - matrix @ x
    p, found = r, [x]
    for _ in range(iterations):
        step = (r @ r) / (p @ matrix @ p)
        x, following = x + step * p, r - step * matrix @ p
        p, r = following + (following @ following) / (r @ r) * p, following
        found.append(x)
    return found


# Good systems.


@BOTH_PATHS
def test_dense_solves_positive_definite_systems(path):
    for seed in SEEDS:
        A, b = definite(seed)
        x, report = solved(mn.Dense(), path, A, b)
        assert apart(x, np.linalg.solve(A, b)) < 1e-13
        assert (report.solver, report.status, report.iterations) == ("dense", "solved", 1)
        assert report.residual < 1e-14
        assert 2 * (1 - 1e-12) < report.smallest_curvature < 20
        assert not report.negative_curvature
        assert not report.singular
        assert report.residuals == ()


@BOTH_PATHS
def test_dense_finds_a_smallest_eigenvalue_that_stands_alone(path):
    for seed in SEEDS:
        A, b = system(seed, np.array([0.1, 2.0, 3.0, 4.0, 5.0, 6.0]))
        _, report = solved(mn.Dense(), path, A, b)
        assert report.smallest_curvature == pytest.approx(0.1, rel=1e-10)


@BOTH_PATHS
def test_conjugate_gradient_solves_positive_definite_systems(path):
    for seed in SEEDS:
        A, b = definite(seed)
        x, report = solved(mn.ConjugateGradient(tolerance=1e-10), path, A, b)
        assert apart(x, np.linalg.solve(A, b)) < 1e-9
        assert (report.solver, report.status) == ("conjugate_gradient", "solved")
        assert report.iterations == N
        assert report.residual == pytest.approx(residual(A, x, b), abs=1e-13)
        assert len(report.residuals) == N + 1
        assert report.residuals[0] == pytest.approx(residual(A, b, b))
        assert report.residuals[-1] <= 1e-10 < report.residuals[-2]
        assert 2 * (1 - 1e-12) < report.smallest_curvature < 20
        assert not report.negative_curvature
        assert not report.singular


@BOTH_PATHS
def test_steepest_descent_solves_positive_definite_systems(path):
    A, b = system(0, np.linspace(1, 2, N))
    x, report = solved(mn.SteepestDescent(), path, A, b)
    assert apart(x, np.linalg.solve(A, b)) < 1e-9
    assert (report.solver, report.status) == ("steepest_descent", "solved")
    expected = b
    for _ in range(report.iterations):
        r = b - A @ expected
        expected = expected + (r @ r) / (r @ A @ r) * r
    assert apart(x, expected) < 1e-12
    assert 10 < report.iterations < 30
    assert len(report.residuals) == report.iterations + 1
    assert report.residuals[-1] <= 1e-10 < report.residuals[-2]


@BOTH_PATHS
def test_diagonal_solves_with_the_diagonal_alone(path):
    A, b = definite(0)
    x, report = solved(mn.Diagonal(), path, A, b)
    assert apart(x, b / np.diag(A)) < 1e-14
    assert (report.solver, report.status) == ("diagonal", "solved")
    assert report.residual < 1e-14
    assert report.smallest_curvature == pytest.approx(np.diag(A).min())
    x, report = solved(mn.Diagonal(), path, *indefinite(0))
    A, b = indefinite(0)
    assert np.diag(A).min() < 0
    assert apart(x, b / np.diag(A)) < 1e-13
    assert report.status == "indefinite"
    assert report.smallest_curvature == pytest.approx(np.diag(A).min())
    x, report = solved(mn.Diagonal(absolute=True), path, A, b)
    assert apart(x, b / np.abs(np.diag(A))) < 1e-13
    assert report.status == "corrected"


def test_block_solves_with_the_block_of_each_leaf():
    for seed in SEEDS:
        A, b = definite(seed)
        x, report = solved(mn.Block(), on_host, A, b)
        parts = [np.linalg.solve(A[i, i], b[i]) for i in (slice(0, 2), slice(2, N))]
        assert apart(x, np.concatenate(parts)) < 1e-13
        assert (report.solver, report.status) == ("block", "solved")
        assert report.residual < 1e-14
    A, b = indefinite(1)
    smallest = min(np.linalg.eigvalsh(A[i, i])[0] for i in (slice(0, 2), slice(2, N)))
    assert smallest < 0
    x, report = solved(mn.Block(), on_host, A, b)
    parts = [np.linalg.solve(A[i, i], b[i]) for i in (slice(0, 2), slice(2, N))]
    assert apart(x, np.concatenate(parts)) < 1e-12
    assert report.status == "indefinite"
    assert report.smallest_curvature == pytest.approx(smallest)


def test_blocks_of_a_table_are_the_whole_system():
    mdp = random_mdp(0)
    policy = mn.TabularSoftmax(5, 3, reduced=True)
    w = jnp.asarray(np.random.default_rng(0).normal(size=(5, 2)))
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
    whole, blocks = (
        mn.direction(method, policy, w, pairs)
        for method in ("second_gauss_newton", "block_second_gauss_newton")
    )
    assert apart(blocks.value, whole.value) < 1e-12
    assert whole.report.status == blocks.report.status == "solved"
    assert blocks.report.smallest_curvature == pytest.approx(
        np.linalg.eigvalsh((-mn.curvature(policy, w, pairs, "H2")).dense())[0], rel=1e-3
    )


def test_conjugate_gradient_agrees_with_lineax_on_good_systems():
    for seed in SEEDS:
        A, b = definite(seed, spread=3)
        operator = lx.MatrixLinearOperator(jnp.asarray(A), lx.positive_semidefinite_tag)
        expected = lx.linear_solve(operator, jnp.asarray(b), lx.CG(rtol=1e-12, atol=0.0)).value
        for start in ("gradient", "zero"):
            solver = mn.ConjugateGradient(tolerance=1e-12, start=start)
            x, report = solved(solver, on_host, A, b)
            assert report.status == "solved"
            assert apart(x, expected) < 1e-9


# Indefinite and singular systems.


@BOTH_PATHS
def test_dense_solves_indefinite_systems_and_says_so(path):
    for seed in SEEDS:
        A, b = indefinite(seed)
        x, report = solved(mn.Dense(), path, A, b)
        assert apart(x, np.linalg.solve(A, b)) < 1e-12
        assert report.status == "indefinite"
        assert report.negative_curvature
        assert not report.singular
        assert report.smallest_curvature == pytest.approx(-3)


@BOTH_PATHS
def test_absolute_turns_negative_eigenvalues_around(path):
    for seed in SEEDS:
        A, b = indefinite(seed)
        values, vectors = np.linalg.eigh(A)
        x, report = solved(mn.Dense(absolute=True), path, A, b)
        assert apart(x, vectors @ (vectors.T @ b / np.abs(values))) < 1e-12
        assert x @ b > 0
        assert report.status == "corrected"
        assert report.negative_curvature
        assert report.smallest_curvature == pytest.approx(-3)
    A, b = definite(0)
    x, report = solved(mn.Dense(absolute=True), path, A, b)
    assert apart(x, np.linalg.solve(A, b)) < 1e-13
    assert report.status == "solved"


@BOTH_PATHS
def test_dense_gives_the_least_norm_solution_of_singular_systems(path):
    for seed in SEEDS:
        A, b = singular(seed)
        inverse = np.linalg.pinv(A, rcond=1e-10)
        consistent = A @ b
        x, report = solved(mn.Dense(), path, A, consistent)
        assert apart(x, inverse @ consistent) < 1e-12
        assert report.status == "singular"
        assert report.singular
        assert not report.negative_curvature
        assert report.residual < 1e-13
        x, report = solved(mn.Dense(), path, A, b)
        assert apart(x, inverse @ b) < 1e-12
        assert report.status == "singular"
        assert report.residual == pytest.approx(residual(A, inverse @ b, b))
        assert report.residual > 0.1


@BOTH_PATHS
def test_conjugate_gradient_solves_consistent_singular_systems(path):
    for seed in SEEDS:
        A, b = singular(seed)
        b = A @ b
        x, report = solved(mn.ConjugateGradient(tolerance=1e-10), path, A, b)
        assert apart(x, np.linalg.pinv(A, rcond=1e-10) @ b) < 1e-9
        assert report.status == "solved"
        assert report.iterations == 4


@BOTH_PATHS
def test_conjugate_gradient_stops_on_inconsistent_singular_systems(path):
    for seed in SEEDS:
        A, b = singular(seed)
        x, report = solved(mn.ConjugateGradient(tolerance=1e-10), path, A, b)
        best = residual(A, np.linalg.pinv(A, rcond=1e-10) @ b, b)
        assert report.status == "singular"
        assert report.singular
        assert report.residual == pytest.approx(residual(A, x, b))
        assert best < report.residual == pytest.approx(min(report.residuals))
        assert np.linalg.norm(x) < 10 * np.linalg.norm(b)
        assert x @ b > 0


@BOTH_PATHS
def test_steepest_descent_does_not_call_an_indefinite_system_solved(path):
    for seed, status in enumerate(["iterations", *3 * ["negative curvature"]]):
        A, b = indefinite(seed)
        x, report = solved(mn.SteepestDescent(), path, A, b)
        assert report.status == status
        assert report.negative_curvature == (report.smallest_curvature < 0)
        assert report.negative_curvature == (status == "negative curvature")
        assert report.residual == pytest.approx(min(report.residuals))
        assert report.residual == pytest.approx(residual(A, x, b))
        assert report.residual > 1
        assert x @ b > 0


@BOTH_PATHS
def test_least_squares_descent_solves_indefinite_systems(path):
    A, b = system(0, np.array([-2.0, -1.5, 1.0, 1.5, 2.0, 2.0]))
    x, report = solved(mn.SteepestDescent(least_squares=True), path, A, b)
    assert apart(x, np.linalg.solve(A, b)) < 1e-8
    assert report.status == "solved"
    assert report.negative_curvature
    assert (np.diff(report.residuals) < 0).all()


def test_least_squares_descent_reports_a_singular_system():
    A, b = np.diag([1.0, 0, 1, 1, 1, 1]), np.ones(N)
    x, report = solved(mn.SteepestDescent(least_squares=True), on_host, A, b)
    assert apart(x, b) < 1e-14
    assert report.status == "singular"


@BOTH_PATHS
def test_dense_solves_badly_scaled_systems(path):
    for seed in SEEDS:
        A, b = definite(seed)
        scale = 10.0 ** np.linspace(-5, 5, N)
        if path is on_host:
            x, report = solved(mn.Dense(), path, scale[:, None] * A * scale, b)
            assert apart(x * scale, np.linalg.solve(A, b / scale)) < 1e-12
            assert report.status == "solved"
            assert not report.singular
        for c in (1e-12, 1e12):
            x, report = solved(mn.Dense(), path, c * A, b)
            assert apart(x, np.linalg.solve(c * A, b)) < 1e-13
            assert report.status == "solved"
            assert 2 * (1 - 1e-12) * c < report.smallest_curvature < 20 * c


def test_diagonal_and_block_solve_badly_scaled_systems():
    scale = 10.0 ** np.linspace(-5, 5, N)
    unscaled, b = definite(0)
    A = scale[:, None] * unscaled * scale
    x, report = solved(mn.Diagonal(), on_host, A, b)
    assert np.abs(x * np.diag(A) / b - 1).max() < 1e-14
    assert report.status == "solved"
    x, report = solved(mn.Block(), on_host, A, b)
    for i in (slice(0, 2), slice(2, N)):
        exact = np.linalg.solve(unscaled[i, i], b[i] / scale[i])
        assert apart(x[i] * scale[i], exact) < 1e-12
    assert report.status == "solved"
    A = np.diag(np.append(np.ones(N - 1), 0.0))
    for solver in (mn.Diagonal(), mn.Block()):
        x, report = solved(solver, on_host, A, np.ones(N))
        assert apart(x, np.append(np.ones(N - 1), 0.0)) < 1e-14
        assert report.status == "singular"
        assert report.singular
        assert report.residual == pytest.approx(N**-0.5)


# Ridge, zero right-hand sides, limits, NaN.


SOLVERS = [
    mn.Dense(),
    mn.Block(),
    mn.Diagonal(),
    mn.ConjugateGradient(),
    mn.SteepestDescent(),
    mn.SteepestDescent(least_squares=True),
]


@pytest.mark.parametrize("kind", [mn.Dense, mn.ConjugateGradient, mn.SteepestDescent])
@BOTH_PATHS
def test_the_ridge_is_added_to_the_diagonal_and_reported(path, kind):
    A, b = indefinite(0)
    x, report = solved(kind(ridge=20.0), path, A, b)
    assert apart(x, np.linalg.solve(A + 20 * EYE, b)) < 1e-6
    assert report.status == "solved"
    assert report.ridge == 20.0
    assert report.smallest_curvature > 17 * (1 - 1e-3)
    assert report.residual == pytest.approx(residual(A + 20 * EYE, x, b), abs=1e-13)


def test_the_ridge_of_diagonal_and_block():
    A, b = definite(0)
    x, report = solved(mn.Diagonal(ridge=2.0), on_host, A, b)
    assert apart(x, b / (np.diag(A) + 2)) < 1e-14
    assert report.ridge == 2.0
    x, report = solved(mn.Block(ridge=2.0), on_host, A, b)
    parts = [np.linalg.solve((A + 2 * EYE)[i, i], b[i]) for i in (slice(0, 2), slice(2, N))]
    assert apart(x, np.concatenate(parts)) < 1e-13
    assert report.ridge == 2.0


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_a_zero_right_hand_side_gives_zero(solver):
    for A, _ in (definite(0), indefinite(0), singular(0)):
        x, report = solved(solver, on_host, A, np.zeros(N))
        assert (x == 0).all()
        assert report.residual == 0
        assert report.status != "not finite"


@BOTH_PATHS
def test_the_limit_of_iterations_is_reported(path):
    A, b = definite(0, spread=3)
    for kind in (mn.ConjugateGradient, mn.SteepestDescent):
        _, report = solved(kind(iterations=3), path, A, b)
        assert (report.status, report.iterations) == ("iterations", 3)
        assert len(report.residuals) == 4
        assert report.residual == pytest.approx(min(report.residuals))


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
def test_nan_in_the_matrix_is_reported_and_the_direction_is_finite(solver):
    """CG NaNs: rllab 24, tensorforce 26, sb3-contrib 38, Hands-on-RL 108."""
    A, b = definite(0)
    A[0, 0] = np.nan
    x, report = solved(solver, on_host, A, b)
    assert report.status == "not finite"
    assert np.isfinite(x).all()


@pytest.mark.parametrize(
    "method", ["second_gauss_newton", "conjugate_gradient_second_gauss_newton"]
)
def test_nan_in_the_weights_is_reported_and_the_direction_is_zero(method):
    mdp = random_mdp(0)
    policy, _, w = gibbs(0, mdp)
    w = jnp.asarray(w)
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w.at[0].set(jnp.nan))
    ahead = mn.direction(method, policy, w, pairs)
    assert ahead.report.status == "not finite"
    assert not ahead.value.any()


# The hazards of library conjugate gradients, each by name.


@BOTH_PATHS
def test_hazard_curvature_floor(path):
    """No absolute floor: a tiny or huge multiple of the identity is solved in one step."""
    b = np.random.default_rng(0).normal(size=N)
    for c in 10.0 ** np.arange(-12, 13, 2):
        x, report = solved(mn.ConjugateGradient(), path, c * EYE, b)
        assert report.status == "solved"
        assert report.iterations <= (1 if c < 1e9 else 4)
        assert apart(c * x, b) < 1e-6
        x, report = solved(mn.ConjugateGradient(start="zero"), path, c * EYE, b)
        assert (report.status, report.iterations) == ("solved", 1)
        assert apart(c * x, b) < 1e-14
        assert report.smallest_curvature == pytest.approx(c)


@BOTH_PATHS
def test_hazard_solved_means_the_residual_is_below_the_tolerance_at_every_scale(path):
    """The recurrence for the residual drifts where x cancels: starting far away at b."""
    for c in (1e8, 1e12):
        A, b = definite(0)
        for solver in (mn.ConjugateGradient(), mn.ConjugateGradient(tolerance=1e-10)):
            x, report = solved(solver, path, c * A, b)
            assert report.status == "solved"
            assert report.residual == pytest.approx(residual(c * A, x, b), abs=1e-12)
            assert report.residual <= solver.tolerance


def test_hazard_curvature_floor_in_32_bit():
    """Curvature 0.01 with 5000 parameters, where a floor of 200 n eps lies at 0.12."""

    class Wide(Matrix):
        def mv(self, p):
            return self.matrix * p

    entries = np.linspace(0.01, 0.02, 5000, dtype=np.float32)
    b = np.random.default_rng(0).normal(size=5000).astype(np.float32)
    solver = mn.ConjugateGradient(tolerance=1e-4)
    x, report = solver.solve(Wide(jnp.asarray(entries)), jnp.asarray(b))
    assert x.dtype == jnp.float32
    assert report.status == "solved"
    assert apart(entries * np.asarray(x), b) < 2e-4
    assert 0.01 < report.smallest_curvature < 0.02


@BOTH_PATHS
def test_hazard_an_exact_zero_in_the_right_hand_side(path):
    for seed in SEEDS:
        A, b = definite(seed)
        for zeros in ([0], [1, 4], [0, 1, 2, 3, 4]):
            c = b.copy()
            c[zeros] = 0
            x, report = solved(mn.ConjugateGradient(tolerance=1e-10), path, A, c)
            assert report.status == "solved"
            assert report.iterations > 1
            assert apart(x, np.linalg.solve(A, c)) < 1e-8


@BOTH_PATHS
def test_hazard_an_indefinite_system_is_detected_and_not_called_solved(path):
    """Negative curvature: rllab 24, tensorforce 26, sb3-contrib 38, Hands-on-RL 108."""
    for seed in range(20):
        A, b = indefinite(seed)
        x, report = solved(mn.ConjugateGradient(), path, A, b)
        assert report.status == "negative curvature"
        assert report.negative_curvature
        assert -3 - 1e-9 < report.smallest_curvature < 0
        assert report.residual == pytest.approx(residual(A, x, b))
        assert report.residual > 1e-3
        assert x @ b > 0


@BOTH_PATHS
def test_hazard_negative_curvature_in_the_first_direction_gives_the_gradient(path):
    A, b = definite(0)
    for start in ("gradient", "zero"):
        x, report = solved(mn.ConjugateGradient(start=start), path, -A, b)
        assert report.status == "negative curvature"
        assert report.iterations == 0
        assert (x == b).all()


@BOTH_PATHS
def test_hazard_the_best_iterate_is_returned_and_not_the_last(path):
    """Invisible CG non-convergence: MushroomRL 79, baselines 1042."""
    earlier = 0
    for seed in range(10):
        A, b = system(seed, 10.0 ** np.linspace(-1.5, 1.5, N))
        iterates = textbook_conjugate_gradients(A, b, b, 3)
        norms = [residual(A, x, b) for x in iterates]
        x, report = solved(mn.ConjugateGradient(iterations=3), path, A, b)
        assert report.status == "iterations"
        assert report.residuals == pytest.approx(norms, rel=1e-6)
        assert report.residual == pytest.approx(min(norms), rel=1e-6)
        assert apart(x, iterates[int(np.argmin(norms))]) < 1e-6
        earlier += int(np.argmin(norms)) < 3
    assert earlier >= 3


def test_hazard_the_null_space_of_a_full_table():
    """The solution is that of the pseudo-inverse, and no tolerance sends it away."""
    for seed in SEEDS:
        mdp = random_mdp(seed)
        policy, oracle, w = tabular(seed, mdp)
        gradient, terms = reference.terms(*arrays(mdp), oracle, w.ravel())
        expected = np.linalg.pinv(-terms["H2"], rcond=1e-10) @ gradient
        w = jnp.asarray(w)
        pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
        for tolerance, error in ((1e-6, 1e-4), (0.0, 1e-8)):
            solver = mn.ConjugateGradient(tolerance=tolerance, iterations=200)
            ahead = mn.direction(mn.Precondition("H2", solver), policy, w, pairs)
            assert apart(np.ravel(ahead.value), expected) < error
            assert ahead.report.status == ("solved" if tolerance else "singular")
        x, _ = mn.ConjugateGradient(tolerance=1e-16).solve(
            Matrix(jnp.asarray(-terms["H2"])), jnp.asarray(gradient)
        )
        assert apart(x, expected) < 1e-8
        dense = mn.direction("second_gauss_newton", policy, w, pairs)
        assert apart(np.ravel(dense.value), expected) < 1e-9
        assert dense.report.status == "singular"


def test_hazard_every_truncation_from_the_gradient_ascends():
    """Appendix B.3: with x_0 the gradient, x_k is an ascent direction for every k."""
    rng = np.random.default_rng(0)
    systems = [system(seed, 10.0 ** rng.uniform(-2, 2, size=4)) for seed in range(200)]
    operators = [traced(A, b) for A, b in systems]
    for k in range(5):
        solver = mn.ConjugateGradient(iterations=k, tolerance=1e-12)
        for (A, b), operator in zip(systems, operators, strict=True):
            x = np.ravel(solver.solve(*operator)[0])
            assert x @ b > 0
            iterates = textbook_conjugate_gradients(A, b, b, k)
            assert iterates[-1] @ b > 0


def test_hazard_every_truncation_from_zero_ascends():
    for seed in range(10):
        A, b = definite(seed, spread=4)
        for k in (1, 2, 3):
            x, _ = solved(mn.ConjugateGradient(iterations=k, start="zero"), on_host, A, b)
            assert x @ b > 0


# Through the methods.


@pytest.fixture(scope="module")
def case():
    """Near the optimum of a policy that three unlike states share: the Hessian is definite."""
    rng = np.random.default_rng(0)
    transition = np.array([[np.eye(3)[(s + (a == s)) % 3] for a in range(3)] for s in range(3)])
    transition = 0.9 * transition + 0.1 * rng.dirichlet(np.ones(3), size=(3, 3))
    features = np.eye(3)[None, :, :2] + 0.3 * rng.normal(size=(3, 3, 2))
    mdp = mn.FiniteMDP(transition, np.eye(3) + 0.2 * rng.random((3, 3)), np.ones(3) / 3, 0.8)
    policy, w = mn.Gibbs(features), jnp.array([0.1, 0.2])
    gradient, terms = reference.terms(*arrays(mdp), GibbsReference(features), np.asarray(w))
    return mdp, policy, w, mn.FiniteEvaluator(mdp).evaluate(None, policy, w), gradient, terms


def directed(method, case):
    mdp, policy, w, pairs, _, _ = case
    return mn.direction(method, policy, w, pairs, evaluator=mn.FiniteEvaluator(mdp))


def test_conjugate_gradient_gauss_newton_with_exact_and_with_differenced_products():
    """Finite-difference product noise: pytorch-trpo 1."""
    for seed in SEEDS:
        mdp = random_mdp(seed)
        policy, oracle, w = gibbs(seed, mdp)
        gradient, terms = reference.terms(*arrays(mdp), oracle, w)
        expected = np.linalg.solve(-terms["H2"], gradient)
        w = jnp.asarray(w)
        pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
        exact = mn.direction("conjugate_gradient_second_gauss_newton", policy, w, pairs)
        assert exact.report.status == "solved"
        assert apart(exact.value, expected) < 1e-6
        assert exact.report.slope == pytest.approx(gradient @ exact.value)
        solver = mn.ConjugateGradient(products="finite_difference")
        differenced = mn.direction(mn.Precondition("H2", solver), policy, w, pairs)
        assert apart(differenced.value, expected) < 1e-3
        assert differenced.report.slope > 0


def test_newton_by_conjugate_gradients_and_hessian_free_agree_with_newton(case):
    *_, gradient, terms = case
    assert np.linalg.eigvalsh(terms["hessian"]).max() < -0.1
    expected = np.linalg.solve(-terms["hessian"], gradient)
    for method, tolerance in (
        ("newton", 1e-12),
        ("conjugate_gradient_newton", 1e-6),
        ("hessian_free_newton", 1e-5),
    ):
        ahead = directed(method, case)
        assert ahead.report.status == "solved"
        assert apart(ahead.value, expected) < tolerance
        assert ahead.report.slope == pytest.approx(gradient @ expected, rel=1e-5)


def test_hessian_free_newton_stops_where_the_hessian_is_indefinite():
    mdp = random_mdp(0)
    policy, oracle, w = gibbs(0, mdp)
    hessian = reference.terms(*arrays(mdp), oracle, w)[1]["hessian"]
    assert np.linalg.eigvalsh(hessian)[-1] > 0.1
    w = jnp.asarray(w)
    evaluator = mn.FiniteEvaluator(mdp)
    pairs = evaluator.evaluate(None, policy, w)
    for method in ("hessian_free_newton", "conjugate_gradient_newton"):
        ahead = mn.direction(method, policy, w, pairs, evaluator=evaluator)
        assert ahead.report.status == "negative curvature"
        assert ahead.report.slope > 0


def test_the_compatible_critic_gives_the_natural_gradient(case):
    *_, gradient, terms = case
    expected = np.linalg.solve(terms["fisher"], gradient)
    for method, tolerance in (
        ("natural", 1e-12),
        ("compatible_natural", 1e-12),
        ("conjugate_gradient_natural", 1e-6),
    ):
        ahead = directed(method, case)
        assert apart(ahead.value, expected) < tolerance
        assert ahead.report.status == "solved"
        assert ahead.report.slope == pytest.approx(gradient @ expected, rel=1e-5)
    damped = directed(mn.Compatible(ridge=0.3), case)
    expected = np.linalg.solve(terms["fisher"] + 0.3 * np.eye(2), gradient)
    assert apart(damped.value, expected) < 1e-12
    assert damped.report.ridge == 0.3
    assert damped.report.residual < 1e-12


def test_the_compatible_critic_of_a_full_table_is_the_least_norm_natural_gradient():
    mdp = random_mdp(0)
    policy, oracle, w = tabular(0, mdp)
    gradient, terms = reference.terms(*arrays(mdp), oracle, w.ravel())
    w = jnp.asarray(w)
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
    expected = np.linalg.pinv(terms["fisher"], rcond=1e-10) @ gradient
    for method in ("natural", "compatible_natural"):
        ahead = mn.direction(method, policy, w, pairs)
        assert apart(np.ravel(ahead.value), expected) < 1e-9
        assert ahead.report.status == "singular"


def test_fisher_damping_is_what_a_reward_offset_does(case):
    mdp, policy, w, _, gradient, terms = case
    damping = 1.7
    ahead = directed(mn.Precondition("H2", fisher_damping=damping), case)
    expected = np.linalg.solve(-terms["H2"] + damping * terms["fisher"], gradient)
    assert apart(ahead.value, expected) < 1e-12
    assert ahead.report.fisher_damping == damping
    reward = mdp.reward + damping * (1 - mdp.discount)
    shifted = mn.FiniteMDP(mdp.transition, reward, mdp.start, mdp.discount)
    pairs = mn.FiniteEvaluator(shifted).evaluate(None, policy, w)
    other = mn.direction("second_gauss_newton", policy, w, pairs)
    assert apart(other.value, ahead.value) < 1e-12
    assert other.report.fisher_damping == 0


def test_ridge_and_absolute_through_a_method():
    mdp = random_mdp(1)
    policy, oracle, w = gibbs(1, mdp)
    gradient, terms = reference.terms(*arrays(mdp), oracle, w)
    values, vectors = np.linalg.eigh(-terms["A1+A2"])
    w = jnp.asarray(w)
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
    plain = mn.direction("first_gauss_newton", policy, w, pairs)
    assert plain.report.slope < 0
    assert plain.report.status == "indefinite"
    for solver, used in (
        (mn.Dense(absolute=True), np.abs(values)),
        (mn.Dense(ridge=1.0), values + 1.0),
    ):
        ahead = mn.direction(mn.Precondition("A1+A2", solver), policy, w, pairs)
        assert apart(ahead.value, vectors @ (vectors.T @ gradient / used)) < 1e-10
        assert ahead.report.slope > 0
        assert ahead.report.ridge == solver.ridge
        assert ahead.report.status == ("corrected" if solver.absolute else "solved")


@pytest.mark.parametrize("size", [1e-200, 1e-8, 1e150])
def test_the_size_of_the_right_hand_side_does_not_matter(size):
    A, b = definite(0)
    x, report = solved(mn.ConjugateGradient(tolerance=1e-10), on_host, A, size * b)
    assert report.status == "solved"
    np.testing.assert_allclose(np.asarray(x) / size, np.linalg.solve(A, b), rtol=1e-8)


def test_dense_reports_the_smallest_eigenvalue_itself():
    for seed in range(10):
        A, b = definite(seed)
        _, report = solved(mn.Dense(), on_host, A, b)
        assert report.smallest_curvature == pytest.approx(np.linalg.eigvalsh(A)[0], rel=1e-10)
