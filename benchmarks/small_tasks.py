"""Small environments as functions of their state, for comparisons: what they share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

Array = np.ndarray


@dataclass(frozen=True)
class Task:
    """An environment as functions of its state, a vector.

    Attributes:
        start: Draws the first state.
        step: Gives the next state, the reward and whether the episode terminates.
        observe: What the policy sees of a state.
        actions: Space of actions.
        limit: Number of steps per episode.
    """

    start: Callable[[np.random.Generator], Array]
    step: Callable[[Array, Any], tuple[Array, float, bool]]
    actions: Any
    limit: int
    observe: Callable[[Array], Array] = lambda state: state


class Environment(gymnasium.Env):
    """The Gymnasium environment of a `Task`."""

    def __init__(self, task: Task):
        self.task, self.action_space = task, task.actions
        size = task.observe(task.start(np.random.default_rng(0))).size
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float64)

    def reset(self, *, seed=None, options=None):
        """See Gymnasium."""
        super().reset(seed=seed)
        self.state = self.task.start(self.np_random)
        return self.task.observe(self.state).copy(), {}

    def step(self, action):
        """See Gymnasium."""
        if isinstance(self.action_space, Box):
            action = np.clip(
                np.asarray(action, float), self.action_space.low, self.action_space.high
            )
        self.state, reward, over = self.task.step(self.state, action)
        return self.task.observe(self.state).copy(), float(reward), bool(over), False, {}


def box(*ends: tuple[float, float]) -> Box:
    """A box with these ends, one pair per dimension."""
    low, high = (np.array(end, np.float32) for end in zip(*ends, strict=True))
    return Box(low, high)


def register(tasks: dict[str, Task]) -> None:
    """Let Gymnasium make the tasks as `module:Name-v0`."""
    for name, task in tasks.items():
        gymnasium.register(
            id=f"{name}-v0",
            entry_point=Environment,
            max_episode_steps=task.limit,
            kwargs={"task": task},
        )
