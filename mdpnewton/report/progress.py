"""Progress on standard error: a bar in a terminal, a line per minute elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Event, Thread

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column

EVERY = 60.0  # s between two lines of a log
BAR = 10  # characters

Report = Callable[[int, int, str], None]


def progress_bar(title: str, *, quiet: bool) -> AbstractContextManager[Report]:
    """What a long command reports to: how much is done, of how much, and what is being done.

    Args:
        title: What the lines of a log begin with.
        quiet: Whether nothing is shown.
    """
    if quiet:
        return nullcontext(lambda done, total, what: None)
    console = Console(stderr=True)
    return _bar(console) if console.is_terminal else _log(console, title)


@contextmanager
def _bar(console: Console) -> Iterator[Report]:
    """One line: bar, share, text and time; what does not fit is taken from the text."""
    columns = (
        BarColumn(BAR),
        TaskProgressColumn(),
        TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("", total=None)

        def report(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield report


@contextmanager
def _log(console: Console, title: str) -> Iterator[Report]:
    """A line every minute, whether or not there was a report in it: long work is seen to live."""
    began, last, over = time.monotonic(), ["starting"], Event()

    def report(done: int, total: int, what: str) -> None:
        last[0] = f"{what}, {done}/{total}"

    def write() -> None:
        while not over.wait(EVERY):
            line = f"{title}: {last[0]}, {(time.monotonic() - began) / 60:.0f} min"
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    writer = Thread(target=write, name="progress", daemon=True)
    writer.start()
    try:
        yield report
    finally:
        over.set()
        writer.join()
