"""The curves of an experiment, found by their form: every experiment is drawn by the same code."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdpnewton.files.states import load_state
from mdpnewton.report.page.parts import Part, chart, curve, known, mapping, numbers, spoken

MIDDLES = ("mean", "median", "y")
DEEP = 4  # levels that are searched for curves
SEEDS = 200  # jobs per method that are read for single runs
SIZE = 32 * 2**20  # bytes of a job that is read
AXES = {  # axes of curves that are not named "curve"
    "time_curve": ("seconds of a core", ""),
    "share_curve": ("", "share of the runs"),
}


def curve_charts(results: Mapping[str, Any], axes: Sequence[str], folder: Path) -> list[Part]:
    """A chart for all curves of the same name in the same place, one curve per method.

    Args:
        results: The results of an experiment.
        axes: What the axes of its curves are.
        folder: The run folder, whose jobs have the single runs.
    """
    x, y = (*axes, "", "")[:2]
    found = []
    for place, kind, methods in _groups(results):
        across, up = AXES.get(kind, (x, y))
        title = ", ".join(spoken(one) for one in place if one != "methods") or spoken(kind)
        if kind != "curve" and place:
            title = f"{title}, {spoken(kind)}" if title != spoken(kind) else title
        drawn = [_drawn(name, each, folder) for name, each in methods.items()]
        title = title[:1].upper() + title[1:] if title != "curve" else "Learning curves"
        found.append(chart(title, across or x, up or y, drawn, note=_note(drawn)))
    return [*found, *_series(results)]


def _groups(
    results: Mapping[str, Any], place: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], str, dict[str, Any]]]:
    """Objects whose members have curves: their place, the name of the curves, and the curves."""
    by_kind: dict[str, dict[str, Any]] = {}
    for name, each in results.items():
        for kind, one in mapping(each).items():
            if _is_curve(one):
                by_kind.setdefault(kind, {})[name] = one
    for kind, methods in by_kind.items():
        yield place, kind, methods
    if len(place) < DEEP:
        for name, each in results.items():
            if not _is_curve(each) and isinstance(each, Mapping):
                yield from _groups(each, (*place, name))


def _is_curve(value: Any) -> bool:
    found = mapping(value)
    middle = next((found[name] for name in MIDDLES if name in found), None)
    return len(known(found.get("x"))) > 1 and len(numbers(middle)) > 1


def _drawn(name: str, found: Mapping[str, Any], folder: Path) -> Part:
    """One curve with its band: the interval of the mean, or the middle half of the runs."""
    middle = next(numbers(found[key]) for key in MIDDLES if key in found)
    low, high = numbers(found.get("low")), numbers(found.get("high"))
    error = numbers(found.get("stderr"))
    if error and not low:
        pairs = [*zip(middle, error, strict=False)]
        low = [None if m is None or e is None else m - 1.96 * e for m, e in pairs]
        high = [None if m is None or e is None else m + 1.96 * e for m, e in pairs]
    if low == high:
        low, high = [], []
    runs = _single_runs(folder, name, middle)
    return curve(spoken(name), found.get("x"), middle, low, high, runs)


def _note(curves: Sequence[Part]) -> str:
    if not any(one["low"] for one in curves):
        return ""
    return "The bands show the spread over runs: the 95 % interval of the mean, or the middle half."


def _single_runs(folder: Path, method: str, mean: Sequence[float | None]) -> list[list[float]]:
    """The runs behind a mean curve, if the jobs of the run hold them.

    A list of each job belongs to the curve if the mean over jobs is the curve; so no experiment
    needs to say where its curves come from.
    """
    paths = (folder / "jobs").glob(f"*{method}-*.npz") if re.fullmatch(r"\w+", method) else []
    named = re.compile(rf"(?:.*-)?{re.escape(method)}-\d+")
    every: dict[str, list[list[float]]] = {}
    for path in sorted(p for p in paths if named.fullmatch(p.stem))[:SEEDS]:
        for key, values in _lists_of(path).items():
            if len(values) == len(mean):
                every.setdefault(key, []).append(values)
    wanted = np.array([np.nan if one is None else one for one in mean])
    for runs in every.values():
        if np.allclose(np.mean(runs, axis=0), wanted, rtol=1e-4, atol=1e-9, equal_nan=True):
            return runs
    return []


def _lists_of(path: Path) -> dict[str, list[float]]:
    """The lists of numbers in the result of a job, by name."""
    try:
        if path.stat().st_size > SIZE:
            return {}
        result = load_state(path).get("result")
    except (ValueError, OSError):
        return {}
    named = result if isinstance(result, Mapping) else {"": result}
    found = {}
    for name, values in named.items():
        numeric = known(values)
        if numeric and len(numeric) == len(numbers(values)):
            found[str(name)] = numeric
    return found


def _series(results: Mapping[str, Any]) -> list[Part]:
    """Lists of numbers of the same length at the top of the results: something at every step."""
    lists = {name: numbers(each) for name, each in results.items()}
    lengths = [len(each) for each in lists.values() if len(each) > 2]
    if not lengths:
        return []
    longest = max(lengths)
    same = {name: each for name, each in lists.items() if len(each) == longest}
    if len(same) < 2:
        return []
    steps = range(longest)
    return [
        chart(spoken(name).capitalize(), "step", spoken(name), [curve(spoken(name), [*steps], each)],
              log=True, sync="step")
        for name, each in same.items()
    ]
