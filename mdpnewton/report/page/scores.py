"""Run folders as runs that can be compared: what group, what task, what score, what curve."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mdpnewton.comparison import Run
from mdpnewton.files.found import Found
from mdpnewton.report.page import tetris, training
from mdpnewton.report.page.parts import known, listed, mapping, real, spoken, text

# What does not tell kinds of runs apart: the machine, and what makes a pair or a task of its own.
SHARED = ("seed", "command", "environment", "experiment", "problem", "model", "python", "libraries")
APART = (*SHARED, "machine", "cores", "start")
FINALS = ("final_returns", "finals", "final_shares")


def runs_of(every: Sequence[Found]) -> list[Run]:
    """The runs as they are compared, each in the group of those that differ in seeds alone."""
    about = [_told(one.config) for one in every]
    names = {name for one in about for name in one}
    differ = sorted(name for name in names if len({one.get(name, "") for one in about}) > 1)
    found: list[Run] = []
    for one, told in zip(every, about, strict=True):
        parts = [told[name] for name in differ if name in told]
        label = ", ".join(parts) or told.get("method", "")
        if "experiment" in one.config:
            found += _of_experiment(one, label if parts else "")
        else:
            found += _of_training(one, label or one.folder.name)
    return found


def _told(config: Mapping[str, Any]) -> dict[str, str]:
    """What a configuration says, in texts that can be compared and shown."""
    found = {}
    for name, each in [*config.items(), *mapping(config.get("settings")).items()]:
        if name not in APART and not isinstance(each, Mapping):
            value = text(each) or json.dumps(each)
            named = name in ("method", "policy", "actions")
            found[name] = spoken(value) if named else f"{spoken(name)} {value}"
    return found


def _of_training(found: Found, label: str) -> list[Run]:
    config, results = found.config, found.results
    seed = config.get("seed")
    x, y = training.returns(found)
    points = zip(x, y, training.times(found), strict=False)
    curve = [(a, b, spent) for a, b, spent in points if a is not None and b is not None]
    score = real(mapping(results.get("final")).get("mean"))
    if score is None:
        score = real(mapping(results.get("greedy")).get("mean"))
    if score is None:
        score = real(results.get("value"))
    steps, rows = "transitions", tetris.curve_of(found)
    if not curve and rows:
        curve, steps = [(row[0], row[2], row[0]) for row in rows], "seconds"
    if score is None and curve:
        score = training.smoothed([one[1] for one in curve])[-1]
    if score is None:
        return []
    return [
        Run(
            label,
            _task(config),
            seed if isinstance(seed, int) else 0,
            score,
            [one[0] for one in curve],
            [one[1] for one in curve],
            real(mapping(mapping(results.get("verdict")).get("nothing")).get("mean")),
            [one[2] for one in curve],
            steps,
        )
    ]


def _task(config: Mapping[str, Any]) -> str:
    if config.get("command") == "tetris train":
        return f"Tetris {config.get('height')}x{config.get('width')}"
    for name in ("environment", "problem", "experiment", "model"):
        if text(config.get(name)):
            return text(config[name])
    return "?"


def _of_experiment(found: Found, label: str) -> list[Run]:
    """The runs of every method of an experiment; seeds are counted on from its own."""
    seed = found.config.get("seed")
    first = seed if isinstance(seed, int) else 0
    runs = []
    for name, one in mapping(found.results.get("methods")).items():
        each, line = mapping(one), mapping(mapping(one).get("curve"))
        ends = next((known(each[key]) for key in FINALS if known(each.get(key))), [])
        ends = ends or known([mapping(each.get("final")).get("mean", each.get("mean"))])
        group = ", ".join(part for part in (spoken(name), label) if part)
        x, where = known(line.get("x")), text(found.config.get("experiment"))
        curves = [known(one) for one in listed(line.get("runs"))] or [known(line.get("mean"))]
        for number, score in enumerate(ends):
            y = curves[min(number, len(curves) - 1)]
            if len(x) != len(y):
                x, y = [], []
            runs.append(Run(group, where, first + number, score, x, y, steps="x"))
    return runs
