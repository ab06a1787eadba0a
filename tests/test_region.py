"""Steps for indefinite matrices: the subproblem against dense naive solutions, and the searches."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, random_mdp

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.evaluation import Matrix
from mdpnewton.steps import Region

SOLVERS = {"ball": mn.TrustRegion, "cubic": mn.Cubic}
MDP = random_mdp(3, n_states=4, n_actions=3)


def drawn(seed, n=6, lowest=-1.0):
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.sort(rng.uniform(lowest, 2.0, size=n))
    values[0] = lowest
    return (vectors * values) @ vectors.T, vectors, rng.normal(size=n)


def model(solver, A, b, s):
    cubic = (s**2).sum(-1) ** 1.5 / (6 * solver.radius) if isinstance(solver, mn.Cubic) else 0.0
    return s @ b - 0.5 * np.einsum("...i,ij,...j", s, A, s) - cubic


def naive(solver, A, b):
    """The best model by many ascents from everywhere: projected, or plain for the cubic term."""
    rng = np.random.default_rng(0)
    ball = isinstance(solver, mn.TrustRegion)
    s = rng.normal(size=(400, len(b)))
    s *= solver.radius / np.linalg.norm(s, axis=1, keepdims=True)
    for _ in range(6000):
        length = np.linalg.norm(s, axis=1, keepdims=True)
        slope = b - s @ A - (0 if ball else length * s / (2 * solver.radius))
        s = s + 0.05 * slope
        length = np.linalg.norm(s, axis=1, keepdims=True)
        s = s * np.minimum(1, solver.radius / length) if ball else s
    return model(solver, A, b, s).max()


def solved(solver, A, b):
    value, report = solver.solve(Matrix(jnp.zeros(len(b)), jnp.asarray(A)), jnp.asarray(b))
    return np.asarray(value), report


def certified(solver, A, b, s, report):
    at, n = report.region, len(b)
    shifted = A + at.multiplier * np.eye(n)
    assert np.linalg.eigvalsh(shifted)[0] > -1e-7
    scale = max(np.linalg.norm(b), at.multiplier * np.linalg.norm(s))
    assert np.linalg.norm(shifted @ s - b) <= 1e-6 * scale
    assert report.residual == pytest.approx(np.linalg.norm(shifted @ s - b) / scale, abs=1e-9)
    assert at.gain == pytest.approx(model(solver, A, b, s), rel=1e-9, abs=1e-12)
    length = np.linalg.norm(s)
    if isinstance(solver, mn.Cubic):
        assert at.multiplier == pytest.approx(length / (2 * solver.radius), rel=1e-6)
    else:
        assert length <= solver.radius * (1 + 1e-6)
        assert at.boundary == (at.multiplier > 0)


@pytest.mark.parametrize("dense", [300, 0], ids=["whole", "products"])
@pytest.mark.parametrize("radius", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("lowest", [-1.0, 0.1])
@pytest.mark.parametrize("kind", SOLVERS)
def test_the_step_is_the_global_maximum_of_the_model(kind, lowest, radius, dense):
    A, _, b = drawn(1, lowest=lowest)
    solver = SOLVERS[kind](radius, dense=dense)
    s, report = solved(solver, A, b)
    certified(solver, A, b, s, report)
    assert report.status == "solved"
    assert report.negative_curvature == (lowest < 0)
    assert report.smallest_curvature == pytest.approx(lowest)
    if radius <= 1:
        assert report.region.gain == pytest.approx(naive(solver, A, b), rel=1e-4)


@pytest.mark.parametrize("dense", [300, 0], ids=["whole", "products"])
@pytest.mark.parametrize("about", [0.0, 1e-17, 1e-12, 1e-6])
@pytest.mark.parametrize("kind", SOLVERS)
def test_the_hard_case_where_the_gradient_says_nothing_of_the_least_curvature(kind, about, dense):
    A, vectors, b = drawn(2)
    b = 0.05 * (b - vectors[:, 0] * (vectors[:, 0] @ b)) + about * vectors[:, 0]
    solver = SOLVERS[kind](2.0, dense=dense)
    s, report = solved(solver, A, b)
    certified(solver, A, b, s, report)
    assert report.region.multiplier == pytest.approx(1.0, rel=1e-4)
    assert report.region.gain == pytest.approx(naive(solver, A, b), rel=1e-4)
    assert abs(vectors[:, 0] @ s) > 0.5


@pytest.mark.parametrize("dense", [300, 0], ids=["whole", "products"])
@pytest.mark.parametrize("kind", SOLVERS)
def test_at_a_saddle_the_step_leaves_along_the_least_curvature(kind, dense):
    A, vectors, b = drawn(3)
    s, report = solved(SOLVERS[kind](0.5, dense=dense), A, 0 * b)
    assert abs(vectors[:, 0] @ s) == pytest.approx(np.linalg.norm(s), rel=1e-9)
    length = 0.5 if kind == "ball" else 1.0  # |s| = 2 radius multiplier
    assert np.linalg.norm(s) == pytest.approx(length)
    assert report.region.gain == pytest.approx(0.5 * length**2 - (length**3 / 3) * (kind != "ball"))
    top, _ = solved(SOLVERS[kind](0.5, dense=dense), A + 2 * np.eye(6), 0 * b)
    assert not top.any()


def steihaug(A, b, radius):
    """Truncated conjugate gradients, Nocedal & Wright, Algorithm 7.2, word by word."""
    z, r, d = np.zeros_like(b), -b, b

    def boundary(z, d):
        a, h, c = d @ d, z @ d, z @ z - radius**2
        return z + (-h + np.sqrt(h * h - a * c)) / a * d

    for _ in range(len(b)):
        bend = d @ A @ d
        if bend <= 0:
            return boundary(z, d)
        step = r @ r / bend
        if np.linalg.norm(z + step * d) >= radius:
            return boundary(z, d)
        z, before, r = z + step * d, r, r + step * A @ d
        if np.linalg.norm(r) < 1e-10 * np.linalg.norm(b):
            break
        d = -r + (r @ r) / (before @ before) * d
    return z


@pytest.mark.parametrize("lowest", [-0.5, 0.2])
@pytest.mark.parametrize("seed", range(4))
def test_products_alone_promise_at_least_what_steihaugs_steps_do(seed, lowest):
    A, _, b = drawn(seed, n=60, lowest=lowest)
    for radius in (0.3, 3.0, 300.0):
        solver = mn.TrustRegion(radius, iterations=60, dense=0)
        s, report = solved(solver, A, b)
        theirs = steihaug(A, b, radius)
        assert report.region.gain >= model(solver, A, b, theirs) * (1 - 1e-6)
        if lowest > 0 and radius == 300.0:  # inside they are the same
            assert np.linalg.norm(s - theirs) <= 1e-4 * np.linalg.norm(theirs)
            assert not report.region.boundary


def test_few_products_are_enough_where_the_spectrum_is_simple_and_the_report_says_so():
    rng = np.random.default_rng(0)
    values = np.where(np.arange(400) < 3, -2.0, 1.0)
    A = np.diag(values)
    solver = mn.TrustRegion(0.5)
    _, report = solved(solver, A, rng.normal(size=400))
    assert report.status == "solved"
    assert report.iterations <= 2 + solver.probes
    hard = np.diag(rng.uniform(0.0, 1.0, size=400) ** 8)
    _, report = solved(mn.TrustRegion(1e9, iterations=5, probes=0), hard, rng.normal(size=400))
    assert report.status == "iterations"
    assert report.residual > 1e-6


@pytest.mark.parametrize("kind", SOLVERS)
def test_what_is_not_finite_gives_no_step(kind):
    A, _, b = drawn(1)
    for dense in (0, 300):
        for matrix, side in ((A * np.nan, b), (A, b * np.inf), (A * np.inf, b)):
            s, report = solved(SOLVERS[kind](dense=dense), matrix, side)
            assert report.status == "not finite"
            assert not s.any()


def saddle():
    """Two states that need the other action each; at the uniform policy nothing is gained."""
    policy, mdp = mn.TabularSoftmax(4, 3, reduced=True), MDP
    return mn.FiniteEvaluator(mdp), policy, policy.initial_parameters()


REGION_ROWS = [name for name in mn.METHODS if name.startswith(("trust_region", "cubic"))]


def test_there_are_six_rows():
    assert len(REGION_ROWS) == 6
    for name in REGION_ROWS:
        assert isinstance(mn.METHODS[name].usual_step, mn.RegionStep)


@pytest.mark.parametrize("name", REGION_ROWS)
def test_every_row_climbs_exactly_and_never_falls(name):
    evaluator, policy, w = saddle()
    found = mn.search(evaluator, policy, w, name, iterations=60)
    assert np.all(np.diff(found.objectives) >= -1e-12)
    best = mn.policy_iteration(MDP).objective
    left = 0.15 if "second" in name else 0.02  # values far above zero make its steps short
    assert found.objective > best - left * (best - found.objectives[0])
    for one in found.history:
        assert one.report.residual < 1e-6
        assert one.report.region.gain > 0
        undone = one.step.ratio < mn.RegionStep().accept
        assert one.step.accepted != undone


@pytest.mark.parametrize("name", REGION_ROWS)
def test_every_row_climbs_from_samples(name):
    evaluator, policy, w = saddle()
    sampled = mn.MonteCarlo(mn.FiniteSimulator(MDP, horizon=60), MDP.discount, episodes=60)
    found = mn.search(sampled, policy, w, name, key=jax.random.key(0), iterations=12, patience=None)
    start, end = (evaluator.objective(None, policy, v) for v in (w, found.last))
    best = mn.policy_iteration(MDP).objective
    assert end > start + (0.2 if "second" in name else 0.4) * (best - start)


def test_a_step_that_breaks_its_promise_is_undone_and_the_region_shrinks():
    evaluator, policy, w = saddle()
    found = mn.search(
        *(evaluator, policy, w, "trust_region_newton", mn.RegionStep(radius=1e4, largest=1e4)),
        iterations=12,
        keep_trace=True,
    )
    undone = [one for one in found.history if not one.step.accepted]
    assert undone
    for one in undone:
        before, after = found.trace[one.iteration], found.trace[one.iteration + 1]
        assert np.array_equal(before, after)
        assert one.step.ratio < 1e-3
        assert one.step.radius <= 0.25 * one.report.region.radius
        assert "ratio" in one.step.reason


def test_a_search_leaves_an_exact_saddle_by_its_second_derivatives_alone():
    mdp = mn.FiniteMDP(
        np.array([[[0.0, 1, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]], [[0, 0, 1], [0, 0, 1]]]),
        np.array([[0.0, 0.0], [-1.0, 1.0], [0.0, 0.0]]),
        np.array([1.0, 0, 0]),
        0.9,
    )
    features = np.zeros((3, 2, 2))
    features[0, 0, 0] = features[1, 1, 1] = 1.0
    policy, w = mn.Gibbs(features), jnp.array([0.0, 0.0])

    class Squared(mn.Policy):
        """A product of two parameters decides, so that zero is a saddle."""

        log_concave = blockwise_log_concave = constant_curvature = False

        def log_prob(self, w, state, action):
            return policy.log_prob(jnp.array([w[0] * w[1], w[0] * w[1]]), state, action)

        def sample(self, key, w, state):
            return policy.sample(key, jnp.array([w[0] * w[1], w[0] * w[1]]), state)

        def initial_parameters(self):
            return jnp.zeros(2)

    evaluator = mn.FiniteEvaluator(mdp)
    for name in ("newton", "natural", "second_gauss_newton"):
        stuck = mn.search(evaluator, Squared(), w, name, iterations=20)
        assert (stuck.status, stuck.objective) == ("converged", pytest.approx(0.0))
    for name in ("trust_region_newton", "cubic_newton"):
        found = mn.search(evaluator, Squared(), w, name, iterations=60)
        assert found.objective > 0.8
        assert found.history[0].gradient_norm < 1e-12
        assert found.history[0].report.negative_curvature
        assert found.remarks == ()


def test_noise_neither_undoes_for_ever_nor_shrinks_for_ever():
    rule = mn.RegionStep()

    class Line:
        region, norm = Region(1.0, 1e-6, 0.5, True), 1.0

    class Seen:
        def __init__(self, objective, error=0.0):
            self.objective, self.objective_error = objective, error

    step = mn.Step(1.0, radius=1.0)
    lower = rule.settled(step, Line(), Seen(0.0, 1.0), Seen(-0.5, 1.0))
    assert lower.accepted
    assert lower.radius == 1.0
    exact = rule.settled(step, Line(), Seen(0.0), Seen(-0.5))
    assert not exact.accepted
    assert exact.radius == 0.25
    wild = rule.settled(step, Line(), Seen(0.0, 1.0), Seen(-5.0, 1.0))
    assert not wild.accepted
    nowhere = rule.settled(step, Line(), Seen(0.0), None)
    assert not nowhere.accepted
    assert nowhere.radius == 0.25
    good = rule.settled(step, Line(), Seen(0.0), Seen(1e-6))
    assert good.radius == 2.0


def test_what_cannot_work_is_refused():
    evaluator, policy, w = saddle()
    with pytest.raises(ValueError, match=r"`RegionStep` needs .* 'trust_region_newton'"):
        mn.search(evaluator, policy, w, "steepest", mn.RegionStep(), iterations=1)
    for build in (
        lambda: mn.TrustRegion(0.0),
        lambda: mn.Cubic(radius=np.nan),
        lambda: mn.TrustRegion(iterations=0),
        lambda: mn.RegionStep(shrink=1.0),
        lambda: mn.RegionStep(accept=0.5, poor=0.2),
    ):
        with pytest.raises(ValueError, match=r"`\w+\(\w+=...\)` must be"):
            build()


def test_a_search_that_goes_on_has_the_same_regions():
    evaluator, policy, w = saddle()
    states = []
    whole = mn.search(
        *(evaluator, policy, w, "cubic_newton"),
        iterations=6,
        checkpoint=lambda state: states.append(state()),
    )
    rest = mn.search(evaluator, policy, w, "cubic_newton", iterations=6, resume=states[2])
    assert rest.objectives == whole.objectives
    radii = [one.step.radius for one in whole.history]
    assert [one.step.radius for one in rest.history] == radii
    assert len(set(radii)) > 1


@pytest.mark.parametrize("solver", [mn.TrustRegion(dense=0), mn.Cubic(dense=0)])
def test_regions_need_products_alone(solver):
    policy, _, w = gibbs(3, MDP)
    pairs = mn.FiniteEvaluator(MDP).evaluate(None, policy, jnp.asarray(w))
    for form in ("hessian", "A1+A2", "H2"):
        dense = mn.Precondition(form, type(solver)())
        found = mn.direction(mn.Precondition(form, solver), policy, jnp.asarray(w), pairs)
        wanted = mn.direction(dense, policy, jnp.asarray(w), pairs)
        assert np.allclose(found.value, wanted.value, rtol=1e-5, atol=1e-7)


def test_the_command_prints_the_certificate(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mn.save_model("small.npz", MDP)
    command = ["solve", "small.npz", "--method", "trust_region_newton", "--iterations", "5"]
    assert main(command) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in ("steps undone", "last region", "its residual", "smallest curvature met"):
        assert words in shown
    assert main([*command, "--json"]) == 0
    last = json.loads(capsys.readouterr().out)["history"][-1]
    assert {"radius", "gain", "multiplier", "boundary", "ratio"} <= set(last)
