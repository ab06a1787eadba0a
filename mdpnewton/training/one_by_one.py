"""Searches for controllers with methods that go through `search`, one start after the other."""

from collections.abc import Callable
from time import process_time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.evaluation import Evaluator
from mdpnewton.evaluators import ControllerEvaluator, FiniteEvaluator
from mdpnewton.jobs import Checkpoint
from mdpnewton.loop import Record, search
from mdpnewton.methods import Precondition, method_for, names
from mdpnewton.models.pomdp import FinitePOMDP
from mdpnewton.models.pomdp.product import product_mdp, product_shape
from mdpnewton.plain import arrays_of, with_arrays
from mdpnewton.policies import FiniteStateController
from mdpnewton.steps import Armijo
from mdpnewton.training.plan import suited

SCORES = 1e8  # largest number of entries of a table of scores


class Ways(NamedTuple):
    """How the searches went; the fields are those of `Restarts`."""

    w: PyTree
    value: np.ndarray
    objective: np.ndarray
    seconds: np.ndarray
    residual: float
    interrupted: bool


def one_by_one(
    pomdp: FinitePOMDP,
    policy: FiniteStateController,
    starts: PyTree,
    method: str,
    iterations: int,
    progress: Callable[[int, int, float], object] | None,
    checkpoint: Checkpoint,
) -> Ways:
    """Search from every start; what is kept on the way are the starts that are done."""
    if method not in names("exact"):
        known = ", ".join(dict.fromkeys((*names("controller"), *names("exact"))))
        raise ValueError(f"there is no method {method!r}; choose one of {known}.")
    leaves = jax.tree.leaves(starts)
    count, size = len(leaves[0]), sum(leaf[0].size for leaf in leaves)
    evaluator, made = _evaluator_for(pomdp, policy.nodes, size, method), method_for(method, "exact")
    if pomdp.criterion != "discounted":
        made = suited(made, policy)
    before = checkpoint.load() or {"curves": [], "clocks": [], "ends": []}
    curves, clocks = before["curves"], before["clocks"]
    first = jax.tree.map(lambda leaf: leaf[0], starts)
    ends = [with_arrays("search_controllers", "checkpoint", first, w) for w in before["ends"]]
    interrupted = False
    for i in range(len(ends), count):
        began = process_time()
        clock = [0.0]

        def after(record: Record, w: PyTree, clock: Any = clock, began: float = began) -> None:
            clock.append(process_time() - began)

        w = jax.tree.map(lambda leaf, i=i: leaf[i], starts)
        rule = made.usual_step or Armijo(initial="twice")
        found = search(evaluator, policy, w, made, rule, iterations=iterations, callback=after)
        way = found.objectives
        curves.append(way + way[-1:] * (iterations + 1 - len(way)))
        clocks.append(clock + [clock[-1]] * (iterations + 1 - len(clock)))
        ends.append(found.last)
        if progress is not None:
            progress(i + 1, count, max(curve[-1] for curve in curves))
        if found.status == "interrupted":
            interrupted = True
            break
        checkpoint.keep(
            lambda: {"curves": curves, "clocks": clocks, "ends": list(map(arrays_of, ends))}
        )
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *ends)
    curves = np.array(curves)
    return Ways(stacked, curves[:, -1], curves, np.sum(clocks, axis=0), 0.0, interrupted)


def _evaluator_for(pomdp: FinitePOMDP, nodes: int, size: int, method: str) -> Evaluator:
    made = method_for(method, "exact")
    if isinstance(made, Precondition) and made.curvature == "hessian":
        states, decisions = product_shape(pomdp, nodes)
        entries = states * decisions * size
        if entries > SCORES:
            raise ValueError(
                f"{method} needs the score of every pair of the product chain, {entries:.1e} "
                f"numbers here and {SCORES:.0e} at most; use fewer nodes, or second_gauss_newton"
            )
        return FiniteEvaluator(product_mdp(pomdp, nodes))  # it knows grad V in every state
    discounted = pomdp.criterion == "discounted"  # other values are not raised by a constant
    return ControllerEvaluator(pomdp, max(0.0, -float(np.min(pomdp.reward))) if discounted else 0.0)
