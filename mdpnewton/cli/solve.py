"""`mdpnewton solve`: a finite-state controller for a .pomdp file."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.tables import method_names
from mdpnewton.version import RESULTS, __version__


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
        workers: Number of processes that search; one unless given, or with `--cluster local` as
            many as there are cores. The numbers do not depend on it.
        cluster: Search on a Ray cluster: `auto` for the one that this machine belongs to, `local`
            to start one here, or an address. The numbers do not depend on it.
        restart: Move the run that is in the folder aside and begin a new one.
    """

    model: Path = flag(positional=True, metavar="FILE.pomdp")
    nodes: int = flag(5, least=1)
    method: str = flag("second_gauss_newton", known=partial(method_names, "controller", "exact"))
    restarts: int = flag(20, least=1)
    iterations: int = flag(300, least=1)
    seed: int = flag(0, least=0)
    workers: int | None = flag(None, least=1)
    cluster: str | None = flag(None, metavar="auto|local|ADDRESS")
    restart: bool = False


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.cli.workers import executor_for
    from mdpnewton.files.identity import MARK
    from mdpnewton.files.pomdp import pomdp_source
    from mdpnewton.files.pomdp_text import parse_pomdp

    text, source = pomdp_source(options.model)
    pomdp = parse_pomdp(text, source)
    about = {
        "command": "solve",
        "problem": options.model.stem,
        "model": hashlib.sha256(text.encode()).hexdigest(),
        "nodes": options.nodes,
        "method": options.method,
        "restarts": options.restarts,
        "iterations": options.iterations,
        "seed": options.seed,
        "version": __version__,
        MARK: RESULTS,
    }
    executor = executor_for(options.workers, options.cluster)
    run = partial(_solved, options, text, pomdp, executor, folder)
    return Plan(run, title=options.model.stem, about=about, resumes=True, restart=options.restart)


def _solved(
    options: Options,
    text: str,
    pomdp: Any,
    executor: Any,
    folder: Path,
    progress: Progress,
) -> Outcome:
    from mdpnewton.cli import jobs
    from mdpnewton.evaluators import ControllerEvaluator
    from mdpnewton.files.controllers import observation_labels, save_controller
    from mdpnewton.report.controllers import draw_controller
    from mdpnewton.training.restarts import restarts

    begin = partial(
        restarts,
        text,
        options.model.name,
        nodes=options.nodes,
        method=options.method,
        count=options.restarts,
        iterations=options.iterations,
        seed=options.seed,
    )
    found = jobs.done(begin, folder, progress, executor, (0, 1))
    assert found is not None  # there are no shards
    evaluator = ControllerEvaluator(pomdp)
    policy = evaluator.controller(options.nodes)
    name, saved, w = options.model.stem, folder / "controller.json", found.pop("w")
    ends = sorted(found.pop("values"))
    results = {
        "problem": name,
        "value": ends[-1],
        "nodes": options.nodes,
        "method": options.method,
        "restarts": len(ends),
        "seed": options.seed,
        "values": ends,
        **found,
        "controller": str(saved),
    }
    about = {key: results[key] for key in ("problem", "value", "method", "seed")}
    tables = policy.tables(w)
    _, used = evaluator.chain.earned(tables, evaluator.chain.closed(tables))
    visits = {"initial": used.initial.tolist(), "transition": used.transition.tolist()}
    save_controller(saved, pomdp, policy, w, {**about, "visits": visits})

    def draw() -> dict[str, Any]:
        title = f"{name}: {policy.nodes} nodes, value {ends[-1]:.4g}"
        labels = observation_labels(pomdp, policy)
        figure = draw_controller(tables, used, pomdp.labels("actions"), labels, title)
        return {"controller": figure}

    return Outcome(results, table=partial(_table, results), draw=draw, files={"controller": saved})


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
    folder="solve-{model}-{nodes}-{method}-{seed}",
    one_thread=True,
)
