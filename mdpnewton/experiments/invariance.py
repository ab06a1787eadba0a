"""Affine invariance on Kakade's two-state problem, Section 6.1, Figure 3.

Every method is trained in the original parameters, after a diagonal rescaling and after a
general linear map; the traces are mapped back and compared.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from rich.table import Table

from mdpnewton.domains.two_state import start_parameters, two_state_mdp, two_state_policy
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings
from mdpnewton.jobs.job import Work
from mdpnewton.loop import SearchResult, search
from mdpnewton.policies import Policy, Reparametrized
from mdpnewton.report.figures import legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.steps import Constant

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Paper: step sizes are not given. Here: sizes that give traces of about the same length.
STEPS = {
    "steepest": 0.5,
    "first_gauss_newton": 0.2,
    "second_gauss_newton": 1.0,
    "diagonal_first_gauss_newton": 0.2,
    "diagonal_second_gauss_newton": 1.0,
}
KINDS = ("rescaled", "linear")


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        discount: Discount factor.
        move_first: Probability that the initial policy leaves the first state. That policy
            occupies the first state 80 % of the time.
        iterations: Number of steps per method.
        maps: Number of random maps of each kind. The figure shows the first.
    """

    discount: float = 0.9
    move_first: float = 0.1
    iterations: int = 20
    maps: int = 1

    def __post_init__(self) -> None:
        check_settings(self, move_first={"above": 0, "below": 1})


SCALES = {"quick": Config(), "laptop": Config(maps=20), "paper": Config(maps=100)}


def work(config: Config, seed: int) -> Work:
    """Traces of the first map, and the largest and smallest distances over all maps."""
    two_state_mdp(config.discount)  # refuses a bad discount before anything is computed
    plain = Runs(original_trace, config, seed, list(STEPS), 1, part="original-")
    runs = Runs(mapped_traces, config, seed, list(STEPS), config.maps, part="mapped-")
    found = yield [*plain.jobs, *runs.jobs]
    original = {method: one[0] for method, one in plain.of(found).items()}
    mapped = runs.of(found)
    distances = {
        method: {kind: [_distance(original[method], one[kind]) for one in ways] for kind in KINDS}
        for method, ways in mapped.items()
    }
    first = _maps(seed, 0)
    shown: dict[str, Any] = {
        kind: {
            **{method: ways[0][kind].tolist() for method, ways in mapped.items()},
            "matrix": first[kind].tolist(),
        }
        for kind in KINDS
    }
    return {
        "distance": {m: {k: max(d[k]) for k in KINDS} for m, d in distances.items()},
        "smallest_distance": {m: {k: min(d[k]) for k in KINDS} for m, d in distances.items()},
        "maps": config.maps,
        "step_sizes": STEPS,
        "traces": {"original": {m: t.tolist() for m, t in original.items()}, **shown},
    }


def original_trace(settings: dict[str, Any], seed: int, method: str, number: int) -> np.ndarray:
    """The trace of a method in the original parameters."""
    config, policy = Config(**settings), two_state_policy()
    found = _found(config, policy, jnp.asarray(start_parameters(config.move_first)), method)
    return np.array(found.trace)


def mapped_traces(
    settings: dict[str, Any], seed: int, method: str, number: int
) -> dict[str, np.ndarray]:
    """The traces of a method after one map of each kind, mapped back."""
    config, policy = Config(**settings), two_state_policy()
    w = jnp.asarray(start_parameters(config.move_first))
    traces = {}
    for kind, matrix in _maps(seed, number).items():
        mapped = Reparametrized(policy, matrix)
        found = _found(config, mapped, mapped.transformed(w), method)
        traces[kind] = np.array([mapped.original(v) for v in found.trace])
    return traces


def _found(config: Config, policy: Policy, start: Any, method: str) -> SearchResult:
    return search(
        FiniteEvaluator(two_state_mdp(config.discount)),
        policy,
        start,
        method,
        Constant(STEPS[method]),
        iterations=config.iterations,
        gradient_tolerance=0.0,
        patience=None,
        keep_trace=True,
    ).or_interrupt()


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """The traces in both spaces, mapped back, as in Figure 3."""
    figure, axes = new_figure(1, 2, sharey=True)
    traces = [np.array(one) for kind in results["traces"].values() for one in kind.values()]
    spread = np.concatenate(traces)
    low, high = spread.min(axis=0), spread.max(axis=0)
    margin = 0.06 * (high - low)
    for axis, kind in zip(axes, KINDS, strict=True):
        for method in STEPS:
            first = np.array(results["traces"]["original"][method])
            second = np.array(results["traces"][kind][method])
            # Where methods coincide, the diagonal ones are thin lines with large squares on top.
            size, width = (9, 0.8) if method.startswith("diagonal") else (5, 3.0)
            style: dict[str, Any] = {"color": look(method).color, "lw": width, "mew": 1.0}
            axis.plot(*first.T, "-s", mfc="none", ms=size, label=look(method).label, **style)
            axis.plot(*second.T, ":*", ms=0.7 * size, **style)
        axis.set_xlim(low[0] - margin[0], high[0] + margin[0])
        axis.set_ylim(low[1] - margin[1], high[1] + margin[1])
        axis.set_title({"rescaled": "diagonal rescaling", "linear": "general linear map"}[kind])
        axis.set_xlabel("$w_1$, self-loop of state 1")
    axes[0].set_ylabel("$w_2$, self-loop of state 2")
    legend_below(figure, axes[:1], 5)
    figure.suptitle("Squares: original parameters. Stars: mapped parameters, mapped back.")
    return {"invariance": figure}


def table(results: dict[str, Any]) -> Table:
    """Distance between the traces, relative to their length."""
    title = "Largest relative distance between a trace and its mapped twin"
    shown = new_table(title, "method", "after rescaling", "after a linear map")
    for method, found in results["distance"].items():
        shown.add_row(look(method).label, f"{found['rescaled']:.1e}", f"{found['linear']:.1e}")
    return shown


def _maps(seed: int, number: int) -> dict[str, np.ndarray]:
    """The maps of a run; they are drawn one after the other."""
    rng = np.random.default_rng(seed)
    drawn = [{kind: _random_map(rng, kind) for kind in KINDS} for _ in range(number + 1)]
    return drawn[number]


def _random_map(rng: np.random.Generator, kind: str) -> np.ndarray:
    if kind == "rescaled":
        return np.diag(np.exp(rng.choice([-1, 1], 2) * rng.uniform(0.5, 1.0, 2)))
    while True:
        matrix = rng.normal(size=(2, 2))
        if np.linalg.cond(matrix) < 5:
            return matrix


def _distance(first: np.ndarray, second: np.ndarray) -> float:
    """Largest distance between two traces, relative to the extent of the first."""
    extent = np.linalg.norm(first - first[0], axis=1).max()
    return float(np.linalg.norm(first - second, axis=1).max() / extent)
