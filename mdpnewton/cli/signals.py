"""Ctrl-C and SIGTERM: both interrupt a command, and its exit status says which it was."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_received: list[int] = []


@contextmanager
def interrupts() -> Iterator[None]:
    """Turn SIGINT and SIGTERM into `KeyboardInterrupt`, and note them.

    The note counts where the exception is lost, as in a callback of the garbage collection.
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


def stopping() -> bool:
    """Whether a signal has come."""
    return bool(_received)


def exit_status() -> int:
    """The exit status of an interrupted command: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def _interrupted(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt
