"""What all experiments share: checked settings, and settings from text."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from mdpnewton.checks import choice, number, whole

WORDS = {"true": True, "yes": True, "false": False, "no": False}


def check_settings(config: Any, **rules: float | Mapping[str, float] | Iterable[str]) -> None:
    """Refuse a setting that breaks its rule.

    A whole number must be at least 1 and any other number finite, unless there is a rule.

    Args:
        config: The `Config` of an experiment.
        rules: For settings by name: the smallest number that is allowed; or bounds as `number`
            in `mdpnewton.checks` takes them; or the texts that are allowed.
    """
    for one in fields(config):
        value, rule = getattr(config, one.name), rules.get(one.name)
        if one.type in (int, "int"):
            whole("Config", one.name, value, least=1 if rule is None else int(rule))  # type: ignore[arg-type]
        elif one.type in (float, "float"):
            bounds = rule if isinstance(rule, Mapping) else {} if rule is None else {"least": rule}
            number("Config", one.name, value, **bounds)
        elif rule is not None:
            choice("Config", one.name, value, rule)  # type: ignore[arg-type]


def listed(setting: str, text: str, known: Iterable[str]) -> list[str]:
    """The names in a text that separates them by commas, each once; an error names the setting."""
    known, names = list(known), list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            raise ValueError(f"--set {setting}={name}: choose from {', '.join(known)}")
    return names


def changed(config: Any, changes: Mapping[str, str]) -> Any:
    """The `Config` with settings from their text; an error names the setting and the rule.

    Args:
        config: A dataclass with numbers, texts, and True or False, which checks its fields.
        changes: Texts by the names of settings.
    """
    known = {one.name: getattr(config, one.name) for one in fields(config)}
    values = {}
    for name, text in changes.items():
        if name not in known:
            listed = ", ".join(f"{name}={value}" for name, value in known.items())
            raise ValueError(f"--set {name}: there is no such setting; known: {listed}")
        kind = _kind(config, name)
        try:
            values[name] = WORDS[text.lower()] if kind is bool else kind(text)
        except (KeyError, ValueError):
            default = "" if known[name] is None else f", as {known[name]!r}"
            raise ValueError(
                f"--set {name}={text}: needs a value of type {kind.__name__}{default}"
            ) from None
    try:
        return replace(config, **values)
    except ValueError as error:
        rule, call = str(error), type(config).__name__
        broken = [name for name in changes if rule.startswith(f"`{call}({name}=...)` ")]
        for name in broken:
            rule = rule.removeprefix(f"`{call}({name}=...)` ")
        told = " --set ".join(f"{name}={changes[name]}" for name in broken or changes)
        raise ValueError(f"--set {told}: {rule}") from None


def _kind(config: Any, name: str) -> Any:
    """The type of a setting: that of its value, or the annotated one where that is None."""
    value = getattr(config, name)
    if value is not None:
        return type(value)
    return next(
        one for one in get_args(get_type_hints(type(config))[name]) if one is not type(None)
    )
