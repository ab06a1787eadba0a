"""`mdpnewton solve`: a finite-state controller for a .pomdp file."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.tables import method_names


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which problem, and how to search.

    Attributes:
        model: A file, or the name of a shipped problem, as tiger.
        nodes: Number of nodes of the controller.
        method: Method of the search: one that `mdpnewton list methods` shows for `controller`
            or `exact`.
        restarts: Number of random controllers to start from.
        iterations: Maximum number of iterations from each start.
        seed: Random seed of the starts.
    """

    model: Path = flag(positional=True, metavar="FILE.pomdp")
    nodes: int = flag(5, least=1)
    method: str = flag("second_gauss_newton", known=partial(method_names, "controller", "exact"))
    restarts: int = flag(20, least=1)
    iterations: int = flag(300, least=1)
    seed: int = flag(0, least=0)


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.files.pomdp import load_pomdp

    pomdp, name = load_pomdp(options.model), options.model.stem
    about = {
        "problem": name,
        "method": options.method,
        "seed": options.seed,
        "command": "solve",
        "model": str(options.model),
        "restarts": options.restarts,
    }
    return Plan(partial(_solved, options, pomdp, folder), title=name, about=about)


def _solved(options: Options, pomdp: Any, folder: Path, progress: Progress) -> Outcome:
    from mdpnewton.evaluators import ControllerEvaluator, random_starts
    from mdpnewton.files.controllers import observation_labels, save_controller
    from mdpnewton.report.controllers import draw_controller
    from mdpnewton.training.controllers import search_controllers

    name, saved = options.model.stem, folder / "controller.json"
    evaluator = ControllerEvaluator(pomdp)
    policy = evaluator.controller(options.nodes)
    found = search_controllers(
        evaluator,
        policy,
        random_starts(policy, options.seed, options.restarts),
        options.method,
        iterations=options.iterations,
        tolerance=1e-10,
        progress=lambda done, total, best: progress(done, total, f"best {best:.4g}"),
    )
    ends, w = sorted(found.objective[:, -1].tolist()), found.best_w
    results = {
        "problem": name,
        "value": ends[-1],
        "nodes": options.nodes,
        "method": options.method,
        "iterations": found.objective.shape[1] - 1,
        "restarts": len(ends),
        "seed": options.seed,
        "values": ends,
        "residual": found.residual,
        "seconds": float(found.seconds[-1]),
        "interrupted": found.interrupted,
        "controller": str(saved),
    }
    about = {key: results[key] for key in ("problem", "value", "method", "seed")}
    save_controller(saved, pomdp, policy, w, about)

    def draw() -> dict[str, Any]:
        tables = policy.tables(w)
        _, used = evaluator.chain.earned(tables, evaluator.chain.closed(tables))
        title = f"{name}: {policy.nodes} nodes, value {ends[-1]:.4g}"
        labels = observation_labels(pomdp, policy)
        figure = draw_controller(tables, used, pomdp.labels("actions"), labels, title)
        return {"controller": figure}

    return Outcome(
        results,
        table=partial(_table, results),
        draw=draw,
        files={"controller": saved},
        interrupted=found.interrupted,
    )


def _table(results: dict[str, Any]) -> Any:
    from mdpnewton.report.tables import new_table

    ends = results["values"]
    table = new_table(f"{results['problem']}, {results['nodes']} nodes", "", "value")
    table.add_row("best value", f"{results['value']:.6g}")
    table.add_row("median over restarts", f"{ends[len(ends) // 2]:.6g}")
    table.add_row("worst", f"{ends[0]:.6g}")
    table.add_row("restarts", f"{results['restarts']}")
    table.add_row("iterations", f"{results['iterations']}")
    table.add_row("method", results["method"].replace("_", " "))
    return table


COMMAND = Command(
    "solve",
    "a finite-state controller for a .pomdp file",
    Options,
    _plan,
    folder="solve-{model}-{seed}",
)
