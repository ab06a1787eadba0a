"""How far two policies are apart, and what samples of one promise for the other."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree, Scalar

from mdpnewton.evaluation import AccumulatedMatrices, WeightedPairs
from mdpnewton.policies import Policy


def mean_divergence(policy: Policy, w: PyTree, v: PyTree, pairs: WeightedPairs) -> Scalar:
    r"""$E\,KL(\pi_w(\cdot|s) \,\|\, \pi_v(\cdot|s))$ over the occupancy of `pairs`.

    The policy's closed form is used if it has one; otherwise the listed actions give the estimate
    $x - 1 - \log x$ for the ratio x, which is never negative.
    """
    return _divergence(policy, w, v, pairs.states, pairs.actions, pairs.occupancy)


def fisher_form(d: PyTree, evaluation: AccumulatedMatrices) -> float:
    r"""$d^\top F d$, with F the Fisher matrix of one decision.

    To second order the mean divergence after a step of size a along d is $a^2 d^\top F d / 2$.
    """
    ahead = np.asarray(ravel_pytree(d)[0])
    fisher = np.asarray(evaluation.matrix(d, "fisher").dense())
    return float(ahead @ fisher @ ahead) / evaluation.decisions


def promised(policy: Policy, w: PyTree, v: PyTree, pairs: WeightedPairs) -> Scalar:
    r"""$\sum_i c_i (\pi_v/\pi_w - 1)$: the rise of U that the gradient's weights c promise."""
    return _promised(policy, w, v, pairs.states, pairs.actions, pairs.gradient_weights)


@eqx.filter_jit
def _divergence(
    policy: Policy, w: PyTree, v: PyTree, states: PyTree, actions: PyTree, occupancy: Array
) -> Scalar:
    weights = occupancy.sum(axis=1)
    closed = jax.vmap(policy.kl, in_axes=(None, None, 0))(w, v, states)
    if closed is None:
        x = _log_ratio(policy, w, v, states, actions)
        # Complete listings weight actions by their probability already, and so do samples.
        closed = jnp.sum(occupancy * (jnp.expm1(x) - x), axis=1) / jnp.where(
            weights > 0, weights, 1.0
        )
    return jnp.sum(weights * closed) / weights.sum()


@eqx.filter_jit
def _promised(
    policy: Policy, w: PyTree, v: PyTree, states: PyTree, actions: PyTree, weights: Array
) -> Scalar:
    return jnp.sum(weights * jnp.expm1(_log_ratio(policy, w, v, states, actions)))


def _log_ratio(
    policy: Policy, w: PyTree, v: PyTree, states: PyTree, actions: PyTree
) -> Float[Array, "n k"]:
    return policy.log_probs(v, states, actions) - policy.log_probs(w, states, actions)
