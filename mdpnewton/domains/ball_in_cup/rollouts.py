"""Plays many movements at once on the simulated arm and rewards them, Section 6.6."""

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from mdpnewton.domains.ball_in_cup import wam
from mdpnewton.domains.ball_in_cup.model import (
    BALL_RADIUS,
    CUP_HEIGHT,
    CUP_RADIUS,
    SENSORS,
    STEP,
    ball_start,
    import_mujoco,
    load_arm,
    load_model,
)
from mdpnewton.domains.ball_in_cup.primitives import Movement, Primitives

WORST = -100.0  # the reward of a ball that never falls through the plane
SLOPE = 20.0  # slope of the reward, per squared metre
PLANE = BALL_RADIUS  # m above the rim
DURATION = 1.5  # s
REST = 0.1  # m/s, relative to the cup: a slower ball is at rest
SETTLING = 0.1  # s at the end during which a caught ball is inside the cup and at rest
FEED = 0.008  # s between two feed-forward torques, which are interpolated between
FAR, FAST, HARD = np.pi, 50.0, 5000.0  # absurd above: rad beyond the limits, rad/s, rad/s^2


@dataclass(frozen=True)
class Rollouts:
    """The outcomes of n movements.

    Attributes:
        reward: $-20 ((x_c - x_b)^2 + (y_c - y_b)^2)$ at the first moment when the ball crosses the
            plane downwards; -100 if it never does or was not simulated; shape (n,).
        crossing: The moment of that crossing in seconds, NaN if there is none.
        caught: Whether the ball lies in the cup at the end.
        simulated: Whether the movement was simulated. Movements that are not finite or absurd are
            not.
        height: Greatest height of the ball above the plane in metres, negative if it stayed below.
        string: Greatest length of the string in metres.
        torque: Largest torque of each joint, shape (n, 7).
        error: Largest deviation of the joints from the plan, in rad.
        states: Positions and velocities after each step, shape (n, steps, 21), if kept: time,
            seven angles, the ball, and their velocities.
    """

    reward: Float[np.ndarray, " n"]
    crossing: Float[np.ndarray, " n"]
    caught: Bool[np.ndarray, " n"]
    simulated: Bool[np.ndarray, " n"]
    height: Float[np.ndarray, " n"]
    string: Float[np.ndarray, " n"]
    torque: Float[np.ndarray, "n 7"]
    error: Float[np.ndarray, " n"]
    states: np.ndarray | None = None


class BallInCup:
    """The game as a function of the primitives' weights; calling it gives the rewards.

    Paper: the plane is level with the cup. Here: one ball radius above the rim, because a ball
    that touches the rim is already deflected when its centre reaches the rim's height.

    Paper: 20 s per episode. Here: 1.5 s, half a second more than the movement takes, because a
    ball that was not thrown high enough may swing round and cross the plane later, far from
    the cup. Of 60 samples of the experiment's first policy 2 cross within 1.5 s, 8 more before
    1.75 s, and no other in 8 s: these 8 earn -100 here, and about -2 in a longer episode.

    Attributes:
        primitives: The primitives that turn weights into movements.
        dt: Seconds per time step.
        steps: Number of time steps per episode.
        threads: Number of rollouts that run at once. The results do not depend on it.
    """

    def __init__(
        self,
        primitives: Primitives | None = None,
        *,
        dt: float = STEP,
        duration: float = DURATION,
        threads: int = 1,
    ):
        if threads < 1:
            raise ValueError(f"`BallInCup(threads=...)` must be at least 1, got {threads}.")
        if not duration >= 2 * SETTLING:
            raise ValueError(
                f"`BallInCup(duration=...)` must be at least {2 * SETTLING} s, got {duration}."
            )
        mujoco = import_mujoco()
        self.primitives = Primitives(wam.START) if primitives is None else primitives
        if self.primitives.start.size != wam.JOINTS:
            raise ValueError(
                f"`BallInCup(primitives=...)` needs {wam.JOINTS} joints, got "
                f"{self.primitives.start.size}."
            )
        self.model = load_model(dt)
        self.dt, self.steps, self.threads = dt, round(duration / dt), threads
        self._data = [mujoco.MjData(self.model) for _ in range(threads)]
        self._arm = load_arm()
        self._start = self._state_of(self.primitives.start)

    def __call__(self, weights: ArrayLike) -> Float[np.ndarray, " n"]:
        """The rewards of weights of shape (n, 7 * bases)."""
        return self.play(weights).reward

    def play(self, weights: ArrayLike, *, keep: bool = False) -> Rollouts:
        """Play movements given by weights of shape (n, 7 * bases) or (n, 7, bases).

        Args:
            weights: Weights of the primitives. No values make this fail or write a file.
            keep: Whether to keep the states.
        """
        w = np.asarray(weights, dtype=float)
        w = self.primitives.shaped(w.reshape(1, -1) if w.ndim == 1 else w)
        with np.errstate(all="ignore"):  # absurd weights overflow and are then left out
            sensible = np.isfinite(w).all(axis=(1, 2)) & (np.abs(w) < 1e9).all(axis=(1, 2))
            sensible[sensible] = self._sensible(w[sensible])
        return self._played(w, sensible, keep)

    def controls(self, weights: ArrayLike) -> tuple[np.ndarray, Movement]:
        """The controls of the motors, shape (n, steps, 7), and the desired movement."""
        wanted = self.primitives.movement(weights, self.dt, self.steps)
        feedback = wanted.q + wam.DAMPING * wanted.qd / wam.STIFFNESS
        return feedback + self._torques(weights) / wam.STIFFNESS, wanted

    def _torques(self, weights: ArrayLike) -> np.ndarray:
        """The torques of inverse dynamics, shape (n, steps, 7)."""
        mujoco = import_mujoco()
        times = self.dt * np.arange(self.steps)
        points = int(np.ceil(times[-1] / FEED)) + 1
        planned = self.primitives.movement(weights, FEED, points)
        n = len(planned.q)
        rows = [part.reshape(-1, wam.JOINTS) for part in planned]
        found = np.empty_like(rows[0])
        data = mujoco.MjData(self._arm)
        q, qd, qdd, torque = data.qpos, data.qvel, data.qacc, data.qfrc_inverse
        for index, (q[:], qd[:], qdd[:]) in enumerate(zip(*rows, strict=True)):
            mujoco.mj_inverse(self._arm, data)
            found[index] = torque
        found = found.reshape(n, points, wam.JOINTS)
        left = np.minimum((times / FEED).astype(int), points - 2)
        share = (times / FEED - left)[:, None]
        return (1 - share) * found[:, left] + share * found[:, left + 1]

    def _sensible(self, w: np.ndarray) -> np.ndarray:
        q, qd, qdd = self.primitives.movement(w, self.dt, self.steps)
        near = (q > wam.LOWER - FAR) & (q < wam.UPPER + FAR)
        return (near & (np.abs(qd) < FAST) & (np.abs(qdd) < HARD)).all(axis=(1, 2))

    def _played(self, w: np.ndarray, sensible: np.ndarray, keep: bool) -> Rollouts:
        n = len(w)
        found = Rollouts(
            reward=np.full(n, WORST),
            crossing=np.full(n, np.nan),
            caught=np.zeros(n, bool),
            simulated=sensible.copy(),
            height=np.full(n, np.nan),
            string=np.full(n, np.nan),
            torque=np.full((n, wam.JOINTS), np.nan),
            error=np.full(n, np.nan),
            states=np.full((n, self.steps, self._start.size), np.nan) if keep else None,
        )
        if not sensible.any():
            return found
        rollout = importlib.import_module("mujoco.rollout").rollout
        controls, wanted = self.controls(w[sensible])
        states, sensed = rollout(self.model, self._data, self._start[None], controls)
        seen = _by_name(sensed)
        reward, crossing = first_crossing(seen["rim"], seen["ball"], self.dt)
        found.reward[sensible], found.crossing[sensible] = reward, crossing
        found.caught[sensible] = self._caught(seen)
        found.height[sensible] = above_plane(seen["rim"], seen["ball"]).max(axis=1)
        found.string[sensible] = seen["string"].max(axis=(1, 2))
        found.torque[sensible] = np.abs(seen["torque"]).max(axis=1)
        q = states[:, :-1, 1 : 1 + wam.JOINTS]  # after each step
        found.error[sensible] = np.abs(q - wanted.q[:, 1:]).max(axis=(1, 2), initial=0.0)
        if found.states is not None:
            found.states[sensible] = states
        return found

    def _caught(self, seen: dict[str, np.ndarray]) -> np.ndarray:
        last = slice(-round(SETTLING / self.dt), None)
        inside = in_cup(seen["in_cup"][:, last], seen["speed_in_cup"][:, last])
        return np.all(inside, axis=1)

    def _state_of(self, q: np.ndarray) -> np.ndarray:
        """The state at time zero: everything is at rest and the ball hangs."""
        still = np.zeros(wam.JOINTS + 3)
        return np.concatenate([[0.0], q, ball_start(q), still])


def first_crossing(
    rim: Float[np.ndarray, "n steps 3"], ball: Float[np.ndarray, "n steps 3"], dt: float
) -> tuple[np.ndarray, np.ndarray]:
    """The rewards, and the moments at which the ball first crosses the plane downwards.

    Positions are interpolated linearly between two steps.
    """
    above = above_plane(rim, ball)
    down = (above[:, :-1] > 0) & (above[:, 1:] <= 0)
    crosses = down.any(axis=1)
    row, step = np.arange(len(above)), down.argmax(axis=1)
    before, after = above[row, step], above[row, step + 1]
    share = np.where(crosses, before / np.where(crosses, before - after, 1.0), 0.0)[:, None]
    apart = (ball - rim)[..., :2]
    miss = (1 - share) * apart[row, step] + share * apart[row, step + 1]
    reward = np.where(crosses, -SLOPE * (miss**2).sum(axis=1), WORST)
    # A ball that crosses far away must not earn less than one that never does.
    reward = np.maximum(reward, WORST)
    return reward, np.where(crosses, dt * (step + share[:, 0]), np.nan)


def above_plane(
    rim: Float[np.ndarray, "... 3"], ball: Float[np.ndarray, "... 3"]
) -> Float[np.ndarray, "..."]:
    """Height of the ball's centre above the plane, in metres."""
    return ball[..., 2] - rim[..., 2] - PLANE


def in_cup(
    position: Float[np.ndarray, "... 3"], velocity: Float[np.ndarray, "... 3"]
) -> Bool[np.ndarray, "..."]:
    """Whether the ball is inside the cup and at rest, both relative to the rim's centre."""
    across = np.hypot(position[..., 0], position[..., 1]) < CUP_RADIUS
    deep = (position[..., 2] < 0) & (position[..., 2] > -CUP_HEIGHT)
    return across & deep & (np.linalg.norm(velocity, axis=-1) < REST)


def _by_name(sensed: np.ndarray) -> dict[str, Any]:
    ends = np.cumsum(list(SENSORS.values()))[:-1]
    return dict(zip(SENSORS, np.split(sensed, ends, axis=-1), strict=True))
