"""The page of `tetris train`: lines per game on the way, and what the weights play in the end."""

from mdpnewton.files.found import Found
from mdpnewton.report.page import training
from mdpnewton.report.page.parts import (
    Part,
    chart,
    curve,
    known,
    listed,
    mapping,
    numbers,
    real,
    section,
    spoken,
    table,
)

# What is shown of each iteration: column of the metrics, title, axis, whether it is logarithmic.
COLUMNS = (
    ("lines", "Lines per game (Gibbs)", "lines", True),
    ("height", "Height of the board", "rows", False),
    ("games", "Games", "games", False),
    ("pieces", "Pieces in all games", "pieces", True),
    ("divergence", "Divergence of the step, per decision", "KL", False),
    ("residual", "Residual of the linear system", "residual", True),
    ("smallest_curvature", "Smallest curvature that was seen", "curvature", True),
)


def verdict(found: Found) -> tuple[str, str]:
    """How many lines the weights make."""
    greedy = mapping(found.results.get("greedy"))
    mean, error = real(greedy.get("mean")), real(greedy.get("stderr"))
    if mean is not None:
        spread = "" if error is None else f" ± {error:,.1f}"
        return ("good" if mean > 0 else "bad"), (
            f"Played greedily on fresh games, the weights make {mean:,.1f}{spread} lines per game."
        )
    if rows := curve_of(found):
        told = f"{len(rows)} iterations so far, the last games had {rows[-1][2]:,.1f} lines each"
        return "open", f"Not finished: {told} on {rows[-1][1]:g} rows."
    return "open", "Not finished: there is no iteration yet."


def curve_of(found: Found) -> list[list[float]]:
    """Seconds, height of the board and lines per game, iteration by iteration."""
    names = ("seconds", "height", "lines")
    rows = [known([row.get(name) for name in names]) for row in found.metrics]
    rows = rows or [known(row) for row in listed(found.results.get("curve"))]
    return [row for row in rows if len(row) == len(names)]


def sections(found: Found) -> list[Part]:
    """The curve with a colour per height of the board, every iteration, and the weights."""
    rows, results = curve_of(found), found.results
    curves = []
    for height in dict.fromkeys(row[1] for row in rows):
        here = [row for row in rows if row[1] == height]
        name = f"{height:g} rows"
        curves.append(curve(name, [row[0] for row in here], [row[2] for row in here], points=True))
    note = "Lines jump when the board grows." if len(curves) > 1 else ""
    weights = [[f"{n}", value] for n, value in enumerate(numbers(results.get("weights")))]
    greedy = [[spoken(name), value] for name, value in mapping(results.get("greedy")).items()]
    return [
        section(
            "Learning curve",
            [chart("Lines per game (Gibbs)", "seconds", "lines", curves, log=True, note=note)],
        ),
        section("Every iteration", training.iterations(found.metrics, COLUMNS)),
        section(
            "In the end",
            [
                table("Fresh games, greedily", ["", "value"], greedy),
                table("Weights", ["feature", "weight"], weights),
            ],
        ),
    ]


def warnings(found: Found) -> list[str]:
    """How many steps were taken back."""
    undone = sum(row.get("accepted") is False for row in found.metrics)
    return [f"{undone} of {len(found.metrics)} steps were taken back."] if undone else []
