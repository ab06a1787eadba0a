"""The exact Hessian of a linear-Gaussian MDP and its parts, for short horizons."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from mdpnewton.curvature import curvature
from mdpnewton.evaluators.linear_gaussian import LinearGaussianEvaluator
from mdpnewton.evaluators.linear_gaussian_moments import Affine, law_of, log_objective
from mdpnewton.models.linear_gaussian import LinearGaussianMDP


def linear_gaussian_terms(
    mdp: LinearGaussianMDP, policy: Affine, w: PyTree
) -> dict[str, Float[Array, "n n"]]:
    r"""The parts of $\nabla\nabla^\top U / U$ over the flattened parameters, eqs. (17) to (20).

    Let the policy have separate parameters at every step. The blocks of the Hessian within one step
    sum to $H_1 + H_2 = A_1 + A_2$, whose moments are quartic; all other blocks sum to
    $H_{12} + H_{12}^\top$. The time is quadratic in the horizon.

    Returns:
        "hessian", "H1", "H2", "A1+A2" and "cross", which is $H_{12} + H_{12}^\top$.
    """
    hessian, diagonal = _blocks(mdp, policy, w)
    pairs = LinearGaussianEvaluator(mdp).evaluate(None, policy, w)
    second = curvature(policy, w, pairs, "H2").dense()
    return {
        "hessian": hessian,
        "H1": diagonal - second,
        "H2": second,
        "A1+A2": diagonal,
        "cross": hessian - diagonal,
    }


@eqx.filter_jit
def _blocks(mdp: LinearGaussianMDP, policy: Affine, w: PyTree) -> tuple[Array, Array]:
    """The Hessian of U over U, and the sum of its blocks within single steps.

    Both are sums of blocks of one matrix over the parameters of all steps.
    """
    flat, unravel = ravel_pytree(w)
    shape = (mdp.horizon, flat.size)

    def objective(rows: Float[Array, "H n"]) -> Array:
        ws = jax.vmap(unravel)(rows)
        return log_objective(mdp, *jax.vmap(lambda w: law_of(policy, w, mdp.n_states))(ws))

    slope, product = jax.linearize(jax.grad(objective), jnp.broadcast_to(flat, shape))

    def of_step(t: Array) -> tuple[Array, Array]:
        along = jnp.zeros((flat.size, *shape)).at[:, t].set(jnp.eye(flat.size))
        columns = jax.vmap(product)(along)  # for the step's parameters, (n, H, n)
        columns = columns + slope[t][:, None, None] * slope  # from log U to U, over U
        return columns.sum(axis=1), columns[:, t]

    whole, own = jax.lax.map(of_step, jnp.arange(mdp.horizon))
    return whole.sum(axis=0), own.sum(axis=0)
