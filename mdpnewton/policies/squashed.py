"""Continuous actions between -1 and 1: the hyperbolic tangent of another policy's."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import instance
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.acting import Actor, Generator
from mdpnewton.policies.alone import MOST


class Squashed(Policy):
    r"""$a = \tanh u$ with $u \sim \pi(\cdot|s;w)$ of the policy inside.

    The density is $\pi(\operatorname{artanh} a|s;w) / \prod_i (1 - a_i^2)$. The divisor does not
    depend on `w`: scores, curvature, Fisher matrix and divergences are those of the policy inside,
    at $\operatorname{artanh} a$, and so is what is declared about them.

    Attributes:
        policy: Policy whose actions are vectors without bounds, as `Gaussian`.
    """

    policy: Policy

    def __check_init__(self) -> None:
        remedy = "pass one with continuous actions, as `Gaussian`"
        instance("Squashed", "policy", self.policy, Policy, remedy)

    @property
    def log_concave(self) -> bool:
        """As the policy inside."""
        return self.policy.log_concave

    @property
    def blockwise_log_concave(self) -> bool:
        """As the policy inside."""
        return self.policy.blockwise_log_concave

    @property
    def constant_curvature(self) -> bool:
        """As the policy inside."""
        return self.policy.constant_curvature

    def log_prob(self, w: PyTree, state: Any, action: Float[Array, " k"]) -> Scalar:
        """The log-density of the action."""
        inside = self.policy.log_prob(w, state, _free(action))
        return inside - jnp.sum(jnp.log1p(-(_bounded(action) ** 2)))

    def sample(self, key: PRNGKeyArray, w: PyTree, state: Any) -> Float[Array, " k"]:
        """A squashed draw of the policy inside."""
        return _bounded(jnp.tanh(self.policy.sample(key, w, state)))

    def outputs(self, w: PyTree, state: Any) -> Float[Array, " outputs"]:
        """Those of the policy inside."""
        return self.policy.outputs(w, state)

    def output_fisher(
        self, outputs: Float[Array, " outputs"], u: Float[Array, " outputs"]
    ) -> Float[Array, " outputs"]:
        """That of the policy inside."""
        return self.policy.output_fisher(outputs, u)

    def mode(self, w: PyTree, state: Any) -> Float[Array, " k"]:
        """The squashed mode of the policy inside: the median of each entry if that is Gaussian.

        The density itself may be highest at the bounds.
        """
        return _bounded(jnp.tanh(self.policy.mode(w, state)))

    def actor(self, w: PyTree) -> Actor | None:
        """See `Policy`."""
        inside = self.policy.actor(w)
        if inside is None:
            return None

        def act(observation: np.ndarray, generator: Generator | None) -> tuple[np.ndarray, float]:
            free, log_prob = inside(observation, generator)
            action = np.clip(np.tanh(free), -MOST, MOST)
            return action, log_prob - float(np.log1p(-(action**2)).sum())

        return act

    def kl(self, w: PyTree, v: PyTree, state: Any) -> Scalar | None:
        """That of the policy inside: a divergence does not see a change of the variable."""
        return self.policy.kl(w, v, state)

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> PyTree | None:
        """That of the policy inside."""
        return self.policy.hessian_diagonal(w, states, _free(actions), weights)

    def output_blocks(
        self, w: PyTree, states: PyTree, weights: Float[Array, " n"]
    ) -> list[Float[Array, "blocks m m"]] | None:
        """Those of the policy inside."""
        return self.policy.output_blocks(w, states, weights)

    def initial_parameters(self) -> PyTree:
        """Those of the policy inside."""
        return self.policy.initial_parameters()

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree | None:
        """That of the policy inside."""
        free = eqx.tree_at(lambda pairs: pairs.actions, pairs, _free(pairs.actions))
        return self.policy.maximum(w, free)


def _bounded(action: Array) -> Array:
    return jnp.clip(action, -MOST, MOST)


def _free(action: Array) -> Array:
    """What is squashed to the action."""
    return jnp.arctanh(_bounded(action))
