"""Linear-quadratic control from samples alone, held against what `QuadraticMDP` knows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn

MDP = mn.QuadraticMDP(
    A=[[1.0, 0.2], [0.0, 0.95]],
    B=[[0.0], [0.3]],
    state_cost=np.diag([1.0, 0.1]),
    action_cost=[[0.1]],
    noise=0.01 * np.eye(2),
    start_mean=np.zeros(2),
    start_covariance=np.eye(2),
    discount=0.9,
)
SIMULATOR = mn.QuadraticSimulator(MDP, horizon=60)  # 0.9^60 = 0.002
EXACT = mn.QuadraticEvaluator(MDP)


def cost(gain):
    """The expected cost of acting by a gain, without exploration."""
    return -EXACT.objective(None, mn.LinearGaussian([[1e-10]], 2), jnp.asarray(gain))


def squares(state):
    """Features of a quadratic value."""
    return jnp.array([1.0, state[0] ** 2, state[0] * state[1], state[1] ** 2])


TIGHT = mn.Precondition("V2", fisher_damping=mn.TightOffset())
WAYS = {
    "Newton, cubic": ("cubic_newton", None),
    "second Gauss-Newton": (TIGHT, mn.TrustedStep(0.1)),
    "natural": ("natural", mn.TrustedStep(0.1)),
}


@pytest.mark.parametrize("learnt", [False, True], ids=["fixed", "full"])
@pytest.mark.parametrize("way", WAYS)
def test_a_gain_that_is_learnt_from_samples_costs_three_percent_more_at_most(way, learnt):
    method, step = WAYS[way]
    policy, w = mn.LinearGaussian([[0.1]], 2), jnp.zeros((1, 2))
    if learnt:
        policy = mn.FullGaussian(1, 2)
        w = policy.parameters(w, [[0.1]])
    evaluator = mn.MonteCarlo(
        SIMULATOR, MDP.discount, episodes=200, baseline="state", features=squares
    )
    found = mn.search(
        *(evaluator, policy, w, method, step),
        key=jax.random.key(0),
        iterations=30,
        patience=None,
    )
    gain = found.last["mean"] if learnt else found.last
    best = cost(MDP.optimal_gain())
    assert cost(np.zeros((1, 2))) > 7 * best
    assert cost(gain) < 1.03 * best


def test_the_simulator_plays_what_the_model_says():
    policy = mn.LinearGaussian([[0.1]], 2)
    w = jnp.asarray(0.5 * MDP.optimal_gain())
    sampled = mn.MonteCarlo(
        SIMULATOR, MDP.discount, episodes=200, baseline="state", features=squares
    )
    found = [sampled.evaluate(jax.random.key(n), policy, w) for n in range(12)]
    exact = EXACT.evaluate(None, policy, w)
    for ask in (lambda pairs: pairs.objective, lambda pairs: mn.gradient(policy, w, pairs)):
        rows = np.array([ask(pairs) for pairs in found])
        error = rows.std(0, ddof=1) / 12**0.5
        wanted = np.asarray(ask(exact))
        assert np.all(np.abs(rows.mean(0) - wanted) < 4 * error + 0.01 * np.abs(wanted).max())
    data = SIMULATOR.play(jax.random.key(1), policy, w, 500)
    states, after = np.asarray(data.observations), np.asarray(data.next_observations)
    noise = after - states @ np.asarray(MDP.A).T - np.asarray(data.actions) @ np.asarray(MDP.B).T
    np.testing.assert_allclose(np.cov(noise.T), MDP.noise, atol=5e-4)
    first = states[np.asarray(data.times) == 0]
    np.testing.assert_allclose(np.cov(first.T), MDP.start_covariance, atol=0.3)
    rewards = jax.vmap(MDP.reward)(data.observations, data.actions)
    np.testing.assert_allclose(data.rewards, rewards)


def test_a_singular_noise_has_a_root():
    still = mn.QuadraticMDP(
        *(MDP.A, MDP.B, MDP.state_cost, MDP.action_cost, np.diag([0.0, 0.5])),
        *(np.ones(2), np.zeros((2, 2)), 0.9),
    )
    data = mn.QuadraticSimulator(still, 5).play(
        jax.random.key(0), mn.LinearGaussian([[0.1]], 2), jnp.zeros((1, 2)), 20
    )
    states, after = np.asarray(data.observations), np.asarray(data.next_observations)
    first = np.asarray(data.times) == 0
    np.testing.assert_allclose(states[first], 1.0)
    np.testing.assert_allclose(after[:, 0], states[:, 0] + 0.2 * states[:, 1], atol=1e-12)


def test_what_is_no_such_problem_is_refused():
    with pytest.raises(ValueError, match=r"`QuadraticSimulator\(mdp=...\)` needs"):
        mn.QuadraticSimulator(None, 5)
    with pytest.raises(ValueError, match=r"`QuadraticSimulator\(horizon=...\)` must be"):
        mn.QuadraticSimulator(MDP, 0)
