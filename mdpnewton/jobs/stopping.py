"""Asks long work to stop between two of its pieces, where everything is whole."""

from collections.abc import Iterator
from contextlib import contextmanager

_asked = False
_polite = 0


def ask() -> bool:
    """Ask the work under way to stop.

    Returns:
        Whether some work is under way that looks at `stop_here` now and then, and had not been
        asked before.
    """
    global _asked
    heard = _polite > 0 and not _asked
    _asked = True
    return heard


def asked() -> bool:
    """Whether somebody asked."""
    return _asked


def forget() -> None:
    """Begin anew: nobody has asked."""
    global _asked
    _asked = False


def stop_here() -> None:
    """Raise `KeyboardInterrupt` if somebody asked; called where stopping loses nothing."""
    if _asked:
        raise KeyboardInterrupt


@contextmanager
def polite() -> Iterator[None]:
    """Mark work that calls `stop_here` or `asked` now and then, and need not be torn out of it."""
    global _polite
    _polite += 1
    try:
        yield
    finally:
        _polite -= 1
