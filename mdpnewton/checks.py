"""Checks of parameters and of packages; an error names the call, the rule and the remedy."""

import importlib
import math
import sys
from collections.abc import Iterable
from numbers import Integral
from typing import Any, NoReturn, cast

# Packages that the core does without: what they are called, and the extra that installs them.
EXTRAS = {
    "PIL": ("Pillow", "plots"),
    "cma": ("cma", "mujoco"),
    "gymnasium": ("Gymnasium", "gym"),
    "matplotlib": ("Matplotlib", "plots"),
    "mujoco": ("MuJoCo", "mujoco"),
    "numba": ("Numba", "tetris"),
    "onnx": ("ONNX", "onnx"),
    "ray": ("Ray", "ray"),
    "tensorboardX": ("tensorboardX", "tensorboard"),
}


class MissingExtraError(ImportError):
    """A package is missing that only a part of the library needs; the text says how to have it."""


def required(module: str, user: str) -> Any:
    """The module of a package in `EXTRAS`, or the one-line error that names its extra.

    Args:
        module: The package or a module in it, as "numba" or "matplotlib.figure".
        user: What needs it, as the error begins: "Tetris", "a figure".
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise  # the package is there and misses something itself
        called, extra = EXTRAS[package]
        raise MissingExtraError(
            f"{user} needs {called}; install it with: pip install 'mdpnewton[{extra}]'",
            name=error.name,
        ) from None


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

    What JAX is tracing has no value yet: it is let through as it is.

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
    if traced(value):
        return cast(float, value)
    single = not isinstance(value, bool | str) and getattr(value, "shape", ()) == ()
    try:
        found = float(value) if single else math.nan
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    inside = least <= found <= most and (found > above or above == -math.inf)
    inside = inside and (found < below or below == math.inf)
    if not inside or (math.isinf(found) and not infinite):
        refuse(call, name, f"must be {_range(least, most, above, below)}, got {told(value)}")
    return found


def whole(call: str, name: str, value: Any, least: int = 0, most: float = math.inf) -> int:
    """The value as an integer within its bounds."""
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not integer or not least <= int(value) <= most:
        limit = "" if most == math.inf else f" and at most {most}"
        refuse(call, name, f"must be a whole number of at least {least}{limit}, got {told(value)}")
    return int(value)


def flag(call: str, name: str, value: Any) -> bool:
    """The value, if it is True or False."""
    if not isinstance(value, bool):
        refuse(call, name, f"must be True or False, got {told(value)}")
    return value


def choice(call: str, name: str, value: Any, known: Iterable[Any]) -> Any:
    """The value, if it is one of those that are known."""
    names = list(known)
    if not any(value is each or (type(value) is type(each) and value == each) for each in names):
        listed = ", ".join(map(repr, names))
        refuse(call, name, f"must be one of {listed}, got {told(value)}")
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


def traced(value: Any) -> bool:
    """Whether JAX is tracing the value, as it does inside `jit`, `grad` and `vmap`."""
    jax = sys.modules.get("jax")  # whoever traces has imported it
    return jax is not None and isinstance(value, jax.core.Tracer)


def told(value: Any, most: int = 100) -> str:
    """The value as an error tells it: in one line, cut where it gets long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}..."


def _range(least: float, most: float, above: float, below: float) -> str:
    low = f"above {above:g}" if above > -math.inf else ""
    low = f"at least {least:g}" if least > -math.inf else low
    high = f"below {below:g}" if below < math.inf else ""
    high = f"at most {most:g}" if most < math.inf else high
    return "a number " + (" and ".join(part for part in (low, high) if part) or "that is finite")
