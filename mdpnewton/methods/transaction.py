"""A step is taken completely or not at all."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from mdpnewton.evaluation import Evaluation, Evaluator
from mdpnewton.methods.abstract import Direction
from mdpnewton.methods.line import TOO_FAR, is_finite, move
from mdpnewton.policies import Policy
from mdpnewton.steps import Line, Step, StepRule


def transact(
    evaluator: Evaluator,
    policy: Policy,
    w: PyTree,
    evaluation: Evaluation,
    ahead: Direction,
    rule: StepRule,
    line: Line,
    decided: Step,
    key: Any,
) -> tuple[Step, PyTree, Evaluation]:
    """The step as it ended, and the new parameters and their evaluation or exactly the old ones.

    Args:
        evaluator: Evaluates the policy.
        policy: The policy.
        w: The old parameters.
        evaluation: Their evaluation.
        ahead: The direction.
        rule: The step rule.
        line: The line along the direction.
        decided: What the rule chose on it.
        key: Random key for the new point.
    """
    arrived = None
    if decided.accepted:
        moved = move(w, decided.size, ahead.value)
        if is_finite(moved):
            with suppress(*TOO_FAR):
                arrived = evaluator.evaluate(key, policy, moved)
        known = arrived if arrived is not None and np.isfinite(arrived.objective) else None
        if known is None or known.stage == evaluation.stage:
            decided = rule.settled(decided, line, evaluation, known)
        if known is not None and decided.accepted:
            return decided, moved, known
        if not is_finite(moved):
            decided = replace(decided, reason="the parameters would not be finite")
    # Evaluate the old point again, with what was sampled on the way if the evaluator can use it.
    if arrived is not None:
        evaluation = evaluator.revisit(folded(key, 1), policy, w, evaluation)
    elif key is not None:
        evaluation = evaluator.evaluate(folded(key, 1), policy, w)
    return decided, w, evaluation


def folded(key: Any, iteration: int) -> Any:
    """The key of an iteration, or None without a key."""
    return None if key is None else jax.random.fold_in(key, iteration)
