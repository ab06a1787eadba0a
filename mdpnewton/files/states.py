"""Saved states: plain data and NumPy arrays in an .npz file described in JSON, without pickle."""

import hashlib
import io
import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mdpnewton.files.archive import load_arrays
from mdpnewton.files.folder import POLICY, prepare, write_whole
from mdpnewton.files.machine import made_with
from mdpnewton.version import __version__

FORMAT = 2  # version of the file format; raised when old files can no longer be read
ARRAY = "$array"  # key in the description that refers to an array by its name in the archive
KINDS = "biufc"  # types of arrays that need no pickle: booleans and numbers


def save_state(path: Path, state: Mapping[str, Any], *, two: bool = False) -> None:
    """Write plain data to a file that appears whole or not at all.

    The archive contains the arrays, `about` (JSON in which a reference stands for each array) and
    `digest`, the SHA-256 of all the others.

    Args:
        path: File to write.
        state: Dictionaries with text keys, lists, numbers, strings, None and arrays of numbers.
        two: Whether the file that was there before is kept as `previous_of(path)`.
    """
    arrays: dict[str, np.ndarray] = {}
    description = _described(state, "", arrays)
    about = {"format": FORMAT, "version": __version__, "made_with": made_with()}
    about["state"] = description
    members = {"about": np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays}
    members["digest"] = np.frombuffer(_digest(members).encode(), np.uint8)
    content = io.BytesIO()
    np.savez(content, **members)  # type: ignore[arg-type]
    write_whole(path, content.getvalue(), previous_of(path) if two else None)


def save_to(path: str | PathLike[str], state: Mapping[str, Any]) -> Path:
    """Write plain data to policy.npz in a folder, or to a file whose name ends with .npz.

    Returns:
        The file.
    """
    given = Path(path)
    file = given if given.suffix == ".npz" and not given.is_dir() else given / POLICY
    prepare(file.parent, "save")
    save_state(file, state)
    return file


def previous_of(path: Path) -> Path:
    """Where the state before the last one is kept."""
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def load_newest(path: Path) -> dict[str, Any] | None:
    """The newest of the two states that are kept; None if there is none.

    A process that dies between the renaming of the old one and of the new one leaves the old one.

    Raises:
        ValueError: The file is damaged; the text says whether the one before it is there.
    """
    before = previous_of(path)
    if not path.is_file():
        return load_state(before) if before.is_file() else None
    try:
        return load_state(path)
    except ValueError as error:
        if "damaged" in str(error) and before.is_file():
            raise ValueError(
                f"{path}: is damaged; move it away, and the same command goes on from {before.name}"
            ) from None
        raise


def load_state(path: Path) -> dict[str, Any]:
    """The plain data that was saved.

    Raises:
        ValueError: The file is missing, damaged, or has another format.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file; name the folder of `mdpnewton train --out`")
    damaged = f"{path}: is damaged or no saved policy; train again"
    try:
        members = load_arrays(path, packed=False)
        about = json.loads(bytes(members["about"]).decode())
        form, version = about["format"], about["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(damaged) from None
    if form != FORMAT:
        raise ValueError(
            f"{path}: has format {form}, written by mdpnewton {version}; this is mdpnewton "
            f"{__version__}, which reads format {FORMAT}: use that version, or train again"
        )
    digest = members.pop("digest", np.zeros(0, np.uint8))
    if digest.tobytes() != _digest(members).encode():
        raise ValueError(f"{path}: is damaged (its digest differs); train again")
    try:
        return _recalled(about["state"], members)
    except (KeyError, TypeError, RecursionError):
        raise ValueError(damaged) from None


def _described(data: Any, place: str, arrays: dict[str, np.ndarray]) -> Any:
    """The data as JSON; its arrays go to `arrays`, named after their number and place."""
    if isinstance(data, np.ndarray) and data.dtype.kind in KINDS:
        safe = (letter if letter.isascii() and letter.isalnum() else "_" for letter in place)
        name = f"{len(arrays)}{''.join(safe)}"  # as a file in the archive
        arrays[name] = data
        return {ARRAY: name}
    if isinstance(data, Mapping) and all(isinstance(key, str) and key != ARRAY for key in data):
        return {key: _described(each, f"{place}/{key}", arrays) for key, each in data.items()}
    if isinstance(data, list):
        return [_described(each, f"{place}/{n}", arrays) for n, each in enumerate(data)]
    if data is None or type(data) in (bool, int, float, str):
        return data
    raise ValueError(
        f"`save_state(state=...)` needs plain data: dictionaries by text, lists, numbers, strings, "
        f"None and arrays of numbers, got {type(data).__name__} at {place or '/'}."
    )


def _recalled(description: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(description, dict):
        if ARRAY in description:
            return arrays[description[ARRAY]]
        return {key: _recalled(each, arrays) for key, each in description.items()}
    if isinstance(description, list):
        return [_recalled(each, arrays) for each in description]
    return description


def _digest(members: Mapping[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name in sorted(members):
        array = np.ascontiguousarray(members[name])
        total.update(f"{name}{array.dtype}{members[name].shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()
