"""Policies in plain NumPy, for simulators that ask for one action at a time.

A compiled call costs more than a small policy does, and is compiled first.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdpnewton.policies.alone import Plain, choice, fourier, layered, log_softmax, standardized
from mdpnewton.policies.features import RandomFourier, Standardized

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
    log_probs = log_softmax(logits)
    action = choice(log_probs, generator)
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
    phi = in_numpy(features)
    return None if phi is None else layered(phi, [(np.asarray(w), None)])


def in_numpy(function: Any) -> Plain | None:
    """The same function of an observation in NumPy, or None if it is known to JAX only."""
    known = arrays_of_features(function)
    if known is None:
        return None
    return (fourier if "frequencies" in known else standardized)(**known)


def arrays_of_features(function: Any) -> dict[str, Any] | None:
    """What `standardized` or `fourier` needs to be that function, or None if neither is."""
    if type(function) is Standardized:
        mean, scale = np.asarray(function.mean), np.asarray(function.scale)
        return {"mean": mean, "scale": scale, "limit": function.limit}
    if type(function) is RandomFourier:
        waves = {name: np.asarray(getattr(function, name)) for name in ("frequencies", "phases")}
        inside = arrays_of_features(function.standardized)
        return None if inside is None else {**inside, **waves}
    return None
