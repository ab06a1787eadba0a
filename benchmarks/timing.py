"""Timing for all benchmarks that is fair on a busy machine.

A warm-up call of every part compiles it and is not counted. Then rounds go through all parts, so
that other work on the machine slows all of them alike and ratios stay fair.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from rich.console import Console

PAUSE = 0.1  # seconds; threads of the previous part may still spin and would slow the next

Parts = Mapping[str, Callable[[], Any]]


def warm_up(parts: Parts) -> None:
    """Call every part once."""
    for part in parts.values():
        jax.block_until_ready(part())


def one_round(parts: Parts) -> dict[str, float]:
    """The seconds of one call of every part."""
    seconds = {}
    for name, part in parts.items():
        time.sleep(PAUSE)
        begin = time.perf_counter()
        jax.block_until_ready(part())
        seconds[name] = time.perf_counter() - begin
    return seconds


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median seconds of every part."""
    return {name: statistics.median(seconds[name] for seconds in rounds) for name in rounds[0]}


def run_script(
    about: str, repetitions: int, measure: Callable[[int], Any], show: Callable[[Any], None]
) -> None:
    """Measure, then show the result or print it as JSON, as the command line asks."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument(
        "--repetitions",
        type=int,
        default=repetitions,
        help="number of rounds (default %(default)s)",
    )
    options = parser.parse_args()
    with Console(stderr=True).status(f"measuring, {options.repetitions} rounds: about a minute"):
        found = measure(options.repetitions)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)
