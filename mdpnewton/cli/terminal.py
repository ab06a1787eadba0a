"""Terminals that don't know every sign: they get similar ones, and no command fails for a sign."""

import codecs
import sys
from typing import Any

SIMILAR = {"±": "+-", "×": "x", "−": "-", "–": "-", "…": "...", "→": "->", "≤": "<=", "≥": ">="}  # noqa: RUF001
NAME = "mdpnewton-similar"


def use_similar_signs() -> None:
    """Let standard output and standard error write similar signs for those that they lack."""
    codecs.register_error(NAME, _similar)
    for stream in (sys.stdout, sys.stderr):
        encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
        if encoding and not encoding.startswith("utf") and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=NAME)


def _similar(error: UnicodeError) -> tuple[Any, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(SIMILAR.get(sign, "?") for sign in lacking), error.end
