"""Reads and writes .pomdp files, including those that come with the package."""

from importlib.resources import files
from pathlib import Path

from mdpnewton.files.folder import write_whole
from mdpnewton.files.pomdp_text import format_pomdp, parse_pomdp
from mdpnewton.files.pomdpx import parse_pomdpx
from mdpnewton.models.pomdp import FinitePOMDP

SUFFIX, POMDPX = ".pomdp", ".pomdpx"


def shipped() -> list[str]:
    """The names of the problems that come with the package."""
    found = (files("mdpnewton.files") / "problems").iterdir()
    return sorted(each.name.removesuffix(SUFFIX) for each in found if each.name.endswith(SUFFIX))


def load_pomdp(path: Path | str, notes: list[str] | None = None) -> FinitePOMDP:
    """The model of a .pomdp or .pomdpx file, or of a problem of the package, such as "tiger".

    Args:
        path: The file, or the name of a problem of the package.
        notes: A list to read a .pomdp file leniently: it takes a line for every word that breaks a
            rule of the format, which says what it was taken for. None refuses such words.

    Raises:
        ValueError: The file is missing, or it is wrong: then the error is a `POMDPError` that
            gives line and column.
    """
    text, source = pomdp_source(path)
    if Path(path).suffix == POMDPX:
        return parse_pomdpx(text, source)
    return parse_pomdp(text, source, notes)


def pomdp_source(path: Path | str) -> tuple[str, str]:
    """The text of a .pomdp file, or of a problem of the package, and its name for errors."""
    path = Path(path)
    if path.is_file():
        # Old files have comments in other encodings; outside comments only ASCII is accepted.
        return path.read_bytes().decode("utf-8", errors="replace"), str(path)
    if str(path) in shipped():
        resource = files("mdpnewton.files") / "problems" / f"{path}{SUFFIX}"
        return resource.read_text(encoding="utf-8"), resource.name
    raise ValueError(
        f"{path}: there is no such file; give a {SUFFIX} file or one of {', '.join(shipped())}"
    )


def save_pomdp(path: Path | str, pomdp: FinitePOMDP, comment: str = "") -> None:
    """Write a model to a .pomdp file that begins with the lines of a comment."""
    path, text = Path(path), format_pomdp(pomdp, comment)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
    write_whole(path, text.encode())
