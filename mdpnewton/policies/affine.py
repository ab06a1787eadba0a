"""The affine policy of linear-Gaussian control, and actions that are given by their moments."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import choice, number, whole
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.gaussian import FROM_VARIANCE, LOG_SIGMA, Scale, second_derivatives


class Deviation(eqx.Module):
    """All actions of a state at once, given by their first two moments.

    The logarithm of a Gaussian is quadratic in the action, so that its average needs no more. The
    moments are stored as differences from those of a policy, because for a small sigma the two
    agree in all digits but a few.

    Attributes:
        at: Gain and offset [K | m] of that policy, from which the residual is measured.
        log_sigma: log sigma of that policy, from which the excess is measured.
        residual: Mean of a - K s - m.
        excess: Mean squared distance of the actions from their mean, minus k sigma^2.
    """

    at: Float[Array, "*pairs k x"]
    log_sigma: Float[Array, "*pairs"]
    residual: Float[Array, "*pairs k"]
    excess: Float[Array, "*pairs"]


class AffineGaussian(Policy):
    r"""$\pi(a|s;w) = N(a \,|\, Ks + m, \sigma^2 I)$, Section 6.4.

    `w` is `{"mean": (k, d + 1), "scale": ()}`: [K | m], and one of `log_sigma`, `precision`
    ($\sigma^{-2}$), `precision_root` ($\sigma^{-1}$) and `sigma`. An action is an array, or a
    `Deviation`, for which `log_prob` is the average of log pi.

    Attributes:
        n_actions: Dimension k of an action.
        n_states: Dimension d of a state.
        scale: Name of the parameter that the scale block holds.
    """

    n_actions: int = eqx.field(static=True)
    n_states: int = eqx.field(static=True)
    scale: Scale = eqx.field(static=True, default="log_sigma")
    log_concave = False
    constant_curvature = False

    def __check_init__(self) -> None:
        whole("AffineGaussian", "n_actions", self.n_actions, 1)
        whole("AffineGaussian", "n_states", self.n_states, 1)
        choice("AffineGaussian", "scale", self.scale, LOG_SIGMA)

    @property
    def blockwise_log_concave(self) -> bool:
        """False only if the scale is `sigma`."""
        return self.scale != "sigma"

    def parameters(self, gain: Any, offset: Any, sigma: float) -> dict[str, Array]:
        """The parameters `w` for this K, m and sigma."""
        gain, offset = jnp.asarray(gain, dtype=float), jnp.asarray(offset, dtype=float)
        k, d = self.n_actions, self.n_states
        if gain.shape != (k, d) or offset.shape != (k,):
            raise ValueError(
                f"`AffineGaussian.parameters` needs a gain of shape {(k, d)} and an offset of "
                f"shape {(k,)}, got {gain.shape} and {offset.shape}."
            )
        sigma = number("AffineGaussian.parameters", "sigma", sigma, above=0)
        scale = FROM_VARIANCE[self.scale](jnp.asarray(sigma) ** 2)
        return {"mean": jnp.concatenate([gain, offset[:, None]], axis=1), "scale": scale}

    def log_sigma(self, w: dict[str, Array]) -> Scalar:
        """log sigma, whichever parameter the scale block holds."""
        return LOG_SIGMA[self.scale](w["scale"])

    def log_prob(self, w: dict[str, Array], state: Float[Array, " d"], action: Any) -> Scalar:
        """The log-density of the action, or its average over a `Deviation`."""
        log_sigma, x = self.log_sigma(w), _extended(state)
        if not isinstance(action, Deviation):
            error: Array = action - w["mean"] @ x
            normal = log_sigma + 0.5 * jnp.log(2 * jnp.pi)
            return -0.5 * error @ error * jnp.exp(-2 * log_sigma) - self.n_actions * normal
        error = action.residual + (action.at - w["mean"]) @ x
        square = error @ error + action.excess
        own = _widened(action.log_sigma - log_sigma)
        normal = action.log_sigma + 0.5 + 0.5 * jnp.log(2 * jnp.pi)
        return -0.5 * square * jnp.exp(-2 * log_sigma) - self.n_actions * (own + normal)

    def sample(self, key: PRNGKeyArray, w: dict[str, Array], state: Any) -> Float[Array, " k"]:
        """The mean plus independent noise."""
        noise = jax.random.normal(key, (self.n_actions,))
        return self.mode(w, state) + jnp.exp(self.log_sigma(w)) * noise

    def mode(self, w: dict[str, Array], state: Any) -> Float[Array, " k"]:
        """K s + m."""
        return w["mean"] @ _extended(state)

    def outputs(self, w: dict[str, Array], state: Any) -> Float[Array, " {self.n_actions+1}"]:
        """The mean, then log sigma."""
        return jnp.append(self.mode(w, state), self.log_sigma(w))

    def output_fisher(
        self, outputs: Float[Array, " {self.n_actions+1}"], u: Float[Array, " {self.n_actions+1}"]
    ) -> Array:
        r"""$\mathrm{diag}(\sigma^{-2}, 2k)\,u$."""
        of_mean = jnp.exp(-2 * outputs[-1]) * u[:-1]
        return jnp.append(of_mean, 2.0 * self.n_actions * u[-1])

    def kl(self, w: dict[str, Array], v: dict[str, Array], state: Any) -> Scalar:
        """The divergence in closed form; small divergences keep their digits."""
        own = _widened(self.log_sigma(w) - self.log_sigma(v))
        error = (w["mean"] - v["mean"]) @ _extended(state) * jnp.exp(-self.log_sigma(v))
        return 0.5 * error @ error + self.n_actions * own

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> dict[str, Array]:
        r"""$-\sigma^{-2} x_j^2$ with x = (s, 1) for the mean; the scale is one number."""
        squares = weights.sum(axis=1) @ jax.vmap(_extended)(states) ** 2

        def weighed(scale: Array) -> Scalar:
            return jnp.sum(weights * self.log_probs({**w, "scale": scale}, states, actions))

        mean = -jnp.exp(-2 * self.log_sigma(w)) * squares
        return {
            "mean": jnp.broadcast_to(mean, w["mean"].shape),
            "scale": second_derivatives(weighed, w["scale"]),
        }

    def initial_parameters(self) -> dict[str, Array]:
        """Mean zero, sigma one."""
        k, d = self.n_actions, self.n_states
        return self.parameters(jnp.zeros((k, d)), jnp.zeros(k), 1.0)

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree:
        """The value-weighted least-squares fit of the mean, then the weighted variance about it."""
        step, rise = _fit(self, w, pairs.states, pairs.actions, pairs.value)
        variance = jnp.exp(2 * self.log_sigma(w)) + rise
        return {"mean": w["mean"] + step, "scale": FROM_VARIANCE[self.scale](variance)}


@eqx.filter_jit
def _fit(
    policy: AffineGaussian, w: PyTree, states: Array, actions: Any, value: Float[Array, "n j"]
) -> tuple[Array, Scalar]:
    """Change of the mean and of the variance from `w` to the weighted fit."""
    x, k = jax.vmap(_extended)(states), policy.n_actions
    variance = jnp.exp(2 * policy.log_sigma(w))
    if isinstance(actions, Deviation):
        error = actions.residual + jnp.einsum("njkd,nd->njk", actions.at - w["mean"], x)
        change = jnp.expm1(2 * (actions.log_sigma - policy.log_sigma(w)))
        excess = actions.excess + k * variance * change
    else:
        error = actions - jnp.einsum("kd,nd->nk", w["mean"], x)[:, None]
        excess = jnp.full(value.shape, -k * variance)
    moment = jnp.einsum("nj,nd,ne->de", value, x, x)
    target = jnp.einsum("nj,njk,nd->dk", value, error, x)
    step = jnp.linalg.lstsq(moment, target)[0].T
    left = error - jnp.einsum("kd,nd->nk", step, x)[:, None]
    return step, jnp.sum(value * (jnp.sum(left**2, axis=2) + excess)) / (k * value.sum())


@jax.custom_jvp
def _widened(step: Scalar) -> Scalar:
    r"""$\frac12(e^{2x} - 1) - x$: KL of Gaussians whose log sigmas differ by x."""
    return 0.5 * jnp.expm1(2 * step) - step


@_widened.defjvp
def _widened_tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (step,), (tangent,) = primals, tangents
    return _widened(step), jnp.expm1(2 * step) * tangent  # exp(2x) - 1 would lose digits


def _extended(state: Float[Array, " d"]) -> Float[Array, " d+1"]:
    return jnp.append(state, 1.0)
