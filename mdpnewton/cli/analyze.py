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
    """

    model: Path = flag(positional=True, metavar="MODEL.npz")


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.files.models import load_model

    model = load_model(options.model)
    about = {"command": "analyze", "model": options.model.name, "version": __version__}
    return Plan(lambda progress: _analysis(*model), title=options.model.stem, about=about)


def _analysis(mdp: Any, policy: Any, w: Any) -> Outcome:
    from mdpnewton.models.linear_gaussian import LinearGaussianMDP

    if isinstance(mdp, LinearGaussianMDP):
        from mdpnewton.analysis.linear_gaussian import analyze_linear_gaussian
        from mdpnewton.report import linear_gaussian as report

        linear = analyze_linear_gaussian(mdp, policy, w)
        return Outcome(
            report.as_json(linear),
            partial(report.table, linear),
            lambda: {"linear-gaussian": report.draw(linear)},
        )
    from mdpnewton.analysis.finite import analyze
    from mdpnewton.report.analysis import analysis_table, as_json
    from mdpnewton.report.matrices import draw_terms

    finite = analyze(mdp, policy, w)
    return Outcome(
        as_json(finite, policy),
        partial(analysis_table, finite),
        lambda: {"hessian": draw_terms(finite)},
    )


COMMAND = Command(
    "analyze",
    "the curvature of a policy on your own MDP",
    Options,
    _plan,
    folder="analyze-{model}",
    lean=True,
)
