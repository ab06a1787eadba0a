"""What all experiments share: checked settings, and settings from text."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from mdpnewton.checks import choice, number, whole


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
    """The `Config` with settings from their text; an error names the setting and the rule."""
    known = {one.name: getattr(config, one.name) for one in fields(config)}
    for name, text in changes.items():
        if name not in known:
            listed = ", ".join(f"{name}={value}" for name, value in known.items())
            raise ValueError(f"--set {name}: there is no such setting; known: {listed}")
        kind = type(known[name])
        try:
            value = kind(text)
        except ValueError:
            raise ValueError(
                f"--set {name}={text}: needs a value of type {kind.__name__}, as {known[name]!r}"
            ) from None
        try:
            config = replace(config, **{name: value})
        except ValueError as error:
            rule = str(error).removeprefix(f"`Config({name}=...)` ")
            raise ValueError(f"--set {name}={text}: {rule}") from None
    return config
