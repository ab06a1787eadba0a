"""Which run a folder holds: config.json says so from the beginning, and no other may join it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdpnewton.files.folder import sync_folder, to_json, write_whole
from mdpnewton.files.lock import NAME, locked
from mdpnewton.files.machine import made_with

CONFIG = "config.json"
MARK = "results_version"  # part of what a run is; configurations of older versions lack it
WARNED = ("version", "python", "libraries", "machine")  # may differ in one run, with a warning
FREE = (*WARNED, "cores")  # and that, on which nothing depends
ELSE = "name another folder with --out, or use --restart, which moves the old run aside"


def begin_run(folder: Path, about: Mapping[str, Any]) -> str:
    """Make an empty folder that of this run, or recognise the run that is in it.

    Args:
        folder: The run folder, held by `locked`.
        about: What config.json says: all of it, except `FREE`, decides whether the run is the same.

    Returns:
        A warning if the run began with other libraries or on another processor, or an empty text.

    Raises:
        ValueError: The folder holds something else; nothing has been written.
    """
    if is_free(folder):
        write_whole(folder / CONFIG, to_json({**about, **made_with()}).encode())
        return ""
    return recognised(folder, about)


def recognised(folder: Path, about: Mapping[str, Any]) -> str:
    """Check that the folder holds this run; see `begin_run`, which calls it."""
    before, now = run_in(folder), {**about, **made_with()}
    if before.get("command") != about.get("command"):
        told = f"{before.get('command', 'run')}`, not of `{about.get('command', 'run')}"
        raise ValueError(f"{folder}: holds a run of `{told}`; {ELSE}")
    for name in sorted({*before, *about} - {*FREE}):
        told = _difference(name, before.get(name), about.get(name))
        if told:
            raise ValueError(f"{folder}: holds a run with {told}; {ELSE}")
    changed = [name for name in WARNED if name in before and before[name] != now.get(name)]
    told = ", ".join(_difference(name, before[name], now.get(name)) for name in changed)
    return told and f"{folder}: this run began with {told}; its last bits may depend on that"


def check_replaceable(folder: Path, about: Mapping[str, Any]) -> None:
    """Refuse a folder that holds anything but an earlier result of the same command on the same.

    Args:
        folder: The run folder of a command that does not go on with what it finds.
        about: What config.json will say.
    """
    if is_free(folder):
        return
    try:
        before = json.loads((folder / CONFIG).read_bytes())
    except (OSError, ValueError):
        before = None
    wanted = {name: value for name, value in about.items() if name not in FREE}
    if not isinstance(before, dict) or any(before.get(name) != wanted[name] for name in wanted):
        raise ValueError(
            f"{folder}: is not empty and holds no earlier result of this command on the same; name "
            f"another folder with --out"
        )


def run_in(folder: Path) -> dict[str, Any]:
    """What config.json says of the run in a folder.

    Raises:
        ValueError: There is no run that this version could go on with.
    """
    path = folder / CONFIG
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder; name that of `mdpnewton run`")
    if not path.is_file():
        raise ValueError(f"{folder}: is not empty and holds no run; name another folder with --out")
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        raise ValueError(f"{path}: is damaged; {ELSE}") from None
    if not isinstance(found, dict) or MARK not in found:
        raise ValueError(f"{folder}: holds a run of an older version or another command; {ELSE}")
    return found


def set_aside(folder: Path) -> Path | None:
    """Rename the folder of a run to the first free of NAME.old-1, NAME.old-2, ...

    Returns:
        The new name; None if there was nothing to move.
    """
    if is_free(folder):
        return None
    if not (folder / CONFIG).is_file():
        raise ValueError(f"{folder}: holds no run that --restart could move aside; use --out")
    with locked(folder):
        number = 1
        while (aside := folder.with_name(f"{folder.name}.old-{number}")).exists():
            number += 1
        folder.rename(aside)
        (aside / NAME).unlink(missing_ok=True)
        sync_folder(aside.parent)
    return aside


def is_free(folder: Path) -> bool:
    """Whether nothing is in the folder, beside locks and files that were never finished."""
    every = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return all(name.startswith(NAME) or name.endswith(".part") for name in every)


def _difference(name: str, before: Any, now: Any) -> str:
    """The first difference in words; empty if there is none."""
    if before == now:
        return ""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted({*before, *now}):
            if before.get(key) != now.get(key):
                return _difference(key, before.get(key), now.get(key))
    return f"{name.replace('_', ' ')} {json.dumps(before)}, not {json.dumps(now)}"
