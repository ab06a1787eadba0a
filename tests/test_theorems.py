"""The paper's theorems and lemmas, each as a test, and what they do not promise as tests too."""

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from jax.flatten_util import ravel_pytree
from problems import POLICIES, arrays, gibbs, quadratic, random_mdp, tabular
from reference import GibbsReference, TabularReference
from scipy.special import xlogy

import mdpnewton as mn

SEEDS = range(3)
EVERY_POLICY = pytest.mark.parametrize("name", POLICIES)
EXACT = 1e-10  # agreement of two exact computations, relative to the largest entry


def flat(tree):
    return np.asarray(ravel_pytree(tree)[0])


def close(x, y, tolerance=EXACT):
    return np.abs(np.asarray(x) - np.asarray(y)).max() <= tolerance * max(1.0, np.abs(y).max())


def apart(x, y):
    """Relative distance of two arrays."""
    return np.linalg.norm(np.asarray(x) - np.asarray(y)) / np.linalg.norm(y)


def evaluated(mdp, policy, w):
    return mn.FiniteEvaluator(mdp).evaluate(None, policy, w)


def cases(name, seeds=SEEDS):
    for seed in seeds:
        mdp = random_mdp(seed)
        policy, oracle, w = POLICIES[name](seed, mdp)
        w = jnp.asarray(w)
        yield mdp, policy, oracle, w, evaluated(mdp, policy, w)


def reduced_reference(n_states, n_actions):
    """A table whose last action has the logit zero in every state."""
    oracle = TabularReference(n_states, n_actions)
    kept = np.arange(n_states * n_actions) % n_actions < n_actions - 1
    oracle.features = oracle.features[:, :, kept]
    return oracle


def with_reward(mdp, reward):
    return mn.FiniteMDP(mdp.transition, reward, mdp.start, mdp.discount)


def by_products(operator):
    """The matrix from products alone: second derivatives by autodiff, no shortcut."""
    size, unravel = flat(operator.w).size, ravel_pytree(operator.w)[1]
    return np.stack([flat(operator.mv(unravel(e))) for e in jnp.eye(size)])


def slopes(mdp, oracle, w):
    """Gradients of U and V from their definitions alone, by complex steps: exact."""
    w, tiny, found = flat(w), 1e-30, []
    for e in tiny * np.eye(w.size):
        there = reference.evaluate(*arrays(mdp), oracle, w + 1j * e)
        found.append([there[name].imag / tiny for name in ("objective", "value")])
    return [np.stack(column, axis=-1) for column in zip(*found, strict=True)]


def bends(mdp, oracle, w):
    """Hessian of U by fourth-order differences of those gradients: exact to about 1e-11."""
    w, step, rows = flat(w), 1e-3, []
    for e in step * np.eye(w.size):
        near, far = (
            slopes(mdp, oracle, w + k * e)[0] - slopes(mdp, oracle, w - k * e)[0] for k in (1, 2)
        )
        rows.append((8 * near - far) / (12 * step))
    return np.array(rows)


# Problems with a finite best policy and a negative-definite Hessian there.


class Ordered(mn.Categorical):
    """Actions on a line about a mean: the best may lie between, so w is finite."""

    positions: jnp.ndarray
    parameter: jnp.ndarray  # which entry of w is the mean of a state
    log_concave = True
    blockwise_log_concave = True
    constant_curvature = True

    def logits(self, w, state):
        return self.positions * w[self.parameter[state]] - 0.5 * self.positions**2

    def initial_parameters(self):
        return jnp.zeros(int(self.parameter.max()) + 1)


class OrderedReference(GibbsReference):
    def __init__(self, positions):
        super().__init__(positions[None, :, None] * np.eye(4)[:, None, :])
        self.positions = positions

    def probabilities(self, w, s):
        return reference.softmax(self.features[s] @ w - 0.5 * self.positions**2)


@dataclass
class Solved:
    """A problem, its optimum w, and the Hessian there."""

    mdp: mn.FiniteMDP
    policy: mn.Policy
    oracle: GibbsReference
    w: jnp.ndarray
    hessian: np.ndarray

    @cached_property
    def analysis(self):
        return mn.analyze(self.mdp, self.policy, self.w)

    def pairs(self, v=None):
        return evaluated(self.mdp, self.policy, self.w if v is None else v)

    def rates(self, method):
        return self.analysis.rates[method]

    def errors(self, offset, method, size=1.0, iterations=40):
        """Distances to the optimum along a search that starts `offset` away from it."""
        away = np.linspace(1, 2, self.w.size)
        result = mn.search(
            mn.FiniteEvaluator(self.mdp),
            self.policy,
            self.w + jnp.asarray(offset * away / np.linalg.norm(away)),
            method,
            mn.Constant(size),
            iterations=iterations,
            gradient_tolerance=0.0,
            patience=None,
            keep_trace=True,
        )
        return np.array([np.linalg.norm(v - self.w) for v in result.trace])

    def jacobian(self, method, step=1e-4):
        """Jacobian of w -> w + direction, by fourth-order differences."""

        def update(v):
            return flat(v + mn.direction(method, self.policy, v, self.pairs(v)).value)

        columns = []
        for e in step * jnp.eye(self.w.size):
            near, far = (update(self.w + k * e) - update(self.w - k * e) for k in (1.0, 2.0))
            columns.append((8 * near - far) / (12 * step))
        return np.array(columns).T


def solve(mdp, policy, oracle):
    evaluator = mn.FiniteEvaluator(mdp)
    begin = policy.initial_parameters()
    near = mn.search(evaluator, policy, begin, iterations=300, gradient_tolerance=1e-4).w
    w = mn.search(evaluator, policy, near, "newton", iterations=8, gradient_tolerance=0.0).w
    hessian = bends(mdp, oracle, w)
    assert np.linalg.norm(slopes(mdp, oracle, w)[0]) < 1e-13
    assert np.linalg.eigvalsh(hessian).max() < -0.02
    assert np.abs(w).max() < 5
    return Solved(mdp, policy, oracle, w, hessian)


@cache
def aliased(seed):
    """Three states that want different actions and look nearly alike: not value consistent."""
    rng = np.random.default_rng(seed)
    transition, reward = np.zeros((3, 3, 3)), np.zeros((3, 3))
    for s, a in product(range(3), range(3)):
        target = (s + 1) % 3 if a == s else s
        transition[s, a] = 0.9 * np.eye(3)[target] + 0.1 * rng.dirichlet(np.ones(3))
        reward[s, a] = (a == s) + 0.2 * rng.random()
    features = np.eye(3)[None, :, :2] + 0.3 * rng.normal(size=(3, 3, 2))
    mdp = mn.FiniteMDP(transition, reward, rng.dirichlet(np.ones(3)), 0.8)
    return solve(mdp, mn.Gibbs(features), GibbsReference(features))


@cache
def ordered(seed):
    """Five ordered actions in four states, a mean for each: tabular, so value consistent."""
    rng = np.random.default_rng(seed)
    positions = np.linspace(-2, 2, 5)
    transition = rng.dirichlet(np.full(4, 0.5), size=(4, 5))
    reward = np.exp(-((positions - rng.uniform(-1, 1, size=(4, 1))) ** 2))
    mdp = mn.FiniteMDP(transition, reward, rng.dirichlet(np.ones(4)), 0.5)
    policy = Ordered(jnp.asarray(positions), jnp.arange(4))
    return solve(mdp, policy, OrderedReference(positions))


def rate(errors):
    """The last ratio of errors that are well above round-off."""
    clear = errors[errors > 1e-9]
    return clear[-1] / clear[-2]


# A problem whose trajectories can be listed.


def layered(seed):
    """Three decisions in two states a layer, then the end: 64 trajectories."""
    rng = np.random.default_rng(seed)
    transition, reward = np.zeros((7, 2, 7)), np.zeros((7, 2))
    for s, a in product(range(6), range(2)):
        later = slice(6, 7) if s >= 4 else slice(2 * (s // 2) + 2, 2 * (s // 2) + 4)
        transition[s, a, later] = rng.dirichlet(np.ones(later.stop - later.start))
        reward[s, a] = rng.uniform(0.1, 1)
    transition[6, :, 6] = 1
    start = np.append(rng.dirichlet(np.ones(2)), np.zeros(5))
    features = rng.normal(size=(7, 2, 3))
    features[6] = 0
    mdp = mn.FiniteMDP(transition, reward, start, 0.7)
    return mdp, mn.Gibbs(features), GibbsReference(features)


def trajectories(mdp, oracle, w):
    """Probability, discounted rewards (3,) and scores (3, n) of every trajectory."""
    for path in product(range(2), repeat=6):
        states = [2 * t + path[2 * t] for t in range(3)]
        chance, rewards, scores = mdp.start[states[0]], [], []
        for t, (s, a) in enumerate(zip(states, path[1::2], strict=True)):
            following = mdp.transition[s, a, states[t + 1]] if t < 2 else 1.0
            chance *= oracle.probabilities(w, s)[a] * following
            rewards.append(mdp.discount**t * mdp.reward[s, a])
            scores.append(oracle.scores(w, s)[a])
        yield chance, np.array(rewards), np.array(scores)


# Theorems 1 to 4 and Lemmas 1 to 4: gradient and Hessian.


@EVERY_POLICY
def test_theorem_1_policy_gradient(name):
    for mdp, policy, oracle, w, pairs in cases(name):
        gradient = flat(mn.gradient(policy, w, pairs))
        assert np.abs(gradient).max() > 1e-2
        assert close(gradient, slopes(mdp, oracle, w)[0], 1e-12)


def test_theorem_2_em_bound_for_every_distribution_over_trajectories():
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        mdp, policy, oracle = layered(seed)
        w = rng.normal(size=3)
        p, R = zip(
            *((chance, r.sum()) for chance, r, _ in trajectories(mdp, oracle, w)), strict=True
        )
        p, R = np.array(p), np.array(R)
        U = mn.FiniteEvaluator(mdp).objective(None, policy, jnp.asarray(w))
        assert close(p.sum(), 1.0, 1e-13)
        assert close(p @ R, U, 1e-13)

        def bound(q, p=p, R=R):
            return -xlogy(q, q).sum() + q @ np.log(p * R)

        for q in rng.dirichlet(np.full(64, 0.3), size=50):
            assert bound(q) < np.log(U) - 1e-3
        assert abs(bound(p * R / U) - np.log(U)) < 1e-13


@EVERY_POLICY
def test_theorem_2_the_surrogate_bounds_the_objective_and_touches_it(name):
    for mdp, policy, oracle, w, pairs in cases(name):
        bound = eqx.filter_jit(mn.surrogate(policy, w, pairs))
        U = reference.objective(*arrays(mdp), oracle, flat(w))

        def gap(offset, mdp=mdp, oracle=oracle, w=w, bound=bound, U=U):
            v = flat(w) + offset
            S = float(bound(jnp.asarray(v.reshape(w.shape))))
            return np.log(reference.objective(*arrays(mdp), oracle, v) / U) - S / U

        for offset in np.random.default_rng(5).normal(size=(5, w.size)):
            gaps = [gap(size * offset) for size in (3.0, 1.0, 0.1, 1e-3, 1e-4)]
            assert min(gaps) > 0
            assert gaps[-2] / gaps[-1] == pytest.approx(100, rel=0.05)


@EVERY_POLICY
def test_theorem_3_policy_hessian(name):
    for mdp, policy, oracle, w, pairs in cases(name):
        H1, H2 = (np.asarray(mn.curvature(policy, w, pairs, f).dense()) for f in ("H1", "H2"))
        H12 = mn.cross_term(policy, w, pairs)
        assert min(np.abs(part).max() for part in (H1, H2, H12)) > 1e-2
        assert close(H1 + H2 + H12 + H12.T, bends(mdp, oracle, w))


@EVERY_POLICY
def test_theorem_4_hessian_by_advantages(name):
    for mdp, policy, oracle, w, pairs in cases(name):
        A1, A2 = (by_products(mn.curvature(policy, w, pairs, form)) for form in ("A1", "A2"))
        H12 = mn.cross_term(policy, w, pairs)
        expected = bends(mdp, oracle, w)
        assert close(A1 + A2 + H12 + H12.T, expected)
        without = np.abs(A1 + H12 + H12.T - expected).max()
        assert without > 1e-2 if name == "quadratic" else without < EXACT


@EVERY_POLICY
def test_lemma_1_gradients_of_values(name):
    for mdp, policy, oracle, w, pairs in cases(name):
        found = mn.value_gradient(policy, w, pairs)
        assert np.abs(found).max() > 1e-2
        assert close(found, slopes(mdp, oracle, w)[1], 1e-12)


@EVERY_POLICY
def test_lemma_1_gradients_of_action_values_make_h12(name):
    for mdp, policy, oracle, w, pairs in cases(name):
        ahead = mdp.discount * np.tensordot(mdp.transition, slopes(mdp, oracle, w)[1], axes=1)
        scores = np.array([oracle.scores(flat(w), s) for s in range(mdp.n_states)])
        expected = np.einsum("sa,sai,saj->ij", pairs.occupancy, scores, ahead)
        assert close(mn.cross_term(policy, w, pairs), expected, 1e-12)


@EVERY_POLICY
def test_lemma_2_the_two_value_weighted_fisher_matrices_agree(name):
    for _, policy, _, w, pairs in cases(name):
        for outer, bent, sign in (("V1", "V2", -1), ("fisher_score", "fisher", 1)):
            expected = np.asarray(mn.curvature(policy, w, pairs, outer).dense())
            assert np.abs(expected).max() > 0.1
            found = by_products(mn.curvature(policy, w, pairs, bent))
            assert close(sign * found, expected, 1e-12)


@EVERY_POLICY
def test_lemma_3_constant_curvature_has_no_a2(name):
    for _, policy, _, w, pairs in cases(name):
        A2 = np.abs(by_products(mn.curvature(policy, w, pairs, "A2"))).max()
        assert A2 > 1e-2 if name == "quadratic" else A2 < 1e-13


def test_lemma_3_for_gaussian_policies_with_fixed_but_not_with_learnt_scale():
    rng = np.random.default_rng(0)
    advantage = rng.normal(size=(6, 4))
    advantage -= advantage.mean(axis=1, keepdims=True)
    ones = jnp.ones((6, 4))
    states, actions = rng.normal(size=(6, 2)), rng.normal(size=(6, 4, 1))
    pairs = mn.WeightedPairs(
        jnp.asarray(states), jnp.asarray(actions), ones, ones, jnp.asarray(advantage), 0.0
    )
    mean = jnp.asarray(rng.normal(size=(1, 2)))
    fixed = mn.curvature(mn.LinearGaussian(0.5, 2), mean, pairs, "A2")
    assert np.abs(fixed.dense()).max() < 1e-13
    learnt = mn.curvature(mn.Gaussian(1, 2), {"mean": mean, "scale": jnp.zeros(1)}, pairs, "A2")
    assert np.abs(learnt.dense()).max() > 0.1


def h11(policy, w, pairs):
    H12 = mn.cross_term(policy, w, pairs)
    return np.asarray(mn.curvature(policy, w, pairs, "H1").dense()) + H12 + H12.T


@EVERY_POLICY
def test_lemma_4_h11_is_positive_definite_for_rewards_that_are_not_negative(name):
    for mdp, policy, oracle, w, pairs in cases(name):
        H2 = by_products(mn.curvature(policy, w, pairs, "H2"))
        H11 = h11(policy, w, pairs)
        assert close(H11, bends(mdp, oracle, w) - H2)
        eigenvalues = np.linalg.eigvalsh(H11)
        # A full table has a direction in every state that changes nothing.
        redundant = mdp.n_states if name == "tabular" else 0
        assert np.abs(eigenvalues[:redundant]).max(initial=0.0) < EXACT
        assert eigenvalues[redundant:].min() > 1e-3


def test_lemma_4_h11_is_the_reward_weighted_square_of_path_scores():
    for seed in SEEDS:
        mdp, policy, oracle = layered(seed)
        w = np.random.default_rng(seed).normal(size=3)
        expected = np.zeros((3, 3))
        for chance, rewards, scores in trajectories(mdp, oracle, w):
            for reward, path in zip(rewards, scores.cumsum(axis=0), strict=True):
                expected += chance * reward * np.outer(path, path)
        w = jnp.asarray(w)
        assert close(h11(policy, w, evaluated(mdp, policy, w)), expected, 1e-13)


def test_lemma_4_fails_with_negative_rewards():
    mdp = random_mdp(4)
    mdp = with_reward(mdp, mdp.reward - 0.6)
    policy, _, w = gibbs(4, mdp)
    w = jnp.asarray(w)
    eigenvalues = np.linalg.eigvalsh(h11(policy, w, evaluated(mdp, policy, w)))
    assert eigenvalues[0] < -0.1 < 0.1 < eigenvalues[-1]


# Theorem 5: definiteness, and where it ends.


class LogLog(mn.Categorical):
    """Two actions, the first with probability exp(-exp(phi'w)): concave, curved by the action."""

    features: jnp.ndarray
    log_concave = True
    blockwise_log_concave = True
    constant_curvature = False

    def logits(self, w, state):
        hazard = jnp.exp(self.features[state] @ w)
        return jnp.stack([-hazard, jnp.log(-jnp.expm1(-hazard))])

    def initial_parameters(self):
        return jnp.zeros(self.features.shape[1])


def assert_negative_definite_and_ascending(policy, w, pairs, methods):
    eigenvalues = np.linalg.eigvalsh(by_products(mn.curvature(policy, w, pairs, "H2")))
    assert eigenvalues.max() < -1e-6 * np.abs(eigenvalues).max()
    for method in methods:
        ahead = mn.direction(method, policy, w, pairs)
        assert ahead.report.status == "solved"
        assert not ahead.report.negative_curvature
        assert flat(ahead.value) @ flat(ahead.gradient) > 0
        assert close(ahead.report.slope, flat(ahead.value) @ flat(ahead.gradient), 1e-14)


def test_theorem_5_definiteness_of_log_concave_policies():
    for seed, scale in product(SEEDS, (0.1, 1.0, 3.0)):
        mdp = random_mdp(seed, n_actions=2)
        rng = np.random.default_rng(seed)
        policy = LogLog(jnp.asarray(rng.normal(size=(5, 3))))
        w = jnp.asarray(scale * rng.normal(size=3))
        pairs = evaluated(mdp, policy, w)
        assert np.abs(by_products(mn.curvature(policy, w, pairs, "A2"))).max() > 1e-4
        assert_negative_definite_and_ascending(policy, w, pairs, ["second_gauss_newton"])


def test_theorem_5_definiteness_with_constant_curvature_needs_positive_values_only():
    for seed, scale in product(SEEDS, (0.1, 1.0)):
        mdp = random_mdp(seed)
        mdp = with_reward(mdp, 8 * mdp.reward - 2.5)
        policy, oracle, w = gibbs(seed, mdp)
        w = jnp.asarray(scale * w)
        assert mdp.reward.min() < -1
        assert reference.evaluate(*arrays(mdp), oracle, flat(w))["value"].min() > 0
        methods = ["second_gauss_newton", "diagonal_second_gauss_newton"]
        assert_negative_definite_and_ascending(policy, w, evaluated(mdp, policy, w), methods)


def test_h2_is_indefinite_for_a_policy_that_is_not_log_concave():
    for seed in (0, 1, 5):
        mdp = random_mdp(seed, discount=0.3)
        mdp = with_reward(mdp, np.tile([1.0, 0.0, 0.0], (5, 1)))
        policy, oracle, w = quadratic(seed, mdp)
        w = jnp.asarray(0.3 * w)
        pairs = evaluated(mdp, policy, w)
        assert float(pairs.value.min()) >= 0
        eigenvalues = np.linalg.eigvalsh(reference.terms(*arrays(mdp), oracle, flat(w))[1]["H2"])
        assert eigenvalues[0] < -0.5 < 0.1 < eigenvalues[-1]
        report = mn.direction("second_gauss_newton", policy, w, pairs).report
        assert report.status == "indefinite"
        assert report.negative_curvature
        assert close(report.smallest_curvature, -eigenvalues[-1])


def test_h2_is_indefinite_with_negative_rewards_and_the_fisher_matrix_repairs_it():
    policy, oracle = mn.TabularSoftmax(5, 3, reduced=True), reduced_reference(5, 3)
    for seed in SEEDS:
        mdp = random_mdp(seed)
        w = np.random.default_rng(seed).normal(size=(5, 2))
        middle = np.median(reference.evaluate(*arrays(mdp), oracle, w.ravel())["value"])
        mdp = with_reward(mdp, mdp.reward - (1 - mdp.discount) * middle)
        V = reference.evaluate(*arrays(mdp), oracle, w.ravel())["value"]
        gradient, terms = reference.terms(*arrays(mdp), oracle, w.ravel())
        H2, G = terms["H2"], terms["fisher"]
        eigenvalues = np.linalg.eigvalsh(H2)
        assert (eigenvalues < -1e-6).sum() == 4  # two states of positive value
        assert (eigenvalues > 1e-6).sum() == 4  # two of negative value
        enough = max(0.0, -V.min())
        assert np.linalg.eigvalsh(-H2 + enough * G).min() > -1e-12
        assert np.linalg.eigvalsh(-H2 + 0.9 * enough * G).min() < -1e-4
        w = jnp.asarray(w)
        pairs = evaluated(mdp, policy, w)
        damped = mn.Precondition("H2", fisher_damping=1.01 * enough)
        ahead = mn.direction(damped, policy, w, pairs)
        assert ahead.report.status == "solved"
        assert ahead.report.slope > 0
        assert apart(flat(ahead.value), np.linalg.solve(-H2 + 1.01 * enough * G, gradient)) < 1e-9


def test_h2_of_a_gibbs_policy_is_indefinite_when_values_have_both_signs():
    mdp = random_mdp(4)
    mdp = with_reward(mdp, mdp.reward - 0.6)
    policy, oracle, w = gibbs(4, mdp)
    V = reference.evaluate(*arrays(mdp), oracle, w)["value"]
    terms = reference.terms(*arrays(mdp), oracle, w)[1]
    assert V.min() < 0 < V.max()
    eigenvalues = np.linalg.eigvalsh(terms["H2"])
    assert eigenvalues[0] < -0.1 < 0.1 < eigenvalues[-1]
    assert np.linalg.eigvalsh(-terms["H2"] - V.min() * terms["fisher"]).min() > 0
    w = jnp.asarray(w)
    report = mn.direction("second_gauss_newton", policy, w, evaluated(mdp, policy, w)).report
    assert report.negative_curvature
    assert close(report.smallest_curvature, -eigenvalues[-1])


def test_the_first_gauss_newton_direction_may_descend():
    mdp = random_mdp(1)
    policy, oracle, w = gibbs(1, mdp)
    gradient, terms = reference.terms(*arrays(mdp), oracle, w)
    w = jnp.asarray(w)
    pairs = evaluated(mdp, policy, w)
    first = mn.direction("first_gauss_newton", policy, w, pairs)
    assert first.report.slope < -1
    assert close(first.report.slope, -gradient @ np.linalg.solve(terms["A1+A2"], gradient), 1e-9)
    assert first.report.status == "indefinite"
    step = 1e-3 / np.linalg.norm(flat(first.value))
    U = [reference.objective(*arrays(mdp), oracle, flat(w + t * first.value)) for t in (0.0, step)]
    assert U[1] < U[0]
    assert mn.direction("second_gauss_newton", policy, w, pairs).report.slope > 0


# Theorems 6 and 7, Lemma 5: value consistency.


def opposed(value_slopes):
    """Whether a parameter raises the value of a state and lowers that of another."""
    floor = 1e-12 * np.abs(value_slopes).max()
    return ((value_slopes > floor).any(axis=0) & (value_slopes < -floor).any(axis=0)).any()


@pytest.mark.parametrize("reduced", [False, True])
def test_theorem_6_tabular_policies_are_value_consistent(reduced):
    policy = mn.TabularSoftmax(7, 2, reduced=reduced)
    oracle = (reduced_reference if reduced else TabularReference)(7, 2)
    for seed in SEEDS:
        for mdp in (random_mdp(seed, n_states=7, n_actions=2), layered(seed)[0]):
            w = np.random.default_rng(seed).normal(size=(7, 2 - reduced))
            expected = slopes(mdp, oracle, w)[1]
            assert np.abs(expected).max() > 1e-2
            assert not opposed(expected)
            w = jnp.asarray(w)
            pairs = evaluated(mdp, policy, w)
            assert close(mn.value_gradient(policy, w, pairs), expected, 1e-12)
            found = mn.value_consistency(policy, w, pairs)
            assert found.consistent
            assert found.witness is None


def test_aliased_states_with_different_best_actions_are_not_value_consistent():
    for seed in SEEDS:
        case = aliased(seed)
        value_slopes = slopes(case.mdp, case.oracle, case.w)[1]
        assert opposed(value_slopes)
        found = mn.value_consistency(case.policy, case.w, case.pairs())
        assert not found.consistent
        assert found.witness["kind"] == "opposite signs"
        up, down = (value_slopes[s, found.witness["parameter"]] for s in found.witness["states"])
        assert down < -0.01 < 0.01 < up
        assert close(found.witness["value_gradient"], [up, down], 1e-12)


def test_value_consistency_is_not_fooled_by_round_off_at_an_optimum():
    positions = np.linspace(-2, 2, 5)
    policy = Ordered(jnp.asarray(positions), jnp.zeros(4, dtype=int))
    for seed in range(20):  # rewards rise and fall together: all slopes have one sign
        rng = np.random.default_rng(seed)
        transition = np.repeat(rng.dirichlet(np.ones(4), size=4)[:, None], 5, axis=1)
        best = rng.uniform(-0.5, 0.5)
        reward = rng.uniform(0.5, 2, size=(4, 1)) * np.exp(-((positions - best) ** 2))
        mdp = mn.FiniteMDP(transition, reward + 9 * rng.random((4, 1)), np.ones(4) / 4, 0.5)
        away = jnp.ones(1)
        assert mn.value_consistency(policy, away, evaluated(mdp, policy, away)).consistent
        evaluator = mn.FiniteEvaluator(mdp)
        near = jnp.full(1, best)
        w = mn.search(evaluator, policy, near, "newton", iterations=8, gradient_tolerance=0.0).w
        slope = mn.value_gradient(policy, w, evaluated(mdp, policy, w))
        assert np.abs(slope).max() < 1e-13
        assert mn.value_consistency(policy, w, evaluated(mdp, policy, w)).consistent


def test_lemma_5_hitting_probabilities():
    for seed in SEEDS:
        mdp = random_mdp(seed)
        policy, oracle, w = tabular(seed, mdp)
        pi = np.array([oracle.probabilities(w.ravel(), s) for s in range(5)])
        closed = np.einsum("sa,sat->st", pi, mdp.transition)
        w = jnp.asarray(w)
        found = mn.value_gradient(policy, w, evaluated(mdp, policy, w)).reshape(5, 5, 3)
        for goal in range(5):
            hit, arriving, avoiding = np.zeros(5), closed[:, goal], closed.copy()
            avoiding[:, goal] = 0
            for t in range(1, 400):  # 0.9^400 is 5e-19
                hit += mdp.discount**t * arriving
                arriving = avoiding @ arriving
            others = np.arange(5) != goal
            assert hit.min() > 0.05
            assert np.abs(found[goal, goal]).max() > 1e-3
            assert close(found[others, goal], hit[others, None] * found[goal, goal], 1e-12)


def test_theorem_7_h12_vanishes_at_the_optimum_of_a_value_consistent_policy():
    for seed in SEEDS:
        case = ordered(seed)
        assert np.abs(slopes(case.mdp, case.oracle, case.w)[1]).max() < 1e-12
        assert np.abs(mn.cross_term(case.policy, case.w, case.pairs())).max() < 1e-12
        A1 = mn.curvature(case.policy, case.w, case.pairs(), "A1").dense()
        assert close(A1, case.hessian)
        sizes = []
        for distance in (0.1, 0.01, 0.001):
            v = case.w + distance
            assert mn.value_consistency(case.policy, v, case.pairs(v)).consistent
            sizes.append(np.abs(mn.cross_term(case.policy, v, case.pairs(v))).max())
        assert sizes[0] > 1e-4
        assert np.diff(np.log10(sizes)) == pytest.approx([-1, -1], abs=0.1)


def test_a_policy_that_is_not_value_consistent_keeps_its_h12_at_the_optimum():
    for seed in SEEDS:
        case = aliased(seed)
        H12 = mn.cross_term(case.policy, case.w, case.pairs())
        A1 = np.asarray(mn.curvature(case.policy, case.w, case.pairs(), "A1").dense())
        assert np.linalg.norm(H12 + H12.T, 2) > 0.5 * np.linalg.norm(A1, 2) > 0.01
        assert close(A1 + H12 + H12.T, case.hessian)


# Theorem 8: affine invariance.


def transformations(seed, n):
    rng = np.random.default_rng(seed)
    rescaling = np.diag(10.0 ** rng.uniform(-2, 2, size=n))
    return rescaling, rng.normal(size=(n, n)) + 2 * np.eye(n), rng.normal(size=n)


def mapped_direction(method, mdp, policy, w, matrix, offset):
    """The direction in transformed coordinates, mapped back."""
    other = mn.Reparametrized(policy, matrix, offset)
    v = other.transformed(w)
    return matrix @ flat(mn.direction(method, other, v, evaluated(mdp, other, v)).value)


def test_theorem_8_affine_invariance():
    for method in ("first_gauss_newton", "second_gauss_newton", "newton", "natural"):
        for mdp, policy, _, w, pairs in cases("gibbs"):
            rescaling, general, offset = transformations(7, w.size)
            original = flat(mn.direction(method, policy, w, pairs).value)
            for matrix in (rescaling, general):
                mapped = mapped_direction(method, mdp, policy, w, matrix, offset)
                assert apart(mapped, original) < 1e-9


def test_theorem_8_affine_invariance_of_whole_searches():
    for mdp, policy, _, w, _ in cases("gibbs"):
        offset = np.linspace(0, 1, w.size)
        for matrix in transformations(8, w.size)[:2]:
            other = mn.Reparametrized(policy, matrix, offset)
            one, two = (
                mn.search(mn.FiniteEvaluator(mdp), seen, v, iterations=10, keep_trace=True).trace
                for seen, v in ((policy, w), (other, other.transformed(w)))
            )
            assert len(one) == 11
            assert np.linalg.norm(one[-1] - w) > 0.1
            for v, u in zip(one, two, strict=True):
                assert apart(matrix @ u + offset, v) < 1e-9


def test_theorem_8_diagonal_methods_are_invariant_to_rescaling_only():
    for method in ("diagonal_first_gauss_newton", "diagonal_second_gauss_newton"):
        for mdp, policy, _, w, pairs in cases("gibbs"):
            rescaling, general, offset = transformations(7, w.size)
            original = flat(mn.direction(method, policy, w, pairs).value)
            mapped = mapped_direction(method, mdp, policy, w, rescaling, offset)
            assert apart(mapped, original) < 1e-9
            mapped = mapped_direction(method, mdp, policy, w, general, offset)
            assert apart(mapped, original) > 0.2


def test_steepest_ascent_is_not_affine_invariant():
    for mdp, policy, _, w, pairs in cases("gibbs"):
        rescaling, general, offset = transformations(7, w.size)
        original = flat(mn.direction("steepest", policy, w, pairs).value)
        for matrix in (rescaling, general):
            mapped = mapped_direction("steepest", mdp, policy, w, matrix, offset)
            assert apart(mapped, matrix @ matrix.T @ original) < 1e-9
            assert apart(mapped, original) > 0.5
            cosine = mapped @ original / np.linalg.norm(mapped) / np.linalg.norm(original)
            assert cosine < 0.99


# Theorems 9, 10 and 12: convergence.


def test_theorem_9_first_gauss_newton_is_super_linear_if_value_consistent():
    for seed in SEEDS:
        case = ordered(seed)
        assert mn.value_consistency(case.policy, case.w, case.pairs()).consistent
        e = case.errors(0.1, "first_gauss_newton", iterations=4)
        ratios = e[1:4] / e[:3]
        assert ratios[0] < 0.3
        assert (ratios[1:] < 0.2 * ratios[:-1]).all()
        assert e[-1] < 1e-10
        assert case.rates("first_gauss_newton").rate < 1e-10
        assert np.abs(case.jacobian("first_gauss_newton")).max() < 1e-8


def test_theorem_9_the_rate_with_other_steps_is_one_minus_alpha():
    for seed, size in product(SEEDS, (0.4, 0.8, 1.5, 1.9)):
        e = ordered(seed).errors(1e-3, "first_gauss_newton", size, iterations=8)
        assert rate(e) == pytest.approx(abs(1 - size), rel=0.01)


def test_theorem_9_a_step_above_the_largest_does_not_converge():
    for seed in SEEDS:
        case = ordered(seed)
        assert case.rates("first_gauss_newton").largest_step == pytest.approx(2, abs=1e-9)
        e = case.errors(1e-6, "first_gauss_newton", 2.1, iterations=30)
        assert e[-1] > 10 * e[0]
        assert rate(e) == pytest.approx(1.1, rel=0.01)


def test_theorem_9_the_rate_without_value_consistency():
    for seed in (4, 7):
        case = aliased(seed)
        predicted = case.rates("first_gauss_newton")
        A1 = np.asarray(mn.curvature(case.policy, case.w, case.pairs(), "A1+A2").dense())
        assert np.linalg.eigvalsh(A1).max() < -1e-3
        ratios = np.linalg.eigvals(np.linalg.solve(A1, case.hessian))
        assert predicted.largest_step == pytest.approx(2 / ratios.max())
        assert close(case.jacobian("first_gauss_newton"), predicted.jacobian, 1e-6)
        for factor, expected in ((0.5, 1 - ratios.min() / ratios.max()), (1.2, 1.4)):
            size = factor * predicted.largest_step
            e = case.errors(1e-8, "first_gauss_newton", size, iterations=30)
            assert rate(e) == pytest.approx(expected, rel=0.01)


def test_theorem_9_promises_nothing_where_the_preconditioner_is_indefinite():
    for seed in SEEDS:
        case = aliased(seed)
        A1 = mn.curvature(case.policy, case.w, case.pairs(), "A1+A2").dense()
        assert np.linalg.eigvalsh(A1).max() > 1e-3
        predicted = case.rates("first_gauss_newton")
        assert predicted.largest_step is None
        steps = int(np.ceil(np.log(1e4) / np.log(predicted.rate)))
        e = case.errors(1e-8, "first_gauss_newton", iterations=steps)
        assert rate(e) == pytest.approx(predicted.rate, rel=0.05)
        assert rate(e) > 1.5


def test_theorem_10_the_rate_of_the_second_gauss_newton_method():
    for seed in SEEDS:
        case = aliased(seed)
        predicted = case.rates("second_gauss_newton")
        assert 0.5 < predicted.rate < 0.9
        assert close(case.jacobian("second_gauss_newton"), predicted.jacobian, 1e-8)
        e = case.errors(1e-2, "second_gauss_newton", iterations=60)
        assert rate(e) == pytest.approx(predicted.rate, rel=0.01)


def test_theorem_10_every_step_below_two_converges():
    for seed, size in product((0, 1), (0.3, 1.0, 1.9)):
        case = aliased(seed)
        H2 = by_products(mn.curvature(case.policy, case.w, case.pairs(), "H2"))
        ratios = np.linalg.eigvals(np.linalg.solve(H2, case.hessian))
        assert 0 < ratios.min() < ratios.max() < 1
        e = case.errors(1e-2, "second_gauss_newton", size, iterations=80)
        assert e[-1] < 0.1 * e[0]
        assert rate(e) == pytest.approx(np.abs(1 - size * ratios).max(), rel=0.01)


def test_theorem_10_a_step_above_the_largest_does_not_converge():
    for seed in SEEDS:
        case = aliased(seed)
        largest = case.rates("second_gauss_newton").largest_step
        assert largest > 2
        e = case.errors(1e-6, "second_gauss_newton", 1.05 * largest, iterations=80)
        assert e[-1] > 10 * e[0]
        assert rate(e) == pytest.approx(1.1, rel=0.01)
        e = case.errors(1e-3, "second_gauss_newton", 0.95 * largest, iterations=80)
        assert e[-1] < 0.1 * e[0]


def test_theorem_12_the_rate_of_expectation_maximization():
    for seed in SEEDS:
        case = aliased(seed)
        predicted = case.rates("expectation_maximization")
        assert 0.5 < predicted.rate < 0.9
        assert case.analysis.guaranteed
        e = case.errors(0.3, mn.ExpectationMaximization(closed_form=False), iterations=30)
        assert e[-1] < 0.01
        assert rate(e) == pytest.approx(predicted.rate, rel=0.01)


def test_theorem_12_the_jacobian_of_expectation_maximization():
    for seed in SEEDS:
        case = aliased(seed)
        step, columns = 1e-4, []
        for e in step * jnp.eye(2):
            up, down = (argmax(case.policy, v, case.pairs(v)) for v in (case.w + e, case.w - e))
            columns.append((up - down) / (2 * step))
        predicted = case.rates("expectation_maximization").jacobian
        assert close(np.array(columns).T, predicted, 1e-6)


# Theorem 11 and the M-step.


def argmax(policy, w, pairs):
    """The M-step of a Gibbs policy by Newton's method on eq. (16), down to round-off."""
    v, oracle = flat(w), GibbsReference(np.asarray(policy.features))
    weights = np.asarray(pairs.value)
    for _ in range(30):
        slope = sum(weights[s] @ oracle.scores(v, s) for s in range(len(weights)))
        bend = sum(weights[s].sum() * oracle.hessians(v, s)[0] for s in range(len(weights)))
        v = v - np.linalg.solve(bend, slope)
    assert np.linalg.norm(slope) < 1e-13
    return v


def test_theorem_11_the_em_step_is_the_second_gauss_newton_step_to_first_order():
    for seed in SEEDS:
        case = aliased(seed)
        sizes, differences = [], []
        for distance in (1e-1, 1e-2, 1e-3, 1e-4):
            v = case.w + distance * jnp.array([0.6, 0.8])
            em = argmax(case.policy, v, case.pairs(v)) - flat(v)
            newton = mn.direction("second_gauss_newton", case.policy, v, case.pairs(v))
            sizes.append(np.linalg.norm(em))
            differences.append(np.linalg.norm(em - flat(newton.value)))
        orders = np.diff(np.log(differences)) / np.diff(np.log(sizes))
        assert orders == pytest.approx([2, 2, 2], abs=0.15)
        assert differences[0] > 1e-6


def test_theorem_11_the_numeric_search_finds_the_em_step():
    numeric = mn.ExpectationMaximization(closed_form=False)
    for seed in SEEDS:
        case = aliased(seed)
        for v in jnp.asarray(np.random.default_rng(seed).normal(size=(3, 2))):
            ahead = mn.direction(numeric, case.policy, v, case.pairs(v))
            assert ahead.report.residual < 1e-7
            assert apart(ahead.value, argmax(case.policy, v, case.pairs(v)) - flat(v)) < 1e-6


def test_theorem_11_the_numeric_search_finds_the_em_step_close_to_the_optimum_too():
    numeric = mn.ExpectationMaximization(closed_form=False)
    for seed in SEEDS:
        case = aliased(seed)
        for distance in (1e-3, 1e-5, 1e-7, 1e-8):
            v = case.w + distance * jnp.array([0.6, 0.8])
            ahead = mn.direction(numeric, case.policy, v, case.pairs(v))
            assert ahead.report.residual < 1e-6
            assert apart(ahead.value, argmax(case.policy, v, case.pairs(v)) - flat(v)) < 1e-5


def test_theorem_11_is_exact_for_a_quadratic_log_policy():
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        states, actions = rng.normal(size=(7, 3)), rng.normal(size=(7, 2, 2))
        weights, ones = rng.random((7, 2)), jnp.ones((7, 2))
        weights[0] = 0
        pairs = mn.WeightedPairs(
            jnp.asarray(states), jnp.asarray(actions), ones, jnp.asarray(weights), ones, 0.0
        )
        root = rng.normal(size=(2, 2))
        policy = mn.LinearGaussian(root @ root.T + 0.1 * np.eye(2), 3)
        w = jnp.asarray(rng.normal(size=(2, 3)))
        design = (np.sqrt(weights)[:, :, None] * states[:, None]).reshape(-1, 3)
        target = (np.sqrt(weights)[:, :, None] * actions).reshape(-1, 2)
        expected = np.linalg.lstsq(design, target)[0].T - w
        for method, tolerance in (
            ("second_gauss_newton", 1e-11),
            ("expectation_maximization", 1e-11),
            (mn.ExpectationMaximization(closed_form=False), 1e-7),
        ):
            ahead = mn.direction(method, policy, w, pairs)
            assert ahead.report.status == "solved"
            assert apart(ahead.value, expected) < tolerance


@EVERY_POLICY
def test_expectation_maximization_never_lowers_the_objective(name):
    for mdp, policy, oracle, w, pairs in cases(name):
        U = [reference.objective(*arrays(mdp), oracle, flat(w))]
        for _ in range(5):
            w = w + mn.direction("expectation_maximization", policy, w, pairs).value
            pairs = evaluated(mdp, policy, w)
            U.append(reference.objective(*arrays(mdp), oracle, flat(w)))
        assert (np.diff(U) > -1e-13).all()
        assert U[-1] > U[0] + 1e-4


@pytest.mark.parametrize("reduced", [False, True])
def test_the_closed_form_of_a_table_is_the_numeric_argmax_as_a_policy(reduced):
    policy = mn.TabularSoftmax(5, 3, reduced=reduced)
    for seed in SEEDS:
        mdp = random_mdp(seed)
        w = jnp.asarray(np.random.default_rng(seed).normal(size=(5, 3 - reduced)))
        pairs = evaluated(mdp, policy, w)
        expected = np.asarray(pairs.value / pairs.value.sum(axis=1, keepdims=True))
        for closed_form, tolerance in ((True, 1e-14), (False, 1e-8)):
            method = mn.ExpectationMaximization(closed_form=closed_form)
            ahead = mn.direction(method, policy, w, pairs)
            assert ahead.report.solver == ("closed_form" if closed_form else "surrogate_search")
            pi = evaluated(mdp, policy, w + ahead.value).closed_loop.probabilities
            assert close(pi, expected, tolerance)
