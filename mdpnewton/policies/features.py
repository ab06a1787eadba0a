"""Feature maps from observations to vectors, for linear policies and critics."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray


class Standardized(eqx.Module):
    """1, followed by the observation, which is shifted and scaled to size one.

    Attributes:
        mean: Vector that is subtracted from the observation.
        scale: Positive vector that the difference is divided by.
        limit: Absolute value at which the scaled observation is clipped, so that none is absurd.
    """

    mean: Float[Array, " d"]
    scale: Float[Array, " d"]
    limit: float = eqx.field(static=True, default=10.0)

    @classmethod
    def of(cls, observations: Any) -> "Standardized":
        """Standardise to mean 0 and standard deviation 1 on these observations.

        An entry that is constant is only shifted.
        """
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
        """The standardised observation without the leading 1."""
        return jnp.clip((observation - self.mean) / self.scale, -self.limit, self.limit)

    def __call__(self, observation: Float[Array, " d"]) -> Float[Array, " size"]:
        """The feature vector."""
        return jnp.concatenate([jnp.ones(1), self.scaled(observation)])


class RandomFourier(eqx.Module):
    r"""1 and z, followed by the random Fourier features $\sqrt{2/m}\cos(\omega_j^\top z + b_j)$.

    Inner products of these features approximate a Gaussian kernel (Rahimi and Recht 2007), in
    any dimension; linear policies on them learn locomotion (Rajeswaran et al. 2017).

    Attributes:
        standardized: Maps an observation to z.
        frequencies: Frequencies $\omega$, shape (m, d).
        phases: Phases b, shape (m,).
    """

    standardized: Standardized
    frequencies: Float[Array, "m d"]
    phases: Float[Array, " m"]

    @classmethod
    def drawn(
        cls, key: PRNGKeyArray, standardized: Standardized, number: int, width: float
    ) -> "RandomFourier":
        """Draw `number` cosines that approximate a Gaussian kernel of this width in z."""
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
        centers: Centres $c_i$, shape (m, d).
        precision: Diagonal of $\Lambda$, shape (d,).
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
    """A vector with a 1 at the index of an integer observation: a table as a linear function.

    Attributes:
        size: Number of different observations.
    """

    size: int = eqx.field(static=True)

    def __call__(self, observation: Int[Array, ""]) -> Float[Array, " size"]:
        """The feature vector."""
        return jax.nn.one_hot(observation, self.size)
