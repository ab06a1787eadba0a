"""Linear-quadratic control: exact evaluation, and Gauss-Newton as policy iteration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.flatten_util import ravel_pytree

import mdpnewton as mn
from mdpnewton.evaluators.quadratic import QuadraticEvaluator
from mdpnewton.models.quadratic import QuadraticMDP, power_sum


def affine_features(state):
    return jnp.append(state, 1.0)


def problem(seed, d=2, k=1, discount=0.8, radius=1.02):
    rng = np.random.default_rng(seed)

    def positive(n):
        root = rng.normal(size=(n, n))
        return root @ root.T / n + 0.1 * np.eye(n)

    A = rng.normal(size=(d, d))
    return QuadraticMDP(
        A=radius * A / np.abs(np.linalg.eigvals(A)).max(),
        B=rng.normal(size=(d, k)),
        state_cost=positive(d),
        action_cost=positive(k),
        noise=0.2 * positive(d),
        start_mean=rng.normal(size=d),
        start_covariance=positive(d),
        discount=discount,
    )


def with_policy(mdp, kind, seed=0):
    """A policy of that kind, and parameters at which the loop is stable."""
    rng = np.random.default_rng(seed)
    d, k = mdp.n_states, mdp.n_actions
    aside, size = rng.normal(size=(k, d)), 0.2
    while mdp.growth(gain := mdp.optimal_gain() + size * aside) > 0.95:
        size /= 2
    offset = 0.3 * rng.normal(size=(k, 1))
    root = rng.normal(size=(k, k))
    covariance = root @ root.T + 0.3 * np.eye(k)
    if kind == "affine":
        policy = mn.AffineGaussian(k, d)
        return policy, policy.parameters(gain, offset[:, 0], 0.7)
    if kind == "linear":
        return mn.LinearGaussian(covariance, d), jnp.asarray(gain)
    both = jnp.asarray(np.concatenate([gain, offset], axis=1))
    if kind == "with_offset":
        return mn.LinearGaussian(covariance, d + 1, affine_features), both
    if kind == "full":
        policy = mn.FullGaussian(k, d + 1, affine_features)
        return policy, policy.parameters(both, 0.3 * covariance)
    scale = jnp.asarray(rng.uniform(0.3, 0.8, size=k))
    policy = mn.Gaussian(k, d + 1, affine_features, scale="precision_root")
    return policy, {"mean": both, "scale": scale}


def law(policy, w, d):
    """K, m and covariance, read off the policy."""
    mean = np.stack([policy.mode(w, jnp.asarray(s)) for s in np.eye(d + 1, d)])
    K, m = (mean[:d] - mean[d]).T, mean[d]
    if isinstance(policy, mn.LinearGaussian):
        return K, m, np.asarray(policy.covariance)
    if isinstance(policy, mn.AffineGaussian):
        return K, m, np.exp(2 * float(policy.log_sigma(w))) * np.eye(len(m))
    if isinstance(policy, mn.FullGaussian):
        return K, m, np.linalg.inv(np.asarray(policy.precision(w)))
    return K, m, np.diag(np.asarray(w["scale"]) ** -2)


def reference(mdp, policy, w):
    """Every form by brute force: all steps, five Gauss-Hermite points in every direction."""
    A, B, Q, R, W = (
        np.asarray(x) for x in (mdp.A, mdp.B, mdp.state_cost, mdp.action_cost, mdp.noise)
    )
    (d, k), gamma = B.shape, mdp.discount
    K, m, Sigma = law(policy, w, d)
    L = A + B @ K
    P = scipy.linalg.solve_discrete_lyapunov(gamma**0.5 * L.T, Q + K.T @ R @ K)
    p = np.linalg.solve(np.eye(d) - gamma * L.T, K.T @ R @ m + gamma * L.T @ P @ B @ m)
    shift = B @ m
    c = m @ R @ m + gamma * (shift @ P @ shift + 2 * p @ shift)
    c += np.trace(R @ Sigma) + gamma * np.trace(P @ (W + B @ Sigma @ B.T))
    c /= 1 - gamma

    def J(s):
        return np.sum(s @ P * s, axis=-1) + 2 * s @ p + c

    def cost(s, a):
        return np.sum(s @ Q * s, axis=-1) + np.sum(a @ R * a, axis=-1)

    points, weights = np.polynomial.hermite_e.hermegauss(5)
    z = np.stack(np.meshgrid(*[points] * (d + k), indexing="ij"), axis=-1).reshape(-1, d + k)
    share = np.stack(np.meshgrid(*[weights / weights.sum()] * (d + k), indexing="ij"), axis=-1)
    share = share.prod(axis=-1).ravel()
    mu, C = np.asarray(mdp.start_mean), np.asarray(mdp.start_covariance)
    states, actions, occupancy, total = [], [], [], 0.0
    steps = int(np.ceil(-34 / np.log(max(gamma, gamma * np.abs(np.linalg.eigvals(L)).max() ** 4))))
    for t in range(steps):
        s = mu + z[:, :d] @ np.linalg.cholesky(C).T
        a = s @ K.T + m + z[:, d:] @ np.linalg.cholesky(Sigma).T
        states.append(s)
        actions.append(a)
        occupancy.append(gamma**t * share)
        total -= gamma**t * share @ cost(s, a)
        mu, C = L @ mu + shift, L @ C @ L.T + B @ Sigma @ B.T + W
    s, a, occupancy = np.concatenate(states), np.concatenate(actions), np.concatenate(occupancy)
    V = -J(s)
    after = s @ A.T + a @ B.T
    action_value = -cost(s, a) - gamma * (J(after) + np.trace(P @ W))
    flat, unravel = ravel_pytree(w)

    def log_prob(v, state, action):
        return policy.log_prob(unravel(v), state, action)

    @jax.jit
    def forms(s, a, weights):
        psi = jax.vmap(jax.grad(log_prob), (None, 0, 0))(flat, s, a)
        curved = jax.vmap(jax.hessian(log_prob), (None, 0, 0))(flat, s, a)
        outer = {name: jnp.einsum("n,ni,nj->ij", c, psi, psi) for name, c in weights.items()}
        bent = {name: jnp.einsum("n,nij->ij", c, curved) for name, c in weights.items()}
        return weights["Q"] @ psi, outer, bent

    weights = {"p": occupancy, "Q": occupancy * action_value, "V": occupancy * V}
    weights["A"] = weights["Q"] - weights["V"]
    gradient, outer, bent = forms(s, a, weights)
    return {
        "objective": total,
        "gradient": gradient,
        "H1": outer["Q"],
        "H2": bent["Q"],
        "A1": outer["A"],
        "A2": bent["A"],
        "A1+A2": outer["A"] + bent["A"],
        "V1": outer["V"],
        "V2": bent["V"],
        "fisher": -bent["p"],
        "fisher_score": outer["p"],
        "generalized": bent["V"],  # the same thing, with the mean over actions taken
        "generalized_fisher": -bent["p"],
    }


def close(one, other, tolerance=1e-10, scale=0.0):
    one, other = np.asarray(one), np.asarray(other)
    assert np.abs(one - other).max() <= tolerance * max(np.abs(other).max(), scale)


CASES = [
    ("affine", 2, 1),
    ("affine", 1, 2),
    ("linear", 2, 1),
    ("gaussian", 1, 2),
    ("full", 1, 2),
]


@pytest.mark.parametrize(("kind", "d", "k"), CASES)
def test_every_form_agrees_with_brute_force(kind, d, k):
    mdp = problem(10 * d + k, d, k, discount=0.7)
    policy, w = with_policy(mdp, kind)
    evaluator = QuadraticEvaluator(mdp)
    pairs = evaluator.evaluate(None, policy, w)
    expected = reference(mdp, policy, w)
    assert pairs.objective == pytest.approx(expected.pop("objective"), rel=1e-12)
    assert evaluator.objective(None, policy, w) == pairs.objective
    close(ravel_pytree(mn.gradient(policy, w, pairs))[0], expected.pop("gradient"))
    assert set(expected) == set(mn.FORMS)
    for form, matrix in expected.items():
        scale = np.abs(expected["A1"]).max()  # A2 may be zero
        close(mn.curvature(policy, w, pairs, form).dense(), matrix, 1e-10, scale)


def test_pairs_are_few():
    mdp = problem(0, d=4, k=2)
    policy, w = with_policy(mdp, "affine")
    pairs = QuadraticEvaluator(mdp).evaluate(None, policy, w)
    assert pairs.occupancy.shape == pairs.actions.excess.shape == (16, 16)
    fixed, gain = with_policy(mdp, "linear")
    assert QuadraticEvaluator(mdp).evaluate(None, fixed, gain).actions.shape == (16, 16, 2)
    assert float(pairs.occupancy.sum()) == pytest.approx(1 / (1 - mdp.discount), rel=1e-13)
    assert (np.asarray(pairs.occupancy) >= 0).all()


def test_samples_agree_within_four_standard_errors():
    mdp = problem(1, discount=0.7)
    policy, w = with_policy(mdp, "affine")
    n, horizon = 20_000, 80
    roots = [jnp.linalg.cholesky(x) for x in (mdp.start_covariance, mdp.noise)]

    def episode(key):
        first, rest = jax.random.split(key)
        state = mdp.start_mean + roots[0] @ jax.random.normal(first, (mdp.n_states,))

        def step(state, key):
            act, move = jax.random.split(key)
            action = policy.sample(act, w, state)
            noise = roots[1] @ jax.random.normal(move, state.shape)
            return mdp.A @ state + mdp.B @ action + noise, mdp.reward(state, action)

        rewards = jax.lax.scan(step, state, jax.random.split(rest, horizon))[1]
        return mdp.discount ** jnp.arange(float(horizon)) @ rewards

    returns = np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), n)))
    exact = QuadraticEvaluator(mdp).objective(None, policy, w)
    assert abs(returns.mean() - exact) < 4 * returns.std() / n**0.5


def test_the_gradient_is_that_of_the_objective():
    mdp = problem(2, d=3, k=2, discount=0.95)
    policy, w = with_policy(mdp, "affine")
    evaluator = QuadraticEvaluator(mdp)
    found = ravel_pytree(mn.gradient(policy, w, evaluator.evaluate(None, policy, w)))[0]
    flat, unravel = ravel_pytree(w)
    differences = [
        evaluator.objective(None, policy, unravel(flat + e))
        - evaluator.objective(None, policy, unravel(flat - e))
        for e in 1e-5 * jnp.eye(flat.size)
    ]
    close(found, np.array(differences) / 2e-5, 1e-7)


def test_closed_forms_in_the_mean():
    mdp = problem(3, d=3, k=2, discount=0.95)
    evaluator = QuadraticEvaluator(mdp)
    for kind in ("linear", "with_offset"):
        policy, w = with_policy(mdp, kind)
        n = w.shape[1]
        pairs, found = evaluator.evaluate(None, policy, w), evaluator.moments(policy, w)
        S, E = found.visited[:n, :n], found.slope[:, :n]
        gradient = -2 * (found.slope @ found.visited)[:, :n]
        close(mn.gradient(policy, w, pairs), gradient)
        A1 = -2 * np.kron(found.curvature, S)
        close(mn.curvature(policy, w, pairs, "A1").dense(), A1)
        close(mn.curvature(policy, w, pairs, "A2").dense(), 0, 1e-12, np.abs(A1).max())
        fisher = np.kron(np.linalg.inv(found.covariance), S)
        close(mn.curvature(policy, w, pairs, "fisher").dense(), fisher)
        H2 = np.kron(np.linalg.inv(found.covariance), found.valued[:n, :n])
        close(mn.curvature(policy, w, pairs, "H2").dense(), H2)
        if kind == "with_offset":
            natural = mn.direction("natural", policy, w, pairs).value
            close(natural, -2 * found.covariance @ E)
            close(mn.direction("compatible_natural", policy, w, pairs).value, natural, 1e-9)
        # Rewards are negative, and so are the values: minus H2 is not positive definite.
        report = mn.direction("second_gauss_newton", policy, w, pairs).report
        assert report.status == "indefinite"
        assert report.slope < 0


@pytest.mark.parametrize(("d", "k"), [(2, 1), (3, 2)])
@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99])
def test_first_gauss_newton_with_step_1_is_policy_iteration(d, k, discount):
    mdp = problem(20 + d, d, k, discount=discount, radius=1.0)
    evaluator = QuadraticEvaluator(mdp)
    for kind in ("linear", "with_offset"):
        policy, w = with_policy(mdp, kind, seed=d)
        pairs = evaluator.evaluate(None, policy, w)
        step = mn.direction("first_gauss_newton", policy, w, pairs).value
        close(w + step, mdp.improved(w))
    # With sigma learnt too, the mean's block does the same.
    policy, w = with_policy(mdp, "affine", seed=d)
    for sigma in (1.0, 1e-4, 1e-8):
        w["scale"] = jnp.log(sigma)
        pairs = evaluator.evaluate(None, policy, w)
        step = mn.direction("block_first_gauss_newton", policy, w, pairs).value
        close(w["mean"] + step["mean"], mdp.improved(w["mean"]), max(1e-10, 1e-14 / sigma))
        # U falls with sigma^2 = exp(2 log sigma), on which Newton's step is -1/2.
        assert float(step["scale"]) == pytest.approx(-0.5, abs=max(1e-10, 1e-14 / sigma))


def test_first_gauss_newton_converges_quadratically_to_the_riccati_gain():
    mdp = problem(4, d=3, k=2, discount=0.95, radius=1.0)
    policy = mn.LinearGaussian(0.5 * np.eye(2), 4, affine_features)
    w = np.concatenate([np.zeros((2, 3)), np.ones((2, 1))], axis=1)
    found = mn.search(
        QuadraticEvaluator(mdp), policy, w, "first_gauss_newton", keep_trace=True, iterations=20
    )
    best = np.concatenate([mdp.optimal_gain(), np.zeros((2, 1))], axis=1)
    close(found.w, best, 1e-12)
    assert found.status == "converged"
    assert (np.diff([record.objective for record in found.history]) > 0).all()
    expected = w
    for at in found.trace:
        close(at, expected)
        expected = mdp.improved(expected)
    errors = np.array([np.abs(at - best).max() for at in found.trace])
    errors = errors[(errors > 1e-7) & (errors < 0.3)]
    ratios = errors[1:] / errors[:-1] ** 2
    assert len(ratios) >= 2
    assert ratios.max() < 5, ratios
    assert len(found.history) < 10


def test_at_the_optimum_the_hessian_is_a1():
    mdp = problem(5, d=3, k=2, discount=0.9)
    policy, _ = with_policy(mdp, "linear")
    evaluator = QuadraticEvaluator(mdp)

    def hessian(w):
        def slope(v):
            v = jnp.asarray(v.reshape(w.shape))
            return np.ravel(mn.gradient(policy, v, evaluator.evaluate(None, policy, v)))

        steps = 1e-5 * np.eye(w.size)
        return np.array([slope(w.ravel() + e) - slope(w.ravel() - e) for e in steps]) / 2e-5

    def A1(w):
        pairs = evaluator.evaluate(None, policy, jnp.asarray(w))
        return np.asarray(mn.curvature(policy, jnp.asarray(w), pairs, "A1").dense())

    best = mdp.optimal_gain()
    close(hessian(best), A1(best), 1e-7)
    beside = best + 0.1
    assert np.abs(hessian(beside) - A1(beside)).max() > 1e-2 * np.abs(A1(beside)).max()


def test_the_riccati_gain_is_the_fixed_point():
    for seed in range(5):
        mdp = problem(seed, d=4, k=2, discount=0.97, radius=1.3)
        best = mdp.optimal_gain()
        assert mdp.growth(best) < 1 < mdp.growth(0 * best)
        close(mdp.improved(best), best, 1e-9)
        policy = mn.AffineGaussian(2, 4)
        evaluator = QuadraticEvaluator(mdp)
        w = policy.parameters(best, np.zeros(2), 0.1)
        found = evaluator.moments(policy, w)
        close(found.slope, 0, 1e-9, np.abs(found.cost_to_go).max())


def test_sums_of_powers_solve_the_lyapunov_equation():
    rng = np.random.default_rng(0)
    M, X = rng.normal(size=(5, 5)), np.eye(5)
    for radius in (0.0, 0.5, 0.999):
        at = radius * M / np.abs(np.linalg.eigvals(M)).max()
        close(power_sum(at, X), scipy.linalg.solve_discrete_lyapunov(at, X), 1e-9)


def test_steps_to_an_unstable_loop_are_rejected_and_leave_the_parameters():
    mdp = problem(6, radius=1.0)
    policy, w = with_policy(mdp, "affine")
    evaluator = QuadraticEvaluator(mdp)
    found = mn.search(evaluator, policy, w, "steepest", mn.Constant(1e6), iterations=3)
    assert [record.step.accepted for record in found.history] == [False] * 3
    assert found.history[0].step.reason == "the objective is not finite there"
    assert all((found.w[name] == w[name]).all() for name in w)
    assert np.isfinite(found.objective)
    assert np.isfinite(found.gradient_norm)
    for rule in (mn.Armijo(initial=1e6), mn.StrongWolfe(initial=1e6), mn.BestOfSet()):
        found = mn.search(evaluator, policy, w, "natural", rule, iterations=5)
        objective = found.objectives
        assert np.isfinite(objective).all()
        assert (np.diff(objective) >= 0).all()
        assert objective[-1] > objective[0]


def test_where_nothing_is_finite_it_is_said():
    mdp = problem(7, d=2, k=1)
    policy, w = with_policy(mdp, "affine")
    evaluator = QuadraticEvaluator(mdp)
    for mean, scale in [(50.0, 0.0), (1e200, 0.0), (np.nan, 0.0), (0.0, 400.0), (0.0, -400.0)]:
        far = {"mean": w["mean"] + mean, "scale": w["scale"] + scale}
        assert evaluator.objective(None, policy, far) == -np.inf
        pairs = evaluator.evaluate(None, policy, far)
        assert pairs.objective == -np.inf
        assert not any(np.isnan(x).any() for x in (pairs.occupancy, pairs.value, pairs.advantage))
        found = mn.direction("first_gauss_newton", policy, far, pairs)
        assert found.report.status == "not finite"
        assert not np.any(found.value["mean"])
        with pytest.raises(ValueError, match="objective is -inf"):
            mn.search(evaluator, policy, {**far, "mean": w["mean"] + 50.0})
    with pytest.raises(ValueError, match=r"must be below 1; see `growth"):
        mdp.improved(w["mean"] + 50.0)


def test_values_can_have_no_moments_where_the_gradient_has():
    mdp = problem(8, d=1, k=1, discount=0.8, radius=1.08)  # 0.8 * 1.08^4 > 1 > 0.8 * 1.08^2
    policy = mn.LinearGaussian(np.eye(1), 1)
    w = jnp.zeros((1, 1))
    evaluator = QuadraticEvaluator(mdp)
    pairs = evaluator.evaluate(None, policy, w)
    assert np.isfinite(pairs.objective)
    close(w + mn.direction("first_gauss_newton", policy, w, pairs).value, mdp.improved(w))
    assert mn.direction("natural", policy, w, pairs).report.status == "solved"
    found = mn.direction("second_gauss_newton", policy, w, pairs)
    assert found.report.status == "not finite"
    assert not np.any(found.value)


def test_still_states_and_other_units():
    """A start and a motion without noise, in units a million apart."""
    units = np.diag([1.0, 1e6])
    A, B = np.array([[1.0, 0.1], [0.0, 0.9]]), np.array([[0.0], [1.0]])
    directions = []
    for T in (np.eye(2), units):
        back = np.linalg.inv(T)
        mdp = QuadraticMDP(
            T @ A @ back, T @ B, back @ back, [[1.0]], 0 * T, T @ [1.0, 2.0], 0 * T, 0.9
        )
        policy = mn.AffineGaussian(1, 2)
        w = policy.parameters([[-0.2, -0.3]] @ back, [0.1], 0.2)
        pairs = QuadraticEvaluator(mdp).evaluate(None, policy, w)
        step = mn.direction("block_first_gauss_newton", policy, w, pairs).value["mean"]
        close((w["mean"] + step)[:, :2] @ T, mdp.improved(w["mean"])[:, :2] @ T)
        directions.append(np.asarray(step[:, :2]) @ T)
    close(*directions)


GOOD = dict(
    A=np.eye(2),
    B=np.ones((2, 1)),
    state_cost=np.eye(2),
    action_cost=np.eye(1),
    noise=np.eye(2),
    start_mean=np.zeros(2),
    start_covariance=np.eye(2),
    discount=0.9,
)


@pytest.mark.parametrize(
    ("name", "bad", "message"),
    [
        ("A", np.ones(2), "needs 2 axes"),
        ("A", np.ones((2, 3)), r"needs shape \(2, 2\)"),
        ("B", np.ones((3, 1)), r"needs shape \(2, 1\)"),
        ("B", np.ones((2, 0)), "none of them empty"),
        ("A", [[np.nan, 0], [0, 1]], r"must be finite, but entry \(0, 0\) is nan"),
        ("state_cost", [[1, 2], [0, 1]], "not symmetric"),
        ("state_cost", -np.eye(2), "must be positive semidefinite"),
        ("action_cost", np.zeros((1, 1)), "must be positive definite"),
        ("noise", -np.eye(2), "must be positive semidefinite"),
        ("start_mean", np.zeros(3), r"needs shape \(2,\)"),
        ("start_covariance", np.eye(3), r"needs shape \(2, 2\)"),
        ("discount", 1.0, "above 0 and below 1, got"),
        ("discount", 0.0, "above 0 and below 1, got"),
        ("discount", np.nan, "above 0 and below 1, got"),
    ],
)
def test_bad_problems_are_refused_in_one_line(name, bad, message):
    QuadraticMDP(**GOOD)
    with pytest.raises(ValueError, match=message) as raised:
        QuadraticMDP(**GOOD | {name: bad})
    assert f"`QuadraticMDP({name}=" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_bad_gains_and_policies_are_refused_in_one_line():
    mdp = QuadraticMDP(**GOOD)
    evaluator = QuadraticEvaluator(mdp)
    with pytest.raises(ValueError, match=r"\[K \| m\] of shape \(1, 3\), got \(2, 2\)"):
        mdp.improved(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="no stabilising solution"):
        QuadraticMDP(**GOOD | {"A": 2 * np.eye(2), "B": np.zeros((2, 1))}).optimal_gain()
    with pytest.raises(ValueError, match="needs a QuadraticMDP, got str"):
        QuadraticEvaluator("mdp")
    wrong = [
        (mn.AffineGaussian(1, 3), "1 actions and 3 states"),
        (mn.AffineGaussian(2, 2), "2 actions and 2 states"),
        (mn.LinearGaussian(np.eye(1), 3), r"shape \(1, 3\)"),
        (mn.LinearGaussian(np.eye(1), 2, jnp.tanh), "affine in the state"),
        (mn.TabularSoftmax(2, 2), "got TabularSoftmax"),
    ]
    for policy, message in wrong:
        with pytest.raises(ValueError, match=message):
            evaluator.objective(None, policy, policy.initial_parameters())
