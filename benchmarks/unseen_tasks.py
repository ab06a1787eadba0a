"""Eight small environments on which nothing was chosen.

A glider, a heated tank, a swing, an errand, a warehouse, a juggled ball, a chain of springs, a
satellite. The ids are `unseen_tasks:Glider-v0` and so on, see `TASKS`.
"""

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from small_tasks import Array, Task, box, register

# -- a glider in still air, in metres; the ground ends the flight, and what pays is the way


def glider(state, action):
    way, height, speed, slope = state
    attack = 0.05 + 0.1 * action[0]
    lift, drag = 0.5 * attack * speed**2, 0.002 * speed**2 * (1 + 300 * attack**2)
    speed = max(speed - 0.1 * (9.81 * np.sin(slope) + drag), 1.0)
    slope = np.clip(slope + 0.1 * (lift - 9.81 * np.cos(slope)) / speed, -1.2, 1.2)
    moved = 0.1 * speed * np.array([np.cos(slope), np.sin(slope)])
    after = np.array([way + moved[0], height + moved[1], speed, slope])
    return after, 0.1 * moved[0], after[1] <= 0


# -- a tank with a heater and a drain that can only open, held at a level and a temperature


def tank(state, action):
    level, heat, wish = state
    drain, heater = action
    inflow, cold = 0.05, 285.0
    heat = heat + (inflow * (cold - heat) + 0.4 * heater) / max(level, 0.2)
    level = np.clip(level + inflow - 0.08 * drain * np.sqrt(level), 0.1, 3.0)
    cost = 0.05 * abs(heat - wish) + abs(level - 1.5) + 0.01 * heater
    return np.array([level, heat, wish]), -cost, False


# -- a swing that is pumped by standing up and sitting down; height pays


def swing(state, action):
    angle, speed, length = state
    after = np.clip(length + 0.1 * action[0], 0.8, 1.2)
    speed = speed * (length / after) ** 2 - 0.05 * 9.81 / after * np.sin(angle)
    speed = 0.998 * speed
    return np.array([angle + 0.05 * speed, speed, after]), 1 - np.cos(angle), False


def swing_seen(state):
    return 1e-3 * np.array([np.sin(state[0]), np.cos(state[0]), state[1], state[2]])


# -- an errand in a room: fetch at one place, which pays a little, and bring to another, the end

DOOR, DESK = np.array([-0.7, 0.6]), np.array([0.7, -0.5])
MOVES = 0.15 * np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])


def errand(state, action):
    place, has = np.clip(state[:2] + MOVES[action], -1, 1), state[2]
    if not has and np.linalg.norm(place - DOOR) < 0.3:
        return np.append(place, 1.0), 2.0, False
    if has and np.linalg.norm(place - DESK) < 0.3:
        return np.append(place, 1.0), 5.0, True
    return np.append(place, has), -0.02, False


# -- a warehouse whose orders take four days; what is missing costs more than what lies there


def warehouse(state, action):
    stock, day, coming = state[0], state[1], state[2:]
    wanted = 100 + 60 * np.sin(0.3 * day) + 25 * np.sin(2.9 * day + 1.3 * np.sin(7.1 * day))
    stock = np.clip(stock + coming[0] - wanted, -1000, 2000)
    cost = 0.002 * max(stock, 0.0) + 0.01 * max(-stock, 0.0)
    return np.concatenate([[stock, day + 1], coming[1:], action]), -cost, False


def warehouse_seen(state):
    return np.concatenate([state[:1], [np.sin(0.3 * state[1]), np.cos(0.3 * state[1])], state[2:]])


# -- a ball on a racket: it must neither fall nor fly away, and half a metre up is best


def juggled(state, action):
    height, speed, racket = state
    moved = np.clip(racket + 0.05 * action[0], -0.3, 0.3)
    speed, lift = speed - 0.02 * 9.81, (moved - racket) / 0.02
    height = height + 0.02 * speed
    if height < moved and speed < lift:
        height, speed = moved, lift + 0.8 * (lift - speed)
    after = np.array([height, speed, moved])
    return after, 1 - 2 * abs(height - 0.5), height < -0.3 or height > 2


# -- five masses in a row between springs, of which the first is driven: 1,000 steps, to be stilled


def springs(state, action):
    places, speeds = state[:5], state[5:]
    wall = np.concatenate([[0.0], places, [0.0]])
    force = 4 * (wall[:-2] - 2 * places + wall[2:]) - 0.02 * speeds
    force[0] += action[0]
    speeds = speeds + 0.05 * force
    after = np.concatenate([places + 0.05 * speeds, speeds])
    return after, -(places @ places) - 0.1 * (speeds @ speeds) - 0.001 * action[0] ** 2, False


# -- a satellite that turns by jets, forwards, off or backwards, on two axes that pull each other


def satellite(state, action):
    angles, rates = state[:2], state[2:]
    turn = 0.1 * (np.asarray(action) - 1.0) + 0.15 * rates[::-1] * np.array([1.0, -1.0])
    rates = np.clip(rates + turn, -3, 3)
    angles = (angles + 0.1 * rates + np.pi) % (2 * np.pi) - np.pi
    fuel = 0.02 * np.abs(np.asarray(action) - 1.0).sum()
    return np.concatenate([angles, rates]), -0.3 * np.abs(angles).sum() - fuel, False


def satellite_seen(state):
    return np.concatenate([np.sin(state[:2]), np.cos(state[:2]), 100 * state[2:]])


def drawn(low: float, high: float, size: int, *more: float) -> object:
    """A start that is uniform in some entries, with the others given."""

    def start(rng: np.random.Generator) -> Array:
        return np.append(rng.uniform(low, high, size), more)

    return start


TASKS = {
    "Glider": Task(
        lambda rng: np.array([0.0, rng.uniform(20, 40), rng.uniform(10, 18), 0.0]),
        glider,
        box((-1, 1)),
        400,
        lambda state: state[1:],
    ),
    "Tank": Task(
        lambda rng: rng.uniform([0.5, 285.0, 300.0], [2.5, 305.0, 320.0]),
        tank,
        box((0, 1), (0, 10)),
        200,
    ),
    "Swing": Task(drawn(-0.3, 0.3, 2, 1.0), swing, box((-1, 1)), 300, swing_seen),
    "Errand": Task(drawn(-1, 1, 2, 0.0), errand, Discrete(5), 60),
    "Warehouse": Task(
        lambda rng: np.array([rng.uniform(0, 400), rng.uniform(0, 20), 100, 100, 100, 100]),
        warehouse,
        box((0, 300)),
        120,
        warehouse_seen,
    ),
    "Juggled": Task(
        lambda rng: np.array([rng.uniform(0.2, 0.8), rng.uniform(-1, 1), 0.0]),
        juggled,
        box((-1, 1)),
        300,
    ),
    "Springs": Task(drawn(-0.5, 0.5, 10), springs, box((-2, 3)), 1000),
    "Satellite": Task(
        drawn(-2, 2, 2, 0.0, 0.0), satellite, MultiDiscrete([3, 3]), 120, satellite_seen
    ),
}

register(TASKS)
