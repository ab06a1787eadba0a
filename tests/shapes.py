"""The annotations of arrays in the core, checked by beartype while the tests run.

`conftest.py` hands `checked` to jaxtyping, which decorates every function of the core with it on
import. All other types are mypy's affair.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import signature
from typing import Any, get_args, get_origin

import jax
import jaxtyping
import numpy as np
from beartype.door import die_if_unbearable as _check

CORE = (
    "analysis checks curvature evaluation evaluators forms hessian loop methods models plain "
    "policies simulators solve steps threads training"
)
ARRAYS = (jax.Array, np.ndarray, jaxtyping.AbstractArray)


def install() -> None:
    """Has every module of the core checked that is imported from now on."""
    jaxtyping.install_import_hook([f"mdpnewton.{name}" for name in CORE.split()], "shapes.checked")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks what a function is given and gives back; of a constructor, what it has stored.

    Jaxtyping asks twice: before the call with a function that returns `Any`, and after it with one
    that returns what was given back. Decorating by beartype would check the same, but the functions
    inside of functions are decorated at every call.
    """
    hints = {name: hint for name, hint in function.__annotations__.items() if _of_arrays(hint)}
    if function.__name__ == "__init__":
        before = function.__annotations__.get("return") is Any
        return _check_nothing if before else _check_fields
    if "return" in hints:
        return lambda *args, **kwargs: _check(function(*args, **kwargs), hints["return"])
    names = list(signature(function).parameters)

    def check_given(*args: Any, **kwargs: Any) -> None:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in hints:
                _check(value, hints[name])

    return check_given if hints else _check_nothing


def _check_nothing(*_: Any, **__: Any) -> None:
    pass


def _check_fields(self: Any, *_: Any, **__: Any) -> None:
    if is_dataclass(self) and _accepts(self):
        for name, hint in _array_fields(type(self)):
            _check(getattr(self, name), hint)


def _accepts(module: Any) -> bool:
    try:
        for kind in type(module).__mro__:
            vars(kind).get("__check_init__", _check_nothing)(module)
    except ValueError:
        return False  # Equinox asks the same after us, and the module may say why
    return True


@cache
def _array_fields(kind: Any) -> list[tuple[str, Any]]:
    return [(each.name, each.type) for each in fields(kind) if _of_arrays(each.type)]


def _of_arrays(hint: Any) -> bool:
    if get_origin(hint) is Callable or not (isinstance(hint, type) or get_args(hint)):
        return False
    if get_args(hint):
        return any(_of_arrays(part) for part in get_args(hint))
    return issubclass(hint, ARRAYS)
