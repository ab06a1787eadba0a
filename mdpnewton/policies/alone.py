"""A policy that acts with NumPy alone: the same code here and in the file that an export writes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Plain = Callable[[np.ndarray], np.ndarray]
Choose = Callable[[np.ndarray, np.random.Generator | None], Any]
MOST = 1 - 1e-9  # largest squashed action: from 1 itself there is no way back


def times(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The product of the matrix with a vector, or with every row of a batch."""
    found: np.ndarray = (matrix @ x.T).T
    return found


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


def chooser(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> Choose:
    """From an observation to an action, in units.

    Args:
        about: Description of the policy: its number of `layers`, its `distribution` ("softmax",
            "product" or "gaussian"), the `sizes` of a product, and whether actions are `squashed`.
        arrays: Arrays by name: `mean`, `scale` and `limit` of the observations if they are
            standardised; `frequencies` and `phases` if there are Fourier features; `weight0`,
            `bias0`, ...; and `root`, standard deviations or a root of the covariance.
    """
    features: Plain = np.asarray
    if "mean" in arrays:
        makes = fourier if "frequencies" in arrays else standardized
        names = ("mean", "scale", "limit", "frequencies", "phases")
        features = makes(*(arrays[name] for name in names if name in arrays))
    numbers = range(about["layers"])
    layers = [(arrays[f"weight{n}"], arrays.get(f"bias{n}")) for n in numbers]
    outputs = layered(features, layers)
    if about["distribution"] == "softmax":
        return lambda seen, generator: choice(log_softmax(outputs(seen)), generator)
    if about["distribution"] == "product":
        bounds = np.cumsum(about["sizes"])[:-1]

        def choices(seen: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
            parts = np.split(outputs(seen), bounds, axis=-1)
            return np.stack([choice(log_softmax(part), generator) for part in parts], axis=-1)

        return choices
    root, squashed = arrays["root"], about["squashed"]

    def continuous(seen: np.ndarray, generator: np.random.Generator | None) -> np.ndarray:
        action = outputs(seen)
        if generator is not None:
            noise = generator.standard_normal(action.shape)
            action = action + (root * noise if root.ndim == 1 else times(root, noise))
        return np.clip(np.tanh(action), -MOST, MOST) if squashed else action

    return continuous


def flattened(space: dict[str, Any], observation: Any, batch: tuple[int, ...]) -> np.ndarray:
    """The vector of an observation, as Gymnasium flattens it; with a batch, one row for each.

    Args:
        space: Description of the space: its `kind`, as Gymnasium calls it, and what that needs.
        observation: One observation, or a batch with the batch's axis first in every part.
        batch: Length of that axis; empty for a single observation.
    """
    kind = space["kind"]
    if kind in ("Dict", "Tuple"):
        count, places = len(space["spaces"]), [name for name, _ in space["spaces"]]
        if len(observation) != count or (kind == "Dict" and set(observation) != set(places)):
            wanted = ", ".join(map(str, places)) if kind == "Dict" else f"{count} parts"
            raise ValueError(f"`act(observation)` needs a {kind} of {wanted}.")
        parts = [flattened(inner, observation[name], batch) for name, inner in space["spaces"]]
        return np.concatenate(parts, axis=-1)
    array = np.asarray(observation, space["dtype"])
    shape = (*batch, *space["shape"])
    if array.shape != shape:
        rule = f"one of shape {tuple(space['shape'])}, or a batch of them"
        raise ValueError(f"`act(observation)` needs {rule}, got shape {array.shape}.")
    rows = array.reshape(*batch, -1)
    if "sizes" not in space:
        return rows
    numbers = rows - np.asarray(space["start"])
    sizes = np.asarray(space["sizes"])
    if ((numbers < 0) | (numbers >= sizes)).any():
        raise ValueError(f"`act(observation)` got {observation}, which is outside of its space.")
    return np.concatenate(
        [numbers[..., n, None] == np.arange(size) for n, size in enumerate(sizes)], axis=-1
    )


def batch_of(space: dict[str, Any], observation: Any) -> tuple[int, ...]:
    """The length of the batch's axis, or nothing if it is a single observation."""
    while space["kind"] in ("Dict", "Tuple"):
        (name, space), *_ = space["spaces"]
        try:
            observation = observation[name]
        except (KeyError, IndexError, TypeError):
            return ()  # `flattened` says what is wrong
    shape = np.shape(observation)
    return shape[:1] if len(shape) == len(space["shape"]) + 1 else ()


class Acting:
    """Chooses actions for raw observations: flattens, tells the time, chooses, scales and clips.

    Attributes:
        about: Description in plain data: the `observation` and `action` spaces, the `deadline` as
            which the policy was told the time (None if it was not), the `horizon` of an episode,
            whether it is `greedy` by default, and what `chooser` needs.
        time: Number of actions since the episode began.
    """

    def __init__(
        self, about: dict[str, Any], arrays: dict[str, np.ndarray], choose: Choose | None = None
    ):
        self.about = about
        self.time = 0
        self._choose = chooser(about, arrays) if choose is None else choose
        self._generator: np.random.Generator | None = None
        box = about["action"]
        self._kind, self._start, self._shape = box["kind"], box["start"], tuple(box["shape"])
        self._whole, self._dtype = box["whole"], np.dtype(box["dtype"])
        names = ("middle", "half", "low", "high") if self._kind == "Box" else ()
        self._ends = tuple(arrays[name] for name in names)

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
                `reset`, which is for single observations.
            greedy: Whether to take the most probable action; by default as `about` says.
            rng: NumPy generator to draw the action with; by default the policy's own.
        """
        space = self.about["observation"]
        batch = batch_of(space, observation)
        seen = flattened(space, observation, batch).astype(float)
        if not np.isfinite(seen).all():
            raise ValueError("`act(observation)` got NaN or infinite entries.")
        if self.about["deadline"]:
            told = np.broadcast_to(self._told(time, batch), batch)[..., None]
            seen = np.concatenate([seen, told / self.about["deadline"]], axis=-1)
        self.time += 1
        drawn = not (self.about["greedy"] if greedy is None else greedy)
        return self.sent(self._choose(seen, self._drawing(rng) if drawn else None))

    def sent(self, action: Any) -> Any:
        """What the environment gets for an action of the policy."""
        if self._kind == "Discrete":
            chosen = action + self._start
            return chosen.astype(self._dtype) if np.ndim(action) else int(chosen)
        batch = action.shape[:-1]
        if self._kind != "Box":
            wanted = action + np.asarray(self._start)
        else:
            middle, half, low, high = self._ends
            with np.errstate(over="ignore"):  # infinity is clipped
                wanted = np.minimum(np.maximum(middle + half * action, low), high)
            wanted = np.rint(wanted) if self._whole else wanted
        return wanted.astype(self._dtype).reshape(*batch, *self._shape)

    def _told(self, time: Any, batch: tuple[int, ...]) -> Any:
        """The time that the policy is told."""
        if time is not None:
            return np.asarray(time, float)
        if batch:
            raise ValueError("`act(observation)` of a batch needs `time=`, one number per row.")
        if self.time >= self.about["horizon"]:
            raise ValueError(
                f"`act` was called {self.time} times, and an episode has {self.about['horizon']} "
                f"steps at most; call `reset()` when one begins, or pass `time=`."
            )
        return self.time

    def _drawing(self, rng: np.random.Generator | None) -> np.random.Generator:
        if rng is not None:
            return rng
        if self._generator is None:
            self._generator = np.random.default_rng()
        return self._generator
