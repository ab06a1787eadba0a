"""`mdpnewton train --seeds FIRST-LAST`: a training per seed, each in a folder of the sweep's."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mdpnewton.cli.flow import Outcome, Plan, Progress
from mdpnewton.jobs import Job, job_checkpoint
from mdpnewton.jobs.job import Work
from mdpnewton.version import RESULTS, __version__

MOST = 10_000  # seeds
# Options of a training that are not those of its sweep.
APART = ("seed", "seeds", "workers", "cluster", "restart", "tensorboard")


def sweep_plan(options: Any, folder: Path) -> Plan:
    """What `train --seeds` is about to do.

    Args:
        options: The options of `train`.
        folder: The folder of the sweep.
    """
    from mdpnewton.cli.workers import executor_for, modules_of
    from mdpnewton.environments.names import simulator_of
    from mdpnewton.files.identity import MARK

    seeds_of(options.seeds)
    if options.tensorboard is not None:
        raise ValueError("--seeds with --tensorboard: log single trainings, or look at `report`")
    simulator_of(options.environment)  # refuses what cannot be, before the first training
    asked = {name: each for name, each in asdict(options).items() if name not in APART}
    asked["set"] = list(options.set)  # as JSON gives it back
    about = {
        "command": "sweep",
        **asked,
        "seeds": options.seeds,
        "version": __version__,
        MARK: RESULTS,
    }
    modules = modules_of(options.environment)
    executor = executor_for(options.workers, options.cluster, modules)
    run = partial(_swept, about, folder, executor)
    return Plan(run, title="sweep", about=about, resumes=True, restart=options.restart)


def seeds_of(text: str) -> range:
    """The seeds that a text as 100-109 names."""
    match = re.fullmatch(r"(\d{1,18})-(\d{1,18})", text)
    if not match or not 0 <= int(match[2]) - int(match[1]) < MOST:
        raise ValueError(f"--seeds {text}: write FIRST-LAST, as 100-109, at most {MOST:,} seeds")
    return range(int(match[1]), int(match[2]) + 1)


def work(about: Mapping[str, Any]) -> Work:
    """A job per seed, whose result is that of the training."""
    apart = {"command", "seeds", "version", "results_version"}
    made = {"python", "libraries", "machine", "cores"}
    asked = {name: each for name, each in about.items() if name not in apart | made}
    jobs = [
        Job(f"seed-{seed}", "mdpnewton.cli.sweep:trained", {"options": asked, "seed": seed})
        for seed in seeds_of(about["seeds"])
    ]
    found = yield jobs
    every = [dict(found[job.name]) for job in jobs]
    files = {job.name: one.pop("files") for job, one in zip(jobs, every, strict=True)}
    return {"runs": every, "files": files}


def trained(options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """One training in the folder of its seed; it goes on with what is there.

    On a machine that does not see the folder it is done in one that goes with it, and its files
    are part of what is found.
    """
    kept = job_checkpoint().path
    if kept is not None:
        return {**_trained_in(kept.parent.parent / f"seed-{seed}", options, seed), "files": {}}
    with TemporaryDirectory() as place:
        folder = Path(place) / f"seed-{seed}"
        found = _trained_in(folder, options, seed)
        files = [one for one in folder.iterdir() if one.is_file() and one.name[0] != "."]
        contents = {one.name: np.frombuffer(one.read_bytes(), np.uint8) for one in files}
    return {**found, "files": contents}


def _trained_in(folder: Path, options: Mapping[str, Any], seed: int) -> dict[str, Any]:
    from mdpnewton.cli import train
    from mdpnewton.cli.flow import carry_out

    one = replace(train.Options(**options), seed=seed)
    words = f"mdpnewton train {one.environment} --seeds ... (seed {seed})"
    outcome, _ = carry_out(train.COMMAND.plan(one, folder), folder, words, quiet=True)
    if outcome.interrupted:
        raise KeyboardInterrupt
    final = outcome.results["final"]
    status = outcome.results["verdict"]["status"]
    return {"seed": seed, "return": final["mean"], "stderr": final["stderr"], "verdict": status}


def _swept(about: Mapping[str, Any], folder: Path, executor: Any, progress: Progress) -> Outcome:
    from mdpnewton.cli import jobs
    from mdpnewton.files.folder import prepare, write_whole
    from mdpnewton.files.found import found_in, run_folders
    from mdpnewton.report.page.several import compare

    found = jobs.done(partial(work, about), folder, progress, executor, (0, 1))
    assert found is not None  # there are no shards
    for name, files in found.pop("files").items():
        for file, content in files.items():  # of trainings elsewhere
            prepare(folder / name)
            write_whole(folder / name / file, np.asarray(content).tobytes())
    asked = {name: about[name] for name in ("environment", "method", "policy", "seeds", "version")}
    results = {**asked, **found, "comparison": compare(list(map(found_in, run_folders(folder))))}
    return Outcome(results, partial(_table, results))


def _table(results: Mapping[str, Any]) -> Any:
    from mdpnewton.report.tables import new_table

    table = new_table(f"{results['environment']}, seeds {results['seeds']}", "seed", "return", "")
    for one in results["runs"]:
        table.add_row(
            str(one["seed"]), f"{one['return']:.4g} ± {one['stderr']:.2g}", one["verdict"]
        )
    (group,) = results["comparison"]["groups"].values()
    table.caption = f"interquartile mean {group['interquartile_mean']:.5g}" + (
        "" if group["low"] is None else f", 95 % {group['low']:.5g} to {group['high']:.5g}"
    )
    return table
