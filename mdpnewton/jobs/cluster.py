"""Jobs on a Ray cluster, whose nodes may die, and which may be gone altogether."""

import multiprocessing
import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, Self

from mdpnewton.checks import refuse, required, whole
from mdpnewton.executors import ClusterLostError
from mdpnewton.jobs.broker import Shared, serve
from mdpnewton.jobs.processes import TRIES, WorkerDiedError
from mdpnewton.threads import one_thread
from mdpnewton.version import __version__

START = 120.0  # seconds that a cluster may take to start or to answer
SILENCE = 30.0  # seconds without a word of the broker, which speaks every second
END = 15.0  # seconds that the end may take
LONGEST = 30  # letters of a temporary folder; paths of sockets are limited to 107
ENDED = (
    "the process that talks to Ray ended; a program must connect below "
    "`if __name__ == '__main__':`, because that process imports it"
)


class Cluster:
    """A Ray cluster as an executor, to be used in a `with` statement.

    Every call is a stateless task with one CPU and one thread, so that it can be done again
    elsewhere when its node dies. Another process, the broker, talks to Ray: Ray ends a process
    whose cluster is gone, and this one is to say so and keep what is finished.

    Attributes:
        address: "auto" for the cluster that this machine belongs to, "local" for one that is
            started here and ends with the `with` statement, or the address of a head, as
            "host:6379", from one of its nodes.
        workers: Number of CPUs of the cluster; it follows nodes that come and go.
    """

    def __init__(
        self,
        address: str = "auto",
        workers: int | None = None,
        *,
        modules: Sequence[Path | str] = (),
        environment: Mapping[str, str] | None = None,
    ):
        """Check what can be checked; the `with` statement connects.

        Args:
            address: See above.
            workers: Number of CPUs of a local cluster; None for the cores of this machine.
            modules: Python files and folders of packages that the workers can import.
            environment: Environment variables of the workers, beside those for one thread.
        """
        call, cores = "Cluster", os.cpu_count() or 1
        if not isinstance(address, str) or not address or "://" in address:
            rule = "must be 'auto', 'local' or the address of a head, as 'host:6379'"
            refuse(call, "address", f"{rule}, got {address!r}")
        if workers is not None and address != "local":
            refuse(call, "workers", "is for address='local'; a cluster that exists has its own")
        for module in map(Path, modules):
            if not (module.is_dir() or (module.suffix == ".py" and module.is_file())):
                rule = "must be Python files or folders of packages that are there"
                refuse(call, "modules", f"{rule}, got {module}")
        self._cpus = cores if workers is None else whole(call, "workers", workers, 1)
        required("ray", "a cluster")
        self.address = address
        self.workers = 1
        self._modules = [str(Path(module).resolve()) for module in modules]
        kept = {name: value for name, value in os.environ.items() if name.startswith("JAX_")}
        kept.pop("JAX_COMPILATION_CACHE_DIR", None)  # a folder of this machine
        self._environment = {**kept, **one_thread(), **(environment or {})}
        self._futures: dict[int, Future[Any]] = {}
        self._numbers = iter(range(2**62))
        self._lock = threading.Lock()
        self._sending: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lost = ""
        self._closed = False
        self._broker: Any = None
        self._folder = ""

    def __enter__(self) -> Self:
        spawn = multiprocessing.get_context("spawn")
        here, there = spawn.Pipe()
        self._folder = _short_folder() if self.address == "local" else ""
        about = (self.address, self._cpus, self._folder, self._environment, self._modules)
        self._broker = spawn.Process(target=serve, args=(there, *about), daemon=True)
        self._broker.start()
        there.close()
        first: tuple[Any, ...] = ("refused", f"no answer in {START:.0f} s")
        try:
            if here.poll(START):
                first = here.recv()
        except (EOFError, OSError):
            first = ("refused", ENDED)
        if first[0] != "ready":
            self._end(1.0)
            raise ValueError(f"cluster {self.address!r}: {first[1]}")
        self.address, self.workers = first[1], first[2]
        for target in (self._send, self._receive):
            threading.Thread(target=target, args=(here,), daemon=True).start()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._closed = True
        self._sending.put(("close",))
        self._end(END)
        self._fail("the cluster has been left")

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> "Future[Any]":
        """A future of the call, which must be sendable: a function of a module, plain arguments."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        shared = [one.number for one in arguments if isinstance(one, Shared)]
        content = bytes(ForkingPickler.dumps((function, arguments)))
        with self._lock:
            number = next(self._numbers)
            if self._lost or self._closed or self._broker is None:
                future.set_exception(ClusterLostError(self._lost or "the cluster is not there"))
                return future
            self._futures[number] = future
        self._sending.put(("call", number, __version__, content, shared))
        return future

    def share(self, value: Any) -> Shared:
        """What stands for the value among the arguments of `submit`; the value is sent once."""
        content = bytes(ForkingPickler.dumps(value))
        with self._lock:
            number = next(self._numbers)
        self._sending.put(("share", number, content))
        return Shared(number, _Forget(self._sending, number))

    def check(self) -> None:
        """Raise `ClusterLostError` if the cluster is gone."""
        if self._lost:
            raise ClusterLostError(self._lost)

    def _send(self, connection: Connection) -> None:
        with suppress(OSError):  # the receiving thread notices
            while True:
                message = self._sending.get()
                connection.send(message)
                if message[0] == "close":
                    return

    def _receive(self, connection: Connection) -> None:
        told = "does not answer"
        with suppress(EOFError, OSError):
            told = "is gone"
            while connection.poll(SILENCE):
                kind, *about = connection.recv()
                if kind == "alive":
                    self.workers = about[0]
                elif kind == "lost":
                    break
                else:
                    self._answer(kind, *about)
            else:
                told = "does not answer"
        if not self._closed:
            which = "the local cluster" if self._folder else f"the cluster at {self.address}"
            rest = "everything finished is kept, and the same command goes on"
            self._fail(f"{which} {told}; {rest}")
            self._end()

    def _answer(self, kind: str, number: int, content: Any) -> None:
        with self._lock:
            future = self._futures.pop(number)
        if kind == "died":
            future.set_exception(WorkerDiedError(f"its worker {content} {TRIES} times"))
            return
        if kind == "failed":
            future.set_exception(RuntimeError(content))
            return
        try:
            good, value = ForkingPickler.loads(content)
        except Exception as error:
            future.set_exception(error)
            return
        if good:
            future.set_result(value)
        else:
            future.set_exception(value)

    def _fail(self, text: str) -> None:
        """All futures that are not done end with this error."""
        with self._lock:
            self._lost = self._lost or text
            futures, self._futures = list(self._futures.values()), {}
        for future in futures:
            future.set_exception(ClusterLostError(text))

    def _end(self, seconds: float = 0.0) -> None:
        """The broker has so long to end by itself."""
        self._broker.join(seconds)
        if self._broker.is_alive():
            self._broker.kill()
            self._broker.join()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)


def _short_folder() -> str:
    folder = tempfile.mkdtemp(prefix="mn-")
    if len(folder) <= LONGEST:
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="mn-", dir="/tmp")


@dataclass(frozen=True, eq=False)
class _Forget:
    """Lets the cluster forget a shared value when nobody can use it any more."""

    sending: "queue.SimpleQueue[Any]"
    number: int

    def __del__(self) -> None:
        self.sending.put(("forget", self.number))
