"""What every policy offers, and what it declares about its curvature."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.evaluation import WeightedPairs


class Policy(eqx.Module):
    r"""A distribution over actions, differentiable in its parameters `w`, any PyTree.

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

    @property
    def independent_axes(self) -> int:
        """How many leading axes of every leaf of `w` number blocks that never meet.

        1 for a table of rows of which a state uses one: then H2 is block-diagonal over the
        rows, Appendix B.2, and costs no more products than one row has entries. 0: each
        leaf is one block.
        """
        return 0

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree | None:
        """Argmax over v of sum_i value_i log pi_i(v), eq. (16), or None if only numeric."""
        return None
