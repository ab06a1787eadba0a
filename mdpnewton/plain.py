"""Converts PyTrees to plain data and back, for `state` and `restored`."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_origin, get_type_hints

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import refuse


def arrays_of(tree: PyTree) -> list[np.ndarray]:
    """The arrays and numbers of a tree, in the order of `jax.tree.leaves`.

    This is the order in which a module declares its fields, including fields of fields and without
    static ones; dictionaries are ordered by their keys.
    """
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array_like))]


def with_arrays(call: str, name: str, tree: PyTree, arrays: Any) -> PyTree:
    """Return the tree with these arrays, as `arrays_of` gives them, in place of its own.

    Args:
        call: Name of the call, for the error.
        name: Name of the tree in the state, for the error.
        tree: Tree with the structure, the shapes and the types.
        arrays: Arrays to put into it.
    """
    changing, rest = eqx.partition(tree, eqx.is_array_like)
    leaves, structure = jax.tree.flatten(changing)
    expected = [_signature(leaf) for leaf in leaves]
    found = [_signature(array) for array in sequence(call, name, arrays)]
    if len(found) != len(expected):
        refuse(call, name, f"needs {len(expected)} arrays, got {len(found)}")
    for n, (old, new) in enumerate(zip(expected, found, strict=True)):
        if old != new:
            refuse(call, name, f"needs as array {n} one of {old}, got {new}")
    typed = [_like(old, new) for old, new in zip(leaves, arrays, strict=True)]
    return eqx.combine(jax.tree.unflatten(structure, typed), rest)


def entries(call: str, state: Any, *names: str) -> tuple[Any, ...]:
    """The entries of a state, which must have exactly these names."""
    found = sorted(map(str, state)) if isinstance(state, Mapping) else [type(state).__name__]
    if found != sorted(names):
        listed = ", ".join(found) or "nothing"
        refuse(
            call, "state", f"needs {', '.join(names)}, got {listed}; restore what it was taken from"
        )
    return tuple(state[name] for name in names)


def fields_of(record: Any) -> dict[str, Any]:
    """The fields of a dataclass by their names, with lists in place of tuples; see `rebuilt`."""
    return {field.name: _listed(getattr(record, field.name)) for field in fields(record)}


def _listed(value: Any) -> Any:
    if is_dataclass(value):
        return fields_of(value)
    if isinstance(value, tuple):
        return [_listed(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def rebuilt(call: str, kind: type[Any], data: Any) -> Any:
    """The dataclass that `fields_of` made the data of.

    Args:
        call: Name of the call, for the error.
        kind: A dataclass whose fields are plain, tuples of plain values, or dataclasses.
        data: Its fields by their names; a field that is missing has its default.
    """
    hints, known = get_type_hints(kind), [field.name for field in fields(kind)]
    if isinstance(data, Mapping) and kind.__dataclass_fields__.keys() > data.keys():
        data = {**_defaults(kind), **data}  # it may be older than a field
    parts = dict(zip(known, entries(call, data, *known), strict=True))
    for name, hint in hints.items():
        if isinstance(hint, type) and is_dataclass(hint):
            parts[name] = rebuilt(call, hint, parts[name])
        elif get_origin(hint) is tuple:
            parts[name] = tuple(parts[name])
    return kind(**parts)


def _defaults(kind: type[Any]) -> dict[str, Any]:
    """The fields that have a default value, by their names."""
    known = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    return {name: _listed(default) for name, default in known.items()}


def sequence(call: str, name: str, value: Any) -> Sequence[Any]:
    """Return the value if it is a list, else raise."""
    if not isinstance(value, list):
        refuse(call, name, f"needs a list, got {type(value).__name__}")
    return value


def reals(call: str, name: str, values: Any, count: int) -> tuple[float, ...]:
    """The `count` numbers of a list, among which NaN and infinity are allowed."""
    listed = sequence(call, name, values)
    plain = all(isinstance(each, int | float) and not isinstance(each, bool) for each in listed)
    if not plain or len(listed) != count:
        refuse(call, name, f"needs {count} numbers, got {values!r}")
    return tuple(float(each) for each in listed)


def _signature(leaf: Any) -> str:
    array = np.asarray(leaf)
    return f"{array.dtype} of shape {array.shape}"


def _like(old: Any, new: Any) -> Any:
    if isinstance(old, jax.Array):
        return jnp.asarray(new)
    return np.array(new) if isinstance(old, np.ndarray) else np.asarray(new).item()
