"""What is on the page of one run folder or of several, by the kind of the run."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdpnewton.files.found import Found, found_in, run_folders
from mdpnewton.report.page import (
    analysis,
    controller,
    curves,
    facts,
    films,
    policy,
    several,
    tetris,
    training,
)
from mdpnewton.report.page.parts import (
    Part,
    headed,
    known,
    mapping,
    section,
    spoken,
    table,
    text,
    words,
)

BROKEN = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, StopIteration)
Shown = Mapping[str, tuple[str, Sequence[str]]]  # what experiments show, and the axes of it
SAME = 1e-6  # distance of two traces that are the same up to round-off
SMALL = 12  # entries of a result that is shown as it is


def page_of(folders: Sequence[Path], shown: Shown, goal: float | None = None) -> dict[str, Any]:
    """The page of some run folders as plain data, which `document` writes as HTML.

    Args:
        folders: Run folders, or folders of sweeps.
        shown: For every experiment, what it shows and what the axes of its curves are.
        goal: Value that curves are to reach in a comparison.

    Raises:
        ValueError: A folder is not there.
    """
    every = [found_in(one) for folder in folders for one in run_folders(folder)]
    if len(every) == 1:
        return _one(every[0], shown)
    return _several(every, goal)


def _one(found: Found, shown: Shown) -> dict[str, Any]:
    problems: list[str] = list(found.problems)
    kind, config, results = _kind(found), found.config, found.results

    def safe(make: Callable[[], Any], otherwise: Any) -> Any:
        """What is made, unless the files have a form that nobody expected."""
        try:
            return make()
        except BROKEN:
            problems.append("A part cannot be shown: the files have another form than expected.")
            return otherwise

    asked, verdict, made, warned = KINDS[kind]
    about = safe(lambda: asked(found, shown), "A run")
    status, sentence = safe(lambda: verdict(found), ("open", "Nothing is known of its results."))
    sections = safe(lambda: made(found, shown), [])
    moving = films.films_in(found.folder, problems)
    moving += films.scenes_in(mapping(found.files.get("replay.json")))
    warnings = [*safe(lambda: warned(found), []), *problems]
    return {
        "title": text(about, "A run"),
        "state": safe(lambda: facts.status_line(found), ""),
        "running": facts.state(found) == "running",
        "verdict": {"status": status, "sentence": sentence},
        "sections": [
            one
            for one in (
                *sections,
                section("Replay", moving),
                section("Warnings", [words(*warnings)]),
                safe(lambda: facts.how_it_was_made(found), section("How it was made", [])),
            )
            if one["parts"]
        ],
        "download": {"config": config, "results": results, "metrics": found.metrics},
    }


def _several(every: Sequence[Found], goal: float | None) -> dict[str, Any]:
    problems = [f"{one.folder}: {text}" for one in every for text in one.problems]
    sections: list[Part] = []
    result: dict[str, Any] = {}
    status, sentence = "open", "There is nothing that could be compared."
    try:
        result = several.compare(every, goal)
        sections = several.sections(every, result)
        status, sentence = several.sentence(result)
        sentence += several.better_than_nothing(every)
    except BROKEN as error:
        problems.append(str(error))
    sections.append(section("Warnings", [words(*problems)]))
    running = [one for one in every if facts.state(one) == "running"]
    return {
        "title": several.title(every, result),
        "state": f"{len(running)} of {len(every)} are running" if running else "",
        "running": bool(running),
        "verdict": {"status": status, "sentence": sentence},
        "sections": [one for one in sections if one["parts"]],
        "download": {"comparison": result, "configs": [one.config for one in every]},
    }


def _kind(found: Found) -> str:
    command = text(found.config.get("command"))
    if text(found.config.get("experiment")):
        return "run"
    if command == "solve" and "nodes" not in found.config and "criterion" in found.config:
        return "solve an MDP"
    return command if command in KINDS else ""


# Experiments, and what nobody knows


def _experiment_asked(found: Found, shown: Shown) -> str:
    name = text(found.config.get("experiment"))
    scale, seed = text(found.config.get("scale"), "?"), found.config.get("seed", "?")
    shows = f": {shown[name][0]}" if name in shown else ""
    model = text(mapping(found.config.get("settings")).get("model"))
    shows = f" on {Path(model).name}" if model else shows
    return f"{name}{shows} ({scale} scale, seed {seed})"


def _experiment_verdict(found: Found) -> tuple[str, str]:
    """The methods in the order of their ends; at quick scale, that it is too short to judge."""
    ends = curves.ends(found.results)
    short = found.config.get("scale") == "quick"
    warning = " Quick scale is too short to judge." if short else ""
    if not found.results:
        return "open", f"Not finished: there are no results yet.{facts.jobs_done(found)}{warning}"
    if len(ends) == 1 and len(ends[0][1]) == 1:
        return "open", f"In the end: {_end(ends[0][1][0])}.{warning}"
    if len(ends) == 1:
        return "open", f"{_first_two(ends[0][1])}.{warning}"
    if ends:
        told = "; ".join(f"{title}: {_highest(methods)}" for title, methods in ends)
        return "open", f"What ends highest: {told}.{warning}"
    ratio = known(found.results.get("ratio"))
    if ratio:
        told = f"|A1| / |H12 + H12'| goes from {ratio[0]:.3g} to {ratio[-1]:.3g}"
        return "open", f"On the way to the optimum {told}.{warning}"
    distances = mapping(found.results.get("distance"))
    if distances:
        largest = {name: max(known([*mapping(one).values()])) for name, one in distances.items()}
        alike = [spoken(name) for name, one in largest.items() if one < SAME]
        told = ", ".join(alike) or "no method"
        return (
            "open",
            f"Of {len(largest)} methods, these do not depend on the basis: {told}.{warning}",
        )
    status = text(found.results.get("status"))
    return "open", f"Finished{f' ({spoken(status)})' if status else ''}.{warning}"


def _first_two(methods: Sequence[tuple[str, float, float | None]]) -> str:
    """Which method ends highest, and whether the next one could have."""
    best, second = methods[:2]
    if best[1] - second[1] <= SAME * max(abs(best[1]), SAME):
        return f"What ends highest: {_highest(methods)}"
    within = best[2] and second[2] and best[1] - second[1] < 2 * float(np.hypot(best[2], second[2]))
    more = "; the difference is within two standard errors" if within else ""
    return f"{_end(best)} ends highest; next is {_end(second)}{more}"


def _highest(methods: Sequence[tuple[str, float, float | None]]) -> str:
    best = methods[0][1]
    alike = [name for name, value, _ in methods if best - value <= SAME * max(abs(best), SAME)]
    named = "all methods" if len(alike) == len(methods) else " and ".join(alike)
    return f"{named} ({best:.4g})"


def _end(one: tuple[str, float, float | None]) -> str:
    name, value, error = one
    return f"{name}, {value:.4g}{f' ± {error:.2g}' if error else ''}"


def _experiment(found: Found, shown: Shown) -> list[Part]:
    axes = shown.get(text(found.config.get("experiment")), ("", ()))[1]
    charts = curves.curve_charts(found.results, axes)
    return [section("Curves", charts), section("Numbers", _numbers(found.results))]


def _numbers(results: Mapping[str, Any]) -> list[Part]:
    """What is small enough to be read: values by method, and single values."""
    parts: list[Part] = []
    for place, group in _groups(results):
        columns = [
            key
            for key in dict.fromkeys(key for one in group.values() for key in one)
            if all(_is_short(one.get(key)) for one in group.values())
        ]
        rows = [[spoken(name), *(one.get(key) for key in columns)] for name, one in group.items()]
        if columns:
            parts.append(table(place, ["", *map(spoken, columns)], rows))
    single = [
        [spoken(name), one]
        for name, one in results.items()
        if _is_short(one) and name not in ("experiment", "scale", "seed", "version")
    ]
    parts.append(table("Values", ["", "value"], single))
    return parts


def _groups(results: Mapping[str, Any]) -> list[tuple[str, dict[str, Mapping[str, Any]]]]:
    found = []
    for name, one in results.items():
        inner = {key: mapping(each) for key, each in mapping(one).items() if mapping(each)}
        if inner and name != "differences" and len(inner) <= 50:
            found.append((headed(name), inner))
    return found


def _is_short(value: Any) -> bool:
    if isinstance(value, Mapping):
        return {*value} <= {"mean", "stderr", "runs", "low", "high"} and len(value) > 1
    if isinstance(value, list):
        return len(value) <= SMALL and not any(isinstance(one, list | dict) for one in value)
    return True


def _analysis_asked(found: Found, shown: Shown) -> str:
    return f"The policy Hessian of {text(found.config.get('model'), 'a model')}"


def _solve_asked(found: Found, shown: Shown) -> str:
    config = found.config
    nodes, method = config.get("nodes", "?"), spoken(config.get("method", "?"))
    problem, starts = text(config.get("problem"), "?"), config.get("restarts", "?")
    if "gap" in config:
        return f"A controller that grows to up to {nodes} nodes for {problem} by {method}"
    return f"A controller with {nodes} nodes for {problem} by {method}, from {starts} starts"


def _tetris_asked(found: Found, shown: Shown) -> str:
    config = found.config
    board = f"{config.get('height', '?')} x {config.get('width', '?')}"
    method, seed = spoken(config.get("method", "?")), config.get("seed", "?")
    return f"Weights for Tetris {board} by {method}, seed {seed}"


def _other_asked(found: Found, shown: Shown) -> str:
    what = "results" if curves.ends(found.results) else "folder"
    return text(found.config.get("command")) or f"The {what} {found.folder.name}"


def _other_verdict(found: Found) -> tuple[str, str]:
    if not found.results:
        return "open", "There are no results in this folder."
    if curves.ends(found.results):
        return _experiment_verdict(found)
    return "open", "The folder holds results of a kind that this page does not know."


def _none(found: Found) -> list[str]:
    return []


Kind = tuple[
    Callable[[Found, Shown], str],
    Callable[[Found], tuple[str, str]],
    Callable[[Found, Shown], list[Part]],
    Callable[[Found], list[str]],
]
KINDS: dict[str, Kind] = {
    "run": (_experiment_asked, _experiment_verdict, _experiment, _none),
    "train": (
        lambda found, shown: training.asked(found.config),
        training.verdict,
        lambda found, shown: training.sections(found),
        training.warnings,
    ),
    "solve": (
        _solve_asked,
        lambda found: controller.verdict(found.results, facts.jobs_done(found)),
        lambda found, shown: controller.sections(
            found.results, mapping(found.files.get("controller.json"))
        ),
        _none,
    ),
    "solve an MDP": (
        lambda found, shown: policy.asked(found.config),
        lambda found: policy.verdict(found.results),
        lambda found, shown: policy.sections(found.results),
        lambda found: policy.warnings(found.results),
    ),
    "analyze": (
        _analysis_asked,
        lambda found: analysis.verdict(found.results),
        lambda found, shown: analysis.sections(found.results),
        lambda found: analysis.warnings(found.results),
    ),
    "tetris train": (
        _tetris_asked,
        tetris.verdict,
        lambda found, shown: tetris.sections(found),
        tetris.warnings,
    ),
    "": (_other_asked, _other_verdict, _experiment, _none),
}
