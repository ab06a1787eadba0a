"""The numeric maximum of the EM bound, where a policy has none in closed form."""

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree
from scipy.sparse.linalg import LinearOperator, minres

from mdpnewton.curvature import Curvature
from mdpnewton.solve import SolveReport


def bound_maximum(
    bound: Curvature, tolerance: float, iterations: int
) -> tuple[PyTree, SolveReport]:
    """Argmax over v of the surrogate of `bound`, from its `w`, by SciPy's trust region.

    Args:
        bound: H2, whose surrogate is the EM bound, eq. (16).
        tolerance: Norm of the surrogate's gradient, relative to that at `w`, to be reached.
        iterations: At most this many steps.
    """
    start, unravel = ravel_pytree(bound.w)
    first = float(np.linalg.norm(_slope(bound, start)))
    if first == 0 or not np.isfinite(first):
        status = "solved" if first == 0 else "not finite"
        return bound.w, SolveReport("surrogate_search", status, iterations=0)
    # Negative weights leave the surrogate without a maximum, and SciPy then warns of overflow:
    # what comes out is judged by its residual, below.
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        x, steps = _climbed(bound, np.asarray(start), 1 / first, tolerance, iterations)
        x = _polished(bound, x, tolerance * first)
    residual = float(np.linalg.norm(_slope(bound, x))) / first
    if not np.isfinite(residual):
        return bound.w, SolveReport("surrogate_search", "not finite", residual, steps)
    return unravel(jnp.asarray(x)), SolveReport(
        solver="surrogate_search",
        status="solved" if residual <= tolerance else "iterations",
        residual=residual,
        iterations=steps,
    )


class _ExhaustedError(Exception):
    """No more products."""


def _climbed(
    bound: Curvature, start: np.ndarray, scale: float, tolerance: float, iterations: int
) -> tuple[np.ndarray, int]:
    """Where SciPy's trust region gets to, and in how many steps.

    The surrogate is scaled to a gradient of length one, and the number of products is limited:
    SciPy's inner conjugate gradients have no limit, and never end where round-off keeps them
    from the residual that they want.
    """
    reached, steps = start, 0
    products = iter(range(iterations * min(10 * start.size + 10, 1000)))

    def bend(x: np.ndarray, p: np.ndarray) -> np.ndarray:
        if next(products, None) is None:
            raise _ExhaustedError
        return scale * np.asarray(_bend(bound, x, p))

    def note(x: np.ndarray) -> None:
        nonlocal reached, steps
        reached, steps = np.array(x), steps + 1

    with contextlib.suppress(_ExhaustedError):
        scipy.optimize.minimize(
            lambda x: tuple(scale * np.asarray(part) for part in _descend(bound, x)),
            start,
            jac=True,
            hessp=bend,
            method="trust-ncg",
            callback=note,
            options={"gtol": tolerance, "maxiter": iterations},
        )
    return reached, steps


def _polished(bound: Curvature, x: np.ndarray, goal: float) -> np.ndarray:
    """Newton's method on the gradient of the surrogate, while that makes it smaller.

    Close to the maximum the surrogate is flat to round-off, and a search that looks at its
    values stalls; its gradient is not.
    """
    slope = _slope(bound, x)
    for _ in range(10):
        if np.linalg.norm(slope) <= goal or not np.isfinite(slope).all():
            break
        product = LinearOperator(
            (x.size, x.size), lambda p, at=x: np.asarray(_bend(bound, at, p)), dtype=float
        )
        moved = x - minres(product, slope, rtol=1e-12)[0]
        after = _slope(bound, moved)
        if not np.linalg.norm(after) < np.linalg.norm(slope):
            break
        x, slope = moved, after
    return x


def _slope(bound: Curvature, x: Any) -> np.ndarray:
    return np.asarray(_descend(bound, x)[1])


@eqx.filter_jit
def _descend(bound: Curvature, x: Any) -> Any:
    """Minus the surrogate and its gradient over flat parameters."""
    return jax.value_and_grad(_negated(bound))(x)


@eqx.filter_jit
def _bend(bound: Curvature, x: Any, p: Any) -> Any:
    """Product of p with the Hessian of minus the surrogate."""
    return jax.jvp(jax.grad(_negated(bound)), (x,), (p,))[1]


def _negated(bound: Curvature) -> Callable[[Any], Any]:
    unravel = ravel_pytree(bound.w)[1]
    return lambda x: -bound.surrogate(unravel(x))
