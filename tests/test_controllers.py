"""Finite-state controllers: structure, exact terms against the naive reference, all methods."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from jax.flatten_util import ravel_pytree

import mdpnewton as mn
from mdpnewton.methods import method_for, names
from mdpnewton.methods.rows import row_offset
from mdpnewton.policies.controller import Tables


def random_pomdp(seed, n_states=3, n_actions=2, n_observations=2, *, first=False, lowest=0.0):
    rng = np.random.default_rng(seed)
    observation = rng.dirichlet(np.ones(n_observations), size=(n_actions, n_states))
    if n_actions > 2:
        observation[2] = observation[0]  # two actions that are observed alike
    return mn.FinitePOMDP(
        rng.dirichlet(np.full(n_states, 0.5), size=(n_actions, n_states)),
        observation,
        lowest + rng.random((n_states, n_actions)),
        rng.dirichlet(np.ones(n_states)),
        0.9,
        first_observation=rng.dirichlet(np.ones(n_observations), size=n_states) if first else None,
    )


def problem(seed, nodes=2, **shape):
    pomdp = random_pomdp(seed, **shape)
    evaluator = mn.ControllerEvaluator(pomdp)
    policy = evaluator.controller(nodes)
    return pomdp, evaluator, policy, policy.random_parameters(jax.random.key(seed))


class ControllerReference:
    """Scores and Hessians of a decision by plain loops, over flattened parameters."""

    def __init__(self, policy):
        self.policy = policy
        B, n_seen, A = policy.nodes, policy.n_observations, policy.n_actions
        # The order in which dictionaries are flattened: by name.
        self.action, self.initial = 0, B * n_seen * A
        self.transition = self.initial + n_seen * B
        self.size = self.transition + B * n_seen * B

    def rows(self, s, decision):
        """Where the two rows that a decision uses begin, how long they are, what is chosen."""
        B, n_seen, A = self.policy.nodes, self.policy.n_observations, self.policy.n_actions
        observation, before = divmod(s % (n_seen * (B + 1)), B + 1)
        node, action = divmod(decision, A)
        if before == B:
            yield self.initial + observation * B, B, node
        else:
            yield self.transition + (before * n_seen + observation) * B, B, node
        yield self.action + (node * n_seen + observation) * A, A, action

    def decisions(self):
        return range(self.policy.nodes * self.policy.n_actions)

    def probabilities(self, w, s):
        return np.array(
            [
                np.prod([reference.softmax(w[at : at + n])[x] for at, n, x in self.rows(s, d)])
                for d in self.decisions()
            ]
        )

    def scores(self, w, s):
        found = np.zeros((len(self.decisions()), self.size))
        for d in self.decisions():
            for at, n, x in self.rows(s, d):
                found[d, at : at + n] -= reference.softmax(w[at : at + n])
                found[d, at + x] += 1
        return found

    def hessians(self, w, s):
        found = np.zeros((len(self.decisions()), self.size, self.size))
        for d in self.decisions():
            for at, n, _ in self.rows(s, d):
                pi = reference.softmax(w[at : at + n])
                found[d, at : at + n, at : at + n] -= np.diag(pi) - np.outer(pi, pi)
        return found


def close(found, expected, tolerance=1e-10):
    size = max(np.abs(np.asarray(expected)).max(), 1e-300)
    np.testing.assert_allclose(
        np.asarray(found) / size, np.asarray(expected) / size, atol=tolerance
    )


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_all_terms_against_the_naive_reference(seed, first):
    pomdp, evaluator, policy, w = problem(seed, n_actions=3, first=first)
    product = mn.product_mdp(pomdp, policy.nodes)
    arrays = (product.transition, product.reward, product.start, product.discount)
    flat = np.asarray(ravel_pytree(w)[0])
    gradient, terms = reference.terms(*arrays, ControllerReference(policy), flat)
    exact = reference.objective(*arrays, ControllerReference(policy), flat)
    on_product = mn.FiniteEvaluator(product).evaluate(None, policy, w)
    summed = evaluator.evaluate(None, policy, w)
    for pairs in (on_product, summed):
        assert pairs.objective == pytest.approx(exact, rel=1e-12)
        close(ravel_pytree(mn.gradient(policy, w, pairs))[0], gradient)
        for form in mn.FORMS:
            if form in ("V1", "V2", "generalized", "generalized_fisher"):
                continue  # below: they need V of every hidden state
            close(mn.curvature(policy, w, pairs, form).dense(), terms[form])
    found = mn.hessian_terms(policy, w, on_product)
    for name in found:
        close(found[name], terms[name])


@pytest.mark.parametrize("seed", range(4))
def test_appendix_b2_h2_is_block_diagonal_and_the_hessian_is_not(seed):
    pomdp, _, policy, w = problem(seed)
    pairs = mn.FiniteEvaluator(mn.product_mdp(pomdp, policy.nodes)).evaluate(None, policy, w)
    terms = mn.hessian_terms(policy, w, pairs)
    H2 = np.asarray(mn.curvature(policy, w, pairs, "H2").dense())
    sizes = np.cumsum([leaf.size for leaf in jax.tree.leaves(w)])[:-1]
    for matrix, zero in ((H2, True), (terms["fisher"], True), (terms["hessian"], False)):
        parts = [np.split(row, sizes, axis=1) for row in np.split(matrix, sizes, axis=0)]
        size = np.abs(matrix).max()
        beside = [np.abs(parts[i][j]).max() / size for i in range(3) for j in range(3) if i != j]
        assert max(beside) < 1e-12 if zero else min(beside) > 1e-5


@pytest.mark.parametrize("seed", range(4))
def test_joint_and_block_solves_give_the_same_direction(seed):
    _, evaluator, policy, w = problem(seed)
    pairs = evaluator.evaluate(None, policy, w)
    joint = mn.direction("second_gauss_newton", policy, w, pairs)
    blocks = mn.direction("block_second_gauss_newton", policy, w, pairs)
    close(ravel_pytree(blocks.value)[0], ravel_pytree(joint.value)[0], 1e-9)


@pytest.mark.parametrize("lowest", [0.0, -3.0])
@pytest.mark.parametrize("first", [False, True])
def test_rows_in_closed_form_are_the_directions_of_the_library(lowest, first):
    pomdp, evaluator, policy, w = problem(5, nodes=3, n_actions=3, first=first, lowest=lowest)
    pairs = evaluator.evaluate(None, policy, w)
    tables = policy.tables(w)
    closed = evaluator.chain.closed(tables)
    values, used = evaluator.chain.earned(tables, closed)
    means = Tables(*(jnp.sum(p * q, axis=-1) for p, q in zip(tables, values, strict=True)))
    shift = float(row_offset(means, used, 0.2))
    damped = {
        "second_gauss_newton": mn.Dense(),
        "block_second_gauss_newton": mn.Block(),
        "diagonal_second_gauss_newton": mn.Diagonal(),
    }
    for name in names("controller"):
        ahead, _ = method_for(name, "controller").direct(tables, values, used, 0.2)
        method = mn.Precondition("H2", damped[name], shift) if name in damped else name
        at = pairs
        if name == "adam":
            continue  # the gradient, below as "steepest"
        if name == "expectation_maximization":
            each = float(row_offset(values, used, 0.2))
            raised = mn.ControllerEvaluator(pomdp, each * (1 - pomdp.discount))
            at = raised.evaluate(None, policy, w)
            assert at.objective == pytest.approx(pairs.objective)
        expected = mn.direction(method, policy, w, at).value
        found = policy.flattened(ahead)
        for leaf in expected:  # the constant of a row is free
            free = 0.0
            if name != "diagonal_second_gauss_newton":
                free = (found[leaf] - expected[leaf]).mean(axis=1, keepdims=True)
            close(found[leaf], expected[leaf] + free, 1e-9)


def test_with_one_node_it_is_a_memoryless_policy():
    pomdp, evaluator, policy, w = problem(7, nodes=1, first=True)
    product = mn.product_mdp(pomdp, 1)
    features = np.zeros((product.n_states, 2, 4))
    for state in range(product.n_states):
        observation = state // 2 % 2
        features[state, [0, 1], [2 * observation, 2 * observation + 1]] = 1
    memoryless = mn.Gibbs(features)
    v = w["action"].ravel()
    expected = mn.FiniteEvaluator(product).evaluate(None, memoryless, v)
    pairs = evaluator.evaluate(None, policy, w)
    assert pairs.objective == pytest.approx(expected.objective, rel=1e-12)
    close(mn.gradient(policy, w, pairs)["action"].ravel(), mn.gradient(memoryless, v, expected))
    both = [mn.curvature(policy, w, pairs, "H2").dense()[:4, :4]]
    close(both[0], mn.curvature(memoryless, v, expected, "H2").dense())
    assert policy.constant_curvature


def test_where_the_state_is_observed_it_is_the_finite_mdp():
    pomdp = random_pomdp(8)
    seen = replace(pomdp, observation=np.stack([np.eye(3)] * 2), first_observation=np.eye(3))
    evaluator = mn.ControllerEvaluator(seen)
    policy = evaluator.controller(1)
    w = policy.random_parameters(jax.random.key(1))
    mdp, tabular = seen.fully_observed(), mn.TabularSoftmax(3, 2)
    pairs = evaluator.evaluate(None, policy, w)
    expected = mn.FiniteEvaluator(mdp).evaluate(None, tabular, w["action"])
    assert pairs.objective == pytest.approx(expected.objective, rel=1e-12)
    for form in ("H1", "H2", "A1+A2", "fisher"):
        close(
            mn.curvature(policy, w, pairs, form).dense()[:6, :6],
            mn.curvature(tabular, w["action"], expected, form).dense(),
        )


def test_iterated_solves_agree_with_factorised_ones():
    pomdp, evaluator, policy, w = problem(9, n_states=6, n_observations=3)
    expected = evaluator.evaluate(None, policy, w)
    other = mn.ControllerEvaluator(pomdp)
    other.chain = replace(other.chain, dense=0)
    pairs = other.evaluate(None, policy, w)
    assert pairs.objective == pytest.approx(expected.objective, rel=1e-10)
    close(pairs.value, expected.value)


def test_the_policy_keeps_what_it_declares():
    _, _, policy, w = problem(3)
    states = jnp.arange(policy.n_situations)
    check = mn.check_policy(policy, w, states, n_actions=policy.nodes * policy.n_actions)
    assert check.ok, check.problems


def test_sampled_estimates_agree_with_exact_ones():
    pomdp = replace(random_pomdp(4), discount=0.6)
    evaluator = mn.ControllerEvaluator(pomdp)
    policy = evaluator.controller(2)
    w = policy.random_parameters(jax.random.key(4))
    exact = evaluator.evaluate(None, policy, w)
    simulator = mn.FiniteSimulator(mn.product_mdp(pomdp, 2), horizon=24)  # 0.6^24 = 5e-6
    samples = []
    for repeat in range(24):
        pairs = mn.MonteCarlo(simulator, 0.6, episodes=200).evaluate(
            jax.random.key(repeat), policy, w
        )
        gradient = ravel_pytree(mn.gradient(policy, w, pairs))[0]
        H2 = mn.curvature(policy, w, pairs, "H2").dense().ravel()
        samples.append(np.concatenate([[pairs.objective], gradient, H2]))
    expected = np.concatenate(
        [
            [exact.objective],
            ravel_pytree(mn.gradient(policy, w, exact))[0],
            mn.curvature(policy, w, exact, "H2").dense().ravel(),
        ]
    )
    error = np.std(samples, axis=0, ddof=1) / 24**0.5
    assert (np.abs(np.mean(samples, axis=0) - expected) <= 4 * error + 2e-4).all()


@pytest.mark.parametrize("method", names("controller"))
def test_every_row_method_rises_from_every_start(method):
    _, evaluator, policy, _ = problem(6, nodes=2, lowest=-0.5)
    starts = mn.random_starts(policy, 0, 4)
    found = mn.search_controllers(evaluator, policy, starts, method, iterations=25)
    assert found.objective.shape == (4, 26)
    assert np.isfinite(found.objective).all()
    assert (found.objective[:, -1] > found.objective[:, 0]).all()
    if method != "adam":
        assert (np.diff(found.objective, axis=1) >= -1e-12).all()
    w = found.best_w
    assert evaluator.objective(None, policy, w) == pytest.approx(found.objective.max(), rel=1e-12)
    assert found.residual < 1e-10
    np.testing.assert_allclose(found.value, found.objective.max(axis=1), rtol=1e-12)


def test_adam_gives_the_best_point_of_its_way_back():
    _, evaluator, policy, _ = problem(7, nodes=2, lowest=-0.5)
    starts = mn.random_starts(policy, 0, 4)
    found = mn.search_controllers(
        evaluator, policy, starts, "adam", iterations=25, learning_rate=3.0
    )
    assert (found.objective[:, -1] < found.value - 1e-5).any()
    np.testing.assert_array_equal(found.value, found.objective.max(axis=1))
    for n in range(4):
        w = jax.tree.map(lambda leaf, n=n: leaf[n], found.w)
        assert evaluator.objective(None, policy, w) == pytest.approx(found.value[n], rel=1e-12)


@pytest.mark.parametrize("method", ["first_gauss_newton", "newton", "conjugate_gradient_natural"])
def test_the_other_methods_go_one_by_one(method):
    _, evaluator, policy, _ = problem(6, nodes=2, lowest=-0.5)
    starts = mn.random_starts(policy, 0, 2)
    found = mn.search_controllers(evaluator, policy, starts, method, iterations=4)
    assert found.objective.shape == (2, 5)
    assert (np.diff(found.objective, axis=1) >= -1e-12).all()


def test_a_start_does_not_depend_on_its_company():
    _, evaluator, policy, _ = problem(2)
    many = mn.search_controllers(evaluator, policy, mn.random_starts(policy, 0, 4), iterations=6)
    few = mn.search_controllers(evaluator, policy, mn.random_starts(policy, 0, 2), iterations=6)
    np.testing.assert_allclose(few.objective, many.objective[:2], rtol=1e-13)


def test_what_does_not_fit_is_refused():
    pomdp, evaluator, policy, w = problem(1)
    with pytest.raises(ValueError, match="needs a FinitePOMDP"):
        mn.ControllerEvaluator(pomdp.fully_observed())
    with pytest.raises(ValueError, match=r"make one with `evaluator.controller\(nodes\)`"):
        evaluator.evaluate(None, mn.FiniteStateController(2, 5, 2), w)
    with pytest.raises(ValueError, match="evaluates a FiniteStateController"):
        evaluator.objective(None, mn.TabularSoftmax(3, 2), w)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        mn.FiniteStateController(0, 2, 2)
    with pytest.raises(ValueError, match="there is no method 'sgd'"):
        mn.search_controllers(evaluator, policy, mn.random_starts(policy, 0, 1), "sgd")
