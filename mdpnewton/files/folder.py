"""Run folders: config.json, results.json and the pictures."""

import json
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mdpnewton.files.machine import made_with

POLICY = "policy.npz"  # the state of a training: its policy and everything else
CONTROLLER = "controller.json"
WEIGHTS = "weights.json"


def write_run(
    folder: Path,
    config: dict[str, Any] | None,
    results: dict[str, Any],
    pictures: Mapping[str, bytes],
) -> list[Path]:
    """Write a run folder; each file appears whole or not at all.

    Args:
        folder: Folder for the files. It is created if it does not exist.
        config: Settings of the run. Library versions are added to them. None if config.json is
            there already.
        results: Results of the run.
        pictures: Contents of further files by file name, as `rendered` gives them.

    Returns:
        The files that were written.
    """
    prepare(folder)
    contents: dict[str, Any] = {"results.json": results}
    if config is not None:
        contents = {"config.json": {**config, **made_with()}, **contents}
    written = [folder / name for name in contents]
    for path, content in zip(written, contents.values(), strict=True):
        write_whole(path, to_json(content).encode())
    for name, picture in pictures.items():
        written.append(folder / name)
        write_whole(written[-1], picture)
    return written


def prepare(folder: Path, call: str = "--out") -> None:
    """Create the folder, before anything is computed for it.

    Args:
        folder: The folder.
        call: What named it, for errors.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{call} {folder}: is a file; name a folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{call} {folder}: cannot be made ({error.strerror})") from None
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{call} {folder}: is not writable; name another folder")


def to_json(content: Any) -> str:
    """JSON in full precision; null stands for numbers that JSON cannot represent."""
    try:
        return json.dumps(content, indent=2, allow_nan=False) + "\n"
    except ValueError:
        return json.dumps(_with_null(content), indent=2, allow_nan=False) + "\n"


def _with_null(content: Any) -> Any:
    """The content with None in place of NaN and infinity."""
    if isinstance(content, float) and not math.isfinite(content):
        return None
    if isinstance(content, Mapping):
        return {key: _with_null(each) for key, each in content.items()}
    if isinstance(content, list | tuple):
        return [_with_null(each) for each in content]
    return content


def write_whole(path: Path, content: bytes, previous: Path | None = None) -> None:
    """The file appears whole or not at all, and survives a loss of power once this returns.

    It is written under a name of its own beside the old one, synced, and renamed: two writers
    never share a file, and no link is followed.

    Args:
        path: The file.
        content: What it holds.
        previous: New name of the file that is there now; None to replace it.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(beside, flags, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            os.replace(path, previous)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Names in a folder survive a loss of power too, where the system can promise that."""
    if os.name != "posix":
        return
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
