"""Claims of the paper that no theorem states: its examples, its asides and Section 5.1."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, random_mdp
from test_theorems import evaluated, flat

import mdpnewton as mn
from mdpnewton.domains.mazes import HALLWAY
from mdpnewton.experiments import careful


def steepest_in(norm, gradient):
    """The slope along the steepest of all directions of length one."""
    return np.sqrt(gradient @ np.linalg.solve(norm, gradient))


@pytest.mark.parametrize(
    ("name", "form"), [("second_gauss_newton", "H2"), ("natural", "fisher")], ids=["H2", "Fisher"]
)
@pytest.mark.parametrize("seed", range(3))
def test_section_5_1_the_second_method_is_steepest_ascent_in_the_norm_of_minus_h2(seed, name, form):
    mdp = random_mdp(seed)
    policy, _, w = gibbs(seed, mdp)
    pairs = evaluated(mdp, policy, jnp.asarray(w))
    gradient = flat(mn.gradient(policy, jnp.asarray(w), pairs))
    matrix = np.asarray(mn.curvature(policy, jnp.asarray(w), pairs, form).dense())
    norm = -matrix if form == "H2" else matrix
    step = flat(mn.direction(name, policy, jnp.asarray(w), pairs).value)
    step = step / np.sqrt(step @ norm @ step)
    others = np.random.default_rng(seed).normal(size=(1000, len(step)))
    others /= np.sqrt(np.einsum("ni,ij,nj->n", others, norm, others))[:, None]
    assert gradient @ step == pytest.approx(steepest_in(norm, gradient), rel=1e-10)
    assert (others @ gradient).max() < gradient @ step
    wrong = np.eye(len(step))  # in another norm it is not the steepest
    length = np.sqrt(step @ wrong @ step)
    assert gradient @ step / length < 0.999 * steepest_in(wrong, gradient)


def test_section_5_1_steps_are_careful_where_the_value_is_high():
    for offset in (0.0, 1.0, 10.0):
        found = careful.steps_at(offset)
        steps = found["steps"]
        low = 0.5 + 0.5 / (1 - 0.5) * (0.5 + offset / 2)
        high = low + offset
        np.testing.assert_allclose(found["values"], [low, high], rtol=1e-12)
        for name in ("steepest", "natural"):  # they do not see the value
            assert steps[name][0] == pytest.approx(steps[name][1], rel=1e-9)
        ratio = steps["second_gauss_newton"][0] / steps["second_gauss_newton"][1]
        assert ratio == pytest.approx(high / low, rel=1e-9)


def test_figure_1a_the_arrows_of_the_hallway_are_out_of_reach():
    mdp, policy = HALLWAY.mdp(0.95), HALLWAY.policy(0.95)
    up, down, _, right = range(4)
    for seed in range(5):
        w = 30 * jax.random.normal(jax.random.key(seed), (4,))
        p = np.exp(np.asarray([policy.log_prob(w, 2, a) for a in range(4)]))
        np.testing.assert_allclose(p, 0.25, atol=1e-12)  # cell 3: all successors look alike
        p = np.exp(np.asarray([policy.log_prob(w, 1, a) for a in range(4)]))
        np.testing.assert_allclose(p[[up, down]], p[right], atol=1e-12)
        assert p[right] <= 1 / 3 + 1e-12  # cell 2: right is never more likely than standing still
    found = mn.search(
        mn.FiniteEvaluator(mdp), policy, policy.initial_parameters(), "second_gauss_newton"
    )
    p = np.exp(np.asarray([policy.log_prob(found.last, 1, a) for a in range(4)]))
    np.testing.assert_allclose(p, [1 / 3, 1 / 3, 0, 1 / 3], atol=1e-2)


def printed_navigation(gains, rng, control="position"):
    """Returns over 80 steps of the paper's equations: the control moves s1, the start is (0, 1)."""
    returns = np.zeros(len(gains))
    s1 = 0.001 * rng.normal(size=len(gains))
    s2 = 1 + 0.001 * rng.normal(size=len(gains))
    for _ in range(80):
        near = s1**2 + s2**2 <= 0.1**2
        returns += near
        noisy = gains + 2.0 * rng.normal(size=gains.shape)
        u = noisy[:, 0] * s1 + noisy[:, 1] * s2
        kick = 0.02 * rng.normal(size=len(gains))
        s1 = s1 + 1 / (1 + np.exp(-np.clip(u, -500, 500))) - 0.5 + kick
        s2 = s2 - 0.1 * s1 + kick
    return returns


def test_section_6_3_as_printed_every_gain_scores_nothing():
    rng = np.random.default_rng(0)
    gains = rng.uniform([0, -8], [60, 0], size=(20_000, 2))
    assert printed_navigation(gains, rng).sum() == 0


def test_section_4_2_1_a_gaussian_is_log_concave_in_its_mean_and_in_its_precision_but_not_in_both():
    rng = np.random.default_rng(0)
    phi, a = rng.normal(size=3), rng.normal(size=2)
    lower = np.tril_indices(2)

    def log_policy(parameters):
        """Of N(K phi, inverse of the precision P), over K and the entries of P."""
        K, entries = parameters[:6].reshape(2, 3), parameters[6:]
        P = jnp.zeros((2, 2)).at[lower].set(entries)
        P = P + jnp.tril(P, -1).T
        off = a - K @ phi
        return 0.5 * jnp.linalg.slogdet(P)[1] - 0.5 * off @ P @ off

    root = rng.normal(size=(2, 2))
    at = np.r_[rng.normal(size=6), (root @ root.T + np.eye(2))[lower]]
    bend = np.asarray(jax.hessian(log_policy)(jnp.asarray(at)))
    assert np.linalg.eigvalsh(bend[:6, :6]).max() < 1e-10
    assert np.linalg.eigvalsh(bend[6:, 6:]).max() < 0
    assert np.linalg.eigvalsh(bend).max() > 1e-3


def test_newton_may_descend_where_the_hessian_is_indefinite():
    """Section 1: the objective is not concave, and Newton's direction may lower it."""
    for seed in range(5):
        mdp = random_mdp(seed)
        policy, _, w = gibbs(seed, mdp)
        pairs = evaluated(mdp, policy, jnp.asarray(w))
        newton = mn.direction("newton", policy, jnp.asarray(w), pairs).report
        if newton.slope < 0:
            assert newton.negative_curvature
            break
    else:
        pytest.fail("no problem on which Newton's direction descends")
    assert mn.direction("second_gauss_newton", policy, jnp.asarray(w), pairs).report.slope > 0
