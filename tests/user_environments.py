"""Environments as a user's module registers them, good and bad."""

import gymnasium
import numpy as np


class Walk(gymnasium.Env):
    """Ten steps on a line; reward for going right; `fault` says what breaks, and when."""

    def __init__(self, fault=None, after=0, actions=None, observations=None, limit=10):
        self.fault, self.after, self.limit = fault, after, limit
        self.action_space = actions or gymnasium.spaces.Discrete(2, start=1)
        self.observation_space = observations or gymnasium.spaces.Box(-20.0, 20.0, (1,))
        self.total = 0

    def _see(self):
        return np.array([self.position], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.time = float(self.np_random.integers(-1, 2)), 0
        return self._see(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.total += 1
        self.time += 1
        self.position += 1 if np.ravel(action)[0] > 1 else -1
        broken = self.total > self.after
        if self.fault == "raise" and broken:
            raise RuntimeError("the motor is off")
        reward = float("nan") if self.fault == "reward" and broken else self.position
        seen = self._see()
        if self.fault == "observation" and broken:
            seen = seen * np.nan
        over = self.time >= self.limit
        return seen, reward, over and self.fault != "endless", False, {}


def box(*shape):
    return gymnasium.spaces.Box(-1.0, 1.0, shape)


KINDS = {
    "Walk-v0": {},
    "Endless-v0": {"fault": "endless"},
    "Raises-v0": {"fault": "raise", "after": 1200},
    "NaNReward-v0": {"fault": "reward", "after": 1200},
    "NaNObservation-v0": {"fault": "observation", "after": 1200},
    "Image-v0": {"observations": box(8, 8, 3)},
    "DictImage-v0": {"observations": gymnasium.spaces.Dict(a=box(2), b=box(4, 4))},
    "Text-v0": {"observations": gymnasium.spaces.Text(5)},
    "DictActions-v0": {"actions": gymnasium.spaces.Dict(a=box(1))},
}
for name, settings in KINDS.items():
    gymnasium.register(id=f"user/{name}", entry_point=Walk, kwargs=settings)
