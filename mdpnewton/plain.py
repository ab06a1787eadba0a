"""Converts PyTrees to plain data and back, for `state` and `restored`."""

from collections.abc import Mapping, Sequence
from typing import Any

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
