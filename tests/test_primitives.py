"""Dynamic motor primitives: linear in the weights, imitation by least squares."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from mdpnewton.domains.ball_in_cup import Primitives

START = np.array([0.3, -0.2, 1.0])
PRIMITIVES = Primitives(START, bases=6)
DT, STEPS = 0.01, 121


def weights(seed=0, *lead):
    return 100 * np.random.default_rng(seed).normal(size=(*lead, 3, 6))


def test_the_movement_solves_the_differential_equation():
    w = weights()
    p, tau = Primitives(START, bases=6, tau=0.8), 0.8
    c = np.exp(-2 * np.linspace(0, 1, 6))
    h = 1 / (0.55 * np.append(np.diff(c), np.diff(c)[-1])) ** 2

    def slope(t, state):
        y, yd = np.split(state, 2)
        z = np.exp(-2 * t / tau)
        psi = np.exp(-h * (z - c) ** 2 / 2)
        force = z * (w @ psi) / psi.sum()
        return np.concatenate([yd, (25 * (6.25 * (START - y) - tau * yd) + force) / tau**2])

    times = DT * np.arange(STEPS)
    start = np.concatenate([START, np.zeros(3)])
    exact = solve_ivp(slope, (0, times[-1]), start, t_eval=times, rtol=1e-11, atol=1e-12).y.T
    found = p.movement(w, DT, STEPS)
    np.testing.assert_allclose(found.q, exact[:, :3], atol=1e-8)
    np.testing.assert_allclose(found.qd, exact[:, 3:], atol=1e-7)
    slopes = np.array([slope(*pair)[3:] for pair in zip(times, exact, strict=True)])
    np.testing.assert_allclose(found.qdd, slopes, atol=1e-5)


def test_movements_are_linear_in_the_weights_and_start_at_rest():
    one, other = weights(1), weights(2)
    both = PRIMITIVES.movement(2 * one - other, DT, STEPS)
    parts = [PRIMITIVES.movement(w, DT, STEPS) for w in (one, other)]
    np.testing.assert_allclose(
        both.q - START, 2 * (parts[0].q - START) - (parts[1].q - START), atol=1e-12
    )
    np.testing.assert_array_equal(both.q[0], START)
    np.testing.assert_array_equal(both.qd[0], 0)
    still = PRIMITIVES.movement(np.zeros(18), DT, STEPS)
    np.testing.assert_array_equal(still.q, np.broadcast_to(START, (STEPS, 3)))
    late = PRIMITIVES.movement(one, DT, 1200)
    np.testing.assert_allclose(late.q[-1], START, atol=1e-6)  # the goal is the start


def test_flat_and_shaped_weights_and_batches_are_the_same():
    w = weights(3, 4)
    many = PRIMITIVES.movement(w, DT, STEPS)
    assert many.q.shape == (4, STEPS, 3)
    flat = PRIMITIVES.movement(w.reshape(4, 18), DT, STEPS)
    np.testing.assert_array_equal(many.q, flat.q)
    one = PRIMITIVES.movement(w[2], DT, STEPS)
    np.testing.assert_allclose(many.qdd[2], one.qdd, atol=1e-10)


def test_a_movement_does_not_depend_on_how_often_it_is_looked_at():
    w = weights(4)
    coarse = PRIMITIVES.movement(w, 0.008, 100)
    fine = PRIMITIVES.movement(w, 0.0005, 1600)
    np.testing.assert_allclose(fine.q[::16], coarse.q, atol=1e-9)


def test_joints_share_the_phase_and_nothing_else():
    w = weights(5)
    changed = w.copy()
    changed[1] += 50
    one, other = (PRIMITIVES.movement(x, DT, STEPS).q for x in (w, changed))
    np.testing.assert_array_equal(one[:, [0, 2]], other[:, [0, 2]])
    assert np.abs(one[:, 1] - other[:, 1]).max() > 0.01


def test_imitation_finds_the_weights_that_made_a_movement():
    w = weights(6)
    seen = PRIMITIVES.movement(w, DT, STEPS).q
    np.testing.assert_allclose(PRIMITIVES.imitate(seen, DT), w, rtol=1e-6)


def test_imitation_is_the_least_squares_fit():
    wanted = START + 0.3 * np.sin(4 * DT * np.arange(STEPS))[:, None] ** 2
    best = PRIMITIVES.imitate(wanted, DT)

    def error(w):
        return ((PRIMITIVES.movement(w, DT, STEPS).q - wanted) ** 2).sum()

    for seed in range(5):
        assert error(best) < error(best + 0.01 * weights(seed))
    rich = Primitives(START, bases=20)
    moved = rich.movement(rich.imitate(wanted, DT), DT, STEPS).q
    assert ((moved - wanted) ** 2).sum() < error(best)
    assert np.abs(moved - wanted).max() < 0.01


def test_late_phases_leave_no_holes():
    forcing = PRIMITIVES.forcing([0.0, 1.0, 20.0, 300.0])
    assert np.isfinite(forcing).all()
    np.testing.assert_allclose(forcing.sum(axis=1), np.exp(-2 * np.array([0, 1, 20, 300.0])))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": [[0.0]]}, "start"),
        ({"start": [np.nan]}, "start"),
        ({"bases": 1}, "bases"),
        ({"tau": 0.0}, "tau"),
        ({"phase": -1.0}, "phase"),
    ],
)
def test_wrong_primitives_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Primitives(**{"start": START, **options})


def test_wrong_weights_and_angles_are_refused():
    with pytest.raises(ValueError, match="18"):
        PRIMITIVES.movement(np.zeros(17), DT, STEPS)
    with pytest.raises(ValueError, match="imitate"):
        PRIMITIVES.imitate(np.zeros((STEPS, 2)), DT)
    with pytest.raises(ValueError, match="finite"):
        PRIMITIVES.imitate(np.full((STEPS, 3), np.nan), DT)
    with pytest.raises(ValueError, match="dt"):
        PRIMITIVES.basis(0.0, 10)
