"""Reads and writes .pomdp files, including those that come with the package."""

from importlib.resources import files
from pathlib import Path

from mdpnewton.files.folder import write_whole
from mdpnewton.files.pomdp_text import format_pomdp, parse_pomdp
from mdpnewton.models.pomdp import FinitePOMDP

SUFFIX = ".pomdp"


def shipped() -> list[str]:
    """The names of the problems that come with the package."""
    found = (files("mdpnewton.files") / "problems").iterdir()
    return sorted(each.name.removesuffix(SUFFIX) for each in found if each.name.endswith(SUFFIX))


def load_pomdp(path: Path | str) -> FinitePOMDP:
    """The model of a .pomdp file, or of a problem of the package by its name, such as "tiger".

    Raises:
        ValueError: The file is missing, or it is wrong: then the error is a `POMDPError` that
            gives line and column.
    """
    path = Path(path)
    if path.is_file():
        # Old files have comments in other encodings; outside comments only ASCII is accepted.
        return parse_pomdp(path.read_bytes().decode("utf-8", errors="replace"), str(path))
    if str(path) in shipped():
        resource = files("mdpnewton.files") / "problems" / f"{path}{SUFFIX}"
        return parse_pomdp(resource.read_text(encoding="utf-8"), resource.name)
    raise ValueError(
        f"{path}: there is no such file; give a {SUFFIX} file or one of {', '.join(shipped())}"
    )


def save_pomdp(path: Path | str, pomdp: FinitePOMDP, comment: str = "") -> None:
    """Write a model to a .pomdp file that begins with the lines of a comment."""
    path, text = Path(path), format_pomdp(pomdp, comment)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    write_whole(path, text.encode())
