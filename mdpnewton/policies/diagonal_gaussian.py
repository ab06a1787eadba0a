"""A Gaussian over actions that ignores the state: the policy of black-box search, Section 6.6."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import whole
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.gaussian import diagonal_fisher, diagonal_kl, second_derivatives


class DiagonalGaussian(Policy):
    r"""$\pi(a;w) = N(a \,|\, \mu, (L L^*)^{-1})$ with L diagonal, whatever the state.

    `w` is `{"mean": (k,), "precision_factor": (k,)}`, the latter the diagonal of L, so that
    $\sigma = 1/|L|$. The policy is log-concave in $\mu$ and, for either sign, in L, but not
    jointly. Only the squares of L matter: a step that takes an entry through zero arrives at the
    mirror image of a distribution, not at an error.

    Attributes:
        size: Dimension k of an action.
    """

    size: int = eqx.field(static=True)
    log_concave = False
    blockwise_log_concave = True
    constant_curvature = False

    def __check_init__(self) -> None:
        whole("DiagonalGaussian", "size", self.size, 1)

    def log_prob(self, w: dict[str, Array], state: Any, action: Float[Array, " k"]) -> Scalar:
        """The log-density of the action."""
        L = w["precision_factor"]
        error = L * (action - w["mean"])
        return jnp.sum(jnp.log(jnp.abs(L)) - 0.5 * error**2) - 0.5 * self.size * jnp.log(2 * jnp.pi)

    def sample(self, key: PRNGKeyArray, w: dict[str, Array], state: Any) -> Float[Array, " k"]:
        """The mean plus independent noise."""
        noise = jax.random.normal(key, (self.size,))
        return w["mean"] + noise / jnp.abs(w["precision_factor"])

    def outputs(self, w: dict[str, Array], state: Any) -> Float[Array, " {2*self.size}"]:
        """The mean, then log sigma."""
        return jnp.concatenate([w["mean"], -jnp.log(jnp.abs(w["precision_factor"]))])

    def output_fisher(
        self, outputs: Float[Array, " {2*self.size}"], u: Float[Array, " {2*self.size}"]
    ) -> Array:
        """See `diagonal_fisher`."""
        return diagonal_fisher(outputs, u)

    def mode(self, w: dict[str, Array], state: Any) -> Float[Array, " k"]:
        """The mean."""
        return w["mean"]

    def kl(self, w: dict[str, Array], v: dict[str, Array], state: Any) -> Scalar:
        """See `diagonal_kl`."""
        return diagonal_kl(self.outputs(w, state), self.outputs(v, state))

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> dict[str, Array]:
        """-L^2 for the mean; the entries of L do not interact."""
        L = w["precision_factor"]

        def weighed(factor: Array) -> Scalar:
            moved = {**w, "precision_factor": factor}
            return jnp.sum(weights * self.log_probs(moved, states, actions))

        return {
            "mean": -weights.sum() * L**2,
            "precision_factor": second_derivatives(weighed, L),
        }

    def initial_parameters(self) -> dict[str, Array]:
        """Mean zero, sigma one."""
        return self.parameters(jnp.zeros(self.size), 1.0)

    def parameters(self, mean: Any, sigma: Any) -> dict[str, Array]:
        """The parameters with this mean and these standard deviations."""
        mean, sigma = jnp.asarray(mean, dtype=float), jnp.asarray(sigma, dtype=float)
        if mean.shape != (self.size,) or sigma.shape not in ((), (self.size,)):
            raise ValueError(
                f"`DiagonalGaussian.parameters(mean, sigma)` needs shape ({self.size},) and the "
                f"same or one number, got {mean.shape} and {sigma.shape}."
            )
        if not bool((sigma > 0).all() & jnp.isfinite(sigma).all()):
            raise ValueError("`DiagonalGaussian.parameters(sigma=...)` must be positive.")
        return {"mean": mean, "precision_factor": jnp.broadcast_to(1 / sigma, mean.shape)}

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree:
        """The weighted mean, and the weighted variance about it: the EM step."""
        mean = _mean(pairs)
        return {"mean": mean, "precision_factor": 1 / jnp.sqrt(_variance(pairs, mean))}

    def blockwise_maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree:
        """The maximum over each block with the other fixed: the variance is about the old mean."""
        return {
            "mean": _mean(pairs),
            "precision_factor": 1 / jnp.sqrt(_variance(pairs, w["mean"])),
        }


def _mean(pairs: WeightedPairs) -> Float[Array, " k"]:
    return jnp.einsum("nj,njk->k", pairs.value, pairs.actions) / pairs.value.sum()


def _variance(pairs: WeightedPairs, about: Float[Array, " k"]) -> Float[Array, " k"]:
    squares = (pairs.actions - about) ** 2
    return jnp.einsum("nj,njk->k", pairs.value, squares) / pairs.value.sum()
