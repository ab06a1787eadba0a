"""A search for controllers from many starts as jobs, a few starts each."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from mdpnewton.evaluators import ControllerEvaluator, random_starts
from mdpnewton.files.pomdp_text import parse_pomdp
from mdpnewton.jobs import Job, job_checkpoint
from mdpnewton.jobs.job import Work
from mdpnewton.training.controllers import search_controllers

STARTS = 5  # maximum number of starts per job, whoever does it: the last bits depend on it


def restarts(
    model: str,
    name: str,
    given: dict[str, Any],
    *,
    nodes: int,
    method: str,
    count: int,
    iterations: int,
    seed: int,
) -> Work:
    """The best controller from `count` random starts.

    Args:
        model: Text of a .pomdp file.
        name: Name of the file, for errors.
        given: Criterion, horizon and discount, where they are not those of the file.
        nodes: Number of nodes of the controller.
        method: Method of the search.
        count: Number of random controllers to start from.
        iterations: Maximum number of iterations from each start.
        seed: Random seed of the starts.

    Returns:
        The parameters of the best controller, and the objectives at the ends of all starts.
    """
    shared = {"model": model, "name": name, "given": given, "nodes": nodes}
    shared |= {"method": method, "seed": seed}
    jobs = [
        Job(
            f"starts-{first}-{min(first + STARTS, count) - 1}",
            f"{__name__}:searched",
            {
                **shared,
                "first": first,
                "starts": min(STARTS, count - first),
                "iterations": iterations,
            },
        )
        for first in range(0, count, STARTS)
    ]
    found = yield jobs
    parts = [found[job.name] for job in jobs]
    values = np.concatenate([part["values"] for part in parts])
    best = int(values.argmax())
    w = {name: leaf[best % STARTS] for name, leaf in parts[best // STARTS]["w"].items()}
    return {
        "w": w,
        "values": values.tolist(),
        "iterations": max(part["iterations"] for part in parts),
        "residual": max(part["residual"] for part in parts),
        "seconds": sum(part["seconds"] for part in parts),
    }


def searched(
    model: str,
    name: str,
    given: dict[str, Any],
    nodes: int,
    method: str,
    seed: int,
    first: int,
    starts: int,
    iterations: int,
) -> dict[str, Any]:
    """The search from `starts` random controllers, beginning with number `first`."""
    evaluator = evaluator_for(model, name, given)
    policy = evaluator.controller(nodes)
    every = random_starts(policy, seed, first + starts)
    found = search_controllers(
        evaluator,
        policy,
        jax.tree.map(lambda leaf: leaf[first:], every),
        method,
        iterations=iterations,
        tolerance=1e-10,
        checkpoint=job_checkpoint(),
    )
    if found.interrupted:
        raise KeyboardInterrupt
    return {
        "w": {table: np.asarray(leaf) for table, leaf in found.w.items()},
        "values": found.value,
        "iterations": found.objective.shape[1] - 1,
        "residual": found.residual,
        "seconds": float(found.seconds[-1]),
    }


def evaluator_for(model: str, name: str, given: Mapping[str, Any]) -> ControllerEvaluator:
    """The evaluator of a problem that is a text.

    Args:
        model: Text of a .pomdp file.
        name: Name of the file, for errors.
        given: Criterion, horizon and discount, where they are not those of the file.
    """
    return _evaluator(model, name, tuple(sorted(given.items())))


@lru_cache(maxsize=1)
def _evaluator(model: str, name: str, given: tuple[tuple[str, Any], ...]) -> ControllerEvaluator:
    pomdp = parse_pomdp(model, name)
    return ControllerEvaluator(replace(pomdp, **dict(given)) if given else pomdp)
