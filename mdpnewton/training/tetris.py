"""Practical policy search on Tetris: survival as the value, steps of a given divergence.

Not the paper's algorithm, which is `mdpnewton run tetris`. See docs/tetris.md for why.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import choice, number, whole
from mdpnewton.domains.tetris.policy import AfterstatePolicy, soft_start
from mdpnewton.domains.tetris.rules import Survival
from mdpnewton.domains.tetris.simulate import estimate
from mdpnewton.evaluation import State
from mdpnewton.executors import Executor
from mdpnewton.jobs import Checkpoint
from mdpnewton.loop import Record, search
from mdpnewton.methods import Settings, method_for, names
from mdpnewton.plain import entries, fields_of, rebuilt, sequence
from mdpnewton.solve import SolveReport
from mdpnewton.steps import KeepUnlessLost, KLSchedule, Step
from mdpnewton.training.survival import Clock, Schedule, Seen, SurvivalEvaluator, board_of


@dataclass(frozen=True)
class Iteration:
    """What one iteration saw and did.

    Attributes:
        number: Number of iterations that are done with it.
        seconds: Seconds since the beginning, when its games were played.
        height: Number of rows of the board.
        games: Number of games.
        pieces: Number of pieces in all games.
        lines: Mean lines per game of the Gibbs policy that played.
        stderr: Standard error of `lines`.
        kept: False where the weights that played had lost more than half of the lines of those
            before: the step that led to them is undone, and taken again half as long.
        divergence: Mean KL divergence per decision of the step that followed, 0 for none.
        report: How the direction of that step was found.
    """

    number: int
    seconds: float
    height: int
    games: int
    pieces: int
    lines: float
    stderr: float
    kept: bool
    divergence: float
    report: SolveReport


@dataclass
class TetrisTraining:
    """Weights in training, or trained.

    Attributes:
        policy: Features and board.
        w: The last weights that were kept.
        average: Mean of the weights that were kept over the last part: what to play with.
        history: One entry per iteration.
        interrupted: Whether Ctrl-C ended it.
        evaluator: The evaluator; its `state` has what it remembers.
        total: Sum of the weights that are averaged.
        count: Number of the weights that are averaged.
        seen: What the last evaluation saw: the next iteration begins with it.
        seconds: Seconds since the beginning when it was made.
        previous: The last step as it ended, None before the first.
    """

    policy: AfterstatePolicy
    w: np.ndarray
    average: np.ndarray
    history: list[Iteration] = field(default_factory=list)
    interrupted: bool = False
    evaluator: SurvivalEvaluator | None = None
    total: np.ndarray = field(default_factory=lambda: np.zeros(()))
    count: int = 0
    seen: Seen | None = None
    seconds: float = 0.0
    previous: Step | None = None


def train_tetris(
    policy: AfterstatePolicy,
    *,
    minutes: float | None = None,
    iterations: int | None = None,
    method: str = "second_gauss_newton",
    start: np.ndarray | None = None,
    seed: int = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    schedule: Schedule | None = None,
    callback: Callable[[Iteration], object] | None = None,
    checkpoint: Checkpoint | None = None,
) -> TetrisTraining:
    """Search for weights, for so many minutes or iterations.

    Args:
        policy: Features and board.
        minutes: Stop after so many minutes. What comes out depends on the speed of the machine.
        iterations: Stop after so many: reproducible to the bit, for any number of threads.
        method: A method that applies in "tetris"; see `mdpnewton list methods`.
        start: Weights to start from, such as those of another board; `soft_start` if not given.
            With them there is no warm-up on lower boards.
        seed: Random seed.
        threads: Maximum number of threads.
        executor: Object with `submit` whose workers play instead of threads.
        schedule: The numbers of the search.
        callback: Called after each iteration.
        checkpoint: Keeps the state of the training, from which the same call goes on after a kill.
            The time before counts, and with `iterations` the same bits come out.
    """
    choice("train_tetris", "method", method, names("tetris"))
    if (minutes is None) == (iterations is None):
        raise ValueError("`train_tetris` needs either `minutes` or `iterations`.")
    if minutes is not None:
        number("train_tetris", "minutes", minutes, above=0)
    else:
        whole("train_tetris", "iterations", iterations, 1)
    numbers = Schedule() if schedule is None else schedule
    rule = method_for(method, "tetris", Settings(damping=numbers.damping))
    w = soft_start(policy) if start is None else np.asarray(start, float)
    stages = numbers.stages(policy.height) if start is None else ((1.0, policy.height),)
    estimate(w, Survival(), games=1, **board_of(policy))  # compiles, before the clock runs
    kept = Checkpoint(None) if checkpoint is None else checkpoint
    before = kept.load()
    clock = Clock(minutes, iterations, spent=0.0 if before is None else before["spent"])
    evaluator = SurvivalEvaluator(numbers, stages, clock, threads=threads, executor=executor)
    training = TetrisTraining(policy, w, w)
    if before is not None:
        evaluator = evaluator.restored(before["search"]["evaluator"])
        training = _restored(before["training"], training, evaluator)
    training.evaluator = evaluator
    if before is not None and before["ended"]:
        return training
    key = jax.random.key(seed)

    def evaluated(w: np.ndarray, kept: bool) -> None:
        seen = training.seen = evaluator.seen
        training.seconds = clock.seconds()
        assert seen is not None
        counts = 1 - numbers.averaged <= seen.done < 1 and seen.height == policy.height
        if kept and counts:
            training.total, training.count = training.total + w, training.count + 1
        training.w = w
        training.average = training.total / training.count if training.count else w

    def after(record: Record, moved: PyTree) -> bool:
        training.history.append(_iteration(record, training))
        training.previous = record.step
        evaluated(np.array(moved), not record.step.undone)
        if callback is not None:
            callback(training.history[-1])
        return clock.done(record.iteration + 1) >= 1

    def keep(state: Callable[[], State]) -> None:
        kept.keep(
            lambda: {
                "search": state(),
                "training": _state(training),
                "spent": clock.seconds(),
                "ended": False,
            }
        )

    try:
        known = None
        if before is None:
            known = evaluator.evaluate(jax.random.fold_in(key, 0), policy, jnp.asarray(w))
            evaluated(w, True)
        ended = search(
            evaluator,
            policy,
            w,
            rule,
            KeepUnlessLost(KLSchedule(clock.done, numbers.divergence, numbers.last_divergence)),
            key=key,
            iterations=sys.maxsize if iterations is None else iterations,
            gradient_tolerance=-1.0,  # games without a choice have no gradient, and aren't the end
            patience=None,
            callback=after,
            evaluation=known,
            checkpoint=keep,
            resume=None if before is None else before["search"],
        )
        training.interrupted = ended.status == "interrupted"
        if not training.interrupted:
            end = {"search": {"evaluator": evaluator.state()}, "training": _state(training)}
            kept.keep(lambda: {**end, "spent": clock.seconds(), "ended": True}, now=True)
    except KeyboardInterrupt:  # in the first games
        training.interrupted = True
    return training


def _iteration(record: Record, training: TetrisTraining) -> Iteration:
    """The iteration of a record, which began with what `training` has seen."""
    seen, previous, step = training.seen, training.previous, record.step
    assert seen is not None
    return Iteration(
        record.iteration + 1,
        training.seconds,
        seen.height,
        seen.games,
        seen.pieces,
        seen.lines,
        seen.stderr,
        previous is None or not previous.undone,
        step.divergence if step.size > 0 else 0.0,
        record.report,
    )


def _state(training: TetrisTraining) -> State:
    """What the search does not know of a training, as plain data; see `_restored`."""
    assert training.previous is not None
    return {
        "previous": fields_of(training.previous),
        "w": training.w,
        "average": training.average,
        "total": training.total,
        "count": training.count,
        "seconds": training.seconds,
        "history": [fields_of(one) for one in training.history],
    }


def _restored(state: State, fresh: TetrisTraining, evaluator: SurvivalEvaluator) -> TetrisTraining:
    call = "train_tetris(checkpoint=...)"
    names = ("previous", "w", "average", "total", "count", "seconds", "history")
    previous, w, average, total, count, seconds, history = entries(call, state, *names)
    iterations = [rebuilt(call, Iteration, one) for one in sequence(call, "history", history)]
    return replace(
        fresh,
        w=np.asarray(w),
        average=np.asarray(average),
        total=np.asarray(total),
        count=whole(call, "count", count),
        seconds=float(seconds),
        history=iterations,
        seen=evaluator.seen,
        previous=rebuilt(call, Step, previous),
    )
