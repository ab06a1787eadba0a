"""Black-box optimisation: a Gaussian over points climbs any function by the paper's methods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree
from numpy.typing import ArrayLike

from mdpnewton.evaluators.bandit import Bandit, Weighting
from mdpnewton.evaluators.shaping import Shaping, rank_utilities
from mdpnewton.loop import Record, search
from mdpnewton.methods import Method, MethodsOf, Settings, method_for
from mdpnewton.policies.diagonal_gaussian import DiagonalGaussian
from mdpnewton.steps import Constant, StepRule

# Their directions as they are; `maximize` guards those that may take a sigma to zero.
BLACK_BOX_METHODS: Mapping[str, Method] = MethodsOf("bandit")


@dataclass(frozen=True)
class Generation:
    """One iteration of a black-box search, after its step.

    Attributes:
        evaluations: How often the function was asked so far.
        mean_value: Mean over the newest samples.
        best_value: The best so far.
        mean: Of the Gaussian.
        sigma: Of the Gaussian.
        record: What the search recorded; `record.report` says how the solve went.
    """

    evaluations: int
    mean_value: float
    best_value: float
    mean: Float[np.ndarray, " k"]
    sigma: Float[np.ndarray, " k"]
    record: Record


@dataclass(frozen=True)
class Optimum:
    """What a black-box search found.

    Attributes:
        x: The best point that was evaluated, the last mean among them.
        value: The function there.
        mean: The last mean.
        sigma: The last standard deviations.
        mean_value: The function at `mean`; NaN if that was not evaluated.
        evaluations: How often the function was asked.
        status: "converged": every sigma became smaller than the tolerance; "budget";
            "stopped" by the callback; "interrupted".
        history: One entry an iteration.
    """

    x: Float[np.ndarray, " k"]
    value: float
    mean: Float[np.ndarray, " k"]
    sigma: Float[np.ndarray, " k"]
    mean_value: float
    evaluations: int
    status: str
    history: tuple[Generation, ...]


def maximize(
    function: Callable[[Any], Any],
    start: ArrayLike,
    *,
    sigma: ArrayLike = 1.0,
    method: str | Method = "second_gauss_newton",
    step: float | StepRule = 1.0,
    budget: int = 1500,
    samples: int = 15,
    reuse: int = 10,
    weighting: Weighting = "pooled",
    ratio_limit: float = 1.0,
    shaping: Shaping | None = rank_utilities,
    seed: int = 0,
    batched: bool = False,
    tolerance: float = 1e-10,
    callback: Callable[[Generation], object] | None = None,
) -> Optimum:
    """The best point of a function, by a Gaussian with diagonal covariance, Section 6.6.

    Args:
        function: From a point of shape (k,) to a number, larger is better; values that are not
            finite count as the worst.
        start: The first mean, shape (k,).
        sigma: The first standard deviations: how far from `start` to look. One number or k.
        method: A name in `BLACK_BOX_METHODS`, or a `Method`.
        step: Size of the steps, or a rule. "steepest" needs a small one.
        budget: The function is asked at most so often.
        samples: Points an iteration.
        reuse: Use the samples of so many iterations, the newest included.
        weighting: "pooled" or "importance", see `Bandit`.
        ratio_limit: Of importance weights.
        shaping: Utilities in place of values; None for a function that is never negative.
        seed: Of all randomness.
        batched: Whether `function` takes many points, shape (n, k), and returns n numbers.
        tolerance: Stop when every sigma is smaller than this multiple of its first value.
        callback: Called after every iteration; returns True to stop.

    Returns:
        The best point, with its history; Ctrl-C ends with what there is.

    Example:
        >>> maximize(lambda x: -((x - 3) ** 2).sum(), [0.0, 0.0]).x.round(2)
        array([3., 3.])
    """
    first = np.array(start, dtype=float)
    if first.ndim != 1 or not first.size or not np.isfinite(first).all():
        raise ValueError(f"`maximize(start=...)` needs finite shape (k,), got {first.shape}.")
    if budget < samples + 1:
        raise ValueError(
            f"`maximize(budget=...)` must pay for one batch and the last mean, {samples + 1}, got "
            f"{budget}."
        )
    size = step if isinstance(step, int | float) else 1.0
    chosen = _method(method, size)
    policy = DiagonalGaussian(first.size)
    w = policy.parameters(first, jnp.asarray(sigma, dtype=float))
    began = np.asarray(w["precision_factor"])
    values_of = function if batched else _one_by_one(function)
    bandit = Bandit(
        values_of,
        samples=samples,
        reuse=reuse,
        weighting=weighting,
        ratio_limit=ratio_limit,
        shaping=shaping,
    )
    history: list[Generation] = []
    status = "budget"

    def after(record: Record, w: PyTree) -> bool:
        nonlocal status
        spread = 1 / np.abs(np.asarray(w["precision_factor"]))
        here = float(bandit.batches[-1].values.mean())
        mean = np.array(w["mean"])
        history.append(Generation(bandit.evaluations, here, bandit.best[1], mean, spread, record))
        if callback is not None and callback(history[-1]) is True:
            status = "stopped"
        elif (spread * np.abs(began) < tolerance).all():
            status = "converged"
        return status != "budget" or bandit.evaluations + samples + 1 > budget

    try:
        found = search(
            bandit,
            policy,
            w,
            chosen,
            Constant(float(size)) if isinstance(step, int | float) else step,
            key=jax.random.key(seed),
            iterations=(budget - 1) // samples - 1,
            gradient_tolerance=-1.0,  # a plateau has no gradient, and isn't the end
            patience=None,
            callback=after,
        )
        w, status = found.w, "interrupted" if found.status == "interrupted" else status
    except KeyboardInterrupt:
        status = "interrupted"
    return _optimum(bandit, values_of, w, status, history)


def minimize(function: Callable[[Any], Any], start: ArrayLike, **options: Any) -> Optimum:
    """The least point of a function; the options are those of `maximize`.

    All values that it reports, to the callback too, are those of `function`.
    """
    given = options.pop("callback", None)

    def seen(generation: Generation) -> object:
        return given(_negated(generation))

    options["callback"] = None if given is None else seen
    found = maximize(lambda x: -np.asarray(function(x), dtype=float), start, **options)
    return replace(
        found,
        value=-found.value,
        mean_value=-found.mean_value,
        history=tuple(_negated(generation) for generation in found.history),
    )


def _negated(generation: Generation) -> Generation:
    record = replace(generation.record, objective=-generation.record.objective)
    return replace(
        generation,
        mean_value=-generation.mean_value,
        best_value=-generation.best_value,
        record=record,
    )


def _method(method: str | Method, size: float) -> Method:
    if isinstance(method, Method):
        return method
    if method not in BLACK_BOX_METHODS:
        raise ValueError(
            f"`maximize(method=...)` knows {', '.join(BLACK_BOX_METHODS)}, got {method!r}."
        )
    return method_for(method, "bandit", Settings(size=size))


def _one_by_one(function: Callable[[Any], Any]) -> Callable[[np.ndarray], np.ndarray]:
    def values(points: np.ndarray) -> np.ndarray:
        return np.array([float(np.asarray(function(point))) for point in points])

    return values


def _optimum(
    bandit: Bandit,
    values_of: Callable[[np.ndarray], Any],
    w: PyTree,
    status: str,
    history: list[Generation],
) -> Optimum:
    mean, evaluations = np.array(w["mean"]), bandit.evaluations
    at_mean = float("nan")
    if status != "interrupted":
        at_mean = float(np.asarray(values_of(mean[None].copy()), dtype=float)[0])
        evaluations += 1
    x, value = bandit.best
    if x is None or at_mean >= value:
        x, value = mean, at_mean
    sigma = 1 / np.abs(np.asarray(w["precision_factor"]))
    return Optimum(x, value, mean, sigma, at_mean, evaluations, status, tuple(history))
