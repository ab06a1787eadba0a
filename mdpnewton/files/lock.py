"""One process at a time writes to a run folder; a lock ends with its process, however that ends."""

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
MISSING = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)  # some shared file systems have no locks


@contextmanager
def locked(folder: Path, part: str = "") -> Iterator[None]:
    """Hold a run folder, or one part of it beside others who hold other parts.

    The system gives the lock up when the process ends, so that none is ever stale.

    Args:
        folder: The run folder.
        part: Name of a part, as "shard-1-of-4"; empty for the whole folder.

    Raises:
        ValueError: Another process holds it; the text says which.
    """
    if fcntl is None:
        yield
        return
    held: list[tuple[Path, int]] = []
    try:
        if part:
            held.append(_taken(folder, NAME, fcntl.LOCK_SH))
        name = f"{NAME}-{part}" if part else NAME
        held.append(_taken(folder, name, fcntl.LOCK_EX))
        yield
    finally:
        for path, opened in held:
            try:
                if path.name != NAME or not part:  # nobody shares it: it leaves no file behind
                    _removed(path, opened)
            finally:
                os.close(opened)


def holder(folder: Path) -> str:
    """Who works in a run folder, as far as this machine can tell: "here", "elsewhere" or ""."""
    try:
        about = json.loads((folder / NAME).read_bytes()[:1000])
        process, host = int(about["process"]), about["host"]
        if host != socket.gethostname():
            return "elsewhere"
        os.kill(process, 0)
    except PermissionError:
        return "here"  # a process of another user
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return ""
    return "here"


def _taken(folder: Path, name: str, kind: int) -> tuple[Path, int]:
    path = folder / name
    opened = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        fcntl.flock(opened, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(opened, 1000, 0).decode(errors="replace")
        os.close(opened)
        raise ValueError(
            f"{folder}: another process is working in this folder{_named(holder)}; wait for it, or "
            f"name another folder"
        ) from None
    except OSError as error:
        if error.errno not in MISSING:
            os.close(opened)
            raise
    if not _is(path, opened):  # who held it has removed it since we opened it
        os.close(opened)
        return _taken(folder, name, kind)
    if kind == fcntl.LOCK_EX:
        os.ftruncate(opened, 0)
        about = {"process": os.getpid(), "host": socket.gethostname()}
        os.pwrite(opened, json.dumps(about).encode(), 0)
    return path, opened


def _is(path: Path, opened: int) -> bool:
    """Whether the path is that of the opened file."""
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(opened))
    except FileNotFoundError:
        return False


def _removed(path: Path, opened: int) -> None:
    """Remove a lock that we alone hold, unless its folder was moved away with it."""
    if _is(path, opened):
        path.unlink()


def _named(holder: str) -> str:
    try:
        about = json.loads(holder)
        return f" (process {int(about['process'])} on {str(about['host'])[:80]})"
    except (ValueError, KeyError, TypeError):
        return ""
