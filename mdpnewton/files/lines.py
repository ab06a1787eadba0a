"""Files of JSON lines, one per iteration of a run, and the time that each iteration took."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdpnewton.files.folder import write_whole

TIMES = "times.jsonl"


def kept_lines(path: Path, iteration: int) -> list[dict[str, Any]]:
    """Cut the file of a run that goes on at an iteration; returns the lines before it.

    Lines that a kill has left half written are cut too.
    """
    found = []
    for line in path.read_text(errors="replace").splitlines() if path.is_file() else []:
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and row.get("iteration", iteration) < iteration:
            found.append(row)
    write_whole(path, "".join(json.dumps(row) + "\n" for row in found).encode())
    return found


def add_line(path: Path, row: Mapping[str, Any]) -> None:
    """Append a line to the file."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


class Clock:
    """The seconds that a run had taken after each iteration, in times.jsonl of its folder.

    They are apart from the metrics, because no result may depend on them. What a killed command
    did after its last whole iteration is not counted.
    """

    def __init__(self, folder: Path):
        self._path, self._began, self._spent = folder / TIMES, time.monotonic(), 0.0

    def go_on(self, iteration: int) -> None:
        """Say which iteration comes next; what earlier commands took is added to the times."""
        kept = kept_lines(self._path, iteration)
        self._spent = float(kept[-1]["seconds"]) if kept else 0.0

    def note(self, iteration: int) -> None:
        """Write down that the iteration is over."""
        seconds = self._spent + time.monotonic() - self._began
        add_line(self._path, {"iteration": iteration, "seconds": round(seconds, 3)})
