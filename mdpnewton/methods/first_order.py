"""Directions without a matrix: the gradient, and chance."""

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from mdpnewton.methods.abstract import Method, Situation
from mdpnewton.solve import SolveReport


class Steepest(Method):
    """The gradient itself, eq. (10)."""

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        return at.gradient, SolveReport("none", "solved")


class RandomDirection(Method):
    """A direction drawn from the sphere of radius one: the control, which knows nothing."""

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        flat, unravel = ravel_pytree(at.gradient)
        if at.key is None:
            raise ValueError("`RandomDirection` draws at random; pass `key=...`.")
        drawn = jax.random.normal(jax.random.fold_in(at.key, flat.size), flat.shape, flat.dtype)
        return unravel(drawn / jnp.linalg.norm(drawn)), SolveReport("none", "solved")
