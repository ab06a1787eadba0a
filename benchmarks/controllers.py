"""Finite-state controllers: block solves against joint solves, and cost against nodes.

    python benchmarks/controllers.py [--quick] [--json]

Times are processor times, so that other programs may use the machine. Three things are measured on
Littman's hallway (60 states, 21 observations):

* one second Gauss-Newton direction through the library's own table, from the same evaluation:
  joint dense solve, blocks (u, v, w and down to their rows), and the closed form of the rows;
* one exact evaluation, through the chain without observations (`ControllerEvaluator`) and through
  the product chain (`FiniteEvaluator(product_mdp(...))`); the numbers are checked to be the same;
* both against the number of nodes; growth is the exponent between the smallest and the largest.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from rich.console import Console
from rich.table import Table

import mdpnewton as mn
from mdpnewton.files.pomdp import load_pomdp
from mdpnewton.methods import method_for


def seconds(function: Callable[[], Any], repeats: int) -> float:
    """The shortest processor time of a call, after one call that compiles."""
    function()
    found = []
    for _ in range(repeats):
        began = time.process_time()
        function()
        found.append(time.process_time() - began)
    return min(found)


def closed_form(evaluator: mn.ControllerEvaluator, policy: Any) -> Callable[[Any], Any]:
    method = method_for("second_gauss_newton", "controller")

    @jax.jit
    def rows(w: Any) -> Any:
        tables = policy.tables(w)
        values, used = evaluator.chain.earned(tables, evaluator.chain.closed(tables))
        ahead, _ = method.direct(tables, values, used, 0.0)
        return policy.flattened(ahead)

    return rows


def measure(nodes: int, repeats: int, joint_up_to: int, product_up_to: int) -> dict[str, Any]:
    pomdp = load_pomdp("hallway")
    evaluator = mn.ControllerEvaluator(pomdp)
    policy = evaluator.controller(nodes)
    w = policy.random_parameters(jax.random.key(0))
    pairs = evaluator.evaluate(None, policy, w)
    row: dict[str, Any] = {"nodes": nodes, "parameters": int(ravel_pytree(w)[0].size)}
    row["evaluation"] = seconds(lambda: evaluator.evaluate(None, policy, w), repeats)
    ask = partial(mn.direction, policy=policy, w=w, evaluation=pairs)
    row["blocks"] = seconds(lambda: ask("block_second_gauss_newton"), repeats)
    rows = closed_form(evaluator, policy)
    with evaluator.chain.threads(nodes):
        row["evaluation_and_rows"] = seconds(lambda: jax.block_until_ready(rows(w)), repeats)
    if row["parameters"] <= joint_up_to:
        row["joint"] = seconds(lambda: ask("second_gauss_newton"), repeats)
        row["joint_over_blocks"] = row["joint"] / row["blocks"]
        both = [
            ravel_pytree(_centred(ask(name).value))[0]
            for name in ("second_gauss_newton", "block_second_gauss_newton")
        ]
        row["difference"] = float(np.abs(both[0] - both[1]).max() / np.abs(both[0]).max())
    if nodes <= product_up_to:
        product = mn.FiniteEvaluator(mn.product_mdp(pomdp, nodes))
        row["product_evaluation"] = seconds(lambda: product.evaluate(None, policy, w), 1)
        row["product_over_chain"] = row["product_evaluation"] / row["evaluation"]
        other = product.objective(None, policy, w)
        row["value_difference"] = abs(other - pairs.objective) / abs(other)
    return row


def _centred(w: Any) -> Any:
    return jax.tree.map(lambda rows: rows - rows.mean(axis=1, keepdims=True), w)


def growth(rows: list[dict[str, Any]], name: str) -> float:
    first, last = rows[0], rows[-1]
    return float(np.log(last[name] / first[name]) / np.log(last["nodes"] / first["nodes"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")
    options = parser.parse_args()
    sizes = (1, 2) if options.quick else (2, 4, 8, 16)
    repeats = 2 if options.quick else 5
    rows = [measure(n, repeats, 3_000, 1 if options.quick else 4) for n in sizes]
    names = ("evaluation", "blocks", "evaluation_and_rows")
    results = {"rows": rows, "growth": {name: growth(rows, name) for name in names}}
    if options.json:
        print(json.dumps(results))
        return
    table = Table(title="Littman's hallway, CPU milliseconds")
    columns = ("nodes", "parameters", "evaluation", "blocks", "joint", "joint_over_blocks")
    columns += ("evaluation_and_rows", "product_over_chain")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(_shown(row, name) for name in columns))
    console = Console()
    console.print(table)
    shown = ", ".join(f"{name.replace('_', ' ')} {x:.2f}" for name, x in results["growth"].items())
    console.print(f"growth exponents with the nodes: {shown}")


def _shown(row: dict[str, Any], name: str) -> str:
    if name not in row:
        return "-"
    if name in ("nodes", "parameters"):
        return f"{row[name]:,}"
    return f"{row[name]:.1f}" if "over" in name else f"{1000 * row[name]:.2f}"


if __name__ == "__main__":
    main()
