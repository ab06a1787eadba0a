"""The N-link arm against Newton and Euler, textbooks, conservation laws and the linear model."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from PIL import Image

from mdpnewton.domains.arm import Arm, simulate
from mdpnewton.report.arm import arm_film, arm_picture

LINKS = range(1, 6)
ONES = np.ones(2)


def uneven(links):
    """Links that differ; the centre of mass of the first lies behind its joint."""
    rng = np.random.default_rng(links)
    lengths, masses = rng.uniform(0.5, 1.5, (2, links))
    centres = lengths * rng.uniform(0.2, 0.8, links) * np.where(np.arange(links) == 0, -1, 1)
    return Arm(lengths, masses, centres, rng.uniform(0.01, 0.2, links), gravity=3.7)


def draws(links, count=6):
    return np.random.default_rng(100 + links).normal(scale=2, size=(3, count, links))


@cache
def terms(links):
    """Everything the arm computes, compiled once, at six random places."""

    def at(arm, q, qd, x):
        energy = lambda q, qd: arm.kinetic_energy(q, qd) + arm.potential_energy(q)  # noqa: E731
        acceleration = arm.forward_dynamics(q, qd, x)
        slopes = jax.jacfwd(arm.mass_matrix)(q)
        return {
            "symbols": 0.5 * (slopes + slopes.transpose(0, 2, 1) - slopes.transpose(2, 1, 0)) @ qd,
            "slope of the energy": jax.grad(arm.potential_energy)(q),
            "M": arm.mass_matrix(q),
            "rate of M": jax.jvp(arm.mass_matrix, (q,), (qd,))[1],
            "C": arm.coriolis(q, qd),
            "g": arm.gravity_torque(q),
            "torque": arm.inverse_dynamics(q, qd, x),
            "acceleration": acceleration,
            "round trip": arm.inverse_dynamics(q, qd, acceleration),
            "power": jax.jvp(energy, (q, qd), (qd, acceleration))[1],
            "energy": energy(q, qd),
            "joints": arm.joints(q),
        }

    arm = uneven(links)
    found = jax.jit(jax.vmap(at, in_axes=(None, 0, 0, 0)))(arm, *draws(links))
    return jax.tree.map(np.asarray, (arm, found))


def newton_euler(arm, q, qd, qdd):
    """Torques by recursion along the links: forces and moments, no energies and no matrices."""
    turn = lambda v: np.array([-v[1], v[0]])  # noqa: E731
    cross = lambda u, v: u[0] * v[1] - u[1] * v[0]  # noqa: E731
    links, angle, omega, alpha = [], 0.0, 0.0, 0.0
    acceleration = np.array([0.0, arm.gravity])  # of the base: gravity is an upward lift
    for i in range(len(q)):
        angle, omega, alpha = angle + q[i], omega + qd[i], alpha + qdd[i]
        along = np.array([np.cos(angle), np.sin(angle)])
        swing = alpha * turn(along) - omega**2 * along
        push = arm.masses[i] * (acceleration + arm.centres[i] * swing)
        links.append((along, push, arm.inertias[i] * alpha))
        acceleration = acceleration + arm.lengths[i] * swing
    force, moment, torques = np.zeros(2), 0.0, []
    for i in reversed(range(len(q))):
        along, push, spin = links[i]
        lever = arm.centres[i] * cross(along, push) + arm.lengths[i] * cross(along, force)
        force, moment = force + push, moment + spin + lever
        torques.append(moment)
    return np.array(torques[::-1])


@pytest.mark.parametrize("links", LINKS)
def test_matrices_agree_with_newton_and_euler(links):
    arm, found = terms(links)
    still = np.zeros(links)
    for n, (q, qd, qdd) in enumerate(zip(*draws(links), strict=True)):
        g = newton_euler(arm, q, still, still)
        columns = [newton_euler(arm, q, still, unit) - g for unit in np.eye(links)]
        centrifugal = newton_euler(arm, q, qd, still) - g
        np.testing.assert_allclose(found["g"][n], g, atol=1e-12)
        np.testing.assert_allclose(found["M"][n], np.transpose(columns), atol=1e-12)
        np.testing.assert_allclose(found["C"][n] @ qd, centrifugal, atol=1e-11)
        np.testing.assert_allclose(found["torque"][n], newton_euler(arm, q, qd, qdd), atol=1e-11)


@pytest.mark.parametrize("links", LINKS)
def test_mass_matrix_is_positive_definite_and_its_rate_less_2C_is_skew(links):
    _, found = terms(links)
    np.testing.assert_allclose(found["M"], found["M"].transpose(0, 2, 1), atol=1e-14)
    assert np.linalg.eigvalsh(found["M"]).min() > 1e-3
    rest = found["rate of M"] - 2 * found["C"]
    np.testing.assert_allclose(rest + rest.transpose(0, 2, 1), 0, atol=1e-12)


@pytest.mark.parametrize("links", LINKS)
def test_coriolis_is_made_of_christoffel_symbols_and_gravity_of_a_potential(links):
    _, found = terms(links)
    np.testing.assert_allclose(found["C"], found["symbols"], atol=1e-12)
    np.testing.assert_allclose(found["g"], found["slope of the energy"], atol=1e-12)


@pytest.mark.parametrize("links", LINKS)
def test_torque_is_power_and_inverse_dynamics_undo_forward_dynamics(links):
    _, found = terms(links)
    _, qd, torque = draws(links)
    np.testing.assert_allclose(found["round trip"], torque, atol=1e-10)
    np.testing.assert_allclose(found["power"], np.sum(qd * torque, axis=1), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("links", LINKS)
def test_joints_are_a_link_apart_and_turn_by_the_relative_angles(links):
    arm, found = terms(links)
    way = np.diff(found["joints"], axis=1) @ np.array([1, 1j])
    np.testing.assert_allclose(np.abs(way), np.tile(arm.lengths, (6, 1)))
    turns = np.exp(1j * draws(links)[0])
    unit = way / np.abs(way)
    np.testing.assert_allclose(unit[:, 0], turns[:, 0])
    np.testing.assert_allclose(unit[:, 1:] / unit[:, :-1], turns[:, 1:])


def test_one_link_is_a_pendulum():
    arm, found = terms(1)
    q, qd, torque = draws(1)
    m, c, inertia = arm.masses[0], arm.centres[0], arm.inertias[0] + arm.masses[0] * arm.centres**2
    wanted = (torque - m * c * arm.gravity * np.cos(q)) / inertia
    np.testing.assert_allclose(found["acceleration"], wanted)
    energy = 0.5 * inertia * qd**2 + m * c * arm.gravity * np.sin(q)
    np.testing.assert_allclose(found["energy"], energy[:, 0])


def test_two_links_are_those_of_the_textbook():
    """Spong, Hutchinson and Vidyasagar (2005), the planar elbow manipulator."""
    arm, found = terms(2)
    (m1, m2), (c1, c2), (i1, i2) = arm.masses, arm.centres, arm.inertias
    length, gravity = arm.lengths[0], arm.gravity
    for n, ((q1, q2), (v1, v2)) in enumerate(zip(*draws(2)[:2], strict=True)):
        both = m2 * (c2**2 + length * c2 * np.cos(q2)) + i2
        far = m2 * c2**2 + i2
        near = m1 * c1**2 + m2 * (length**2 + c2**2 + 2 * length * c2 * np.cos(q2)) + i1 + i2
        h = -m2 * length * c2 * np.sin(q2)
        lift = m2 * c2 * gravity * np.cos(q1 + q2)
        np.testing.assert_allclose(found["M"][n], [[near, both], [both, far]])
        np.testing.assert_allclose(found["C"][n], [[h * v2, h * (v1 + v2)], [-h * v1, 0]])
        base = (m1 * c1 + m2 * length) * gravity * np.cos(q1)
        np.testing.assert_allclose(found["g"][n], [base + lift, lift])


def energies(arm, q, qd):
    """Kinetic and potential, from the velocities of the centres of mass."""
    arm = jax.tree.map(np.asarray, arm)
    q, qd = np.asarray(q), np.asarray(qd)
    along = np.exp(1j * np.cumsum(q, axis=-1))
    omega = np.cumsum(qd, axis=-1)
    reach = np.tril(np.tile(arm.lengths, (len(arm.lengths), 1)), -1) + np.diag(arm.centres)
    places, velocities = along @ reach.T, (1j * omega * along) @ reach.T
    kinetic = 0.5 * (np.abs(velocities) ** 2 @ arm.masses + omega**2 @ arm.inertias)
    return kinetic, arm.gravity * places.imag @ arm.masses


@pytest.mark.parametrize("links", LINKS)
def test_energy_is_that_of_moving_and_lifted_masses(links):
    arm, found = terms(links)
    np.testing.assert_allclose(found["energy"], sum(energies(arm, *draws(links)[:2])))


def held(torque, t, state):
    return torque


def motion(arm, torque, q0, qd0, dt):
    """A hundred steps under a constant torque: compiled once for every N."""
    states = simulate(arm, Partial(held, torque), q0, qd0, dt, 100, substeps=1, linearise=False)
    return np.split(np.asarray(states), 2, axis=1)


@pytest.mark.parametrize("links", LINKS)
def test_energy_is_conserved_to_the_fourth_order(links):
    """A quarter of a second of free fall, then the same with half the step."""
    arm = Arm.uniform(links)
    q0, qd0 = np.random.default_rng(links).normal(size=(2, links))

    def drift(dt, steps):
        q, qd = motion(arm, jnp.zeros(links), q0, qd0, dt)
        kinetic, potential = energies(arm, q[: steps + 1], qd[: steps + 1])
        assert kinetic.max() > 1.2 * kinetic.min()
        return np.ptp(kinetic + potential) / kinetic.max()

    coarse, fine = drift(0.005, 50), drift(0.0025, 100)
    assert fine < 1e-7
    assert 12 < coarse / fine < 40


@pytest.mark.parametrize("links", LINKS)
def test_feedback_linearisation_makes_the_arm_linear(links):
    """Section 6.4: the nonlinear arm under the paper's linear policy is the linear system."""
    rng = np.random.default_rng(links)
    starts, goal = rng.uniform(-np.pi, np.pi, (3, links)), rng.uniform(-np.pi, np.pi, links)
    dt, steps, unit = 0.1, 60, np.eye(links)
    gain = np.hstack([-1.2 * unit, -1.6 * unit]) + 0.1 * rng.normal(size=(links, 2 * links))

    def command(t, state):
        return gain @ state + 1.2 * goal + 0.5 * jnp.sin(t.astype(float))

    def run(q0):
        return simulate(uneven(links), command, q0, np.zeros(links), dt, steps, substeps=2)

    found = np.asarray(jax.vmap(run)(starts))
    assert found.shape == (3, steps + 1, 2 * links)
    A = np.block([[unit, dt * unit], [0 * unit, unit]])
    B = np.vstack([dt**2 / 2 * unit, dt * unit])
    state = np.hstack([starts, 0 * starts])
    for t in range(steps + 1):
        np.testing.assert_allclose(found[:, t], state, atol=1e-11)
        action = state @ gain.T + 1.2 * goal + 0.5 * np.sin(t)
        state = state @ A.T + action @ B.T


def test_a_constant_torque_holds_the_arm_or_works_on_it():
    arm, q0 = Arm.uniform(2), jnp.array([0.3, 0.4])
    q, _ = motion(arm, arm.gravity_torque(q0), q0, 0 * ONES, 0.01)
    np.testing.assert_allclose(q, np.tile(q0, (101, 1)), atol=1e-12)
    torque = np.array([40.0, -5.0])
    q, qd = motion(arm, torque, q0, 0 * ONES, 0.001)
    energy = sum(energies(arm, q, qd))
    assert np.ptp(energy) > 1
    np.testing.assert_allclose(energy - energy[0], (q - q[0]) @ torque, atol=1e-7)


def test_uniform_rods():
    arm = Arm.uniform(3, length=2.0, mass=3.0)
    np.testing.assert_allclose(arm.centres, 1.0)
    np.testing.assert_allclose(arm.inertias, 1.0)
    assert arm.links == 3
    # stretched out, it is one rod of length 6 and mass 9 about its end
    np.testing.assert_allclose(arm.mass_matrix(jnp.zeros(3))[0, 0], 9 * 6**2 / 3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Arm.uniform(0), r"links=.*at least 1"),
        (lambda: Arm([], [], [], []), r"lengths=.*\(N,\), not empty"),
        (lambda: Arm(1.0, ONES, ONES, ONES), r"lengths=.*1 axis \(N,\)"),
        (lambda: Arm(ONES, np.ones(3), ONES, ONES), r"masses=.*\(2,\).*\(3,\)"),
        (lambda: Arm(0 * ONES, ONES, ONES, ONES), r"lengths=.*positive"),
        (lambda: Arm(ONES, [1, -1], ONES, ONES), r"masses=.*positive"),
        (lambda: Arm(ONES, ONES, [1, np.nan], ONES), r"centres=.*finite"),
        (lambda: Arm(ONES, ONES, ONES, -ONES), r"inertias=.*negative"),
        (lambda: Arm(ONES, ONES, 0 * ONES, 0 * ONES), r"inertias=.*centre"),
        (lambda: Arm(ONES, ONES, ONES, ONES, np.inf), r"gravity=.*finite"),
    ],
)
def test_an_arm_that_cannot_be_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q0": np.zeros(3)}, r"q0=.*\(2,\).*\(3,\)"),
        ({"qd0": 0.0}, r"qd0=.*\(2,\)"),
        ({"dt": 0.0}, r"dt=.*above 0"),
        ({"steps": 0}, r"steps=.*at least 1"),
        ({"substeps": 0}, r"substeps=.*at least 1"),
        ({"command": lambda t, state: state}, r"command=.*\(2,\).*\(4,\)"),
    ],
)
def test_a_simulation_that_does_not_fit_is_refused(change, message):
    given = {
        "command": Partial(held, 0 * ONES),
        "q0": 0 * ONES,
        "qd0": 0 * ONES,
        "dt": 0.1,
        "steps": 3,
    }
    with pytest.raises(ValueError, match=message):
        simulate(Arm.uniform(2), **{**given, **change})


def test_picture_and_film_are_drawn(tmp_path):
    arm, target = Arm.uniform(3), np.array([1.0, -0.5, 0.3])
    states = np.linspace([-1.0, 0.2, 0.8, 0, 0, 0], [*target, 0, 0, 0], 9)
    arm_picture(tmp_path / "arm.png", arm, states, target)
    arm_picture(tmp_path / "still.png", arm, states[:1, :3], target)
    with Image.open(tmp_path / "arm.png") as picture:
        assert picture.width == picture.height >= 480
        assert np.asarray(picture.convert("L")).min() < 128
    arm_film(tmp_path / "arm.gif", arm, states, target, seconds_per_frame=0.1)
    with Image.open(tmp_path / "arm.gif") as film:
        assert film.size == (480, 480)
        assert film.n_frames == 9
        assert film.info["duration"] == 100
    assert (tmp_path / "arm.gif").stat().st_size < 200_000


@pytest.mark.parametrize(
    ("states", "target", "message"),
    [
        (np.zeros((4, 3)), np.zeros(2), "states"),
        (np.zeros((0, 4)), np.zeros(2), "states"),
        (np.zeros((4, 4)), np.zeros(3), "target"),
        (np.full((4, 4), np.nan), np.zeros(2), "finite"),
    ],
)
def test_pictures_of_what_is_not_a_movement_are_refused(tmp_path, states, target, message):
    with pytest.raises(ValueError, match=message):
        arm_picture(tmp_path / "arm.png", Arm.uniform(2), states, target)
    with pytest.raises(ValueError, match="seconds_per_frame"):
        arm_film(tmp_path / "arm.gif", Arm.uniform(2), np.zeros((4, 4)), np.zeros(2), 0.0)
