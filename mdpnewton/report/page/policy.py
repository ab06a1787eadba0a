"""A policy of a finite MDP: what it is worth beside the optimum, and what it does where."""

from collections.abc import Mapping
from typing import Any

from mdpnewton.report.page.parts import (
    Part,
    chart,
    curve,
    known,
    level,
    listed,
    mapping,
    real,
    section,
    spoken,
    table,
    text,
)


def asked(config: Mapping[str, Any]) -> str:
    """What was to be done."""
    problem, method = text(config.get("problem"), "?"), spoken(config.get("method", "?"))
    return f"A policy for {problem}, {text(config.get('criterion'), '?')} reward, by {method}"


def verdict(results: Mapping[str, Any]) -> tuple[str, str]:
    """What the policy is worth."""
    value, best = real(results.get("value")), real(results.get("optimum"))
    if value is None or best is None:
        return "open", "There are no results yet."
    worth = f"The policy is worth {value:.6g}, the best one {best:.6g}"
    return "good", f"{worth}: a gap of {best - value:.2g}."


def sections(results: Mapping[str, Any]) -> list[Part]:
    """The search, and the actions by the names of the states."""
    values = known(results.get("values"))
    search = curve(spoken(results.get("method", "?")), range(len(values)), values)
    optimum = level("optimum", results.get("optimum"))
    rows = [
        [text(one.get("state"), "?"), text(one.get("action"), "?"), real(one.get("probability"))]
        for one in map(mapping, listed(results.get("choices")))
    ]
    more = real(results.get("more_states"))
    note = f"and {more:,.0f} states more" if more else ""
    head = ["state", "most probable action", "probability"]
    return [
        section("Search", [chart("Value", "iteration", "U", [search], levels=[optimum])]),
        section("Policy", [table("What it does", head, rows, note)]),
    ]
