"""Who does the jobs: this process, or others that may die. Anything with `submit` will do."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, Self

from mdpnewton.checks import whole

TRIES = 3  # deaths of a worker over one job, after which the job is given up


class WorkerDiedError(RuntimeError):
    """The processes that tried a job died; what the job does is the likely cause."""


class Here:
    """Does a job when it is submitted, in this process."""

    workers = 1

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":
        """A future that is done already."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """There is nothing to end."""


class Processes:
    """So many processes, each with one job at a time; one that dies is replaced.

    Every process has a pool of its own: the death of a worker breaks its pool, and so it is known
    which job it had. A job that is tried anew is a function of its arguments alone, so that a
    second try gives the same bits.

    Attributes:
        workers: Number of processes.
    """

    def __init__(self, workers: int, environment: Mapping[str, str] | None = None):
        self.workers = whole("Processes", "workers", workers, 1)
        self._environment = dict(environment or {})
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="mdpnewton-job")
        self._mine = threading.local()
        self._pools: list[ProcessPoolExecutor] = []
        self._starting = threading.Lock()
        self._closed = False

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":
        """A future of the call, which must be sendable: a function of a module, plain arguments."""
        return self._threads.submit(self._tried, function, arguments)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes: at once if something went wrong, what they do can be done again."""
        self.close(now=kind is not None)

    def close(self, *, now: bool = False) -> None:
        """End all processes; with `now` whatever they are doing."""
        self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._starting:
            pools, self._pools = self._pools, []
        for pool in pools:
            if now:
                for process in list((pool._processes or {}).values()):
                    process.kill()
            pool.shutdown(wait=not now, cancel_futures=True)
        self._threads.shutdown(wait=True)

    def _tried(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        for _ in range(TRIES):
            pool = self._pool()
            try:
                return pool.submit(function, *arguments).result()
            except BrokenProcessPool:
                pool.shutdown(wait=False)
                self._mine.pool = None
                if self._closed:
                    raise
        raise WorkerDiedError(f"its worker died {TRIES} times")

    def _pool(self) -> ProcessPoolExecutor:
        """The pool of this thread; one at a time starts, because they inherit the environment."""
        pool: ProcessPoolExecutor | None = getattr(self._mine, "pool", None)
        if pool is not None:
            return pool
        with self._starting:
            if self._closed:
                raise WorkerDiedError("the workers have been ended")
            pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _prepared)
            self._pools.append(pool)
            with _environment(self._environment):
                pool.submit(os.getpid)  # starts the process
        self._mine.pool = pool
        return pool


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Environment variables as a process that is started now has them from its first moment."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _prepared() -> None:
    """What a new process does first: Ctrl-C is for the parent, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_ended_with_the_parent, daemon=True).start()


def _ended_with_the_parent() -> None:
    """A parent that is killed cannot end its workers: they watch it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
