"""A linear policy that explores by noise on its gain."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import number, whole
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.policies.abstract import Policy

LEAST = 1e-12  # smallest squared length of a state: at the origin the noise would vanish


class NoisyGain(Policy):
    r"""$a = (w + \epsilon)\,s$ with $\epsilon \sim N(0, \sigma^2 I)$, Section 6.3.

    So $\pi(a|s;w) = N(a \,|\, w s, \sigma^2 |s|^2 I)$, whose logarithm is quadratic in `w`, of
    shape (k, d), with a curvature that does not depend on the action. EM therefore equals the
    second Gauss-Newton method at step 1.

    Attributes:
        n_actions: Dimension k of an action.
        n_states: Dimension d of a state.
        sigma: Standard deviation $\sigma$ of the noise on the gain.
    """

    n_actions: int = eqx.field(static=True)
    n_states: int = eqx.field(static=True)
    sigma: float
    log_concave = True
    blockwise_log_concave = True
    constant_curvature = True

    def __check_init__(self) -> None:
        whole("NoisyGain", "n_actions", self.n_actions, 1)
        whole("NoisyGain", "n_states", self.n_states, 1)
        number("NoisyGain", "sigma", self.sigma, above=0)

    def _variance(self, state: Float[Array, " d"]) -> Scalar:
        return self.sigma**2 * jnp.maximum(state @ state, LEAST)

    def log_prob(
        self, w: Float[Array, "k d"], state: Float[Array, " d"], action: Float[Array, " k"]
    ) -> Scalar:
        """The log-density of the action."""
        error, variance = action - w @ state, self._variance(state)
        return -0.5 * (error @ error / variance + error.size * jnp.log(2 * jnp.pi * variance))

    def sample(
        self, key: PRNGKeyArray, w: Float[Array, "k d"], state: Float[Array, " d"]
    ) -> Float[Array, " k"]:
        """The action of a gain drawn around `w`."""
        noise = jax.random.normal(key, (self.n_actions,))
        return w @ state + jnp.sqrt(self._variance(state)) * noise

    def mode(self, w: Float[Array, "k d"], state: Float[Array, " d"]) -> Float[Array, " k"]:
        """w s."""
        return w @ state

    def outputs(self, w: Float[Array, "k d"], state: Float[Array, " d"]) -> Float[Array, " k"]:
        """The mean in units of its standard deviation: its Fisher matrix is the identity."""
        return w @ state / jnp.sqrt(self._variance(state))

    def output_fisher(self, outputs: Array, u: Array) -> Array:
        """The vector `u` itself."""
        return u

    def kl(
        self, w: Float[Array, "k d"], v: Float[Array, "k d"], state: Float[Array, " d"]
    ) -> Scalar:
        """Half the squared distance of the means, divided by the variance."""
        error = (w - v) @ state
        return 0.5 * error @ error / self._variance(state)

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> Float[Array, "k d"]:
        """Minus the squared state, divided by the variance, whatever the action."""
        scaled = weights.sum(axis=1) / jax.vmap(self._variance)(states)
        return jnp.broadcast_to(-scaled @ states**2, w.shape)

    def initial_parameters(self) -> Float[Array, "k d"]:
        """Zeros."""
        return jnp.zeros((self.n_actions, self.n_states))

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree:
        """Least-squares fit of the actions, weighted by value over variance."""
        weights = pairs.value / jax.vmap(self._variance)(pairs.states)[:, None]
        error = pairs.actions - jnp.einsum("kd,nd->nk", w, pairs.states)[:, None]
        moment = jnp.einsum("nj,nd,ne->de", weights, pairs.states, pairs.states)
        target = jnp.einsum("nj,njk,nd->dk", weights, error, pairs.states)
        return w + jnp.linalg.lstsq(moment, target)[0].T
