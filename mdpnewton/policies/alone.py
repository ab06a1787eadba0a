"""Pieces of policies that act with NumPy alone; the file of an export has those that it needs."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Read = Callable[[Any], np.ndarray]  # from raw observations to their vector, or to rows
Plain = Callable[[np.ndarray], np.ndarray]
Choose = Callable[[np.ndarray, np.random.Generator | None], Any]
MOST = 1 - 1e-9  # largest squashed action: from 1 itself there is no way back


def times(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The product of the matrix with a vector, or with every row of a batch."""
    found: np.ndarray = (matrix @ x.T).T
    return found


def itself() -> Plain:
    """The observation as it is."""
    return lambda seen: seen


def scaled(mean: np.ndarray, scale: np.ndarray, limit: Any) -> Plain:
    """The standardised observation z, within the limit."""
    return lambda seen: np.minimum(np.maximum((seen - mean) / scale, -limit), limit)


def standardized(mean: np.ndarray, scale: np.ndarray, limit: Any) -> Plain:
    """1 and z."""
    z_of = scaled(mean, scale, limit)

    def features(seen: np.ndarray) -> np.ndarray:
        return np.concatenate([np.ones((*seen.shape[:-1], 1)), z_of(seen)], axis=-1)

    return features


def fourier(
    mean: np.ndarray, scale: np.ndarray, limit: Any, frequencies: np.ndarray, phases: np.ndarray
) -> Plain:
    """1, z and its random Fourier features, whose cosines have single precision."""
    z_of, size = scaled(mean, scale, limit), (2 / max(phases.size, 1)) ** 0.5

    def features(seen: np.ndarray) -> np.ndarray:
        z = z_of(seen)
        angles = (times(frequencies, z) + phases).astype(np.float32)
        waves = size * np.cos(angles).astype(float)
        return np.concatenate([np.ones((*z.shape[:-1], 1)), z, waves], axis=-1)

    return features


def layered(features: Plain, layers: Sequence[tuple[np.ndarray, np.ndarray | None]]) -> Plain:
    """A linear map of the features, or a network of hyperbolic tangents.

    Args:
        features: Features of an observation.
        layers: Weights and biases, layer after layer.
    """
    *hidden, (last, shift) = layers

    def outputs(seen: np.ndarray) -> np.ndarray:
        x = features(seen)
        for weight, bias in hidden:
            x = np.tanh(times(weight, x) + bias)
        x = times(last, x)
        return x if shift is None else x + shift

    return outputs


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities along the last axis."""
    below = logits - logits.max(axis=-1, keepdims=True)
    found: np.ndarray = below - np.log(np.exp(below).sum(axis=-1, keepdims=True))
    return found


def choice(log_probs: np.ndarray, generator: np.random.Generator | None) -> Any:
    """A draw along the last axis; the most probable entry if there is no generator."""
    if generator is None:
        return log_probs.argmax(axis=-1)
    passed = np.exp(log_probs).cumsum(axis=-1) <= generator.random((*log_probs.shape[:-1], 1))
    return np.minimum(passed.sum(axis=-1), log_probs.shape[-1] - 1)


def softmax(logits: Plain) -> Choose:
    """Draws from the softmax of the logits."""
    return lambda seen, generator: choice(log_softmax(logits(seen)), generator)


def product(logits: Plain, bounds: Sequence[int]) -> Choose:
    """Draws from the softmax of every part of the logits.

    Args:
        logits: All logits of an observation.
        bounds: Where parts begin, from the second one.
    """

    def choices(seen: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        parts = np.split(logits(seen), bounds, axis=-1)
        return np.stack([choice(log_softmax(part), generator) for part in parts], axis=-1)

    return choices


def gaussian(mean: Plain, root: np.ndarray) -> Choose:
    """Adds normal noise to the mean.

    Args:
        mean: The mean of an observation.
        root: Standard deviations, or a root of the covariance.
    """

    def chosen(seen: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        if generator is None:
            return mean(seen)
        noise = generator.standard_normal((*seen.shape[:-1], len(root)))
        moved: np.ndarray = mean(seen) + (root * noise if root.ndim == 1 else times(root, noise))
        return moved

    return chosen


def squashed(choose: Choose) -> Choose:
    """The hyperbolic tangent of actions."""

    def within(seen: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        found: np.ndarray = np.clip(np.tanh(choose(seen, generator)), -MOST, MOST)
        return found

    return within


def vector(shape: tuple[int, ...], dtype: str) -> Read:
    """Reads an array of that shape, or a batch of them."""

    def read(observation: Any) -> np.ndarray:
        array = np.asarray(observation, dtype)
        if shape not in (array.shape, array.shape[1:]):
            rule = f"one of shape {shape}, or a batch of them"
            raise ValueError(f"`act(observation)` needs {rule}, got shape {array.shape}.")
        return array.reshape(*array.shape[: array.ndim - len(shape)], -1)

    return read


def one_hot(read: Read, start: int | Sequence[int], sizes: Sequence[int]) -> Read:
    """Whole numbers as zeros and ones.

    Args:
        read: Reads the numbers.
        start: The smallest ones.
        sizes: How many there are at each place.
    """

    def places(observation: Any) -> np.ndarray:
        numbers = read(observation) - np.asarray(start)
        if ((numbers < 0) | (numbers >= np.asarray(sizes))).any():
            raise ValueError(f"`act(observation)` got {observation}, outside of its space.")
        rows = [numbers[..., n, None] == np.arange(size) for n, size in enumerate(sizes)]
        return np.concatenate(rows, axis=-1)

    return places


def parts(kind: str, names: Sequence[Any], readers: Sequence[Read]) -> Read:
    """Reads the parts of a dictionary or a tuple, one after the other."""

    def read(observation: Any) -> np.ndarray:
        named = kind == "Tuple" or set(observation) == set(names)
        if len(observation) != len(names) or not named:
            wanted = ", ".join(map(str, names)) if kind == "Dict" else f"{len(names)} parts"
            raise ValueError(f"`act(observation)` needs a {kind} of {wanted}.")
        rows = [one(observation[name]) for name, one in zip(names, readers, strict=True)]
        if len({row.shape[:-1] for row in rows}) > 1:
            raise ValueError("`act(observation)` got parts of batches that differ in length.")
        return np.concatenate(rows, axis=-1)

    return read


def to_number(start: int, dtype: str) -> Plain:
    """Numbers of a `Discrete` space."""

    def sent(action: Any) -> Any:
        chosen = action + start
        return chosen.astype(dtype) if np.ndim(action) else int(chosen)

    return sent


def to_numbers(start: int | Sequence[int], shape: tuple[int, ...], dtype: str) -> Plain:
    """Whole numbers of a space with several places."""
    first = np.asarray(start)

    def sent(action: np.ndarray) -> np.ndarray:
        wanted: np.ndarray = (action + first).astype(dtype)
        return wanted.reshape(*action.shape[:-1], *shape)

    return sent


def to_box(
    middle: np.ndarray,
    half: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    shape: tuple[int, ...],
    dtype: str,
    whole: bool,
) -> Plain:
    """From actions in units to those of the box, clipped to it and rounded if it is whole."""

    def sent(action: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):  # infinity is clipped
            wanted: np.ndarray = np.minimum(np.maximum(middle + half * action, low), high)
        wanted = np.rint(wanted) if whole else wanted
        return wanted.astype(dtype).reshape(*action.shape[:-1], *shape)

    return sent


class Acting:
    """Chooses actions for raw observations.

    Attributes:
        greedy: Whether it takes the most probable action by default, or draws one.
        time: Number of actions since the episode began.
    """

    def __init__(self, read: Read, choose: Choose, send: Plain, greedy: bool):
        self.greedy, self.time = greedy, 0
        self._read, self._choose, self._send = read, choose, send
        self._generator: np.random.Generator | None = None

    def reset(self, seed: int | None = None) -> None:
        """Begin an episode.

        Args:
            seed: Random seed of the actions from now on, if they are drawn.
        """
        self.time = 0
        if seed is not None:
            self._generator = np.random.default_rng(seed)

    def act(
        self,
        observation: Any,
        *,
        time: Any = None,
        greedy: bool | None = None,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """An action that the environment takes, or one for each observation of a batch.

        Args:
            observation: A raw observation, or a batch with the batch's axis first in every part.
            time: Number of steps since the episode began, for a policy that was told the time; one
                number per row of a batch. By default the policy counts its own actions since
                `reset`, which is for single observations. Others ignore it.
            greedy: Whether to take the most probable action; by default as `greedy` says.
            rng: NumPy generator to draw the action with; by default the policy's own.
        """
        seen = self._seen(observation, time)
        self.time += 1
        if self.greedy if greedy is None else greedy:
            return self._send(self._choose(seen, None))
        if rng is None:
            self._generator = self._generator or np.random.default_rng()
            rng = self._generator
        return self._send(self._choose(seen, rng))

    def _seen(self, observation: Any, time: Any) -> np.ndarray:
        """What the policy sees."""
        seen = self._read(observation).astype(float)
        if not np.isfinite(seen).all():
            raise ValueError("`act(observation)` got NaN or infinite entries.")
        return seen


class ActingInTime(Acting):
    """Chooses actions for observations and the time, as a policy that was told it.

    Args:
        deadline: The time is told as a share of this.
        horizon: Steps of an episode.
    """

    def __init__(
        self,
        read: Read,
        choose: Choose,
        send: Plain,
        greedy: bool,
        deadline: int,
        horizon: int,
    ):
        super().__init__(read, choose, send, greedy)
        self._deadline, self._horizon = deadline, horizon

    def _seen(self, observation: Any, time: Any) -> np.ndarray:
        seen = super()._seen(observation, time)
        if time is None and seen.ndim > 1:
            raise ValueError("`act(observation)` of a batch needs `time=`, one number per row.")
        if time is None and self.time >= self._horizon:
            raise ValueError(
                f"`act` was called {self.time} times, and an episode has {self._horizon} steps at "
                f"most; call `reset()` when one begins, or pass `time=`."
            )
        told = np.asarray(self.time if time is None else time, float) / self._deadline
        told = np.broadcast_to(told, seen.shape[:-1])[..., None]
        return np.concatenate([seen, told], axis=-1)
