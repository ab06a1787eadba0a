"""Gymnasium environments with the dynamics of our domains, in NumPy."""

from typing import Any

import numpy as np

from mdpnewton.checks import required
from mdpnewton.domains import cartpole, navigation
from mdpnewton.environments.drawing import cart_pole_picture, phase_picture

required("gymnasium", "an environment")
import gymnasium  # noqa: E402


class _Simulated(gymnasium.Env):
    """The common part of both environments: a state, and pictures on demand."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None):
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode must be 'rgb_array' or None, got {render_mode!r}.")
        self.render_mode = render_mode
        self.state = np.zeros(2)

    def _observation(self) -> np.ndarray:
        return self.state.astype(np.float32)


class CartPoleSwingUp(_Simulated):
    """Swing up the pole of Section 6.2 by a force on the cart, in 100 steps of 0.1 s.

    Observation: the angle from the upright in [-pi, pi), and its velocity. Action: the force in
    newtons, within 50. Reward: (1 + cos angle) / 2. The pole hangs at the start; an episode never
    terminates.
    """

    def __init__(self, render_mode: str | None = None):
        super().__init__(render_mode)
        high = np.array([np.pi + 1e-6, np.finfo(np.float32).max], np.float32)
        self.observation_space = gymnasium.spaces.Box(-high, high, dtype=np.float32)
        force = np.float32(cartpole.FORCE)
        self.action_space = gymnasium.spaces.Box(-force, force, (1,), np.float32)
        self._force = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """See Gymnasium."""
        super().reset(seed=seed)
        self.state, self._force = np.array([np.pi, 0.0]), 0.0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """See Gymnasium."""
        self._force = float(np.asarray(action).reshape(-1)[0])
        noise = self.np_random.uniform(-1.0, 1.0)
        self.state, reward = cartpole.advance(np, self.state, self._force, noise)
        return self._observation(), float(reward), False, False, {}

    def render(self) -> np.ndarray:
        """See Gymnasium."""
        return cart_pole_picture(float(self.state[0]), self._force / cartpole.FORCE)

    def _observation(self) -> np.ndarray:
        return cartpole.observation(np, self.state).astype(np.float32)


class NavigationTask(_Simulated):
    """Come to rest at the origin, Section 6.3, in 80 steps.

    Observation: position and velocity. Action: the control, within 10. Reward: 1 within 0.1 of
    the origin. Episodes start near (1, 0) and never terminate.
    """

    def __init__(self, render_mode: str | None = None):
        super().__init__(render_mode)
        high = np.full(2, np.finfo(np.float32).max)
        self.observation_space = gymnasium.spaces.Box(-high, high, dtype=np.float32)
        control = np.float32(navigation.CONTROL)
        self.action_space = gymnasium.spaces.Box(-control, control, (1,), np.float32)
        self._trail: list[np.ndarray] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        """See Gymnasium."""
        super().reset(seed=seed)
        noise = self.np_random.normal(size=2)
        self.state = np.array([1.0, 0.0]) + navigation.START_NOISE * noise
        self._trail = [self.state]
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """See Gymnasium."""
        control = float(np.asarray(action).reshape(-1)[0])
        self.state, reward = navigation.advance(np, self.state, control, self.np_random.normal())
        self._trail.append(self.state)
        return self._observation(), float(reward), False, False, {}

    def render(self) -> np.ndarray:
        """See Gymnasium."""
        return phase_picture(np.array(self._trail), navigation.RADIUS)
