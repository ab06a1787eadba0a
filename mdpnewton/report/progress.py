"""Progress on standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

EVERY = 60.0  # seconds between two lines of a log


@contextmanager
def progress_bar(title: str, *, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error, or one line per minute if that is not a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    logged = not quiet and not console.is_terminal
    began = shown = time.monotonic()
    with Progress(*columns, console=console, transient=True, disable=quiet or logged) as bar:
        task = bar.add_task(title, total=None)

        def report(done: int, total: int, what: str) -> None:
            nonlocal shown
            bar.update(task, completed=done, total=total, description=f"{title}: {what}")
            now = time.monotonic()
            if logged and now - shown >= EVERY:
                shown = now
                line = f"{title}: {what}, {done}/{total}, {(now - began) / 60:.0f} min"
                console.print(line, markup=False, highlight=False, soft_wrap=True)

        yield report
