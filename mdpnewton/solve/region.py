"""Steps for matrices that need not be definite: a trust region, and a cubic term.

Both maximise the model b's - s'As / 2, globally and whatever the signs in A, the one for |s| at
most a radius, the other less |s|^3 / (6 radius). Either way (A + m I) s = b for a multiplier m that
makes A + m I positive semidefinite, and |s| is a known function of m: a root of one equation.

Small problems are solved with the whole matrix. Others are projected on the Krylov space of b, in
which the steps inside a region are those of Steihaug's truncated conjugate gradients and those on
its boundary are better (Gould et al. 1999), with a few directions more from a start that has
nothing to do with b: at a saddle, where b says nothing, they find the way out.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from mdpnewton.checks import number, whole
from mdpnewton.solve.report import Operator, Solver, SolveReport, on_host
from mdpnewton.steps.abstract import Region
from mdpnewton.threads import threads_for

INACCURATE = 1e-6
Product = Callable[[np.ndarray], np.ndarray]


class RegionSolver(Solver):
    """A way to maximise a quadratic model within a region.

    Attributes:
        radius: The region, where the step rule sets none.
        iterations: Maximum number of products with directions that follow from b.
        probes: Number of products with directions that do not.
        tolerance: Relative residual at which to stop.
        dense: Largest number of parameters for which the whole matrix is formed.
        ridge: Number that is added to the diagonal of A.
    """

    radius: float = 1.0
    iterations: int = 50
    probes: int = 10
    tolerance: float = 1e-6
    dense: int = 300
    ridge: float = 0.0

    def __check_init__(self) -> None:
        call = type(self).__name__
        number(call, "radius", self.radius, above=0)
        whole(call, "iterations", self.iterations, 1)
        whole(call, "probes", self.probes)
        number(call, "tolerance", self.tolerance, least=0)
        whole(call, "dense", self.dense)

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the solver in reports."""

    @abstractmethod
    def length(self, multiplier: float) -> float:
        """Length of a step with that multiplier, if the region limits it."""

    @abstractmethod
    def enough(self, size: float, lowest: float) -> float:
        """A multiplier above `lowest` with which a right-hand side of that size is not too long."""

    def penalty(self, length: float) -> float:
        """What the region takes off the model for a step of that length."""
        return 0.0

    def rescaled(self, scale: float) -> Self:
        """This solver for a model that is divided by a number."""
        return self

    def within(self, radius: float | None) -> Self:
        """See `Solver`."""
        return self if radius is None else replace(self, radius=radius)

    def solve(self, A: Operator, b: PyTree) -> tuple[PyTree, SolveReport]:
        """See `Solver`; the report has the certificate as `region`."""
        flat, unravel = on_host(b), ravel_pytree(b)[1]
        with np.errstate(all="ignore"):
            return self._solved(A, b, flat, unravel)

    def _solved(
        self, A: Operator, b: PyTree, flat: np.ndarray, unravel: Any
    ) -> tuple[PyTree, SolveReport]:
        # A power of two takes the scale out, which changes no digit: squares may not overflow.
        largest = float(np.abs(flat).max(initial=0.0))
        scale = 2.0 ** np.floor(np.log2(largest)) if 0 < largest < np.inf else 1.0
        inside, side, found = self.rescaled(scale), flat / scale, None
        if np.isfinite(flat).all():
            way = inside._whole if flat.size <= self.dense else inside._projected
            found = way(A, b, side, scale)
        if found is None or not np.isfinite(found.step).all():
            zero = np.zeros_like(flat)
            return unravel(jnp.asarray(zero)), SolveReport(self.name, "not finite", np.nan, 0)
        s, image, length = found.step, found.image, float(np.linalg.norm(found.step))
        left = float(np.linalg.norm(image + found.multiplier * s - side))
        residual = left / max(float(np.linalg.norm(side)), found.multiplier * length, 1e-300)
        gain = float(s @ side - 0.5 * s @ image) - inside.penalty(length)
        ended = residual <= max(self.tolerance, INACCURATE)
        unsolved = "inaccurate" if flat.size <= self.dense else "iterations"
        if not np.isfinite(residual):
            unsolved = "not finite"
        return unravel(jnp.asarray(s)), SolveReport(
            solver=self.name,
            status="solved" if ended else unsolved,
            residual=residual,
            iterations=found.products,
            smallest_curvature=scale * found.smallest,
            negative_curvature=found.negative,
            singular=found.singular,
            ridge=self.ridge,
            region=Region(self.radius, scale * gain, scale * found.multiplier, found.boundary),
        )

    def _whole(self, A: Operator, tree: PyTree, b: np.ndarray, scale: float) -> "_Found | None":
        matrix = (np.asarray(A.dense(), float) + self.ridge * np.eye(b.size)) / scale
        if not np.isfinite(matrix).all():
            return None
        with threads_for(10.0 * b.size**3):
            values, vectors = np.linalg.eigh(matrix)
        inner = self._within_eigenvectors(values, vectors.T @ b)
        step = vectors @ inner.step
        return inner._replace(step=step, image=matrix @ step, products=1)

    def _projected(self, A: Operator, tree: PyTree, b: np.ndarray, scale: float) -> "_Found | None":
        unravel = ravel_pytree(tree)[1]

        def product(p: np.ndarray) -> np.ndarray:
            return (on_host(A.mv(unravel(jnp.asarray(p)))) + self.ridge * p) / scale

        basis = _Basis(b.size)
        basis.extend(b, product, self.iterations, self._ends(b))
        probe = np.random.default_rng(0).normal(size=b.size)
        basis.extend(probe, product, self.probes, lambda _, __: False)
        if not basis.vectors or not np.isfinite(basis.images[-1]).all():
            return None
        Q, images = np.stack(basis.vectors), np.stack(basis.images)
        inner = self._inside(Q, images, b)
        return inner._replace(
            step=Q.T @ inner.step, image=images.T @ inner.step, products=len(basis.vectors)
        )

    def _ends(self, b: np.ndarray) -> "Callable[[_Basis, np.ndarray], bool]":
        """Whether the best step in the space that there is leaves a small residual outside."""

        def ends(basis: "_Basis", rest: np.ndarray) -> bool:
            Q, images = np.stack(basis.vectors), np.stack(basis.images)
            inner = self._inside(Q, images, b)
            left = abs(inner.step[-1]) * np.linalg.norm(rest)
            return bool(left <= self.tolerance * np.linalg.norm(b))

        return ends

    def _inside(self, Q: np.ndarray, images: np.ndarray, b: np.ndarray) -> "_Found":
        """The best step in the space of the rows of Q, in their coordinates."""
        small = Q @ images.T
        values, vectors = np.linalg.eigh(0.5 * (small + small.T))
        found = self._within_eigenvectors(values, vectors.T @ (Q @ b))
        return found._replace(step=vectors @ found.step)

    def _within_eigenvectors(self, values: np.ndarray, b: np.ndarray) -> "_Found":
        """The global maximum where A is diagonal, its entries in ascending order."""
        epsilon = len(b) * np.finfo(float).eps
        floor = epsilon * max(float(np.abs(values).max()), 1e-300)
        negative, singular = values[0] < -floor, bool((np.abs(values) <= floor).any())
        lowest = -float(values[0]) if negative else 0.0
        gaps = np.maximum(values + lowest, 0.0)
        flat = gaps <= floor
        gaps = np.where(flat, 0.0, gaps)
        norm = float(np.linalg.norm(b))

        def step_at(extra: float) -> np.ndarray:
            below = gaps + extra
            found: np.ndarray = np.divide(b, below, out=np.zeros_like(b), where=below > 0)
            return found

        extra, boundary, step = 0.0, True, step_at(0.0)
        steep = bool((np.abs(b[flat]) > epsilon * norm).any())
        short = not steep and np.linalg.norm(step) <= self.length(lowest)
        if short and not negative:
            boundary = False
        elif short:  # the hard case: b says nothing of the direction of least curvature
            more = self.length(lowest) ** 2 - float(step @ step)
            step[0] = np.copysign(np.sqrt(max(more, 0.0)), b[0])
        else:

            def above(extra: float) -> float:
                size = max(float(np.linalg.norm(step_at(extra))), 1e-300)
                if steep and extra <= 0:
                    return -1.0
                return self.length(lowest + extra) / size - 1

            most = self.enough(norm, lowest)
            extra = float(scipy.optimize.brentq(above, 0.0, most, xtol=1e-300, maxiter=1000))
            step = step_at(extra)
        return _Found(step, step, lowest + extra, boundary, float(values[0]), negative, singular)


class TrustRegion(RegionSolver):
    """The best step of at most a length, by the model alone: no sign of A is changed.

    Inside of the region it is the solution of A s = b, if A is positive definite; on the boundary
    the multiplier says how much curvature was missing.
    """

    name = "trust_region"

    def length(self, multiplier: float) -> float:
        """The radius."""
        return self.radius

    def enough(self, size: float, lowest: float) -> float:
        """See `RegionSolver`."""
        return 2.0 * size / self.radius


class Cubic(RegionSolver):
    """The best step of the model less |s|^3 / (6 radius), cubic regularisation.

    Where the Hessian changes by at most 1 / radius per length, this is a lower bound of U (Nesterov
    & Polyak 2006). The multiplier is |s| / (2 radius).
    """

    name = "cubic"

    def length(self, multiplier: float) -> float:
        """Twice the radius times the multiplier."""
        return 2.0 * self.radius * multiplier

    def enough(self, size: float, lowest: float) -> float:
        """See `RegionSolver`."""
        return 2.0 * float(np.sqrt(size / (2.0 * self.radius)))

    def penalty(self, length: float) -> float:
        """See `RegionSolver`."""
        return length * length * length / (6.0 * self.radius)

    def rescaled(self, scale: float) -> Self:
        """See `RegionSolver`."""
        return replace(self, radius=self.radius * scale)


class _Found(NamedTuple):
    """A step and its image under A, both in the coordinates that were asked for."""

    step: np.ndarray
    image: np.ndarray
    multiplier: float
    boundary: bool
    smallest: float
    negative: bool
    singular: bool
    products: int = 0


class _Basis:
    """Orthonormal vectors and their images under A."""

    def __init__(self, size: int):
        self.size = size
        self.vectors: list[np.ndarray] = []
        self.images: list[np.ndarray] = []

    def extend(
        self,
        start: np.ndarray,
        product: Product,
        steps: int,
        ends: Callable[["_Basis", np.ndarray], bool],
    ) -> None:
        """Add the Krylov space of a start, until it is complete or `ends` says so."""
        after: Any = start
        for _ in range(steps):
            scale = float(np.linalg.norm(after))
            rest = self._apart(after)
            length = float(np.linalg.norm(rest))
            if len(self.vectors) == self.size or not length > 1e-12 * scale:
                return
            self.vectors.append(rest / length)
            self.images.append(product(self.vectors[-1]))
            after = self.images[-1]
            if not np.isfinite(after).all() or ends(self, self._apart(after)):
                return

    def _apart(self, vector: np.ndarray) -> np.ndarray:
        """What is orthogonal to the vectors that there are."""
        for _ in range(2 if self.vectors else 0):  # once would leave round-off that grows
            known = np.stack(self.vectors)
            vector = vector - known.T @ (known @ vector)
        return vector
