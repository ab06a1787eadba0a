"""Checkpoints: the state of long work in a file, from which it goes on after a kill."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from typing import Any

from mdpnewton.checks import number
from mdpnewton.files.states import load_newest, previous_of, save_state
from mdpnewton.jobs.stopping import asked

SECONDS = 20.0


class Checkpoint:
    """A file that keeps the last two states of some work.

    Attributes:
        path: The file; None keeps nothing.
        about: Plain data that says which work it is; the state of other work is refused.
        seconds: Least time between two savings, because a state may be large; 20 by default.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None,
        about: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ):
        self.path = None if path is None else Path(path)
        self.about = dict(about or {})
        self.seconds = SECONDS
        if seconds is not None:
            self.seconds = number("Checkpoint", "seconds", seconds, least=0)
        self._last = time.monotonic()

    def load(self) -> Any:
        """The state that was kept last; None if there is none.

        Raises:
            ValueError: The file is damaged, or the state of other work.
        """
        if self.path is None:
            return None
        saved = load_newest(self.path)
        if saved is None:
            return None
        if saved.get("about") != self.about or "state" not in saved:
            raise ValueError(
                f"{self.path}: is the checkpoint of other work; move it away, or name another file"
            )
        return saved["state"]

    def keep(self, state: Callable[[], Any], *, now: bool = False) -> None:
        """Save the state if it is time: after `seconds`, or when the work is asked to stop.

        Args:
            state: Gives the state, plain data as `files/states.py` saves it.
            now: Whether to save it in any case.
        """
        early = time.monotonic() - self._last < self.seconds
        if self.path is None or (early and not now and not asked()):
            return
        save_state(self.path, {"about": self.about, "state": state()}, two=True)
        self._last = time.monotonic()

    def remove(self) -> None:
        """Remove the file: the work is done."""
        if self.path is not None:
            for path in (previous_of(self.path), self.path):
                path.unlink(missing_ok=True)


_current: ContextVar[Checkpoint | None] = ContextVar("checkpoint", default=None)


def job_checkpoint() -> Checkpoint:
    """The checkpoint of the job that is being done; outside of a job one that keeps nothing."""
    return _current.get() or Checkpoint(None)


@contextmanager
def kept_in(checkpoint: Checkpoint) -> Iterator[None]:
    """A context in which this is the checkpoint of the job."""
    token = _current.set(checkpoint)
    try:
        yield
    finally:
        _current.reset(token)
