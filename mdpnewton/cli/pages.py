"""The page of run folders: what the commands that show it share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def page(folders: Sequence[Path], level: float | None = None) -> dict[str, Any]:
    """What is on the page of some run folders, as plain data."""
    from mdpnewton.experiments import EXPERIMENTS
    from mdpnewton.report.page import page_of

    shown = {name: (row.shows, row.axes) for name, row in EXPERIMENTS.items()}
    return page_of(folders, shown, level)


def write_report(folders: Sequence[Path], out: Path, level: float | None = None) -> None:
    """Write the page of some run folders to a file, whole or not at all."""
    from mdpnewton.files.folder import write_whole
    from mdpnewton.report.page import document

    write_whole(out, document(page(folders, level)).encode())
