"""Survival on Tetris boards that grow: the numbers, the clock and the evaluator of training."""

import time
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mdpnewton.checks import number, refuse, whole
from mdpnewton.domains.tetris.evaluator import evaluation_of, seed_of, within_reach
from mdpnewton.domains.tetris.policy import AfterstatePolicy
from mdpnewton.domains.tetris.rules import Survival
from mdpnewton.domains.tetris.simulate import estimate, play
from mdpnewton.evaluation import AccumulatedMatrices, Evaluation, Evaluator, State
from mdpnewton.executors import Executor
from mdpnewton.plain import entries, reals

# Discounts of survival by rows: games on higher boards last longer.
DISCOUNTS = {"bi": {10: 0.995, 14: 0.997, 20: 0.998}, "dt": {10: 0.998, 14: 0.999, 20: 0.9995}}


@dataclass(frozen=True)
class Schedule:
    """The numbers of the practical search; docs/tetris.md says where they come from.

    Attributes:
        pieces: Number of pieces per iteration that the number of games is adapted to.
        games: Maximum number of games per iteration.
        least_games: Minimum number of games per iteration.
        divergence: Mean KL divergence of a step per decision at the beginning.
        last_divergence: Mean KL divergence of a step per decision at the end; it falls
            geometrically in between.
        damping: Ridge of the solve, as a share of the matrix's mean diagonal.
        share: One in so many decisions has its covariance computed.
        averaged: Share of the time, counted from the end, whose weights are averaged.
        lower: Shares of the time that boards of more than ten rows spend on ten and on 14 rows
            first.
    """

    pieces: int = 2_000_000
    games: int = 1000
    least_games: int = 64
    divergence: float = 0.02
    last_divergence: float = 0.001
    damping: float = 1e-3
    share: int = 4
    averaged: float = 0.5
    lower: tuple[float, float] = (0.1, 0.4)

    def __post_init__(self) -> None:
        for name in ("pieces", "games", "least_games"):
            whole("Schedule", name, getattr(self, name), 1)
        for name in ("divergence", "last_divergence"):
            number("Schedule", name, getattr(self, name), above=0)
        number("Schedule", "damping", self.damping, least=0)
        number("Schedule", "averaged", self.averaged, above=0, most=1)
        if len(self.lower) != 2 or not 0 <= min(self.lower) <= sum(self.lower) < 1:
            refuse("Schedule", "lower", f"needs two shares with a sum below 1, got {self.lower!r}")

    def stages(self, height: int) -> tuple[tuple[float, int], ...]:
        """The boards on the way to one of `height` rows: until which share of the time, rows."""
        first, second = self.lower
        if height <= 10:
            return ((1.0, height),)
        if height <= 14:
            return ((first + second, 10), (1.0, height))
        return ((first, 10), (first + second, 14), (1.0, height))


@dataclass(frozen=True)
class Clock:
    """How much of the time is over, by the number of iterations or by minutes.

    Attributes:
        minutes: Length of the search in minutes, or None.
        iterations: Length of the search in iterations, where minutes are None.
        spent: Seconds that the search had taken before the clock was started.
        began: Time at which the clock was started.
    """

    minutes: float | None = None
    iterations: int | None = None
    spent: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Seconds since the beginning."""
        return self.spent + time.monotonic() - self.began

    def done(self, iteration: int) -> float:
        """Share of the time that is over when this iteration begins, 0 for the first."""
        if self.minutes is not None:
            return self.seconds() / (60 * self.minutes)
        assert self.iterations is not None
        return iteration / self.iterations


class Seen(NamedTuple):
    """What one evaluation saw.

    Attributes:
        done: Share of the time that was over when it began.
        height: Number of rows of the board.
        games: Number of games.
        pieces: Number of pieces in all games.
        lines: Mean lines per game.
        stderr: Standard error of `lines`.
    """

    done: float
    height: int
    games: int
    pieces: int
    lines: float
    stderr: float


class Adapted(NamedTuple):
    """What the next evaluation takes from a good one.

    Attributes:
        height: Number of rows of the board that it was made on.
        games: Number of games to play.
        critic: Mean of beta^(T - t) by largest column height; see `Survival`.
    """

    height: int
    games: int
    critic: np.ndarray


class SurvivalEvaluator(Evaluator):
    """Matrices of an `AfterstatePolicy` by `Survival`, on boards that grow as time goes by.

    The number of games is adapted to their length, and the critic is the survival that the last
    good evaluation saw: one is good unless the search comes back from its point. Its stage is the
    number of rows, so that the lines on two boards are never compared.

    Attributes:
        schedule: The numbers.
        stages: Until which share of the time, how many rows; see `Schedule.stages`.
        clock: Says how much of the time is over.
        threads: Maximum number of threads; results don't depend on it.
        executor: Object with `submit` whose workers play instead of threads, or None.
        evaluations: Number of evaluations that were made.
        seen: What the last evaluation saw, None before the first.
        held: The evaluation of the point where the search is, None before the first.
    """

    def __init__(
        self,
        schedule: Schedule,
        stages: tuple[tuple[float, int], ...],
        clock: Clock,
        *,
        threads: int | None = None,
        executor: Executor | None = None,
    ):
        self.schedule, self.stages, self.clock = schedule, stages, clock
        self.threads, self.executor = threads, executor
        self.evaluations = 0
        self.seen: Seen | None = None
        self.held: AccumulatedMatrices | None = None
        self._adapted: Adapted | None = None
        self._before: Adapted | None = None

    def evaluate(
        self, key: Any, policy: AfterstatePolicy, w: Float[Array, " n"]
    ) -> AccumulatedMatrices:
        """Games at `w` on the board of this time, and what they say to the next ones."""
        done, last, numbers = self.clock.done(self.evaluations), self._adapted, self.schedule
        board = replace(policy, height=self._rows(done))
        games, critic = numbers.games, None
        if last is not None and last.height == board.height:
            games, critic = last.games, last.critic.tolist()
        elif last is not None:
            games = max(numbers.least_games, last.games // 4)
        found = estimate(
            within_reach(w),
            Survival(_discount(board), critic, numbers.share),
            games=games,
            seed=seed_of(key),
            threads=self.threads,
            executor=self.executor,
            **board_of(board),
        )
        wanted = numbers.pieces / max(float(found.pieces.mean()), 1.0)
        games = int(np.clip(wanted, numbers.least_games, numbers.games))
        self._before, self._adapted = last, Adapted(board.height, games, found.survival)
        pieces = int(found.pieces.sum())
        self.seen = Seen(done, board.height, found.games, pieces, found.mean, found.stderr)
        self.held = replace(evaluation_of(found), stage=board.height)
        self.evaluations += 1
        return self.held

    def revisit(
        self, key: Any, policy: AfterstatePolicy, w: Float[Array, " n"], known: Evaluation
    ) -> Evaluation:
        """What is known: the point is not played again, and what was learnt since is forgotten."""
        assert isinstance(known, AccumulatedMatrices)
        self._adapted, self.held = self._before, known
        return known

    def again(
        self, key: Any, policy: AfterstatePolicy, w: Float[Array, " n"]
    ) -> AccumulatedMatrices:
        """What is held."""
        assert self.held is not None
        return self.held

    def objective(self, key: Any, policy: AfterstatePolicy, w: Float[Array, " n"]) -> float:
        """Mean lines of other games on the board of the last evaluation."""
        last = self._adapted
        height = self._rows(self.clock.done(0)) if last is None else last.height
        found = play(
            np.asarray(w),
            policy="gibbs",
            games=self.schedule.games if last is None else last.games,
            seed=seed_of(jax.random.fold_in(key, 1)),
            threads=self.threads,
            executor=self.executor,
            **board_of(replace(policy, height=height)),
        )
        return found.mean

    def state(self) -> State:
        """The count, `seen` and `held` by their fields, and what the next evaluation starts from.

        `adapted` has that, and `before` what takes its place if the search comes back.
        """
        return {
            "evaluations": self.evaluations,
            "seen": None if self.seen is None else list(self.seen),
            "held": None if self.held is None else _plain(self.held),
            "adapted": None if self._adapted is None else self._adapted._asdict(),
            "before": None if self._before is None else self._before._asdict(),
        }

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        call, names = "SurvivalEvaluator.restored", ("seen", "held", "adapted", "before")
        evaluations, *parts = entries(call, state, "evaluations", *names)
        seen, held, adapted, before = parts
        found = copy(self)
        found.evaluations = whole(call, "evaluations", evaluations)
        if any((part is None) != (not evaluations) for part in parts[:3]):
            refuse(call, "state", f"needs all of its parts after {evaluations} evaluations")
        found.seen = None if seen is None else _seen(call, seen)
        found.held = None if held is None else _held(call, held)
        found._adapted = None if adapted is None else _adapted(call, "adapted", adapted)
        found._before = None if before is None else _adapted(call, "before", before)
        return found

    def _rows(self, done: float) -> int:
        return next((rows for until, rows in self.stages if done < until), self.stages[-1][1])


def board_of(policy: AfterstatePolicy) -> dict[str, Any]:
    """The board and the features as the simulator takes them."""
    return {"features": policy.features, "height": policy.height, "width": policy.width}


def _discount(policy: AfterstatePolicy) -> float:
    known = DISCOUNTS[policy.features]
    return float(np.interp(policy.height, list(known), list(known.values())))


def _plain(held: AccumulatedMatrices) -> dict[str, Any]:
    return {
        "gradient": np.asarray(held.gradient),
        "matrices": {name: np.asarray(matrix) for name, matrix in held.matrices.items()},
        "numbers": [held.objective, held.objective_error, held.decisions],
        "stage": held.stage,
    }


def _seen(call: str, part: Any) -> Seen:
    done, height, games, pieces, lines, stderr = reals(call, "seen", part, 6)
    return Seen(done, int(height), int(games), int(pieces), lines, stderr)


def _held(call: str, part: Any) -> AccumulatedMatrices:
    gradient, matrices, numbers, stage = entries(
        call, part, "gradient", "matrices", "numbers", "stage"
    )
    size = np.shape(gradient)
    if len(size) != 1 or not isinstance(matrices, dict):
        refuse(call, "held", "needs a gradient and matrices")
    if any(np.shape(matrix) != 2 * size for matrix in matrices.values()):
        refuse(call, "held", f"needs matrices of shape {2 * size}")
    objective, error, decisions = reals(call, "held", numbers, 3)
    return AccumulatedMatrices(
        jnp.asarray(gradient),
        {name: jnp.asarray(matrix) for name, matrix in matrices.items()},
        objective,
        error,
        decisions,
        whole(call, "held", stage),
    )


def _adapted(call: str, name: str, part: Any) -> Adapted:
    height, games, critic = entries(call, part, *Adapted._fields)
    height, games = whole(call, name, height, 1), whole(call, name, games, 1)
    if np.shape(critic) != (height + 1,):
        refuse(call, name, f"needs a critic of {height + 1} numbers, got {np.shape(critic)}")
    return Adapted(height, games, np.asarray(critic, float))
