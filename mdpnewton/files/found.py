"""Whatever a run folder holds, read without trust: damage becomes a sentence, not an error."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mdpnewton.files.lines import TIMES

LARGEST = 64 * 2**20  # bytes of a file that is read at all
LONGEST = 2_000  # characters of a text that are kept
DEEPEST = 16  # levels of lists and objects
MOST = 200_000  # entries of a list or an object
ROWS = 100_000  # lines of metrics
READ = ("config.json", "results.json", "sessions.json", "controller.json", "replay.json")


@dataclass(frozen=True)
class Found:
    """What is in a run folder, as plain and finite data.

    Attributes:
        folder: The run folder.
        files: Contents of the JSON files that are there and whole, by name.
        metrics: Lines of metrics.jsonl.
        times: Lines of times.jsonl, the seconds after each iteration.
        problems: What could not be read, in sentences.
    """

    folder: Path
    files: Mapping[str, Mapping[str, Any]]
    metrics: list[Mapping[str, Any]] = field(default_factory=list)
    times: list[Mapping[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def config(self) -> Mapping[str, Any]:
        """What config.json says; empty if it is missing."""
        return self.files.get("config.json", {})

    @property
    def results(self) -> Mapping[str, Any]:
        """What results.json says; empty if there are none yet."""
        return self.files.get("results.json", {})


def found_in(folder: Path) -> Found:
    """Read a run folder.

    Raises:
        ValueError: There is no such folder.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder; name a run folder")
    problems: list[str] = []
    files = {}
    for name in READ:
        content = _read(folder / name, problems)
        if content is None:
            continue
        try:
            parsed = json.loads(content)
        except (ValueError, RecursionError):
            problems.append(f"{name} is damaged and was left out.")
            continue
        if isinstance(parsed, dict):
            files[name] = plain(parsed)
        else:
            problems.append(f"{name} holds no JSON object and was left out.")
    if "config.json" not in files and not any(one.startswith("config") for one in problems):
        unknown = "how the results were made is not known" if "results.json" in files else ""
        unknown = unknown or "this may not be a run folder"
        problems.append(f"There is no config.json: {unknown}.")
    metrics, times = (_lines(folder / name, problems) for name in ("metrics.jsonl", TIMES))
    return Found(folder, files, metrics, times, problems)


def _lines(path: Path, problems: list[str]) -> list[Mapping[str, Any]]:
    content = _read(path, problems)
    lines = [] if content is None else content.splitlines()
    rows, damaged = [], 0
    for number, line in enumerate(lines[:ROWS]):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            damaged += number < len(lines) - 1  # the last one may be under way
            continue
        if isinstance(row, dict):
            rows.append(plain(row))
    if damaged:
        problems.append(f"{damaged} lines of {path.name} are damaged and were left out.")
    if len(lines) > ROWS:
        problems.append(f"{path.name} has {len(lines):,} lines; the first {ROWS:,} are shown.")
    return rows


def _read(path: Path, problems: list[str]) -> str | None:
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > LARGEST:
            problems.append(f"{path.name} is larger than {LARGEST >> 20} MB and was left out.")
            return None
        return path.read_bytes().decode(errors="replace")
    except OSError as error:
        problems.append(f"{path.name} cannot be read ({error.strerror}).")
        return None


def plain(value: Any, depth: int = 0) -> Any:
    """The data with finite numbers, and with texts and lists of bounded length."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else plain(_real(value))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return shortened(value)
    if depth == DEEPEST:
        return None
    if isinstance(value, Mapping):
        pairs = list(value.items())[:MOST]
        return {shortened(str(key), 200): plain(each, depth + 1) for key, each in pairs}
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in value[:MOST]]
    return None


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text, cut if it is too long, without halves of characters that cannot be written."""
    text = text.encode(errors="replace").decode()
    if len(text) <= longest:
        return text
    return f"{text[:longest]} … ({len(text):,} characters)"


def _real(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def run_folders(folder: Path) -> list[Path]:
    """The folders of the runs in a sweep, or the folder itself if it is that of one run."""
    try:
        config = json.loads((folder / "config.json").read_bytes()[:LARGEST])
    except (OSError, ValueError, RecursionError):
        config = None
    if config is not None and not (isinstance(config, dict) and config.get("command") == "sweep"):
        return [folder]
    if not folder.is_dir():
        return [folder]
    inside = sorted(path.parent for path in folder.glob("*/config.json"))
    return inside or [folder]
