"""The annotations of arrays in the core, checked by beartype while the tests run.

`conftest.py` calls `install`: jaxtyping then decorates every function and class of the core on
import, with `jaxtyped` of this module. All other types are mypy's affair.
"""

import functools
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from inspect import isclass, signature
from types import UnionType
from typing import Any, Union, get_args, get_origin

import jax
import jaxtyping
import numpy as np
from beartype.door import die_if_unbearable as _check
from beartype.door import is_bearable as _fits
from beartype.roar import BeartypeException
from jaxtyping import TypeCheckError
from jaxtyping import jaxtyped as _slowly

CORE = (
    "analysis checks comparison curvature deployment evaluation evaluators executors forms hessian "
    "loop methods models plain policies simulators solve steps threads training"
)
ARRAYS = (jax.Array, np.ndarray, jaxtyping.AbstractArray)
NOT_GIVEN = object()


def install() -> None:
    """Has every module of the core checked that is imported from now on."""
    jaxtyping.jaxtyped = jaxtyped
    jaxtyping.install_import_hook([f"mdpnewton.{name}" for name in CORE.split()], "shapes.checked")


def jaxtyped(function: Any = None, *, typechecker: Any = None) -> Any:
    """Does what jaxtyping's decorator of this name does with `checked`, at a tenth of the cost.

    A function without annotated arrays stays as it is. The others know which shapes and dtypes they
    have been called with, and check new ones only. Jaxtyping's own decorator finds the words for
    what does not fit, and checks annotations that calculate (`"{self.size}"`).
    """
    if function is None:
        return functools.partial(jaxtyped, typechecker=typechecker)
    if isclass(function):
        if is_dataclass(function) and not hasattr(function.__init__, "_checks_arrays"):
            function.__init__ = _checking_fields(function.__init__)
        return function
    if not hasattr(function, "__code__"):
        return _slowly(function, typechecker=typechecker)
    if function.__name__ == "__init__":
        return _checking_fields(function)
    hints = _hints_of(function)
    if hints.calculated:
        return _slowly(function, typechecker=typechecker)
    return _checking_call(function, hints, typechecker) if hints.all else function


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Checks what a function is given and gives back, for jaxtyping's own decorator.

    Jaxtyping asks twice: before the call with a function that returns `Any`, and after it with one
    that returns what was given back.
    """
    hints = {name: hint for name, hint in function.__annotations__.items() if _of_arrays(hint)}
    if "return" in hints:
        return lambda *args, **kwargs: _check(function(*args, **kwargs), hints["return"])
    names = list(signature(function).parameters)

    def check_given(*args: Any, **kwargs: Any) -> None:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in hints:
                _check(value, hints[name])

    return check_given


class _Hints:
    """What one function annotates as arrays, and the shapes and dtypes that fitted."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.code = function.__code__  # kept, so that its id stays its own
        self.annotations = dict(function.__annotations__)
        self.all = {name: hint for name, hint in self.annotations.items() if _of_arrays(hint)}
        places = {name: place for place, name in enumerate(signature(function).parameters)}
        self.given = [(places[name], name) for name in self.all if name != "return"]
        self.calculated = any("{" in repr(hint) for hint in self.all.values())
        self.by_shape = all(_by_shape(hint) for hint in self.all.values())
        self.fitted: set[Any] = set()

    def fit(self, key: Any, values: dict[str, Any]) -> bool:
        if self.by_shape and key in self.fitted:
            return True
        with _slowly("context"):
            fit = all(
                value is NOT_GIVEN or _fits(value, self.all[name]) for name, value in values.items()
            )
        if fit and self.by_shape:
            self.fitted.add(key)
        return fit


_known: dict[int, _Hints] = {}


def _hints_of(function: Callable[..., Any]) -> _Hints:
    """By the code, because a function inside of a function is made anew at every call."""
    found = _known.get(id(function.__code__))
    if found is None or found.annotations != function.__annotations__:
        found = _known[id(function.__code__)] = _Hints(function)
    return found


def _checking_call(function: Any, hints: _Hints, typechecker: Any) -> Any:
    returns = "return" in hints.all

    @functools.wraps(function)
    def checking(*args: Any, **kwargs: Any) -> Any:
        count = len(args)
        values = {
            name: args[place] if place < count else kwargs.get(name, NOT_GIVEN)
            for place, name in hints.given
        }
        key = tuple([_kind(value) for value in values.values()])
        if not hints.fit(key, values):
            return _refused(function, typechecker, args, kwargs)
        found = function(*args, **kwargs)
        if returns and not hints.fit((*key, _kind(found)), {**values, "return": found}):
            return _refused(function, typechecker, args, kwargs)
        return found

    return checking


def _refused(function: Any, typechecker: Any, args: Any, kwargs: Any) -> Any:
    _slowly(function, typechecker=typechecker)(*args, **kwargs)  # raises, and says what is wrong
    raise TypeCheckError(f"{function.__qualname__}: arrays do not fit their annotations")


def _kind(value: Any) -> Any:
    try:
        return type(value), value.shape, value.dtype
    except AttributeError:
        return type(value)


def _by_shape(hint: Any) -> bool:
    """Whether type, shape and dtype decide if a value fits."""
    if get_origin(hint) in (Union, UnionType):
        return all(_by_shape(part) for part in get_args(hint))
    return isclass(hint) and issubclass(hint, (*ARRAYS, float, int, complex, type(None)))


def _checking_fields(constructor: Any) -> Any:
    @functools.wraps(constructor)
    def checking(self: Any, *args: Any, **kwargs: Any) -> None:
        constructor(self, *args, **kwargs)
        kind = type(self)
        names, by_shape, fitted = _array_fields(kind)
        key = tuple([_kind(getattr(self, name)) for name in names]) if by_shape else None
        if names and key not in fitted and _accepts(self):
            with _slowly("context"):
                for name, hint in names.items():
                    _check_field(kind, name, getattr(self, name), hint)
            if by_shape:
                fitted.add(key)

    checking._checks_arrays = True  # type: ignore[attr-defined]
    return checking


def _check_field(kind: Any, name: str, value: Any, hint: Any) -> None:
    try:
        _check(value, hint)
    except BeartypeException as error:
        raise TypeCheckError(f"{kind.__module__}.{kind.__qualname__}.{name}: {error}") from None


def _accepts(module: Any) -> bool:
    try:
        for kind in type(module).__mro__:
            vars(kind).get("__check_init__", lambda _: None)(module)
    except ValueError:
        return False  # Equinox asks the same after us, and the module may say why
    return True


@functools.cache
def _array_fields(kind: Any) -> tuple[dict[str, Any], bool, set[Any]]:
    """Annotations of the fields of a class, whether shapes decide, and the shapes that fitted."""
    every = fields(kind) if is_dataclass(kind) else ()
    hints = {each.name: each.type for each in every if _of_arrays(each.type)}
    return hints, all(_by_shape(hint) for hint in hints.values()), set()


def _of_arrays(hint: Any) -> bool:
    if get_origin(hint) is Callable or not (isinstance(hint, type) or get_args(hint)):
        return False
    if get_args(hint):
        return any(_of_arrays(part) for part in get_args(hint))
    return issubclass(hint, ARRAYS)
