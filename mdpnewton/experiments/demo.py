"""The library in one picture: three methods on random finite MDPs with exact evaluation.

With `--set model=...` they are compared on that model instead, from several starts.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from rich.table import Table

from mdpnewton.domains.garnet import garnet
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.experiments.learning_curves import (
    draw_curves,
    first_reaching,
    shown_final,
    summary,
)
from mdpnewton.experiments.own_model import mdp_digest, own_mdp
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings
from mdpnewton.jobs.job import Work
from mdpnewton.loop import search
from mdpnewton.methods import method_for
from mdpnewton.models import FiniteMDP
from mdpnewton.policies import Gibbs, Policy
from mdpnewton.report.figures import legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.steps import StepRule, StrongWolfe
from mdpnewton.training.plan import suited

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RULES: dict[str, StepRule] = {
    "steepest": StrongWolfe(),
    "natural": StrongWolfe(),
    "second_gauss_newton": StrongWolfe(),
}


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        problems: Number of random MDPs.
        states: Number of states per MDP.
        features: Number of features of the Gibbs policy. Their sizes differ greatly, so that the
            problem is poorly scaled.
        iterations: Number of steps per method.
        model: Your own model file or tabular environment, in place of the random MDPs: `problems`
            is then the number of starts, of which the first is the model's own.
    """

    problems: int = 3
    states: int = 50
    features: int = 10
    iterations: int = 30
    model: str = ""

    def __post_init__(self) -> None:
        check_settings(self)


SCALES = {
    "quick": Config(),
    "laptop": Config(problems=20, states=100, features=20, iterations=50),
    "paper": Config(problems=100, states=100, features=20, iterations=50),
}


def work(config: Config, seed: int) -> Work:
    """Share of the best objective that each method reaches after each iteration."""
    more = {"digest": mdp_digest(config.model)} if config.model else {}
    runs = Runs(searched, config, seed, list(RULES), config.problems, more=more)
    found = runs.of((yield runs.jobs))
    shares: dict[str, list[np.ndarray]] = {method: [] for method in RULES}
    for number in range(config.problems):
        curves = {method: found[method][number] for method in RULES}
        start = curves["steepest"][0]
        best = max(curve.max() for curve in curves.values())
        for method, curve in curves.items():
            shares[method].append((curve - start) / ((best - start) or 1.0))
    methods = {}
    for method, rows in shares.items():
        methods[method] = {
            **summary(range(config.iterations + 1), rows),
            "iterations_to_90_percent": [
                first_reaching(range(config.iterations + 1), row, 0.9) for row in rows
            ],
        }
    return {"methods": methods}


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """Learning curves with standard errors."""
    figure, axis = new_figure()
    draw_curves(axis, results["methods"])
    axis.set_xlabel("iteration")
    axis.set_ylabel("share of the best gain")
    which = Path(config.model).stem or "random MDPs, poorly scaled features"
    axis.set_title(f"{which}, strong Wolfe steps")
    legend_below(figure, [axis])
    return {"demo": figure}


def table(results: dict[str, Any]) -> Table:
    """The final share of each method, and how soon it reaches 90 %."""
    title = "Share of the best gain over the first policy"
    shown = new_table(title, "method", "final share", "iterations to 90 %")
    for method, found in results["methods"].items():
        needed = found["iterations_to_90_percent"]
        reached = [n for n in needed if n is not None]
        text = f"{np.median(reached):g} (median)" if reached else "never"
        if reached and len(reached) < len(needed):
            text = f"{text}, {len(reached)} of {len(needed)} runs"
        shown.add_row(look(method).label, shown_final(found, 3), text)
    return shown


def searched(
    settings: dict[str, Any], seed: int, method: str, number: int, digest: str = ""
) -> np.ndarray:
    """The objective at the start and after every iteration, on one problem or from one start."""
    config = Config(**settings)
    rng = np.random.default_rng([seed, number])
    mdp, policy, w = _own(config, rng, number, digest) if config.model else _random(config, rng)
    found = search(
        FiniteEvaluator(mdp),
        policy,
        w,
        suited(method_for(method, "exact"), policy) if config.model else method,
        RULES[method],
        iterations=config.iterations,
        gradient_tolerance=0.0,
        patience=None,
    ).or_interrupt()
    objectives = np.array(found.objectives)
    return np.pad(objectives, (0, config.iterations + 1 - len(objectives)), mode="edge")


def _random(config: Config, rng: np.random.Generator) -> tuple[FiniteMDP, Policy, PyTree]:
    mdp = garnet(int(rng.integers(2**31)), config.states)
    sizes = np.logspace(-1, 1, config.features)
    policy = Gibbs(sizes * rng.normal(size=(config.states, mdp.n_actions, config.features)))
    return mdp, policy, jnp.zeros(policy.n_features)


def _own(
    config: Config, rng: np.random.Generator, number: int, digest: str
) -> tuple[FiniteMDP, Policy, PyTree]:
    mdp, policy, w = own_mdp(config.model, digest)
    return mdp, policy, w if number == 0 else w + rng.normal(size=w.shape)
