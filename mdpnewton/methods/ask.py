"""The one way to ask any method for a direction."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.curvature import gradient
from mdpnewton.evaluation import Evaluation, Evaluator
from mdpnewton.methods.abstract import Direction, Method, Situation
from mdpnewton.methods.table import METHODS
from mdpnewton.policies import Policy
from mdpnewton.solve import SolveReport, inner, on_host


def method_named(method: str | Method) -> Method:
    """The method of that name in `METHODS`, or the method itself."""
    if isinstance(method, Method):
        return method
    if method not in METHODS:
        raise ValueError(f"there is no method {method!r}; choose one of {', '.join(METHODS)}.")
    return METHODS[method]


def direction(
    method: str | Method,
    policy: Policy,
    w: PyTree,
    evaluation: Evaluation,
    *,
    evaluator: Evaluator | None = None,
    key: Any = None,
    radius: float | None = None,
) -> Direction:
    """The search direction of a method at `w`.

    Args:
        method: A name in `METHODS`, or a `Method`.
        policy: The policy.
        w: Its parameters, any PyTree.
        evaluation: What an evaluator returned at `w`.
        evaluator: Only for "hessian_free_newton", which evaluates beside `w`.
        key: Handed to that evaluator.
        radius: Region of the step, for methods that have one; their own if it is not given.

    Returns:
        The direction, the gradient and a report. A failed solve or a descent direction is
        reported there, not raised.
    """
    chosen = method_named(method)
    at = Situation(policy, w, evaluation, gradient(policy, w, evaluation), evaluator, key, radius)
    if not np.isfinite(on_host(at.gradient)).all():
        nothing = jax.tree.map(jnp.zeros_like, w)
        return Direction(nothing, at.gradient, SolveReport("none", "not finite", float("nan"), 0))
    value, report = chosen.direct(at)
    return Direction(value, at.gradient, replace(report, slope=inner(value, at.gradient)))
