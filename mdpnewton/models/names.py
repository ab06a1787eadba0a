"""Names of states, actions and observations; without names they go by their numbers."""

from collections.abc import Sequence
from typing import Any, overload

from mdpnewton.checks import refuse, told


class Numbers(Sequence[str]):
    """The numbers "0", "1", ... as names that take no memory."""

    def __init__(self, size: int):
        self._range = range(size)

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        found = self._range[at]
        return str(found) if isinstance(found, int) else tuple(map(str, found))


class Called(Sequence[str]):
    """Things that go by their texts, which are made when they are asked for."""

    def __init__(self, things: Sequence[Any]):
        self._things = things

    def __len__(self) -> int:
        return len(self._things)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return tuple(map(str, self._things[at]))
        return " ".join(str(self._things[at]).split())


def checked_names(call: str, name: str, value: Any, size: int) -> Sequence[str] | None:
    """The names as a tuple of different texts, one for each; None stays None, as `Called` does.

    Args:
        call: Name of the class or function that was called.
        name: Name of the argument.
        value: What was given.
        size: How many there must be.
    """
    if value is None or isinstance(value, Called):
        return value
    names = () if isinstance(value, str) else tuple(map(str, value))
    if len(names) != size:
        refuse(call, name, f"needs a list of {size} names, got {told(value)}")
    seen: set[str] = set()
    for one in names:
        if one in seen:
            refuse(call, name, f"needs names that differ, but {told(one)} comes twice")
        seen.add(one)
    if any("\n" in one for one in names):
        refuse(call, name, "needs names of one line each")
    return names


def listed(names: Sequence[str], chosen: Any, most: int = 8) -> str:
    """The chosen names in one line, the first few of many."""
    places = [int(i) for i in chosen]
    text = ", ".join(names[i] for i in places[:most])
    return text if len(places) <= most else f"{text} and {len(places) - most} more"
