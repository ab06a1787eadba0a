"""What every policy offers, and what it declares about its curvature."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.evaluation import WeightedPairs
from mdpnewton.policies.acting import Actor


class Policy(eqx.Module):
    r"""A distribution over actions, differentiable in its parameters `w`, which may be any PyTree.

    A subclass declares three facts, which `check_policy` verifies:

    * `log_concave`: $\log\pi(a|s;w)$ is concave in `w` jointly;
    * `blockwise_log_concave`: it is concave in each leaf of `w` with the others fixed;
    * `constant_curvature`: $\nabla\nabla^\top\log\pi(a|s;w)$ does not depend on `a`,
      Definition 1. Exact shortcuts rely on it, so it must be true.
    """

    @property
    @abstractmethod
    def log_concave(self) -> bool:
        """Whether log pi is concave in `w`."""

    @property
    @abstractmethod
    def blockwise_log_concave(self) -> bool:
        """Whether log pi is concave in each leaf of `w`."""

    @property
    @abstractmethod
    def constant_curvature(self) -> bool:
        """Whether the Hessian of log pi is the same for all actions of a state."""

    @abstractmethod
    def log_prob(self, w: PyTree, state: Any, action: Any) -> Scalar:
        """log pi(action | state; w), a scalar."""

    @abstractmethod
    def sample(self, key: PRNGKeyArray, w: PyTree, state: Any) -> Any:
        """An action drawn from pi(. | state; w)."""

    @abstractmethod
    def initial_parameters(self) -> PyTree:
        """Parameters to start from, of the right structure."""

    def log_probs(self, w: PyTree, states: PyTree, actions: PyTree) -> Float[Array, "n k"]:
        """log pi of n states with k actions each, all at once."""
        by_action = jax.vmap(self.log_prob, in_axes=(None, None, 0))
        return jax.vmap(by_action, in_axes=(None, 0, 0))(w, states, actions)

    def outputs(self, w: PyTree, state: Any) -> Float[Array, " outputs"]:
        """What the parameters determine in a state: logits, or mean and log sigma.

        `log_prob` depends on `w` only through the outputs. The generalised Gauss-Newton matrix
        needs them and `output_fisher`.
        """
        raise ValueError(_no_outputs(self, "outputs"))

    def output_fisher(
        self, outputs: Float[Array, " outputs"], u: Float[Array, " outputs"]
    ) -> Float[Array, " outputs"]:
        """F u, with F the Fisher matrix of the distribution that has these `outputs`."""
        raise ValueError(_no_outputs(self, "output_fisher"))

    def mode(self, w: PyTree, state: Any) -> Any:
        """The most probable action."""
        raise ValueError(
            f"`{type(self).__name__}` offers no most probable action; define `mode(w, state)`, or "
            f"use `sample(key, w, state)`."
        )

    def actor(self, w: PyTree) -> Actor | None:
        """The policy in NumPy for observations one by one, or None if it is known to JAX only."""
        return None

    def kl(self, w: PyTree, v: PyTree, state: Any) -> Scalar | None:
        r"""$KL(\pi_w(\cdot|s) \,\|\, \pi_v(\cdot|s))$, or None if it has no closed form."""
        return None

    @property
    def independent_axes(self) -> int:
        """Number of leading axes of every leaf of `w` that number independent blocks.

        It is 1 for a table of which a state uses one row: H2 is then block-diagonal over the rows,
        Appendix B.2, and costs no more products than one row has entries. It is 0 if each leaf is
        one block.
        """
        return 0

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> PyTree | None:
        r"""The diagonal of $\sum_i c_i \nabla\nabla^\top\log\pi_i$, shaped like `w`.

        It takes O(pairs x parameters), Section 4.1.1. None where only products with the matrix are
        available, as for a network.

        Args:
            w: The parameters.
            states: The n states.
            actions: The actions, k per state.
            weights: The weights $c_i$, one number per pair.
        """
        return None

    def output_blocks(
        self, w: PyTree, states: PyTree, weights: Float[Array, " n"]
    ) -> list[Float[Array, "blocks m m"]] | None:
        r"""The diagonal blocks of $\sum_i c_i J_i^\top F_i J_i$, one stack per leaf of `w`.

        J is the Jacobian of the outputs and F their Fisher matrix. None unless all other entries of
        a leaf are zero and the blocks have a closed form.

        Args:
            w: The parameters.
            states: The n states.
            weights: The weights $c_i$, one number per state.
        """
        return None

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree | None:
        """Argmax over v of sum_i value_i log pi_i(v), eq. (16), or None if it is only numeric."""
        return None


def _no_outputs(policy: Policy, name: str) -> str:
    return (
        f"`{type(policy).__name__}` offers no `{name}`, which the generalised Gauss-Newton matrix "
        f"needs; define `outputs(w, state)` and `output_fisher(outputs, u)`, or use the form 'H2'."
    )
