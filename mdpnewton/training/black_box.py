"""Black-box optimisation: a Gaussian over points climbs any function with the paper's methods."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree
from numpy.typing import ArrayLike

from mdpnewton.checks import choice, flag, instance, number, refuse, whole
from mdpnewton.evaluators.bandit import Bandit, Weighting
from mdpnewton.evaluators.shaping import Shaping, checked_shaping, rank_utilities
from mdpnewton.executors import Executor, checked_executor, in_order
from mdpnewton.loop import Record, search
from mdpnewton.methods import Method, MethodsOf, Settings, method_for
from mdpnewton.models.checks import check_positive, finite_array, numbers
from mdpnewton.policies.diagonal_gaussian import DiagonalGaussian
from mdpnewton.steps import Constant, StepRule

# Their directions as they are; `maximize` guards those that may take a sigma to zero.
BLACK_BOX_METHODS: Mapping[str, Method] = MethodsOf("bandit")


@dataclass(frozen=True)
class Generation:
    """One iteration of a black-box search, after its step.

    Attributes:
        evaluations: Number of function evaluations so far.
        mean_value: Mean value of the newest samples.
        best_value: Best value so far.
        mean: Mean of the Gaussian.
        sigma: Standard deviations of the Gaussian.
        record: What the search recorded. `record.report` says how the solve went.
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
        x: The best of all evaluated points, including the last mean.
        value: Value of the function at `x`.
        mean: The last mean.
        sigma: The last standard deviations.
        mean_value: Value of the function at `mean`; NaN if it was not evaluated.
        evaluations: Number of function evaluations.
        status: Why the search ended: "converged" if every sigma fell below the tolerance, "budget"
            if the evaluations were used up, "stopped" by the callback, or "interrupted".
        history: One entry per iteration.
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
    executor: Executor | None = None,
    tolerance: float = 1e-10,
    callback: Callable[[Generation], object] | None = None,
) -> Optimum:
    """The best point of a function, found by a Gaussian with diagonal covariance, Section 6.6.

    Args:
        function: Function from a point of shape (k,) to a number; larger is better. Values that are
            not finite count as the worst.
        start: Initial mean, shape (k,).
        sigma: Initial standard deviations, one number or k numbers: how far from `start` to look.
        method: A name in `BLACK_BOX_METHODS`, or a `Method`.
        step: Size of the steps, or a step rule. "steepest" needs a small one.
        budget: Maximum number of function evaluations.
        samples: Number of points per iteration.
        reuse: Number of iterations whose samples are used, including the newest.
        weighting: How old samples are weighted: "pooled" or "importance", see `Bandit`.
        ratio_limit: Largest importance weight.
        shaping: Map from values to utilities. With None, which needs a function that is never
            negative, the values are used as they are.
        seed: Random seed.
        batched: Whether `function` takes many points, shape (n, k), and returns n numbers.
        executor: Object with `submit`, as `concurrent.futures.ProcessPoolExecutor`, that evaluates
            the points of an iteration at the same time. It does not change the results.
        tolerance: The search stops when every sigma is smaller than this multiple of its initial
            value.
        callback: Function that is called after every iteration. It returns True to stop.

    Returns:
        The best point, with its history. After Ctrl-C, the best point so far.

    Example:
        >>> maximize(lambda x: -((x - 3) ** 2).sum(), [0.0, 0.0]).x.round(2)
        array([3., 3.])
    """
    given = dict(locals())
    _check("maximize", **given)
    first, size = np.array(start, dtype=float), 1.0 if isinstance(step, StepRule) else float(step)
    chosen = _method(method, size)
    policy = DiagonalGaussian(first.size)
    w = policy.parameters(first, jnp.asarray(sigma, dtype=float))
    began = np.asarray(w["precision_factor"])
    values_of = function if batched else _one_by_one(function, executor)
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
            step if isinstance(step, StepRule) else Constant(size),
            key=jax.random.key(seed),
            iterations=(budget - 1) // samples - 1,
            gradient_tolerance=-1.0,  # a plateau has no gradient but is not the end
            patience=None,
            callback=after,
        )
        w, status = found.last, "interrupted" if found.status == "interrupted" else status
    except KeyboardInterrupt:
        status = "interrupted"
    return _optimum(bandit, values_of, w, status, history)


def minimize(function: Callable[[Any], Any], start: ArrayLike, **options: Any) -> Optimum:
    """The point at which a function is smallest; the options are those of `maximize`.

    All values that it reports, also to the callback, are those of `function`.
    """
    listed = signature(maximize).parameters.values()
    defaults = {each.name: each.default for each in listed if each.kind is each.KEYWORD_ONLY}
    if unknown := set(options) - set(defaults):
        raise TypeError(f"minimize() got an unexpected keyword argument {min(unknown)!r}")
    _check("minimize", function, start, **(defaults | options))
    given = options.pop("callback", None)

    def seen(generation: Generation) -> object:
        return given(_negated(generation))

    options["callback"] = None if given is None else seen
    found = maximize(_Minus(function), start, **options)
    return replace(
        found,
        value=-found.value,
        mean_value=-found.mean_value,
        history=tuple(_negated(generation) for generation in found.history),
    )


def _check(
    call: str,
    function: Any,
    start: Any,
    *,
    sigma: Any,
    method: Any,
    step: Any,
    budget: Any,
    samples: Any,
    reuse: Any,
    weighting: Any,
    ratio_limit: Any,
    shaping: Any,
    seed: Any,
    batched: Any,
    executor: Any,
    tolerance: Any,
    callback: Any,
) -> None:
    """Refuse wrong arguments of `maximize` or `minimize`."""
    instance(call, "function", function, Callable, "pass a function from a point to a number")
    k = finite_array(call, "start", start, 1, letters="(k,)").size
    shape = (k,) if numbers(call, "sigma", sigma).ndim else ()
    fits = "like `start`, or one number"
    spread = finite_array(call, "sigma", sigma, len(shape), shape=shape, fits=fits)
    check_positive(call, "sigma", spread)
    if not isinstance(method, Method):
        choice(call, "method", method, BLACK_BOX_METHODS)
    if not isinstance(step, StepRule):
        number(call, "step", step, above=0)
    whole(call, "samples", samples, 1)
    if whole(call, "budget", budget, 1) < samples + 1:
        rule = f"must pay for one batch and the last mean, {samples + 1}"
        refuse(call, "budget", f"{rule}, got {budget}")
    whole(call, "reuse", reuse, 1)
    choice(call, "weighting", weighting, get_args(Weighting))
    number(call, "ratio_limit", ratio_limit, above=0, infinite=True)
    if shaping is not None:
        checked_shaping(call, shaping)
    whole(call, "seed", seed)
    if flag(call, "batched", batched) and executor is not None:
        refuse(call, "executor", "evaluates points one by one; leave out `batched=True`")
    if executor is not None:
        checked_executor(call, executor)
    number(call, "tolerance", tolerance, least=0)
    if callback is not None:
        instance(call, "callback", callback, Callable, "pass a function of a `Generation`")


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
    found: Method = method_for(method, "bandit", Settings(size=size))
    return found


@dataclass(frozen=True)
class _Minus:
    """Minus a function; unlike a lambda it can be sent to another process."""

    function: Callable[[Any], Any]

    def __call__(self, x: Any) -> Any:
        return -np.asarray(self.function(x), dtype=float)


def _one_by_one(
    function: Callable[[Any], Any], executor: Executor | None
) -> Callable[[np.ndarray], np.ndarray]:
    def values(points: np.ndarray) -> np.ndarray:
        if executor is None:
            found = [function(point) for point in points]
        else:
            each = ((np.array(point),) for point in points)
            found = in_order(executor, function, each, {"the function": function})
        return np.array([float(np.asarray(value)) for value in found])

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
