"""What `--set` can change, with defaults and what it means: `--settings`, and further help."""

import textwrap
from dataclasses import asdict
from typing import Any

from mdpnewton.cli.flags import attribute_docs
from mdpnewton.cli.flow import Outcome, Plan, Progress

WIDTH = 74


def settings_plan(name: str, changes: dict[str, str]) -> Plan:
    """Show the settings of the experiment in place of running it."""
    found = _settings(name, changes)

    def run(progress: Progress) -> Outcome:
        return Outcome(found, lambda: _text(f"mdpnewton run {name}", found))

    return Plan(run, writes=False)


def experiment_help(given: Any) -> str:
    """The settings of the experiment that is named before `--help`."""
    from mdpnewton.experiments import EXPERIMENTS

    name = given.experiment
    return _text(f"mdpnewton run {name}", _settings(name, {})) if name in EXPERIMENTS else ""


def preset_help(given: Any) -> str:
    """The numbers of the preset, if an environment is named before `--help`."""
    if given.environment is None:
        return ""
    from mdpnewton.training.presets import PRACTICAL, Preset

    docs = attribute_docs(Preset)
    found = {name: {"sentence": docs[name], "default": getattr(PRACTICAL, name)} for name in docs}
    return _text(f"mdpnewton train {given.environment}", found)


def _settings(name: str, changes: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The sentence of every setting of an experiment, and its value at every scale."""
    from mdpnewton.experiments import EXPERIMENTS

    row = EXPERIMENTS[name]
    scales = {scale: row.config(scale, changes) for scale in row.load().SCALES}
    docs = attribute_docs(row.load().Config)
    values = {scale: asdict(config) for scale, config in scales.items()}
    return {
        setting: {"sentence": sentence, **{scale: values[scale][setting] for scale in values}}
        for setting, sentence in docs.items()
    }


def _text(command: str, found: dict[str, dict[str, Any]]) -> str:
    lines = [f"{command} --set NAME=VALUE"]
    for setting, row in found.items():
        sentence, (_, value), *others = row["sentence"], *list(row.items())[1:]
        differing = ", ".join(f"{scale} {other}" for scale, other in others if other != value)
        lines.append(f"{setting}={value}" + (f" ({differing})" if differing else ""))
        lines.append(textwrap.indent(textwrap.fill(sentence, WIDTH), "    "))
    return "\n".join(lines)
