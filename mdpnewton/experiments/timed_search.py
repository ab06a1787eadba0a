"""A search on an exact objective that also records the time."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import PyTree

from mdpnewton.evaluation import Evaluator
from mdpnewton.loop import Record, search
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
) -> Way:
    """`search` until all iterations are done or a step is refused.

    Args:
        evaluator: Exact evaluator. With it a refused step would be refused again.
        policy: Policy to improve.
        w: Initial parameters.
        method: The method that gives the direction.
        step: The step rule that says how far to go.
        iterations: Maximum number of iterations.
        warm: Whether to run some iterations first, so that compilation is not timed.
    """
    values, seconds, refused = [], [], False

    def after(record: Record, w: PyTree) -> bool:
        nonlocal refused
        refused = not record.step.accepted
        values.append(record.objective)
        seconds.append(time.process_time() - began)
        return refused

    def once(limit: int, callback: Any) -> Any:
        return search(
            evaluator,
            policy,
            w,
            method,
            step,
            iterations=limit,
            gradient_tolerance=0.0,
            patience=None,
            callback=callback,
        ).or_interrupt()

    if warm:
        once(2, None)
    began = time.process_time()
    found = once(iterations, after)
    return Way(np.array([*values, found.objective]), np.array([0.0, *seconds]), found.w, refused)
