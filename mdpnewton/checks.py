"""Checks of parameters where they are given; an error names the call, the rule and the remedy."""

import math
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NoReturn


def refuse(call: str, name: str, rule: str) -> NoReturn:
    """The one-line ValueError for an argument that breaks a rule."""
    raise ValueError(f"`{call}({name}=...)` {rule}.")


def number(
    call: str,
    name: str,
    value: Any,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    infinite: bool = False,
) -> float:
    """The value as a float within its bounds; NaN is always refused.

    Args:
        call: Name of the class or function that was called.
        name: Name of the argument.
        value: What was given.
        least: The smallest value that is allowed.
        most: The largest value that is allowed.
        above: The value must be larger than this.
        below: The value must be smaller than this.
        infinite: Whether infinity is allowed.
    """
    try:
        found = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    inside = least <= found <= most and (found > above or above == -math.inf)
    inside = inside and (found < below or below == math.inf)
    if not inside or (math.isinf(found) and not infinite):
        refuse(call, name, f"must be {_range(least, most, above, below)}, got {value!r}")
    return found


def whole(call: str, name: str, value: Any, least: int = 0, most: float = math.inf) -> int:
    """The value as an integer within its bounds."""
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or not least <= int(value) <= most:
        limit = "" if most == math.inf else f" and at most {most}"
        refuse(call, name, f"must be a whole number of at least {least}{limit}, got {value!r}")
    return int(value)


def choice(call: str, name: str, value: Any, known: Iterable[Any]) -> Any:
    """The value, if it is one of those that are known."""
    names = list(known)
    if not any(value is each or (type(value) is type(each) and value == each) for each in names):
        listed = ", ".join(map(repr, names))
        refuse(call, name, f"must be one of {listed}, got {value!r}")
    return value


def instance(call: str, name: str, value: Any, kind: Any, remedy: str) -> Any:
    """The value, if it is of that kind.

    Args:
        call: Name of the class or function that was called.
        name: Name of the argument.
        value: What was given.
        kind: A class, or a union of classes.
        remedy: What to pass instead, as "pass `Dense()`".
    """
    if not isinstance(value, kind):
        kinds = getattr(kind, "__name__", str(kind))
        article = "an" if kinds[0] in "AEIOU" else "a"
        refuse(call, name, f"needs {article} {kinds}, got {type(value).__name__}; {remedy}")
    return value


def _range(least: float, most: float, above: float, below: float) -> str:
    low = f"above {above:g}" if above > -math.inf else ""
    low = f"at least {least:g}" if least > -math.inf else low
    high = f"below {below:g}" if below < math.inf else ""
    high = f"at most {most:g}" if most < math.inf else high
    return "a number " + (" and ".join(part for part in (low, high) if part) or "that is finite")
