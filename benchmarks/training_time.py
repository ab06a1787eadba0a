"""What training costs: `train` against PPO, TRPO and SAC, per 10,000 transitions on one core.

    python benchmarks/training_time.py [--rounds 3] [--transitions 20000] [--json]

Every training has a process of its own with one thread, one after the other, and rounds go through
all learners. Peers have the hyper-parameters of `peers.py`. Time is that of the process, so that
other work on the machine counts less than on a clock on the wall; playing of evaluation episodes
does not count. "First" is the start with all that is compiled and the first 10,000 transitions,
"next" is each 10,000 after them, and "programs" how many JAX compiled after the first 10,000.

SAC is so slow that it has a fifth of the transitions; it learns from the first hundred on.
"""

import argparse
import importlib.util
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from peers import HINT
from peers_runs import ours, peer
from peers_tasks import OURS, PPO, PRESET, SAC, TRPO, Learner, options_for
from peers_tasks import Task as PeersTask
from rich.console import Console

from mdpnewton.jobs import Processes
from mdpnewton.report.tables import new_table
from mdpnewton.threads import one_thread

TASKS = ("HalfCheetah-v5", "Hopper-v5", "Pendulum-v1")
UNIT = 10_000  # transitions
COMPILED = "/jax/core/compile/backend_compile_duration"


def timed(task: str, learner: str, transitions: int, seed: int) -> dict[str, float]:
    """One training: seconds of the process for the first transitions and for each unit of the next.

    Without transitions after the first unit, all of them count as the next, which leaves out the
    start.
    """
    import jax

    programs: list[int] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: programs.append(0) if event == COMPILED else None
    )
    clock = min(UNIT, transitions // 2)
    judged = {"environment": task, "clock": clock, "episodes": 1, "discount": 1.0}
    counts: list[int] = []
    if learner == OURS:
        found = ours(judged, seed, transitions, at_tick=lambda: counts.append(len(programs)))
    else:
        options = options_for(Learner(learner, ""), PeersTask(task, transitions))
        found = peer(judged, seed, transitions, learner, options)
    x, seconds = found["x"], found["seconds"]
    after = next(n for n, at in enumerate(x) if at >= clock)
    spent = (seconds[-1] - seconds[after]) / (x[-1] - x[after])
    late = len(programs) - counts[after] if counts else 0
    return {"first": seconds[after] * UNIT / x[after], "next": UNIT * spent, "programs": late}


def measure(rounds: int, transitions: int, tasks: Sequence[str]) -> dict[str, Any]:
    """Medians over rounds, by task and learner."""
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    with Console(stderr=True).status("measuring: some minutes per round") as status:
        for seed in range(rounds):
            for task in tasks:
                for learner in (PRESET, PPO, TRPO, SAC):
                    status.update(f"round {seed + 1} of {rounds}: {learner.name} on {task}")
                    number = transitions // 5 if learner is SAC else transitions
                    with Processes(1, one_thread()) as executor:
                        call = executor.submit(timed, task, learner.name, number, seed)
                        runs.setdefault((task, learner.name), []).append(call.result())
    found: dict[str, Any] = {task: {} for task in tasks}
    for (task, name), each in runs.items():
        found[task][name] = {key: statistics.median(one[key] for one in each) for key in each[0]}
    return found


def show(found: Mapping[str, Any]) -> None:
    """Print a table with the ratio to ours."""
    heads = ("first, s", "next, s", "next / ours", "programs")
    for task, learners in found.items():
        table = new_table(f"{task}, CPU seconds per {UNIT:,} transitions", "learner", *heads)
        for name, one in learners.items():
            ratio = one["next"] / learners[OURS]["next"]
            programs = f"{one['programs']:.0f}" if name == OURS else ""
            numbers = (f"{one['first']:.1f}", f"{one['next']:.1f}", f"{ratio:.2f}", programs)
            table.add_row(name, *numbers)
        Console().print(table)


def main() -> None:
    """Measure and show."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transitions", type=int, default=20_000, help="per training")
    parser.add_argument("--tasks", nargs="+", default=TASKS)
    parser.add_argument("--json", action="store_true", help="print JSON only")
    options = parser.parse_args()
    if not all(map(importlib.util.find_spec, ("torch", "stable_baselines3", "sb3_contrib"))):
        print(HINT, file=sys.stderr)
        raise SystemExit(2)
    found = measure(options.rounds, options.transitions, options.tasks)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
