"""Gradient, H2 and Fisher matrix of a linear-Gaussian MDP at w."""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Scalar
from numpy.typing import ArrayLike

from mdpnewton.analysis.spectra import Spectrum
from mdpnewton.evaluators.linear_gaussian import LinearGaussianEvaluator
from mdpnewton.evaluators.linear_gaussian_moments import Measure
from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.policies.affine import AffineGaussian


class Derivatives(NamedTuple):
    r"""Derivatives of log U, H2 over U, and the Fisher matrix at w, in [K | m] and log sigma.

    With x = (s, 1), every row of [K | m] has the same $H_2 = -\sigma^{-2}\, E_V\, xx^\top$, where
    E_V sums over p_gamma V / U, and the same Fisher matrix $\sigma^{-2}\, E\, xx^\top$, where E
    sums over p_gamma.

    Attributes:
        log_objective: log U.
        gain: Derivative of log U with respect to K.
        offset: Derivative of log U with respect to m.
        log_sigma: Derivative of log U with respect to log sigma.
        H2: H2 of one row of [K | m], over U.
        H2_log_sigma: H2 of log sigma, over U.
        fisher: Fisher matrix of one row of [K | m].
    """

    log_objective: Scalar
    gain: Float[Array, "k d"]
    offset: Float[Array, " k"]
    log_sigma: Scalar
    H2: Float[Array, "x x"]
    H2_log_sigma: Scalar
    fisher: Float[Array, "x x"]


@eqx.filter_jit
def derivatives(mdp: LinearGaussianMDP, policy: AffineGaussian, w: PyTree) -> Derivatives:
    """Compute all of them in one call, in time linear in the horizon; `jax.vmap` may be applied."""
    found = LinearGaussianEvaluator(mdp).moments(policy, w)
    variance = jnp.exp(2 * policy.log_sigma(w))
    slope = variance * jnp.trace(found.excess)
    return Derivatives(
        log_objective=found.log_objective,
        gain=found.gradient[:, :-1],
        offset=found.gradient[:, -1],
        log_sigma=slope,
        H2=-_second_moment(found.valued) / variance,
        H2_log_sigma=-2 * (policy.n_actions * found.valued.mass + slope),
        fisher=_second_moment(found.visited) / variance,
    )


def _second_moment(measure: Measure) -> Float[Array, "x x"]:
    x = jnp.append(measure.mean, 1.0)
    return measure.mass * jnp.outer(x, x).at[:-1, :-1].add(measure.covariance)


@dataclass(frozen=True)
class Eigenvalues:
    """The eigenvalues of a symmetric matrix in ascending order, and its definiteness in words.

    The words do not depend on the units of states and actions: they describe the matrix in units in
    which its diagonal is one, whose eigenvalues have the same signs.
    """

    values: np.ndarray
    definiteness: str


@dataclass(frozen=True)
class LinearGaussianAnalysis:
    """Result of `analyze_linear_gaussian` for a policy at w.

    Attributes:
        derivatives: Gradient, H2 and Fisher matrix.
        spectra: Eigenvalues of the blocks, by the names that the blocks have in the JSON.
        mean: Mean of the state at every step, shape (H, d).
        deviation: Standard deviation of the state at every step, shape (H, d).
        sigma: Standard deviation of the policy.
        radius: Largest modulus of the eigenvalues of A + BK.
    """

    derivatives: Derivatives
    spectra: dict[str, Eigenvalues]
    mean: np.ndarray
    deviation: np.ndarray
    sigma: float
    radius: float


def analyze_linear_gaussian(
    mdp: LinearGaussianMDP, policy: AffineGaussian, w: PyTree
) -> LinearGaussianAnalysis:
    """Compute gradient, H2, Fisher matrix and the law of the states at `w`.

    Args:
        mdp: The problem.
        policy: The policy, whose parameters are gain, offset and the logarithm of sigma.
        w: Parameters at which to analyse the policy.
    """
    if policy.scale != "log_sigma":
        raise ValueError(
            f"`analyze_linear_gaussian(policy=...)` needs the scale 'log_sigma', got "
            f"{policy.scale!r}."
        )
    gain, offset = np.asarray(w["mean"][:, :-1]), np.asarray(w["mean"][:, -1])
    sigma = float(jnp.exp(policy.log_sigma(w)))
    loop = np.asarray(mdp.A + mdp.B @ gain)
    radius = float(np.abs(np.linalg.eigvals(loop)).max())
    found = jax.device_get(derivatives(mdp, policy, w))
    if not all(np.isfinite(part).all() for part in found):
        raise ValueError(
            f"`analyze_linear_gaussian(w=...)` gives moments that are not finite over "
            f"{mdp.horizon} steps: A + BK has an eigenvalue of modulus {radius:.3g}; use a "
            f"smaller gain, a shorter horizon or a sigma nearer to one."
        )
    spectra = {
        "H2_theta_block": _eigenvalues(found.H2),
        "H2_log_sigma": _eigenvalues(found.H2_log_sigma[None, None]),
        "fisher_theta_block": _eigenvalues(found.fisher),
    }
    mean, deviation = _law(mdp, loop, offset, sigma)
    return LinearGaussianAnalysis(
        derivatives=found,
        spectra=spectra,
        mean=mean,
        deviation=deviation,
        sigma=sigma,
        radius=radius,
    )


def _eigenvalues(matrix: ArrayLike) -> Eigenvalues:
    matrix = np.asarray(matrix)
    size = np.abs(np.diag(matrix))
    units = np.where(size > 0, size, 1.0) ** -0.5  # a parameter without effect may have any unit
    scaled = np.linalg.eigvalsh(units[:, None] * matrix * units)
    word = Spectrum(float(scaled[0]), float(scaled[-1]), 1.0).definiteness
    return Eigenvalues(np.linalg.eigvalsh(matrix), word)


def _law(
    mdp: LinearGaussianMDP, loop: np.ndarray, offset: np.ndarray, sigma: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the state at every step."""
    B = np.asarray(mdp.B)
    drift, noise = B @ offset, sigma**2 * B @ B.T + np.asarray(mdp.noise)
    mean, covariance = np.asarray(mdp.start_mean), np.asarray(mdp.start_covariance)
    means, deviations = [], []
    for _ in range(mdp.horizon):
        means.append(mean)
        deviations.append(np.sqrt(np.maximum(np.diag(covariance), 0.0)))
        mean, covariance = loop @ mean + drift, loop @ covariance @ loop.T + noise
    return np.array(means), np.array(deviations)
