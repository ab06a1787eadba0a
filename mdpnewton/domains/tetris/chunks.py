"""Chunks of games on several threads; what comes out does not depend on how many there are."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

CHUNK = 64  # games that a thread takes at a time, at most; sums are added up in this order


def in_order(
    chunk: Callable[[int, int, np.ndarray], Any], first: int, games: int, threads: int | None
) -> Iterator[Any]:
    """Chunks of games on threads, handed out in order; the first call, for no game, compiles."""
    chunk(first, 0, np.zeros(1, np.uint8))
    return _on_threads(chunk, first, games, threads)


def _on_threads(
    chunk: Callable[[int, int, np.ndarray], Any], first: int, games: int, threads: int | None
) -> Iterator[Any]:
    """The chunks as they come; whatever still runs when the caller leaves is stopped."""
    size = min(max(games // 32, 1), CHUNK)  # whatever the number of threads: the same bits
    starts = range(first, first + games, size)
    stop = np.zeros(1, np.uint8)
    workers = min(threads or _processors(), len(starts))
    pool = ThreadPoolExecutor(workers)
    waiting: list[Future[Any]] = []
    try:
        for start in starts:
            count = min(size, first + games - start)
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
