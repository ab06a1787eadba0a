"""A finite-state controller that acts with NumPy alone; an export is made of this file."""

from typing import Any

import numpy as np


class Remembering:
    """Chooses actions for observations one by one, and keeps the node of its memory.

    Args:
        observations: Names of the observations.
        blank: Whether the last of these is the one before the first has arrived.
        greedy: Whether it takes the most probable node and action by default, or draws them.
        initial: Probabilities of the first node, by observation.
        transition: Those of the next node, by node and observation.
        action: Those of the action, by node and observation.

    Attributes:
        node: The node after the last action; None when an episode begins.
    """

    def __init__(
        self,
        observations: list[str],
        blank: bool,
        greedy: bool,
        initial: np.ndarray,
        transition: np.ndarray,
        action: np.ndarray,
    ):
        self.node: int | None = None
        self._blank, self._greedy = blank, greedy
        self._initial, self._transition, self._action = initial, transition, action
        self._numbers = {name: n for n, name in enumerate(observations)}
        self._generator: np.random.Generator | None = None

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode.

        Args:
            seed: Random seed of nodes and actions from now on.
        """
        self.node = None
        if seed is not None:
            self._generator = np.random.default_rng(seed)

    def act(
        self,
        observation: Any = None,
        *,
        greedy: bool | None = None,
        rng: np.random.Generator | None = None,
    ) -> int:
        """The number of an action, after which the memory is in its next node.

        Args:
            observation: Number or name of the observation that has arrived; None before the first
                one, if the problem shows none in the beginning.
            greedy: Whether to take the most probable node and action or to draw them; by default as
                the controller does.
            rng: NumPy generator to draw with; by default the controller's own.
        """
        seen = self._number(observation)
        nodes = self._initial[seen] if self.node is None else self._transition[self.node, seen]
        if self._greedy if greedy is None else greedy:
            both = nodes[:, None] * self._action[:, seen]
            self.node, action = (int(n) for n in np.unravel_index(both.argmax(), both.shape))
            return action
        if rng is None:
            self._generator = self._generator or np.random.default_rng()
            rng = self._generator
        self.node = _drawn(nodes, rng)
        return _drawn(self._action[self.node, seen], rng)

    def _number(self, observation: Any) -> int:
        count = len(self._numbers)
        if observation is None and self._blank and self.node is None:
            return count - 1
        number = self._numbers.get(observation, observation)
        if not isinstance(number, int | np.integer) or not 0 <= number < count:
            known = ", ".join(map(str, self._numbers))
            raise ValueError(
                f"`act(observation)` needs a number below {count} or one of {known}, got "
                f"{observation!r}."
            )
        return int(number)


def _drawn(probabilities: np.ndarray, rng: np.random.Generator) -> int:
    """The number of an entry that is drawn."""
    passed = probabilities.cumsum() <= rng.random() * probabilities.sum()
    return int(min(passed.sum(), len(probabilities) - 1))
