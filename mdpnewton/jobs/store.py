"""The finished jobs of a run, one file each: what is there need not be done again."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mdpnewton.executors import ClusterLostError, Executor
from mdpnewton.files.folder import prepare, write_whole
from mdpnewton.files.states import load_state, save_state
from mdpnewton.jobs.checkpoint import Checkpoint, kept_in
from mdpnewton.jobs.job import Job, Results, Work, gathered
from mdpnewton.jobs.processes import WorkerDiedError

FOLDER = "jobs"
GRACE = 10.0  # seconds for the jobs under way when the work is asked to stop
LOOK = 1.0  # seconds of waiting after which the executor is asked whether it is well


class Progress(NamedTuple):
    """How far a list of jobs is.

    Attributes:
        done: Number of jobs that are finished, those of earlier runs included.
        total: Number of jobs.
        last: Name of the job that was finished last; empty at the beginning.
        seconds_left: Estimate from the jobs that were done now; None before the first.
    """

    done: int
    total: int
    last: str
    seconds_left: float | None


class NotAllDoneError(Exception):
    """Results are asked for of jobs that are not all done."""


class Survey(NamedTuple):
    """What has become of the jobs of a run.

    Attributes:
        done: Jobs that are finished.
        left: Jobs that are not.
        failed: Why jobs that are left failed when they were last tried, by name.
    """

    done: list[Job]
    left: list[Job]
    failed: dict[str, str]


@dataclass(frozen=True)
class JobFolder:
    """The folder of a run with the files of its jobs.

    Attributes:
        folder: The run folder.
    """

    folder: Path

    def path(self, job: Job) -> Path:
        """Where the job's result is, or will be."""
        return self.folder / FOLDER / f"{job.name}.npz"

    def found(self, job: Job) -> Any:
        """The result of a finished job.

        Raises:
            KeyError: It is not finished.
            ValueError: The file is damaged, or that of another job.
        """
        return self._read(job)["result"]

    def seconds(self, job: Job) -> float:
        """How long a finished job took; raises as `found` does."""
        return float(self._read(job)["seconds"])

    def _read(self, job: Job) -> dict[str, Any]:
        path = self.path(job)
        if not path.is_file():
            raise KeyError(job.name)
        try:
            state = load_state(path)
        except ValueError:
            raise ValueError(
                f"{path}: is damaged; move it away, and the same command does this job again"
            ) from None
        if state.get("digest") != job.digest:
            raise ValueError(
                f"{path}: was made with other settings or by another version; use --restart, which "
                f"moves the old run aside, or another folder"
            )
        return state

    def checkpoint(self, job: Job) -> Checkpoint:
        """Where a long job keeps its state until it is done."""
        return Checkpoint(self._checkpoint_path(job), {"digest": job.digest})

    def _checkpoint_path(self, job: Job) -> str:
        """The same file for processes that work in another folder."""
        return str((self.folder / FOLDER / f"{job.name}.checkpoint.npz").absolute())

    def is_done(self, job: Job) -> bool:
        """Whether the job has its file, without reading it."""
        return self.path(job).is_file()

    def keep(self, job: Job, result: Any, seconds: float = 0.0) -> None:
        """Write what a job found and how long it took."""
        state = {"digest": job.digest, "name": job.name, "result": result, "seconds": seconds}
        save_state(self.path(job), state)
        self._note(job).unlink(missing_ok=True)
        self.checkpoint(job).remove()

    def failure(self, job: Job) -> str:
        """Why the job failed when it was last tried; empty if it did not."""
        try:
            return self._note(job).read_text().strip()
        except FileNotFoundError:
            return ""

    def survey(self, work: Work, *, read: bool = True) -> "Survey":
        """What is done and what is left, without doing anything.

        Jobs that depend on the results of others are listed once those are done.

        Args:
            work: The work that asks for jobs.
            read: Whether to read what is done; False stops at the first list of jobs.
        """
        done: list[Job] = []
        left: list[Job] = []

        def listed(jobs: Sequence[Job]) -> Results:
            done.extend(job for job in jobs if self.is_done(job))
            left.extend(job for job in jobs if not self.is_done(job))
            if left or not read:
                raise NotAllDoneError
            return {job.name: self.found(job) for job in jobs}

        with suppress(NotAllDoneError):
            gathered(work, listed)
        failed = {job.name: self.failure(job) for job in left if self.failure(job)}
        return Survey(done, left, failed)

    def _note(self, job: Job) -> Path:
        return self.folder / FOLDER / f"{job.name}.failed"

    def finished(
        self,
        jobs: Sequence[Job],
        executor: Executor,
        report: Callable[[Progress], object] = lambda progress: None,
        *,
        workers: int = 1,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Results:
        """The results of all jobs, those that have no file done first.

        Args:
            jobs: The jobs, with names of their own.
            executor: Does them. If it has a method `check`, that is called every few seconds and
                raises when the executor can do no more.
            report: Called at the beginning and after every job.
            workers: Number of jobs that are handed out at a time.
            stopping: Asked now and then; True hands out no more and raises KeyboardInterrupt when
                those under way are finished and kept, or after `GRACE` seconds.

        Raises:
            ValueError: A job failed or killed its workers; all others have been done.
            ClusterLostError: Those who do the jobs cannot be reached; the finished ones are kept.
        """
        names = [job.name for job in jobs]
        if len(set(names)) < len(names):
            raise ValueError("`finished(jobs=...)` needs jobs with names of their own.")
        prepare(self.folder / FOLDER)
        found = {job.name: self.found(job) for job in jobs if self.is_done(job)}
        for job in jobs:
            if job.name in found:
                self.checkpoint(job).remove()  # its process may have died before it did
        before, began = len(found), time.monotonic()
        report(Progress(before, len(jobs), "", None))
        left = [job for job in jobs if job.name not in found]
        waiting, failed = list(reversed(left)), {}
        under_way: dict[Future[Any], Job] = {}
        asked = 0.0  # when `stopping` was first seen to be True
        check: Callable[[], object] = getattr(executor, "check", lambda: None)
        while waiting or under_way:
            while waiting and len(under_way) < workers and not stopping():
                job = waiting.pop()
                under_way[executor.submit(do_job, job, self._checkpoint_path(job))] = job
            if not under_way:
                raise KeyboardInterrupt
            ready = wait(under_way, LOOK, FIRST_COMPLETED).done
            if not ready:
                check()
                asked = asked or (time.monotonic() if stopping() else 0.0)
                if asked and time.monotonic() - asked > GRACE:
                    raise KeyboardInterrupt
            for future in sorted(
                ready, key=lambda one: isinstance(one.exception(), ClusterLostError)
            ):
                job = under_way.pop(future)
                error = future.exception()
                if isinstance(error, ClusterLostError):
                    raise error  # after all others that are done have been kept
                if error is not None:
                    if not isinstance(error, Exception):
                        raise error
                    failed[job.name] = error
                    told = " ".join(str(error).split()) or type(error).__name__
                    write_whole(self._note(job), f"{told}\n".encode())
                    continue
                self.keep(job, *future.result())
                found[job.name] = self.found(job)
                now = len(found) - before
                each = (time.monotonic() - began) / now
                report(Progress(len(found), len(jobs), job.name, each * (len(left) - now)))
        if failed:
            _raise_failures(failed, len(jobs))
        return found


def do_job(job: Job, checkpoint: str | None = None) -> tuple[Any, float]:
    """Do a job; this is what is handed to executors. The second is how many seconds it took.

    Args:
        job: The job.
        checkpoint: File for its checkpoint. Where the folder of that file is not, on another
            machine, the job keeps none.
    """
    began = time.monotonic()
    reachable = checkpoint is not None and Path(checkpoint).parent.is_dir()
    with kept_in(Checkpoint(checkpoint if reachable else None, {"digest": job.digest})):
        return job.do(), time.monotonic() - began


def _is_lost(future: "Future[Any]") -> bool:
    return isinstance(future.exception(), ClusterLostError)


def _raise_failures(failed: Mapping[str, Exception], total: int) -> None:
    name, error = next(iter(failed.items()))
    rest = f" ({len(failed)} jobs of {total} failed)" if len(failed) > 1 else ""
    if isinstance(error, WorkerDiedError):
        raise ValueError(
            f"job {name}: {error}; the other jobs are kept, and the same command tries again{rest}"
        ) from error
    raise error
