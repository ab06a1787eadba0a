"""Network policies, and the generalised Gauss-Newton matrix against a naive reference."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import jaxprs_in_params
from jax.flatten_util import ravel_pytree
from problems import gibbs, random_mdp, tabular

import mdpnewton as mn
from mdpnewton.policies.network import NetworkCategorical, NetworkGaussian, mlp

MDP = random_mdp(3)
EVALUATOR = mn.FiniteEvaluator(MDP)
S, A = MDP.n_states, MDP.n_actions
GENERAL = ("generalized", "generalized_fisher")


def close(x, y, tolerance=1e-10):
    return np.abs(np.asarray(x) - y).max() <= tolerance * max(1.0, np.abs(y).max())


def one_hot(state):
    return jax.nn.one_hot(state, S)


@cache
def categorical(seed=0, spread=1.5):
    policy = NetworkCategorical(mlp(jax.random.key(seed), S, A, width=4, depth=1), one_hot)
    w = jax.tree.map(lambda x: spread * x, policy.initial_parameters())
    return policy, w, EVALUATOR.evaluate(None, policy, w)


def continuous_pairs(seed=0, n=6, k=2, dimensions=2):
    """Pairs as a sampler gives them: values that are not negative, advantages of both signs."""
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(n, 3)), rng.normal(size=(n, k, dimensions))
    occupancy, value = rng.random((n, k)), rng.random(n)
    advantage = np.maximum(rng.normal(size=(n, k)), -value[:, None])
    return mn.WeightedPairs(
        states=jnp.asarray(states),
        actions=jnp.asarray(actions),
        occupancy=jnp.asarray(occupancy),
        value=jnp.asarray(occupancy * (value[:, None] + advantage)),
        advantage=jnp.asarray(occupancy * advantage),
        state_value=jnp.asarray(value),
        objective=0.0,
    )


@cache
def gaussian(seed=0, learn_sigma=True):
    network = mlp(jax.random.key(seed), 3, 2, width=4, depth=1)
    policy = NetworkGaussian(network, [0.5, 1.5], learn_sigma)
    return policy, policy.initial_parameters(), continuous_pairs(seed)


@cache
def linear_gaussian(scale, first, second, floor=0.0):
    policy = mn.Gaussian(2, 3, scale=scale, floor=floor)
    mean = jnp.asarray(np.random.default_rng(3).normal(size=(2, 3)))
    return policy, {"mean": mean, "scale": jnp.array([first, second])}, continuous_pairs(3)


@cache
def floored_gaussian():
    network = mlp(jax.random.key(5), 3, 2, width=4, depth=1)
    policy = NetworkGaussian(network, [0.5, 1.5], floor=0.2)
    return policy, policy.initial_parameters(), continuous_pairs(5)


CASES = {
    "categorical": categorical,
    "gaussian": gaussian,
    "gaussian with a floor": floored_gaussian,
    "linear gaussian": lambda: linear_gaussian("precision_root", 0.7, 1.1),
    "linear gaussian with a floor": lambda: linear_gaussian("log_sigma", -0.4, 0.3, floor=0.2),
    "fixed sigma": lambda: gaussian(learn_sigma=False),
    "tabular": lambda: _finite(*tabular(0, MDP)[::2]),
}


def _finite(policy, w):
    return policy, jnp.asarray(w), EVALUATOR.evaluate(None, policy, jnp.asarray(w))


def naive(policy, w, pairs, form):
    """sum over pairs of -c g J'FJ, J by forward differentiation and F written out."""
    flat, unravel = ravel_pytree(w)
    of = mn.FORMS[form]
    weights = np.asarray(getattr(pairs, of.weights))
    jacobian = jax.jit(jax.jacfwd(lambda x, s: policy.outputs(unravel(x), s)))
    total = np.zeros((flat.size, flat.size))
    for i, row in enumerate(weights):
        z, J = np.asarray(policy.outputs(w, pairs.states[i])), jacobian(flat, pairs.states[i])
        if isinstance(policy, mn.Categorical):
            pi = np.exp(z) / np.exp(z).sum()
            F = np.diag(pi) - np.outer(pi, pi)
        elif getattr(policy, "learn_sigma", True):
            F = np.diag([*np.exp(-2 * z[2:]), 2, 2])
        else:
            F = np.diag([0.5**-2, 1.5**-2])
        for c in row:
            total -= of.output * c * (J.T @ F @ J)
    return total


@pytest.mark.parametrize("name", CASES)
def test_generalized_forms_in_every_structure_match_a_naive_reference(name):
    policy, w, pairs = CASES[name]()
    flat, unravel = ravel_pytree(w)
    vector = np.random.default_rng(0).normal(size=flat.size)
    for form in GENERAL:
        expected = naive(policy, w, pairs, form)
        operator = mn.curvature(policy, w, pairs, form)
        assert close(operator.dense(), expected)
        p = unravel(jnp.asarray(vector))
        assert close(ravel_pytree(operator.mv(p))[0], expected @ vector)
        assert close(ravel_pytree(operator.diagonal())[0], np.diag(expected))
        begin = 0
        for stack in operator.blocks():
            for block in stack:
                rows = slice(begin, begin + len(block))
                assert close(block, expected[rows, rows])
                begin += len(block)
        assert begin == flat.size


@pytest.mark.parametrize("name", ["categorical", "gaussian"])
def test_sums_with_the_forms_of_the_paper_are_curvatures(name):
    policy, w, pairs = CASES[name]()
    flat, unravel = ravel_pytree(w)
    parts = {
        form: mn.curvature(policy, w, pairs, form) for form in ("generalized", "H2", "fisher_score")
    }
    dense = {form: np.asarray(part.dense()) for form, part in parts.items()}
    vector = np.random.default_rng(1).normal(size=flat.size)
    p = unravel(jnp.asarray(vector))

    scored = -parts["generalized"] + parts["fisher_score"]
    expected = dense["fisher_score"] - dense["generalized"]
    assert close(scored.dense(), expected)
    assert close(ravel_pytree(scored.diagonal())[0], np.diag(expected))
    assert close(ravel_pytree(scored.mv(p))[0], expected @ vector)

    bent = 0.3 * parts["H2"] + 2.0 * parts["generalized"]
    expected = 0.3 * dense["H2"] + 2 * dense["generalized"]
    assert close(bent.dense(), expected)
    hessian = jax.jit(jax.hessian(lambda x: bent.surrogate(unravel(x))))(flat)
    assert close(hessian, expected)
    assert close(ravel_pytree(jax.jit(bent.differenced())(p))[0], expected @ vector, 1e-4)


def test_it_is_h2_for_log_linear_policies():
    for policy, _, w in (gibbs(0, MDP), tabular(0, MDP)):
        policy, w, pairs = _finite(policy, w)
        found = mn.curvature(policy, w, pairs, "generalized").dense()
        for form in ("H2", "V2"):
            assert close(found, mn.curvature(policy, w, pairs, form).dense())
    policy = mn.LinearGaussian([[1.0, 0.3], [0.3, 0.5]], 3)
    w, pairs = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3))), continuous_pairs()
    found = mn.curvature(policy, w, pairs, "generalized").dense()
    assert close(found, mn.curvature(policy, w, pairs, "V2").dense())
    by_value = mn.curvature(policy, w, pairs, mn.Form("value", 0.0, 0.0, 1.0)).dense()
    assert close(by_value, mn.curvature(policy, w, pairs, "H2").dense())


def test_with_every_action_listed_it_is_v2_and_fisher_for_every_network():
    policy, w, pairs = categorical()
    fisher = mn.curvature(policy, w, pairs, "generalized_fisher").dense()
    for form in ("fisher", "fisher_score"):
        assert close(fisher, mn.curvature(policy, w, pairs, form).dense())
    found = mn.curvature(policy, w, pairs, "generalized").dense()
    assert close(found, mn.curvature(policy, w, pairs, "V2").dense())
    H2 = mn.curvature(policy, w, pairs, "H2").dense()
    A2 = mn.curvature(policy, w, pairs, "A2").dense()
    assert close(found, H2 - A2)
    assert np.abs(A2).max() > 1e-2 * np.abs(H2).max()  # what the network's bend adds


@pytest.mark.parametrize("make", [categorical, gaussian])
def test_it_is_positive_semidefinite_for_networks_where_minus_h2_is_not(make):
    for seed in range(4):
        policy, w, pairs = make(seed)
        assert (np.asarray(pairs.value) >= 0).all()
        found = np.linalg.eigvalsh(-mn.curvature(policy, w, pairs, "generalized").dense())
        assert found[0] >= -1e-13 * found[-1]
        H2 = np.linalg.eigvalsh(-mn.curvature(policy, w, pairs, "H2").dense())
        assert H2[0] < -1e-3 * H2[-1]


def test_directions_on_log_linear_policies_are_those_of_the_paper():
    policy, w, pairs = _finite(*gibbs(0, MDP)[::2])
    for general, known in (
        ("generalized_gauss_newton", "second_gauss_newton"),
        ("network_natural", "natural"),
    ):
        found = mn.direction(general, policy, w, pairs)
        assert found.report.status == "solved"
        assert found.report.slope > 0
        assert close(found.value, mn.direction(known, policy, w, pairs).value, 1e-5)


def test_search_with_a_network_improves_the_objective():
    policy, w, _ = categorical()
    found = mn.search(
        EVALUATOR, policy, w, "generalized_gauss_newton", mn.KeepIfBetter(), iterations=8
    )
    assert found.last_objective > found.history[0].objective + 0.1
    for record in found.history:
        assert not record.report.negative_curvature
        assert record.report.slope > 0


def sizes(jaxpr):
    """The size of every value in a jaxpr, inner ones included."""
    for equation in jaxpr.eqns:
        yield from (v.aval.size for v in equation.outvars)
        for inner in jaxprs_in_params(equation.params):
            yield from sizes(inner)


def test_a_direction_of_a_million_parameters_builds_no_table_of_them():
    policy = NetworkCategorical(mlp(jax.random.key(0), 4, 3, width=1000))
    w, n = policy.initial_parameters(), 64
    m = ravel_pytree(w)[0].size
    assert m > 1e6
    rng = np.random.default_rng(0)
    weights = jnp.asarray(rng.random((n, 1)) / n)
    pairs = mn.WeightedPairs(
        states=jnp.asarray(rng.normal(size=(n, 4))),
        actions=jnp.asarray(rng.integers(3, size=(n, 1))),
        occupancy=weights,
        value=weights,
        advantage=weights - weights.mean(),
        state_value=jnp.ones(n),
        objective=0.0,
    )
    operator = -mn.curvature(policy, w, pairs, "generalized")
    largest = max(sizes(jax.make_jaxpr(lambda p: operator.linearized()(p))(w).jaxpr))
    assert largest <= m < n * m
    by = mn.ConjugateGradient(5, ridge=1e-3)
    found = mn.direction(mn.Precondition("generalized", by), policy, w, pairs)
    assert found.report.iterations == 5
    assert found.report.residual < 0.5
    assert found.report.slope > 0


def scaled(scale):
    policy = mn.Gaussian(2, 3, scale=scale)
    w = jax.tree.map(lambda x: x + 0.3, policy.initial_parameters())
    return policy, w, continuous_pairs()


def linear():
    policy = mn.LinearGaussian([[1.0, 0.3], [0.3, 0.5]], 3)
    return policy, policy.initial_parameters() + 0.2, continuous_pairs()


def reparametrized():
    inner, _, w = gibbs(0, MDP)
    policy = mn.Reparametrized(inner, np.eye(4) + 0.2 * np.ones((4, 4)), np.arange(4.0))
    return _finite(policy, policy.transformed(jnp.asarray(w)))


WITH_OUTPUTS = {
    **CASES,
    "gibbs": lambda: _finite(*gibbs(0, MDP)[::2]),
    "reparametrized": reparametrized,
    "linear gaussian": linear,
    "log_sigma": lambda: scaled("log_sigma"),
    "precision": lambda: scaled("precision"),
}


def expected_log_ratio(policy, w, v, state):
    """KL by a sum over the actions, or over a fine grid of them about the mode."""
    finite = jnp.issubdtype(policy.mode(w, state).dtype, jnp.integer)
    line = jnp.arange(-12.0, 12.0, 0.2)
    grid = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
    actions = jnp.arange(A) if finite else policy.mode(w, state) + grid
    mass = 1.0 if finite else 0.2**2
    by_action = jax.vmap(policy.log_prob, in_axes=(None, None, 0))
    here, there = by_action(w, state, actions), by_action(v, state, actions)
    return mass * jnp.sum(jnp.exp(here) * (here - there))


@pytest.mark.parametrize("name", WITH_OUTPUTS)
def test_kl_is_the_expected_log_ratio_and_to_second_order_fisher(name):
    policy, w, pairs = WITH_OUTPUTS[name]()
    flat, unravel = ravel_pytree(w)
    move = 0.2 * np.random.default_rng(0).normal(size=flat.size)
    v, state = unravel(flat + jnp.asarray(move)), pairs.states[1]

    def total(x):
        each = jax.vmap(policy.kl, in_axes=(None, None, 0))(w, unravel(x), pairs.states)
        return jnp.sum(pairs.occupancy.sum(axis=1) * each)

    @jax.jit
    def look(w, v, x):
        two = policy.kl(w, v, state), expected_log_ratio(policy, w, v, state)
        return *two, policy.kl(w, w, state), jax.grad(total)(x), jax.hessian(total)(x)

    found, expected, nothing, slope, bend = look(w, v, flat)
    assert close(found, expected)
    assert abs(float(nothing)) < 1e-15
    assert np.abs(slope).max() < 1e-12
    assert close(bend, mn.curvature(policy, w, pairs, "generalized_fisher").dense())


@pytest.mark.parametrize("name", WITH_OUTPUTS)
def test_no_sampled_action_is_more_probable_than_the_mode(name):
    policy, w, pairs = WITH_OUTPUTS[name]()
    keys = jax.random.split(jax.random.key(0), 50)

    @jax.jit
    def probable(state):
        actions = jax.vmap(policy.sample, in_axes=(0, None, None))(keys, w, state)
        sampled = jax.vmap(policy.log_prob, in_axes=(None, None, 0))(w, state, actions)
        return sampled.max(), policy.log_prob(w, state, policy.mode(w, state))

    for state in pairs.states[:2]:
        sampled, top = probable(state)
        assert sampled <= top


class Bare(mn.Policy):
    """A policy that offers what it must and no more."""

    log_concave = True
    blockwise_log_concave = True
    constant_curvature = True

    def log_prob(self, w, state, action):
        return -0.5 * jnp.sum((action - w * state) ** 2)

    def sample(self, key, w, state):
        return w * state + jax.random.normal(key, state.shape)

    def initial_parameters(self):
        return jnp.zeros(())


def test_a_policy_without_outputs_is_told_what_to_define():
    policy, w = Bare(), jnp.ones(())
    pairs = continuous_pairs(dimensions=3)
    assert policy.kl(w, w, pairs.states[0]) is None
    for call, names in (
        (lambda: policy.mode(w, pairs.states[0]), "`mode"),
        (lambda: policy.output_fisher(jnp.ones(1), jnp.ones(1)), "output_fisher"),
        (lambda: mn.curvature(policy, w, pairs, "generalized").mv(w), "outputs"),
        (lambda: mn.direction("network_natural", policy, w, pairs), "outputs"),
    ):
        with pytest.raises(ValueError, match=names) as error:
            call()
        assert "\n" not in str(error.value)


def test_networks_keep_what_they_declare():
    policy, w, _ = categorical()
    assert mn.check_policy(policy, w, jnp.arange(S), n_actions=A, spread=0.2).problems == ()
    policy, w, pairs = gaussian()
    assert mn.check_policy(policy, w, pairs.states[:2], spread=0.2).problems == ()


class Standardize(eqx.Module):
    """Features with arrays that change from run to run and are not learnt."""

    mean: jax.Array

    def __call__(self, state):
        return state - self.mean


class Bilinear(eqx.Module):
    """A network of a user's own, with a part that is not to be learnt."""

    left: jax.Array
    right: jax.Array
    order: jax.Array

    def __call__(self, x):
        return ((self.left @ x) * (self.right @ x))[self.order]


def test_any_module_will_do_and_features_are_traced():
    count = 0

    @eqx.filter_jit
    def log_prob(policy, w, state, action):
        nonlocal count
        count += 1
        return policy.log_prob(w, state, action)

    rng = np.random.default_rng(0)
    left, right = (jnp.asarray(rng.normal(size=(3, 2))) for _ in range(2))
    network = Bilinear(left, right, jnp.array([2, 0, 1]))
    x, values = jnp.array([0.5, -1.0]), []
    for shift in (0.0, 1.0):
        policy = NetworkCategorical(network, Standardize(jnp.full(2, shift)))
        w = policy.initial_parameters()
        assert [leaf.shape for leaf in jax.tree.leaves(w)] == [(3, 2), (3, 2)]
        logits = ((left @ (x - shift)) * (right @ (x - shift)))[jnp.array([2, 0, 1])]
        values.append(log_prob(policy, w, x, jnp.array(1)))
        assert close(values[-1], jax.nn.log_softmax(logits)[1])
    assert values[0] != values[1]
    assert count == 1


def test_the_multilayer_network_is_equinoxs():
    key, x = jax.random.key(4), jnp.array([0.3, -0.7])
    ours = mlp(key, 2, 3, width=5)
    theirs = eqx.nn.MLP(2, 3, 5, 2, jnp.tanh, key=key)
    assert close(ours(x), theirs(x), 1e-15)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: mlp(jax.random.key(0), 0, 1), "in_size"),
        (lambda: NetworkCategorical(jnp.tanh), "mlp"),
        (lambda: NetworkGaussian(mlp(jax.random.key(0), 1, 1), 1.0), r"\[sigma\]"),
        (lambda: NetworkGaussian(mlp(jax.random.key(0), 1, 1), [-1.0]), "positive"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(call, match):
    with pytest.raises(ValueError, match=match) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_mean_that_would_broadcast_is_refused():
    policy = NetworkGaussian(mlp(jax.random.key(0), 1, 1), [1.0, 1.0])
    with pytest.raises(ValueError, match="shape"):
        policy.mode(policy.initial_parameters(), jnp.ones(1))
