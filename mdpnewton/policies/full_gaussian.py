"""Gaussian policies whose full covariance is learnt."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import choice, instance, whole
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.models.checks import check_covariance, finite_array
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.acting import Actor, gaussian_actor, linear
from mdpnewton.policies.gaussian import STATE_FEATURES, Features, identity, weighted_fit

Precision = Literal["precision", "precision_root"]


class FullDeviation(eqx.Module):
    """All actions of a state at once, given by their first two moments, as `Deviation` does.

    Attributes:
        at: Gain and offset [K | m] of a policy, from which the residual is measured.
        covariance: Covariance of that policy, from which the excess is measured.
        residual: Mean of a - K s - m.
        excess: Covariance of the actions about their mean, minus that of the policy.
    """

    at: Float[Array, "*pairs k x"]
    covariance: Float[Array, "*pairs k k"]
    residual: Float[Array, "*pairs k"]
    excess: Float[Array, "*pairs k k"]

    def mean(self, state: Float[Array, " d"]) -> Float[Array, "*pairs k"]:
        """Mean of the actions in a state."""
        return self.residual + self.at @ jnp.append(state, 1.0)


class FullGaussian(Policy):
    r"""$\pi(a|s;w) = N(a \,|\, M\phi(s), \Lambda^{-1})$ with M and $\Lambda$ learnt, Section 4.2.1.

    `w` is `{"mean": (k, d), "scale": (k (k + 1) / 2,)}`. The scale holds the lower triangle, row by
    row, of the precision $\Lambda$ itself, or of its factor L with $\Lambda = L L^\top$
    (`precision_root`, as in Section 6.6). Either way log pi is concave in the mean and in the
    scale, and not jointly. Where $\Lambda$ is not positive definite log pi is NaN, so that a search
    undoes a step to there; a factor is never wrong, but where its diagonal is zero. An action is an
    array, or a `FullDeviation`, for which `log_prob` is the average of log pi.

    Attributes:
        n_actions: Dimension k of an action.
        n_features: Number d of features.
        features: Maps a state to $\phi(s)$, shape (d,): a function, or an Equinox module whose
            arrays may differ from run to run; the state itself by default.
        scale: Name of the parameter that the scale block holds.
    """

    n_actions: int = eqx.field(static=True)
    n_features: int = eqx.field(static=True)
    features: Features = identity
    scale: Precision = eqx.field(static=True, default="precision")
    log_concave = False
    blockwise_log_concave = True
    constant_curvature = False

    def __check_init__(self) -> None:
        whole("FullGaussian", "n_actions", self.n_actions, 1)
        whole("FullGaussian", "n_features", self.n_features, 1)
        instance("FullGaussian", "features", self.features, Callable, STATE_FEATURES)
        choice("FullGaussian", "scale", self.scale, get_args(Precision))

    def parameters(self, mean: Any, covariance: Any) -> dict[str, Array]:
        """The parameters `w` for this mean, shape (k, d), and covariance, shape (k, k)."""
        call, k = "FullGaussian.parameters", self.n_actions
        mean = finite_array(call, "mean", mean, 2, shape=(k, self.n_features))
        matrix = finite_array(call, "covariance", covariance, 2, shape=(k, k))
        check_covariance(call, "covariance", matrix, definite=True)
        return {"mean": jnp.asarray(mean), "scale": self._scale(jnp.asarray(matrix))}

    def precision(self, w: dict[str, Array]) -> Float[Array, "k k"]:
        r"""$\Lambda$, whichever parameter the scale block holds."""
        if self.scale == "precision":
            return self._symmetric(w["scale"])
        L = self._lower(w["scale"])
        return L @ L.T

    def covariance(self, w: dict[str, Array]) -> Float[Array, "k k"]:
        r"""$\Lambda^{-1}$; NaN where $\Lambda$ is not positive definite."""
        return inverse(self.precision(w))

    def log_prob(self, w: dict[str, Array], state: Any, action: Any) -> Scalar:
        """The log-density of the action, or its average over a `FullDeviation`."""
        if isinstance(action, FullDeviation):
            about = self.log_prob(w, state, action.mean(state))
            spread = action.covariance + action.excess
            return about - 0.5 * jnp.sum(self.precision(w) * spread)
        error: Array = action - w["mean"] @ self.features(state)
        normal = 0.5 * self.n_actions * jnp.log(2 * jnp.pi)
        if self.scale == "precision":
            precision = self._symmetric(w["scale"])
            return 0.5 * (log_determinant(precision) - error @ precision @ error) - normal
        L = self._lower(w["scale"])
        whitened = error @ L
        return jnp.sum(jnp.log(jnp.abs(jnp.diagonal(L)))) - 0.5 * whitened @ whitened - normal

    def sample(self, key: PRNGKeyArray, w: dict[str, Array], state: Any) -> Float[Array, " k"]:
        """The mean plus correlated noise."""
        noise = jax.random.normal(key, (self.n_actions,))
        root: Array = jnp.linalg.cholesky(self.covariance(w))
        return self.mode(w, state) + root @ noise

    def mode(self, w: dict[str, Array], state: Any) -> Float[Array, " k"]:
        """The mean."""
        return w["mean"] @ self.features(state)

    def outputs(self, w: dict[str, Array], state: Any) -> Float[Array, " outputs"]:
        r"""The mean, then the lower triangle of $\Lambda$, whatever the scale block holds."""
        return jnp.concatenate([self.mode(w, state), self._packed(self.precision(w))])

    def output_fisher(
        self, outputs: Float[Array, " outputs"], u: Float[Array, " outputs"]
    ) -> Float[Array, " outputs"]:
        r"""$\Lambda u$ for the mean, and $\Lambda^{-1} U \Lambda^{-1} / 2$ for the precision."""
        k = self.n_actions
        precision = self._symmetric(outputs[k:])
        sigma = inverse(precision)
        of_precision = 0.5 * sigma @ self._symmetric(u[k:]) @ sigma
        twice = of_precision + of_precision.T - jnp.diag(jnp.diagonal(of_precision))
        return jnp.concatenate([precision @ u[:k], self._packed(twice)])

    def kl(self, w: dict[str, Array], v: dict[str, Array], state: Any) -> Scalar:
        """The divergence in closed form."""
        here, there = self.precision(w), self.precision(v)
        error = (w["mean"] - v["mean"]) @ self.features(state)
        # tr(X) with X = Sigma (there - here), so that a small divergence keeps its digits
        excess = jnp.sum(inverse(here) * (there - here))
        gap = log_determinant(there) - log_determinant(here)
        return 0.5 * (excess - gap + error @ there @ error)

    def actor(self, w: dict[str, Array]) -> Actor | None:
        """See `Policy`."""
        covariance = np.asarray(self.covariance(w))
        known = np.isfinite(covariance).all()
        root = np.linalg.cholesky(covariance) if known else np.full_like(covariance, np.nan)
        return gaussian_actor(linear(w["mean"], self.features), root)

    def initial_parameters(self) -> dict[str, Array]:
        """Mean zero, covariance one."""
        k, d = self.n_actions, self.n_features
        return {"mean": jnp.zeros((k, d)), "scale": self._packed(jnp.eye(k))}

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree:
        """The value-weighted least-squares fit of the mean, then the covariance about it."""
        spread = None
        if isinstance(pairs.actions, FullDeviation):
            spread = pairs.actions.covariance + pairs.actions.excess
            actions = jax.vmap(FullDeviation.mean)(pairs.actions, pairs.states)
            pairs = replace(pairs, actions=actions)
        mean = weighted_fit(self.features, w["mean"], pairs)
        phi = jax.vmap(self.features)(pairs.states)
        error = pairs.actions - jnp.einsum("kd,nd->nk", mean, phi)[:, None]
        covariance = jnp.einsum("nj,njk,njl->kl", pairs.value, error, error)
        if spread is not None:
            covariance = covariance + jnp.einsum("nj,njkl->kl", pairs.value, spread)
        covariance = covariance / pairs.value.sum()
        return {"mean": mean, "scale": self._scale(covariance)}

    def _scale(self, covariance: Array) -> Array:
        precision = inverse(covariance)
        found = precision if self.scale == "precision" else jnp.linalg.cholesky(precision)
        return self._packed(found)

    def _packed(self, matrix: Float[Array, "k k"]) -> Float[Array, " packed"]:
        return matrix[np.tril_indices(self.n_actions)]

    def _lower(self, packed: Float[Array, " packed"]) -> Float[Array, "k k"]:
        k = self.n_actions
        return jnp.zeros((k, k), packed.dtype).at[np.tril_indices(k)].set(packed)

    def _symmetric(self, packed: Float[Array, " packed"]) -> Float[Array, "k k"]:
        lower = self._lower(packed)
        return lower + lower.T - jnp.diag(jnp.diagonal(lower))


def _eliminated(matrix: Float[Array, "k k"]) -> tuple[Scalar, Float[Array, "k k"]]:
    """log |P| and the inverse of a positive definite matrix by elimination, else NaN.

    It is elimination and not LAPACK because batches of small triangular solves, as derivatives over
    many states would make them, can wait for each other for ever, see `linear_gaussian.py`.
    """
    k = len(matrix)
    rows = jnp.arange(k)

    def eliminate(both: Array, row: Array) -> tuple[Array, Array]:
        pivot = both[row, row]
        chosen = both[row] / jnp.where(pivot > 0, pivot, jnp.nan)
        left = both - jnp.where(rows == row, 0.0, both[:, row])[:, None] * chosen
        return left.at[row].set(chosen), jnp.log(pivot)

    both = jnp.concatenate([matrix, jnp.eye(k, dtype=matrix.dtype)], axis=1)
    left, pivots = jax.lax.scan(eliminate, both, rows)
    return pivots.sum(), left[:, k:]


@jax.custom_jvp
def inverse(matrix: Float[Array, "k k"]) -> Float[Array, "k k"]:
    """The inverse of a positive definite matrix; NaN if it is not one."""
    return _eliminated(matrix)[1]


@inverse.defjvp
def _inverse_tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    found = inverse(*primals)
    return found, -found @ tangents[0] @ found


@jax.custom_jvp
def log_determinant(matrix: Float[Array, "k k"]) -> Scalar:
    """log |P| of a positive definite matrix; NaN if it is not one."""
    return _eliminated(matrix)[0]


@log_determinant.defjvp
def _log_determinant_tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return log_determinant(*primals), jnp.sum(inverse(*primals) * tangents[0])
