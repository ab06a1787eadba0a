"""The page of `solve` for a finite MDP: the value on the way to the optimum, and the choices."""

from collections.abc import Mapping
from typing import Any

from mdpnewton.report.page import training
from mdpnewton.report.page.parts import (
    Part,
    chart,
    curve,
    level,
    listed,
    mapping,
    numbers,
    real,
    section,
    spoken,
    table,
    text,
)

CLOSE = 1e-6  # of the optimum: a smaller gap is none
# What is shown of each iteration: the columns of a training that an exact search has.
COLUMNS = tuple(one for one in training.COLUMNS if one[0] not in ("return", "kl"))


def asked(config: Mapping[str, Any]) -> str:
    """What was to be solved."""
    problem, criterion = text(config.get("problem"), "?"), text(config.get("criterion"), "?")
    return f"A policy for {problem} ({criterion} reward) by {spoken(config.get('method', '?'))}"


def verdict(results: Mapping[str, Any]) -> tuple[str, str]:
    """How far the policy is from the best one."""
    value, best = real(results.get("value")), real(results.get("optimum"))
    if value is None or best is None:
        return "open", "Not finished: there are no results yet."
    if best - value <= CLOSE * max(1.0, abs(best)):
        return "good", f"The policy is optimal: its value is {value:.6g}."
    gap = f"{best - value:.4g} below the optimum, {best:.6g}"
    return "bad", f"The policy has the value {value:.6g}, {gap}; more iterations may help."


def sections(results: Mapping[str, Any]) -> list[Part]:
    """The value after every iteration, the iterations, and what the policy chooses."""
    values = numbers(results.get("values"))
    way = [curve("value", [*range(len(values))], values)]
    rows = [mapping(one) for one in listed(results.get("history"))]
    chosen = [
        [text(one.get("state"), "?"), text(one.get("action"), "?"), real(one.get("probability"))]
        for one in map(mapping, listed(results.get("choices")))
    ]
    more = real(results.get("more_states"))
    return [
        section(
            "Value",
            [
                chart(
                    "Value",
                    "iteration",
                    "value",
                    way,
                    levels=[level("optimum", results.get("optimum"))],
                )
            ],
        ),
        section("Every iteration", training.iterations(rows, COLUMNS)),
        section(
            "Policy",
            [
                table(
                    "The most probable action in each state",
                    ["state", "action", "probability"],
                    chosen,
                    f"and {more:,.0f} states more" if more else "",
                )
            ],
        ),
    ]


def warnings(results: Mapping[str, Any]) -> list[str]:
    """What was not as it should be."""
    return [text(one) for one in listed(results.get("remarks"))]
