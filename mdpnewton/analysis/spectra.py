"""Eigenvalues of symmetric matrices: by their independent parts, and the ends alone by Lanczos."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse import linalg as sparse_linalg

from mdpnewton.threads import threads_for

ROUND_OFF = 1e-9  # relative size below which a number counts as zero
LANCZOS = 1e-6  # relative accuracy of the ends of a spectrum


@dataclass(frozen=True)
class Spectrum:
    """Extreme eigenvalues of a symmetric matrix, and its definiteness in words.

    Attributes:
        smallest: The smallest eigenvalue.
        largest: The largest eigenvalue.
        scale: Largest entry of all matrices that are analysed together; round-off is relative to
            it.
        round_off: Share of the scale below which an eigenvalue counts as zero.
    """

    smallest: float
    largest: float
    scale: float
    round_off: float = ROUND_OFF

    @property
    def definiteness(self) -> str:
        """The definiteness up to round-off, such as "negative semidefinite"."""
        floor = self.round_off * self.scale
        if self.smallest >= -floor and self.largest <= floor:
            return "zero"
        if self.smallest > floor:
            return "positive definite"
        if self.largest < -floor:
            return "negative definite"
        if self.smallest >= -floor:
            return "positive semidefinite"
        if self.largest <= floor:
            return "negative semidefinite"
        return "indefinite"


def parts(*matrices: np.ndarray) -> Iterator[np.ndarray]:
    """The sets of rows that none of the matrices connects: a table has one for each state at least.

    Args:
        matrices: Square matrices of one size.
    """
    pattern = sum((sparse.csr_array(matrix != 0) for matrix in matrices[1:]),
                  sparse.csr_array(matrices[0] != 0))  # fmt: skip
    number, label = csgraph.connected_components(pattern, directed=False)
    order = np.argsort(label, kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(label, minlength=number))[:-1])


def eigenvalues(matrix: np.ndarray) -> np.ndarray:
    """All eigenvalues of a symmetric matrix, part by part, in ascending order."""
    found = []
    for rows in parts(matrix):
        inner = matrix[np.ix_(rows, rows)]
        with threads_for(float(len(rows)) ** 3):
            found.append(np.linalg.eigvalsh(inner) if len(rows) > 1 else inner.ravel())
    return np.sort(np.concatenate(found))


def ends(product: Callable[[np.ndarray], np.ndarray], size: int) -> tuple[float, float]:
    """The smallest and the largest eigenvalue of a symmetric matrix, known by its products.

    Args:
        product: Gives the product with a vector.
        size: Number of rows.
    """
    begin = np.random.default_rng(0).normal(size=size)
    if not np.any(product(begin)):
        return 0.0, 0.0
    operator = sparse_linalg.LinearOperator((size, size), matvec=product, dtype=float)
    try:
        values = sparse_linalg.eigsh(
            operator, 2, which="BE", v0=begin, tol=LANCZOS, return_eigenvectors=False
        )
    except sparse_linalg.ArpackNoConvergence as failed:
        values = np.asarray(failed.eigenvalues)
        if len(values) < 2:
            return float("nan"), float("nan")
    return float(values.min()), float(values.max())
