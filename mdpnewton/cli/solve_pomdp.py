"""`mdpnewton solve` for POMDPs: a finite-state controller, from many starts or growing."""

import hashlib
import sys
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flow import Outcome, Plan, Progress
from mdpnewton.version import RESULTS, __version__

MOST_NOTES = 20  # of a file that is read leniently
RESTARTS, GAP = 20, 0.01  # unless they are given


def plan_pomdp(options: Any, folder: Path) -> Plan:
    """What is about to be done for a POMDP.

    Args:
        options: The options of `mdpnewton solve`.
        folder: The run folder.
    """
    from mdpnewton.cli.workers import executor_for
    from mdpnewton.files.identity import MARK
    from mdpnewton.training.restarts import evaluator_for

    _check(options)
    text, given = _read(options)
    evaluator_for(text, options.model.name, given)  # refuses what never ends or cannot be averaged
    if options.grow:
        how = {"gap": GAP if options.gap is None else options.gap, "minutes": options.minutes}
    else:
        how = {"restarts": options.restarts or RESTARTS}
    about = {
        "command": "solve",
        "problem": options.model.stem,
        "model": hashlib.sha256(text.encode()).hexdigest(),
        **given,
        "nodes": options.nodes,
        "method": options.method,
        **how,
        "iterations": options.iterations,
        "seed": options.seed,
        "version": __version__,
        MARK: RESULTS,
    }
    executor = executor_for(options.workers, options.cluster)
    run = partial(_solved, options, about, text, given, executor, folder)
    return Plan(run, title=options.model.stem, about=about, resumes=True, restart=options.restart)


def _check(options: Any) -> None:
    """That the flags go together."""
    from mdpnewton.methods.table import names

    if not options.grow:
        for name in ("gap", "minutes"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name} is for a controller that grows; add --grow")
        return
    if options.restarts is not None:
        raise ValueError("--restarts is for random starts; leave it out, or leave out --grow")
    if options.method not in names("controller"):
        known = ", ".join(names("controller"))
        raise ValueError(f"--grow takes the methods for controllers, {known}; got {options.method}")
    if options.gap is not None and not options.gap >= 0:
        raise ValueError(f"--gap must be at least 0, got {options.gap:g}")
    if options.minutes is not None and not options.minutes > 0:
        raise ValueError(f"--minutes must be above 0, got {options.minutes:g}")


def _read(options: Any) -> tuple[str, dict[str, Any]]:
    """The problem in the .pomdp format, which is what jobs are given, and what is asked besides."""
    from dataclasses import replace

    from mdpnewton.files.pomdp import POMDPX, load_pomdp, pomdp_source
    from mdpnewton.files.pomdp_text import format_pomdp

    text = pomdp_source(options.model)[0]
    notes: list[str] | None = [] if options.lenient else None
    pomdp = load_pomdp(options.model, notes)
    for note in (notes or [])[:MOST_NOTES]:
        print(f"mdpnewton: {note}", file=sys.stderr)
    if notes and len(notes) > MOST_NOTES:
        print(f"mdpnewton: and {len(notes) - MOST_NOTES} more", file=sys.stderr)
    given: dict[str, Any] = {}
    criterion = options.criterion or ("finite" if options.horizon is not None else None)
    if criterion is not None or options.discount is not None:
        given = {"criterion": criterion or "discounted", "horizon": options.horizon}
        discount = options.discount
        if discount is None and given["criterion"] == pomdp.criterion == "discounted":
            discount = pomdp.discount
        pomdp = replace(pomdp, discount=discount, **given)
        given["discount"] = pomdp.discount
    if notes or options.model.suffix == POMDPX:
        written = replace(pomdp, criterion="discounted", discount=0.5, horizon=None)
        text = format_pomdp(written if given else pomdp)
    return text, given


def _solved(
    options: Any,
    about: dict[str, Any],
    text: str,
    given: dict[str, Any],
    executor: Any,
    folder: Path,
    progress: Progress,
) -> Outcome:
    import numpy as np

    from mdpnewton.cli import jobs
    from mdpnewton.files.controllers import observation_labels, save_controller
    from mdpnewton.files.folder import CONTROLLER
    from mdpnewton.report.controllers import draw_controller
    from mdpnewton.training.growth_jobs import growth_jobs
    from mdpnewton.training.restarts import evaluator_for, restarts

    source = text, options.model.name, given
    asked: dict[str, Any] = {
        word: about[word] for word in ("nodes", "method", "iterations", "seed")
    }
    if options.grow:
        grown = _Grown(progress, options.nodes)
        asked["seconds"] = None if options.minutes is None else 60.0 * options.minutes
        begin = partial(growth_jobs, *source, gap=about["gap"], tell=grown.tell, **asked)
        found = jobs.done(begin, folder, grown.report, executor, (0, 1))
    else:
        begin = partial(restarts, *source, count=about["restarts"], **asked)
        found = jobs.done(begin, folder, progress, executor, (0, 1))
    assert found is not None  # there are no shards
    evaluator = evaluator_for(*source)
    pomdp, w = evaluator.pomdp, found.pop("w")
    policy = evaluator.controller(found.get("nodes", options.nodes))
    w = {table: np.asarray(rows) for table, rows in w.items()}
    ends = sorted(found.pop("values", None) or [one["value"] for one in found["growth"]])
    name, saved, tables = options.model.stem, folder / CONTROLLER, policy.tables(w)
    results = {
        "problem": name,
        "criterion": pomdp.criterion,
        "value": ends[-1],
        "nodes": policy.nodes,
        "method": options.method,
        **({} if options.grow else {"restarts": len(ends)}),
        "seed": options.seed,
        "values": ends,
        **found,
        "controller": str(saved),
        **_bounded(pomdp, tables, ends[-1], options.seed, found),
    }
    said = {key: results[key] for key in ("problem", "value", "method", "seed")}
    used = evaluator.visits(policy, w)
    visits = {"initial": used.initial.tolist(), "transition": used.transition.tolist()}
    save_controller(saved, pomdp, policy, w, {**said, "visits": visits})

    def draw() -> dict[str, Any]:
        title = f"{name}: {policy.nodes} nodes, value {ends[-1]:.4g}"
        labels = observation_labels(pomdp, policy)
        figure = draw_controller(tables, used, pomdp.labels("actions"), labels, title)
        return {"controller": figure}

    return Outcome(results, table=partial(_table, results), draw=draw, files={"controller": saved})


class _Grown:
    """Progress of a controller that grows: nodes, value and gap, and what is being done."""

    def __init__(self, progress: Progress, nodes: int):
        self._progress, self._nodes, self._at, self._said = progress, nodes, 0, ""

    def tell(self, nodes: int, value: float, gap: float | None) -> None:
        left = "" if gap is None else f", gap {gap:.4g}"
        self._at, self._said = nodes, f"{nodes} nodes, value {value:.6g}{left}; "
        self._progress(nodes, self._nodes, self._said.rstrip("; "))

    def report(self, done: int, total: int, what: str) -> None:
        adding = f"{done} of {total} tries of a node" if total > 1 else "searching on"
        self._progress(self._at, self._nodes, f"{self._said}{adding}")


def _bounded(
    pomdp: Any, tables: Any, value: float, seed: int, known: dict[str, Any]
) -> dict[str, Any]:
    """What no policy exceeds, and what the controller earned when it was played."""
    from mdpnewton.models.pomdp import simulated_value, upper_bounds

    played = simulated_value(pomdp, tables, seed=seed)
    found: dict[str, Any] = {
        "simulated": played.mean,
        "simulated_interval": list(played.interval),
        "simulated_episodes": played.episodes,
    }
    bounds = None if "growth" in known else upper_bounds(pomdp)
    if bounds is not None:
        found |= {"upper_qmdp": bounds.qmdp, "upper": bounds.fast_informed}
    upper = known.get("upper", found.get("upper"))
    return found if upper is None else {**found, "gap": upper - value}


def _table(results: dict[str, Any]) -> Any:
    from mdpnewton.report.tables import new_table

    ends = results["values"]
    table = new_table(f"{results['problem']}, {results['nodes']} nodes", "", "value")
    table.add_row("best value", f"{results['value']:.6g}")
    if "growth" in results:
        for one in results["growth"]:
            took = f"{one['value']:.6g} after {one['seconds']:.0f} s"
            table.add_row(f"with {one['nodes']} nodes", took)
        table.add_row("ended by", results["ended"])
    else:
        table.add_row("median over restarts", f"{ends[len(ends) // 2]:.6g}")
        table.add_row("worst", f"{ends[0]:.6g}")
    if "upper" in results:
        table.add_row("no policy exceeds", f"{results['upper']:.6g}")
        table.add_row("gap", f"{results['gap']:.4g}")
    low, high = results["simulated_interval"]
    played = f"{results['simulated']:.6g} (95 %: {low:.6g} to {high:.6g})"
    table.add_row(f"played in {results['simulated_episodes']:,} episodes", played)
    if "restarts" in results:
        table.add_row("restarts", f"{results['restarts']}")
    table.add_row("iterations", f"{results['iterations']}")
    table.add_row("method", results["method"].replace("_", " "))
    return table
