"""Horizon one: the closed forms of Section 6.6 against the library's own table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpnewton import METHODS, MonteCarlo, check_policy, direction, search
from mdpnewton.evaluators import Bandit, Shaped, rank_utilities, shaped
from mdpnewton.evaluators.bandit import _log_probs
from mdpnewton.methods import BlockwiseMaximization, Guarded
from mdpnewton.policies import DiagonalGaussian, Gaussian
from mdpnewton.training.black_box import BLACK_BOX_METHODS

K = 5
POLICY = DiagonalGaussian(K)


def bowl(points):
    return -((points - np.arange(K)) ** 2).sum(axis=1)


def evaluation(seed=0, batches=3, function=bowl, **options):
    """The pairs after some batches at different parameters, and the last parameters."""
    bandit = Bandit(function, samples=6, reuse=4, **options)
    rng = np.random.default_rng(seed)
    for batch in range(batches):
        w = POLICY.parameters(rng.normal(size=K), rng.uniform(0.3, 3, K))
        pairs = bandit.evaluate(jax.random.key(10 * seed + batch), POLICY, w)
    return pairs, w


def moments(pairs, w):
    """u, the weighted mean, S about the old mean, and s."""
    u = np.asarray(pairs.value)[:, 0]
    a = np.asarray(pairs.actions)[:, 0]
    mu, L = np.asarray(w["mean"]), np.asarray(w["precision_factor"])
    S = u @ (a - mu) ** 2
    return u, u @ a, S, L**2 * S


def moved(method, pairs, w, size=1.0):
    found = direction(method, POLICY, w, pairs)
    return {name: np.asarray(w[name] + size * found.value[name]) for name in w}, found.report


@pytest.mark.parametrize("weighting", ["pooled", "importance"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [1.0, 0.3])
def test_second_gauss_newton_by_blocks_is_the_closed_form(weighting, seed, alpha):
    pairs, w = evaluation(seed, weighting=weighting, ratio_limit=3.0)
    u, mean, _, s = moments(pairs, w)
    assert abs(u.sum() - 1) < 1e-14
    after, report = moved(METHODS["block_second_gauss_newton"], pairs, w, alpha)
    mu, L = np.asarray(w["mean"]), np.asarray(w["precision_factor"])
    np.testing.assert_allclose(after["mean"], mu + alpha * (mean - mu), atol=1e-10)
    grown = L * (1 + alpha * (1 - s) / (1 + s))
    np.testing.assert_allclose(after["precision_factor"], grown, rtol=1e-10)
    assert report.status == "solved"
    if alpha == 1:
        np.testing.assert_allclose(1 / after["precision_factor"], (1 + s) / 2 / L, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_em_in_both_variants_is_the_closed_form(seed):
    pairs, w = evaluation(seed)
    _, mean, S, _ = moments(pairs, w)
    mu = np.asarray(w["mean"])
    new, _ = moved("expectation_maximization", pairs, w)
    np.testing.assert_allclose(new["mean"], mean, atol=1e-10)
    variance = S - (mean - mu) ** 2
    np.testing.assert_allclose(new["precision_factor"] ** -2, variance, rtol=1e-10)
    old, report = moved(BlockwiseMaximization(), pairs, w)
    assert report.status == "solved"
    np.testing.assert_allclose(old["mean"], mean, atol=1e-10)
    np.testing.assert_allclose(old["precision_factor"] ** -2, S, rtol=1e-10)


def test_em_is_the_argmax_of_the_librarys_surrogate():
    from mdpnewton.methods import ExpectationMaximization

    pairs, w = evaluation(1)
    closed, _ = moved("expectation_maximization", pairs, w)
    numeric, report = moved(ExpectationMaximization(closed_form=False), pairs, w)
    assert report.status == "solved"
    for name in closed:
        np.testing.assert_allclose(np.abs(numeric[name]), np.abs(closed[name]), rtol=1e-6)


@pytest.mark.parametrize("eta", [1.0, 0.1])
def test_natural_gradient_has_the_exact_fisher_matrix(eta):
    pairs, w = evaluation(2)
    _, mean, _, s = moments(pairs, w)
    after, _ = moved(BLACK_BOX_METHODS["natural"], pairs, w, eta)
    mu, L = np.asarray(w["mean"]), np.asarray(w["precision_factor"])
    np.testing.assert_allclose(after["mean"], mu + eta * (mean - mu), atol=1e-10)
    np.testing.assert_allclose(after["precision_factor"], L * (1 + eta * (1 - s) / 2), rtol=1e-10)


def test_first_gauss_newton_is_newton_on_the_sampled_objective():
    """Blocks of the Hessian of sum_i c_i pi(a_i; v) / pi(a_i; w), c the advantages."""
    pairs, w = evaluation(3)
    c = pairs.advantage[:, 0]
    drawn = _log_probs(POLICY, w, pairs.actions[:, 0])

    def objective(v):
        return jnp.sum(c * jnp.exp(_log_probs(POLICY, v, pairs.actions[:, 0]) - drawn))

    hessian = jax.hessian(objective)(w)
    found = direction("block_first_gauss_newton", POLICY, w, pairs)
    for name in w:
        exact = -np.linalg.solve(hessian[name][name], found.gradient[name])
        np.testing.assert_allclose(found.value[name], exact, rtol=1e-8)
    assert found.report.negative_curvature
    assert found.report.status == "indefinite"


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6) | st.just(-100.0), min_size=2, max_size=30),
    scale=st.floats(1e-3, 1e3),
    seed=st.integers(0, 1000),
)
def test_second_gauss_newtons_sigma_is_never_below_ems_about_the_old_mean(values, scale, seed):
    rng = np.random.default_rng(seed)
    u = rank_utilities(values)
    a = scale * rng.standard_t(2, size=len(values))  # far from what the policy would draw
    L = rng.uniform(0.1, 10)
    S = u @ a**2
    sigma = (1 + L**2 * S) / 2 / L
    assert sigma >= np.sqrt(S) * (1 - 1e-12)
    assert sigma >= 0.5 / L  # and it never halves more than once


def test_the_property_holds_for_the_librarys_updates():
    for seed in range(8):
        pairs, w = evaluation(seed, weighting="importance", ratio_limit=2.0)
        second, _ = moved("block_second_gauss_newton", pairs, w)
        old, _ = moved(BlockwiseMaximization(), pairs, w)
        assert (second["precision_factor"] <= old["precision_factor"] * (1 + 1e-12)).all()
        assert (second["precision_factor"] > 0).all()


def test_rank_utilities():
    u = rank_utilities([3.0, 9.0, 1.0, 5.0])
    raw = np.maximum(0, np.log(3) - np.log([1, 2, 3, 4]))
    np.testing.assert_allclose(u[[1, 3, 0, 2]], raw / raw.sum(), rtol=1e-14)
    np.testing.assert_allclose(rank_utilities(10 * np.array([3.0, 9, 1, 5]) - 7), u, rtol=1e-14)


@given(st.lists(st.sampled_from([-100.0, -3.0, 0.0, np.nan, -np.inf]), min_size=1, max_size=20))
def test_utilities_sum_to_one_and_ties_share(values):
    u = rank_utilities(values)
    assert (u >= 0).all()
    assert abs(u.sum() - 1) < 1e-12
    order = np.where(np.isfinite(values), values, -np.inf)
    for one in np.unique(order):
        assert np.ptp(u[order == one]) == 0
    assert (np.diff(u[np.argsort(order, kind="stable")]) >= -1e-15).all()


def test_values_that_are_not_finite_count_as_the_worst():
    def hole(points):
        values = bowl(points)
        values[:3] = np.nan, np.inf, -np.inf
        return values

    pairs, _ = evaluation(0, batches=1, function=hole)
    value = np.asarray(pairs.value)[:6, 0]
    assert (value[:3] == value[:3].min()).all()
    assert value[:3].max() <= value[3:].min()
    assert np.isfinite(pairs.objective)
    plain, _ = evaluation(0, batches=1, function=hole, shaping=None)
    assert np.isfinite(np.asarray(plain.value)).all()
    only, _ = evaluation(0, batches=1, function=lambda points: np.full(len(points), np.nan))
    assert np.isnan(only.objective)


def test_batches_are_pooled_and_the_oldest_go():
    bandit = Bandit(bowl, samples=4, reuse=2, shaping=None)
    w = POLICY.initial_parameters()
    first = bandit.evaluate(jax.random.key(0), POLICY, w)
    assert np.count_nonzero(first.occupancy) == 4
    second = bandit.evaluate(jax.random.key(1), POLICY, w)
    third = bandit.evaluate(jax.random.key(2), POLICY, w)
    assert first.occupancy.shape == third.occupancy.shape == (8, 1)
    np.testing.assert_allclose(third.occupancy, 1 / 8, rtol=1e-14)
    np.testing.assert_array_equal(second.actions[4:], third.actions[:4])
    assert bandit.evaluations == 12
    assert third.objective == pytest.approx(bowl(np.asarray(third.actions)[4:, 0]).mean())
    assert bandit.best[1] == max(bowl(np.asarray(x.actions)[:, 0]).max() for x in (second, third))
    resumed = Bandit(bowl, samples=4, reuse=2, shaping=None).restored(bandit.state())
    assert (resumed.evaluations, resumed.best[1]) == (12, bandit.best[1])
    again = resumed.again(None, POLICY, w)
    assert jax.tree.all(jax.tree.map(lambda x, y: bool(np.array_equal(x, y)), again, third))


def test_importance_weights_are_against_each_samples_own_sampler():
    bandit = Bandit(bowl, samples=5, reuse=2, weighting="importance", ratio_limit=1.5)
    w = POLICY.initial_parameters()
    there = POLICY.parameters(0.3 * np.ones(K), 1.2)
    bandit.evaluate(jax.random.key(0), POLICY, w)
    pairs = bandit.evaluate(jax.random.key(1), POLICY, there)
    a = np.asarray(pairs.actions)[:5, 0]
    ratio = np.exp(_log_probs(POLICY, there, a) - _log_probs(POLICY, w, a))
    expected = np.append(np.minimum(ratio, 1.5), np.ones(5))
    np.testing.assert_allclose(pairs.occupancy[:, 0], expected / expected.sum(), rtol=1e-12)
    far = POLICY.parameters(1e8 * np.ones(K), 1e-8)  # ratios of nothing, in logs no warning
    pairs = bandit.evaluate(jax.random.key(2), POLICY, far)
    np.testing.assert_allclose(pairs.occupancy[5:, 0], 0.2, rtol=1e-12)


def test_with_importance_weights_the_gradient_is_unbiased():
    """A quadratic function: grad U is known. Old samples are drawn elsewhere."""
    policy = DiagonalGaussian(1)
    old, new = policy.parameters([0.5], 1.5), policy.parameters([0.0], 1.0)
    found = []
    for seed in range(40):
        bandit = Bandit(
            lambda x: 9 - (x[:, 0] - 1) ** 2,
            samples=200,
            reuse=2,
            weighting="importance",
            ratio_limit=1e9,
            shaping=None,
        )
        one, other = jax.random.split(jax.random.key(seed))
        bandit.evaluate(one, policy, old)
        pairs = bandit.evaluate(other, policy, new)
        found.append(float(direction("steepest", policy, new, pairs).value["mean"][0]))
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    assert abs(np.mean(found) - 2.0) < 4 * error  # U = 9 - (mu - 1)^2 - sigma^2


def test_the_policy_keeps_what_it_declares():
    w = POLICY.parameters(np.linspace(-1, 1, K), np.linspace(0.5, 2, K))
    found = check_policy(POLICY, w, jnp.zeros(3), spread=0.05)
    assert found.ok, found.problems
    assert found.largest_eigenvalue > 0  # jointly it is not concave


def test_the_policy_is_the_gaussian_of_constant_features():
    other = Gaussian(K, 1, lambda state: jnp.ones(1), scale="precision_root")
    w = POLICY.parameters(np.arange(K), 0.7)
    v = {"mean": w["mean"][:, None], "scale": w["precision_factor"]}
    action = jnp.linspace(-1, 1, K)
    assert float(POLICY.log_prob(w, None, action)) == pytest.approx(
        float(other.log_prob(v, None, action)), rel=1e-13
    )
    mirrored = {**w, "precision_factor": -w["precision_factor"]}
    assert float(POLICY.log_prob(mirrored, None, action)) == float(POLICY.log_prob(w, None, action))
    np.testing.assert_allclose(POLICY.mode(w, None), np.arange(K))
    assert float(POLICY.kl(w, w, None)) == 0.0


def test_shaping_goes_with_any_sampled_evaluator():
    from mdpnewton.domains.cartpole import CartPole
    from mdpnewton.policies import LinearGaussian

    policy = LinearGaussian([[100.0]], 2)
    inner = MonteCarlo(CartPole(), 0.99, episodes=4)
    w, key = policy.initial_parameters(), jax.random.key(0)
    plain = inner.evaluate(key, policy, w)
    found = Shaped(MonteCarlo(CartPole(), 0.99, episodes=4)).evaluate(key, policy, w)
    assert found.objective == plain.objective
    value, occupancy = np.asarray(found.value), np.asarray(found.occupancy)
    assert (value >= 0).all()
    assert value.sum() == pytest.approx(occupancy.sum())
    np.testing.assert_allclose(found.advantage, value - occupancy)
    assert direction("second_gauss_newton", policy, w, found).report.status == "solved"
    same = shaped(plain, lambda values: np.ones_like(values))
    np.testing.assert_allclose(same.value, occupancy)


def test_guarded_directions_neither_turn_nor_blow_up_a_sigma():
    pairs, w = evaluation(0)
    for method in ("natural", "steepest", "first_gauss_newton"):
        after, report = moved(Guarded(BLACK_BOX_METHODS[method]), pairs, w)
        share = after["precision_factor"] / np.asarray(w["precision_factor"])
        assert (share >= 0.5 - 1e-12).all()
        assert (share <= 2 + 1e-12).all()
        plain, _ = moved(BLACK_BOX_METHODS[method], pairs, w)
        same = np.allclose(plain["precision_factor"], after["precision_factor"])
        assert same != report.solver.endswith("cut")


def test_nothing_is_compiled_twice():
    traces = []

    class Counted(DiagonalGaussian):
        def log_prob(self, w, state, action):
            traces.append(0)
            return super().log_prob(w, state, action)

    policy = Counted(3)

    def run(iterations):
        bandit = Bandit(lambda x: -(x**2).sum(axis=1), samples=4, reuse=5)
        w = policy.parameters(np.ones(3), 1.0)
        search(bandit, policy, w, "block_second_gauss_newton", key=jax.random.key(0),
               iterations=iterations, patience=None)  # fmt: skip

    run(2)
    seen = len(traces)
    run(12)
    assert len(traces) == seen


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples"),
        ({"reuse": 0}, "reuse"),
        ({"weighting": "none"}, "weighting"),
        ({"ratio_limit": 0.0}, "ratio_limit"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Bandit(bowl, **options)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="one value per action"):
        Bandit(lambda x: x).evaluate(jax.random.key(0), POLICY, POLICY.initial_parameters())
    with pytest.raises(ValueError, match="rank_utilities"):
        rank_utilities(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="size"):
        DiagonalGaussian(0)
    for mean, sigma in ((np.zeros(2), 1.0), (np.zeros(K), np.ones(2)), (np.zeros(K), 0.0)):
        with pytest.raises(ValueError, match="parameters"):
            POLICY.parameters(mean, sigma)
    other, (pairs, _) = Gaussian(K, 1, lambda state: jnp.ones(1)), evaluation(0)
    with pytest.raises(ValueError, match="DiagonalGaussian"):
        direction(BlockwiseMaximization(), other, other.initial_parameters(), pairs)
