"""A search on an exact objective, with a clock."""

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
        objective: At the start and after every iteration.
        seconds: Of processor time since the start: others may use the machine.
        w: The last parameters.
        refused: Whether it ended because no step was to be had.
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
    """`search` until its iterations are spent or a step is refused.

    Args:
        evaluator: Exact: it refuses the same step again.
        policy: The policy.
        w: Where to begin.
        method: Gives the direction.
        step: How far to go.
        iterations: At most this many.
        warm: Run some iterations first, so that none of the seconds goes into compilation.
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
