"""An environment with randomness of its own, in a module that nobody has installed."""

import gymnasium
import numpy as np


class Noisy(gymnasium.Env):
    """A point that is pushed and shaken; episodes differ in length."""

    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (2,), dtype=np.float64)
    made = 0  # environments of this process

    def __init__(self, fault=-1):
        self.fault = fault
        type(self).made += 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = self.np_random.normal(size=2), 0
        return self.state.copy(), {}

    def step(self, action):
        self.time += 1
        if self.time == self.fault:
            raise RuntimeError("the motor is off")
        self.state = 0.9 * self.state + float(action[0]) + 0.3 * self.np_random.normal(size=2)
        over = bool(self.np_random.random() < 0.1)
        return self.state.copy(), -float(self.state @ self.state), over, self.time >= 15, {}


gymnasium.register(id="Noisy-v0", entry_point=Noisy, max_episode_steps=15)
gymnasium.register(id="Broken-v0", entry_point=Noisy, kwargs={"fault": 5})
