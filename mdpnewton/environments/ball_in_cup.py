"""Ball-in-a-cup as a Gymnasium environment, controlled step by step."""

from typing import Any

import numpy as np

from mdpnewton.checks import required
from mdpnewton.domains.ball_in_cup import wam
from mdpnewton.domains.ball_in_cup.model import SENSORS, STEP, ball_start, import_mujoco, load_model
from mdpnewton.domains.ball_in_cup.pictures import Camera
from mdpnewton.domains.ball_in_cup.rollouts import DURATION, WORST, first_crossing, in_cup

required("gymnasium", "an environment")
import gymnasium  # noqa: E402

HOLD = 0.02  # s from one action to the next
REACH = 1.0  # rad: the largest distance of an action from the start


class BallInCupTask(gymnasium.Env):
    """Swing the ball up and catch it, Section 6.6, in 75 steps of 0.02 s.

    Action: the angle that each of the seven joints should have at the end of the step, within
    [-1, 1], in rad from the start. The PD controllers of the joints follow it in a straight line,
    within the torque limits. A value that is not finite ends the episode with reward -100.

    Observation, 20 numbers: the joints' angles relative to the start, their velocities, the ball's
    position relative to the centre of the cup's rim, and the ball's velocity.

    Reward: -20 (x^2 + y^2) when the ball first falls through the plane one radius above the rim,
    where x and y are its distances from the rim's centre in metres; -100 at the end if it never
    did; 0 otherwise. `info` has "crossed", and "caught": whether the ball lies in the cup. Nothing
    is random.

    Args:
        duration: Length of an episode in seconds.
        dt: Length of a simulation step in seconds.
        render_mode: "rgb_array" for pictures, which need off-screen OpenGL, or None.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(
        self, duration: float = DURATION, dt: float = STEP, render_mode: str | None = None
    ):
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(
                f"`BallInCupTask(render_mode=...)` is 'rgb_array' or None, got {render_mode!r}."
            )
        if not duration >= HOLD:
            raise ValueError(
                f"`BallInCupTask(duration=...)` must be at least {HOLD} s, got {duration}."
            )
        mujoco = import_mujoco()
        self.render_mode = render_mode
        self.model = load_model(dt)
        self.data = mujoco.MjData(self.model)
        self.steps, self._inner = round(duration / HOLD), max(1, round(HOLD / dt))
        self._camera: Camera | None = None
        self._targets, self._taken, self._crossed = wam.START, 0, False
        most = np.finfo(np.float32).max
        self.observation_space = gymnasium.spaces.Box(-most, most, (20,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (wam.JOINTS,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """See Gymnasium."""
        super().reset(seed=seed)
        mujoco = import_mujoco()
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[:] = np.concatenate([wam.START, ball_start()])
        mujoco.mj_forward(self.model, self.data)
        self._targets, self._taken, self._crossed = wam.START, 0, False
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """See Gymnasium."""
        wanted = np.asarray(action, dtype=float)
        if wanted.shape != (wam.JOINTS,):
            raise ValueError(f"an action has shape ({wam.JOINTS},), got {wanted.shape}.")
        if not np.isfinite(wanted).all():
            self._taken = self.steps
            return self._observation(), WORST, True, False, self._info()
        goal = np.clip(wam.START + REACH * np.clip(wanted, -1, 1), wam.LOWER, wam.UPPER)
        rims, balls = self._advance(goal)
        reward, crossing = first_crossing(rims[None], balls[None], self.model.opt.timestep)
        now = not self._crossed and bool(np.isfinite(crossing[0]))
        self._crossed, self._taken = self._crossed or now, self._taken + 1
        over = self._taken >= self.steps
        earned = float(reward[0]) if now else WORST if over and not self._crossed else 0.0
        return self._observation(), earned, over, False, self._info()

    def render(self) -> np.ndarray | None:
        """See Gymnasium."""
        if self.render_mode is None:
            return None
        if self._camera is None:
            self._camera = Camera(self.model)
        return self._camera.picture(np.concatenate([[self.data.time], self.data.qpos]))

    def close(self) -> None:
        """See Gymnasium."""
        if self._camera is not None:
            self._camera.close()
            self._camera = None

    def _advance(self, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Positions of rim and ball at the beginning and after each step of the simulation."""
        mujoco = import_mujoco()
        speed = (goal - self._targets) / HOLD
        places = []
        for number in range(1, self._inner + 1):
            here = self._targets + number / self._inner * (goal - self._targets)
            self.data.ctrl[:] = here + wam.DAMPING * speed / wam.STIFFNESS
            mujoco.mj_step(self.model, self.data)
            places.append(self._places())  # positions before the step
        mujoco.mj_forward(self.model, self.data)
        places.append(self._places())
        self._targets = goal
        rims, balls = zip(*places, strict=True)
        return np.array(rims), np.array(balls)

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        return self._sensed("rim"), self._sensed("ball")

    def _sensed(self, name: str) -> np.ndarray:
        names = list(SENSORS)
        first = sum(SENSORS[other] for other in names[: names.index(name)])
        return self.data.sensordata[first : first + SENSORS[name]].copy()

    def _observation(self) -> np.ndarray:
        q, qd = self.data.qpos[: wam.JOINTS] - wam.START, self.data.qvel
        apart = self._sensed("ball") - self._sensed("rim")
        parts = [q, qd[: wam.JOINTS], apart, qd[wam.JOINTS :]]
        return np.concatenate(parts).astype(np.float32)

    def _info(self) -> dict:
        caught = bool(in_cup(self._sensed("in_cup"), self._sensed("speed_in_cup")))
        return {"crossed": self._crossed, "caught": caught}
