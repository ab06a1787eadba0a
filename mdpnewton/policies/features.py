"""Feature maps from observations to vectors, for linear policies and critics."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Standardized(eqx.Module):
    """1 and the observation, shifted and scaled to size one.

    Attributes:
        mean: Taken off.
        scale: Divided by; positive.
        limit: Beyond this the scaled observation is clipped, so that none is absurd.
    """

    mean: Float[Array, " d"]
    scale: Float[Array, " d"]
    limit: float = eqx.field(static=True, default=10.0)

    @classmethod
    def of(cls, observations: Any) -> "Standardized":
        """Mean 0 and standard deviation 1 on these observations; a constant is only shifted."""
        seen = np.asarray(observations, float)
        spread = seen.std(axis=0)
        return cls(
            jnp.asarray(seen.mean(axis=0)), jnp.asarray(np.where(spread > 1e-8, spread, 1.0))
        )

    @property
    def size(self) -> int:
        """Length of a feature vector."""
        return self.mean.size + 1

    def scaled(self, observation: Float[Array, " d"]) -> Float[Array, " d"]:
        """The observation alone, standardised."""
        return jnp.clip((observation - self.mean) / self.scale, -self.limit, self.limit)

    def __call__(self, observation: Float[Array, " d"]) -> Float[Array, " size"]:
        """The feature vector."""
        return jnp.concatenate([jnp.ones(1), self.scaled(observation)])


class RandomFourier(eqx.Module):
    r"""$\sqrt{2/m}\cos(\omega_j^\top z + b_j)$ after 1 and z: radial basis functions by chance.

    Inner products of these features approximate a Gaussian kernel (Rahimi and Recht 2007), in
    any dimension; linear policies on them learn locomotion (Rajeswaran et al. 2017).

    Attributes:
        standardized: Makes z of an observation.
        frequencies: $\omega$, shape (m, d).
        phases: b, shape (m,).
    """

    standardized: Standardized
    frequencies: Float[Array, "m d"]
    phases: Float[Array, " m"]

    @classmethod
    def drawn(
        cls, key: PRNGKeyArray, standardized: Standardized, number: int, width: float
    ) -> "RandomFourier":
        """`number` cosines that approximate a Gaussian kernel of that width in z."""
        turn, shift = jax.random.split(key)
        frequencies = jax.random.normal(turn, (number, standardized.mean.size)) / width
        phases = jax.random.uniform(shift, (number,), maxval=2 * jnp.pi)
        return cls(standardized, frequencies, phases)

    @property
    def size(self) -> int:
        """Length of a feature vector."""
        return self.standardized.size + self.phases.size

    def __call__(self, observation: Float[Array, " d"]) -> Float[Array, " size"]:
        """The feature vector."""
        z = self.standardized.scaled(observation)
        waves = jnp.cos(self.frequencies @ z + self.phases) * (2 / self.phases.size) ** 0.5
        return jnp.concatenate([jnp.ones(1), z, waves])


class RadialBasis(eqx.Module):
    r"""$\exp(-\frac12 (s - c_i)^\top \Lambda (s - c_i))$, Section 6.2.

    Paper: without the minus sign. Here: with it, because these are radial basis functions.

    Attributes:
        centers: $c_i$, shape (m, d).
        precision: The diagonal of $\Lambda$.
    """

    centers: Float[Array, "m d"]
    precision: Float[Array, " d"]

    @property
    def size(self) -> int:
        """Length of a feature vector."""
        return self.centers.shape[0]

    def __call__(self, observation: Float[Array, " d"]) -> Float[Array, " m"]:
        """The feature vector."""
        return jnp.exp(-0.5 * (self.centers - observation) ** 2 @ self.precision)


class OneHot(eqx.Module):
    """A 1 at the place of an integer observation: a table as a linear function.

    Attributes:
        size: How many different observations there are.
    """

    size: int = eqx.field(static=True)

    def __call__(self, observation: Int[Array, ""]) -> Float[Array, " size"]:
        """The feature vector."""
        return jax.nn.one_hot(observation, self.size)
