"""Chunks of games on threads or by an executor; what comes out does not depend on who plays."""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from mdpnewton.executors import Executor

CHUNK = 64  # games that a thread takes at a time, at most; sums are added up in this order


def in_order(
    chunk: Callable[[int, int, np.ndarray], Any],
    first: int,
    games: int,
    threads: int | None,
    executor: Executor | None = None,
) -> Iterator[Any]:
    """Chunks of games, handed out in order; the first call, for no game, compiles.

    Args:
        chunk: Plays games: the first one, how many, and an array whose entry stops them if not 0.
        first: Number of the first game.
        games: Number of games.
        threads: Maximum number of threads of this process.
        executor: Object with `submit` that plays instead of threads; `chunk` must be sendable.
    """
    size = min(max(games // 32, 1), CHUNK)  # whoever plays: the same bits
    starts = range(first, first + games, size)
    counts = [min(size, first + games - start) for start in starts]
    if executor is not None:
        return _by_others(chunk, list(zip(starts, counts, strict=True)), executor)
    chunk(first, 0, np.zeros(1, np.uint8))
    return _on_threads(chunk, list(zip(starts, counts, strict=True)), threads)


def _by_others(chunk: Any, parts: list[tuple[int, int]], executor: Executor) -> Iterator[Any]:
    """The chunks as they come from an executor, which is never given more than it can hold."""
    futures: deque[Any] = deque()
    wanted = 4 * getattr(executor, "workers", 8)
    try:
        for part in parts:
            futures.append(executor.submit(chunk, *part, np.zeros(1, np.uint8)))
            if len(futures) > wanted:
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    finally:
        for future in futures:
            future.cancel()


def _on_threads(
    chunk: Callable[[int, int, np.ndarray], Any], parts: list[tuple[int, int]], threads: int | None
) -> Iterator[Any]:
    """The chunks as they come; whatever still runs when the caller leaves is stopped."""
    stop = np.zeros(1, np.uint8)
    workers = min(threads or _processors(), len(parts))
    pool = ThreadPoolExecutor(workers)
    waiting: list[Future[Any]] = []
    try:
        for start, count in parts:
            waiting.append(pool.submit(chunk, start, count, stop))
            if len(waiting) > 2 * workers:  # not more in memory than that
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        stop[0] = 1
        pool.shutdown(wait=True, cancel_futures=True)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
