"""Does H12 vanish on the way to the optimum? Section 3.3, Figure 2: two mazes.

The second Gauss-Newton method with step size 1 finds the optimum, because it always ascends. The
spectral norms of A1 and of H12 + H12' are measured at every point on the way. With
`--set model=...` they are those of that model and its policy.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PyTree
from rich.table import Table

from mdpnewton.analysis.finite import value_consistency
from mdpnewton.curvature import curvature, gradient
from mdpnewton.domains.mazes import HALLWAY, MCCALLUM
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.experiments.own_model import MOST, mdp_digest, own_mdp
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings
from mdpnewton.hessian import cross_term
from mdpnewton.jobs.job import Work
from mdpnewton.loop import search
from mdpnewton.methods import method_for
from mdpnewton.policies import Policy
from mdpnewton.report.figures import legend_below, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.training.plan import suited

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAZES = {"hallway": HALLWAY, "mccallum": MCCALLUM}
METHOD = "second_gauss_newton"


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        maze: Name of the maze: "hallway" or "mccallum".
        features: Kind of policy features: "successor" as in the paper, or "current" with one weight
            vector per action.
        discount: Discount factor. The paper does not give it.
        tolerance: Norm of the gradient at which the search ends.
        iterations: Maximum number of steps.
        spread: Standard deviation of the random start. With 0 the search starts at the uniform
            policy.
        model: Your own model file or tabular environment, in place of the maze, its features and
            its discount.
    """

    maze: str = "hallway"
    features: str = "successor"
    discount: float = 0.95
    tolerance: float = 1e-9
    iterations: int = 2000
    spread: float = 0.0
    model: str = ""

    def __post_init__(self) -> None:
        check_settings(self, maze=MAZES, tolerance=0, spread=0)


SCALES = {
    "quick": Config(tolerance=1e-6),
    "laptop": Config(),
    "paper": Config(tolerance=1e-10),
}


def work(config: Config, seed: int) -> Work:
    """The norms, their ratio, the distance to the last point and the gradient norm at each step."""
    if config.discount == 0:
        raise ValueError("with discount 0 nothing follows and H12 is zero: there is no ratio.")
    more = {"digest": mdp_digest(config.model, MOST)} if config.model else {}
    _problem(config)  # refuses what cannot be before anything is computed
    runs = Runs(measured, config, seed, [METHOD], 1, more=more)
    ((found,),) = runs.of((yield runs.jobs)).values()
    about = {"maze": config.maze, "features": config.features}
    return {**({"model": Path(config.model).stem} if config.model else about), **found}


def measured(
    settings: dict[str, Any], seed: int, method: str, number: int, digest: str = ""
) -> dict[str, Any]:
    """One search, and what is measured at every point on its way."""
    config = Config(**settings)
    policy, evaluator, w = _problem(config, digest)
    noise = np.random.default_rng(seed).normal(size=w.shape)
    found = search(
        evaluator,
        policy,
        w + config.spread * noise,
        suited(method_for(method, "exact"), policy) if config.model else method,
        iterations=config.iterations,
        gradient_tolerance=config.tolerance,
        patience=None,
        keep_trace=True,
    ).or_interrupt()
    rows = []
    for w in found.trace:
        pairs = evaluator.evaluate(None, policy, w)
        A1 = np.asarray(curvature(policy, w, pairs, "A1").dense())
        H12 = cross_term(policy, w, pairs)
        rows.append(
            (
                np.linalg.norm(A1, 2),
                np.linalg.norm(H12 + H12.T, 2),
                np.linalg.norm(np.asarray(w - found.last)),
                np.linalg.norm(np.asarray(gradient(policy, w, pairs))),
                pairs.objective,
            )
        )
    a1, h12, distance, slope, objective = (
        list(map(float, column)) for column in zip(*rows, strict=True)
    )
    consistent = [
        value_consistency(policy, w, evaluator.evaluate(None, policy, w)).consistent
        for w in (found.trace[0], found.trace[len(found.trace) // 2])
    ]
    return {
        "status": found.status,
        "ratio": [x / y if y else None for x, y in zip(a1, h12, strict=True)],
        "distance": distance,
        "gradient_norm": slope,
        "norm_A1": a1,
        "norm_H12": h12,
        "objective": objective,
        "optimum": [float(x) for x in np.ravel(found.last)],
        "value_consistent_at_start_and_half_way": consistent,
    }


def _problem(config: Config, digest: str = "") -> tuple[Policy, FiniteEvaluator, PyTree]:
    if config.model:
        mdp, own, w = own_mdp(config.model, digest, MOST)
        return own, FiniteEvaluator(mdp), w
    maze = MAZES[config.maze]
    policy = maze.policy(config.discount, config.features)
    return policy, FiniteEvaluator(maze.mdp(config.discount)), np.zeros(policy.n_features)


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """The two norms against the distance, as in Figure 2, and against the gradient norm."""
    figure, axes = new_figure(1, 2, sharey=True)
    end = slice(None, -1)  # the last point has distance zero
    for axis, x, label in (
        (axes[0], "distance", r"$\|w - w^*\|$, $w^*$ the last iterate"),
        (axes[1], "gradient_norm", r"$\|\nabla U(w)\|$"),
    ):
        axis.loglog(results[x][end], results["norm_A1"][end], label=r"$\|A_1\|$")
        axis.loglog(results[x][end], results["norm_H12"][end], label=r"$\|H_{12} + H_{12}^\top\|$")
        axis.set_xlabel(label)
        axis.invert_xaxis()
    axes[0].set_ylabel("spectral norm")
    maze = results.get("maze")
    title = f"{maze}, {results['features']}-state features" if maze else results["model"]
    axes[0].set_title(title)
    axes[1].set_title("the same against the gradient")
    legend_below(figure, axes)
    return {maze or "cross-term": figure}


def table(results: dict[str, Any]) -> Table:
    """The ratio at some steps of the search."""
    which = results.get("maze") or results["model"]
    shown = new_table(
        f"{which}: |A1| over |H12 + H12'| on the way to the optimum",
        *("step", "|gradient|", "|w - w*|", "|A1|", "|H12 + H12'|", "ratio"),
    )
    last = len(results["ratio"]) - 1
    for k in sorted({round(last * share) for share in (0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1)}):
        row = [results[x][k] for x in ("gradient_norm", "distance", "norm_A1", "norm_H12", "ratio")]
        shown.add_row(str(k), *("-" if value is None else f"{value:.3g}" for value in row))
    return shown
