"""The same policy seen through an affine change of its parameters."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import instance, refuse, traced
from mdpnewton.models.checks import finite_array
from mdpnewton.policies.abstract import Policy


class Reparametrized(Policy):
    r"""$\tilde\pi(a|s;v) = \pi(a|s; T v + t)$ with T non-singular, Theorem 8.

    `v` is a flat vector; `original(v)` gives the parameters of the policy inside.

    Attributes:
        policy: The policy inside.
        matrix: Matrix T, shape (n, n).
        offset: Vector t, shape (n,); zero by default.
    """

    policy: Policy
    matrix: Float[Array, "n n"]
    offset: Float[Array, " n"]

    def __init__(self, policy: Policy, matrix: Any, offset: Any = None):
        call = "Reparametrized"
        self.policy = instance(call, "policy", policy, Policy, "pass the policy inside")
        n = ravel_pytree(policy.initial_parameters())[0].size
        fits = f"for a policy with {n} parameters"
        matrix = finite_array(call, "matrix", matrix, 2, shape=(n, n), fits=fits)
        if np.linalg.matrix_rank(matrix) < n:
            rank = np.linalg.matrix_rank(matrix)
            refuse(call, "matrix", f"must be non-singular, got rank {rank} of {n}")
        shift = np.zeros(n) if offset is None else offset
        if not traced(shift):
            shift = finite_array(call, "offset", shift, 1, shape=(n,), fits=fits)
        self.matrix, self.offset = jnp.asarray(matrix), jnp.asarray(shift)

    @property
    def log_concave(self) -> bool:
        """The same as for the policy inside, because an affine map keeps concavity."""
        return self.policy.log_concave

    @property
    def blockwise_log_concave(self) -> bool:
        """Whether the policy inside is jointly log-concave, because the map mixes the blocks."""
        return self.policy.log_concave

    @property
    def constant_curvature(self) -> bool:
        """The same as for the policy inside."""
        return self.policy.constant_curvature

    @property
    def table_shape(self) -> tuple[int, int] | None:
        """The table shape of the policy inside."""
        return getattr(self.policy, "table_shape", None)

    def original(self, v: Float[Array, " n"]) -> PyTree:
        """The parameters T v + t of the policy inside."""
        unravel = ravel_pytree(self.policy.initial_parameters())[1]
        return unravel(self.matrix @ v + self.offset)

    def transformed(self, w: PyTree) -> Float[Array, " n"]:
        """The v for which `original(v)` is `w`."""
        v: Array = jnp.linalg.solve(self.matrix, ravel_pytree(w)[0] - self.offset)
        return v

    def log_prob(self, v: Float[Array, " n"], state: Any, action: Any) -> Scalar:
        """The inner log-probability at T v + t."""
        return self.policy.log_prob(self.original(v), state, action)

    def log_probs(self, v: PyTree, states: PyTree, actions: PyTree) -> Float[Array, "n k"]:
        """The inner log-probabilities at T v + t."""
        return self.policy.log_probs(self.original(v), states, actions)

    def sample(self, key: PRNGKeyArray, v: Float[Array, " n"], state: Any) -> Any:
        """An inner sample at T v + t."""
        return self.policy.sample(key, self.original(v), state)

    def outputs(self, v: Float[Array, " n"], state: Any) -> Float[Array, " outputs"]:
        """The inner outputs at T v + t."""
        return self.policy.outputs(self.original(v), state)

    def output_fisher(
        self, outputs: Float[Array, " outputs"], u: Float[Array, " outputs"]
    ) -> Float[Array, " outputs"]:
        """The same as for the policy inside, because its outputs are the same."""
        return self.policy.output_fisher(outputs, u)

    def mode(self, v: Float[Array, " n"], state: Any) -> Any:
        """The inner mode at T v + t."""
        return self.policy.mode(self.original(v), state)

    def kl(self, w: Float[Array, " n"], v: Float[Array, " n"], state: Any) -> Scalar | None:
        """The inner divergence between T w + t and T v + t."""
        return self.policy.kl(self.original(w), self.original(v), state)

    def initial_parameters(self) -> Float[Array, " n"]:
        """The vector that maps to the inner policy's initial parameters."""
        return self.transformed(self.policy.initial_parameters())
