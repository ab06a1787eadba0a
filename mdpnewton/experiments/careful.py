"""Section 5.1: second Gauss-Newton is steepest ascent in the norm of -H2, careful where V is high.

Two states are drawn anew at every step, and differ in a constant reward alone: the second one has
the higher value. Each has one parameter, and the gradient is the same in both.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from rich.table import Table

from mdpnewton.curvature import curvature, gradient
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.experiments.settings import check_settings
from mdpnewton.jobs.job import Job, Work
from mdpnewton.methods import direction
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.policies import Gibbs
from mdpnewton.report.figures import legend_below, look, new_figure
from mdpnewton.report.tables import new_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("steepest", "natural", "second_gauss_newton")
ANGLES = 181
DISCOUNT = 0.5


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        largest: The largest constant that is added to the rewards of the second state.
        points: Number of constants, from zero to the largest.
        shown: The constant with which the norms are drawn.
    """

    largest: float = 10.0
    points: int = 3
    shown: float = 4.0

    def __post_init__(self) -> None:
        check_settings(self, largest={"above": 0.0}, shown=0)


SCALES = {"quick": Config(), "laptop": Config(points=11), "paper": Config(points=41)}


def twins(offset: float) -> FiniteMDP:
    """Two states that differ in a constant reward alone."""
    reward = np.array([[1.0, 0.0], [1.0 + offset, offset]])
    return FiniteMDP(np.full((2, 2, 2), 0.5), reward, np.full(2, 0.5), DISCOUNT)


def two_parameters() -> Gibbs:
    """A logit a state, that of its first action."""
    features = np.zeros((2, 2, 2))
    features[[0, 1], 0, [0, 1]] = 1.0
    return Gibbs(features)


def work(config: Config, seed: int) -> Work:
    """Steps of all methods in both states against the ratio of values, and the norms."""
    where = f"{steps_at.__module__}:{steps_at.__name__}"
    offsets = [*np.linspace(0, config.largest, config.points).tolist(), config.shown]
    jobs = [Job(f"offset-{k}", where, {"offset": x}) for k, x in enumerate(offsets)]
    found = yield jobs
    rows = [found[job.name] for job in jobs]
    ratios = [row["values"][1] / row["values"][0] for row in rows[:-1]]
    steps = {name: [row["steps"][name] for row in rows[:-1]] for name in METHODS}
    return {
        "methods": {
            name: {"curve": {"x": ratios, "mean": [high / low for low, high in steps[name]]}}
            for name in METHODS
        },
        "values": [row["values"] for row in rows[:-1]],
        "steps": steps,
        "shown": rows[-1],
    }


def steps_at(offset: float) -> dict[str, Any]:
    """Values, steps, and for each method the norm whose steepest ascent it is."""
    policy, w = two_parameters(), jnp.zeros(2)
    pairs = FiniteEvaluator(twins(offset)).evaluate(None, policy, w)
    norms = {
        "steepest": np.eye(2),
        "natural": np.asarray(curvature(policy, w, pairs, "fisher").dense()),
        "second_gauss_newton": -np.asarray(curvature(policy, w, pairs, "H2").dense()),
    }
    return {
        "values": np.asarray(pairs.state_value).tolist(),
        "gradient": np.asarray(ravel_pytree(gradient(policy, w, pairs))[0]).tolist(),
        "steps": {
            name: np.asarray(ravel_pytree(direction(name, policy, w, pairs).value)[0]).tolist()
            for name in METHODS
        },
        "norms": {name: norm.tolist() for name, norm in norms.items()},
    }


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """Left: all steps of length one, by each norm; right: the step where the value is high."""
    figure, axes = new_figure(1, 2)
    angles = np.linspace(0, 2 * np.pi, ANGLES)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    for name in METHODS:
        label, color = look(name)
        norm = np.array(results["shown"]["norms"][name])
        size = np.sqrt(np.linalg.det(norm))  # balls of one area, so that shapes can be compared
        ball = circle / np.sqrt(np.einsum("in,ij,jn->n", circle, norm, circle)) * np.sqrt(size)
        axes[0].plot(*ball, color=color, label=label)
        step = np.array(results["shown"]["steps"][name])
        step = step / np.sqrt(step @ norm @ step) * np.sqrt(size)
        axes[0].annotate("", step, (0, 0), arrowprops={"arrowstyle": "->", "color": color})
        drawn = results["methods"][name]["curve"]
        axes[1].plot(drawn["x"], drawn["mean"], color=color, label=label, marker=".")
    axes[0].set_aspect("equal")
    axes[0].set_xlabel("parameter of the state of low value")
    axes[0].set_ylabel("parameter of the state of high value")
    axes[0].set_title("steps of length one, and the steepest")
    axes[1].set_xlabel("value of the one by value of the other")
    axes[1].set_ylabel("its step by the other's")
    axes[1].set_ylim(bottom=0)
    axes[1].set_title("careful where the value is high")
    legend_below(figure, axes, 3)
    return {"careful": figure}


def table(results: dict[str, Any]) -> Table:
    """Steps in the state of high value by those in the other."""
    columns = [look(name).label for name in METHODS]
    shown = new_table("Steps in the state of high value by those in the other", "values", *columns)
    for k, (low, high) in enumerate(results["values"]):
        steps = (results["steps"][name][k] for name in METHODS)
        shown.add_row(f"{high / low:.3g}", *(f"{step[1] / step[0]:.3f}" for step in steps))
    return shown
