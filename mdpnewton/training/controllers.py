"""Search for finite-state controllers from many starts at once.

The search is compiled and mapped over the starts, with the directions of `methods.rows`. Sparse
problems, whose solves are on the host, and methods that go through `search` take one start after
the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from mdpnewton.checks import instance, number, refuse, whole
from mdpnewton.evaluators import ControllerEvaluator
from mdpnewton.evaluators.controller_chain import Chain, Closed
from mdpnewton.evaluators.sparse_chain import SparseChain
from mdpnewton.jobs import Checkpoint
from mdpnewton.jobs.stopping import polite, stop_here
from mdpnewton.methods import method_for, names
from mdpnewton.plain import arrays_of, with_arrays
from mdpnewton.policies import FiniteStateController
from mdpnewton.training.one_by_one import one_by_one
from mdpnewton.training.row_rules import ARMIJO, SHORTEST, RowRules
from mdpnewton.training.sparse_search import search_sparse

CHUNK = 20  # number of iterations between two readings of the clock


@dataclass(frozen=True)
class Restarts:
    """Searches from several starts.

    Attributes:
        policy: The controller.
        method: Name of the method.
        w: The best parameters of every start, with leading axis `starts`. They are always finite.
            Only Adam goes downhill: with all others these are the last ones.
        value: U at `w`, shape (starts,).
        objective: U at the start and after every iteration, shape (starts, iterations + 1).
        seconds: Processor time of all starts together, after every iteration.
        residual: Largest residual of a linear solve.
        interrupted: Whether Ctrl-C ended the search.
    """

    policy: FiniteStateController
    method: str
    w: PyTree
    value: np.ndarray
    objective: np.ndarray
    seconds: np.ndarray
    residual: float
    interrupted: bool = False

    @property
    def best(self) -> int:
        """The number of the start with the highest value."""
        return int(np.argmax(self.value))

    @property
    def best_w(self) -> PyTree:
        """The parameters of the best start."""
        return jax.tree.map(lambda leaf: leaf[self.best], self.w)


class State(NamedTuple):
    """State of one search: parameters, their closed loop, the last step size and Adam's memory.

    Adam remembers its averages, the best parameters that it has been to, and U there.
    """

    w: PyTree
    closed: Closed
    size: Array
    memory: Any


@polite()
def search_controllers(
    evaluator: ControllerEvaluator,
    policy: FiniteStateController,
    starts: PyTree,
    method: str = "second_gauss_newton",
    *,
    iterations: int = 200,
    margin: float = 0.5,
    learning_rate: float = 0.1,
    tolerance: float = 0.0,
    progress: Callable[[int, int, float], object] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Restarts:
    """Search from many starts at once, each with its own line search.

    A line search begins with twice the previous step and halves it until U has risen enough. EM's
    step is always 1, and Adam uses its learning rate. The offset is the tight one, see
    `row_offset`.

    Args:
        evaluator: Evaluator of the problem.
        policy: The controller.
        starts: Initial parameters with a leading axis, as `random_starts` gives them.
        method: A method that applies in "controller", or any of `METHODS`, which run for one start
            after the other.
        iterations: Maximum number of iterations per start.
        margin: Share of the range of values that the offset leaves on.
        learning_rate: Learning rate of Adam.
        tolerance: The search stops when no start has risen by this share in the last 20 iterations.
        progress: Function that is called with the number of iterations done, their total and the
            best objective. Methods that search one start after the other count starts instead.
        checkpoint: Keeps the state of the search, from which the same call goes on after a kill.
    """
    _check(evaluator, policy, starts)
    call = "search_controllers"
    whole(call, "iterations", iterations, 1)
    number(call, "margin", margin, least=0)
    number(call, "learning_rate", learning_rate, above=0)
    number(call, "tolerance", tolerance, least=0)
    kept = Checkpoint(None) if checkpoint is None else checkpoint
    if method not in names("controller"):
        way = one_by_one(evaluator.pomdp, policy, starts, method, iterations, progress, kept)
        return Restarts(policy, method, *way)
    rules = RowRules(method_for(method, "controller"), margin, learning_rate)
    chain = evaluator.chain
    if isinstance(chain, SparseChain):
        ask = (iterations, tolerance, progress, kept)
        return Restarts(policy, method, *search_sparse(chain, policy, starts, rules, *ask))
    began = process_time()
    with chain.threads(policy.nodes):
        state = jax.block_until_ready(_begun(chain, policy, starts, rules))
    found = [np.asarray(state.closed.objective)]
    seconds, interrupted, worst = [process_time() - began], False, 0.0
    if (before := kept.load()) is not None:
        state = with_arrays(call, "checkpoint", state, before["state"])
        found, seconds, worst = list(before["found"]), before["seconds"], before["residual"]
        began -= seconds[-1]
    try:
        while len(found) <= iterations:
            stop_here()
            count = min(CHUNK, iterations + 1 - len(found))
            with chain.threads(policy.nodes):
                state, risen, residual = jax.block_until_ready(
                    _advanced(chain, policy, state, rules, jnp.array(count))
                )
            rows = np.asarray(risen)[:count]
            worst = max(worst, float(residual.max()))
            took = process_time() - began
            seconds += np.linspace(seconds[-1], took, count + 1)[1:].tolist()
            gained = rows[-1] - found[-1]
            found += list(rows)
            if progress is not None:
                progress(len(found) - 1, iterations, float(rows[-1].max()))
            if (gained <= tolerance * np.abs(rows[-1])).all() and rules.rows.pace != "adam":
                break
            kept.keep(partial(_state, state, found, seconds, worst))
    except KeyboardInterrupt:
        interrupted = True
    curves = np.stack(found, axis=1)
    w, value = (state.w, curves[:, -1]) if rules.optimizer is None else state.memory[1:]
    clock = np.array(seconds)
    return Restarts(policy, method, w, np.asarray(value), curves, clock, worst, interrupted)


def _state(state: State, found: list[Any], seconds: list[float], worst: float) -> dict[str, Any]:
    return {
        "state": arrays_of(state),
        "found": np.stack(found),
        "seconds": seconds,
        "residual": worst,
    }


def _check(evaluator: Any, policy: Any, starts: PyTree) -> None:
    """That the three fit each other."""
    call, remedy = "search_controllers", "pass `evaluator.controller(nodes)`"
    instance(call, "evaluator", evaluator, ControllerEvaluator, "pass `ControllerEvaluator(pomdp)`")
    instance(call, "policy", policy, FiniteStateController, remedy)
    needed = {name: table.shape for name, table in policy.initial_parameters().items()}
    tables = starts if isinstance(starts, dict) else {}
    shapes = {name: np.shape(table) for name, table in tables.items()}
    lengths = {shape[:1] for shape in shapes.values()}
    if {name: shape[1:] for name, shape in shapes.items()} != needed or len(lengths) != 1:
        rule = f"needs {', '.join(needed)} of the policy's shapes with a leading axis"
        remedy = "pass `random_starts(policy, seed, starts)`"
        refuse(call, "starts", f"{rule}, got {shapes or type(starts).__name__}; {remedy}")


@eqx.filter_jit
def _begun(chain: Chain, policy: FiniteStateController, starts: PyTree, rules: RowRules) -> State:
    def begin(w: PyTree) -> State:
        optimizer = rules.optimizer
        here = chain.closed(policy.tables(w))
        memory = (optimizer.init(w), w, here.objective) if optimizer is not None else ()
        return State(w, here, jnp.array(0.5), memory)

    return jax.vmap(begin)(starts)


@eqx.filter_jit
def _advanced(
    chain: Chain, policy: FiniteStateController, state: State, rules: RowRules, count: Array
) -> tuple[State, Array, Array]:
    """The state after `count` iterations, with U and the residual after each of them."""
    step = jax.vmap(partial(_iteration, chain, policy, rules))
    empty = jnp.zeros((CHUNK, *state.size.shape))

    def once(n: Array, carried: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        after = step(carried[0])
        rows = carried[1].at[n].set(after.closed.objective)
        return after, rows, carried[2].at[n].set(after.closed.residual)

    found: tuple[State, Array, Array] = jax.lax.fori_loop(0, count, once, (state, empty, empty))
    return found


def _iteration(chain: Chain, policy: FiniteStateController, rules: RowRules, state: State) -> State:
    tables, here = policy.tables(state.w), state.closed
    values, used = chain.earned(tables, here)
    ahead, gradient = rules.rows.direct(tables, values, used, rules.margin)
    slope = sum(jnp.sum(d * g) for d, g in zip(ahead, gradient, strict=True))
    direction, memory = policy.flattened(ahead), state.memory
    if (optimizer := rules.optimizer) is not None:
        descent = jax.tree.map(jnp.negative, direction)
        with jax.numpy_dtype_promotion("standard"):  # Adam counts its steps in 32 bits
            direction, averages = optimizer.update(descent, state.memory[0], state.w)

    def moved(size: Array) -> PyTree:
        return jax.tree.map(lambda x, d: x + size * d, state.w, direction)

    def tried(size: Array) -> tuple[Array, Closed]:
        return size, chain.closed(policy.tables(moved(size)))

    if rules.rows.pace != "searched":
        size, there = tried(jnp.array(1.0))
        kept = jnp.isfinite(there.objective)
    else:

        def too_long(trial: tuple[Array, Closed]) -> Array:
            size, there = trial
            rises = there.objective >= here.objective + ARMIJO * size * slope
            return ~rises & (size > SHORTEST)

        nowhere = here._replace(
            objective=jnp.array(-jnp.inf)
        )  # so that twice the last size is tried
        size, there = jax.lax.while_loop(
            too_long, lambda trial: tried(trial[0] / 2), (4 * state.size, nowhere)
        )
        kept = (there.objective > here.objective) & (slope > 0)
    kept &= jnp.stack([jnp.isfinite(x).all() for x in jax.tree.leaves(direction)]).all()
    if rules.optimizer is not None:
        _, best, value = state.memory
        better = kept & (there.objective > value)
        best = jax.tree.map(lambda x, y: jnp.where(better, x, y), moved(size), best)
        memory = (averages, best, jnp.where(better, there.objective, value))
    new = State(moved(size), there, size, memory)
    old = State(state.w, here, state.size, memory)
    chosen: State = jax.tree.map(lambda x, y: jnp.where(kept, x, y), new, old)
    return chosen
