"""Eigenvalues of symmetric matrices: by their independent parts, and the ends alone by Lanczos."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse import csgraph

from mdpnewton.threads import threads_for

ROUND_OFF = 1e-9  # relative size below which a number counts as zero
LANCZOS = 1e-6  # relative change of the ends of a spectrum that counts as none
MOST_STEPS, SETTLED = 120, 10  # steps of Lanczos, and in how many of them the ends must not move


@dataclass(frozen=True)
class Spectrum:
    """Extreme eigenvalues of a symmetric matrix, and its definiteness in words.

    Attributes:
        smallest: The smallest eigenvalue.
        largest: The largest eigenvalue.
        scale: Largest entry of all matrices that are analysed together; round-off is relative to
            it.
        round_off: Share of the scale below which an eigenvalue counts as zero.
        inside: Whether the true ends may lie further out, so that nothing is known to be definite.
    """

    smallest: float
    largest: float
    scale: float
    round_off: float = ROUND_OFF
    inside: bool = False

    @property
    def definiteness(self) -> str:
        """The definiteness up to round-off, such as "negative semidefinite"."""
        return self._word.replace(" definite", " semidefinite") if self.inside else self._word

    @property
    def _word(self) -> str:
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
    """The ends of the spectrum of a symmetric matrix, known by its products, by Lanczos.

    They are found from inside: the true ends may lie a little further out.

    Args:
        product: Gives the product with a vector.
        size: Number of rows.
    """
    vector = np.random.default_rng(0).normal(size=size)
    basis = [vector / np.linalg.norm(vector)]
    diagonal, beside, found = list[float](), list[float](), list[tuple[float, float]]()
    while True:
        after = np.asarray(product(basis[-1]))
        diagonal.append(float(after @ basis[-1]))
        values = scipy.linalg.eigvalsh_tridiagonal(diagonal, beside)
        found.append((float(values[0]), float(values[-1])))
        known = np.stack(basis)
        for _ in range(2):  # once would leave round-off that grows
            after = after - known.T @ (known @ after)
        rest = float(np.linalg.norm(after))
        floor = LANCZOS * max(abs(found[-1][0]), abs(found[-1][1]))
        before = found[-1 - SETTLED] if len(found) > SETTLED else (np.inf, np.inf)
        change = max(abs(x - y) for x, y in zip(found[-1], before, strict=True))
        if rest <= floor or change <= floor or len(found) == min(MOST_STEPS, size):
            return found[-1]
        beside.append(rest)
        basis.append(after / rest)
