"""The arrays of a model file: which there are, and single numbers and words among them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdpnewton.files.archive import ArchiveError, load_arrays

TEXTS = ("criterion", "state_names", "action_names")


def read_arrays(path: Path) -> dict[str, Any]:
    """All arrays of a model file: real numbers, and texts where names are expected."""
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file; write one with numpy.savez")
    try:
        arrays = load_arrays(path)
    except ArchiveError as error:
        raise ValueError(
            f"{path}: is not a whole .npz file of plain arrays ({error}); write it with numpy.savez"
        ) from None
    for name, array in arrays.items():
        if name in TEXTS and array.dtype.kind == "U":
            continue
        if array.dtype.kind not in "fiub":
            raise ValueError(f"{path}: {name} must hold real numbers, got dtype {array.dtype}")
    return arrays


def check_keys(
    path: Path,
    arrays: Mapping[str, Any],
    what: str,
    needed: Sequence[str],
    optional: Sequence[str],
) -> None:
    """Refuse keys that are unknown, and needed ones that are missing.

    Args:
        path: The file.
        arrays: What it holds.
        what: What kind of model it is, as the error calls it.
        needed: Keys that it must have.
        optional: Further keys that it may have.
    """
    unknown = sorted(set(arrays) - {*needed, *optional})
    missing = [name for name in needed if name not in arrays]
    if unknown or missing:
        wrong = [f"unknown key {name!r}" for name in unknown]
        wrong += [f"missing key {name!r}" for name in missing]
        raise ValueError(
            f"{path}: {', '.join(wrong)}; a {what} has {', '.join(needed)} and may have "
            f"{', '.join(optional)}"
        )


def number(path: Path, arrays: Mapping[str, Any], name: str) -> float:
    """The one number under a key."""
    if np.size(arrays[name]) != 1:
        raise ValueError(f"{path}: {name} must be one number, got shape {arrays[name].shape}")
    return float(np.ravel(arrays[name])[0])


def word(path: Path, arrays: Mapping[str, Any], name: str) -> str:
    """The one word under a key."""
    array = np.asarray(arrays[name])
    if array.size != 1 or array.dtype.kind != "U":
        raise ValueError(f"{path}: {name} must be one word, got {array.dtype} of {array.shape}")
    return str(np.ravel(array)[0])
