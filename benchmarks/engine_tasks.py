"""What the workers of `engine.py` do, in a module that they import."""

import time

import gymnasium
import jax.numpy as jnp
import numpy as np

STEPS = 50  # per episode


class Busy(gymnasium.Env):
    """A point that is pushed; a step costs so many seconds of a core."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (2,), dtype=np.float64)

    def __init__(self, cost: float):
        self.cost = cost

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.normal(size=2)
        return self.state.copy(), {}

    def step(self, action):
        end = time.process_time() + self.cost
        while time.process_time() < end:
            pass
        self.state = 0.9 * self.state + float(action[0]) + 0.1 * self.np_random.normal(size=2)
        return self.state.copy(), -float(self.state @ self.state), False, False, {}


for name, cost in (("Busy-v0", 1e-3), ("Idle-v0", 0.0)):
    gymnasium.register(id=name, entry_point=Busy, max_episode_steps=STEPS, kwargs={"cost": cost})


def features(seen):
    return jnp.append(seen, 1.0)


def nothing(number):
    return {"number": number}
