"""Who worked on a run and when: one entry per command in sessions.json of its folder."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import mdpnewton
from mdpnewton.files.folder import to_json, write_whole
from mdpnewton.version import __version__

NAME = "sessions.json"
KEPT = 100  # the last ones


def begin_session(folder: Path, command: str) -> None:
    """Note that a command begins or goes on with the run in a folder.

    Args:
        folder: The run folder.
        command: The command line.
    """
    session = {
        "command": command,
        "began": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "version": __version__,
        "commit": commit(),
        "seconds": None,
        "ended": None,
    }
    _write(folder, [*_sessions(folder), session])


def end_session(folder: Path, how: str, seconds: float) -> None:
    """Note how the last command ended; one that is killed leaves its entry open.

    Args:
        folder: The run folder.
        how: "finished", "interrupted" or "failed".
        seconds: How long it took.
    """
    sessions = _sessions(folder)
    if sessions:
        sessions[-1] |= {"ended": how, "seconds": round(seconds, 3)}
        _write(folder, sessions)


def commit() -> str | None:
    """The commit of this library, if it is used from its repository."""
    root = Path(mdpnewton.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    words = [
        "git",
        "-C",
        str(root),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _sessions(folder: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads((folder / NAME).read_bytes())["sessions"]
        return [dict(one) for one in found][-KEPT:]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # there are none yet, or they are damaged: they decide nothing


def _write(folder: Path, sessions: list[dict[str, Any]]) -> None:
    write_whole(folder / NAME, to_json({"sessions": sessions}).encode())
