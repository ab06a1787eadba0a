"""The tables of a POMDPX text over its variables."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mdpnewton.files.pomdp_text.tokens import RESERVED
from mdpnewton.files.pomdpx.tree import Element

MOST_ENTRIES = 20_000_000  # of a table, and of all tables of the product


@dataclass(frozen=True)
class Variable:
    """A variable of a factored model: its names now and after the step, and its values."""

    now: str
    after: str
    values: tuple[str, ...]


def words_of(element: Element, tag: str) -> list[str]:
    """The words in all elements of this name."""
    return [word for each in element.all(tag) for word in each.text.split()]


def table_of(element: Element, known: Mapping[str, Variable]) -> tuple[list[str], np.ndarray]:
    """A table over its variables: parents first, then what it is about."""
    parents = [word for word in words_of(element, "Parent") if word != "null"]
    made = words_of(element, "Var") if element.tag == "CondProb" else []
    names = parents + made
    for name in names:
        if name not in known:
            element.fail(f"names {name!r}; it may depend on {', '.join(known)}")
    if len(set(names)) != len(names):
        element.fail("names a variable twice")
    parameters = element.all("Parameter")
    if len(parameters) != 1 or parameters[0].attributes.get("type", "TBL") != "TBL":
        element.fail("needs one `Parameter` of type TBL; decision diagrams are not read")
    shape = [len(known[name].values) for name in names]
    if math.prod(shape) > MOST_ENTRIES:
        element.fail(f"has a table of more than {MOST_ENTRIES:,} entries")
    table = np.zeros(shape)
    values_tag = "ProbTable" if element.tag == "CondProb" else "ValueTable"
    for entry in parameters[0].all("Entry"):
        _enter(entry, values_tag, [known[name] for name in names], table)
    return names, table


def _enter(entry: Element, tag: str, variables: list[Variable], table: np.ndarray) -> None:
    instances, tables = entry.all("Instance"), entry.all(tag)
    if len(instances) != 1 or len(tables) != 1:
        entry.fail(f"`Entry` needs one `Instance` and one `{tag}`")
    words = instances[0].text.split()
    if len(words) != len(variables):
        entry.fail(f"`Instance` needs {len(variables)} words, got {len(words)}")
    index, open_ = [], []
    for word, variable in zip(words, variables, strict=True):
        if word == "*":
            index.append(slice(None))
        elif word == "-":
            index.append(slice(None))
            open_.append(len(index) - 1)
        elif word in variable.values:
            index.append(slice(i := variable.values.index(word), i + 1))
        else:
            some = ", ".join(variable.values[:6])
            entry.fail(f"there is no value {word!r} of {variable.now}: it has {some}")
    shape = [table.shape[i] if i in open_ else 1 for i in range(table.ndim)]
    table[tuple(index)] = _values(tables[0], shape)


def _values(element: Element, shape: list[int]) -> np.ndarray:
    size, words = math.prod(shape), element.text.split()
    inner = [length for length in shape if length > 1] or [1]
    if words == ["uniform"]:
        return np.full(shape, 1 / inner[-1])
    if words == ["identity"]:
        if len(inner) != 2 or inner[0] != inner[1]:
            element.fail("`identity` needs two dashes of the same length")
        return np.eye(inner[0]).reshape(shape)
    if len(words) != size:
        element.fail(f"`{element.tag}` needs {size} numbers, got {len(words)}")
    try:
        found = np.array([float(word) for word in words])
    except ValueError:
        element.fail(f"`{element.tag}` needs numbers, `uniform` or `identity`")
    if not np.isfinite(found).all() or (element.tag == "ProbTable" and (found < 0).any()):
        element.fail(f"`{element.tag}` has a number that is negative or not finite")
    return found.reshape(shape)


def size(variables: Sequence[Variable]) -> int:
    """The number of combinations of their values."""
    return math.prod(len(each.values) for each in variables)


def joint_names(variables: Sequence[Variable]) -> tuple[str, ...]:
    """The names of all combinations, in letters that a .pomdp text takes too."""
    joined = [""]
    for each in variables:
        joined = [f"{left}_{value}" if left else value for left in joined for value in each.values]
    plain = [re.sub(r"[^A-Za-z0-9_-]", "-", name) for name in joined]
    plain = [f"x{name}" if name in RESERVED or not name[:1].isalpha() else name for name in plain]
    return tuple(plain if len(set(plain)) == len(plain) else _numbered(plain))


def _numbered(names: list[str]) -> Iterator[str]:
    for i, name in enumerate(names):
        yield f"{name}_{i}"


def spread(table: np.ndarray, names: list[str], axes: list[str]) -> np.ndarray:
    """The table with its axes in this order, and axes of length 1 for all others."""
    order = sorted(range(len(names)), key=lambda i: axes.index(names[i]))
    turned = table.transpose(order)
    shape = iter(turned.shape)
    return turned.reshape([next(shape) if axis in names else 1 for axis in axes])
