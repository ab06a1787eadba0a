"""Gaussian policies over continuous actions, with a mean linear in features of the state."""

from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import choice, instance, number, whole
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.models.checks import check_covariance, finite_array, numbers
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.acting import Actor, gaussian_actor, linear

Features = Callable[[Any], Float[Array, " d"]]
Scale = Literal["log_sigma", "precision", "precision_root", "sigma"]
STATE_FEATURES = "pass a function from a state to a vector"


def identity(state: Any) -> Any:
    """The features of a state that is a vector of features."""
    return state


class LinearGaussian(Policy):
    r"""$\pi(a|s;w) = N(a \,|\, w\,\phi(s), \Sigma)$ with $\Sigma$ fixed, Section 3.1.

    `w` has shape (k, d): one row per action dimension.

    Attributes:
        covariance: Covariance $\Sigma$ of the action, shape (k, k), positive definite.
        n_features: Number d of features.
        features: Maps a state to $\phi(s)$, shape (d,): a function, or an Equinox module whose
            arrays may differ from run to run; the state itself by default.
    """

    covariance: Float[Array, "k k"]
    precision: Float[Array, "k k"]
    n_features: int = eqx.field(static=True)
    features: Features
    log_concave = True
    blockwise_log_concave = True
    constant_curvature = True

    def __init__(self, covariance: Any, n_features: int, features: Features = identity):
        call, given = "LinearGaussian", numbers("LinearGaussian", "covariance", covariance)
        matrix = finite_array(call, "covariance", np.atleast_2d(given), 2, letters="(k, k)")
        check_covariance(call, "covariance", matrix, definite=True)
        self.covariance = jnp.asarray(matrix)
        self.precision = jnp.asarray(np.linalg.inv(matrix))
        self.n_features = whole(call, "n_features", n_features, 1)
        self.features = instance(call, "features", features, Callable, STATE_FEATURES)

    def log_prob(self, w: Float[Array, "k d"], state: Any, action: Float[Array, " k"]) -> Scalar:
        """The log-density of the action."""
        error = action - w @ self.features(state)
        log_det: Array = jnp.linalg.slogdet(2 * jnp.pi * self.covariance)[1]
        return -0.5 * (error @ self.precision @ error + log_det)

    def sample(self, key: PRNGKeyArray, w: Float[Array, "k d"], state: Any) -> Float[Array, " k"]:
        """The mean plus correlated noise."""
        noise = jax.random.normal(key, self.covariance.shape[:1])
        root: Array = jnp.linalg.cholesky(self.covariance)
        return w @ self.features(state) + root @ noise

    def outputs(self, w: Float[Array, "k d"], state: Any) -> Float[Array, " k"]:
        """The mean."""
        return w @ self.features(state)

    def output_fisher(self, outputs: Float[Array, " k"], u: Float[Array, " k"]) -> Array:
        r"""$\Sigma^{-1} u$."""
        return self.precision @ u

    def mode(self, w: Float[Array, "k d"], state: Any) -> Float[Array, " k"]:
        """The mean."""
        return self.outputs(w, state)

    def actor(self, w: Float[Array, "k d"]) -> Actor | None:
        """See `Policy`."""
        root = np.linalg.cholesky(np.asarray(self.covariance))
        return gaussian_actor(linear(w, self.features), root)

    def kl(self, w: Float[Array, "k d"], v: Float[Array, "k d"], state: Any) -> Scalar:
        """Half the squared distance of the means in the metric of the precision."""
        error = (w - v) @ self.features(state)
        return 0.5 * error @ self.precision @ error

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> Float[Array, "k d"]:
        r"""$-(\Sigma^{-1})_{aa} \phi_j^2$, whatever the action."""
        squares = weights.sum(axis=1) @ jax.vmap(self.features)(states) ** 2
        diagonal: Array = jnp.diagonal(self.precision)
        return -diagonal[:, None] * squares

    def initial_parameters(self) -> Float[Array, "k d"]:
        """Zeros: mean zero everywhere."""
        return jnp.zeros((self.covariance.shape[0], self.n_features))

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree:
        """The value-weighted least-squares fit of the actions."""
        return weighted_fit(self.features, w, pairs)


class Gaussian(Policy):
    r"""$\pi(a|s;w) = N(a \,|\, M\phi(s), \mathrm{diag}(\sigma^2))$ with M and $\sigma$ learnt.

    `w` is `{"mean": (k, d), "scale": (k,)}`. The scale is one of: `log_sigma`; `precision`,
    $\sigma^{-2}$; `precision_root`, $L = \sigma^{-1}$ as in Section 6.6; `sigma`. All but
    `sigma` are concave in the scale block; none is jointly concave, Section 4.2.1. With a floor,
    none is concave even in its block: use the generalised matrix, which is never indefinite.

    Attributes:
        n_actions: Dimension k of an action.
        n_features: Number d of features.
        features: Maps a state to $\phi(s)$, shape (d,): a function, or an Equinox module whose
            arrays may differ from run to run; the state itself by default.
        scale: Name of the parameter that the scale block holds.
        floor: Number that is added to what the scale block stands for: no $\sigma$ is smaller, so
            that a search never ceases to explore.
    """

    n_actions: int = eqx.field(static=True)
    n_features: int = eqx.field(static=True)
    features: Features = identity
    scale: Scale = eqx.field(static=True, default="log_sigma")
    floor: float = eqx.field(static=True, default=0.0)
    log_concave = False
    constant_curvature = False

    def __check_init__(self) -> None:
        whole("Gaussian", "n_actions", self.n_actions, 1)
        whole("Gaussian", "n_features", self.n_features, 1)
        instance("Gaussian", "features", self.features, Callable, STATE_FEATURES)
        choice("Gaussian", "scale", self.scale, LOG_SIGMA)
        number("Gaussian", "floor", self.floor, least=0)

    @property
    def blockwise_log_concave(self) -> bool:
        """False only if the scale is `sigma` or there is a floor."""
        return self.scale != "sigma" and not self.floor

    def log_sigma(self, w: dict[str, Array]) -> Float[Array, " k"]:
        """log sigma, whichever parameter the scale block holds."""
        return floored(LOG_SIGMA[self.scale](w["scale"]), self.floor)

    def log_prob(self, w: dict[str, Array], state: Any, action: Float[Array, " k"]) -> Scalar:
        """The log-density of the action."""
        log_sigma = self.log_sigma(w)
        error = (action - w["mean"] @ self.features(state)) * jnp.exp(-log_sigma)
        return -jnp.sum(0.5 * error**2 + log_sigma) - 0.5 * self.n_actions * jnp.log(2 * jnp.pi)

    def sample(self, key: PRNGKeyArray, w: dict[str, Array], state: Any) -> Float[Array, " k"]:
        """The mean plus independent noise."""
        sigma = jnp.exp(self.log_sigma(w))
        noise = jax.random.normal(key, (self.n_actions,))
        return w["mean"] @ self.features(state) + sigma * noise

    def outputs(self, w: dict[str, Array], state: Any) -> Float[Array, " {2*self.n_actions}"]:
        """The mean, then log sigma, whatever the scale block holds."""
        mean = w["mean"] @ self.features(state)
        return jnp.concatenate([mean, self.log_sigma(w)])

    def output_fisher(
        self, outputs: Float[Array, " {2*self.n_actions}"], u: Float[Array, " {2*self.n_actions}"]
    ) -> Array:
        """See `diagonal_fisher`."""
        return diagonal_fisher(outputs, u)

    def mode(self, w: dict[str, Array], state: Any) -> Float[Array, " k"]:
        """The mean."""
        return w["mean"] @ self.features(state)

    def actor(self, w: dict[str, Array]) -> Actor | None:
        """See `Policy`."""
        mean = linear(w["mean"], self.features)
        return gaussian_actor(mean, np.exp(self.log_sigma(w)))

    def kl(self, w: dict[str, Array], v: dict[str, Array], state: Any) -> Scalar:
        """See `diagonal_kl`."""
        return diagonal_kl(self.outputs(w, state), self.outputs(v, state))

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> dict[str, Array]:
        r"""$-\sigma_a^{-2} \phi_j^2$ for the mean; the entries of the scale do not interact."""
        squares = weights.sum(axis=1) @ jax.vmap(self.features)(states) ** 2
        precision = jnp.exp(-2 * self.log_sigma(w))

        def weighed(scale: Array) -> Scalar:
            return jnp.sum(weights * self.log_probs({**w, "scale": scale}, states, actions))

        return {
            "mean": -precision[:, None] * squares,
            "scale": second_derivatives(weighed, w["scale"]),
        }

    def output_blocks(
        self, w: PyTree, states: PyTree, weights: Float[Array, " n"]
    ) -> list[Float[Array, "blocks m m"]]:
        r"""$\sigma_a^{-2} \Phi^\top C \Phi$ for each row of the mean, and a number per sigma."""
        phi = jax.vmap(self.features)(states)
        gram = phi.T @ (weights[:, None] * phi)
        precision = jnp.exp(-2 * self.log_sigma(w))
        slope = jax.grad(lambda v: self.log_sigma(v).sum())(w)["scale"]
        numbers = 2 * slope**2 * weights.sum()
        return [precision[:, None, None] * gram, numbers[:, None, None]]

    def initial_parameters(self) -> dict[str, Array]:
        """Mean zero, sigma one."""
        scale = jnp.zeros if self.scale == "log_sigma" else jnp.ones
        return {
            "mean": jnp.zeros((self.n_actions, self.n_features)),
            "scale": scale(self.n_actions),
        }

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree:
        """Weighted least squares for the mean, then the weighted variance about it."""
        mean = weighted_fit(self.features, w["mean"], pairs)
        phi = jax.vmap(self.features)(pairs.states)
        error = pairs.actions - jnp.einsum("kd,nd->nk", mean, phi)[:, None]
        variance = jnp.einsum("nj,njk->k", pairs.value, error**2) / pairs.value.sum()
        if self.floor:
            variance = jnp.maximum(jnp.sqrt(variance) - self.floor, 1e-3 * self.floor) ** 2
        return {"mean": mean, "scale": FROM_VARIANCE[self.scale](variance)}


LOG_SIGMA: dict[str, Callable[[Array], Array]] = {
    "log_sigma": lambda scale: scale,
    "precision": lambda scale: -0.5 * jnp.log(scale),
    "precision_root": lambda scale: -jnp.log(scale),
    "sigma": jnp.log,
}
FROM_VARIANCE: dict[str, Callable[[Array], Array]] = {
    "log_sigma": lambda variance: 0.5 * jnp.log(variance),
    "precision": lambda variance: 1 / variance,
    "precision_root": lambda variance: 1 / jnp.sqrt(variance),
    "sigma": jnp.sqrt,
}


def floored(log_sigma: Float[Array, " k"], floor: float) -> Float[Array, " k"]:
    r"""$\log(\text{floor} + \sigma)$."""
    return jnp.logaddexp(log_sigma, jnp.log(floor)) if floor else log_sigma


def diagonal_fisher(
    outputs: Float[Array, " outputs"], u: Float[Array, " outputs"]
) -> Float[Array, " outputs"]:
    r"""F u with $F = \mathrm{diag}(\sigma^{-2}, 2)$, the Fisher matrix in mean and log sigma."""
    log_sigma = jnp.split(outputs, 2)[1]
    of_mean, of_scale = jnp.split(u, 2)
    return jnp.concatenate([jnp.exp(-2 * log_sigma) * of_mean, 2 * of_scale])


def diagonal_kl(here: Float[Array, " outputs"], there: Float[Array, " outputs"]) -> Scalar:
    """KL of two Gaussians with independent entries, each given as mean and log sigma."""
    (mean, log_sigma), (other, log_other) = jnp.split(here, 2), jnp.split(there, 2)
    # expm1 and a squared difference keep the digits of a small divergence
    ratio = jnp.expm1(2 * (log_sigma - log_other))
    square = ((mean - other) * jnp.exp(-log_other)) ** 2
    return jnp.sum(0.5 * (ratio + square) - (log_sigma - log_other))


def second_derivatives(f: Callable[[Array], Scalar], x: Array) -> Array:
    """Diagonal of the Hessian of a function whose Hessian is diagonal, by one product."""
    found: Array = jax.jvp(jax.grad(f), (x,), (jnp.ones_like(x),))[1]
    return found


def weighted_fit(features: Features, mean: Array, pairs: WeightedPairs) -> Array:
    """Argmin over M of sum c_i |a_i - M phi_i|^2; the one of least change if it is not unique."""
    phi = jax.vmap(features)(pairs.states)
    error = pairs.actions - jnp.einsum("kd,nd->nk", mean, phi)[:, None]
    moment = jnp.einsum("nj,nd,ne->de", pairs.value, phi, phi)
    target = jnp.einsum("nj,njk,nd->dk", pairs.value, error, phi)
    return mean + jnp.linalg.lstsq(moment, target)[0].T
