"""Eight small environments on which the preset of training was chosen.

They differ in what presets trip over: offsets and scales of observations, asymmetric boxes, delays,
sparse rewards, short and long episodes, termination of good and of bad episodes, random starts. The
ids are `choosing_tasks:PointMass-v0` and so on, see `TASKS`.
"""

import numpy as np
from gymnasium.spaces import Discrete
from small_tasks import Array, Task, box, register


def pushed(state: Array, force: Array, dt: float = 0.1) -> Array:
    """A mass in the plane or on a line: positions, then velocities."""
    size = len(force)
    velocity = state[size : 2 * size] + dt * force
    return np.concatenate([state[:size] + dt * velocity, velocity])


def at_rest(rng: np.random.Generator, size: int, spread: float = 1.0) -> Array:
    return np.concatenate([rng.uniform(-spread, spread, size), np.zeros(size)])


# -- a mass in the plane, to be brought to the origin: random starts, dense reward


def point_mass(state, action):
    after = pushed(state, action)
    return after, -np.linalg.norm(after[:2]) - 0.01 * action @ action, False


# -- an unstable linear system behind badly scaled observations and asymmetric boxes

SYSTEM = np.array([[1.02, 0.1, 0.0], [0.0, 1.0, 0.1], [-0.05, 0.0, 0.95]])
INPUTS = np.array([[0.0, 0.05], [0.1, 0.0], [0.0, 0.1]])


def badly_scaled(state, action):
    force = (action - np.array([0.0, 20.0])) / np.array([1.0, 10.0])
    after = np.clip(SYSTEM @ state + INPUTS @ force, -20, 20)
    return after, -state @ state - 0.1 * force @ force, False


# -- a mass on a line whose motor answers three steps late; the orders on their way are seen


def delayed(state, action):
    mass, orders = state[:2], state[2:]
    after = pushed(mass, orders[:1])
    return (
        np.concatenate([after, orders[1:], action]),
        -(after[0] ** 2) - 0.1 * after[1] ** 2,
        False,
    )


# -- a goal that pays once and ends the episode; nothing before it pays


def sparse_goal(state, action):
    after = np.clip(state + 0.2 * action, -2, 2)
    found = np.linalg.norm(after - np.array([1.0, 1.0])) < 0.4
    return after, float(found), found


# -- a pole to be kept upright with three pushes; falling ends the episode


def upright(state, action):
    angle, speed = state
    speed = speed + 0.05 * (9.8 * np.sin(angle) + 6.0 * (action - 1))
    angle = angle + 0.05 * speed
    return np.array([angle, speed]), 1.0, abs(angle) > 0.5


# -- 1,000 steps behind a target that wanders on a circle


def tracking(state, action):
    position, phase = state[:2], state[2] + 0.02
    after = position + 0.1 * action
    target = np.array([np.cos(phase), np.sin(phase)])
    return np.append(after, phase), 1 - min(np.linalg.norm(after - target), 2.0), False


def tracking_seen(state):
    return np.concatenate([state[:2], [np.cos(state[2]), np.sin(state[2])]])


# -- a bead on a wavy wire, to be shaken over a ridge: nonlinear, five forces


def ridge(state, action):
    x, v = state
    v = 0.98 * v + 0.1 * (0.5 * (action - 2) / 2 - 0.6 * np.sin(2 * x) * np.cos(x))
    x = np.clip(x + 0.1 * v * 3, -2.2, 2.2)
    return np.array([x, v]), -0.1 * abs(x - 1.6), False


# -- five throws at targets: the angle and the speed that hit depend on the distance


def throws(state, action):
    angle, speed = 0.785 * (1 + 0.8 * action[0]), 2.0 + 1.5 * action[1]
    reach = speed**2 * np.sin(2 * angle) / 3.0
    miss = abs(reach - state[0])
    after = np.array([1.0 + (state[0] * 7.31 + state[1]) % 2.5, state[1]])
    return after, -miss - 0.05 * speed, False


def thrower(rng):
    return np.array([rng.uniform(1.0, 3.5), rng.uniform(0.0, 2.5)])


OFFSETS, SCALES = np.array([1e3, 0.0, -5.0]), np.array([1e3, 1e-3, 1.0])
SQUARE = box((-1, 1), (-1, 1))
TASKS = {
    "PointMass": Task(lambda rng: at_rest(rng, 2), point_mass, SQUARE, 100),
    "BadlyScaled": Task(
        lambda rng: rng.normal(size=3),
        badly_scaled,
        box((-0.5, 3.0), (10.0, 30.0)),
        100,
        lambda state: OFFSETS + SCALES * state,
    ),
    "Delayed": Task(
        lambda rng: np.append(at_rest(rng, 1), np.zeros(3)), delayed, box((-1, 1)), 150
    ),
    "SparseGoal": Task(lambda rng: rng.uniform(-2, 0, 2), sparse_goal, SQUARE, 100),
    "Upright": Task(lambda rng: rng.uniform(-0.1, 0.1, 2), upright, Discrete(3), 500),
    "Tracking": Task(
        lambda rng: np.append(np.zeros(2), rng.uniform(0, 6.28)),
        tracking,
        SQUARE,
        1000,
        tracking_seen,
    ),
    "Ridge": Task(lambda rng: np.array([rng.uniform(-1.8, -1.2), 0.0]), ridge, Discrete(5), 200),
    "Throws": Task(thrower, throws, SQUARE, 5),
}

register(TASKS)
