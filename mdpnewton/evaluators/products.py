"""Linear systems that are known by their products, on the host."""

from collections.abc import Callable

import numpy as np
from scipy.sparse import linalg as sparse_linalg

Map = Callable[[np.ndarray], np.ndarray]
TOLERANCE = 1e-12  # of the residual, relative to the right-hand side
ENOUGH = 1e-10  # with which BiCGSTAB need not give way to GMRES


def solved(system: Map, target: np.ndarray, guess: np.ndarray | None) -> tuple[np.ndarray, float]:
    """The solution and its relative residual: BiCGSTAB, and where that fails GMRES.

    Args:
        system: Gives the product with a vector.
        target: The right-hand side.
        guess: Where to begin; None for the right-hand side, a sweep of value iteration.
    """
    largest = float(np.abs(target).max(initial=0.0))
    if largest == 0 or not np.isfinite(largest):
        return np.full_like(target, 0.0 if largest == 0 else np.nan), 0.0
    size = float(np.linalg.norm(target))
    operator = sparse_linalg.LinearOperator((len(target),) * 2, matvec=system, dtype=float)
    ask = {"rtol": TOLERANCE, "atol": 0.0}
    found, _ = sparse_linalg.bicgstab(
        operator, target, x0=target if guess is None else guess, maxiter=1_000, **ask
    )
    residual = float(np.linalg.norm(system(found) - target)) / size
    if not residual <= ENOUGH:
        begin = found if residual < 1 else target
        found, _ = sparse_linalg.gmres(operator, target, x0=begin, restart=60, maxiter=30, **ask)
        residual = float(np.linalg.norm(system(found) - target)) / size
    return found, residual
