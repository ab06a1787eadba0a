"""The natural gradient as the weights of a compatible critic."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from mdpnewton.checks import number
from mdpnewton.curvature import curvature
from mdpnewton.hessian import score_table
from mdpnewton.methods.abstract import Method, Situation
from mdpnewton.solve import SolveReport

INACCURATE = 1e-6  # relative residual from which a fit does not count as solved


class Compatible(Method):
    r"""The weights of the compatible critic, Section 6.2: least squares in place of a solve.

    $\theta$ minimises $\sum_i p_i (Q_i - \theta^\top\nabla\log\pi_i)^2$; with exact weights
    it is the natural gradient.

    Attributes:
        ridge: Multiple of $|\theta|^2$ added to the sum.
    """

    ridge: float = 0.0

    def __check_init__(self) -> None:
        number("Compatible", "ridge", self.ridge, least=0)

    def direct(self, at: Situation) -> tuple[PyTree, SolveReport]:
        """See `Method`."""
        theta, rank = _least_squares(
            _scores_of(at), at.pairs.occupancy, at.pairs.gradient_weights, self.ridge
        )
        flat, unravel = ravel_pytree(at.gradient)
        finite = bool(jnp.isfinite(theta).all())
        theta = theta if finite else jnp.zeros_like(theta)
        fisher = curvature(at.policy, at.w, at.evaluation, "fisher_score")
        error = ravel_pytree(fisher.mv(unravel(theta)))[0] + self.ridge * theta - flat
        norm = float(jnp.linalg.norm(flat))
        residual = float(jnp.linalg.norm(error)) / norm if norm > 0 else 0.0
        if not math.isfinite(residual) or math.isinf(norm):  # squares of large numbers overflow
            largest = jnp.abs(flat).max()
            residual = float(jnp.linalg.norm(error / largest) / jnp.linalg.norm(flat / largest))
        singular = int(rank) < theta.size
        ranked = (
            ("not finite", not (finite and math.isfinite(residual))),
            ("inaccurate", residual > INACCURATE),
            ("singular", singular),
        )
        return unravel(theta), SolveReport(
            solver="least_squares",
            status=next((status for status, found in ranked if found), "solved"),
            residual=residual,
            singular=singular,
            ridge=self.ridge,
        )


def _scores_of(at: Situation) -> Array:
    """Grad log pi of every pair, (pairs, n)."""
    table = score_table(at.policy, at.w, at.pairs)
    return jnp.asarray(table.reshape(-1, table.shape[2]))


@eqx.filter_jit
def _least_squares(table: Array, occupancy: Array, value: Array, ridge: float) -> Any:
    weight = jnp.sqrt(occupancy.ravel())
    seen = weight > 0
    # The fit to Q and the fit to A have the same normal equations where E grad log pi = 0.
    target = jnp.where(seen, value.ravel() / jnp.where(seen, weight, 1.0), 0.0)
    rows = weight[:, None] * table
    if ridge:
        rows = jnp.concatenate([rows, ridge**0.5 * jnp.eye(table.shape[1])])
        target = jnp.concatenate([target, jnp.zeros(table.shape[1])])
    theta, _, rank, _ = jnp.linalg.lstsq(rows, target)
    return theta, rank
