"""Cart-pole and navigation: the domains against plain NumPy, and the shape of the results."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mdpnewton.domains.cartpole import DISCOUNT, INTERVAL, CartPole, advance, observation
from mdpnewton.domains.navigation import Navigation
from mdpnewton.evaluators import MonteCarlo
from mdpnewton.experiments.learning_curves import (
    at_points,
    first_reaching,
    median_reached,
    summary,
)
from mdpnewton.methods import direction
from mdpnewton.policies import LinearGaussian, NoisyGain

G, M_POLE, M_CART, HALF = 9.8, 2.0, 8.0, 0.5
ALPHA = 1 / (M_POLE + M_CART)


def acceleration(angle, velocity, force):
    """As the paper prints it."""
    top = G * np.sin(angle) - ALPHA * M_POLE * HALF * velocity**2 * np.sin(2 * angle) / 2
    top = top - ALPHA * np.cos(angle) * force
    return top / (4 * HALF / 3 - ALPHA * M_POLE * HALF * np.cos(angle) ** 2)


def energy(angle, velocity):
    """What the continuous pole keeps while no force acts on the cart."""
    inertia = 4 * HALF / 3 - ALPHA * M_POLE * HALF * np.cos(angle) ** 2
    return inertia * velocity**2 / 2 + G * np.cos(angle)


def test_the_cart_pole_step_is_the_papers():
    rng = np.random.default_rng(0)
    angle, velocity = rng.uniform(-4, 4, 50), rng.uniform(-12, 12, 50)
    action, noise = rng.uniform(-80, 80, 50), rng.uniform(-1, 1, 50)
    after, reward = advance(np, np.stack([angle, velocity]), action, noise)
    force = np.minimum(np.maximum(action + 10 * noise, -50), 50)
    np.testing.assert_allclose(after[0], angle + 0.1 * velocity, rtol=1e-14)
    np.testing.assert_allclose(
        after[1], velocity + 0.1 * acceleration(angle, velocity, force), rtol=1e-12
    )
    np.testing.assert_allclose(reward, (1 + np.cos(angle)) / 2)


def test_a_cart_pole_step_in_golden_numbers():
    after, reward = advance(np, np.array([0.3, -1.0]), 20.0, 0.5)
    np.testing.assert_allclose(after, [0.2, -0.9166624], atol=1e-7)
    assert reward == pytest.approx((1 + np.cos(0.3)) / 2)


def test_the_compiled_cart_pole_agrees_with_numpy():
    simulator, policy = CartPole(), LinearGaussian(4.0, 2)
    played = simulator.play(jax.random.key(1), policy, jnp.array([[3.0, 1.0]]), 2, greedy=True)
    seen, after = np.asarray(played.observations), np.asarray(played.next_observations)
    np.testing.assert_allclose(seen[0], observation(np, np.array([np.pi, 0.0])))
    # The noise is the only unknown: the angle does not feel it, and the velocity by 10 N at most.
    turn = after[:, 0] - seen[:, 0] - INTERVAL * seen[:, 1]
    np.testing.assert_allclose(turn - 2 * np.pi * np.round(turn / (2 * np.pi)), 0, atol=1e-12)
    chosen = seen @ np.array([3.0, 1.0])
    np.testing.assert_allclose(np.asarray(played.actions)[:, 0], chosen, atol=1e-12)
    ends = [
        seen[:, 1] + INTERVAL * acceleration(*seen.T, np.clip(chosen + shift, -50, 50))
        for shift in (-10, 10)
    ]
    assert (after[:, 1] >= np.minimum(*ends) - 1e-12).all()
    assert (after[:, 1] <= np.maximum(*ends) + 1e-12).all()


def rate(state):
    """Of change, read off the simulator's step without force and noise."""
    return (advance(np, state, 0.0, 0.0)[0] - state) / INTERVAL


def euler(state, interval):
    return state + interval * rate(state)


def runge_kutta(state, interval):
    first = rate(state)
    second = rate(state + interval / 2 * first)
    third = rate(state + interval / 2 * second)
    last = rate(state + interval * third)
    return state + interval / 6 * (first + 2 * second + 2 * third + last)


def swing(step, parts):
    """The energies of five seconds from 1 rad beside the hanging pole."""
    state = np.array([np.pi - 1.0, 0.0])
    found = [energy(*state)]
    for _ in range(50 * parts):
        state = step(state, INTERVAL / parts)
        found.append(energy(*state))
    return np.array(found)


def test_energy_is_kept_by_tiny_steps_and_pumped_by_the_papers():
    assert np.ptp(swing(runge_kutta, 10)) < 1e-4
    printed = swing(euler, 1)
    np.testing.assert_array_less(0, np.diff(printed[:10]))
    assert printed[-1] - printed[0] > 5


def returns_of_the_zero_policy(step):
    rng = np.random.default_rng(0)
    state, total = np.tile([[np.pi], [0.0]], 400), 0.0
    for time in range(100):
        reward = (1 + np.cos(state[0])) / 2
        total = total + DISCOUNT**time * reward
        state = step(state, rng.uniform(-1, 1, 400))
    return total.mean(), total.std() / 20


def test_the_zero_policy_scores_15_with_the_papers_euler_and_nothing_with_finer_steps():
    def fine(state, noise, parts=50):
        for _ in range(parts):
            after, _ = advance(np, state, 0.0, noise)
            state = state + (after - state) / parts
        return state

    coarse, error = returns_of_the_zero_policy(
        lambda state, noise: advance(np, state, 0.0, noise)[0]
    )
    assert coarse == pytest.approx(15.5, abs=4 * error + 0.1)
    assert returns_of_the_zero_policy(fine)[0] < 0.5
    policy = LinearGaussian(4.0, 2)
    played = CartPole().play(jax.random.key(0), policy, jnp.zeros((1, 2)), 400, greedy=True)
    returns = played.returns(DISCOUNT)
    assert returns.mean() == pytest.approx(15.5, abs=4 * returns.std() / 20 + 0.1)


def test_the_optimum_of_cart_pole_is_52():
    angles, velocities = np.linspace(-np.pi, np.pi, 81), np.linspace(-16, 16, 129)
    actions, noises = np.linspace(-50, 50, 11), np.array([-0.8, -0.4, 0.0, 0.4, 0.8])
    state = np.stack(np.meshgrid(angles, velocities, indexing="ij"))
    wide = state[:, :, :, None, None] * np.ones((11, 5))
    after, reward = advance(np, wide, actions[:, None], noises)
    after = np.stack([(after[0] + np.pi) % (2 * np.pi) - np.pi, after[1].clip(-16, 16)])
    place = np.stack([(after[0] + np.pi) / np.ptp(angles) * 80, (after[1] + 16) / 32 * 128])
    low = np.minimum(place.astype(int), np.array([79, 127]).reshape(2, 1, 1, 1, 1))
    x, y = (place - low).astype(np.float32)
    corner = (low[0] * 129 + low[1]).astype(np.int32)
    value, reward = np.zeros((81, 129), np.float32), reward[:, :, 0, 0].astype(np.float32)
    for _ in range(100):
        flat = value.ravel()
        left = flat[corner] * (1 - y) + flat[corner + 1] * y
        right = flat[corner + 129] * (1 - y) + flat[corner + 130] * y
        ahead = (left * (1 - x) + right * x).mean(axis=-1).max(axis=-1)
        value = reward + DISCOUNT * ahead
    assert value[0, 64] == pytest.approx(52.4, abs=1.0)


def test_navigation_at_the_gain_of_vlassis_et_al_scores_8_46():
    policy, w = NoisyGain(1, 2, 2.0), jnp.array([[8.8, -3.2]])
    played = Navigation().play(jax.random.key(0), policy, w, 1000, horizon=300, greedy=True)
    returns = played.returns(0.95)
    assert returns.mean() == pytest.approx(8.46, abs=4 * returns.std() / 1000**0.5 + 0.01)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_em_equals_the_second_gauss_newton_method_at_step_1_on_navigation(seed):
    policy, w = NoisyGain(1, 2, 2.0), jnp.array([[20.0, -5.0]])
    evaluator = MonteCarlo(Navigation(), 1.0, episodes=50, baseline="none")
    pairs = evaluator.evaluate(jax.random.key(seed), policy, w)
    assert pairs.objective > 1
    em = direction("expectation_maximization", policy, w, pairs).value
    gauss_newton = direction("second_gauss_newton", policy, w, pairs).value
    assert float(jnp.linalg.norm(em)) > 1e-3
    np.testing.assert_allclose(em, gauss_newton, atol=1e-10, rtol=0)


def test_a_summary_has_the_mean_its_error_and_the_end():
    found = summary(range(3), [[0, 1, 2], [0, 3, 6]])
    mean = {"x": [0, 1, 2], "mean": [0, 2, 4], "stderr": [0, 1, 2]}
    assert found["curve"] == {**mean, "runs": [[0, 1, 2], [0, 3, 6]]}
    assert found["final"] == {"mean": 4, "stderr": 2, "runs": 2}
    assert summary(range(2), [[1, 5]])["final"] == {"mean": 5, "stderr": 0, "runs": 1}
    with pytest.raises(ValueError, match=r"needs shape \(runs, points\) with 2 points"):
        summary(range(2), [[1, 2, 3]])


def test_curves_on_a_clock_and_levels():
    assert at_points([1, 2, 3, 9], [2, 3, 5], [20, 30, 50]).tolist() == [20, 20, 30, 50]
    assert first_reaching([2, 3, 5], [20, 30, 50], 30) == 3
    assert first_reaching([2, 3, 5], [20, 30, 50], 60) is None
    assert median_reached([4, None, 2]) == 4
    assert median_reached([4, None]) is None


@pytest.mark.parametrize("name", ["cartpole", "navigation", "demo"])
def test_results_have_curves_and_ends_of_every_method(name, shared_run):
    found = json.loads((shared_run(name) / "results.json").read_text())
    for method, row in found["methods"].items():
        curve, final = row["curve"], row["final"]
        assert len(curve["x"]) == len(curve["mean"]) == len(curve["stderr"]) > 1, method
        assert all(a < b for a, b in zip(curve["x"], curve["x"][1:], strict=False))
        assert final["mean"] == curve["mean"][-1]
        assert final["stderr"] == curve["stderr"][-1]
        assert final["runs"] >= 1
    if name == "demo":
        return
    assert {"natural", "steepest", "second_gauss_newton", "practical"} <= set(found["methods"])
    assert set(found["differences"]["natural"]["steepest"]) == {"mean", "low", "high"}
    assert found["methods"]["practical"]["level"] == 45
    if name == "navigation":
        assert found["largest_gap_of_em_and_gauss_newton_at_1"] < 1e-6
    else:
        literal = [row for row in found["methods"].values() if "step_size" in row]
        assert len({row["curve"]["mean"][0] for row in literal}) == 1  # paired from the start
        assert len(literal) == 7
