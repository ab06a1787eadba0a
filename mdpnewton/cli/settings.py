"""The settings of an experiment, with their defaults at every scale and what they mean."""

import textwrap
from dataclasses import asdict
from typing import Any

from mdpnewton.cli.flags import attribute_docs
from mdpnewton.cli.flow import Outcome, Plan, Progress

WIDTH = 74


def settings_plan(name: str, changes: dict[str, str]) -> Plan:
    """Show the settings of the experiment in place of running it."""
    from mdpnewton.experiments import EXPERIMENTS

    row = EXPERIMENTS[name]
    scales = {scale: row.config(scale, changes) for scale in row.load().SCALES}
    docs = attribute_docs(row.load().Config)
    values = {scale: asdict(config) for scale, config in scales.items()}
    found = {
        setting: {"sentence": sentence, **{scale: values[scale][setting] for scale in values}}
        for setting, sentence in docs.items()
    }

    def run(progress: Progress) -> Outcome:
        return Outcome(found, lambda: _text(name, found))

    return Plan(run, writes=False)


def _text(name: str, found: dict[str, dict[str, Any]]) -> str:
    lines = [f"mdpnewton run {name} --set NAME=VALUE"]
    for setting, row in found.items():
        sentence, (_, value), *others = row["sentence"], *list(row.items())[1:]
        differing = ", ".join(f"{scale} {other}" for scale, other in others if other != value)
        lines.append(f"{setting}={value}" + (f" ({differing})" if differing else ""))
        lines.append(textwrap.indent(textwrap.fill(sentence, WIDTH), "    "))
    return "\n".join(lines)
