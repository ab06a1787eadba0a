"""A search on an exact objective that also records the time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import PyTree

from mdpnewton.evaluation import Evaluator, State
from mdpnewton.jobs import job_checkpoint
from mdpnewton.loop import Record, SearchResult, search
from mdpnewton.methods import Method
from mdpnewton.policies import Policy
from mdpnewton.steps import StepRule


@dataclass(frozen=True)
class Way:
    """How one search went.

    Attributes:
        objective: The objective at the start and after every iteration.
        seconds: Processor time since the start. Wall time would include other programs.
        w: The last parameters.
        refused: Whether the search ended because the step rule refused a step.
    """

    objective: np.ndarray
    seconds: np.ndarray
    w: PyTree
    refused: bool


def timed_search(
    evaluator: Evaluator,
    policy: Policy,
    w: PyTree,
    method: str | Method,
    step: StepRule,
    iterations: int,
    *,
    warm: bool = False,
    stops: Callable[[Record], bool] = lambda record: False,
) -> Way:
    """`search` until all iterations are done, a step is refused, or it is to stop.

    Args:
        evaluator: Exact evaluator. With it a refused step would be refused again.
        policy: Policy to improve.
        w: Initial parameters.
        method: The method that gives the direction.
        step: The step rule that says how far to go.
        iterations: Maximum number of iterations.
        warm: Whether to run some iterations first, so that compilation is not timed.
        stops: Asked after every iteration; True ends the search.
    """
    kept = job_checkpoint()
    before = kept.load()
    seconds: list[float] = [] if before is None else list(before["seconds"])
    spent = seconds[-1] if seconds else 0.0

    def after(record: Record, w: PyTree) -> bool:
        seconds.append(spent + time.process_time() - began)
        return not record.step.accepted or stops(record)

    def keep(state: Callable[[], State]) -> None:
        kept.keep(lambda: {"search": state(), "seconds": seconds})

    def once(limit: int, **more: Any) -> SearchResult:
        return search(
            evaluator,
            policy,
            w,
            method,
            step,
            iterations=limit,
            gradient_tolerance=0.0,
            patience=None,
            **more,
        ).or_interrupt()

    if warm:
        once(2)
    began = time.process_time()
    resume = None if before is None else before["search"]
    found = once(iterations, callback=after, checkpoint=keep, resume=resume)
    refused = bool(found.history) and not found.history[-1].step.accepted
    clock = np.array([0.0, *seconds])
    return Way(np.array(found.objectives), clock, found.last, refused)
