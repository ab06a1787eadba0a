"""Every row of the table against the naive reference, in every form it can be asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from jax.flatten_util import ravel_pytree
from problems import POLICIES, arrays, random_mdp

import mdpnewton as mn
from mdpnewton.hessian import hessian_terms

CASES = [(name, seed) for name in POLICIES for seed in range(3)]
TOLERANCE = 1e-10


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request):
    name, seed = request.param
    mdp = random_mdp(seed)
    policy, oracle, w = POLICIES[name](seed, mdp)
    w = jnp.asarray(w)
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
    gradient, terms = reference.terms(*arrays(mdp), oracle, np.ravel(w))
    return mdp, policy, oracle, w, pairs, gradient, terms


def close(x, y, tolerance=TOLERANCE):
    return np.abs(np.asarray(x) - y).max() <= tolerance * max(1.0, np.abs(y).max())


def test_values_and_occupancies_match_the_reference(case):
    mdp, _, oracle, w, pairs, _, _ = case
    e = reference.evaluate(*arrays(mdp), oracle, np.ravel(w))
    assert close(pairs.objective, e["objective"])
    assert close(pairs.occupancy, e["occupancy"])
    assert close(pairs.value, e["occupancy"] * e["action_value"])
    assert close(pairs.advantage, e["occupancy"] * e["advantage"])


def test_gradient_matches_the_reference(case):
    _, policy, _, w, pairs, gradient, _ = case
    assert close(ravel_pytree(mn.gradient(policy, w, pairs))[0], gradient)


@pytest.mark.parametrize("form", mn.FORMS)
def test_every_form_in_every_structure_matches_the_reference(case, form):
    _, policy, _, w, pairs, _, terms = case
    operator = mn.curvature(policy, w, pairs, form)
    expected = terms[form]
    assert close(operator.dense(), expected)
    vector = np.random.default_rng(0).normal(size=np.size(w))
    product = operator.mv(jnp.asarray(vector.reshape(w.shape)))
    assert close(np.ravel(product), expected @ vector)
    assert close(np.ravel(operator.diagonal()), np.diag(expected))
    size = w.shape[1] if w.ndim == 2 else w.size
    (blocks,) = operator.blocks()
    for i, block in enumerate(blocks):
        rows = slice(i * size, (i + 1) * size)
        assert close(block, expected[rows, rows])


@pytest.mark.parametrize("form", ["H2", "A1+A2", "fisher"])
def test_finite_difference_products_approximate_the_exact_ones(case, form):
    _, policy, _, w, pairs, _, terms = case
    vector = np.random.default_rng(1).normal(size=np.size(w))
    product = mn.curvature(policy, w, pairs, form).differenced()(
        jnp.asarray(vector.reshape(w.shape))
    )
    assert close(np.ravel(product), terms[form] @ vector, 1e-4)


def test_h12_and_the_full_hessian_match_the_reference(case):
    _, policy, _, w, pairs, _, terms = case
    assert close(mn.cross_term(policy, w, pairs), terms["H12"])
    hessian = mn.policy_hessian(policy, w, pairs)
    assert close(hessian.dense(), terms["hessian"])
    vector = np.random.default_rng(2).normal(size=np.size(w))
    product = hessian.mv(jnp.asarray(vector.reshape(w.shape)))
    assert close(np.ravel(product), terms["hessian"] @ vector)
    assert close(np.ravel(hessian.diagonal()), np.diag(terms["hessian"]))


def test_the_terms_of_the_analysis_match_the_reference(case):
    _, policy, _, w, pairs, _, terms = case
    for name, matrix in hessian_terms(policy, w, pairs).items():
        assert close(matrix, terms[name]), name


def test_gradient_and_hessian_match_finite_differences_of_the_objective(case):
    mdp, _, oracle, w, _, gradient, terms = case
    flat, step = np.ravel(w), 1e-4
    eye = np.eye(flat.size)

    def U(v):
        return reference.objective(*arrays(mdp), oracle, v)

    slopes = [(U(flat + step * e) - U(flat - step * e)) / (2 * step) for e in eye]
    assert close(slopes, gradient, 1e-6)
    bends = [
        [
            (
                U(flat + step * (e + f))
                - U(flat + step * (e - f))
                - U(flat - step * (e - f))
                + U(flat - step * (e + f))
            )
            / (4 * step**2)
            for e in eye
        ]
        for f in eye
    ]
    assert close(bends, terms["hessian"], 1e-5)


def test_sums_and_multiples_of_curvatures_are_curvatures(case):
    _, policy, _, w, pairs, _, terms = case
    damped = -mn.curvature(policy, w, pairs, "H2") + 0.3 * mn.curvature(policy, w, pairs, "fisher")
    assert close(damped.dense(), -terms["H2"] + 0.3 * terms["fisher"])


def test_a_reward_offset_changes_h2_by_a_multiple_of_the_fisher_matrix(case):
    mdp, policy, _, w, pairs, _, _ = case
    shifted = mn.FiniteMDP(mdp.transition, mdp.reward + 2.5, mdp.start, mdp.discount)
    other = mn.FiniteEvaluator(shifted).evaluate(None, policy, w)
    factor = 2.5 / (1 - mdp.discount)
    G = mn.curvature(policy, w, pairs, "fisher")
    H2 = mn.curvature(policy, w, pairs, "H2")
    assert close(mn.curvature(policy, w, other, "H2").dense(), (H2 + -factor * G).dense())
    difference = jnp.abs(mn.gradient(policy, w, other) - mn.gradient(policy, w, pairs)).max()
    assert difference < 1e-10


def test_the_surrogate_is_the_em_bound_up_to_a_constant(case):
    _, policy, _, w, pairs, _, _ = case
    v = w + 0.1

    def bound(u):
        by_action = jax.vmap(policy.log_prob, in_axes=(None, None, 0))
        table = jax.vmap(by_action, in_axes=(None, 0, 0))(u, pairs.states, pairs.actions)
        return float(jnp.sum(pairs.value * table))

    assert close(mn.surrogate(policy, w, pairs)(v), bound(v) - bound(w))


def test_an_unknown_form_is_refused_in_one_line(case):
    _, policy, _, w, pairs, _, _ = case
    with pytest.raises(ValueError, match="knows H1, H2") as error:
        mn.curvature(policy, w, pairs, "H3")
    assert "\n" not in str(error.value)


def test_h12_is_refused_without_an_exact_evaluation(case):
    _, policy, _, w, pairs, _, _ = case
    sampled = mn.WeightedPairs(
        pairs.states, pairs.actions, pairs.occupancy, pairs.value, pairs.advantage, 0.0
    )
    with pytest.raises(ValueError, match="FiniteEvaluator"):
        mn.policy_hessian(policy, w, sampled)


def test_parameters_may_be_any_pytree():
    states = jnp.linspace(-1, 1, 7)[:, None]
    actions = jnp.sin(jnp.arange(14.0)).reshape(7, 2, 1)
    weights = jnp.abs(jnp.cos(jnp.arange(14.0))).reshape(7, 2)
    policy = mn.Gaussian(1, 1)
    w = {"mean": jnp.array([[0.3]]), "scale": jnp.array([0.1])}
    pairs = mn.WeightedPairs(states, actions, weights, weights, weights, 0.0)
    operator = mn.curvature(policy, w, pairs, "H2")
    dense = operator.dense()
    assert close(ravel_pytree(operator.mv(w))[0], dense @ ravel_pytree(w)[0])
    assert close(ravel_pytree(operator.diagonal())[0], jnp.diagonal(dense))
    mean, scale = operator.blocks()
    assert close(mean[0], dense[:1, :1])
    assert close(scale[0], dense[1:, 1:])


def _sampled_policies():
    """Every policy that knows its diagonal, with states, actions and random parameters."""
    rng = np.random.default_rng(7)
    n, d = 6, 4
    vectors, numbers = jnp.asarray(rng.normal(size=(n, d))), jnp.asarray(rng.integers(5, size=n))
    square, cubes = rng.normal(size=(5, 3, d)), jnp.asarray(rng.normal(size=(d, 3, 4)))

    def discrete(count):
        return jnp.asarray(rng.integers(count, size=(n, 1)))

    def continuous(k):
        return jnp.asarray(rng.normal(size=(n, 1, k)))

    def with_scale(k, columns, shape):
        positive = jnp.asarray(rng.uniform(0.5, 2.0, size=shape))
        return {"mean": jnp.asarray(rng.normal(size=(k, columns))), "scale": positive}

    deviation = mn.Deviation(
        at=jnp.asarray(rng.normal(size=(n, 1, 2, d + 1))),
        log_sigma=jnp.asarray(rng.normal(size=(n, 1))),
        residual=jnp.asarray(rng.normal(size=(n, 1, 2))),
        excess=jnp.asarray(rng.normal(size=(n, 1))),
    )
    controller = mn.FiniteStateController(3, 2, 4)
    situations = jnp.asarray(rng.integers(controller.n_situations, size=n))
    random = controller.random_parameters(jax.random.key(1))
    cases = {
        "gibbs": (mn.Gibbs(square), jnp.asarray(rng.normal(size=d)), numbers, discrete(3)),
        "gibbs of a function": (
            mn.Gibbs(lambda s: jnp.einsum("d,dan->an", s, cubes), 4),
            jnp.asarray(rng.normal(size=4)),
            vectors,
            discrete(3),
        ),
        "tabular": (mn.TabularSoftmax(5, 3), jnp.asarray(rng.normal(size=(5, 3))), numbers,
                    discrete(3)),
        "reduced": (mn.TabularSoftmax(5, 3, reduced=True), jnp.asarray(rng.normal(size=(5, 2))),
                    numbers, discrete(3)),
        "linear softmax": (mn.LinearSoftmax(3, d, lambda s: s),
                           jnp.asarray(rng.normal(size=(3, d))), vectors, discrete(3)),
        "linear gaussian": (mn.LinearGaussian(np.array([[2.0, 0.5], [0.5, 1.0]]), d),
                            jnp.asarray(rng.normal(size=(2, d))), vectors, continuous(2)),
        "noisy gain": (mn.NoisyGain(2, d, 0.7), jnp.asarray(rng.normal(size=(2, d))), vectors,
                       continuous(2)),
        "diagonal gaussian": (
            mn.DiagonalGaussian(3),
            {"mean": jnp.asarray(rng.normal(size=3)),
             "precision_factor": jnp.asarray(rng.uniform(0.5, 2.0, size=3))},
            jnp.zeros(n), continuous(3),
        ),
        "controller": (controller, random, situations, discrete(12)),
        "averages": (mn.AffineGaussian(2, d), with_scale(2, d + 1, ()), vectors,
                     deviation),
    }  # fmt: skip
    for scale in ("log_sigma", "precision", "precision_root", "sigma"):
        cases[f"gaussian, {scale}"] = (
            mn.Gaussian(2, d, scale=scale), with_scale(2, d, (2,)), vectors, continuous(2)
        )  # fmt: skip
        cases[f"affine, {scale}"] = (
            mn.AffineGaussian(2, d, scale=scale), with_scale(2, d + 1, ()), vectors,
            continuous(2),
        )  # fmt: skip
    return cases


SAMPLED = _sampled_policies()


@pytest.mark.parametrize("form", ["H2", "A1+A2", "fisher"])
@pytest.mark.parametrize("name", SAMPLED)
def test_the_diagonal_of_sampled_pairs_matches_the_matrix(name, form):
    policy, w, states, actions = SAMPLED[name]
    rng = np.random.default_rng(8)
    weights = [jnp.asarray(rng.normal(size=(6, 1))) for _ in range(3)]
    pairs = mn.WeightedPairs(states, actions, *weights, objective=0.0)
    flat, unravel = ravel_pytree(w)
    row = mn.FORMS[form]
    c = np.ravel(getattr(pairs, row.weights))

    def log_probs(v):
        return policy.log_probs(unravel(v), states, actions)[:, 0]

    score, bend = jax.jit(lambda v: (jax.jacobian(log_probs)(v), jax.hessian(log_probs)(v)))(flat)
    expected = np.einsum("n,nii->i", row.hessian * c, bend)
    expected += np.einsum("n,ni,ni->i", row.outer * c, score, score)
    assert policy.hessian_diagonal(w, states, actions, weights[0]) is not None
    found = ravel_pytree(mn.curvature(policy, w, pairs, form).diagonal())[0]
    assert close(found, expected)


@pytest.mark.parametrize("name", ["gibbs", "linear softmax", "linear gaussian", "gaussian"])
def test_the_diagonal_builds_nothing_of_the_matrix_size(name):
    d, n = 300, 5
    rng = np.random.default_rng(9)
    vectors = jnp.asarray(rng.normal(size=(n, d)))
    policy, w = {
        "gibbs": (mn.Gibbs(lambda s: jnp.stack([s, 2 * s]), d), jnp.ones(d)),
        "linear softmax": (mn.LinearSoftmax(2, d, lambda s: s), jnp.ones((2, d))),
        "linear gaussian": (mn.LinearGaussian(np.eye(1), d), jnp.ones((1, d))),
        "gaussian": (mn.Gaussian(1, d), {"mean": jnp.ones((1, d)), "scale": jnp.zeros(1)}),
    }[name]
    discrete = name in ("gibbs", "linear softmax")
    actions = jnp.zeros((n, 1), int) if discrete else jnp.zeros((n, 1, 1))
    weights = [jnp.asarray(rng.normal(size=(n, 1))) for _ in range(3)]
    pairs = mn.WeightedPairs(vectors, actions, *weights, objective=0.0)
    size = ravel_pytree(w)[0].size
    for form in ("H2", "A1+A2"):
        operator = mn.curvature(policy, w, pairs, form)
        shapes = _shapes(jax.make_jaxpr(lambda operator=operator: operator.diagonal())().jaxpr)
        assert max(shapes) < size * size / 4
        assert max(_shapes(jax.make_jaxpr(lambda o=operator: o.dense())().jaxpr)) >= size * size


def _shapes(jaxpr):
    """How many numbers each intermediate result has, inner functions included."""
    for equation in jaxpr.eqns:
        yield from (int(np.prod(v.aval.shape)) for v in equation.outvars)
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from _shapes(inner)
