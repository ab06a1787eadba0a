"""Several choices at once, each from its own softmax."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import instance, refuse, whole
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.acting import Actor, product_actor
from mdpnewton.policies.categorical import Categorical


class Product(Policy):
    r"""$\pi(a|s;w) = \prod_i \pi_i(a_i|s;w)$, each factor a softmax of its part of the logits.

    An action is a vector of integers, as in the spaces MultiDiscrete and MultiBinary of Gymnasium.
    The number of logits is the sum of the numbers of choices, not their product. What is declared
    about the curvature is what the policy inside declares: sums keep it.

    Attributes:
        policy: Policy that gives all logits, factor after factor.
        sizes: Number of choices of each factor.
    """

    policy: Categorical
    sizes: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, policy: Categorical, sizes: Sequence[int]):
        remedy = "pass a policy with logits, as `LinearSoftmax`"
        self.policy = instance("Product", "policy", policy, Categorical, remedy)
        if not len(sizes):
            refuse("Product", "sizes", "must not be empty")
        self.sizes = tuple(whole("Product", "sizes", int(size), 1) for size in sizes)

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

    def _parts(self, vector: Float[Array, " logits"]) -> list[Float[Array, " choices"]]:
        """The entries of each factor."""
        return jnp.split(vector, list(accumulate(self.sizes))[:-1])

    def _logits(self, w: PyTree, state: Any) -> list[Float[Array, " choices"]]:
        logits = self.policy.logits(w, state)
        if logits.shape != (sum(self.sizes),):
            refuse("Product", "sizes", f"add up to {sum(self.sizes)}, not to {logits.size} logits")
        return self._parts(logits)

    def log_prob(self, w: PyTree, state: Any, action: Int[Array, " factors"]) -> Scalar:
        """The sum over all factors."""
        parts = self._logits(w, state)
        return sum((jax.nn.log_softmax(z)[action[i]] for i, z in enumerate(parts)), jnp.zeros(()))

    def sample(self, key: PRNGKeyArray, w: PyTree, state: Any) -> Int[Array, " factors"]:
        """One draw per factor."""
        parts = self._logits(w, state)
        keys = jax.random.split(key, len(parts))
        return jnp.stack([jax.random.categorical(*one) for one in zip(keys, parts, strict=True)])

    def outputs(self, w: PyTree, state: Any) -> Float[Array, " logits"]:
        """All logits."""
        return self.policy.logits(w, state)

    def output_fisher(
        self, outputs: Float[Array, " logits"], u: Float[Array, " logits"]
    ) -> Float[Array, " logits"]:
        """Factor by factor, see `Categorical`."""
        pairs = zip(self._parts(outputs), self._parts(u), strict=True)
        return jnp.concatenate([self.policy.output_fisher(z, v) for z, v in pairs])

    def mode(self, w: PyTree, state: Any) -> Int[Array, " factors"]:
        """The most probable choice of every factor."""
        return jnp.stack([jnp.argmax(z) for z in self._logits(w, state)])

    def actor(self, w: PyTree) -> Actor | None:
        """See `Policy`."""
        return product_actor(self.policy.plain_logits(w), np.cumsum(self.sizes)[:-1])

    def kl(self, w: PyTree, v: PyTree, state: Any) -> Scalar:
        """The sum over all factors."""
        total = jnp.zeros(())
        for here, there in zip(self._logits(w, state), self._logits(v, state), strict=True):
            p, q = jax.nn.log_softmax(here), jax.nn.log_softmax(there)
            total = total + jnp.exp(p) @ (p - q)
        return total

    def initial_parameters(self) -> PyTree:
        """Those of the policy inside."""
        return self.policy.initial_parameters()
