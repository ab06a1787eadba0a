"""Out of a saddle: controllers whose nodes begin almost alike, by Newton's steps within a region.

While the nodes of a controller are alike it has no memory, and the gradient does not say how to get
one: the best policy without memory is a saddle of the Hessian. Starts are random policies without
memory whose nodes differ by a little noise. Newton's method in a trust region and with a cubic term
is compared with second Gauss-Newton, natural and Adam, whose learning rate is tuned on other
starts. All evaluations are exact.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree
from rich.table import Table

from mdpnewton.comparison.intervals import interval, paired_differences
from mdpnewton.evaluators import ControllerEvaluator
from mdpnewton.experiments.learning_curves import first_reaching, median_reached
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings, listed
from mdpnewton.files.pomdp import load_pomdp
from mdpnewton.jobs import job_checkpoint
from mdpnewton.jobs.job import Work
from mdpnewton.models.pomdp import optimal_value
from mdpnewton.policies import FiniteStateController
from mdpnewton.report.figures import legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.training.controllers import search_controllers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NODES = {"load_unload": 2, "mccallum_grid": 3}
METHODS = ("trust_region_newton", "cubic_newton", "second_gauss_newton", "natural", "adam")
LEVEL = 0.95  # of the best value
EVEN = 1e-3  # of it, below which a difference does not matter
FRESH = 1000  # seed of the first start that is reported; those of tuning begin at 0


def _numbers(name: str, text: str) -> list[str]:
    """The words of a setting that are numbers above 0."""
    try:
        found = [float(word) for word in text.split(",")]
    except ValueError:
        found = [0.0]
    if not all(0 < number < np.inf for number in found):
        raise ValueError(f"--set {name}={text}: needs numbers above 0, separated by commas")
    return text.split(",")


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        problems: Names of the POMDPs, separated by commas.
        spreads: Standard deviations of the noise that tells the nodes apart, separated by commas.
        starts: Number of starts that are reported.
        tuning: Number of other starts, on which Adam's learning rate is chosen.
        rates: Learning rates to choose from, separated by commas.
        iterations: Maximum number of iterations per start.
    """

    problems: str = "load_unload"
    spreads: str = "0.001"
    starts: int = 2
    tuning: int = 1
    rates: str = "0.1,0.3"
    iterations: int = 25

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("spreads", "rates"):
            _numbers(name, getattr(self, name))


SCALES = {
    "quick": Config(),
    "laptop": Config(
        problems=",".join(NODES),
        spreads="0.001,1",
        starts=20,
        tuning=10,
        rates="0.01,0.03,0.1,0.3,1",
        iterations=3000,
    ),
    "paper": Config(
        problems=",".join(NODES),
        spreads="0.0001,0.001,0.01,0.1,1",
        starts=100,
        tuning=10,
        rates="0.01,0.03,0.1,0.3,1",
        iterations=10000,
    ),
}


def work(config: Config, seed: int) -> Work:
    """The share of the best value, for every problem, spread and method."""
    cases = {
        f"{name}, {spread}": {"problem": name, "spread": float(spread)}
        for name in listed("problems", config.problems, NODES)
        for spread in _numbers("spreads", config.spreads)
    }
    rates = _numbers("rates", config.rates)
    tuning = {
        case: Runs(tuned, config, seed, rates, 1, f"tuning-{_part(case)}-", about)
        for case, about in cases.items()
    }
    tried = yield [job for runs in tuning.values() for job in runs.jobs]
    chosen: dict[str, dict[str, Any]] = {}
    for case, runs in tuning.items():
        means = {rate: float(np.mean(found[0])) for rate, found in runs.of(tried).items()}
        rate = max(rates, key=lambda rate, means=means: means[rate])  # type: ignore[misc]
        chosen[case] = {"rate": float(rate), "means": means}
    reported = {
        case: Runs(
            *(searched, config, seed, METHODS, 1, f"{_part(case)}-"),
            {**about, "rate": chosen[case]["rate"]},
        )
        for case, about in cases.items()
    }
    optima = {
        case: Runs(
            optimum, config, seed, ["optimum"], 1, f"{_part(case)}-", {"problem": one["problem"]}
        )
        for case, one in cases.items()
    }
    found = yield [job for case in cases for job in (*reported[case].jobs, *optima[case].jobs)]
    shown = {}
    for case, about in cases.items():
        ways = {method: one[0] for method, one in reported[case].of(found).items()}
        best = max(float(way["objective"].max()) for way in ways.values())
        known = optima[case].of(found)["optimum"][0]
        shown[case] = {
            **about,
            "best": best,
            "optimum": known,
            "tuning": chosen[case],
            "methods": {method: _summary(way, best, config) for method, way in ways.items()},
        }
    return {"cases": shown, "starts": config.starts, "verdict": _verdict(shown)}


def _part(case: str) -> str:
    return case.replace(", ", "-").replace(".", "p")


def begun(policy: FiniteStateController, spread: float, seeds: range) -> PyTree:
    """Random policies without memory, as controllers whose nodes differ by noise of that size."""

    def start(seed: int) -> PyTree:
        shared, apart = jax.random.split(jax.random.key(seed))
        w = policy.random_parameters(apart, spread)
        shape = (policy.n_observations, policy.n_actions)
        same = jnp.tile(jax.random.normal(shared, shape), (policy.nodes, 1))
        return {**w, "action": w["action"] + same}

    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(start, seeds))


def tuned(
    settings: dict[str, Any], seed: int, problem: str, spread: float, method: str, number: int
) -> list[float]:
    """The best values of Adam with a learning rate, the name of the "method", on other starts."""
    config, evaluator = Config(**settings), ControllerEvaluator(load_pomdp(problem))
    policy = evaluator.controller(NODES[problem])
    starts = begun(policy, spread, range(config.tuning))
    way = search_controllers(
        *(evaluator, policy, starts, "adam"),
        iterations=config.iterations,
        learning_rate=float(method),
    )
    if way.interrupted:
        raise KeyboardInterrupt
    return [float(value) for value in way.objective.max(axis=1)]


def searched(
    settings: dict[str, Any],
    seed: int,
    problem: str,
    spread: float,
    rate: float,
    method: str,
    number: int,
) -> dict[str, Any]:
    """The searches of a method from all starts; two iterations come first, to compile."""
    config, evaluator = Config(**settings), ControllerEvaluator(load_pomdp(problem))
    policy = evaluator.controller(NODES[problem])
    first = FRESH * (1 + seed)
    starts = begun(policy, spread, range(first, first + config.starts))
    for iterations, checkpoint in ((2, None), (config.iterations, job_checkpoint())):
        way = search_controllers(
            *(evaluator, policy, starts, method),
            iterations=iterations,
            learning_rate=rate,
            checkpoint=checkpoint,
        )
        if way.interrupted:
            raise KeyboardInterrupt
    return {"objective": way.objective, "seconds": way.seconds}


def optimum(
    settings: dict[str, Any], seed: int, problem: str, method: str, number: int
) -> float | None:
    """Value of the best policy with any memory, where it can be computed."""
    return optimal_value(load_pomdp(problem))


def _summary(way: Mapping[str, Any], best: float, config: Config) -> dict[str, Any]:
    objective = way["objective"]
    objective = np.maximum.accumulate(objective, axis=1)  # Adam keeps the best point
    more = config.iterations + 1 - objective.shape[1]
    shares = np.pad(objective, ((0, 0), (0, more)), mode="edge") / best
    reached = [first_reaching(range(shares.shape[1]), one, LEVEL) for one in shares]
    finals = shares[:, -1]
    mean, low, high = interval(lambda groups: groups[0]["all"].mean(), [{"all": finals}])
    points = np.unique(np.round(np.geomspace(1, config.iterations + 1, 40)).astype(int)) - 1
    shown = shares[:, points]
    error = shown.std(axis=0, ddof=1) / len(shown) ** 0.5 if len(shown) > 1 else 0 * shown[0]
    return {
        "share": float(mean),
        "low": low,
        "high": high,
        "finals": finals.tolist(),
        "reached": sum(one is not None for one in reached),
        "iterations_to_95_percent": reached,
        "seconds": float(way["seconds"][-1] / len(objective)),
        "curve": {
            "x": points.tolist(),
            "mean": shown.mean(axis=0).tolist(),
            "stderr": error.tolist(),
            "runs": [[float(f"{value:.6g}") for value in one] for one in shown],
        },
    }


def _verdict(cases: Mapping[str, Any]) -> str:
    """What the shares say of steps within a region against the others, from the same starts."""
    said = []
    for case, found in cases.items():
        finals = {method: one["finals"] for method, one in found["methods"].items()}
        ours, best = (
            max(some, key=lambda method: np.mean(finals[method]))
            for some in (METHODS[:2], METHODS[2:])
        )
        gap = paired_differences({name: finals[name] for name in (ours, best)})[ours][best]
        word = "not told apart from"
        if abs(gap["mean"]) < EVEN:
            word = "level with"
        elif gap["low"] is not None and gap["low"] > 0:
            word = "ahead of"
        elif gap["high"] is not None and gap["high"] < 0:
            word = "behind"
        shown = [f"{look(name).label} ({np.mean(finals[name]):.2f})" for name in (ours, best)]
        said.append(f"{case}: {shown[0]} is {word} {shown[1]}, the best of the others")
    return "; ".join(said)


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """The mean share of the best value against iterations, with standard errors."""
    cases = results["cases"]
    columns = min(len(cases), 2)
    figure, axes = new_figure(-(-len(cases) // columns), columns, squeeze=False)
    for axis, found in zip(axes.flat, cases.values(), strict=False):
        for method, one in found["methods"].items():
            label, color = look(method)
            curve = one["curve"]
            x, mean = np.array(curve["x"]) + 1, np.array(curve["mean"])
            error = np.array(curve["stderr"])
            axis.plot(x, mean, color=color, label=label)
            axis.fill_between(x, mean - error, mean + error, color=color, alpha=0.15, lw=0)
        axis.set_xscale("log")
        axis.set_ylim(-0.02, 1.05)
        axis.set_title(f"{found['problem'].replace('_', ' ')}, spread {found['spread']:g}")
        axis.set_xlabel("iteration + 1")
        axis.set_ylabel("share of the best value")
    for axis in axes.flat[len(cases) :]:
        axis.axis("off")
    legend_below(figure, axes.flat)
    return {"saddle": figure}


def table(results: dict[str, Any]) -> Table:
    """The shares with intervals, who reached the best value, and what it cost."""
    shown = new_table(
        f"Share of the best value, mean of {results['starts']} starts",
        *("", "share", "95 % interval", "reached", "iterations", "CPU s per start"),
    )
    for case, found in results["cases"].items():
        shown.add_section()
        shown.add_row(f"[b]{case.replace('_', ' ')}[/b]", "", "", "", "", "")
        for method, one in found["methods"].items():
            label = look(method).label
            label += f", rate {found['tuning']['rate']}" if method == "adam" else ""
            median = median_reached(one["iterations_to_95_percent"])
            shown.add_row(
                label,
                f"{one['share']:.3f}",
                f"{one['low']:.2f} to {one['high']:.2f}",
                f"{one['reached']}/{len(one['finals'])}",
                "-" if median is None else f"{median:.0f}",
                f"{one['seconds']:.2g}",
            )
    shown.caption = results["verdict"]
    return shown
