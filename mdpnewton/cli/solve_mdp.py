"""`mdpnewton solve` for finite MDPs: a policy, beside the optimum by policy iteration."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flow import Outcome, Plan, Progress
from mdpnewton.version import RESULTS, __version__

SHOWN, MOST = 10, 1_000  # states in the table, and in results.json and the report
# Flags of `mdpnewton solve` that an MDP has no use for.
POMDPS = ("nodes", "seed", "grow", "gap", "minutes", "restarts", "workers", "cluster", "lenient")
CHOICE = ("state", "action", "probability")
SEARCH = "search.npz"  # the state of the search, from which the same command goes on


def plan_mdp(options: Any, folder: Path) -> Plan:
    """What is about to be done for a model file or a tabular environment.

    Args:
        options: The options of `mdpnewton solve`.
        folder: The run folder.
    """
    from mdpnewton.files.identity import MARK
    from mdpnewton.methods.table import names
    from mdpnewton.models.finite import FiniteMDP
    from mdpnewton.training.bring import brought, model_digest

    for name in POMDPS:
        given = getattr(options, name)
        if given is not None and given is not False:  # the seed 0 is given
            rule = "an MDP is searched from one start, in one process"
            raise ValueError(f"--{name} is for POMDPs; {rule}, so leave it out")
    if options.method not in names("exact"):
        known = ", ".join(names("exact"))
        raise ValueError(f"--method {options.method} is for controllers; choose one of {known}")
    model = brought(options.model, options.discount, options.criterion, options.horizon)
    if not isinstance(model[0], FiniteMDP):
        raise ValueError(f"{options.model}: `solve` needs a finite MDP; `analyze` reads this model")
    about = {
        "command": "solve",
        "problem": options.model.stem,
        "model": model_digest(*model),
        "criterion": model[0].criterion,
        "discount": model[0].discount,
        "horizon": model[0].horizon,
        "method": options.method,
        "iterations": options.iterations,
        "version": __version__,
        MARK: RESULTS,
    }
    run = partial(_solved, options, about, model, folder)
    return Plan(run, title=options.model.stem, about=about, resumes=True, restart=options.restart)


def search_kept(folder: Path, about: Mapping[str, Any]) -> Any:
    """The checkpoint of the search in a run folder.

    Args:
        folder: The run folder.
        about: What config.json says.
    """
    from mdpnewton.jobs import Checkpoint

    which = {word: about[word] for word in ("model", "method")}
    return Checkpoint(folder / SEARCH, which, seconds=5)


def _solved(
    options: Any,
    about: dict[str, Any],
    model: tuple[Any, Any, Any],
    folder: Path,
    progress: Progress,
) -> Outcome:
    from mdpnewton.files.finite_models import save_model
    from mdpnewton.models.optimum import policy_iteration
    from mdpnewton.report.training import record_metrics
    from mdpnewton.training.plan import plan_policy

    mdp, policy, w = model
    best = policy_iteration(mdp)

    def shown(done: int, total: int, value: float) -> None:
        progress(done, total, f"value {value:.6g}")

    kept = search_kept(folder, about)
    found = plan_policy(
        *(mdp, policy, w, options.method),
        iterations=options.iterations,
        progress=shown,
        checkpoint=kept,
    )
    saved, choices = folder / "policy.npz", _choices(mdp, policy, found.w)
    results = {
        "problem": options.model.stem,
        "criterion": mdp.criterion,
        "value": found.objective,
        "optimum": best.objective,
        "gap": best.objective - found.objective,
        "method": options.method,
        "iterations": len(found.history),
        "status": found.status,
        "values": found.objectives,
        "choices": [dict(zip(CHOICE, one, strict=True)) for one in choices],
        "more_states": mdp.n_states - len(choices),
        "policy": str(saved),
        "remarks": list(found.remarks),
        "history": [record_metrics(one) for one in found.history],
    }
    save_model(saved, mdp, policy, found.w)
    return Outcome(
        results,
        table=partial(_table, results, choices[:SHOWN]),
        draw=partial(_drawn, results),
        files={"policy": saved},
        note=found.failure,
        interrupted=found.status == "interrupted",
    )


def _choices(mdp: Any, policy: Any, w: Any) -> list[tuple[str, str, float]]:
    """States, their most probable actions and how probable these are, of the first states."""
    from mdpnewton.evaluators import FiniteEvaluator

    probabilities = FiniteEvaluator(mdp).closed_loop(policy, w).probabilities[:MOST]
    tops = probabilities.argmax(axis=1)
    return [
        (mdp.states[state], mdp.actions[int(top)], float(probabilities[state, top]))
        for state, top in enumerate(tops)
    ]


def _table(results: dict[str, Any], choices: list[tuple[str, str, float]]) -> Any:
    from rich.markup import escape

    from mdpnewton.report.tables import new_table
    from mdpnewton.report.training import certificate

    table = new_table(f"{results['problem']}, {results['criterion']} reward", "", "value")
    table.add_row("value", f"{results['value']:.8g}")
    table.add_row("optimum", f"{results['optimum']:.8g}")
    table.add_row("gap", f"{results['gap']:.2g}")
    table.add_row("iterations", f"{results['iterations']}")
    table.add_row("method", results["method"].replace("_", " "))
    for name, said in certificate(results["history"]):
        table.add_row(name, said)
    for state, action, probability in choices:
        table.add_row(escape(f"state {state}"), escape(f"{action} ({probability:.3f})"))
    more = len(results["choices"]) + results["more_states"] - len(choices)
    if more:
        table.add_row(f"and {more:,} states more", "")
    return table


def _drawn(results: dict[str, Any]) -> dict[str, Any]:
    from mdpnewton.report.figures import legend_below, new_figure

    figure, axes = new_figure(1, 1)
    axis = axes.ravel()[0] if hasattr(axes, "ravel") else axes
    axis.plot(results["values"], label=results["method"].replace("_", " "))
    axis.axhline(results["optimum"], ls=":", color="black", label="optimum")
    axis.set_xlabel("iterations")
    axis.set_ylabel("U")
    axis.set_title(results["problem"])
    legend_below(figure, [axis])
    return {"solve": figure}
