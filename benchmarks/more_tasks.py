"""Eight more small environments for choosing.

They differ from those of choosing_tasks.py in what moves and in what pays: a ball on a beam, a
reservoir, heated rooms, a docking ship, a shaken pendulum, an arm, traffic lights, a toss. The ids
are `more_tasks:Ball-v0` and so on, see `TASKS`.
"""

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from small_tasks import Array, Task, box, register

# -- a ball on a beam that is tilted by a motor; an episode ends when the ball falls off


def ball(state, action):
    place, speed, tilt = state
    tilt = np.clip(tilt + 0.05 * action[0], -0.3, 0.3)
    speed = 0.99 * speed + 0.05 * 7.0 * np.sin(tilt)
    place = place + 0.05 * speed
    return np.array([place, speed, tilt]), 1 - place**2, abs(place) > 1


# -- a reservoir with wet and dry seasons, measured in thousands; four gates, 1,000 days


def reservoir(state, action):
    level, day, weather = state
    inflow = 20 + 12 * np.sin(0.05 * day) + 4 * weather
    level = np.clip(level + inflow - (0.0, 15.0, 25.0, 40.0)[action], 0, 2000)
    weather = 0.9 * weather + 0.4 * np.sin(1.7 * day + 3 * weather)  # as good as random
    return np.array([level, day + 1, weather]), 1 - ((level - 1000) / 500) ** 2, False


def reservoir_seen(state):
    level, day, weather = state
    return np.array([level, 1000 * np.sin(0.05 * day), 1000 * np.cos(0.05 * day), weather])


# -- two rooms, in kelvin, with a heater each that cannot cool; energy costs


def rooms(state, action):
    cold = 278.0
    exchange = 0.03 * (state[1] - state[0])
    after = state + np.array([exchange, -exchange]) - 0.02 * (state - cold) + 0.2 * action
    wish = np.array([294.0, 291.0])
    return after, -0.1 * np.abs(after - wish).sum() - 0.02 * action.sum(), False


# -- a ship that has to touch the dock at the origin slowly; touching ends the episode


def ship(state, action):
    place, speed = state[:2], state[2:]
    speed = 0.97 * speed + 0.06 * action
    place = place + 0.1 * speed
    distance, pace = np.linalg.norm(place), np.linalg.norm(speed)
    touches = distance < 0.15
    reward = -0.1 - 0.05 * distance + (20 - 30 * pace if touches else 0)
    return np.concatenate([place, speed]), reward, touches


# -- a pendulum whose pivot is shaken sideways: height pays, and so does stillness there


def shaken(state, action):
    angle, speed = state
    push = 3.0 * action[0] * np.cos(angle)
    speed = np.clip(0.995 * speed + 0.05 * (9.8 * np.sin(angle) + push), -12, 12)
    angle = angle + 0.05 * speed
    upright = (1 + np.cos(angle)) / 2
    return np.array([angle, speed]), upright - 0.01 * speed**2 * upright, False


def shaken_seen(state):
    return np.array([np.sin(state[0]), np.cos(state[0]), state[1]])


# -- an arm of two links in the plane, whose hand follows a target that stands still


def arm(state, action):
    joints = state[:2] + 0.15 * action
    hand = hand_of(joints)
    reward = -np.linalg.norm(hand - state[2:]) - 0.01 * action @ action
    return np.concatenate([joints, state[2:]]), reward, False


def hand_of(joints: Array) -> Array:
    elbow = joints.sum()
    return np.array(
        [np.cos(joints[0]) + 0.7 * np.cos(elbow), np.sin(joints[0]) + 0.7 * np.sin(elbow)]
    )


def arm_seen(state):
    joints = state[:2]
    return 1e-3 * np.concatenate([np.sin(joints), np.cos(joints), hand_of(joints), state[2:]])


def arm_start(rng):
    reach, angle = rng.uniform(0.5, 1.5), rng.uniform(-2.0, 2.0)
    target = reach * np.array([np.cos(angle), np.sin(angle)])
    return np.concatenate([rng.uniform(-1.0, 1.0, 2), target])


# -- two crossings in a row, each with a light of two phases; waiting cars cost


def lights(state, action):
    queues, time = state[:4].copy(), state[4]
    arriving = np.array([1.0, 0.6 + 0.4 * np.sin(0.1 * time), 0.3, 0.7])
    queues += arriving
    for crossing in (0, 1):
        served = 2 * crossing + action[crossing]
        through = min(queues[served], 2.0)
        queues[served] -= through
        if served == 0:
            queues[2] += 0.5 * through  # half of them go on to the second crossing
    queues = np.minimum(queues, 30.0)
    return np.append(queues, time + 1), -0.1 * queues.sum(), False


def lights_seen(state):
    return np.concatenate([state[:4], [np.sin(0.1 * state[4]), np.cos(0.1 * state[4])]])


# -- a stone that is swung and let go after twelve steps; only where it lands pays


def toss(state, action):
    angle, speed, target, time = state
    speed = 0.98 * speed + 0.8 * action[0] - 0.3 * np.sin(angle)
    angle, time = angle + 0.1 * speed, time + 1
    if time < 12:
        return np.array([angle, speed, target, time]), -0.01 * action[0] ** 2, False
    flight = speed * np.cos(angle) * (1.5 + max(speed * np.sin(angle), 0.0) / 5)
    return np.array([angle, speed, target, time]), -abs(flight - target), True


TASKS = {
    "Ball": Task(
        lambda rng: np.array([rng.uniform(-0.5, 0.5), rng.uniform(-0.3, 0.3), 0.0]),
        ball,
        box((-1, 1)),
        300,
    ),
    "Reservoir": Task(
        lambda rng: np.array([rng.uniform(500, 1500), rng.uniform(0, 120), 0.0]),
        reservoir,
        Discrete(4),
        1000,
        reservoir_seen,
    ),
    "Rooms": Task(lambda rng: rng.uniform(280, 290, 2), rooms, box((0, 5), (0, 5)), 200),
    "Ship": Task(
        lambda rng: np.append(rng.uniform(0.5, 1.5, 2) * rng.choice([-1, 1], 2), np.zeros(2)),
        ship,
        box((-1, 1), (-0.5, 1.5)),
        150,
    ),
    "Shaken": Task(
        lambda rng: np.array([np.pi + rng.uniform(-0.3, 0.3), 0.0]),
        shaken,
        box((-1, 1)),
        250,
        shaken_seen,
    ),
    "Arm": Task(arm_start, arm, box((-1, 1), (-1, 1)), 60, arm_seen),
    "Lights": Task(
        lambda rng: np.append(rng.uniform(0, 10, 4), rng.uniform(0, 60)),
        lights,
        MultiDiscrete([2, 2]),
        100,
        lights_seen,
    ),
    "Toss": Task(
        lambda rng: np.array([rng.uniform(-0.3, 0.3), 0.0, rng.uniform(2.0, 6.0), 0.0]),
        toss,
        box((-1, 1)),
        12,
        lambda state: state[:3],
    ),
}

register(TASKS)
