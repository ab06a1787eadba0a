"""`mdpnewton solve` for finite MDPs: a policy, beside the optimum by policy iteration."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flow import Outcome, Plan, Progress
from mdpnewton.version import __version__


def plan_mdp(options: Any, folder: Path) -> Plan:
    """What is about to be done for a model file or a tabular environment.

    Args:
        options: The options of `mdpnewton solve`.
        folder: The run folder.
    """
    from mdpnewton.cli.bring import brought
    from mdpnewton.methods.table import names
    from mdpnewton.models.finite import FiniteMDP

    if options.method not in names("exact"):
        known = ", ".join(names("exact"))
        raise ValueError(f"--method {options.method} is for controllers; choose one of {known}")
    model = brought(options.model, options.discount, options.criterion, options.horizon)
    if not isinstance(model[0], FiniteMDP):
        raise ValueError(f"{options.model}: `solve` needs a finite MDP; `analyze` reads this model")
    digest = hashlib.sha256()
    for part in (model[0].reward, model[0].start):
        digest.update(part.tobytes())
    about = {
        "command": "solve",
        "problem": options.model.stem,
        "model": digest.hexdigest(),
        "criterion": model[0].criterion,
        "discount": model[0].discount,
        "horizon": model[0].horizon,
        "method": options.method,
        "iterations": options.iterations,
        "version": __version__,
    }
    run = partial(_solved, options, model, folder)
    return Plan(run, title=options.model.stem, about=about, restart=options.restart)


def _solved(options: Any, model: tuple[Any, Any, Any], folder: Path, progress: Progress) -> Outcome:
    from mdpnewton.files.finite_models import save_model
    from mdpnewton.models.optimum import policy_iteration
    from mdpnewton.report.training import record_metrics
    from mdpnewton.training.plan import plan_policy

    mdp, policy, w = model
    best = policy_iteration(mdp)

    def shown(done: int, total: int, value: float) -> None:
        progress(done, total, f"value {value:.6g}")

    found = plan_policy(
        mdp, policy, w, options.method, iterations=options.iterations, progress=shown
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
        "policy": str(saved),
        "remarks": list(found.remarks),
        "objectives": found.objectives,
        "history": [record_metrics(one) for one in found.history],
        "choices": choices,
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_model(saved, mdp, policy, found.w)
    return Outcome(
        results,
        table=partial(_table, results, mdp, choices),
        draw=partial(_drawn, found, best.objective, options),
        files={"policy": saved},
        note=found.failure,
        interrupted=found.status == "interrupted",
    )


def _choices(mdp: Any, policy: Any, w: Any) -> list[tuple[str, str, float]]:
    """The most probable action of the first states, and its probability."""
    from mdpnewton.evaluators import FiniteEvaluator

    probabilities = FiniteEvaluator(mdp).closed_loop(policy, w).probabilities[:10]
    tops = probabilities.argmax(axis=1)
    return [
        (mdp.states[state], mdp.actions[int(top)], float(probabilities[state, top]))
        for state, top in enumerate(tops)
    ]


def _table(results: dict[str, Any], mdp: Any, choices: list[tuple[str, str, float]]) -> Any:
    from rich.markup import escape

    from mdpnewton.report.tables import new_table

    table = new_table(f"{results['problem']}, {results['criterion']} reward", "", "value")
    table.add_row("value", f"{results['value']:.8g}")
    table.add_row("optimum", f"{results['optimum']:.8g}")
    table.add_row("gap", f"{results['gap']:.2g}")
    table.add_row("iterations", f"{results['iterations']}")
    table.add_row("method", results["method"].replace("_", " "))
    for state, action, probability in choices:
        table.add_row(escape(f"state {state}"), escape(f"{action} ({probability:.3f})"))
    if mdp.n_states > len(choices):
        table.add_row(f"and {mdp.n_states - len(choices)} states more", "")
    return table


def _drawn(found: Any, optimum: float, options: Any) -> dict[str, Any]:
    from mdpnewton.report.figures import legend_below, new_figure

    figure, axes = new_figure(1, 1)
    axis = axes.ravel()[0] if hasattr(axes, "ravel") else axes
    axis.plot(found.objectives, label=options.method.replace("_", " "))
    axis.axhline(optimum, ls=":", color="black", label="optimum")
    axis.set_xlabel("iterations")
    axis.set_ylabel("U")
    axis.set_title(options.model.stem)
    legend_below(figure, [axis])
    return {"solve": figure}
