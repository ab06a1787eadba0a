"""The jobs of a run, done and shown: what `run` and `status` share."""

import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mdpnewton.cli.flow import Outcome, Progress
from mdpnewton.jobs import (
    Cluster,
    Here,
    Job,
    JobFolder,
    NotAllDoneError,
    Processes,
    Survey,
    gathered,
)
from mdpnewton.jobs import Progress as JobProgress
from mdpnewton.jobs.job import Results, Work
from mdpnewton.jobs.stopping import asked, polite

Begin = Callable[[], Work]


def shard(text: str | None) -> tuple[int, int]:
    """First job, counted from 0, and step of `--shard I/N`; all jobs without it."""
    if text is None:
        return 0, 1
    match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"--shard {text}: write I/N with 1 <= I <= N, as 1/4")
    return int(match[1]) - 1, int(match[2])


@polite()
def done(
    begin: Begin,
    folder: Path,
    progress: Progress,
    executor: Here | Processes | Cluster,
    part: tuple[int, int],
) -> dict[str, Any] | None:
    """The results of all jobs after those of this part have been done; None if others are missing.

    Args:
        begin: Begins the work that asks for jobs.
        folder: The run folder.
        progress: Function that shows progress.
        executor: Does the jobs; it is begun and ended here. See `executor_for`.
        part: First job and step, as `shard` gives them.
    """
    kept, mine = JobFolder(folder), list[Job]()

    def report(now: JobProgress) -> None:
        progress(now.done, now.total, _told(now))

    def do(jobs: Sequence[Job]) -> Results:
        first, step = part
        mine[:] = jobs[first::step]
        at_a_time = executor.workers
        found = kept.finished(mine, executor, report, workers=at_a_time, stopping=asked)
        if any(job.name not in found and not kept.is_done(job) for job in jobs):
            raise NotAllDoneError
        return {**found, **{job.name: kept.found(job) for job in jobs if job.name not in found}}

    try:
        with executor:
            return gathered(begin(), do)
    except NotAllDoneError:
        return None
    except KeyboardInterrupt:
        ready = sum(map(kept.is_done, mine))
        raise KeyboardInterrupt(
            f"{ready} of {len(mine)} jobs are done; the same command goes on"
        ) from None


def unfinished(begin: Begin, folder: Path) -> Outcome:
    """What there is to say when jobs of other shards are missing."""
    found = JobFolder(folder).survey(begin())
    text = counted(found)
    note = "when the other shards are done, the same command without --shard gathers"
    return Outcome(as_json(found), lambda: text, note=note, complete=False)


def listed(begin: Begin, folder: Path, workers: int, progress: Progress) -> Outcome:
    """The jobs and an estimate of their time, from those that are done or from a timed one."""
    kept = JobFolder(folder)
    found = kept.survey(begin())
    seconds = [kept.seconds(job) for job in found.done]
    source = f"the {len(seconds)} that are done"
    if not seconds and found.left:
        progress(0, len(found.left), f"timing {found.left[0].name}")
        began = time.monotonic()
        found.left[0].do()
        seconds, source = [time.monotonic() - began], found.left[0].name
    each = sum(seconds) / len(seconds) if seconds else 0.0
    left = each * len(found.left) / min(workers, max(len(found.left), 1))
    lines = [f"{'done' if job in found.done else 'left'}  {job.name}" for job in _all(found)]
    lines.append(counted(found))
    if found.left:
        of = "1 worker" if workers == 1 else f"{workers} workers"
        lines.append(f"about {duration(left)} with {of}, estimated from {source}")
    results = {**as_json(found), "seconds_per_job": each, "seconds_left": left}
    return Outcome(results, lambda: "\n".join(lines))


def counted(found: Survey) -> str:
    """How many jobs are done and left, and why some failed, a line each."""
    total = len(found.done) + len(found.left)
    lines = [f"jobs: {len(found.done)} of {total} done, {len(found.left)} left"]
    lines += [f"failed: {name}: {reason}" for name, reason in found.failed.items()]
    return "\n".join(lines)


def as_json(found: Survey) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "done": [job.name for job in found.done],
        "left": [job.name for job in found.left],
        "failed": found.failed,
    }


def duration(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _told(now: JobProgress) -> str:
    if not now.last:
        return f"{now.done} jobs were done before" if now.done else "first job"
    left = "" if now.seconds_left is None else f", {duration(now.seconds_left)} left"
    return f"{now.last}{left}"


def _all(found: Survey) -> list[Job]:
    return [*found.done, *found.left]
