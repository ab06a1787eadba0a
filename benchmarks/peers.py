"""`train` against PPO, TRPO and SAC: learning curves on the same clock, with intervals.

    python benchmarks/peers.py STUDY [--workers 2] [--json] [--runs FOLDER] [--output FOLDER]

A study is one of `STUDIES` in peers_tasks.py: `mujoco`, `goals`, `methods`, `choosing`, `unseen`.
Peers need PyTorch, Stable-Baselines3 and sb3-contrib besides the package; without them the script
says how to install them and exits with 2. Every run computes with one thread and is a job that is
kept in a file, so that an interrupted study goes on where it stopped.

The score of a policy is the mean return of fresh episodes with fixed seeds, the same for all
learners. Peers act deterministically; ours plays what `train` would play if it ended then. The
tuning of the peers is per task: hyper-parameters that rl-baselines3-zoo publishes. Ours is one
preset for all. Seeds that are reported begin at 2000; choices were made on seeds below 30.
"""

import argparse
import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from peers_report import draw, show, summary
from peers_tasks import FRESH, STUDIES, Entry, Study, Task, options_for
from rich.console import Console
from rich.progress import Progress

from mdpnewton.jobs import Job, JobFolder, Processes
from mdpnewton.jobs import Progress as JobProgress
from mdpnewton.threads import one_thread

KEPT = Path(__file__).parent / "finished"  # a study may take days, in parts
PEERS = 1  # raised when the same run of a peer gives other numbers
HINT = (
    "peers.py needs PyTorch and Stable-Baselines3: pip install torch stable-baselines3 sb3-contrib "
    "'gymnasium[classic-control,mujoco]'"
)


def quick(study: Study) -> Study:
    """The study with budgets for a smoke run."""
    tasks = (replace(task, budget=2_400, clock=800, episodes=2) for task in study.tasks)
    entries = (replace(entry, seeds=1, budget=None) for entry in study.entries)
    return replace(study, tasks=tuple(tasks), entries=tuple(entries))


def pairs(study: Study) -> Iterator[tuple[Task, Entry]]:
    """Who runs where."""
    for task in study.tasks:
        for entry in study.entries:
            if not entry.only or task.id in entry.only:
                yield task, entry


def job(task: Task, entry: Entry, seed: int) -> Job:
    """One run."""
    learner = entry.learner
    arguments = {"task": judged(task), "seed": seed, "budget": entry.budget or task.budget}
    name = f"{learner.name}-{task.title}-{seed}".replace(" ", "-").replace(",", "")
    options = options_for(learner, task)
    if learner.ours:
        return Job(name, "peers_runs:ours", {**arguments, **options})
    arguments |= {"name": learner.name, "options": options}
    return Job(name, "peers_runs:peer", arguments, PEERS)


def at_rest(task: Task) -> Job:
    """The score of doing nothing."""
    return Job(f"nothing-{task.title}", "peers_runs:nothing", {"task": judged(task)}, PEERS)


def judged(task: Task) -> dict[str, Any]:
    """How policies are scored in a task, as data."""
    fields = {"clock": task.clock, "episodes": task.episodes, "discount": task.discount}
    return {"environment": task.id, **fields}


def measure(study: Study, folder: Path, workers: int, first: int) -> dict[str, Any]:
    """All results, by task and learner."""
    runs = {
        (task.id, entry.learner.name): [job(task, entry, first + n) for n in range(entry.seeds)]
        for task, entry in pairs(study)
    }
    rest = {task.id: at_rest(task) for task in study.tasks}
    by_seed = sorted((one for jobs in runs.values() for one in jobs), key=_seed)
    jobs = [*rest.values(), *by_seed]  # all learners on a few seeds say more than one on many
    with Progress(console=Console(stderr=True)) as bars:
        bar = bars.add_task("runs", total=len(jobs))

        def report(now: JobProgress) -> None:
            bars.update(bar, completed=now.done, description=now.last or "runs")

        with Processes(workers, one_thread()) as executor:
            found = JobFolder(folder).finished(jobs, executor, report, workers=workers)
    results: dict[str, Any] = {}
    for task, entry in pairs(study):
        learner, budget = entry.learner.name, entry.budget or task.budget
        curves = [found[one.name] for one in runs[task.id, learner]]
        nothing = found[rest[task.id].name]["score"]
        about = {"goal": task.goal, "reference": task.reference, "nothing": nothing}
        place = results.setdefault(task.id, {**about, "learners": {}})
        place["learners"][learner] = summary(task, budget, first, curves)
    return results


def _seed(one: Job) -> int:
    return int(one.arguments["seed"])


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--workers", type=int, default=1, help="processes that learn")
    parser.add_argument("--first-seed", type=int, default=FRESH, help="below 30 for choosing")
    parser.add_argument("--learners", nargs="+", help="names of learners; all by default")
    parser.add_argument("--tasks", nargs="+", help="titles of tasks; all by default")
    parser.add_argument("--seeds", type=int, help="runs per task and learner, at most its own")
    parser.add_argument("--quick", action="store_true", help="make a smoke run with one seed")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    parser.add_argument("--runs", type=Path, default=KEPT, help="folder for finished runs")
    parser.add_argument("--output", type=Path, help="folder for results.json and figures")
    return parser.parse_args()


def wanted(study: Study, options: argparse.Namespace) -> Study:
    """The part of the study that the command line asks for."""
    tasks = [t for t in study.tasks if not options.tasks or t.title in options.tasks]
    entries = [
        replace(entry, seeds=min(entry.seeds, options.seeds or entry.seeds))
        for entry in study.entries
        if not options.learners or entry.learner.name in options.learners
    ]
    if not tasks or not entries:
        raise SystemExit("peers.py: no such task or learner in this study")
    part = replace(study, tasks=tuple(tasks), entries=tuple(entries))
    return quick(part) if options.quick else part


def main() -> None:
    """Measure, write and show."""
    options = parsed()
    study = wanted(STUDIES[options.study], options)
    theirs = any(not entry.learner.ours for entry in study.entries)
    if theirs and not all(
        map(importlib.util.find_spec, ("torch", "stable_baselines3", "sb3_contrib"))
    ):
        print(HINT, file=sys.stderr)
        raise SystemExit(2)
    folder = options.runs / (f"{options.study}-quick" if options.quick else options.study)
    results = measure(study, folder, options.workers, options.first_seed)
    output = options.output or Path("runs/peers") / folder.name
    output.mkdir(parents=True, exist_ok=True)
    (output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    draw(study, results, output)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        show(study, results)


if __name__ == "__main__":
    main()
