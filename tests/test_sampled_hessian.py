"""The full Hessian from trajectories against the exact one, and Newton's method with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, quadratic, random_mdp

import mdpnewton as mn
from mdpnewton.evaluators.memory import score_rows
from mdpnewton.policies.features import OneHot
from mdpnewton.simulators import FiniteSimulator

DISCOUNT = 0.7
MDP = random_mdp(3, n_states=3, n_actions=2, discount=DISCOUNT)
SIMULATOR = FiniteSimulator(MDP, horizon=32)  # 0.7^32 = 1e-5
REPEATS = 24


def estimates(policy, w, build, quantity, earlier=0):
    found = []
    for repeat in range(REPEATS):
        evaluator, key = build(), jax.random.key(1000 + repeat)
        for n in range(earlier):  # batches of nearby policies, to be used again
            evaluator.evaluate(jax.random.fold_in(key, n), policy, w + 0.1 * (-1) ** n)
        pairs = evaluator.evaluate(jax.random.fold_in(key, 99), policy, w)
        found.append(np.asarray(quantity(policy, w, pairs, evaluator)))
    return np.array(found)


def check(samples, exact):
    error = samples.std(0, ddof=1) / len(samples) ** 0.5
    allowed = 4 * error + 1e-3 * np.abs(exact).max()  # the horizon's tail
    assert np.all(np.abs(samples.mean(0) - exact) <= allowed), (samples.mean(0), exact, error)


def crossed(policy, w, pairs, evaluator):
    return mn.cross_term(policy, w, pairs)


def whole(policy, w, pairs, evaluator):
    return mn.policy_hessian(policy, w, pairs).dense()


@pytest.mark.parametrize("features", [None, OneHot(MDP.n_states)], ids=["time", "state"])
@pytest.mark.parametrize(("family", "earlier"), [(gibbs, 0), (quadratic, 1)])
def test_the_sampled_hessian_is_unbiased(family, earlier, features):
    policy, _, w = family(3, MDP, n=2)
    w = jnp.asarray(w)
    exact = mn.FiniteEvaluator(MDP).evaluate(None, policy, w)

    def build():
        return mn.MonteCarlo(
            SIMULATOR, DISCOUNT, episodes=200, features=features, reuse=earlier + 1
        )

    check(estimates(policy, w, build, crossed, earlier), mn.cross_term(policy, w, exact))
    hessian = mn.hessian_terms(policy, w, exact)["hessian"]
    check(estimates(policy, w, build, whole, earlier), hessian)


def plain(policy, w, pairs, evaluator):
    """The estimator without any baseline: returns times the square of the episode's score."""
    data = jax.tree.map(jnp.asarray, evaluator.memory.all())
    rows = np.asarray(score_rows(policy, w, data))
    rewards = np.asarray(data.rewards) * np.asarray(data.discounts(DISCOUNT))
    episode = np.asarray(data.episode)
    bends = np.asarray(
        jax.vmap(jax.hessian(policy.log_prob), (None, 0, 0))(w, data.observations, data.actions)
    )
    total = np.zeros(bends.shape[1:])
    for number in range(data.episodes):
        mine = (episode == number) & np.asarray(data.valid)
        score, bend = rows[mine].cumsum(0), bends[mine].cumsum(0)
        both = score[:, :, None] * score[:, None] + bend
        total += np.einsum("t,tij->ij", rewards[mine], both)
    return total / data.episodes


def test_baselines_take_away_almost_all_of_the_plain_estimators_variance():
    policy, _, w = gibbs(3, MDP, n=2)
    w = jnp.asarray(w)
    exact = mn.FiniteEvaluator(MDP).evaluate(None, policy, w)

    def build(features=None):
        return mn.MonteCarlo(SIMULATOR, DISCOUNT, episodes=100, features=features)

    naive = estimates(policy, w, build, plain)
    check(naive, mn.hessian_terms(policy, w, exact)["hessian"])
    by_time = estimates(policy, w, build, whole).var(0, ddof=1).sum()
    by_state = estimates(policy, w, lambda: build(OneHot(3)), whole).var(0, ddof=1).sum()
    shares = by_time / naive.var(0, ddof=1).sum(), by_state / naive.var(0, ddof=1).sum()
    assert max(shares) < 0.02


def pairs_of(policy, w, episodes=20, **options):
    evaluator = mn.MonteCarlo(SIMULATOR, DISCOUNT, episodes=episodes, **options)
    return evaluator.evaluate(jax.random.key(0), policy, w), evaluator


@pytest.mark.parametrize("features", [None, OneHot(MDP.n_states)])
def test_products_are_those_of_the_matrix(features):
    policy, _, w = quadratic(3, MDP, n=3)
    w = jnp.asarray(w)
    operator = mn.policy_hessian(policy, w, pairs_of(policy, w, features=features)[0])
    columns = np.stack([operator.mv(e) for e in jnp.eye(3)])
    assert np.allclose(columns, operator.dense(), rtol=1e-10, atol=1e-12)


def test_the_cross_term_of_one_batch_is_the_double_sum_over_its_episodes():
    policy, _, w = gibbs(3, MDP, n=2)
    w = jnp.asarray(w)
    pairs, evaluator = pairs_of(policy, w, episodes=5)
    data, c = jax.tree.map(jnp.asarray, evaluator.memory.all()), np.asarray(pairs.advantage)[:, 0]
    rows, time = np.asarray(score_rows(policy, w, data)), np.asarray(data.times)
    episode, valid = np.asarray(data.episode), np.asarray(data.valid)
    togo = np.zeros_like(rows)
    for j in np.flatnonzero(valid):
        for k in np.flatnonzero(valid & (episode == episode[j]) & (time > time[j])):
            togo[j] += c[k] * rows[k]
    expected = np.zeros((2, 2))
    for j in np.flatnonzero(valid):
        others = valid & (episode != episode[j]) & (time == time[j])
        expected += np.outer(rows[j], togo[j] - togo[others].mean(0))
    assert np.allclose(mn.cross_term(policy, w, pairs), expected, rtol=1e-10)


@pytest.mark.parametrize("solver", [mn.Dense(0.3), mn.ConjugateGradient(ridge=0.3)])
def test_newtons_direction_from_samples_is_the_exact_one_up_to_noise(solver):
    policy, _, w = gibbs(3, MDP, n=2)
    w, method = jnp.asarray(w), mn.Precondition("hessian", solver)  # damped: it is indefinite here
    wanted = mn.direction(method, policy, w, mn.FiniteEvaluator(MDP).evaluate(None, policy, w))
    sampled, _ = pairs_of(policy, w, episodes=4000)
    found = mn.direction(method, policy, w, sampled)
    assert found.report.status == "solved"
    gap = jnp.linalg.norm(found.value - wanted.value)
    assert gap < 0.1 * jnp.linalg.norm(wanted.value)


@pytest.mark.parametrize("method", ["newton", "conjugate_gradient_newton"])
def test_the_rows_of_newton_search_from_samples(method):
    policy = mn.TabularSoftmax(MDP.n_states, MDP.n_actions, reduced=True)
    evaluator = mn.MonteCarlo(SIMULATOR, DISCOUNT, episodes=50)
    w, key = policy.initial_parameters(), jax.random.key(0)
    found = mn.search(evaluator, policy, w, method, mn.Constant(0.1), key=key, iterations=2)
    assert [one.step.accepted for one in found.history] == [True, True]


def test_newton_works_for_networks_by_products_alone():
    policy = mn.NetworkCategorical(mn.mlp(jax.random.key(1), 3, 2, width=4, depth=1), OneHot(3))
    w = policy.initial_parameters()
    pairs, _ = pairs_of(policy, w, episodes=200)
    found = mn.direction("conjugate_gradient_newton", policy, w, pairs)
    flat = jax.flatten_util.ravel_pytree(found.value)[0]
    assert jnp.isfinite(flat).all()
    assert found.report.iterations > 0
    dense = mn.policy_hessian(policy, w, pairs).dense()
    assert dense.shape == (flat.size, flat.size)


def test_what_knows_nothing_of_what_follows_says_so():
    policy, _, w = gibbs(3, MDP, n=2)
    pairs, _ = pairs_of(policy, jnp.asarray(w))
    with pytest.raises(ValueError, match="`MonteCarlo`"):
        mn.policy_hessian(policy, w, without(pairs))
    with pytest.raises(ValueError, match="exact evaluation"):
        mn.hessian_terms(policy, jnp.asarray(w), pairs)


def without(pairs):
    names = ("states", "actions", "occupancy", "value", "advantage", "objective")
    return mn.WeightedPairs(**{name: getattr(pairs, name) for name in names})
