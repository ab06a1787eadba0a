"""Expectation maximisation: the maximum of the bound that H2 is the curvature of."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import flag, number, whole
from mdpnewton.curvature import curvature
from mdpnewton.methods.abstract import Method, Situation
from mdpnewton.methods.bound import bound_maximum
from mdpnewton.policies.diagonal_gaussian import DiagonalGaussian
from mdpnewton.solve import SolveReport, on_host


class ExpectationMaximization(Method):
    r"""$d = \arg\max_v \mathcal{Q}(v, w) - w$, eq. (16): to be taken with step 1.

    In closed form where the policy has one, otherwise by a Newton trust-region search on the
    surrogate from `w`.

    Attributes:
        closed_form: Whether to use the policy's closed form, if it has one.
        tolerance: Norm of the surrogate's gradient, relative to that at `w`, at which the
            numeric search stops.
        iterations: Largest number of steps of the numeric search.
    """

    closed_form: bool = True
    tolerance: float = 1e-10
    iterations: int = 200

    def __check_init__(self) -> None:
        call = "ExpectationMaximization"
        flag(call, "closed_form", self.closed_form)
        number(call, "tolerance", self.tolerance, least=0)
        whole(call, "iterations", self.iterations, 1)

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        pairs = at.pairs
        top = at.policy.maximum(at.w, pairs) if self.closed_form else None
        if top is not None:
            report = SolveReport("closed_form", "solved")
        else:
            bound = curvature(at.policy, at.w, pairs, "H2")
            top, report = bound_maximum(bound, self.tolerance, self.iterations)
        value = jax.tree.map(lambda v, w: v - w, top, at.w)
        if not np.isfinite(on_host(value)).all():
            value = jax.tree.map(jnp.zeros_like, at.w)
            report = replace(report, status="not finite")
        return value, report


class BlockwiseMaximization(Method):
    """EM with each block maximised beside the old other one: the variance about the old mean."""

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        if not isinstance(at.policy, DiagonalGaussian):
            raise ValueError(
                f"`BlockwiseMaximization` maximises a DiagonalGaussian, got "
                f"{type(at.policy).__name__}; use 'expectation_maximization'."
            )
        top = at.policy.blockwise_maximum(at.w, at.pairs)
        value = jax.tree.map(lambda v, w: v - w, top, at.w)
        if all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(value)):
            return value, SolveReport("closed_form", "solved")
        return jax.tree.map(jnp.zeros_like, at.w), SolveReport("closed_form", "not finite")
