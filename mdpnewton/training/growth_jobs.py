"""A controller that grows, as jobs: an upper bound, then tries and searches, round by round."""

from collections.abc import Callable
from typing import Any

from mdpnewton.jobs import Job
from mdpnewton.jobs.job import Work
from mdpnewton.models.pomdp import upper_bounds
from mdpnewton.training.growth import PIECES, growing
from mdpnewton.training.restarts import evaluator_for


def growth_jobs(
    model: str,
    name: str,
    given: dict[str, Any],
    *,
    nodes: int,
    method: str,
    seed: int,
    iterations: int,
    gap: float,
    seconds: float | None,
    tell: Callable[[int, float, float | None], object],
) -> Work:
    """The best controller that has grown, with the bounds.

    Args:
        model: Text of a .pomdp file.
        name: Name of the file, for errors.
        given: Criterion, horizon and discount, where they are not those of the file.
        nodes: Largest number of nodes.
        method: A method that applies in "controller".
        seed: Random seed.
        iterations: Maximum number of iterations of each search.
        gap: Share of the upper bound that may be left.
        seconds: Processor time that may be used; None for any.
        tell: Called after every search with the nodes, and the best value and gap so far.
    """
    shared = {"model": model, "name": name, "given": given}
    bound = Job("bounds", f"{__name__}:bounds", shared)
    known = (yield [bound])["bounds"]
    work = growing(
        nodes=nodes,
        method=method,
        seed=seed,
        iterations=iterations,
        gap=gap,
        upper=known.get("upper"),
        seconds=seconds,
        tell=tell,
    )
    pieces = next(work)
    while True:
        asked = {"function": pieces[0].function, **shared}
        jobs = [
            Job(one.name, f"{__name__}:done", {**asked, "ask": one.arguments}) for one in pieces
        ]
        found = yield jobs
        try:
            pieces = work.send([found[job.name] for job in jobs])
        except StopIteration as end:
            return {**end.value, **known}


def bounds(model: str, name: str, given: dict[str, Any]) -> dict[str, float]:
    """The upper bounds of a problem; nothing where there are none."""
    found = upper_bounds(evaluator_for(model, name, given).pomdp)
    return {} if found is None else {"upper_qmdp": found.qmdp, "upper": found.fast_informed}


def done(
    function: str, model: str, name: str, given: dict[str, Any], ask: dict[str, Any]
) -> dict[str, Any]:
    """A piece of work of `growing`."""
    evaluator = evaluator_for(model, name, given)
    return PIECES[function](evaluator, **ask)
