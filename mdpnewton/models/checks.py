"""Checks of the arrays that models and policies are made of; single numbers go by `checks.py`.

Every function takes the name of the call and that of the argument, and raises a one-line
`ValueError` that names both.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.checks import refuse

ROW_TOLERANCE = 1e-8  # how far from 1 the sum of a distribution may be


def numbers(call: str, name: str, value: Any) -> np.ndarray:
    """A copy of the value as an array of floats, of whatever shape."""
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"`{call}({name}=...)` needs an array of numbers: {reason}.") from None


def finite_array(
    call: str,
    name: str,
    value: Any,
    axes: int,
    *,
    shape: tuple[int, ...] | None = None,
    letters: str = "",
    fits: str = "",
    empty: bool = False,
) -> np.ndarray:
    """A copy of the value as a finite array of floats.

    Args:
        call: Name of the class or function that was called.
        name: Name of the argument.
        value: What was given.
        axes: Number of axes that it must have.
        shape: Shape that it must have; None for any.
        letters: Names of the axes, as the error tells them: "(S, A)".
        fits: Where the shape comes from, as the error tells it: "to match `reward`".
        empty: Whether an axis may have length 0.
    """
    array = numbers(call, name, value)
    if shape is not None and array.shape != shape:
        parts = (f"needs shape {letters} = {shape}" if letters else f"needs shape {shape}", fits)
        refuse(call, name, f"{' '.join(filter(None, parts))}, got {array.shape}")
    if array.ndim != axes or (array.size == 0 and not empty):
        needed = ("1 axis" if axes == 1 else f"{axes} axes") + (f" {letters}" if letters else "")
        needed += "" if empty else ", not empty" if axes == 1 else ", none of them empty"
        refuse(call, name, f"needs {needed}, got shape {array.shape}")
    check_finite(call, name, array)
    return array


def check_finite(call: str, name: str, array: Any) -> None:
    """Refuse NaN and infinite entries, of a dense array or a sparse matrix."""
    if sparse.issparse(array):
        if not np.isfinite(array.data).all():
            refuse(call, name, "must be finite, but has NaN or infinite entries")
    elif not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        refuse(call, name, f"must be finite, but entry {where} is {array[where]}")


def check_positive(call: str, name: str, array: np.ndarray) -> None:
    """Refuse entries that are zero or negative."""
    if not (array > 0).all():
        refuse(call, name, f"must be positive, but its least entry is {array.min():.6g}")


def check_distributions(
    call: str,
    name: str,
    rows: Any,
    called: Callable[[int], str],
    rest: np.ndarray | None = None,
) -> None:
    """Refuse rows that are no probability distributions.

    Args:
        call: Name of the class or function that was called.
        name: Name of the argument.
        rows: A matrix, dense or sparse, whose rows are to sum to one.
        called: What a row is called in an error, from its number.
        rest: A probability of each row that it does not list, as that of stopping.
    """
    smallest = rows.min(axis=1).toarray().ravel() if sparse.issparse(rows) else rows.min(axis=1)
    if (smallest < 0).any():
        row = int(np.argmin(smallest))
        refuse(call, name, f"has a negative probability, {smallest[row]:.6g}, in {called(row)}")
    sums = np.asarray(rows.sum(axis=1)).ravel()
    if rest is not None:
        sums = sums + rest.ravel()
    if (np.abs(sums - 1) > ROW_TOLERANCE).any():
        row = int(np.argmax(np.abs(sums - 1)))
        refuse(
            call,
            name,
            f"must sum to one over its last axis, but {called(row)} sums to {sums[row]:.10g}; "
            f"normalise it, or send the missing probability to an absorbing state",
        )


def check_covariance(call: str, name: str, matrix: np.ndarray, *, definite: bool = False) -> None:
    """Refuse a matrix that is not symmetric and positive semidefinite, or definite if asked."""
    same, size = matrix.shape == matrix.shape[::-1], np.abs(matrix).max(initial=0)
    if not same or not np.allclose(matrix, matrix.T, rtol=1e-6, atol=1e-8 * size):
        remedy = "pass (X + X.T) / 2 if that is meant"
        refuse(call, name, f"is not symmetric, with shape {matrix.shape}; {remedy}")
    least = np.linalg.eigvalsh(matrix).min()
    if least < -1e-12 * size or (definite and least <= 0):
        wanted = "positive definite" if definite else "positive semidefinite"
        refuse(call, name, f"must be {wanted}, but has the eigenvalue {least:.3g}")
