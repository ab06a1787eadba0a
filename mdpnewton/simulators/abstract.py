"""What every simulator offers: spaces, a horizon, and episodes played with a policy."""

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from mdpnewton.checks import refuse, whole
from mdpnewton.simulators.trajectories import Trajectories


class SimulationError(ValueError):
    """An environment failed in the middle of an episode."""


class DivergedError(SimulationError):
    """A compiled simulator arrived at a number that is not finite, as under a wild policy."""


@dataclass(frozen=True)
class Spaces:
    """Sizes and bounds of observations and actions.

    Attributes:
        observation: Length of an observation; 0 for integer observations.
        actions: Number of actions; None if they are continuous or vectors of choices.
        low: Smallest continuous action, one number per dimension; entries may be infinite.
        high: Largest continuous action, one number per dimension; entries may be infinite.
        choices: Number of choices in each entry of an action that is a vector of them.
        still: Continuous action that does nothing; by default 0, or the end that is nearest to it.
    """

    observation: int
    actions: int | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    choices: tuple[int, ...] | None = None
    still: np.ndarray | None = None

    def __post_init__(self) -> None:
        whole("Spaces", "observation", self.observation)
        bounds = [end is not None for end in (self.low, self.high)]
        discrete = [self.actions is not None, self.choices is not None]
        if bounds != [not any(discrete)] * 2 or all(discrete):
            rule = "must be given, or `low` and `high` instead of it, or `choices`"
            refuse("Spaces", "actions", rule)
        if self.actions is not None:
            whole("Spaces", "actions", self.actions, 1)
        if self.choices is not None:
            for number in self.choices:
                whole("Spaces", "choices", number, 1)
        if any(discrete):
            return
        low, high = np.asarray(self.low), np.asarray(self.high)
        if low.ndim != 1 or low.shape != high.shape:
            refuse("Spaces", "low", f"needs shape (k,) like `high`, got {low.shape}, {high.shape}")
        if not (low <= high).all():
            refuse("Spaces", "low", f"must not exceed `high`, got {low} and {high}")
        if self.still is None:
            object.__setattr__(self, "still", np.clip(np.zeros(len(low)), low, high))
        elif np.shape(self.still) != low.shape:
            refuse("Spaces", "still", f"needs shape {low.shape}, got {np.shape(self.still)}")

    @property
    def action_size(self) -> int:
        """Dimension of a continuous action."""
        return 0 if self.low is None else len(self.low)

    @property
    def continuous(self) -> bool:
        """Whether actions are continuous."""
        return self.low is not None

    def unit(self) -> "Spaces":
        """The same spaces with continuous actions in [-1, 1]; ends that are infinite stay so."""
        if self.low is None:
            return self
        still = (self.still - self.middle()) / np.where(self.half_range() > 0, self.half_range(), 1)
        assert self.high is not None
        low = np.where(np.isfinite(self.low), -1.0, -np.inf)
        high = np.where(np.isfinite(self.high), 1.0, np.inf)
        return Spaces(self.observation, None, low, high, still=still)

    def timed(self) -> "Spaces":
        """The same spaces with the time as one more observation."""
        return replace(self, observation=self.observation + 1)

    def half_range(self) -> np.ndarray:
        """Half of high minus low, or 1 where that is infinite."""
        assert self.low is not None
        assert self.high is not None
        with np.errstate(invalid="ignore"):
            half = self.high / 2 - self.low / 2  # the difference of huge bounds would be infinite
        return np.where(np.isfinite(half), half, 1.0)

    def middle(self) -> np.ndarray:
        """What the unit action 0 stands for.

        That is the midpoint of low and high; 0 where both are infinite; and 1 from the finite one
        where only one is, so that -1 or 1 stands for it.
        """
        assert self.low is not None
        assert self.high is not None
        below, above = np.isfinite(self.low), np.isfinite(self.high)
        with np.errstate(invalid="ignore"):
            middle = self.high / 2 + self.low / 2
        one_end = np.where(below, self.low + 1, np.where(above, self.high - 1, 0.0))
        return np.where(below & above, middle, one_end)


@runtime_checkable
class Simulator(Protocol):
    """Plays episodes. The same key gives the same episodes, however they are distributed."""

    @property
    def spaces(self) -> Spaces:
        """Spaces of observations and actions."""

    @property
    def horizon(self) -> int:
        """Maximum length of an episode. An episode that reaches it is truncated, not terminated."""

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
        """Play whole episodes. An episode depends on the key and its number alone.

        Args:
            key: Random key.
            policy: Policy that gives `sample` and `log_prob`, and `mode` if `greedy`.
            w: Parameters of the policy.
            episodes: Number of episodes.
            first: Number of the first episode.
            horizon: Maximum length of an episode; None for the simulator's own.
            greedy: Whether to take the most probable action always.
        """


def check_play(simulator: Simulator, episodes: int, first: int, horizon: int | None) -> int:
    """The horizon to play to, after a check of the arguments of `play`."""
    call = f"{type(simulator).__name__}.play"
    whole(call, "episodes", episodes, 1)
    whole(call, "first", first)
    return simulator.horizon if horizon is None else whole(call, "horizon", horizon, 1)
