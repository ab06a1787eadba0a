"""`mdpnewton solve`: a finite-state controller for a .pomdp file."""

import argparse
from pathlib import Path
from typing import Any

from mdpnewton.cli.methods import DEFAULT, HELP, check_method


def add_commands(commands: Any) -> None:
    """The command."""
    solving = commands.add_parser("solve", help="a finite-state controller for a .pomdp file")
    solving.add_argument(
        "model", metavar="FILE.pomdp", help="a file, or the name of a shipped problem, as tiger"
    )
    solving.add_argument("--nodes", type=int, default=5, help="of the controller (default: 5)")
    solving.add_argument("--method", default=DEFAULT, help=HELP)
    solving.add_argument(
        "--restarts", type=int, default=20, help="random controllers to start from (default: 20)"
    )
    solving.add_argument(
        "--iterations", type=int, default=300, help="from each, at most (default: 300)"
    )
    solving.add_argument("--seed", type=int, default=0, help="of the starts (default: 0)")
    solving.add_argument("--out", type=Path, help="run folder (default: runs/solve-NAME-SEED)")
    solving.add_argument("--json", action="store_true", help="print JSON and nothing else")
    solving.set_defaults(command=_solve)


def _solve(options: argparse.Namespace) -> None:
    for name in ("nodes", "restarts", "iterations"):
        if getattr(options, name) < 1:
            raise ValueError(f"--{name} must be at least 1, got {getattr(options, name)}")
    if options.seed < 0:
        raise ValueError(f"--seed must not be negative, got {options.seed}")
    check_method(options.method, "controller", "exact")
    from mdpnewton.evaluators import ControllerEvaluator, random_starts
    from mdpnewton.files.controllers import observation_labels, save_controller
    from mdpnewton.files.folder import prepare, to_json, write_run
    from mdpnewton.files.pomdp import load_pomdp
    from mdpnewton.report.controllers import draw_controller
    from mdpnewton.report.figures import figure_style, rendered
    from mdpnewton.report.progress import progress_bar
    from mdpnewton.training.controllers import search_controllers

    pomdp = load_pomdp(options.model)
    name = Path(options.model).stem
    folder = options.out or Path("runs") / f"solve-{name}-{options.seed}"
    prepare(folder)
    evaluator = ControllerEvaluator(pomdp)
    policy = evaluator.controller(options.nodes)
    starts = random_starts(policy, options.seed, options.restarts)
    with progress_bar(name, quiet=options.json) as bar:
        found = search_controllers(
            evaluator,
            policy,
            starts,
            options.method,
            iterations=options.iterations,
            tolerance=1e-10,
            progress=lambda done, total, best: bar(done, total, f"best {best:.4g}"),
        )
    ends = sorted(found.objective[:, -1].tolist())
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
        "controller": str(folder / "controller.json"),
    }
    w = found.best_w
    tables = policy.tables(w)
    _, used = evaluator.chain.earned(tables, evaluator.chain.closed(tables))
    with figure_style():
        title = f"{name}: {policy.nodes} nodes, value {ends[-1]:.4g}"
        labels = observation_labels(pomdp, policy)
        figure = draw_controller(tables, used, pomdp.labels("actions"), labels, title)
    about = {"problem": name, "value": ends[-1], "method": options.method, "seed": options.seed}
    save_controller(folder / "controller.json", pomdp, policy, w, about)
    settings = {"command": "solve", "model": str(options.model), "restarts": options.restarts}
    write_run(folder, {**about, **settings}, results, rendered({"controller": figure}))
    if options.json:
        print(to_json(results), end="")
        return
    _show(results, folder)


def _show(results: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    from mdpnewton.report.tables import new_table

    ends = results["values"]
    table = new_table(f"{results['problem']}, {results['nodes']} nodes", "", "value")
    table.add_row("best value", f"{results['value']:.6g}")
    table.add_row("median over restarts", f"{ends[len(ends) // 2]:.6g}")
    table.add_row("worst", f"{ends[0]:.6g}")
    table.add_row("restarts", f"{results['restarts']}")
    table.add_row("iterations", f"{results['iterations']}")
    table.add_row("method", results["method"].replace("_", " "))
    Console().print(table)
    if results["interrupted"]:
        print("interrupted: this is the best so far")
    print(f"controller: {results['controller']}\nfigure: {folder / 'controller.png'}")
