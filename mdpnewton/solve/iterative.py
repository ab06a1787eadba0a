"""Solves that only multiply by A: conjugate gradients and steepest descent."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree, Scalar

from mdpnewton.checks import choice, flag, number, whole
from mdpnewton.curvature import Curvature
from mdpnewton.solve.report import Operator, Solver, SolveReport

STATUS = ("iterations", "solved", "negative curvature", "singular", "not finite")
RUNNING, SOLVED, NEGATIVE, SINGULAR, BROKEN = range(5)

Start = Literal["gradient", "zero"]
Products = Literal["exact", "finite_difference"]


class ConjugateGradient(Solver):
    """Truncated conjugate gradients, Algorithm 3, with Steihaug's stop.

    It stops at the tolerance, at the limit, or at a direction of negative or no curvature, and
    returns the iterate of least residual; if the very first direction has negative curvature, it
    returns the gradient. Library versions are not used, because they take indefinite systems for
    solved ones and meet NaN on flat directions; the tests name the cases.

    Attributes:
        iterations: Maximum number of products.
        tolerance: Relative residual at which to stop.
        ridge: Number that is added to the diagonal of A.
        start: Where to start: "gradient", as in Appendix B.3, or "zero".
        products: How to multiply by A: "exact", or by the paper's "finite_difference", eq. (58).
        epsilon: Relative step of the finite difference.
        relative_ridge: Multiple of |b'Ab| / b'b, the curvature along b, that is added to the
            diagonal too.
    """

    iterations: int = 50
    tolerance: float = 1e-6
    ridge: float = 0.0
    start: Start = "gradient"
    products: Products = "exact"
    epsilon: float = 1e-6
    relative_ridge: float = 0.0

    def __check_init__(self) -> None:
        _check("ConjugateGradient", self)

    def solve(self, A: Operator, b: PyTree) -> tuple[PyTree, SolveReport]:
        """See `Solver`."""
        return _solve("conjugate_gradient", self, A, b)

    def advance(self, on: "_System", state: "_State") -> "_State":
        """Take one conjugate-gradient step."""
        image = on.product(state.p)
        status, smallest, largest = _watch(state, image)
        square = state.r @ state.r
        step = square / (state.p @ image)
        x, r = state.x + step * state.p, state.r - step * image
        p = r + (r @ r) / square * state.p
        return _record(self, on, state, status, smallest, largest, x, r, p)


class SteepestDescent(Solver):
    """The paper's solver for cart-pole: 250 steps from the gradient, Section 6.2.

    Attributes:
        iterations: Maximum number of steps.
        tolerance: Relative residual at which to stop.
        ridge: Number that is added to the diagonal of A.
        least_squares: Whether to descend |A x - b|^2 / 2, which stays bounded where A is
            indefinite, instead of x'Ax / 2 - b'x.
        start: Where to start: "gradient", as in the paper, or "zero".
        products: How to multiply by A: "exact", or by "finite_difference", eq. (58).
        epsilon: Relative step of the finite difference.
        relative_ridge: Multiple of |b'Ab| / b'b that is added to the diagonal too.
    """

    iterations: int = 250
    tolerance: float = 1e-10
    ridge: float = 0.0
    least_squares: bool = False
    start: Start = "gradient"
    products: Products = "exact"
    epsilon: float = 1e-6
    relative_ridge: float = 0.0

    def __check_init__(self) -> None:
        _check("SteepestDescent", self)
        flag("SteepestDescent", "least_squares", self.least_squares)

    def solve(self, A: Operator, b: PyTree) -> tuple[PyTree, SolveReport]:
        """See `Solver`."""
        return _solve("steepest_descent", self, A, b)

    def advance(self, on: "_System", state: "_State") -> "_State":
        """Search exactly along the residual, or along A times the residual."""
        image = on.product(state.p)
        status, smallest, largest = _watch(state, image)
        if self.least_squares:
            # Any curvature will do, but A r = 0 means that an inconsistent system has no better x.
            flat = image @ image <= _floor(on.b.dtype, largest) ** 2 * (state.p @ state.p)
            still = jnp.where(flat, SINGULAR, RUNNING)
            status = jnp.where(status == BROKEN, BROKEN, still)
            twice = on.product(image)
            step = (image @ image) / (twice @ twice)
            x, r = state.x + step * image, state.r - step * twice
        else:
            step = (state.r @ state.r) / (state.r @ image)
            x, r = state.x + step * state.r, state.r - step * image
        return _record(self, on, state, status, smallest, largest, x, r, r)


def _check(call: str, solver: ConjugateGradient | SteepestDescent) -> None:
    """What both have in common; `Solver` checks the ridge."""
    whole(call, "iterations", solver.iterations)
    number(call, "tolerance", solver.tolerance, least=0)
    choice(call, "start", solver.start, get_args(Start))
    choice(call, "products", solver.products, get_args(Products))
    number(call, "epsilon", solver.epsilon, above=0)
    number(call, "relative_ridge", solver.relative_ridge, least=0)


class _State(NamedTuple):
    x: Float[Array, " n"]
    r: Float[Array, " n"]  # residual b - A x
    p: Float[Array, " n"]  # next direction
    best: Float[Array, " n"]  # iterate of least residual
    least: Scalar
    k: Int[Array, ""]
    smallest: Scalar  # smallest curvature so far
    largest: Scalar  # largest |A p| / |p| so far
    status: Int[Array, ""]
    residuals: Float[Array, " iterations+1"]


def _watch(state: _State, image: Array) -> tuple[Array, Array, Array]:
    """The status that follows from the direction p and its image A p."""
    square = state.p @ state.p
    seen = (state.p @ image) / square
    largest = jnp.maximum(state.largest, jnp.sqrt((image @ image) / square))
    floor = _floor(image.dtype, largest)
    status = jnp.where(seen < -floor, NEGATIVE, jnp.where(seen <= floor, SINGULAR, RUNNING))
    status = jnp.where(jnp.isfinite(seen), status, BROKEN)
    return status, jnp.fmin(state.smallest, seen), largest


def _floor(dtype: Any, largest: Any) -> Any:
    """Curvature below this is round-off; it is relative to A, and hence free of its scale."""
    return 64 * jnp.finfo(dtype).eps * largest


def _record(
    solver: Any,
    on: "_System",
    state: _State,
    status: Array,
    smallest: Array,
    largest: Array,
    x: Array,
    r: Array,
    p: Array,
) -> _State:
    """The next state: after the step if `status` allows it, else the old one, stopped."""
    taken = (status == RUNNING) & jnp.isfinite(jnp.linalg.norm(r))
    status = jnp.where((status == RUNNING) & ~taken, BROKEN, status)
    # The recurrence for r drifts from b - A x where x cancels: trust it only after a check.
    done = taken & (jnp.linalg.norm(r) <= solver.tolerance)
    r = on.choose(done, lambda: on.b - on.product(x), lambda: r)
    p = jnp.where(done, r, p)
    norm = jnp.linalg.norm(r)
    status = jnp.where(done & (norm <= solver.tolerance), SOLVED, status)
    better = taken & (norm < state.least)
    k = state.k + taken.astype(state.k.dtype)
    return _State(
        x=jnp.where(taken, x, state.x),
        r=jnp.where(taken, r, state.r),
        p=jnp.where(taken, p, state.p),
        best=jnp.where(better, x, state.best),
        least=jnp.where(better, norm, state.least),
        k=k,
        smallest=smallest,
        largest=largest,
        status=status,
        residuals=jnp.where(taken, state.residuals.at[k].set(norm), state.residuals),
    )


class _System(NamedTuple):
    """A x = b, with the loop and the choice that fit where A lives: traced, or on the host."""

    product: Callable[[Array], Array]
    b: Float[Array, " n"]
    loop: Callable[..., Any]
    choose: Callable[..., Any]


def _loop_on_host(
    condition: Callable[[_State], Array], body: Callable[[_State], _State], state: _State
) -> _State:
    while condition(state):
        state = body(state)
    return state


def _choose_on_host(
    condition: Array, then: Callable[[], Array], otherwise: Callable[[], Array]
) -> Array:
    return then() if condition else otherwise()


def _iterate(solver: Any, bare: _System) -> tuple[Scalar, Scalar, _State]:
    # With b of length one, residuals are relative, and squares of small numbers don't underflow.
    largest = jnp.abs(bare.b).max()
    largest = jnp.where((largest > 0) & jnp.isfinite(largest), largest, 1.0)
    length = largest * jnp.maximum(jnp.linalg.norm(bare.b / largest), 1.0)
    b = bare.b / length
    ridge = jnp.asarray(solver.ridge, b.dtype)
    if solver.relative_ridge:
        along = (b @ bare.product(b)) / jnp.maximum(b @ b, jnp.finfo(b.dtype).tiny)
        ridge = ridge + solver.relative_ridge * jnp.where(jnp.isfinite(along), jnp.abs(along), 0.0)
    on = bare._replace(product=lambda p: bare.product(p) + ridge * p, b=b)
    from_zero = solver.start == "zero"
    x = jnp.zeros_like(b) if from_zero else b
    r = b if from_zero else b - on.product(x)
    norm = jnp.linalg.norm(r)
    first = jnp.where(norm <= solver.tolerance, SOLVED, RUNNING)
    state = _State(
        x=x,
        r=r,
        p=r,
        best=x,
        least=jnp.array(jnp.inf, b.dtype) if from_zero else norm,  # zero is no direction
        k=jnp.array(0),
        smallest=jnp.array(jnp.nan, b.dtype),
        largest=jnp.array(0.0, b.dtype),
        status=jnp.where(jnp.isfinite(norm), first, BROKEN),
        residuals=jnp.full(solver.iterations + 1, jnp.nan, b.dtype).at[0].set(norm),
    )
    state = on.loop(
        lambda s: (s.status == RUNNING) & (s.k < solver.iterations),
        lambda s: solver.advance(on, s),
        state,
    )
    stuck = (state.status == NEGATIVE) & ~jnp.any(state.best != 0)
    x = jnp.where(stuck, b, state.best)
    x = jnp.where(jnp.isfinite(x).all(), x, 0.0)
    return jnp.linalg.norm(b - on.product(x)), ridge, state._replace(best=length * x)


@eqx.filter_jit
def _traced(solver: Any, A: Curvature, b: PyTree) -> tuple[PyTree, Scalar, Scalar, _State]:
    flat, unravel = ravel_pytree(b)
    exact = solver.products == "exact"
    inner = A.linearized() if exact else A.differenced(solver.epsilon)

    def product(p: Array) -> Array:
        return ravel_pytree(inner(unravel(p)))[0]

    system = _System(product, flat, jax.lax.while_loop, jax.lax.cond)
    residual, ridge, state = _iterate(solver, system)
    return unravel(state.best), residual, ridge, state  # outside jit every leaf costs a call


def _solve(name: str, solver: Any, A: Operator, b: PyTree) -> tuple[PyTree, SolveReport]:
    if isinstance(A, Curvature):
        x, residual, ridge, state = _traced(solver, A, b)
    else:  # products that solve on the host cannot be traced
        flat, unravel = ravel_pytree(b)

        def product(p: Array) -> Array:
            return ravel_pytree(A.mv(unravel(p)))[0]

        on = _System(product, flat, _loop_on_host, _choose_on_host)
        residual, ridge, state = _iterate(solver, on)
        x = unravel(state.best)
    taken = int(state.k)
    residuals = np.asarray(state.residuals)[: taken + 1]
    status = STATUS[int(state.status)]
    smallest = float(state.smallest)
    return x, SolveReport(
        solver=name,
        status=status,
        residual=float(residual),
        iterations=taken,
        smallest_curvature=smallest,
        negative_curvature=bool(smallest < -_floor(residuals.dtype, float(state.largest))),
        singular=status == "singular",
        ridge=float(ridge),
        residuals=tuple(residuals.tolist()),
    )
