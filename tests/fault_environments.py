"""Environments that break a rule each, as an attack on the library found them."""

import random
import sys

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Faulty(gymnasium.Env):
    """Twenty steps that drift with the action; `fault` says which rule is broken."""

    def __init__(self, fault="", actions=None, scale=1.0, reward=1.0):
        self.fault, self.scale, self.reward = fault, scale, reward
        self.action_space = actions or Discrete(2)
        shape = (0,) if fault == "empty observation" else (2,)
        self.observation_space = Box(-np.inf, np.inf, shape, np.float64)
        self.sent = []
        if fault == "print":
            print("an environment is made")

    def _see(self):
        if self.fault == "shape":
            return np.zeros(3)
        if self.fault == "constant":
            return np.array([self.position, 7.0])
        return self.scale * np.array([self.position, self.time / 20])

    def _noise(self):
        if self.fault == "python randomness":
            return random.gauss(0, 0.1)
        if self.fault in ("global randomness", "seeded global randomness"):
            return 0.1 * np.random.randn()  # noqa: NPY002
        return 0.1 * self.np_random.standard_normal()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.fault == "seeded global randomness":
            np.random.seed(seed)  # noqa: NPY002
        if self.fault == "exit in reset":
            sys.exit(0)
        self.position, self.time = self._noise(), 0
        return self._see() if self.fault == "bare reset" else (self._see(), {})

    def step(self, action):
        self.sent.append(np.array(action))
        if self.fault == "print":
            print("an environment steps")
        if self.fault == "exit in step":
            sys.exit(0)
        self.time += 1
        push = float(np.clip(np.ravel(action)[0], -1, 1))
        self.position += 0.1 * push + self._noise()
        reward = {
            "reward None": None,
            "reward array": np.ones(3),
            "reward text": "much",
            "reward nan": float("nan"),
            "reward positive": self.reward * (1 + self.position**2),
        }.get(self.fault, self.reward * (1 - self.position**2))
        over = self.time >= 20
        if self.fault == "four values":
            return self._see(), reward, over, {}
        return self._see(), reward, over, False, {}


def box(low, high, kind=np.float32):
    return Box(np.array([low], kind), np.array([high], kind), dtype=kind)


KINDS = {
    "Fine-v0": {},
    "Print-v0": {"fault": "print"},
    "Exit-v0": {"fault": "exit in step"},
    "Huge-v0": {"reward": 1e200},
    "Larger-v0": {"fault": "reward positive", "reward": 1e307},
    "Random-v0": {"fault": "global randomness"},
}
for name, settings in KINDS.items():
    gymnasium.register(
        f"fault/{name}", Faulty, kwargs=settings, disable_env_checker=True, order_enforce=False
    )
