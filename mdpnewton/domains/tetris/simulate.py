"""Tetris at speed: whole games, and estimates of a search direction, on several threads."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mdpnewton.checks import choice, required
from mdpnewton.domains.tetris.chunks import in_order
from mdpnewton.domains.tetris.games import EstimateChunk, PlayChunk, Played
from mdpnewton.domains.tetris.pieces import check_size
from mdpnewton.domains.tetris.rules import (
    RESETS,
    Estimate,
    RecurrentBoard,
    Rule,
    Survival,
)
from mdpnewton.domains.tetris.tables import (
    FEATURES,
    area,
    feature_names,
    padded,
    policy_table,
    whole_diagonal,
    whole_matrix,
)
from mdpnewton.executors import Executor

POLICIES = ("greedy", "gibbs")
CAP = 10_000_000
FARTHEST = 1e12  # absolute value of a weight: sums of much larger ones have no digits left


def play(
    weights: Sequence[float] | np.ndarray,
    *,
    features: str = "bi",
    height: int = 10,
    width: int = 10,
    games: int = 1000,
    policy: str = "greedy",
    seed: int = 0,
    first: int = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    cap: int = CAP,
) -> Played:
    """Games of a policy that scores every placement by weights' features of the board after it.

    The same seed gives the same games for any number of threads, and the same pieces for any
    weights.

    Args:
        weights: Bertsekas-Ioffe: column heights left to right, absolute differences left to
            right, largest height, holes: 2 width + 1. Dellacherie-Thiery: nine, see
            `feature_names`.
        features: Set of features, "bi" or "dt".
        height: Number of rows, at most 32.
        width: Number of columns, at most 16.
        games: Number of games.
        policy: "greedy", or "gibbs": proportional to exp(score).
        seed: Random seed.
        first: Index of the first game; games 0 to 9 are games 0 to 4 and 5 to 9.
        threads: Maximum number of threads (default: the processors that may be used).
        executor: Object with `submit`, such as those of `concurrent.futures`, whose workers play
            instead of threads.
        cap: Number of pieces after which a game is stopped and reported as capped.
    """
    chunks = play_chunks(
        weights,
        features=features,
        height=height,
        width=width,
        games=games,
        policy=policy,
        seed=seed,
        first=first,
        threads=threads,
        executor=executor,
        cap=cap,
    )
    begin = time.process_time()  # what had to be compiled is compiled
    played = list(chunks)
    return joined(played, time.process_time() - begin)


def joined(chunks: Sequence[Played], cpu_seconds: float) -> Played:
    """Chunks of games, one after the other."""
    lines, pieces, capped, boards = (np.concatenate([c[k] for c in chunks]) for k in range(4))
    return Played(lines, pieces, capped, boards, cpu_seconds)


def play_chunks(
    weights: Sequence[float] | np.ndarray,
    *,
    features: str = "bi",
    height: int = 10,
    width: int = 10,
    games: int = 1000,
    policy: str = "greedy",
    seed: int = 0,
    first: int = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    cap: int = CAP,
) -> Iterator[Played]:
    """The games of `play` as they come, a few at a time and in order: for long runs."""
    given = checked_weights("play", weights, features, height, width)
    _check_run("play", games, seed, first, threads, cap)
    if policy not in POLICIES:
        raise ValueError(f"`play(policy=...)` is one of {', '.join(POLICIES)}, got {policy!r}.")
    required("numba", "Tetris")
    table = policy_table(given, features, width)
    chunk = PlayChunk(table, features == "dt", policy == "gibbs", height, width, seed, cap)
    return in_order(chunk, first, games, threads, executor)


def estimate(
    weights: Sequence[float] | np.ndarray,
    rule: Rule | None = None,
    *,
    features: str = "bi",
    height: int = 10,
    width: int = 10,
    games: int = 1000,
    seed: int = 0,
    first: int = 0,
    threads: int | None = None,
    executor: Executor | None = None,
    cap: int = CAP,
    diagonal: bool = False,
) -> Estimate:
    """Gradient, H2 and Fisher matrix of the Gibbs policy, accumulated while games are played.

    A decision with k placements of n features costs O(k n^2); with `diagonal` it costs O(k n), as
    Section 4.1.1 says.

    Args:
        weights: See `play`, as are the other arguments.
        rule: `RecurrentBoard()`, Algorithm 2, the default; or `Survival()`.
        features: Set of features, "bi" or "dt".
        height: Number of rows.
        width: Number of columns.
        games: Number of games.
        seed: Random seed.
        first: Index of the first game.
        threads: Maximum number of threads; the results are the same bits for any number.
        executor: Object with `submit` whose workers play instead of threads.
        cap: Number of pieces after which a game is stopped.
        diagonal: Whether to accumulate the diagonals of the matrices and nothing else. They are
            the same bits as those of the whole matrices.
    """
    given = checked_weights("estimate", weights, features, height, width)
    _check_run("estimate", games, seed, first, threads, cap)
    choice("estimate", "diagonal", diagonal, (False, True))
    rule = RecurrentBoard() if rule is None else rule
    if not isinstance(rule, RecurrentBoard | Survival):
        raise ValueError(
            f"`estimate(rule=...)` needs a `RecurrentBoard` or a `Survival`, got {rule!r}."
        )
    required("numba", "Tetris")
    table = policy_table(given, features, width)
    size, survival = len(given), isinstance(rule, Survival)
    critic, beta, share, reset, include_start = np.zeros(height + 1), 1.0, 1, 0, True
    side, squared = padded(size), isinstance(rule, RecurrentBoard) and rule.h1
    if isinstance(rule, Survival):
        critic, beta, share = rule.table(height), float(rule.beta), rule.share
    else:
        reset, include_start = RESETS.index(rule.reset), bool(rule.include_start)
    entries = sum(area(features, size, diagonal=diagonal))
    squares = squared * (side if diagonal else side**2)

    chunk = EstimateChunk(
        (table, features == "dt", height, width),
        (seed, cap),
        (survival, reset, include_start, beta, critic, share, diagonal),
        (side, squares, entries, entries),
    )
    played: list[tuple[np.ndarray, ...]] = []
    totals: list[Any] = [0, 0.0, 0.0, 0.0, 0.0, 0, 0.0]
    for one in in_order(chunk, first, games, threads, executor):
        played.append(one[:3])
        totals = [total + new for total, new in zip(totals, one[3:], strict=True)]
    cycles, gradient, h1, h2, fisher, visits, seen = totals
    read, scale = whole_diagonal if diagonal else whole_matrix, 1.0
    h2, fisher = (read(features, size, parts) / games for parts in (h2, fisher))
    if survival:
        scale = 4 / (width * (1 - beta))
        h2 = fisher - h2
    if squared:
        h1 = (h1[:size] if diagonal else h1.reshape(side, side)[:size, :size]) / games
    lines, pieces, capped = (np.concatenate([part[k] for part in played]) for k in range(3))
    return Estimate.of(
        h2=-scale * h2,
        fisher=fisher,
        h1=h1 if squared else None,
        lines=lines,
        pieces=pieces,
        capped=capped,
        gradient=scale * gradient[:size] / games,
        cycles=int(cycles),
        visits=visits,
        survival=seen / np.maximum(visits, 1),
    )


def checked_weights(
    call: str, weights: Sequence[float] | np.ndarray, features: str, height: int, width: int
) -> np.ndarray:
    """The weights as an array; a `ValueError` if they do not fit the board and the features."""
    check_size(call, height, width)
    if features not in FEATURES:
        raise ValueError(f"`{call}(features=...)` is 'bi' or 'dt', got {features!r}.")
    try:
        given = np.asarray(weights, float)
    except (TypeError, ValueError):
        raise ValueError(f"`{call}(weights=...)` needs a list of numbers.") from None
    wanted = len(feature_names(features, width))
    if given.shape != (wanted,):
        raise ValueError(
            f"`{call}(weights=...)` needs {wanted} numbers for {features!r} features on {width} "
            f"columns, got shape {given.shape}; see `feature_names`."
        )
    if not np.isfinite(given).all() or np.abs(given).max() > FARTHEST:
        raise ValueError(f"`{call}(weights=...)` needs finite numbers, within {FARTHEST:.0e}.")
    return given


def _check_run(call: str, games: int, seed: int, first: int, threads: int | None, cap: int) -> None:
    for name, value, least in (
        ("games", games, 1),
        ("seed", seed, 0),
        ("first", first, 0),
        ("threads", 1 if threads is None else threads, 1),
        ("cap", cap, 1),
    ):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
            raise ValueError(
                f"`{call}({name}=...)` needs a whole number from {least}, got {value!r}."
            )
        if value >= 1 << 62:
            raise ValueError(f"`{call}({name}=...)` needs a number below 2^62, got {value}.")
