"""Direct solves: the whole matrix, its diagonal blocks, or its diagonal."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree, Scalar

from mdpnewton.checks import flag, number
from mdpnewton.solve.report import Operator, Solver, SolveReport, length
from mdpnewton.threads import threads_for

SMALL = 16  # rows of blocks that are solved side by side


class Dense(Solver):
    """Solves with the whole matrix: by Cholesky if it is positive definite, else by eigenvectors.

    Paper: inverts the matrix. Here: a singular matrix gives the solution of least norm and the
    status "singular", because every full tabular policy has a singular matrix.

    Attributes:
        ridge: Number that is added to the diagonal.
        absolute: Whether negative eigenvalues are replaced by their absolute values.
        relative_ridge: Multiple of the diagonal's mean absolute value that is added to it too.
    """

    ridge: float = 0.0
    absolute: bool = False
    relative_ridge: float = 0.0

    def __check_init__(self) -> None:
        flag("Dense", "absolute", self.absolute)
        number("Dense", "relative_ridge", self.relative_ridge, least=0)

    def solve(self, A: Operator, b: PyTree) -> tuple[PyTree, SolveReport]:
        """See `Solver`."""
        flat, unravel = ravel_pytree(b)
        matrix = A.dense()
        ridge = self.ridge + _relative(np.diagonal(matrix), self.relative_ridge)
        with threads_for(flat.size**3):
            x, seen = jax.block_until_ready(
                _solve_symmetric(matrix, flat, jnp.asarray(ridge), self.absolute)
            )
        system = (matrix[None], x[None], flat[None], ridge)
        return unravel(x), _report("dense", [seen], ridge, flat, [system])


class Block(Solver):
    """Solves with the diagonal blocks, one per leaf of `w` or row of a table, Appendix B.2.

    Attributes:
        ridge: Number that is added to the diagonal.
        absolute: Whether negative eigenvalues are replaced by their absolute values.
        relative_ridge: Multiple of the diagonal's mean absolute value that is added to it too, for
            each leaf by itself: the leaves may have different units. The report has the largest.
    """

    ridge: float = 0.0
    absolute: bool = False
    relative_ridge: float = 0.0

    def __check_init__(self) -> None:
        flag("Block", "absolute", self.absolute)
        number("Block", "relative_ridge", self.relative_ridge, least=0)

    def solve(self, A: Operator, b: PyTree) -> tuple[PyTree, SolveReport]:
        """See `Solver`. The residual is that of the block-diagonal system."""
        leaves, structure = jax.tree.flatten(b)
        solved, seen, systems, ridges = [], [], [], []
        for blocks, leaf in zip(A.blocks(), leaves, strict=True):
            rows = leaf.reshape(blocks.shape[:2])
            diagonals = np.diagonal(blocks, axis1=1, axis2=2)
            ridge = self.ridge + _relative(diagonals, self.relative_ridge)
            with threads_for(blocks.size * blocks.shape[1]):
                x, what = jax.block_until_ready(
                    _solve_blocks(blocks, rows, np.asarray(ridge), self.absolute)
                )
            solved.append(x.reshape(leaf.shape))
            seen.append(what)
            systems.append((blocks, x, rows, ridge))
            ridges.append(ridge)
        x = jax.tree.unflatten(structure, solved)
        return x, _report("block", seen, max(ridges), b, systems)


class Diagonal(Solver):
    """Solves with the diagonal alone: each parameter on its own, Section 4.1.

    Attributes:
        ridge: Number that is added to the diagonal.
        absolute: Whether negative entries are replaced by their absolute values.
        relative_ridge: Multiple of the diagonal's mean absolute value that is added to it too.
    """

    ridge: float = 0.0
    absolute: bool = False
    relative_ridge: float = 0.0

    def __check_init__(self) -> None:
        flag("Diagonal", "absolute", self.absolute)
        number("Diagonal", "relative_ridge", self.relative_ridge, least=0)

    def solve(self, A: Operator, b: PyTree) -> tuple[PyTree, SolveReport]:
        """See `Solver`. The residual is that of the diagonal system."""
        flat, unravel = ravel_pytree(b)
        entries = ravel_pytree(A.diagonal())[0]
        ridge = self.ridge + _relative(entries, self.relative_ridge)
        x, seen = _solve_entries(entries, flat, ridge, self.absolute)
        system = (entries[:, None, None], x[:, None], flat[:, None], ridge)
        return unravel(x), _report("diagonal", [seen], ridge, flat, [system])


def _relative(diagonal: Any, share: float) -> float:
    """That share of the diagonal's mean absolute value, or 0 if it is not finite."""
    if not share:
        return 0.0
    mean = float(np.abs(diagonal).mean())
    return share * mean if np.isfinite(mean) else 0.0


class _Seen(NamedTuple):
    """What was found in one system, or in a stack of them."""

    error: Scalar  # squared norm of A x - b
    smallest: Scalar
    negative: Bool[Array, ""]
    corrected: Bool[Array, ""]
    singular: Bool[Array, ""]
    broken: Bool[Array, ""]


@eqx.filter_jit
def _solve_symmetric(
    matrix: Float[Array, "n n"], b: Float[Array, " n"], ridge: Any, absolute: bool
) -> tuple[Float[Array, " n"], _Seen]:
    n = b.size
    epsilon = n * jnp.finfo(b.dtype).eps
    matrix = matrix + ridge * jnp.eye(n)
    finite = jnp.isfinite(matrix).all()
    # With a unit diagonal, the pivots distinguish low rank from bad scaling.
    diagonal = jnp.abs(jnp.diagonal(matrix))
    scale = jnp.where(diagonal > 0, jax.lax.rsqrt(diagonal), 1.0)
    factor = jnp.linalg.cholesky(scale[:, None] * matrix * scale, symmetrize_input=False)
    positive = jnp.all(jnp.diagonal(factor) ** 2 > epsilon)

    def by_cholesky(_: None) -> tuple[Array, tuple[Array, ...]]:
        x = scale * jax.scipy.linalg.cho_solve((factor, True), scale * b)
        no = jnp.array(False)
        return x, (jnp.linalg.eigvalsh(matrix)[0], no, no, no)

    def by_eigenvectors(_: None) -> tuple[Array, tuple[Array, ...]]:
        values, vectors = jnp.linalg.eigh(jnp.where(finite, matrix, jnp.eye(n)))
        floor = epsilon * jnp.abs(values).max()
        flat = jnp.abs(values) <= floor
        negative = (values < -floor).any()
        used = jnp.abs(values) if absolute else values
        coordinates = jnp.where(flat, 0.0, (vectors.T @ b) / jnp.where(flat, 1.0, used))
        return vectors @ coordinates, (values[0], negative, negative & absolute, flat.any())

    x, (smallest, negative, corrected, singular) = jax.lax.cond(
        positive, by_cholesky, by_eigenvectors, None
    )
    broken = ~(jnp.isfinite(x).all() & finite)
    x = jnp.where(broken, 0.0, x)
    smallest = jnp.where(finite, smallest, jnp.nan)
    error = jnp.sum((matrix @ x - b) ** 2)
    return x, _Seen(error, smallest, negative, corrected, singular, broken)


@eqx.filter_jit
def _solve_blocks(
    blocks: Float[Array, "l m m"], rows: Float[Array, "l m"], ridge: Any, absolute: bool
) -> tuple[Float[Array, "l m"], _Seen]:
    def one(system: tuple[Array, Array]) -> tuple[Array, _Seen]:
        return _solve_symmetric(*system, ridge, absolute)

    if blocks.shape[1] > SMALL:  # side by side, all would pay for eigenvectors
        found: tuple[Array, _Seen] = jax.lax.map(one, (blocks, rows))
        return found
    return jax.vmap(one)((blocks, rows))


@eqx.filter_jit
def _solve_entries(
    entries: Float[Array, " n"], b: Float[Array, " n"], ridge: Any, absolute: bool
) -> tuple[Float[Array, " n"], _Seen]:
    """Solve the diagonal system entry by entry; an entry that is exactly zero is singular."""
    entries = entries + ridge
    finite, flat, negative = jnp.isfinite(entries), entries == 0, entries < 0
    used = jnp.abs(entries) if absolute else entries
    x = jnp.where(flat, 0.0, b / jnp.where(flat, 1.0, used))
    broken = ~(jnp.isfinite(x) & finite)
    x = jnp.where(broken, 0.0, x)
    error = (jnp.where(finite, entries, 0.0) * x - b) ** 2
    smallest = jnp.where(finite, entries, jnp.nan)
    return x, _Seen(error, smallest, negative, negative & absolute, flat, broken)


# blocks (l, m, m), solutions and right sides (l, m), what was added to the diagonals
_Systems = list[tuple[Array, Array, Array, float]]


def _report(
    solver: str, found: list[_Seen], ridge: float, b: PyTree, systems: _Systems
) -> SolveReport:
    seen: list[Any] = [_Seen(*map(np.asarray, part)) for part in found]  # type: ignore[arg-type]

    def anywhere(name: str) -> bool:
        return any(getattr(part, name).any() for part in seen)

    norm = length(b)
    error = float(sum(part.error.sum() for part in seen)) ** 0.5
    residual = error / norm if norm > 0 else 0.0
    if not np.isfinite(residual) or np.isinf(norm):
        residual = _scaled_residual(systems)  # squares of large numbers overflow
    negative, singular = anywhere("negative"), anywhere("singular")
    ranked = (
        ("not finite", anywhere("broken") or not np.isfinite(residual)),
        ("corrected", anywhere("corrected")),
        ("indefinite", negative),
        ("singular", singular),
    )
    return SolveReport(
        solver=solver,
        status=next((status for status, found in ranked if found), "solved"),
        residual=residual,
        smallest_curvature=min(float(part.smallest.min()) for part in seen),
        negative_curvature=negative,
        singular=singular,
        ridge=ridge,
    )


def _scaled_residual(systems: _Systems) -> float:
    """|A x - b| / |b| of block systems, without squares of large numbers."""
    errors, sides = [], []
    largest = max(float(np.abs(b).max(initial=0.0)) for _, _, b, _ in systems)
    with np.errstate(all="ignore"):
        for A, x, b, ridge in (map(np.asarray, system) for system in systems):
            scaled = np.einsum("lij,lj->li", A / largest, x) + ridge / largest * x
            errors.append(np.ravel(scaled - b / largest))
            sides.append(np.ravel(b / largest))
        found = np.linalg.norm(np.concatenate(errors)) / np.linalg.norm(np.concatenate(sides))
    return float(found)
