"""The line from a point along the direction that a method gave, as step rules look at it."""

from contextlib import suppress
from functools import partial
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from mdpnewton.curvature import gradient
from mdpnewton.evaluation import AccumulatedMatrices, Evaluation, Evaluator, WeightedPairs
from mdpnewton.methods.abstract import Direction
from mdpnewton.models import SolveError
from mdpnewton.policies import Policy
from mdpnewton.simulators import DivergedError
from mdpnewton.solve import inner, length, on_host
from mdpnewton.steps import Line
from mdpnewton.steps.divergence import fisher_form, mean_divergence, promised

TOO_FAR = (SolveError, DivergedError)  # what the evaluation of a point far away may raise


def line_along(
    evaluator: Evaluator,
    policy: Policy,
    w: PyTree,
    evaluation: Evaluation,
    ahead: Direction,
    key: Any,
) -> Line:
    """What a step rule sees of U along a direction from `w`, with one key for all points."""

    def objective_at(size: float) -> float:
        moved = move(w, size, ahead.value)
        with suppress(*TOO_FAR):
            return evaluator.objective(key, policy, moved) if is_finite(moved) else float("nan")
        return float("nan")

    def slope_at(size: float) -> float:
        moved = move(w, size, ahead.value)
        with suppress(*TOO_FAR):
            pairs = evaluator.evaluate(key, policy, moved)
            return inner(gradient(policy, moved, pairs), ahead.value)
        return float("nan")

    def pairs() -> WeightedPairs:
        if not isinstance(evaluation, WeightedPairs):
            raise ValueError("this step rule looks at pairs of states and actions; use another one")
        return evaluation

    quadratic = None
    if isinstance(evaluation, AccumulatedMatrices):
        quadratic = partial(fisher_form, ahead.value, evaluation)

    def divergence_at(size: float) -> float:
        if quadratic is not None:
            return 0.5 * quadratic() * size**2
        return float(mean_divergence(policy, w, move(w, size, ahead.value), pairs()))

    def surrogate_at(size: float) -> float:
        return float(promised(policy, w, move(w, size, ahead.value), pairs()))

    return Line(
        start=evaluation.objective,
        slope=ahead.report.slope,
        norm=length(ahead.value),
        objective_at=objective_at,
        slope_at=slope_at,
        divergence_at=divergence_at,
        surrogate_at=surrogate_at,
        fisher_form=quadratic,
        region=ahead.report.region,
    )


def move(w: PyTree, size: float, ahead: PyTree) -> PyTree:
    """w + size * direction."""
    return jax.tree.map(lambda x, d: x + size * d, w, ahead)


def is_finite(w: PyTree) -> bool:
    """Whether no entry is NaN or infinite."""
    return bool(np.isfinite(on_host(w)).all())
