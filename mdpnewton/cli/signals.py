"""Ctrl-C and SIGTERM: the first lets the work stop where nothing is lost, the second ends it."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_received: list[int] = []


@contextmanager
def interrupts() -> Iterator[None]:
    """Answer SIGINT and SIGTERM.

    Work that looks for it is asked to stop between two of its pieces; other work is interrupted by
    `KeyboardInterrupt`. A second signal ends the process at once: no file is ever half written.
    """
    _received.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: dict[signal.Signals, Any] = {}
    try:
        for kind in (signal.SIGINT, signal.SIGTERM):
            before[kind] = signal.signal(kind, _interrupted)
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
        if (stopping := _loaded()) is not None:
            stopping.forget()


def exit_status() -> int:
    """The exit status of an interrupted command: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def _interrupted(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) > 1:
        _say("stopped at once; what was written is whole", b"\x1b[?25h")  # shows the cursor again
        os._exit(exit_status())
    stopping = _loaded()
    if stopping is None or not stopping.ask():
        raise KeyboardInterrupt
    _say("stopping as soon as nothing is lost; once more to stop at once")


def _loaded() -> Any:
    """The module through which work is asked to stop; None if no such work has begun.

    It is not imported here: that would take longer than a command such as `list` does.
    """
    return sys.modules.get("mdpnewton.jobs.stopping")


def _say(text: str, before: bytes = b"") -> None:
    """Write a line past everything that may be under way, below a progress bar if there is one."""
    start = before + b"\n" if sys.stderr.isatty() else b""
    os.write(2, start + f"mdpnewton: {text}\n".encode())
