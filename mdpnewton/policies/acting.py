"""Policies in plain NumPy, for simulators that ask for one action at a time.

A compiled call costs more than a small policy does, and is compiled first.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdpnewton.policies.features import RandomFourier, Standardized

Plain = Callable[[np.ndarray], np.ndarray]
Generator = np.random.Generator
Action = np.ndarray | np.integer
Actor = Callable[[np.ndarray, Generator | None], tuple[Action, float]]
"""Gives an action and its log-probability; the most probable action if there is no generator."""


def categorical_actor(logits: Plain | None) -> Actor | None:
    """Draws from the softmax of the logits."""
    if logits is None:
        return None
    return lambda observation, generator: _choice(logits(observation), generator)


def product_actor(logits: Plain | None, bounds: np.ndarray) -> Actor | None:
    """Draws from the softmax of every part of the logits.

    Args:
        logits: All logits of an observation.
        bounds: Where parts begin, from the second one.
    """
    if logits is None:
        return None

    def act(observation: np.ndarray, generator: Generator | None) -> tuple[Action, float]:
        chosen = [_choice(part, generator) for part in np.split(logits(observation), bounds)]
        return np.array([action for action, _ in chosen]), sum(log_prob for _, log_prob in chosen)

    return act


def _choice(logits: np.ndarray, generator: Generator | None) -> tuple[np.integer, float]:
    log_probs = logits - logits.max()
    log_probs -= np.log(np.exp(log_probs).sum())
    if generator is None:
        action = log_probs.argmax()
    else:
        below = np.exp(log_probs).cumsum() <= generator.random()
        action = np.minimum(below.sum(), log_probs.size - 1)
    return action, float(log_probs[action])


def gaussian_actor(mean: Plain | None, root: Any) -> Actor | None:
    """Adds normal noise to the mean.

    Args:
        mean: The mean of an observation.
        root: Lower triangular root of the covariance, or its diagonal if it has no other entries.
    """
    if mean is None:
        return None
    root = np.asarray(root)
    scales = root if root.ndim == 1 else np.diagonal(root)
    at_mode = -float(np.log(scales).sum()) - 0.5 * scales.size * np.log(2 * np.pi)

    def act(observation: np.ndarray, generator: Generator | None) -> tuple[Action, float]:
        if generator is None:
            return mean(observation), at_mode
        noise = generator.standard_normal(scales.size)
        moved = root * noise if root.ndim == 1 else root @ noise
        return mean(observation) + moved, at_mode - 0.5 * float(noise @ noise)

    return act


def linear(w: Any, features: Any) -> Plain | None:
    """W phi(observation), or None if the features are known to JAX only."""
    phi, matrix = in_numpy(features), np.asarray(w)
    return None if phi is None else lambda observation: matrix @ phi(observation)


def in_numpy(function: Any) -> Plain | None:
    """The same function of an observation in NumPy, or None if it is known to JAX only."""
    found = _KNOWN.get(type(function))
    return None if found is None else found(function)


def _standardized(one: Standardized) -> Plain:
    scaled = _scaled(one)
    return lambda observation: np.concatenate([[1.0], scaled(observation)])


def _scaled(one: Standardized) -> Plain:
    mean, scale, limit = np.asarray(one.mean), np.asarray(one.scale), one.limit
    return lambda seen: np.minimum(np.maximum((seen - mean) / scale, -limit), limit)


def _fourier(one: RandomFourier) -> Plain:
    scaled, frequencies = _scaled(one.standardized), np.asarray(one.frequencies)
    phases, size = np.asarray(one.phases), (2 / max(one.phases.size, 1)) ** 0.5

    def features(observation: np.ndarray) -> np.ndarray:
        z = scaled(observation)
        angles = (frequencies @ z + phases).astype(np.float32)
        return np.concatenate([[1.0], z, size * np.cos(angles).astype(float)])

    return features


_KNOWN: dict[type, Callable[[Any], Plain | None]] = {
    Standardized: _standardized,
    RandomFourier: _fourier,
}
