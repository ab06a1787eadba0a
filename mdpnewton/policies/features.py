"""Feature maps from observations to vectors, for linear policies and critics."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mdpnewton import checks
from mdpnewton.models.checks import check_finite, check_positive, finite_array


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

    def __check_init__(self) -> None:
        size = _checked("Standardized", "mean", self.mean, 1)
        if _checked("Standardized", "scale", self.scale, 1) != size:
            needed = f"needs shape {size} like `mean`"
            checks.refuse("Standardized", "scale", f"{needed}, got {self.scale.shape}")
        if not checks.traced(self.scale):
            check_positive("Standardized", "scale", np.asarray(self.scale))
        checks.number("Standardized", "limit", self.limit, above=0, infinite=True)

    @classmethod
    def of(cls, observations: Any, limit: float = 10.0) -> "Standardized":
        """Standardise to mean 0 and standard deviation 1 on these observations.

        An entry that is constant is only shifted; see `constant_entries`.

        Args:
            observations: Observations, one per row.
            limit: Absolute value at which the scaled observation is clipped.
        """
        seen = finite_array("Standardized.of", "observations", observations, 2, letters="(n, d)")
        scale = np.where(constant_entries(seen), 1.0, seen.std(axis=0))
        return cls(jnp.asarray(seen.mean(axis=0)), jnp.asarray(scale), limit)

    def anchored(
        self, observations: Float[Array, "n d"], shares: Float[Array, " n"]
    ) -> "Standardized":
        """Standardise on these observations instead, each of which counts by its share.

        Args:
            observations: Observations, one per row.
            shares: Weights that sum to 1; rows of weight 0 are padding.
        """
        mean = shares @ observations
        spread = jnp.sqrt(shares @ (observations - mean) ** 2)
        size = jnp.max(jnp.where(shares[:, None] > 0, jnp.abs(observations), 0.0), axis=0)
        scale = jnp.where(spread > _least_spread(size, jnp), spread, 1.0)
        return Standardized(mean, scale, self.limit)

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
    any dimension; linear policies on them learn locomotion (Rajeswaran et al. 2017). The cosines
    have single precision, because they would take most of the time of a training otherwise.

    Attributes:
        standardized: Maps an observation to z.
        frequencies: Frequencies $\omega$, shape (m, d).
        phases: Phases b, shape (m,).
    """

    standardized: Standardized
    frequencies: Float[Array, "m d"]
    phases: Float[Array, " m"]

    def __check_init__(self) -> None:
        call, remedy = "RandomFourier", "pass `Standardized.of(observations)`"
        checks.instance(call, "standardized", self.standardized, Standardized, remedy)
        waves = _checked(call, "phases", self.phases, 1)
        needed = (*waves, self.standardized.mean.size)
        if _checked(call, "frequencies", self.frequencies, 2) != needed:
            rule = f"needs shape {needed} to fit `phases` and `standardized`"
            checks.refuse(call, "frequencies", f"{rule}, got {self.frequencies.shape}")

    @classmethod
    def drawn(
        cls, key: PRNGKeyArray, standardized: Standardized, number: int, width: float
    ) -> "RandomFourier":
        """Draw `number` cosines that approximate a Gaussian kernel of this width in z."""
        checks.whole("RandomFourier.drawn", "number", number, 1)
        checks.number("RandomFourier.drawn", "width", width, above=0)
        turn, shift = jax.random.split(key)
        frequencies = jax.random.normal(turn, (number, standardized.mean.size)) / width
        phases = jax.random.uniform(shift, (number,), maxval=2 * jnp.pi)
        return cls(standardized, frequencies, phases)

    def anchored(
        self, observations: Float[Array, "n d"], shares: Float[Array, " n"]
    ) -> "RandomFourier":
        """The same cosines of observations that are standardised on these; see `Standardized`."""
        standardized = self.standardized.anchored(observations, shares)
        return RandomFourier(standardized, self.frequencies, self.phases)

    @property
    def size(self) -> int:
        """Length of a feature vector."""
        return self.standardized.size + self.phases.size

    def __call__(self, observation: Float[Array, " d"]) -> Float[Array, " size"]:
        """The feature vector."""
        z = self.standardized.scaled(observation)
        angles = (z @ self.frequencies.T + self.phases).astype(jnp.float32)  # batch axis first
        waves = jnp.cos(angles).astype(z.dtype) * (2 / max(self.phases.size, 1)) ** 0.5
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

    def __check_init__(self) -> None:
        size = _checked("RadialBasis", "centers", self.centers, 2)[1:]
        if _checked("RadialBasis", "precision", self.precision, 1) != size:
            needed = f"needs shape {size} to fit `centers`"
            checks.refuse("RadialBasis", "precision", f"{needed}, got {self.precision.shape}")
        if not checks.traced(self.precision) and (np.asarray(self.precision) < 0).any():
            least = np.asarray(self.precision).min()
            checks.refuse("RadialBasis", "precision", f"must not be negative, got {least:.6g}")

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

    def __check_init__(self) -> None:
        checks.whole("OneHot", "size", self.size, 1)

    def __call__(self, observation: Int[Array, ""]) -> Float[Array, " size"]:
        """The feature vector."""
        return jax.nn.one_hot(observation, self.size)


def constant_entries(observations: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " d"]:
    """Which entries of the observations do not vary, apart from round-off.

    An entry varies if its standard deviation exceeds 1e-8, or 1e-8 of its largest absolute value
    where that is below 1. Round-off of the other entries, 1e-14 of the largest value of all, does
    not count either.

    Args:
        observations: Observations, one per row.
    """
    least = _least_spread(np.abs(observations).max(axis=0), np)
    same = observations.max(axis=0) == observations.min(axis=0)
    constant: np.ndarray = same | (observations.std(axis=0) <= least)
    return constant


def _least_spread(size: Any, library: Any) -> Any:
    """Standard deviation up to which an entry of that absolute value counts as constant."""
    least = 1e-8 * library.minimum(size, 1.0)
    return library.maximum(least, library.minimum(1e-14 * size.max(initial=0.0), 1e-8))


def _checked(call: str, name: str, array: Any, axes: int) -> tuple[int, ...]:
    """The shape of an array with so many axes, finite where its entries are known."""
    if not isinstance(array, jax.Array | np.ndarray) or array.ndim != axes:
        found = f"shape {np.shape(array)}" if hasattr(array, "shape") else type(array).__name__
        needed = "1 axis" if axes == 1 else f"{axes} axes"
        checks.refuse(call, name, f"needs an array with {needed}, got {found}")
    if not checks.traced(array):
        check_finite(call, name, np.asarray(array))
    return array.shape
