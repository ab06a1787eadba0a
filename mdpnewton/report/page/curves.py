"""The curves of an experiment, found by their form: every experiment is drawn by the same code."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mdpnewton.report.page.parts import (
    Part,
    chart,
    curve,
    headed,
    known,
    listed,
    mapping,
    numbers,
    real,
    spoken,
)

MIDDLES = ("mean", "median", "y")
CLOCK = 200  # points of a common axis
FAR = 5  # times longer
DEEP = 4  # levels that are searched for curves
AXES = {  # axes of curves that are not named "curve"
    "time_curve": ("seconds of a core", ""),
    "share_curve": ("", "share of the runs"),
}


def curve_charts(results: Mapping[str, Any], axes: Sequence[str]) -> list[Part]:
    """A chart for all curves of the same name in the same place, one curve per method.

    Args:
        results: The results of an experiment.
        axes: What the axes of its curves are.
    """
    x, y = (*axes, "", "")[:2]
    found = []
    for place, kind, methods in _groups(results):
        across, up = AXES.get(kind, (x, y))
        title = ", ".join(
            spoken(one) for one in place if one not in ("methods", "problems")
        ) or spoken(kind)
        if kind != "curve" and place:
            title = f"{title}, {spoken(kind)}" if title != spoken(kind) else title
        drawn = [_drawn(name, each) for name, each in methods.items()]
        title = headed(title) if title != "curve" else "Learning curves"
        for more, some in _by_length(drawn):
            found.append(chart(f"{title}{more}", across or x, up or y, some, note=_note(some)))
    return [*found, *_recorded(results), *_paths(results), *_series(results)]


def _by_length(curves: Sequence[Part]) -> list[tuple[str, list[Part]]]:
    """Curves that are far shorter than the longest one have a chart of their own.

    Returns:
        What is added to the title, and the curves.
    """
    ends = [max(known(one["x"]), default=0.0) for one in curves]
    longest = max(ends, default=0.0)
    short = [one for one, end in zip(curves, ends, strict=True) if 0 < end < longest / FAR]
    if len(short) < 2 or len(short) == len(curves):
        return [("", list(curves))]
    return [("", [one for one in curves if one not in short]), (", the shorter ones", short)]


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


def _drawn(name: str, found: Mapping[str, Any]) -> Part:
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
    return curve(spoken(name), found.get("x"), middle, low, high, listed(found.get("runs")))


def _note(curves: Sequence[Part]) -> str:
    if not any(one["low"] for one in curves):
        return ""
    return "The bands show the spread over runs: the 95 % interval of the mean, or the middle half."


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
        chart(
            headed(name),
            "step",
            spoken(name),
            [curve(spoken(name), [*steps], each)],
            log=True,
            sync="step",
        )
        for name, each in same.items()
    ]


def ends(results: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, float, float | None]]]]:
    """Where the curves end: for every place, the methods from the highest end to the lowest."""
    found = []
    for place, kind, methods in _groups(results):
        if kind != "curve":
            continue
        last = []
        for name, each in methods.items():
            values = next(known(each[key]) for key in MIDDLES if key in each)
            errors = known(each.get("stderr"))
            last.append((spoken(name), values[-1], errors[-1] if errors else None))
        title = ", ".join(spoken(one) for one in place if one not in ("methods", "problems"))
        title = title or "in the end"
        found.append((title, sorted(last, key=lambda one: -one[1])))
    means = {name: mapping(one) for name, one in mapping(results.get("methods")).items()}
    finals = [
        (spoken(n), real(one.get("mean")), real(one.get("stderr"))) for n, one in means.items()
    ]
    whole = [(name, mean, error) for name, mean, error in finals if mean is not None]
    if whole and not found:
        found.append(("in the end", sorted(whole, key=lambda one: -one[1])))
    return found


def _recorded(results: Mapping[str, Any]) -> list[Part]:
    """Methods whose runs each have a clock of their own: lines per game against seconds."""
    drawn = []
    for name, each in mapping(results.get("methods")).items():
        runs = [mapping(one) for one in listed(mapping(each).get("runs"))]
        lines = [(known(one.get("seconds")), known(one.get("lines"))) for one in runs]
        lines = [(x, y) for x, y in lines if len(x) == len(y) > 1]
        if lines:
            clock = np.linspace(0.0, max(x[-1] for x, _ in lines), CLOCK)
            places = [np.searchsorted(x, clock, side="right") - 1 for x, _ in lines]
            held = [
                np.array(y)[np.maximum(at, 0)] for (_, y), at in zip(lines, places, strict=True)
            ]
            drawn.append(curve(spoken(name), clock, np.mean(held, axis=0), runs=held))
    note = "Lines jump when the board grows. The curves are means over runs."
    return (
        [chart("Lines per game", "seconds", "lines", drawn, log=True, note=note)] if drawn else []
    )


def _paths(results: Mapping[str, Any]) -> list[Part]:
    """Ways of two parameters, as lists of pairs: a picture for each object that holds some."""
    found: list[dict[str, Any]] = []
    for title, each in mapping(results.get("traces")).items():
        ways = []
        for name, points in mapping(each).items():
            pairs = [numbers(one) for one in listed(points)]
            if len(pairs) > 2 and all(len(one) == 2 and None not in one for one in pairs):
                ways.append({"name": spoken(name), "points": pairs})
        found.append({"title": headed(title), "ways": ways})
    every = [point for one in found for way in one["ways"] for point in way["points"]]
    if not every:
        return []
    low, high = np.min(every, axis=0).tolist(), np.max(every, axis=0).tolist()
    about = {"kind": "paths", "low": low, "high": high, "x": "parameter 1", "y": "parameter 2"}
    return [{**about, **one, "note": ""} for one in found if one["ways"]]
