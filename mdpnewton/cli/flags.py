"""Flags of a command from a dataclass: its fields and their docs say everything, rules included."""

import argparse
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
MOST_SEED = 2**62 - 1  # JAX takes seeds of 63 bits, and commands count on from theirs


@dataclass(frozen=True)
class Rule:
    """What a flag is beyond the name, type, default and docs of its field.

    Attributes:
        positional: Whether it is given by its place and not by its name.
        metavar: What stands for the value in the help; None for argparse's own choice.
        least: The smallest number that is allowed.
        above: The number must be larger than this.
        known: Called when a value has come, for the names that are allowed. Whatever it imports
            is imported then and not for the help.
    """

    positional: bool = False
    metavar: str | None = None
    least: float | None = None
    above: float | None = None
    known: Callable[[], Iterable[str]] | None = None


def flag(default: Any = MISSING, **rule: Any) -> Any:
    """A field with a `Rule`; without a default the flag is required."""
    return field(default=default, metadata={"rule": Rule(**rule)})


def add_flags(parser: argparse.ArgumentParser, options: type[Any]) -> None:
    """Give the parser a flag for every field of the dataclass."""
    hints, docs = get_type_hints(options), attribute_docs(options)
    for one in fields(options):
        rule, kind = _rule(one), _kind(hints[one.name])
        given: dict[str, Any] = {"help": _help(docs.get(one.name, ""), one.default)}
        if kind.type is bool:
            parser.add_argument(flag_name(one.name), action="store_true", **given)
            continue
        if rule.metavar:
            given["metavar"] = rule.metavar
        if kind.choices:
            given["choices"] = kind.choices
        if rule.positional and kind.repeated:
            parser.add_argument(one.name, type=kind.type, nargs="+", **given)
            continue
        if kind.repeated:
            given |= {"action": "append", "default": []}
        if rule.positional:
            if one.default is not MISSING:
                given |= {"nargs": "?", "default": one.default}
            parser.add_argument(one.name, type=kind.type, **given)
            continue
        if one.default is MISSING:
            given["required"] = True
        elif not kind.repeated:
            given["default"] = one.default
        parser.add_argument(flag_name(one.name), type=kind.type, **given)


def checked(options: type[T], given: argparse.Namespace) -> T:
    """The dataclass with what was given; a value that breaks its rule is refused in one line."""
    values: dict[str, Any] = {}
    for one in fields(options):  # type: ignore[arg-type]
        value = getattr(given, one.name)
        values[one.name] = tuple(value) if isinstance(value, list) else value
    rules = {one.name: _rule(one) for one in fields(options)}  # type: ignore[arg-type]
    for name, rule in rules.items():
        value = values[name]
        if value is None:
            continue
        if name == "seed" and value > MOST_SEED:
            raise ValueError(f"--seed must be at most {MOST_SEED}, got {value}")
        if rule.least is not None and not value >= rule.least:
            wanted = "not be negative" if rule.least == 0 else f"be at least {rule.least:g}"
            raise ValueError(f"{flag_name(name)} must {wanted}, got {value}")
        if rule.above is not None and not value > rule.above:
            wanted = "be positive" if rule.above == 0 else f"be above {rule.above:g}"
            raise ValueError(f"{flag_name(name)} must {wanted}, got {value}")
    for name, rule in rules.items():  # what is slow to look up comes last
        names = [] if rule.known is None else list(rule.known())
        if names and values[name] not in names:
            listed = ", ".join(names)
            raise ValueError(f"there is no {name} {values[name]!r}; choose one of {listed}")
    return options(**values)


def split_setting(text: str) -> tuple[str, str]:
    """Name and value of `--set NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"--set {text}: write NAME=VALUE")
    return name, value


def flag_name(name: str) -> str:
    """The flag of a field: `least_games` is `--least-games`."""
    return "--" + name.replace("_", "-")


def attribute_docs(documented: type[Any]) -> dict[str, str]:
    """The sentences of the `Attributes:` in the docstring of a class, by name."""
    text = inspect.cleandoc(documented.__doc__ or "")
    _, _, section = text.partition("Attributes:\n")
    found: dict[str, str] = {}
    for line in section.splitlines():
        if line and not line.startswith(" "):
            break  # the next section
        entry = re.match(r" {4}(\w+): *(.*)", line)
        if entry:
            found[entry[1]] = entry[2]
        elif found and line.strip():
            name = next(reversed(found))
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


class _Kind(NamedTuple):
    type: Any
    choices: tuple[str, ...] = ()
    repeated: bool = False


def _kind(hint: Any) -> _Kind:
    """What argparse makes of `int | None`, `Literal["a", "b"]`, `tuple[str, ...]` and the like."""
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is Literal:
        return _Kind(str, get_args(hint))
    if get_origin(hint) is tuple:
        return _Kind(get_args(hint)[0], repeated=True)
    return _Kind(hint)


def _rule(one: Any) -> Rule:
    found: Rule = one.metadata.get("rule", Rule())
    return found


def _help(doc: str, default: Any) -> str:
    text = doc.removesuffix(".")
    plain = default is MISSING or default is None or default is False or default == ()
    if not plain and "(default:" not in text:
        text += f" (default: {default})"
    return text.replace("%", "%%")
