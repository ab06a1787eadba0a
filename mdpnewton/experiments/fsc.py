"""Finite-state controllers: block Gauss-Newton against EM, natural, steepest and Adam."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from mdpnewton.evaluators import ControllerEvaluator, random_starts
from mdpnewton.experiments.learning_curves import first_reaching
from mdpnewton.experiments.own_model import own_pomdp, pomdp_digest
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings, listed
from mdpnewton.files.pomdp import load_pomdp
from mdpnewton.jobs import job_checkpoint
from mdpnewton.jobs.job import Work
from mdpnewton.models.pomdp import FinitePOMDP, optimal_value
from mdpnewton.report.figures import legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.training.controllers import search_controllers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES = {
    "tiger": 5,
    "cheese": 4,
    "mccallum_grid": 3,
    "hallway_paper": 3,
    "load_unload": 2,
    "hallway": 5,
}
OWN = "own"  # what jobs call the model that is brought
# Chosen on the starts of seed 0: Adam's rate from 0.03, 0.1, 0.3 and 1, the margins of the
# offset from 0.2, 0.5, 1 and 2, and from 0.01, 0.05 and 0.2 for EM.
METHODS: dict[str, dict[str, Any]] = {
    "block_second_gauss_newton": {"margin": 0.5},
    "expectation_maximization": {"margin": 0.01},
    "natural": {},
    "steepest": {},
    "adam": {"learning_rate": 0.3},
}
LEVEL = 0.95  # of the best value


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        restarts: Number of random controllers to start from. All methods have the same starts.
        iterations: Number of iterations per start.
        problems: Names of problems that come with the library, separated by commas.
        model: Your own .pomdp or .pomdpx file, in place of the problems.
        nodes: Number of nodes of the controller for your own model.
    """

    restarts: int = 4
    iterations: int = 40
    problems: str = "cheese"
    model: str = ""
    nodes: int = 5

    def __post_init__(self) -> None:
        check_settings(self)


SCALES = {
    "quick": Config(),
    "laptop": Config(restarts=20, iterations=300, problems=",".join(NODES)),
    "paper": Config(restarts=100, iterations=1000, problems=",".join(NODES)),
}


def work(config: Config, seed: int) -> Work:
    """Iterations and seconds to 95 % of the best value, for every problem and method."""
    if config.model:
        own_pomdp(config.model)  # refuses what cannot be read
        more: dict[str, dict[str, str]] = {OWN: {"digest": pomdp_digest(config.model)}}
    else:
        more = {name: {} for name in listed("problems", config.problems, NODES)}
    names = list(more)
    runs, optima = (
        {
            name: Runs(function, config, seed, methods, 1, f"{name}-", {"problem": name, **given})
            for name, given in more.items()
        }
        for function, methods in ((searched, list(METHODS)), (optimum, ["optimum"]))
    )
    found = yield [job for name in names for job in (*runs[name].jobs, *optima[name].jobs)]
    problems: dict[str, Any] = {}
    for name in names:
        ways = {method: one[0] for method, one in runs[name].of(found).items()}
        best = max(float(way["objective"].max()) for way in ways.values())
        problems[Path(config.model).stem or name] = {
            "nodes": _nodes(config, name),
            "best": best,
            "optimum": optima[name].of(found)["optimum"][0],
            "methods": {method: _summary(way, best, config) for method, way in ways.items()},
        }
    return {"problems": problems, "seed": seed}


def searched(
    settings: dict[str, Any], seed: int, problem: str, method: str, number: int, digest: str = ""
) -> dict[str, Any]:
    """The searches of a method from all starts; some iterations come first, to compile."""
    config = Config(**settings)
    evaluator = ControllerEvaluator(_pomdp(config, problem, digest))
    policy = evaluator.controller(_nodes(config, problem))
    starts = random_starts(policy, seed, config.restarts)
    for iterations, checkpoint in ((20, None), (config.iterations, job_checkpoint())):
        way = search_controllers(
            evaluator,
            policy,
            starts,
            method,
            iterations=iterations,
            checkpoint=checkpoint,
            **METHODS[method],
        )
        if way.interrupted:
            raise KeyboardInterrupt
    return {"objective": way.objective, "seconds": way.seconds}


def optimum(
    settings: dict[str, Any], seed: int, problem: str, method: str, number: int, digest: str = ""
) -> float | None:
    """Value of the best policy with any memory, where it can be computed."""
    return optimal_value(_pomdp(Config(**settings), problem, digest))


def _pomdp(config: Config, problem: str, digest: str) -> FinitePOMDP:
    return own_pomdp(config.model, digest) if problem == OWN else load_pomdp(problem)


def _nodes(config: Config, problem: str) -> int:
    return config.nodes if problem == OWN else NODES[problem]


def _summary(way: dict[str, Any], best: float, config: Config) -> dict[str, Any]:
    level = best - (1 - LEVEL) * abs(best)
    objective = way["objective"]
    curves = np.full((len(objective), config.iterations + 1), np.nan)
    curves[:, : objective.shape[1]] = objective
    curves[:, objective.shape[1] :] = objective[:, -1:]
    iterations = [first_reaching(range(curves.shape[1]), curve, level) for curve in curves]
    share = way["seconds"] / len(curves)  # per start, as all starts run together
    seconds = [None if n is None else float(share[min(n, len(share) - 1)]) for n in iterations]
    points = np.unique(np.round(np.geomspace(1, config.iterations + 1, 40)).astype(int)) - 1
    return {
        "iterations_to_95_percent": iterations,
        "seconds_to_95_percent": seconds,
        "reached": sum(n is not None for n in iterations),
        "finals": curves[:, -1].tolist(),
        "best": float(curves[:, -1].max()),
        "seconds_per_iteration": float(share[-1] / (len(share) - 1)),
        "curve": {
            "x": points.tolist(),
            **{
                name: np.quantile(curves[:, points], q, axis=0).tolist()
                for name, q in (("low", 0.25), ("median", 0.5), ("high", 0.75))
            },
            "runs": [[float(f"{value:.6g}") for value in one] for one in curves[:, points]],
        },
    }


def quartiles(numbers: list[Any]) -> list[float | None]:
    """The three quartiles, where None counts as infinity and stands for it in the result."""
    filled = sorted(np.inf if number is None else number for number in numbers)
    places = [round(q * (len(filled) - 1)) for q in (0.25, 0.5, 0.75)]
    return [None if np.isinf(filled[place]) else float(filled[place]) for place in places]


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """The value against iterations, median and quartiles over the starts."""
    problems = results["problems"]
    columns = min(len(problems), 3)
    rows = -(-len(problems) // columns)
    figure, axes = new_figure(rows, columns, squeeze=False)
    for axis, (name, problem) in zip(axes.flat, problems.items(), strict=False):
        for method, found in problem["methods"].items():
            x = np.array(found["curve"]["x"]) + 1
            label, color = look(method)
            axis.plot(x, found["curve"]["median"], color=color, label=label)
            axis.fill_between(
                x, found["curve"]["low"], found["curve"]["high"], color=color, alpha=0.15, lw=0
            )
        if problem["optimum"] is not None:
            axis.axhline(problem["optimum"], color="black", lw=0.8, ls=":", label="optimum")
        top = problem["optimum"] or problem["best"]
        low = min(
            min(found["curve"]["median"][len(x) // 4 :]) for found in problem["methods"].values()
        )
        axis.set_ylim(max(low, top - 4 * abs(top)) - 0.05 * abs(top), top + 0.08 * abs(top))
        axis.set_xscale("log")
        axis.set_title(f"{name.replace('_', ' ')}, {problem['nodes']} nodes")
        axis.set_xlabel("iteration + 1")
        axis.set_ylabel("value")
    for axis in axes.flat[len(problems) :]:
        axis.axis("off")
    legend_below(figure, axes.flat)
    return {"fsc": figure}


def table(results: dict[str, Any]) -> Table:
    """Median iterations and seconds to 95 % of the best value, with quartiles."""
    shown = new_table(
        "To 95 % of the best value: median (quartiles) over starts",
        "",
        "starts that\nreach it",
        "iterations",
        "CPU ms per start",
        "best\nvalue",
    )
    for name, problem in results["problems"].items():
        shown.add_section()
        optimum = "" if problem["optimum"] is None else f"of {problem['optimum']:.4g}"
        shown.add_row(f"[b]{name}[/b]", "", "", "", optimum)
        for method, found in problem["methods"].items():
            shown.add_row(
                look(method).label,
                f"{found['reached']}/{len(found['finals'])}",
                _range(quartiles(found["iterations_to_95_percent"]), 1),
                _range(quartiles(found["seconds_to_95_percent"]), 1000),
                f"{found['best']:.4g}",
            )
    return shown


def _range(three: list[float | None], scale: float) -> str:
    low, median, high = ("-" if x is None else f"{scale * x:.3g}" for x in three)
    return f"{median} ({low}, {high})"
