"""Two workers against one, what a job and a chunk cost besides, and how far one driver reaches.

    python benchmarks/engine.py [--quick] [--json]

- `run navigation --scale laptop` with one worker and with two. Every worker compiles for itself.
- `train` on an environment whose step costs 1 ms of a core, the same way: the whole command, with
  all that the driver compiles and computes by itself.
- Episodes of that environment, played by `Distributed`.
- The cost per job that does nothing, and how much later a chunk of cheap episodes comes back than
  if it were played here, in processes and on a local Ray cluster; the bytes that one iteration
  sends and gets back.
- A model of weak scaling: the driver hands out and joins one call after another, and so does the
  process that talks to Ray. If the slower of the two needs c seconds of its core per call, calls of
  t seconds keep t / c workers busy.

Speeds are by wall time and need two idle cores. One worker and two take turns, and the best round
of each counts, because others on the machine slow down two workers more than one. A whole
measurement takes about an hour.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

COMMANDS = {
    "navigation": ("run", "navigation", "--scale=laptop"),
    "train": ("train", "engine_tasks:Busy-v0", "--policy=linear", "--transitions=200000"),
}
SETTINGS = ("runs=1", "iterations=10", "practical_runs=1", "transitions=2000")
QUICK = {
    "navigation": (*COMMANDS["navigation"], *(f"--set={setting}" for setting in SETTINGS)),
    "train": (*COMMANDS["train"][:-1], "--transitions=10000"),
}
CHUNK = 8
CHUNKS = 40  # whose cost is measured
CALLS = 300  # that do nothing


def seconds_of(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def in_turns(rounds: int, measured: Callable[[int], float]) -> dict[int, float]:
    """The best of so many rounds with one worker, and with two."""
    found = [(measured(1), measured(2)) for _ in range(rounds)]
    one, two = zip(*found, strict=True)
    return {1: min(one), 2: min(two)}


def command(words: tuple[str, ...], workers: int) -> float:
    """Seconds that the command takes with so many workers."""
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, folders))}
    with tempfile.TemporaryDirectory() as folder:
        more = ("--json", f"--out={folder}/run", f"--workers={workers}")
        whole = [sys.executable, "-m", "mdpnewton", *words, *more]
        quiet = {"stdout": subprocess.DEVNULL, "env": environment}
        return seconds_of(lambda: subprocess.run(whole, check=True, **quiet))


def plays(executor: Any, name: str) -> Callable[[int], float]:
    """A function from a number of episodes to the seconds that they take."""
    import engine_tasks
    import jax
    import jax.numpy as jnp

    import mdpnewton as mn

    simulator = mn.GymnasiumSimulator(f"engine_tasks:{name}", copies=CHUNK)
    together = mn.Distributed(simulator, executor, CHUNK)
    policy, w = mn.LinearGaussian([[0.2]], 3, engine_tasks.features), jnp.zeros((1, 3))
    key = jax.random.key(0)
    return lambda episodes: seconds_of(lambda: together.play(key, policy, w, episodes))


def costs(executor: Any) -> dict[str, float]:
    """Seconds per call, per job and per chunk beside the work itself, after a warm-up."""
    import engine_tasks

    from mdpnewton.jobs import Here, Job, JobFolder

    def jobs() -> None:
        listed = [Job(f"n-{n}", "engine_tasks:nothing", {"number": n}) for n in range(CALLS)]
        with tempfile.TemporaryDirectory() as folder:
            JobFolder(Path(folder)).finished(listed, executor, workers=executor.workers)

    def calls() -> None:
        for future in [executor.submit(engine_tasks.nothing, n) for n in range(CALLS)]:
            future.result()

    played, alone = plays(executor, "Idle-v0"), plays(Here(), "Idle-v0")
    calls()
    for _ in range(3):
        played(CHUNK * executor.workers * 2)
    for _ in range(3):
        alone(CHUNK)
    itself = sum(alone(CHUNK) for _ in range(CHUNKS)) / CHUNKS
    before, broker = time.process_time(), broker_seconds(executor)
    played(CHUNK * CHUNKS)  # many at once, as in a training
    driver = (time.process_time() - before) / CHUNKS
    broker = (broker_seconds(executor) - broker) / CHUNKS
    chunk = sum(played(CHUNK) for _ in range(CHUNKS)) / CHUNKS - itself
    each = {"call": seconds_of(calls) / CALLS, "job": seconds_of(jobs) / CALLS}
    return {**each, "chunk": chunk, "driver": driver, "broker": broker}


def broker_seconds(executor: Any) -> float:
    """Seconds of a core that the process that talks to Ray has had; 0 if there is none."""
    broker = getattr(executor, "_broker", None)
    if broker is None:
        return 0.0
    words = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def sent() -> dict[str, float]:
    """Bytes of policy and parameters, and of a chunk of transitions, in a training."""
    import jax
    import numpy as np

    import mdpnewton as mn
    from mdpnewton.jobs import Here

    simulator = mn.GymnasiumSimulator("engine_tasks:Idle-v0", copies=CHUNK, unit_actions=True)
    training = mn.train(mn.Distributed(simulator, Here(), CHUNK), iterations=1)
    policy = len(ForkingPickler.dumps((training.policy, jax.tree.map(np.asarray, training.w))))
    chunk = training.play(jax.random.key(0), CHUNK)
    content = jax.tree.map(np.asarray, chunk)
    return {"policy": policy, "chunk": len(ForkingPickler.dumps(content))}


def measure(quick: bool) -> dict[str, Any]:
    from mdpnewton.jobs import Cluster, Processes
    from mdpnewton.threads import one_thread

    commands = QUICK if quick else COMMANDS
    rounds, episodes = (1, 4 * CHUNK) if quick else (3, 16 * CHUNK)
    found: dict[str, Any] = {"bytes": sent()}
    times: dict[str, dict[int, float]] = {}
    with Processes(1, one_thread()) as one, Processes(2, one_thread()) as two:
        busy = {1: plays(one, "Busy-v0"), 2: plays(two, "Busy-v0")}
        for workers, play in busy.items():
            play(2 * workers * CHUNK)  # builds and compiles
        times["play"] = in_turns(rounds, lambda workers: busy[workers](episodes))
        found["processes"] = costs(two)
    for name, words in commands.items():
        times[name] = in_turns(1 if quick else 2, partial(command, words))
    with Cluster("local", 2, modules=[Path(__file__).with_name("engine_tasks.py")]) as cluster:
        found["ray"] = costs(cluster)
    found["seconds"] = times
    found["ratio"] = {name: each[1] / each[2] for name, each in times.items()}
    return found


def show(found: dict[str, Any]) -> None:
    from rich.console import Console

    from mdpnewton.report.tables import new_table

    speed = new_table("Two workers against one", "", "one, s", "two, s", "ratio")
    for name, ratio in found["ratio"].items():
        one, two = found["seconds"][name].values()
        speed.add_row(name, f"{one:.1f}", f"{two:.1f}", f"{ratio:.2f}")
    columns = ("per call", "per job", "per chunk", "driver per chunk", "broker per chunk")
    cost = new_table("Cost beside the work, ms", "", *columns)
    for name in ("processes", "ray"):
        each = found[name]
        row = (each["call"], each["job"], each["chunk"], each["driver"], each["broker"])
        cost.add_row(name, *(f"{1000 * value:.2f}" for value in row))
    console = Console()
    console.print(speed)
    console.print(cost)
    policy, chunk = found["bytes"]["policy"], found["bytes"]["chunk"]
    driver = max(found["ray"]["driver"], found["ray"]["broker"])
    console.print(
        f"bytes per iteration: {policy:,} for policy and parameters, once, and {chunk:,} back per "
        f"chunk of {CHUNK} episodes"
    )
    console.print(
        f"weak scaling: with {1000 * driver:.2f} ms of one core per chunk, chunks of t seconds "
        f"keep t / {driver:.5f} workers busy: {0.1 / driver:.0f} for 0.1 s, {10 / driver:.0f} for "
        f"10 s; 1,000 workers need chunks of {1000 * driver:.1f} s, and bring "
        f"{1000 * chunk / 1e6:.0f} MB per iteration of one chunk each"
    )
    console.print(
        "beyond that: larger chunks first; then sums over episodes instead of transitions"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--quick", action="store_true", help="one round of less work")
    options = parser.parse_args()
    found = measure(options.quick)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        show(found)


if __name__ == "__main__":
    main()
