"""A softmax with logits linear in features of the state."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from mdpnewton.checks import instance, whole
from mdpnewton.policies.acting import linear
from mdpnewton.policies.alone import Plain
from mdpnewton.policies.categorical import Categorical
from mdpnewton.policies.gaussian import STATE_FEATURES


class LinearSoftmax(Categorical):
    r"""$\pi(a|s;w) \propto \exp(w_a^\top\phi(s))$: a Gibbs policy with one row per action.

    `w` has shape (A, d). Adding a vector to all rows changes nothing, so that curvatures are
    singular.

    Attributes:
        n_actions: Number A of actions.
        n_features: Number d of features.
        features: Maps a state to $\phi(s)$, shape (d,).
    """

    n_actions: int = eqx.field(static=True)
    n_features: int = eqx.field(static=True)
    features: Any
    log_concave = True
    blockwise_log_concave = True
    constant_curvature = True

    def __check_init__(self) -> None:
        whole("LinearSoftmax", "n_actions", self.n_actions, 1)
        whole("LinearSoftmax", "n_features", self.n_features, 1)
        instance("LinearSoftmax", "features", self.features, Callable, STATE_FEATURES)

    def logits(self, w: Float[Array, "A d"], state: Any) -> Float[Array, " A"]:
        """W phi(state)."""
        phi: Array = self.features(state)
        return w @ phi

    def plain_logits(self, w: Float[Array, "A d"]) -> Plain | None:
        """See `Categorical`."""
        return linear(w, self.features)

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> Float[Array, "A d"]:
        r"""$-\pi_a (1 - \pi_a) \phi_j^2$, whatever the action."""
        phi: Array = jax.vmap(self.features)(states)
        pi = jax.nn.softmax(phi @ w.T)
        return -(weights.sum(axis=1)[:, None] * pi * (1 - pi)).T @ phi**2

    def initial_parameters(self) -> Float[Array, "A d"]:
        """Zeros: the uniform policy."""
        return jnp.zeros((self.n_actions, self.n_features))
