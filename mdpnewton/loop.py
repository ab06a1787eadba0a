"""The loop: evaluate, direct, step, record."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import instance, number, refuse, whole
from mdpnewton.curvature import gradient
from mdpnewton.evaluation import Evaluation, Evaluator, State, WeightedPairs
from mdpnewton.jobs.stopping import polite, stop_here
from mdpnewton.methods import Direction, Method, direction, method_named
from mdpnewton.methods.line import is_finite, line_along
from mdpnewton.methods.transaction import folded, transact
from mdpnewton.models import SolveError
from mdpnewton.plain import arrays_of, entries, fields_of, reals, rebuilt, sequence, with_arrays
from mdpnewton.policies import Policy
from mdpnewton.solve import SolveReport, length
from mdpnewton.steps import Constant, Step, StepRule

Status = Literal["converged", "stagnated", "iterations", "interrupted", "stopped", "failed"]
SMALL = 1e-3  # weights of a gradient whose sum is below this make the tolerance smaller


@dataclass(frozen=True)
class Record:
    """One iteration of a search.

    Attributes:
        iteration: Number of the iteration, from 0.
        objective: Objective U before the step.
        gradient_norm: Norm of the gradient before the step.
        step: What the step rule decided.
        report: Report of the solve that gave the direction.
    """

    iteration: int
    objective: float
    gradient_norm: float
    step: Step
    report: SolveReport


@dataclass(frozen=True)
class SearchResult:
    """Where a search ended, and how it got there.

    Attributes:
        w: The best parameters of the last stage: those of the highest objective among all that were
            visited, the last ones if they are as good up to round-off. Always finite.
        objective: Objective U at `w` as it was found, an estimate if it is estimated from samples;
            the best of many estimates is better than it is.
        gradient_norm: Norm of the gradient at `w`.
        last: The parameters at which the search ended, always finite.
        last_objective: Objective at `last`.
        status: Why the search stopped.
        history: One record per iteration.
        trace: The parameters at every iteration, including the last, if `keep_trace` was set.
        failure: What a linear solve said that failed and ended the search, with status "failed";
            otherwise empty.
    """

    w: PyTree
    objective: float
    gradient_norm: float
    last: PyTree
    last_objective: float
    status: Status
    history: tuple[Record, ...]
    trace: tuple[PyTree, ...] = ()
    failure: str = ""

    @property
    def objectives(self) -> list[float]:
        """The objective at the start and after every iteration, as the search saw it."""
        return [*(float(one.objective) for one in self.history), float(self.last_objective)]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was not as it should be: a way downhill, perhaps by chance; indefinite systems."""
        found = []
        if self.last is not self.w:
            when = [one.iteration for one in self.history if one.objective == self.objective]
            found.append(
                f"it ended at {self.last_objective:.6g}, below the {self.objective:.6g} of "
                f"iteration {when[-1]}, whose parameters are `w`; take shorter steps, or a rule "
                f"that undoes them (`KeepIfBetter`)"
            )
        reports = [one.report for one in self.history]
        if count := sum(one.negative_curvature and np.isnan(one.region.radius) for one in reports):
            found.append(
                f"{count} of {len(self.history)} linear systems were indefinite; for the second "
                f"Gauss-Newton method use `Precondition('V2', fisher_damping=TightOffset())`"
            )
        return tuple(found)

    def or_interrupt(self) -> "SearchResult":
        """This result, or `KeyboardInterrupt` if Ctrl-C came: it is to end all of many searches."""
        if self.status == "interrupted":
            raise KeyboardInterrupt
        return self


@polite()
def search(
    evaluator: Evaluator,
    policy: Policy,
    w: PyTree,
    method: str | Method = "second_gauss_newton",
    step: StepRule | None = None,
    *,
    key: Any = None,
    iterations: int = 100,
    gradient_tolerance: float = 1e-8,
    patience: int | None = 20,
    keep_trace: bool = False,
    callback: Callable[[Record, PyTree], object] | None = None,
    evaluation: Evaluation | None = None,
    first: int = 0,
    previous: Step | None = None,
    checkpoint: Callable[[Callable[[], State]], object] | None = None,
    resume: State | None = None,
) -> SearchResult:
    """Improve a policy from `w`, Algorithm 1.

    Args:
        evaluator: Evaluates the policy, exactly or from samples.
        policy: The policy.
        w: Parameters to start from, any PyTree of floats.
        method: A name in `METHODS`, or a `Method`.
        step: Rule for how far to go; if not given that of the method, `RegionStep()` for those with
            a region and `Constant(1.0)` for the others.
        key: Random key for sampled evaluators; exact ones need none.
        iterations: Maximum number of iterations, counted from 0 and thus including those before
            `first`.
        gradient_tolerance: Stop when the norm of the gradient is at most this. For a problem of
            small rewards, where the weights of the gradient sum to less than 1e-3, it is made
            smaller in proportion to that sum.
        patience: Stop after this many iterations in a row without a better objective; None never
            stops for this reason, as suits noisy objectives.
        keep_trace: Whether to keep the parameters of every iteration.
        callback: Called with each record and the parameters after it; returns True to stop.
        evaluation: Evaluation of `w`, if it is known already.
        first: Number of the first iteration, to continue a search that was stopped, from its
            `last` parameters.
        previous: The last step of the search that was stopped, as its record has it.
        checkpoint: Called after every iteration with a function that gives the state of the search
            as plain data; the `keep` of a `Checkpoint` saves it now and then.
        resume: State to go on from, bit for bit. The evaluator must be `restored` from what the
            state has as "evaluator", and all other arguments must be those of the first time.

    Returns:
        The best parameters, the last ones and the history. An interrupt (Ctrl-C) ends the search
        with what it has; a step to a point where the policy, its simulation or its evaluation is
        not finite is rejected, and so is one to a point where a linear solve fails. If no direction
        can be found because a solve fails, the search ends with the status "failed".
    """
    method = method_named(method)
    step = (method.usual_step or Constant()) if step is None else step
    instance("search", "evaluator", evaluator, Evaluator, "subclass `mdpnewton.Evaluator`")
    instance("search", "step", step, StepRule, "pass a rule, as `Constant(0.5)`")
    whole("search", "iterations", iterations)
    number("search", "gradient_tolerance", gradient_tolerance)
    whole("search", "patience", 1 if patience is None else patience, 1)
    whole("search", "first", first)
    if previous is not None:
        instance("search", "previous", previous, Step, "pass the `step` of a record")
    w = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype=float), w)
    if not is_finite(w):
        raise ValueError("`search(w=...)` must be finite, but has NaN or infinite entries.")
    history: list[Record] = []
    trace, failure = [w], ""
    status: Status = "iterations"
    best, since_best, before = -np.inf, 0, np.nan
    top = (-np.inf, w)  # the best point of this stage, and its objective
    if resume is not None:
        history, trace, (best, since_best, before) = _resumed(resume, w)
        top = _best_of(trace, history, best, keep_trace)
        w, first, previous = trace[-1], history[-1].iteration + 1, history[-1].step
        made = folded(key, first) if previous.accepted else folded(folded(key, first), 1)
        evaluation = evaluator.again(made, policy, w)
    if evaluation is None:
        evaluation = evaluator.evaluate(folded(key, first), policy, w)
    if not np.isfinite(evaluation.objective):
        raise ValueError(
            f"`search` starts at parameters whose objective is {evaluation.objective}; choose "
            f"another `w`."
        )

    def state() -> State:
        return {
            "trace": [arrays_of(point) for point in (trace if keep_trace else [top[1], w])],
            "history": [fields_of(record) for record in history],
            "numbers": [best, since_best, before],
            "evaluator": evaluator.state(),
        }

    try:
        for iteration in range(first, iterations):
            stop_here()
            here = folded(key, iteration)
            ahead = direction(
                *(method, policy, w, evaluation),
                evaluator=evaluator,
                key=here,
                radius=step.region(previous),
            )
            norm = length(ahead.gradient)
            stays = not _escapes(ahead, gradient_tolerance)
            if stays and _converged(norm, gradient_tolerance, evaluation):
                status = "converged"
                break
            line = line_along(evaluator, policy, w, evaluation, ahead, here)
            line.previous, line.risen = previous, evaluation.objective - before
            decided = step.choose(line, iteration)
            next_key = folded(key, iteration + 1)
            decided, moved, next_evaluation = transact(
                evaluator, policy, w, evaluation, ahead, step, line, decided, next_key
            )
            record = Record(iteration, evaluation.objective, norm, decided, ahead.report)
            since_best = 0 if _above(evaluation.objective, best) else since_best + 1
            best = max(best, evaluation.objective)
            top = max(top, (evaluation.objective, w), key=lambda one: one[0])
            previous, before = decided, evaluation.objective
            if next_evaluation.stage != evaluation.stage:
                best, before = -np.inf, np.nan  # of another problem
                top = (-np.inf, moved)
            w, evaluation = moved, next_evaluation
            history.append(record)
            trace += [w] if keep_trace else []
            if callback is not None and callback(record, w) is True:
                status = "stopped"
                break
            if patience is not None and since_best >= patience:
                status = "stagnated"
                break
            if checkpoint is not None:
                checkpoint(state)
    except KeyboardInterrupt:
        status = "interrupted"
    except SolveError as error:
        status, failure = "failed", str(error)
    norm = length(gradient(policy, w, evaluation))
    if status == "iterations" and _converged(norm, gradient_tolerance, evaluation):
        status = "converged"
    kept, last = tuple(trace) if keep_trace else (), evaluation.objective
    objective, best_w = top if _above(top[0], last) else (last, w)
    if best_w is not w:
        norm = next(one.gradient_norm for one in reversed(history) if one.objective == objective)
    return SearchResult(best_w, objective, norm, w, last, status, tuple(history), kept, failure)


def _above(one: float, other: float) -> bool:
    """Whether an objective is higher than another one, by more than round-off."""
    return other == -np.inf or one > other + 1e-12 * abs(other)


def _resumed(state: State, w: PyTree) -> tuple[list[Record], list[PyTree], tuple[Any, ...]]:
    call = "search(resume=...)"
    points, history, numbers, _ = entries(call, state, "trace", "history", "numbers", "evaluator")
    records = [rebuilt(call, Record, one) for one in sequence(call, "history", history)]
    trace = [with_arrays(call, "trace", w, one) for one in sequence(call, "trace", points)]
    if not records or not trace:
        refuse("search", "resume", "needs the state of a search that has made an iteration")
    best, since_best, before = reals(call, "numbers", numbers, 3)
    return records, trace, (best, int(since_best), before)


def _best_of(
    trace: list[PyTree], history: list[Record], best: float, kept: bool
) -> tuple[float, PyTree]:
    """The best point that a state knows; without a trace it is saved before the last one."""
    if not kept:
        return (best, trace[0]) if len(trace) > 1 else (-np.inf, trace[-1])
    found = [w for w, one in zip(trace, history, strict=False) if one.objective == best]
    return (best, found[0]) if found else (-np.inf, trace[-1])


def _escapes(ahead: Direction, tolerance: float) -> bool:
    """Whether a model with negative curvature promises more than a small gradient could.

    At a saddle the gradient is zero, and a method with a region knows the way out.
    """
    found = ahead.report
    promised = found.region.gain > tolerance * length(ahead.value)
    return bool(found.negative_curvature and promised)


def _converged(norm: float, tolerance: float, evaluation: Evaluation) -> bool:
    """Whether the gradient is as small as asked for, in relation to what it is made of."""
    if not norm <= tolerance:
        return False
    if tolerance <= 0 or not isinstance(evaluation, WeightedPairs):
        return True
    total = float(np.abs(np.asarray(evaluation.gradient_weights)).sum())
    return bool(norm <= tolerance * min(1.0, total / SMALL))
