"""What a solver takes, and what it must report."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Protocol

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, PyTree

from mdpnewton.checks import number
from mdpnewton.steps.abstract import NOWHERE, Region


class Operator(Protocol):
    """A symmetric matrix over PyTrees: `Curvature`, `PolicyHessian`, or your own."""

    @property
    def w(self) -> PyTree:
        """A PyTree shaped like the vectors that it acts on."""

    def mv(self, p: PyTree) -> PyTree:
        """The product with p."""

    def dense(self) -> Array:
        """The matrix over flattened parameters."""

    def diagonal(self) -> PyTree:
        """Its diagonal, shaped like `w`."""

    def blocks(self) -> list[Array]:
        """Its diagonal blocks, one stack per leaf of `w`."""


@dataclass(frozen=True)
class SolveReport:
    """What a solve found and did.

    Attributes:
        solver: Name of the solver.
        status: "solved"; "indefinite": solved, although there was negative curvature; "corrected":
            negative curvature was turned positive, as requested; "singular": solved without any
            component along directions of no curvature; "negative curvature": stopped at such a
            direction; "iterations": stopped at the limit; "inaccurate": round-off left a residual
            above 1e-6; "not finite": NaN or infinity was met, and the direction is the last finite
            iterate, or zero.
        residual: |A x - b| / |b| for the matrix that was solved with, ridge included.
        iterations: Number of iterations of an iterative solver; 1 for a direct one.
        smallest_curvature: The smallest x'Ax / x'x that was seen, ridge included; for direct
            solvers the smallest eigenvalue.
        negative_curvature: Whether curvature below zero, beyond round-off, was met.
        singular: Whether a direction of no curvature was met.
        slope: Directional derivative of U along the direction; negative means descent.
        ridge: Multiple of the identity that was added to A, as requested.
        fisher_damping: Multiple of the Fisher matrix that was added to A, as requested.
        residuals: Relative residuals of an iterative solver, at the start and after each iteration.
        region: Certificate of a step that a region limits, see `TrustRegion` and `Cubic`.
    """

    solver: str
    status: str
    residual: float = 0.0
    iterations: int = 1
    smallest_curvature: float = float("nan")
    negative_curvature: bool = False
    singular: bool = False
    slope: float = float("nan")
    ridge: float = 0.0
    fisher_damping: float = 0.0
    residuals: tuple[float, ...] = ()
    region: Region = NOWHERE


class Solver(eqx.Module):
    """A way to solve A x = b; `ridge` is added to the diagonal of A."""

    ridge: eqx.AbstractVar[float]

    def __check_init__(self) -> None:
        number(type(self).__name__, "ridge", self.ridge, least=0)

    def within(self, radius: float | None) -> "Solver":
        """This solver for a region of that radius; only those with a region know the difference."""
        return self

    @abstractmethod
    def solve(self, A: Operator, b: PyTree) -> tuple[PyTree, SolveReport]:
        """The solution, always finite, and a report of the solve."""


def on_host(tree: PyTree) -> np.ndarray:
    """All entries of a PyTree as one NumPy vector.

    It serves the numbers that decide and are reported: NumPy is ten times cheaper for them than an
    array operation of JAX outside compiled code.
    """
    leaves = [np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(tree)]
    return np.concatenate(leaves) if leaves else np.zeros(0)


def inner(one: PyTree, other: PyTree) -> float:
    """The inner product; infinite or NaN, without a warning, if the entries are."""
    with np.errstate(all="ignore"):
        return float(on_host(one) @ on_host(other))


def length(tree: PyTree) -> float:
    """The Euclidean norm; infinite or NaN, without a warning, if the entries are."""
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(on_host(tree)))
