"""The page of a training: its learning curve, and everything that is known of each iteration."""

from collections.abc import Mapping, Sequence
from typing import Any

from mdpnewton.files.found import Found
from mdpnewton.report.page.parts import (
    Part,
    chart,
    curve,
    interval,
    level,
    listed,
    mapping,
    numbers,
    real,
    section,
    spoken,
    table,
    text,
    words,
)

SMOOTH = 5  # batches
BACK = ("return", "step", "lines")  # columns that mark the iterations whose step was taken back
# What is shown of each iteration: column of the metrics, title, axis, whether it is logarithmic.
COLUMNS = (
    ("return", "Return of the batch", "return", False),
    ("kl", "Divergence of the step", "KL", False),
    ("step", "Size of the step", "size", True),
    ("residual", "Residual of the linear system", "residual", True),
    ("smallest_curvature", "Smallest curvature that was seen", "curvature", True),
    ("fisher_damping", "Damping by the Fisher matrix", "damping", True),
    ("ridge", "Ridge", "ridge", True),
    ("solver_iterations", "Iterations of the solver (conjugate gradients)", "iterations", False),
    ("gradient_norm", "Norm of the gradient", "norm", True),
)


def asked(config: Mapping[str, Any]) -> str:
    """What a training was asked for."""
    environment, method = text(config.get("environment"), "?"), spoken(config.get("method", "?"))
    kind, seed = text(config.get("policy"), "?"), config.get("seed", "?")
    return f"A policy ({kind}) for {environment} by {method}, seed {seed}"


def verdict(found: Found) -> tuple[str, str]:
    """What it came to: better, worse or unknown, and a sentence."""
    said = mapping(found.results.get("verdict"))
    sentence = text(said.get("sentence"))
    if sentence:
        return {"better": "good", "no better": "bad", "worse": "bad"}.get(
            text(said.get("status")), "open"
        ), sentence
    if found.metrics:
        last = found.metrics[-1]
        return "open", f"Not finished: {len(found.metrics)} iterations so far, the last batch " + (
            f"returned {real(last.get('return')):.4g}."
            if real(last.get("return")) is not None
            else "has no known return."
        )
    return "open", "Not finished: there is no iteration yet."


def sections(found: Found) -> list[Part]:
    """The sections of the page."""
    return [
        section("Learning curve", [_learning_curve(found), _final(found.results)]),
        section("Every iteration", iterations(found.metrics, COLUMNS)),
    ]


def warnings(found: Found) -> list[str]:
    """What was not as it should be."""
    said = [text(one) for one in listed(found.results.get("remarks"))]
    back = numbers(found.results.get("restarts"))
    if back:
        at = ", ".join(f"{one:g}" for one in back if one is not None)
        said.append(f"The training diverged and went back to its best point at iterations {at}.")
    undone = sum(row.get("accepted") is False for row in found.metrics)
    if undone:
        said.append(f"{undone} of {len(found.metrics)} steps were taken back.")
    return said


def returns(found: Found) -> tuple[list[float | None], list[float | None]]:
    """Transitions and returns of the batches, from the metrics or from the results."""
    if found.metrics:
        rows = found.metrics
        return [real(row.get("transitions")) for row in rows], [
            real(row.get("return")) for row in rows
        ]
    known = mapping(found.results.get("return"))
    return numbers(known.get("x")), numbers(known.get("mean"))


def times(found: Found) -> list[float | None]:
    """Seconds that the training had taken after each iteration, None where nobody noted them."""
    spent = {real(row.get("iteration")): real(row.get("seconds")) for row in found.times}
    known = [spent.get(real(row.get("iteration"))) for row in found.metrics]
    return known or [None for _ in returns(found)[0]]


def smoothed(values: Sequence[float | None]) -> list[float | None]:
    """The mean of every value and of those before it, five at most."""
    found: list[float | None] = []
    for n in range(len(values)):
        last = [one for one in values[max(0, n - SMOOTH + 1) : n + 1] if one is not None]
        found.append(sum(last) / len(last) if last else None)
    return found


def _learning_curve(found: Found) -> Part:
    x, y = returns(found)
    said = mapping(found.results.get("verdict"))
    levels = [
        level("doing nothing", mapping(said.get("nothing")).get("mean")),
        level("first batch", mapping(said.get("blind")).get("mean")),
        level("chosen policy", mapping(found.results.get("final")).get("mean")),
    ]
    curves = [curve("one batch", x, y, points=True), curve("mean of five", x, smoothed(y))]
    note = "Batches are played with exploration; the chosen policy, on fresh episodes."
    return chart("Return", "transitions", "return", curves, levels=levels, note=note)


def _final(results: Mapping[str, Any]) -> Part:
    final, said = mapping(results.get("final")), mapping(results.get("verdict"))
    rows: list[Sequence[Any]] = []
    if final:
        rows.append(["chosen policy, fresh episodes", final.get("mean"), "", final.get("episodes")])
    for key, name in (("nothing", "doing nothing"), ("blind", "first batch")):
        other = mapping(said.get(key))
        if other:
            ends = interval(other.get("low"), other.get("high"))
            more = real(other.get("difference"))
            told = "" if more is None else f"{more:+.4g} ({ends})"
            rows.append([name, other.get("mean"), told, ""])
    head = ["", "return", "how much more the policy returns (95 %)", "episodes"]
    return table("What the policy is worth", head, rows)


def iterations(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str, str, bool]]
) -> list[Part]:
    """A chart per column of the metrics that changes, and how often each solve ended how."""
    x = [real(row.get("iteration")) for row in rows]
    parts = []
    for name, title, unit, log in columns:
        values = [real(row.get(name)) for row in rows]
        if len({one for one in values if one is not None}) < 2 and name not in ("return", "kl"):
            continue
        curves = [curve(unit, x, values)]
        if name in BACK:
            back = [
                value if row.get("accepted") is False else None
                for row, value in zip(rows, values, strict=True)
            ]
            curves.append(curve("taken back", x, back, points=True))
        parts.append(chart(title, "iteration", unit, curves, log=log, sync="iteration"))
    said = {text(row.get("status")) for row in rows} - {""}
    if said:
        counts = [
            [spoken(one), sum(row.get("status") == one for row in rows)] for one in sorted(said)
        ]
        parts.append(table("How the linear systems were solved", ["status", "iterations"], counts))
    return parts or [words("No iteration has been made yet.")]
