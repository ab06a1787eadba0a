"""Features that are affine in the state, as a matrix."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def affine_map(owner: str, features: Any, d: int) -> np.ndarray:
    """The matrix F in phi(s) = F (s, 1); features that are not affine are refused.

    Args:
        owner: Name of the evaluator, for the error.
        features: The features.
        d: Dimension of a state.
    """
    probes = np.random.default_rng(0).normal(size=(d + 2, d))
    points = np.concatenate([np.zeros((1, d)), np.eye(d), -np.eye(d), probes, 10 * probes])
    seen = np.asarray(_mapped(features, jnp.asarray(points)))
    origin = seen[0]
    F = np.concatenate([seen[1 : d + 1] - origin, origin[None]]).T
    expected = points @ F[:, :-1].T + origin
    if not np.allclose(seen, expected, rtol=1e-9, atol=1e-9 * np.abs(F).max()):
        raise ValueError(f"`{owner}` needs features that are affine in the state.")
    return F


@eqx.filter_jit
def _mapped(features: Any, states: Array) -> Array:
    phi: Array = jax.vmap(features)(states)
    return phi
