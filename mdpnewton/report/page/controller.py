"""A finite-state controller as a graph: what was observed, what is done, how probable it is."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdpnewton.report.controllers import LIKELY, SEEN, decided
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
    table,
    text,
)

NODES = 24  # more cannot be read in a picture
NOTE = (
    "Thicker edges are taken more often. Choose a node or an edge to read all of it; where many "
    "edges cross, those of one node at a time have their words."
)


def verdict(results: Mapping[str, Any], under_way: str) -> tuple[str, str]:
    """What the search came to.

    Args:
        results: Results of `mdpnewton solve`.
        under_way: What to say of a search that is not finished.
    """
    best, values = real(results.get("value")), known(results.get("values"))
    if best is None:
        return "open", f"Not finished: there are no results yet.{under_way}"
    if listed(results.get("growth")):
        gap, nodes = real(results.get("gap")), real(results.get("nodes"))
        left = "" if gap is None else f", {gap:.4g} below what no policy exceeds"
        count = "?" if nodes is None else f"{nodes:.0f}"
        return "good", f"The best controller has {count} nodes and the value {best:.6g}{left}."
    same = sum(abs(one - best) <= 1e-6 * max(abs(best), 1e-12) for one in values)
    reached = f" {same} of {len(values)} starts reached it." if values else ""
    return "good", f"The best controller found has the value {best:.6g}.{reached}"


def sections(results: Mapping[str, Any], saved: Mapping[str, Any]) -> list[Part]:
    """The controller and the values of all starts.

    Args:
        results: Results of `mdpnewton solve`.
        saved: The content of controller.json.
    """
    if listed(results.get("growth")):
        return [section("Controller", _graph(saved)), section("Growth", _growth(results))]
    values = sorted(known(results.get("values")), reverse=True)
    ranks = [[n + 1, value] for n, value in enumerate(values)]
    return [
        section("Controller", _graph(saved)),
        section("Values of all starts", [table("The best first", ["rank", "value"], ranks)]),
    ]


def _growth(results: Mapping[str, Any]) -> list[Part]:
    every = [mapping(one) for one in listed(results.get("growth"))]
    names = ("nodes", "value", "seconds")
    rows = [[real(one.get(name)) for name in names] for one in every]
    by_time = curve("value", [row[2] for row in rows], [row[1] for row in rows], points=True)
    upper = level("no policy exceeds", results.get("upper"))
    return [
        chart("Value by processor time", "seconds", "value", [by_time], levels=[upper]),
        table("Search after search", ["nodes", "value", "seconds"], rows),
    ]


def _graph(saved: Mapping[str, Any]) -> list[Part]:
    tables = mapping(saved.get("probabilities"))
    actions = [text(one, "?") for one in listed(saved.get("actions"))]
    seen = [text(one, "?") for one in listed(saved.get("observations"))]
    try:
        initial, transition, action = (np.array(one, float) for one in tables.values())
        counted = mapping(saved.get("visits"))
        first = np.array(counted.get("initial", np.ones(len(seen)) / len(seen)), float)
        visits = np.array(counted.get("transition", np.ones((len(transition), len(seen)))), float)
        nodes = len(transition)
        shapes = [(len(seen), nodes), (nodes, len(seen), nodes), (nodes, len(seen), len(actions))]
        fits = [initial.shape, transition.shape, action.shape] == shapes
    except (TypeError, ValueError, ZeroDivisionError):
        fits = False
    if not fits or first.shape != (len(seen),) or visits.shape != (nodes, len(seen)):
        return []
    if not all(np.isfinite(one).all() for one in (initial, transition, action, first, visits)):
        return []
    flow = visits[:, :, None] * transition  # node, observation, next node
    total = float(flow.sum() + first.sum()) or 1.0
    begins = first[:, None] * initial
    reached = (flow.sum(axis=(0, 1)) + begins.sum(axis=0)) / total
    shown = [n for n in np.argsort(-reached, kind="stable") if reached[n] > SEEN][:NODES]
    edges, rows = [], []
    for a in shown:
        for b in shown:
            lines = []
            for o, name in enumerate(seen):
                share = float(flow[a, o, b] / total)
                if share > SEEN and transition[a, o, b] > LIKELY:
                    done = decided(action[b, o], actions)
                    moved = float(transition[a, o, b])
                    lines.append({"seen": name, "done": done, "move": round(moved, 3)})
                    rows.append([str(a), name, str(b), f"{moved:.3f}", done, f"{share:.3f}"])
            if lines:
                share = float(flow[a, :, b].sum() / total)
                edges.append({"from": int(a), "to": int(b), "share": share, "lines": lines})
    starts = [
        {
            "node": int(n),
            "lines": [
                {"seen": seen[o], "done": decided(action[n, o], actions), "move": 1.0}
                for o in range(len(seen))
                if begins[o, n] > SEEN * total and initial[o, n] > LIKELY
            ],
        }
        for n in shown
        if begins[:, n].sum() > SEEN * total
    ]
    graph = {
        "kind": "graph",
        "title": "Nodes in a circle; an edge says what is observed and which action follows",
        "nodes": [{"id": int(n), "share": round(float(reached[n]), 4)} for n in shown],
        "edges": edges,
        "starts": starts,
        "note": NOTE,
    }
    head = ["node", "observed", "next node", "probability", "action", "share of all moves"]
    return [graph, table("The controller in words", head, rows)]
