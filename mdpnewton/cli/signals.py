"""Ctrl-C and SIGTERM: the first lets the work stop where nothing is lost, the second ends it."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from mdpnewton.jobs import stopping

_received: list[int] = []


@contextmanager
def interrupts() -> Iterator[None]:
    """Answer SIGINT and SIGTERM.

    Work that looks for it is asked to stop between two of its pieces; other work is interrupted by
    `KeyboardInterrupt`. A second signal ends the process at once: no file is ever half written.
    """
    _received.clear()
    stopping.forget()
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
        stopping.forget()


def exit_status() -> int:
    """The exit status of an interrupted command: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def _interrupted(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if len(_received) > 1:
        cursor = b"\x1b[?25h" if sys.stderr.isatty() else b""  # the progress bar hides it
        os.write(2, cursor + b"\nmdpnewton: stopped at once; what was written is whole\n")
        os._exit(exit_status())
    if not stopping.ask():
        raise KeyboardInterrupt
    os.write(2, b"\nmdpnewton: stopping as soon as nothing is lost; once more to stop at once\n")
