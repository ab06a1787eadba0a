"""What every simulator offers: spaces, a horizon, and episodes played with a policy."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from mdpnewton.simulators.trajectories import Trajectories


class SimulationError(ValueError):
    """An environment that failed in the middle of an episode."""


@dataclass(frozen=True)
class Spaces:
    """What goes in and what comes out.

    Attributes:
        observation: Length of an observation; 0 for integer observations.
        actions: How many actions; None if they are continuous.
        low: Least continuous action, one number a dimension; may be infinite.
        high: Greatest.
    """

    observation: int
    actions: int | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None

    @property
    def action_size(self) -> int:
        """Dimension of a continuous action."""
        return 0 if self.low is None else len(self.low)

    def unit(self) -> "Spaces":
        """The same with continuous actions in [-1, 1]."""
        if self.low is None:
            return self
        return Spaces(self.observation, None, -np.ones(self.action_size), np.ones(self.action_size))

    def half_range(self) -> np.ndarray:
        """Half of high minus low, and 1 where that is infinite."""
        assert self.low is not None
        assert self.high is not None
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        return np.where(bounded, (self.high - self.low) / 2, 1.0)

    def middle(self) -> np.ndarray:
        """Between low and high, and 0 where they are infinite."""
        assert self.low is not None
        assert self.high is not None
        bounded = np.isfinite(self.low) & np.isfinite(self.high)
        return np.where(bounded, (self.high + self.low) / 2, 0.0)


@runtime_checkable
class Simulator(Protocol):
    """Plays episodes. The same key gives the same episodes, however they are spread out."""

    @property
    def spaces(self) -> Spaces:
        """Of observations and actions."""

    @property
    def horizon(self) -> int:
        """Longest episode: there it is truncated, which is not termination."""

    def play(
        self,
        key: PRNGKeyArray,
        policy: Any,
        w: PyTree,
        episodes: int,
        *,
        first: int = 0,
        horizon: int | None = None,
        greedy: bool = False,
    ) -> Trajectories:
        """Whole episodes. An episode depends on the key and its number alone.

        Args:
            key: Of all randomness.
            policy: Gives `sample` and `log_prob`, and `mode` if `greedy`.
            w: Its parameters.
            episodes: How many.
            first: Number of the first of them.
            horizon: Other than the simulator's own.
            greedy: Take the most probable action always.
        """
