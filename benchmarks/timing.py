"""What the benchmarks share: fair timing and printing."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

PAUSE = 0.1  # seconds: threads of the last part that still spin would slow the next one


def interleaved(parts: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, list[float]]:
    """Seconds of every call of every part: one warm-up call each, then rounds of all parts.

    The warm-up compiles and is not counted. Rounds go through all parts, so that a busy
    machine slows all of them alike and their ratios stay fair.
    """
    for part in parts.values():
        jax.block_until_ready(part())
    seconds: dict[str, list[float]] = {name: [] for name in parts}
    for _ in range(repetitions):
        for name, part in parts.items():
            time.sleep(PAUSE)
            begin = time.perf_counter()
            jax.block_until_ready(part())
            seconds[name].append(time.perf_counter() - begin)
    return seconds


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each part."""
    return {name: statistics.median(times) for name, times in seconds.items()}
