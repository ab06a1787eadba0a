"""The page of `tetris train`: lines per game on the way, and what the weights play in the end."""

from collections.abc import Mapping
from typing import Any

from mdpnewton.report.page.parts import (
    Part,
    chart,
    curve,
    listed,
    mapping,
    numbers,
    real,
    section,
    spoken,
    table,
)


def verdict(results: Mapping[str, Any]) -> tuple[str, str]:
    """How many lines the weights make."""
    greedy = mapping(results.get("greedy"))
    mean, error = real(greedy.get("mean")), real(greedy.get("stderr"))
    if mean is None:
        return "open", "Not finished: there are no results yet."
    spread = "" if error is None else f" ± {error:,.1f}"
    return ("good" if mean > 0 else "bad"), (
        f"Played greedily on fresh games, the weights make {mean:,.1f}{spread} lines per game."
    )


def sections(results: Mapping[str, Any]) -> list[Part]:
    """The curve with a colour per height of the board, and the weights."""
    rows = [numbers(row) for row in listed(results.get("curve"))]
    rows = [row for row in rows if len(row) == 3]
    curves = []
    for height in dict.fromkeys(row[1] for row in rows):
        here = [row for row in rows if row[1] == height]
        name = f"{height:g} rows" if height is not None else "rows unknown"
        curves.append(curve(name, [row[0] for row in here], [row[2] for row in here], points=True))
    note = "Lines jump when the board grows." if len(curves) > 1 else ""
    weights = [[f"{n}", value] for n, value in enumerate(numbers(results.get("weights")))]
    greedy = [[spoken(name), value] for name, value in mapping(results.get("greedy")).items()]
    return [
        section(
            "Learning curve",
            [chart("Lines per game (Gibbs)", "seconds", "lines", curves, log=True, note=note)],
        ),
        section(
            "In the end",
            [
                table("Fresh games, greedily", ["", "value"], greedy),
                table("Weights", ["feature", "weight"], weights),
            ],
        ),
    ]
