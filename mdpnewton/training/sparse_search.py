"""Searches for controllers of sparse problems, one start after the other, by products alone.

A solve begins where that of the last point ended, and a trial of the line search solves for values
alone.
"""

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.evaluators.controller import RESIDUAL, numbers_of
from mdpnewton.evaluators.sparse_chain import SparseChain, SparseClosed
from mdpnewton.jobs import Checkpoint
from mdpnewton.jobs.stopping import stop_here
from mdpnewton.plain import arrays_of, with_arrays
from mdpnewton.policies import FiniteStateController
from mdpnewton.policies.controller import Tables
from mdpnewton.training.one_by_one import Ways
from mdpnewton.training.row_rules import ARMIJO, SHORTEST, RowRules

RECENT = 20  # number of iterations over which a search looks whether it still rises


class Climb(NamedTuple):
    """Where a search is: parameters, their values and visits, the last step size, Adam's memory."""

    w: PyTree
    closed: SparseClosed
    size: Any
    memory: Any


def climb_from(
    chain: SparseChain, policy: FiniteStateController, w: PyTree, rules: RowRules
) -> Climb:
    """The beginning of a search."""
    w = jax.tree.map(lambda leaf: np.asarray(leaf, dtype=float), w)
    memory = () if rules.optimizer is None else rules.optimizer.init(w)
    return Climb(w, chain.closed(numbers_of(policy, w)), np.array(0.5), memory)


def advanced(
    chain: SparseChain, policy: FiniteStateController, rules: RowRules, at: Climb
) -> Climb | None:
    """One iteration on; None if no step along the direction rises."""
    tables = numbers_of(policy, at.w)
    ahead, gradient = _directed(rules, tables, *chain.earned(tables, at.closed))
    slope = float(sum(jnp.sum(d * g) for d, g in zip(ahead, gradient, strict=True)))
    direction, memory = policy.flattened(ahead), at.memory
    if rules.optimizer is not None:
        descent = jax.tree.map(jnp.negative, direction)
        with jax.numpy_dtype_promotion("standard"):  # Adam counts its steps in 32 bits
            direction, memory = rules.optimizer.update(descent, at.memory, at.w)
    direction = jax.tree.map(np.asarray, direction)
    searched = rules.rows.pace == "searched"
    finite = all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(direction))
    if not finite or (searched and not slope > 0):
        return None
    size = 2 * float(at.size) if searched else 1.0
    while True:
        moved = jax.tree.map(lambda x, d, size=size: x + size * d, at.w, direction)
        there = numbers_of(policy, moved)
        worth = chain.worth(there, at.closed)
        if worth.residual <= RESIDUAL and np.isfinite(worth.objective):
            rise = worth.objective - at.closed.objective
            if not searched or (rise >= ARMIJO * size * slope and rise > 0):
                return Climb(moved, chain.closed(there, at.closed, worth), np.array(size), memory)
        if not searched or size <= SHORTEST:
            return None
        size /= 2


@eqx.filter_jit
def _directed(
    rules: RowRules, tables: Tables, values: Tables, used: Tables
) -> tuple[Tables, Tables]:
    return rules.rows.direct(tables, values, used, rules.margin)


def climb_of(like: Climb, state: Any) -> Climb:
    """The search whose `arrays_of` are the state; `like` is any one with the same policy."""
    found: Climb = with_arrays("search_controllers", "checkpoint", like, state)
    return found


def settled(found: list[float], little: float, recent: int) -> bool:
    """Whether the objective has risen by no more than this in the last iterations."""
    return len(found) > recent and found[-1] - found[-1 - recent] <= little


def search_sparse(
    chain: SparseChain,
    policy: FiniteStateController,
    starts: PyTree,
    rules: RowRules,
    iterations: int,
    tolerance: float,
    progress: Callable[[int, int, float], object] | None,
    checkpoint: Checkpoint,
    *,
    recent: int = RECENT,
    little: float = 0.0,
    seconds: float | None = None,
) -> Ways:
    """Search from every start; the arguments are those of `search_controllers`.

    Args:
        chain: The problem.
        policy: The controller.
        starts: Initial parameters with a leading axis.
        rules: Method and settings.
        iterations: Maximum number of iterations per start.
        tolerance: A search stops when it has risen by no more than this share of its value.
        progress: Function that is called after every start.
        checkpoint: Keeps the state.
        recent: Number of iterations in which it must rise.
        little: A rise that is as good as none, whatever the value.
        seconds: Processor time after which a start is left as it is.
    """
    count = len(jax.tree.leaves(starts)[0])
    each = [jax.tree.map(lambda leaf, i=i: np.asarray(leaf)[i], starts) for i in range(count)]
    before = checkpoint.load() or {"curves": [], "clocks": [], "ends": [], "now": None}
    curves, clocks, now = before["curves"], before["clocks"], before["now"]
    ends = [with_arrays("search_controllers", "checkpoint", each[0], w) for w in before["ends"]]
    worst, interrupted = before.get("residual", 0.0), False

    def state(at: Climb | None, found: list[float], clock: list[float]) -> dict[str, Any]:
        current = None if at is None else {"at": arrays_of(at), "found": found, "clock": clock}
        done = {"curves": curves, "clocks": clocks, "ends": list(map(arrays_of, ends))}
        return {**done, "now": current, "residual": worst}

    for i in range(len(ends), count):
        began = process_time()
        at: Climb = climb_from(chain, policy, each[i], rules)
        found, clock = [float(at.closed.objective)], [0.0]
        if now is not None:
            at, found, clock = climb_of(at, now["at"]), list(now["found"]), list(now["clock"])
            began, now = began - clock[-1], None
        try:
            while len(found) <= iterations:
                if settled(found, max(little, tolerance * abs(found[-1])), recent):
                    break
                stop_here()
                if seconds is not None and clock[-1] >= seconds:
                    break
                after = advanced(chain, policy, rules, at)
                if after is None:
                    break
                at = after
                worst = max(worst, float(at.closed.residual))
                found.append(float(at.closed.objective))
                clock.append(process_time() - began)
                checkpoint.keep(partial(state, at, found, clock))
        except KeyboardInterrupt:
            interrupted = True
        curves.append(found + [found[-1]] * (iterations + 1 - len(found)))
        clocks.append(clock + [clock[-1]] * (iterations + 1 - len(clock)))
        ends.append(at.w)
        if interrupted:
            break
        if progress is not None:
            progress(i + 1, count, max(curve[-1] for curve in curves))
        checkpoint.keep(partial(state, None, [], []))
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ends)
    values = np.array(curves)
    return Ways(stacked, values[:, -1], values, np.sum(clocks, axis=0), worst, interrupted)
