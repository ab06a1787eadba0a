"""`mdpnewton solve`: a policy for a finite MDP, or a finite-state controller for a POMDP."""

import hashlib
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress
from mdpnewton.cli.tables import method_names
from mdpnewton.version import RESULTS, __version__

MOST_NOTES = 20  # of a file that is read leniently


@dataclass(frozen=True, kw_only=True)
class Options:
    """Which problem, and how to search.

    Attributes:
        model: A .pomdp or .pomdpx file, the name of a shipped problem, as tiger, an .npz file of a
            finite MDP, or a tabular environment, as FrozenLake-v1.
        nodes: Number of nodes of the controller of a POMDP.
        method: Method of the search: one that `mdpnewton list methods` shows for `controller`
            or `exact`; for an MDP one for `exact`.
        restarts: Number of random controllers to start from.
        iterations: Maximum number of iterations from each start.
        seed: Random seed of the starts.
        workers: Number of processes that search; one unless given, or with `--cluster local` as
            many as there are cores. The numbers do not depend on it.
        cluster: Search on a Ray cluster: `auto` for the one that this machine belongs to, `local`
            to start one here, or an address. The numbers do not depend on it.
        restart: Move the run that is in the folder aside and begin a new one.
        lenient: Read a .pomdp file that breaks the grammar, and say what its words were taken for.
        discount: Discount factor, in place of that of the file.
        criterion: What the objective of an MDP adds up: discounted, total, finite or average.
        horizon: Number of actions of an MDP with a finite horizon.
    """

    model: Path = flag(positional=True, metavar="MODEL")
    nodes: int = flag(5, least=1)
    method: str = flag("second_gauss_newton", known=partial(method_names, "controller", "exact"))
    restarts: int = flag(20, least=1)
    iterations: int = flag(300, least=1)
    seed: int = flag(0, least=0)
    workers: int | None = flag(None, least=1)
    cluster: str | None = flag(None, metavar="auto|local|ADDRESS")
    restart: bool = False
    lenient: bool = False
    discount: float | None = flag(None)
    criterion: str | None = flag(None)
    horizon: int | None = flag(None)


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.cli.bring import is_environment

    if options.model.suffix == ".npz" or is_environment(options.model):
        from mdpnewton.cli.solve_mdp import plan_mdp

        return plan_mdp(options, folder)
    from mdpnewton.cli.workers import executor_for
    from mdpnewton.evaluators import ControllerEvaluator
    from mdpnewton.files.identity import MARK

    text, pomdp = _read(options)
    ControllerEvaluator(pomdp)  # refuses a criterion that it does not solve, and what never ends
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


def _read(options: Options) -> tuple[str, Any]:
    """The problem, and its text in the .pomdp format, which is what the jobs are given."""
    from dataclasses import replace

    from mdpnewton.files.pomdp import POMDPX, load_pomdp, pomdp_source
    from mdpnewton.files.pomdp_text import format_pomdp, parse_pomdp

    if options.criterion is not None or options.horizon is not None:
        raise ValueError(
            "--criterion and --horizon are for finite MDPs; for a POMDP give --discount, or use "
            "`product_mdp` in Python"
        )
    notes: list[str] | None = [] if options.lenient else None
    text = pomdp_source(options.model)[0]
    pomdp = load_pomdp(options.model, notes)
    for note in (notes or [])[:MOST_NOTES]:
        print(f"mdpnewton: {note}", file=sys.stderr)
    if notes and len(notes) > MOST_NOTES:
        print(f"mdpnewton: and {len(notes) - MOST_NOTES} more", file=sys.stderr)
    if options.discount is not None:
        pomdp = replace(pomdp, discount=options.discount, criterion="discounted")
    if options.discount is not None or notes or options.model.suffix == POMDPX:
        text = format_pomdp(pomdp)
        pomdp = parse_pomdp(text, options.model.name)
    return text, pomdp


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
    from mdpnewton.files.folder import CONTROLLER
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
    name, saved, w = options.model.stem, folder / CONTROLLER, found.pop("w")
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
        **_bounded(pomdp, policy.tables(w), ends[-1], options.seed),
    }
    about = {key: results[key] for key in ("problem", "value", "method", "seed")}
    tables = policy.tables(w)
    used = evaluator.visits(policy, w)
    visits = {"initial": used.initial.tolist(), "transition": used.transition.tolist()}
    save_controller(saved, pomdp, policy, w, {**about, "visits": visits})

    def draw() -> dict[str, Any]:
        title = f"{name}: {policy.nodes} nodes, value {ends[-1]:.4g}"
        labels = observation_labels(pomdp, policy)
        figure = draw_controller(tables, used, pomdp.labels("actions"), labels, title)
        return {"controller": figure}

    return Outcome(results, table=partial(_table, results), draw=draw, files={"controller": saved})


def _bounded(pomdp: Any, tables: Any, value: float, seed: int) -> dict[str, Any]:
    """What no policy exceeds, and what the controller earned when it was played."""
    from mdpnewton.models.pomdp import simulated_value, upper_bounds

    bounds, played = upper_bounds(pomdp), simulated_value(pomdp, tables, seed=seed)
    found: dict[str, Any] = {
        "simulated": played.mean,
        "simulated_interval": list(played.interval),
        "simulated_episodes": played.episodes,
    }
    if bounds is not None:
        upper = bounds.fast_informed
        found |= {"upper_qmdp": bounds.qmdp, "upper": upper, "gap": upper - value}
    return found


def _table(results: dict[str, Any]) -> Any:
    from mdpnewton.report.tables import new_table

    ends = results["values"]
    table = new_table(f"{results['problem']}, {results['nodes']} nodes", "", "value")
    table.add_row("best value", f"{results['value']:.6g}")
    table.add_row("median over restarts", f"{ends[len(ends) // 2]:.6g}")
    table.add_row("worst", f"{ends[0]:.6g}")
    if "upper" in results:
        table.add_row("no policy exceeds", f"{results['upper']:.6g}")
        table.add_row("gap", f"{results['gap']:.4g}")
    low, high = results["simulated_interval"]
    played = f"{results['simulated']:.6g} (95 %: {low:.6g} to {high:.6g})"
    table.add_row(f"played in {results['simulated_episodes']:,} episodes", played)
    table.add_row("restarts", f"{results['restarts']}")
    table.add_row("iterations", f"{results['iterations']}")
    table.add_row("method", results["method"].replace("_", " "))
    return table


COMMAND = Command(
    "solve",
    "a policy for a finite MDP, or a controller for a POMDP",
    Options,
    _plan,
    folder="solve-{model}-{nodes}-{method}-{seed}",
    one_thread=True,
)
