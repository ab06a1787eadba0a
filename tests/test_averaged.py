"""Averages of curvature over iterations: what they are, how noisy, and how late."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, random_mdp

import mdpnewton as mn
from mdpnewton.plain import arrays_of

MDP = random_mdp(3, n_states=3, n_actions=2, discount=0.7)
POLICY, _, W = gibbs(3, MDP, n=2)
W = jnp.asarray(W)
EXACT = mn.FiniteEvaluator(MDP)
SIMULATOR = mn.FiniteSimulator(MDP, horizon=20)


def dense(evaluation, w=W, form="H2"):
    return np.asarray(mn.curvature(POLICY, w, evaluation, form).dense())


def test_it_is_the_corrected_exponential_average_and_the_newest_gradient():
    path = [W + 0.3 * n for n in range(6)]
    averaged = mn.AveragedCurvature(EXACT, 0.8, ("H2", "A1+A2", "hessian"))
    matrices = {"H2": [], "A1+A2": [], "hessian": []}
    for t, w in enumerate(path, 1):
        pairs, found = EXACT.evaluate(None, POLICY, w), averaged.evaluate(None, POLICY, w)
        shares = 0.2 * 0.8 ** np.arange(t)[::-1] / (1 - 0.8**t)
        assert shares.sum() == pytest.approx(1)
        for form, seen in matrices.items():
            made = mn.policy_hessian(POLICY, w, pairs) if form == "hessian" else None
            seen.append(dense(pairs, w, form) if made is None else np.asarray(made.dense()))
            expected = np.einsum("s,sij->ij", shares, seen)
            np.testing.assert_allclose(found.matrix(w, form).dense(), expected, atol=1e-14)
        np.testing.assert_array_equal(found.gradient, mn.gradient(POLICY, w, pairs))
        np.testing.assert_allclose(found.matrix(w, "fisher").dense(), dense(pairs, w, "fisher"))
        assert found.objective == pairs.objective


def test_at_rest_it_has_no_bias_from_the_first_iteration_on():
    averaged = mn.AveragedCurvature(EXACT, 0.95)
    for _ in range(4):
        found = averaged.evaluate(None, POLICY, W)
        np.testing.assert_allclose(dense(found), dense(EXACT.evaluate(None, POLICY, W)))


def test_at_rest_the_variance_falls_as_it_says():
    beta, single, mean = 0.8, [], []
    for repeat in range(30):
        key = jax.random.key(repeat)
        averaged = mn.AveragedCurvature(mn.MonteCarlo(SIMULATOR, 0.7, episodes=8), beta, ("H2",))
        for t in range(15):
            found = averaged.evaluate(jax.random.fold_in(key, t), POLICY, W)
            single += [dense(found)] if t == 0 else []
        mean.append(dense(found))
    ratio = np.var(mean, axis=0).sum() / np.var(single, axis=0).sum()
    assert 0.5 < ratio / ((1 - beta) / (1 + beta)) < 2.0
    error = np.std(mean, axis=0) / 30**0.5
    exact = dense(EXACT.evaluate(None, POLICY, W))
    assert np.all(np.abs(np.mean(mean, axis=0) - exact) < 4 * error + 2e-3 * np.abs(exact).max())


class Drifting(mn.Evaluator):
    """The curvature grows by the same matrix in every iteration."""

    def __init__(self):
        self.time = 0

    def evaluate(self, key, policy, w):
        self.time += 1
        pairs = EXACT.evaluate(None, policy, w)
        return mn.WeightedPairs(
            *(pairs.states, pairs.actions, pairs.occupancy),
            *(self.time * pairs.value, pairs.advantage, pairs.objective),
        )

    def objective(self, key, policy, w):
        return EXACT.objective(key, policy, w)


def test_the_bias_that_stays_is_the_lag_that_it_says():
    beta = 0.75
    averaged = mn.AveragedCurvature(Drifting(), beta, ("H2",))
    for _ in range(60):
        found = averaged.evaluate(None, POLICY, W)
    change = dense(EXACT.evaluate(None, POLICY, W))
    lag = beta / (1 - beta)
    np.testing.assert_allclose(dense(found), (60 - lag) * change, rtol=1e-4)


def test_what_an_undone_step_saw_is_taken_out():
    averaged = mn.AveragedCurvature(EXACT, 0.5)
    first = averaged.evaluate(None, POLICY, W)
    averaged.evaluate(None, POLICY, W + 5.0)
    assert averaged.revisit(None, POLICY, W, first) is first
    again = averaged.evaluate(None, POLICY, W)
    np.testing.assert_allclose(dense(again), dense(first))
    sampled = mn.AveragedCurvature(mn.MonteCarlo(SIMULATOR, 0.7, episodes=8), 0.5)
    known = sampled.evaluate(jax.random.key(0), POLICY, W)
    sampled.evaluate(jax.random.key(1), POLICY, W + 5.0)
    back = sampled.revisit(jax.random.key(2), POLICY, W, known)
    assert sampled.count == 2
    assert back is not known


@pytest.mark.parametrize("method", ["second_gauss_newton", "trust_region_newton", "newton"])
@pytest.mark.parametrize("policy", [POLICY, mn.TabularSoftmax(3, 2, reduced=True)])
def test_methods_and_rules_work_on_it(method, policy):
    forms = ("H2", "hessian")
    averaged = mn.AveragedCurvature(mn.MonteCarlo(SIMULATOR, 0.7, episodes=30), 0.8, forms)
    w = policy.initial_parameters()
    step = None if "region" in method else mn.KLStep(0.05)
    found = mn.search(
        averaged, policy, w, method, step, key=jax.random.key(1), iterations=6, patience=None
    )
    assert len(found.history) == 6
    if method != "newton":
        start, end = (EXACT.objective(None, policy, v) for v in (w, found.last))
        assert end > start


def test_parameters_in_several_leaves_keep_their_shapes():
    policy = mn.NetworkCategorical(mn.mlp(jax.random.key(0), 3, 2, width=3, depth=1), mn.OneHot(3))
    w = policy.initial_parameters()
    averaged = mn.AveragedCurvature(EXACT, forms=("generalized", "generalized_fisher"))
    pairs = averaged.evaluate(None, policy, w)
    plain = EXACT.evaluate(None, policy, w)
    for solver in (mn.Dense(0.1), mn.Block(0.1), mn.Diagonal(0.1), mn.ConjugateGradient(ridge=0.1)):
        method = mn.Precondition("generalized", solver)
        ours = mn.direction(method, policy, w, pairs).value
        theirs = mn.direction(method, policy, w, plain).value
        for one, other in zip(arrays_of(ours), arrays_of(theirs), strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-9)
    step = mn.search(averaged, policy, w, "steepest", mn.KLStep(0.01), iterations=1).history[0].step
    assert step.divergence == pytest.approx(0.01, rel=1e-6)


def test_it_goes_on_bit_for_bit():
    def build():
        return mn.AveragedCurvature(mn.MonteCarlo(SIMULATOR, 0.7, episodes=10), 0.8, ("H2",))

    states, ask = [], {"key": jax.random.key(3), "iterations": 6, "patience": None}
    whole = mn.search(
        *(build(), POLICY, W, "second_gauss_newton", mn.Constant(0.2)),
        **ask,
        checkpoint=lambda state: states.append(state()),
    )
    evaluator = build().restored(states[2]["evaluator"])
    rest = mn.search(
        *(evaluator, POLICY, W, "second_gauss_newton", mn.Constant(0.2)), **ask, resume=states[2]
    )
    assert rest.objectives == whole.objectives
    np.testing.assert_array_equal(rest.last, whole.last)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"decay": 1.0}, r"\(decay=...\)` must be"),
        ({"decay": -0.1}, r"\(decay=...\)` must be"),
        ({"forms": "H2"}, r"\(forms=...\)` needs a tuple of names"),
        ({"forms": ("H3",)}, r"\(forms=...\)` must be one of 'hessian', 'H1'"),
        ({"evaluator": None}, r"\(evaluator=...\)` needs"),
    ],
)
def test_what_cannot_work_is_refused(arguments, words):
    with pytest.raises(ValueError, match="`AveragedCurvature" + words):
        mn.AveragedCurvature(**{"evaluator": EXACT, **arguments})
