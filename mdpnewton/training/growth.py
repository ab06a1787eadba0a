"""Controllers that grow by a node at a time, where that gains most, until their gap is small.

Growing asks for pieces of work, which `grow_controller` does one after the other, and the command
line as jobs: tries of a new node, several at a time, and the search from the best of them.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import choice, instance, number, whole
from mdpnewton.evaluators import ControllerEvaluator
from mdpnewton.evaluators.controller import numbers_of, random_starts
from mdpnewton.evaluators.sparse_chain import SparseChain
from mdpnewton.jobs import job_checkpoint
from mdpnewton.jobs.stopping import polite
from mdpnewton.methods import method_for, names
from mdpnewton.models.pomdp import upper_bounds
from mdpnewton.policies import FiniteStateController
from mdpnewton.training.new_node import lookahead, with_node
from mdpnewton.training.row_rules import RowRules
from mdpnewton.training.sparse_search import search_sparse

TRIES = 3  # new nodes that are tried at a time
FIRST = 8  # iterations of a try
SOFT, SOFTEST = 0.1, 0.4  # what is spread over all choices; more with every search in vain
IN_VAIN = 4  # searches in a row that end lower than before, which end it
TOLERANCE = 1e-3  # share of the gap, or of the value, that is next to nothing
RECENT = 5  # iterations in which a search must rise by more


class Piece(NamedTuple):
    """A piece of work: its name, the function `tried` or `climbed`, and what it is called with."""

    name: str
    function: str
    arguments: dict[str, Any]


Growing = Generator[list[Piece], list[dict[str, Any]], dict[str, Any]]


def growing(
    *,
    nodes: int,
    method: str,
    seed: int,
    iterations: int,
    gap: float,
    upper: float | None,
    seconds: float | None,
    tell: Callable[[int, float, float | None], object] = lambda nodes, value, gap: None,
) -> Growing:
    """Ask for the work of growing a controller.

    Args:
        nodes: Largest number of nodes.
        method: A method that applies in "controller".
        seed: Random seed.
        iterations: Maximum number of iterations of each search.
        gap: Share of the upper bound that may be left.
        upper: The upper bound, or None.
        seconds: Processor time that may be used; None for any.
        tell: Called after every search with the nodes, and the best value and gap so far.

    Returns:
        Parameters, nodes and value of the best controller, what each search found, and why it
        ended.
    """
    now: dict[str, Any] = {"w": None, "value": -np.inf, "nodes": 0}
    best = now | {"value": -np.inf}
    growth, used, done, worst, turn = list[dict[str, Any]](), 0.0, 0, 0.0, 0
    vain, still = 0, 0  # searches in a row that ended lower, and that found nothing better
    ended = "nodes"
    while now["nodes"] < nodes:
        left = None if seconds is None else seconds - used
        each = None if left is None else left / TRIES
        common = {"nodes": now["nodes"] + 1, "method": method, "seconds": each}
        tries = [
            Piece(
                f"round-{turn}-try-{k}",
                "tried",
                {
                    **common,
                    "w": now["w"],
                    "seed": [seed, turn, k],
                    "place": TRIES * vain + k,
                    "soft": min(SOFT * (1 + still), SOFTEST),
                },
            )
            for k in range(TRIES)
        ]
        found = yield tries
        used += sum(one["seconds"] for one in found)
        start = max(found, key=lambda one: one["value"])
        left = None if seconds is None else seconds - used
        little = TOLERANCE * abs(start["value"] if upper is None else upper - start["value"])
        more = {**common, "seconds": left, "w": start["w"], "iterations": iterations}
        more["little"] = little
        (end,) = yield [Piece(f"round-{turn}", "climbed", more)]
        used += end["seconds"]
        done += sum(one["iterations"] for one in [*found, end])
        worst = max(worst, end["residual"], *(one["residual"] for one in found))
        turn += 1
        vain += 1
        if end["value"] > now["value"] - little:
            now, vain = {**end, "nodes": common["nodes"]}, 0
        still = 0 if now["value"] > best["value"] + little else still + 1
        if now["value"] > best["value"]:
            best = now
        growth.append({"nodes": common["nodes"], "value": end["value"], "seconds": used})
        space = None if upper is None else upper - best["value"]
        tell(common["nodes"], best["value"], space)
        if space is not None and upper is not None and space <= gap * abs(upper):
            ended = "gap"
            break
        if seconds is not None and used >= seconds:
            ended = "time"
            break
        if vain == IN_VAIN:
            ended = "no node helps"
            break
    return {
        "w": best["w"],
        "nodes": best["nodes"],
        "value": best["value"],
        "growth": growth,
        "ended": ended,
        "iterations": done,
        "seconds": used,
        "residual": worst,
    }


def tried(
    evaluator: ControllerEvaluator,
    nodes: int,
    method: str,
    seconds: float | None,
    w: dict[str, Any] | None,
    seed: list[int],
    place: int,
    soft: float,
) -> dict[str, Any]:
    """A few iterations from a controller with a new node; without `w` from a random one."""
    chain, policy = _chain(evaluator), evaluator.controller(nodes)
    if w is None:
        drawn = random_starts(policy, seed[0], seed[2] + 1)
        start = jax.tree.map(lambda leaf: leaf[-1], drawn)
    else:
        rng, smaller = np.random.default_rng(seed), evaluator.controller(nodes - 1)
        tables = numbers_of(smaller, _parameters(w))
        ahead = lookahead(chain, tables, chain.closed(tables))
        order = np.argsort(-ahead.gain, axis=None)
        o, b = (int(one) for one in np.unravel_index(order[place % order.size], ahead.gain.shape))
        random = seed[2] == TRIES - 1 or not np.isfinite(ahead.gain[o, b])
        start = policy.flattened(with_node(tables, rng, None if random else (o, b), ahead, soft))
    return _searched(chain, policy, start, method, FIRST, 0.0, seconds)


def climbed(
    evaluator: ControllerEvaluator,
    nodes: int,
    method: str,
    seconds: float | None,
    w: dict[str, Any],
    iterations: int,
    little: float,
) -> dict[str, Any]:
    """The search from the best of the tries."""
    chain, policy = _chain(evaluator), evaluator.controller(nodes)
    return _searched(chain, policy, _parameters(w), method, iterations, little, seconds)


PIECES: dict[str, Callable[..., dict[str, Any]]] = {"tried": tried, "climbed": climbed}


def _searched(
    chain: SparseChain,
    policy: FiniteStateController,
    start: PyTree,
    method: str,
    iterations: int,
    little: float,
    seconds: float | None,
) -> dict[str, Any]:
    rules = RowRules(method_for(method, "controller"))
    one = jax.tree.map(lambda leaf: np.asarray(leaf)[None], start)
    found = search_sparse(
        *(chain, policy, one, rules, iterations, 0.0, None, job_checkpoint()),
        recent=RECENT,
        little=little,
        seconds=seconds,
    )
    if found.interrupted:
        raise KeyboardInterrupt
    return {
        "w": {name: np.asarray(leaf[0]).tolist() for name, leaf in found.w.items()},
        "value": float(found.objective[0, -1]),
        "iterations": int(np.count_nonzero(np.diff(found.objective[0]))),
        "seconds": float(found.seconds[-1]),
        "residual": found.residual,
    }


def _chain(evaluator: ControllerEvaluator) -> SparseChain:
    known = evaluator.chain
    return known if isinstance(known, SparseChain) else SparseChain(evaluator.pomdp)


def _parameters(w: dict[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(table, dtype=float) for name, table in w.items()}


@dataclass(frozen=True)
class Grown:
    """A controller that has grown.

    Attributes:
        policy: The controller.
        w: Its parameters.
        objective: Its value.
        upper: The upper bound of what any policy earns, or None.
        growth: Number of nodes, value and processor time after each search.
        ended: Why it ended: "gap", "nodes", "time" or "no node helps".
    """

    policy: FiniteStateController
    w: PyTree
    objective: float
    upper: float | None
    growth: list[dict[str, Any]]
    ended: str


@polite()
def grow_controller(
    evaluator: ControllerEvaluator,
    nodes: int = 10,
    *,
    method: str = "second_gauss_newton",
    gap: float = 0.01,
    seconds: float | None = None,
    iterations: int = 100,
    seed: int = 0,
    progress: Callable[[int, float, float | None], object] | None = None,
) -> Grown:
    """A controller that begins with one node and gets one more where that gains most.

    Three nodes are tried at a time: the two that look one step ahead from the mean beliefs with the
    largest gains, and a random one. The best of them is searched on.

    Args:
        evaluator: Evaluator of the problem; sparse and dense problems are solved by products.
        nodes: Largest number of nodes.
        method: A method that applies in "controller".
        gap: It ends when the value is this near to the upper bound, as a share of that.
        seconds: Processor time after which it ends; None for any.
        iterations: Maximum number of iterations of each search.
        seed: Random seed.
        progress: Function that is called after every search with the nodes, and the best value and
            gap so far.
    """
    call = "grow_controller"
    instance(call, "evaluator", evaluator, ControllerEvaluator, "pass `ControllerEvaluator(pomdp)`")
    whole(call, "nodes", nodes, 1)
    choice(call, "method", method, names("controller"))
    number(call, "gap", gap, least=0)
    if seconds is not None:
        number(call, "seconds", seconds, above=0)
    whole(call, "iterations", iterations, 1)
    whole(call, "seed", seed)
    bounds = upper_bounds(evaluator.pomdp)
    upper = None if bounds is None else bounds.fast_informed
    work = growing(
        nodes=nodes,
        method=method,
        seed=seed,
        iterations=iterations,
        gap=gap,
        upper=upper,
        seconds=seconds,
        tell=progress or (lambda nodes, value, gap: None),
    )
    pieces = next(work)
    while True:
        answers = [PIECES[piece.function](evaluator, **piece.arguments) for piece in pieces]
        try:
            pieces = work.send(answers)
        except StopIteration as end:
            found = end.value
            break
    policy = evaluator.controller(found["nodes"])
    w = _parameters(found["w"])
    return Grown(policy, w, found["value"], upper, found["growth"], found["ended"])
