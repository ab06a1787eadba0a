"""The process that talks to Ray: it may hang or die with a cluster, and the command does not."""

import importlib
import os
import queue
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from mdpnewton.jobs.processes import TRIES
from mdpnewton.version import __version__

CALLS = 500  # per process of a worker; compiled programs take memory maps, which are limited
GONE = 15.0  # seconds without a connection to the head
PROBE = 2.0  # seconds that a connection may take
MEMORY = 200_000_000  # bytes of a local object store; containers may have little shared memory


class Shared:
    """Stands for a shared value in the arguments of a call; the worker finds the value."""

    def __init__(self, number: int, kept: Any = None):
        self.number = number
        self._kept = kept

    def __reduce__(self) -> tuple[Any, ...]:
        return Shared, (self.number,)


def called(version: str, content: bytes, *shared: bytes) -> bytes:
    """Make a call; this is the task of Ray. Errors come back as values, as they were raised.

    Args:
        version: Version of the library that asks.
        content: The function and its arguments.
        shared: What stands in the arguments as `Shared`, in their order.
    """
    try:
        if version != __version__:
            raise ValueError(
                f"a worker has mdpnewton {__version__}, this process {version}; install the same "
                f"version on all machines of the cluster"
            )
        values = iter(shared)
        function, arguments = ForkingPickler.loads(content)
        given = [
            ForkingPickler.loads(next(values)) if isinstance(one, Shared) else one
            for one in arguments
        ]
        return bytes(ForkingPickler.dumps((True, function(*given))))
    except BaseException as error:
        try:
            answer = bytes(ForkingPickler.dumps((False, error)))
            ForkingPickler.loads(answer)  # some can be sent and not received
        except Exception:
            told = RuntimeError(f"{type(error).__name__}: {error}")
            answer = bytes(ForkingPickler.dumps((False, told)))
        return answer


def serve(
    connection: Connection,
    address: str,
    cpus: int,
    folder: str,
    environment: Mapping[str, str],
    modules: Sequence[str],
) -> None:
    """Connect to the cluster, or start one, and pass on calls and results until told to end.

    Args:
        connection: Connection to the process that wants the calls made.
        address: "auto", "local" or the address of a head.
        cpus: Number of CPUs of a local cluster.
        folder: Temporary folder of a local cluster, which is removed.
        environment: Environment variables of the workers.
        modules: Files and folders of the modules that workers can import.
    """
    os.setsid()  # Ctrl-C is for the parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with tempfile.TemporaryFile() as log:  # what Ray says besides is for nobody
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        try:
            _connected(connection, address, cpus, folder, dict(environment), list(modules))
        finally:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)


def _connected(
    connection: Connection,
    address: str,
    cpus: int,
    folder: str,
    environment: dict[str, str],
    modules: list[str],
) -> None:
    os.environ.update(
        RAY_task_oom_retries=str(TRIES - 1),  # for ever unless bounded
        RAY_USAGE_STATS_ENABLED="0",
    )
    runtime: dict[str, Any] = {"env_vars": environment}
    if modules:
        runtime["py_modules"] = modules
    common = {"runtime_env": runtime, "log_to_driver": False, "configure_logging": False}
    ray = importlib.import_module("ray")
    known = _found(ray) if address == "auto" else address
    if ":" in known and not _reachable(known):  # Ray itself would wait for minutes
        remedy = "begin one with `ray start --head`, or use 'local', which starts one here"
        connection.send(("refused", f"there is no Ray head at {known}; {remedy}"))
        return
    try:
        if address == "local":
            local = {"num_cpus": cpus, "object_store_memory": MEMORY, "include_dashboard": False}
            context = ray.init("local", _temp_dir=folder, **local, **common)
        else:
            context = ray.init(address, **common)
        head = context.address_info["gcs_address"]
        workers = _cpus(ray)
    except Exception as error:
        remedy = "begin one with `ray start --head`, or use 'local', which starts one here"
        told = " ".join(str(error).split())
        text = f"there is none that this machine belongs to; {remedy}"
        connection.send(("refused", text if isinstance(error, ConnectionError) else told))
        return
    connection.send(("ready", address if address == "local" else head, workers))
    _Broker(ray, connection, head).run()


class _Broker:
    """Passes on calls and results."""

    def __init__(self, ray: Any, connection: Connection, head: str):
        self.ray, self.connection, self.head = ray, connection, head
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.shared: dict[int, Any] = {}
        options = {"num_cpus": 1, "max_retries": TRIES - 1, "retry_exceptions": False}
        self.task = ray.remote(max_calls=CALLS, **options)(called)

    def run(self) -> None:
        """Until the other end says so, or is no more."""
        for target in (self._send, self._watch):
            threading.Thread(target=target, daemon=True).start()
        with suppress(EOFError, OSError):
            while True:
                kind, *about = self.connection.recv()
                if kind == "call":
                    self._call(*about)
                elif kind == "share":
                    number, content = about
                    self.shared[number] = self.ray.put(content)
                elif kind == "forget":
                    self.shared.pop(about[0], None)
                else:
                    break
        end = threading.Timer(10, os._exit, (1,))
        end.daemon = True
        end.start()
        self.ray.shutdown()

    def _call(self, number: int, version: str, content: bytes, shared: list[int]) -> None:
        try:
            given = [self.shared[one] for one in shared]
            future = self.task.remote(version, content, *given).future()
        except Exception as error:
            self.answers.put(("failed", number, _told(error)))
            return
        future.add_done_callback(lambda done: self._answer(number, done))

    def _answer(self, number: int, done: Any) -> None:
        errors = self.ray.exceptions
        try:
            self.answers.put(("done", number, done.result()))
        except errors.LocalRayletDiedError:
            self.answers.put(("lost",))
        except errors.OutOfMemoryError:
            self._died(number, "ran out of memory")
        except (errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError):
            self._died(number, "died")
        except Exception as error:
            self.answers.put(("failed", number, _told(error)))

    def _died(self, number: int, how: str) -> None:
        if _reachable(self.head):  # else it is not the job's fault, and all is over soon
            self.answers.put(("died", number, how))

    def _send(self) -> None:
        with suppress(OSError):
            while True:
                self.connection.send(self.answers.get())

    def _watch(self) -> None:
        """Say every second that all is well; the number of CPUs is asked for, which needs GCS."""
        seen = asked = time.monotonic()
        workers = 0
        while True:
            now = time.monotonic()
            if _reachable(self.head):
                seen = now
                if not workers or now - asked > 5:
                    workers, asked = _cpus(self.ray), now
                self.answers.put(("alive", workers))
            elif now - seen > GONE:
                self.answers.put(("lost",))
                return
            time.sleep(1)


def _reachable(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PROBE):
            return True
    except (OSError, ValueError, OverflowError):
        return False


def _found(ray: Any) -> str:
    """The address that Ray would take for "auto", if it knows one."""
    try:
        address = ray._private.services.canonicalize_bootstrap_address("auto")
    except Exception:
        return ""  # connecting says why
    return address or ""


def _cpus(ray: Any) -> int:
    return max(int(ray.cluster_resources().get("CPU", 1)), 1)


def _told(error: Exception) -> str:
    """The last line of an error of Ray, which is a traceback, and a remedy where there is one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if lines else type(error).__name__
    if "failed to import" in str(error):
        text = "workers cannot import mdpnewton; install it on all machines of the cluster"
    return text
