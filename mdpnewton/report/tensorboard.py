"""Numbers of iterations for TensorBoard, which is an extra."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mdpnewton.checks import required


@contextmanager
def scalars(folder: Path | None) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """What takes the numbers of an iteration, over the transitions that have been played.

    Args:
        folder: Folder for the event files; None writes none.
    """
    if folder is None:
        yield lambda line: None
        return
    writer = required("tensorboardX", "--tensorboard").SummaryWriter(str(folder))

    def log(line: Mapping[str, Any]) -> None:
        for name, value in line.items():
            if isinstance(value, bool | int | float) and name not in ("iteration", "transitions"):
                writer.add_scalar(f"train/{name}", float(value), line["transitions"])
        writer.flush()

    try:
        yield log
    finally:
        writer.close()
