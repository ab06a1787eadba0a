"""The annotations of arrays in the core, checked by beartype while the tests run.

`conftest.py` hands `checked` to jaxtyping, which decorates every function of the core with it on
import. All other types are mypy's affair.
"""

from collections.abc import Callable
from typing import Any, get_args, get_origin

import jax
import jaxtyping
import numpy as np
from beartype import beartype

CORE = (
    "analysis checks curvature evaluation evaluators forms hessian loop methods models plain "
    "policies simulators solve steps threads training"
)
ARRAYS = (jax.Array, np.ndarray, jaxtyping.AbstractArray)


def install() -> None:
    """Has every module of the core checked that is imported from now on."""
    jaxtyping.install_import_hook([f"mdpnewton.{name}" for name in CORE.split()], "shapes.checked")


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks arrays alone; those of a constructor once it has looked at them itself."""
    hints = function.__annotations__
    constructs, before = function.__name__ == "__init__", hints.get("return") is Any
    function.__annotations__ = {name: hint for name, hint in hints.items() if _of_arrays(hint)}
    if not function.__annotations__ or (constructs and before):
        return lambda *_, **__: None
    check = beartype(function)
    if not constructs:
        return check

    def after(self: Any, *args: Any, **kwargs: Any) -> None:
        if _accepts(self):
            check(self, *args, **kwargs)

    return after


def _accepts(module: Any) -> bool:
    try:
        for kind in type(module).__mro__:
            vars(kind).get("__check_init__", lambda _: None)(module)
    except ValueError:
        return False  # Equinox asks the same after us, and the module may say why
    return True


def _of_arrays(hint: Any) -> bool:
    if hasattr(hint, "leaftype"):  # a PyTree
        return _of_arrays(hint.leaftype)
    if get_origin(hint) is Callable or not (isinstance(hint, type) or get_args(hint)):
        return False
    if get_args(hint):
        return any(_of_arrays(part) for part in get_args(hint))
    return issubclass(hint, ARRAYS)
