"""Practical policy search on Tetris: survival as the value, steps of a given divergence.

Not the paper's algorithm, which is `mdpnewton run tetris`. See docs/tetris.md for why.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mdpnewton.checks import choice
from mdpnewton.domains.tetris.evaluator import AfterstatePolicy, evaluation_of, seed_of
from mdpnewton.domains.tetris.rules import Estimate, Survival
from mdpnewton.domains.tetris.simulate import estimate
from mdpnewton.methods import Method, Settings, direction, method_for, names
from mdpnewton.solve import SolveReport

# Of the discount of survival, by rows: games on higher boards last longer.
DISCOUNTS = {"bi": {10: 0.995, 14: 0.997, 20: 0.998}, "dt": {10: 0.998, 14: 0.999, 20: 0.9995}}


@dataclass(frozen=True)
class Schedule:
    """The numbers of the practical search; facts and their origin stand in docs/tetris.md.

    Attributes:
        pieces: Of an iteration, about: games are added up to it,
        games: but not more than so many,
        least_games: nor fewer than these.
        divergence: Mean KL of a step per decision at the beginning,
        last_divergence: and at the end; geometrically in between.
        damping: Ridge of the solve, as a share of the matrix's mean diagonal.
        share: One in so many decisions has its covariance computed.
        averaged: The weights that played in this last share of the time are averaged.
        lower: For boards of more than ten rows: shares of the time on ten and on 14 rows first.
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


@dataclass(frozen=True)
class Iteration:
    """What one iteration saw.

    Attributes:
        number: How many are done.
        seconds: Since the beginning.
        height: Rows of the board.
        games: Played.
        pieces: Placed.
        lines: Mean of the Gibbs policy that played,
        stderr: and its standard error.
        kept: False where the weights had lost more than half of the lines of those before: the
            step that led to them is undone, and taken again half as long.
        divergence: Of the step.
        report: Of the solve.
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
        w: The last weights.
        average: Mean of those kept over the last part: what to play with.
        history: One entry an iteration.
        interrupted: Whether Ctrl-C ended it.
    """

    policy: AfterstatePolicy
    w: np.ndarray
    average: np.ndarray
    history: list[Iteration] = field(default_factory=list)
    interrupted: bool = False


def soft_start(policy: AfterstatePolicy) -> np.ndarray:
    """Weights of a policy that plays badly but not blindly: every feature has something to say.

    From zeros, and from weights that make the policy deterministic, second-order methods get
    stuck: see docs/tetris.md.
    """
    if policy.features == "dt":
        start = np.full(policy.size, -0.3)
        start[[1, 8]] = 0.0  # eroded cells and diversity, which are good
        return start
    start = np.zeros(policy.size)
    start[policy.width : 2 * policy.width - 1] = -0.3
    start[-1] = -1.0
    return start


def train_tetris(
    policy: AfterstatePolicy,
    *,
    minutes: float | None = None,
    iterations: int | None = None,
    method: str = "second_gauss_newton",
    start: np.ndarray | None = None,
    seed: int = 0,
    threads: int | None = None,
    schedule: Schedule | None = None,
    callback: Callable[[Iteration], object] | None = None,
) -> TetrisTraining:
    """Search for weights, for so many minutes or iterations.

    Args:
        policy: Features and board.
        minutes: Stop then. What comes out depends on the speed of the machine.
        iterations: Stop after so many: reproducible to the bit, for any number of threads.
        method: A method that applies in "tetris", see `mdpnewton list methods`.
        start: Weights to start from, as those of another board; `soft_start` if not given. With
            them there is no warm-up on lower boards.
        seed: Of all randomness.
        threads: At most so many at once.
        schedule: The numbers.
        callback: Called after each iteration.
    """
    choice("train_tetris", "method", method, names("tetris"))
    if (minutes is None) == (iterations is None):
        raise ValueError("`train_tetris` needs either `minutes` or `iterations`.")
    numbers = Schedule() if schedule is None else schedule
    rule = method_for(method, "tetris", Settings(damping=numbers.damping))
    w = soft_start(policy) if start is None else np.asarray(start, float)
    training = TetrisTraining(policy, w, w)
    stages = _stages(policy, numbers, start is not None)
    total, count = np.zeros_like(w), 0
    games, critic, height = numbers.games, None, 0
    held: tuple[np.ndarray, Estimate] | None = None
    length = 1.0
    key = jax.random.key(seed)
    estimate(w, Survival(), games=1, **_board(policy))  # compiles, before the clock runs
    began = time.monotonic()
    try:
        for n in range(iterations if iterations is not None else 10**9):
            done = (
                n / iterations
                if iterations is not None
                else (time.monotonic() - began) / (60 * float(minutes or 0))
            )
            if done >= 1:
                break
            stage = next(rows for until, rows in stages if done < until)
            if stage != height:
                height, critic, held = stage, None, None
                games = numbers.games if not n else max(numbers.least_games, games // 4)
            divergence = numbers.divergence * (
                (numbers.last_divergence / numbers.divergence) ** min(done, 1.0)
            )
            board = replace(policy, height=height)
            survival = Survival(_discount(board), critic, numbers.share)
            found = estimate(
                training.w,
                survival,
                games=games,
                seed=seed_of(jax.random.fold_in(key, n)),
                threads=threads,
                **_board(board),
            )
            if held is not None and fell(found, held[1]):
                kept, length = False, length / 2
            else:
                kept, length, held = True, 1.0, (training.w, found)
                if done >= 1 - numbers.averaged and height == policy.height:
                    total, count = total + training.w, count + 1
            w, good = held
            training.w, report, taken = stepped(rule, w, good, divergence * length**2)
            training.history.append(
                Iteration(
                    n + 1,
                    time.monotonic() - began,
                    height,
                    games,
                    int(found.pieces.sum()),
                    found.mean,
                    found.stderr,
                    kept,
                    taken,
                    report,
                )
            )
            critic = good.survival.tolist()
            wanted = numbers.pieces / max(float(good.pieces.mean()), 1.0)
            games = int(np.clip(wanted, numbers.least_games, numbers.games))
            training.average = total / count if count else training.w
            if callback is not None:
                callback(training.history[-1])
    except KeyboardInterrupt:
        training.interrupted = True
    return training


def fell(now: Estimate, before: Estimate) -> bool:
    """Whether more than half of the lines are lost, beyond three standard errors."""
    return now.mean + 3 * math.hypot(now.stderr, before.stderr / 2) < before.mean / 2


def stepped(
    method: Method, w: np.ndarray, found: Estimate, divergence: float
) -> tuple[np.ndarray, SolveReport, float]:
    """The weights after a step of a mean KL divergence per decision, to second order.

    A direction that is not finite, or that descends, is not taken.

    Args:
        method: Gives the direction.
        w: Where `found` was estimated.
        found: An `Estimate`.
        divergence: K in a = sqrt(2 K / (d' F d)), F the Fisher matrix of one decision.
    """
    evaluation = evaluation_of(found)
    ahead = direction(method, None, jnp.asarray(w), evaluation)  # type: ignore[arg-type]
    d = np.asarray(ahead.value)
    curved = float(d @ np.asarray(evaluation.matrices["fisher"]) @ d) / evaluation.decisions
    if not (ahead.report.slope > 0 and curved > 0 and math.isfinite(curved)):
        return w, ahead.report, 0.0
    moved = w + math.sqrt(2 * divergence / curved) * d
    if not np.isfinite(moved).all():
        return w, ahead.report, 0.0
    return moved, ahead.report, divergence


def _stages(policy: AfterstatePolicy, numbers: Schedule, warm: bool) -> list[tuple[float, int]]:
    """Until which share of the time, how many rows."""
    first, second = numbers.lower
    if warm or policy.height <= 10:
        return [(1.0, policy.height)]
    if policy.height <= 14:
        return [(first + second, 10), (1.0, policy.height)]
    return [(first, 10), (first + second, 14), (1.0, policy.height)]


def _board(policy: AfterstatePolicy) -> dict[str, Any]:
    return {"features": policy.features, "height": policy.height, "width": policy.width}


def _discount(policy: AfterstatePolicy) -> float:
    known = DISCOUNTS[policy.features]
    return float(np.interp(policy.height, list(known), list(known.values())))
