"""Rollouts per second of ball-in-a-cup, for one thread and for two.

A rollout is 1.5 s of the arm with cup, ball and string at 2 ms per step, including planning and
inverse dynamics. The movements are samples of the experiment's first policy.
"""

import argparse
import json
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from timing import medians, one_round, warm_up

from mdpnewton.domains.ball_in_cup import BallInCup, load_demonstration
from mdpnewton.report.tables import new_table

THREADS = (1, 2)


def measure(rollouts: int, repetitions: int) -> dict[str, Any]:
    games = {threads: BallInCup(threads=threads) for threads in THREADS}
    start = load_demonstration().imperfect().weights(games[1].primitives)
    weights = start + 10 * np.random.default_rng(0).normal(size=(rollouts, start.size))
    parts = {str(threads): partial(game, weights) for threads, game in games.items()}
    # Planning and inverse dynamics run in the calling thread and cannot be divided among threads.
    parts["planning"] = partial(games[1].controls, weights)
    warm_up(parts)
    seconds = medians([one_round(parts) for _ in range(repetitions)])
    rates = {threads: rollouts / seconds[str(threads)] for threads in THREADS}
    return {
        "rollouts": rollouts,
        "rollouts_per_second": {str(threads): rate for threads, rate in rates.items()},
        "milliseconds_per_rollout": 1e3 / rates[1],
        "planning_share": seconds["planning"] / seconds["1"],
        "speed_up": rates[2] / rates[1],
    }


def show(found: dict[str, Any]) -> None:
    table = new_table("Ball-in-a-cup", "threads", "rollouts per second")
    for threads, rate in found["rollouts_per_second"].items():
        table.add_row(threads, f"{rate:.0f}")
    table.add_row("speed-up", f"{found['speed_up']:.2f}")
    table.add_row("one rollout, one thread", f"{found['milliseconds_per_rollout']:.1f} ms")
    table.add_row("of which planning", f"{100 * found['planning_share']:.0f} %")
    Console().print(table)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--quick", action="store_true", help="run few rollouts in one round")
    parser.add_argument("--repetitions", type=int, default=7, help="number of rounds (default 7)")
    options = parser.parse_args()
    size, rounds = (15, 1) if options.quick else (150, options.repetitions)
    with Console(stderr=True).status(f"measuring, {rounds} rounds of {size} rollouts"):
        result = measure(size, rounds)
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
