"""`mdpnewton analyze`: the curvature of a policy on a model of your own."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan
from mdpnewton.version import __version__


@dataclass(frozen=True)
class Options:
    """What to analyze.

    Attributes:
        model: The model, and perhaps features and weights; docs/analyze.md describes the file.
            Also a tabular environment, as FrozenLake-v1.
        optimize: Go to a stationary point first, by Newton's method at the end.
        discount: Discount factor, in place of that of the file.
        criterion: What the objective adds up: discounted, total, finite or average.
        horizon: Number of actions, for a finite horizon.
    """

    model: Path = flag(positional=True, metavar="MODEL")
    optimize: bool = False
    discount: float | None = flag(None)
    criterion: str | None = flag(None)
    horizon: int | None = flag(None)


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.training.bring import brought

    model = brought(options.model, options.discount, options.criterion, options.horizon)
    about = {"command": "analyze", "model": options.model.name, "version": __version__}
    return Plan(
        lambda progress: _analysis(*model, options.optimize), title=options.model.stem, about=about
    )


def _analysis(mdp: Any, policy: Any, w: Any, optimize: bool) -> Outcome:
    from mdpnewton.models.linear_gaussian import LinearGaussianMDP

    if isinstance(mdp, LinearGaussianMDP):
        if optimize:
            raise ValueError("--optimize is for finite MDPs; this model is linear-Gaussian")
        from mdpnewton.analysis.linear_gaussian import analyze_linear_gaussian
        from mdpnewton.report import linear_gaussian as report

        linear = analyze_linear_gaussian(mdp, policy, w)
        return Outcome(
            report.as_json(linear),
            partial(report.table, linear),
            lambda: {"linear-gaussian": report.draw(linear)},
        )
    import numpy as np

    from mdpnewton.analysis.finite import analyze
    from mdpnewton.policies import TabularSoftmax
    from mdpnewton.report.analysis import analysis_table, as_json, parameter_names
    from mdpnewton.report.matrices import draw_terms

    if optimize:
        from mdpnewton.training.plan import stationary_point

        w = stationary_point(mdp, policy, w)
    finite = analyze(mdp, policy, w)
    names = {"states": mdp.state_names, "actions": mdp.action_names}
    named = {name: list(found) for name, found in names.items() if found is not None}
    about = {"criterion": mdp.criterion, **({"horizon": mdp.horizon} if mdp.horizon else {})}
    known = isinstance(policy, TabularSoftmax) and named
    shown = parameter_names(policy, len(finite.gradient), mdp) if known else ()
    weights = {"weights": np.asarray(w).tolist()} if optimize else {}
    return Outcome(
        {**as_json(finite, policy, mdp), **about, **named, **weights},
        partial(analysis_table, finite, mdp, shown),
        (lambda: {"hessian": draw_terms(finite, shown)}) if finite.terms else None,
    )


COMMAND = Command(
    "analyze",
    "the curvature of a policy on your own MDP",
    Options,
    _plan,
    folder="analyze-{model}",
    lean=True,
)
