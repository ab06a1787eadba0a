"""Policies: samples, densities, claims, and check_policy on good and bad ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import QuadraticLogits, gibbs, quadratic, random_mdp
from scipy import stats

import mdpnewton as mn

MDP = random_mdp(0)
STATES = jnp.arange(3)
POINTS = jnp.array([[0.5, -1.0], [1.5, 0.3]])
SCALES = ("log_sigma", "precision", "precision_root", "sigma")


def gaussian(scale):
    policy = mn.Gaussian(2, 2, scale=scale)
    w = policy.initial_parameters()
    return policy, {"mean": w["mean"] + 0.3, "scale": w["scale"] + 0.4}


DISCRETE = {
    "gibbs": (lambda: gibbs(0, MDP)[0], jnp.linspace(-1, 1, 4)),
    "tabular": (lambda: mn.TabularSoftmax(5, 3), jnp.sin(jnp.arange(15.0)).reshape(5, 3)),
    "reduced": (lambda: mn.TabularSoftmax(5, 3, reduced=True), jnp.ones((5, 2))),
    "successors": (
        lambda: mn.gibbs_over_successors(MDP, np.eye(5)),
        jnp.linspace(-1, 1, 5),
    ),
    "reparametrized": (
        lambda: mn.Reparametrized(gibbs(0, MDP)[0], np.diag([1.0, 2.0, 3.0, 4.0])),
        jnp.linspace(-1, 1, 4),
    ),
    "quadratic": (lambda: quadratic(0, MDP)[0], jnp.linspace(-1, 1, 3)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_policies_keep_what_they_declare(name):
    make, w = DISCRETE[name]
    found = mn.check_policy(make(), w, STATES, n_actions=3)
    assert found.problems == ()


@pytest.mark.parametrize("scale", SCALES)
def test_gaussian_policies_keep_what_they_declare(scale):
    policy, w = gaussian(scale)
    assert mn.check_policy(policy, w, POINTS, spread=0.1).problems == ()
    assert policy.blockwise_log_concave == (scale != "sigma")


def test_the_linear_gaussian_policy_keeps_what_it_declares():
    policy = mn.LinearGaussian([[1.0, 0.3], [0.3, 0.5]], 2)
    assert mn.check_policy(policy, policy.initial_parameters() + 0.2, POINTS).problems == ()


class Lying(QuadraticLogits):
    log_concave = blockwise_log_concave = constant_curvature = True


class WrongScore(QuadraticLogits):
    def log_prob(self, w, state, action):
        return super().log_prob(jax.lax.stop_gradient(w) + 0.0, state, action)


class NotNormalized(QuadraticLogits):
    def log_prob(self, w, state, action):
        return super().log_prob(w, state, action) + 0.1


class NotFinite(QuadraticLogits):
    def log_prob(self, w, state, action):
        return super().log_prob(w, state, action) + jnp.sqrt(w[0] - w[0])


WRONG = {
    Lying: ("log_concave", "blockwise_log_concave", "constant_curvature"),
    WrongScore: ("score disagrees",),
    NotNormalized: ("sum to one",),
    NotFinite: ("not finite",),
}


@pytest.mark.parametrize("kind", WRONG)
def test_check_policy_finds_each_broken_claim(kind):
    honest = quadratic(0, MDP)[0]
    policy = kind(honest.linear, honest.square)
    found = mn.check_policy(policy, jnp.array([0.5, -1.0, 0.8]), STATES, n_actions=3)
    assert not found.ok
    for words in WRONG[kind]:
        assert any(words in problem for problem in found.problems), found.problems
    with pytest.raises(ValueError, match=kind.__name__):
        mn.check_policy(policy, jnp.zeros(3) + 0.5, STATES, n_actions=3, throw=True)


def test_categorical_samples_follow_their_probabilities():
    policy, _, w = gibbs(1, MDP)
    keys = jax.random.split(jax.random.key(0), 20_000)
    drawn = np.asarray(jax.vmap(lambda k: policy.sample(k, jnp.asarray(w), 2))(keys))
    expected = np.exp([float(policy.log_prob(jnp.asarray(w), 2, a)) for a in range(3)])
    counts = np.bincount(drawn, minlength=3)
    assert stats.chisquare(counts, 20_000 * expected / expected.sum()).pvalue > 1e-3


@pytest.mark.parametrize("scale", SCALES)
def test_gaussian_samples_and_density_follow_scipy(scale):
    policy, w = gaussian(scale)
    sigma = {
        "log_sigma": np.exp(0.4),
        "precision": 1.4**-0.5,
        "precision_root": 1 / 1.4,
        "sigma": 1.4,
    }[scale]
    mean = 0.3 * float(POINTS[0].sum())
    action = jnp.array([0.1, -0.7])
    expected = stats.norm(mean, sigma).logpdf(np.asarray(action)).sum()
    assert float(policy.log_prob(w, POINTS[0], action)) == pytest.approx(expected, rel=1e-12)
    keys = jax.random.split(jax.random.key(1), 4_000)
    drawn = np.asarray(jax.vmap(lambda k: policy.sample(k, w, POINTS[0]))(keys))[:, 0]
    assert stats.kstest(drawn, stats.norm(mean, sigma).cdf).pvalue > 1e-3


def test_the_linear_gaussian_density_follows_scipy():
    covariance = np.array([[1.0, 0.3], [0.3, 0.5]])
    policy = mn.LinearGaussian(covariance, 2)
    w = jnp.array([[0.1, 0.2], [0.3, 0.4]])
    action = np.array([0.5, -0.5])
    mean = np.asarray(w @ POINTS[0])
    expected = stats.multivariate_normal(mean, covariance).logpdf(action)
    found = float(policy.log_prob(w, POINTS[0], jnp.asarray(action)))
    assert found == pytest.approx(expected, rel=1e-12)
    keys = jax.random.split(jax.random.key(2), 20_000)
    drawn = np.asarray(jax.vmap(lambda k: policy.sample(k, w, POINTS[0]))(keys))
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.04)


@pytest.mark.parametrize("scale", SCALES)
def test_the_closed_form_maximum_has_no_slope_left(scale):
    policy, w = gaussian(scale)
    rng = np.random.default_rng(5)
    weights = jnp.asarray(rng.random((30, 1)))
    states, actions = rng.normal(size=(30, 2)), rng.normal(size=(30, 1, 2))
    pairs = mn.WeightedPairs(
        jnp.asarray(states), jnp.asarray(actions), weights, weights, weights, 0.0
    )
    slope = mn.gradient(policy, policy.maximum(w, pairs), pairs)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(slope)) < 1e-10


def test_the_redundant_parameter_of_a_row_does_nothing_and_reduced_removes_it():
    full, reduced = mn.TabularSoftmax(5, 3), mn.TabularSoftmax(5, 3, reduced=True)
    evaluator = mn.FiniteEvaluator(MDP)
    w = jnp.sin(jnp.arange(10.0)).reshape(5, 2)
    same = jnp.concatenate([w, jnp.zeros((5, 1))], axis=1)
    pairs = evaluator.evaluate(None, full, same)
    other = evaluator.evaluate(None, full, same + 7.0)
    np.testing.assert_allclose(pairs.occupancy, other.occupancy, atol=1e-14)
    small = evaluator.evaluate(None, reduced, w)
    np.testing.assert_allclose(small.value, pairs.value, atol=1e-14)
    step = mn.direction("second_gauss_newton", full, same, pairs)
    assert step.report.singular
    np.testing.assert_allclose(step.value.sum(axis=1), 0.0, atol=1e-10)  # least norm
    inner = mn.direction("second_gauss_newton", reduced, w, small)
    assert inner.report.status == "solved"
    np.testing.assert_allclose(inner.value, (step.value - step.value[:, -1:])[:, :-1], atol=1e-10)


BAD = {
    "features of two axes": (lambda: mn.Gibbs(np.ones((2, 3))), "needs 3 axes"),
    "features with NaN": (lambda: mn.Gibbs(np.full((2, 2, 1), np.nan)), "must be finite"),
    "a feature function without length": (lambda: mn.Gibbs(lambda s: s), "n_features"),
    "an indefinite covariance": (
        lambda: mn.LinearGaussian([[1.0, 2.0], [2.0, 1.0]], 2),
        "positive definite",
    ),
    "an asymmetric covariance": (
        lambda: mn.LinearGaussian([[1.0, 2.0], [0.0, 1.0]], 2),
        "symmetric",
    ),
    "an unknown scale": (lambda: mn.Gaussian(1, 1, scale="wide"), "must be one of 'log_sigma'"),
    "a singular map": (
        lambda: mn.Reparametrized(mn.TabularSoftmax(1, 2), np.ones((2, 2))),
        "non-singular",
    ),
    "a map of another size": (
        lambda: mn.Reparametrized(mn.TabularSoftmax(1, 2), np.eye(3)),
        r"needs shape \(2, 2\)",
    ),
    "successor features of another length": (
        lambda: mn.gibbs_over_successors(MDP, np.eye(4)),
        r"needs shape \(5, n\)",
    ),
    "weights of another shape": (
        lambda: mn.WeightedPairs(
            STATES, STATES[:, None], jnp.ones((3, 1)), jnp.ones((3, 2)), jnp.ones((3, 1)), 0.0
        ),
        r"expected shape \(3, 1\)",
    ),
    "weights of one axis": (
        lambda: mn.WeightedPairs(STATES, STATES, *[jnp.ones(3)] * 3, 0.0),
        "occupancy",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_policies_and_pairs_are_refused_in_one_line(name):
    make, message = BAD[name]
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_features_may_be_a_function_of_any_state():
    policy = mn.Gibbs(lambda s: jnp.stack([s, -s]), n_features=2)
    found = mn.check_policy(policy, policy.initial_parameters() + 0.5, POINTS, n_actions=2)
    assert found.ok


@pytest.mark.parametrize("states", [[0, 1], [4, 3, 2, 1, 0, 0, 2]])
def test_log_probs_of_many_states_are_those_of_each(states):
    policy, _, w = gibbs(2, MDP)
    w = jnp.asarray(w)
    actions = jnp.array([[2, 0]] * len(states))
    found = policy.log_probs(w, jnp.array(states), actions)
    expected = [[float(policy.log_prob(w, s, a)) for a in (2, 0)] for s in states]
    np.testing.assert_allclose(found, expected, rtol=1e-13)
