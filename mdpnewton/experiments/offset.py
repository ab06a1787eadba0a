"""A constant added to every reward changes the second Gauss-Newton step unless it is removed."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PyTree
from rich.table import Table

from mdpnewton.curvature import curvature
from mdpnewton.domains.garnet import garnet
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.experiments.learning_curves import summary
from mdpnewton.experiments.own_model import MOST, mdp_digest, own_mdp
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings
from mdpnewton.jobs.job import Work
from mdpnewton.loop import search
from mdpnewton.methods import Method, Precondition, TightOffset, direction
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.optimum import policy_iteration
from mdpnewton.policies import Policy, TabularSoftmax
from mdpnewton.report.figures import Look, Looks, legend_below, look, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.solve import Dense

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Problem = tuple[FiniteMDP, Policy, PyTree]
METHODS: dict[str, Method] = {
    "raw": Precondition("H2"),
    "tight_offset": Precondition("H2", fisher_damping=TightOffset(0.2)),
    "wide_offset": Precondition("H2", fisher_damping=TightOffset(1.0)),
    "natural": Precondition("fisher", Dense()),
}
VARIANTS: Looks = {
    "raw": Look("no offset", "tab:orange"),
    "tight_offset": Look("tight offset, margin 0.2", look("second_gauss_newton").color),
    "wide_offset": Look("tight offset, margin 1", "tab:cyan"),
}


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        problems: Number of random MDPs.
        states: Number of states per MDP.
        offsets: Number of constants to add, from -1 to 4. Rewards lie in [0, 1].
        iterations: Number of steps of size 1 after which the objective is compared.
        model: Your own model file with a discount, in place of the random MDPs.
    """

    problems: int = 2
    states: int = 10
    offsets: int = 6
    iterations: int = 5
    model: str = ""

    def __post_init__(self) -> None:
        check_settings(self)


SCALES = {
    "quick": Config(),
    "laptop": Config(problems=10, states=20, offsets=11, iterations=20),
    "paper": Config(problems=100, states=20, offsets=21, iterations=20),
}


def work(config: Config, seed: int) -> Work:
    """For every offset, the length of the first step and the final share of the possible gain."""
    added = _offsets(config)
    more = {"digest": mdp_digest(config.model, MOST)} if config.model else {}
    if config.model:
        _own(config)  # refuses what has no discount
    runs = Runs(stepped, config, seed, list(METHODS), 1 if more else config.problems, more=more)
    found = runs.of((yield runs.jobs))

    def part(name: str) -> dict[str, Any]:
        return {
            method: summary(added, [one[name] for one in rows]) for method, rows in found.items()
        }

    return {"methods": part("gain"), "lengths": part("length")}


def stepped(
    settings: dict[str, Any], seed: int, method: str, number: int, digest: str = ""
) -> dict[str, list[float]]:
    """Length of the first step and share of the gain for every offset, on one MDP."""
    config = Config(**settings)
    if config.model:
        plain, policy, w = _own(config, digest)
    else:
        plain = garnet(int(np.random.default_rng([seed, number]).integers(2**31)), config.states)
        policy = TabularSoftmax(plain.n_states, plain.n_actions, reduced=True)
        w = policy.initial_parameters()
    best, rows = policy_iteration(plain).objective, []
    for constant in _offsets(config):
        mdp = replace(plain, reward=plain.reward + constant)
        one = mdp, policy, w
        rows.append(_first_and_last(one, METHODS[method], constant, best, config.iterations))
    return {name: [float(row[n]) for row in rows] for n, name in enumerate(("length", "gain"))}


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """The length of the first step on the left, the gain of all steps on the right."""
    figure, axes = new_figure(1, 2)
    for axis, part in zip(axes, ("lengths", "methods"), strict=True):
        for name, found in results[part].items():
            x, mean = np.array(found["curve"]["x"]), np.array(found["curve"]["mean"])
            label, color = look(name, VARIANTS)
            axis.plot(x, mean, color=color, label=label)
        axis.set_xlabel("added to every reward")
    axes[0].set_yscale("log")
    axes[0].set_ylabel("length of the first step")
    axes[1].set_ylabel(f"share of the possible gain\nafter {config.iterations} steps of size 1")
    legend_below(figure, axes, 4)
    return {"offset": figure}


def table(results: dict[str, Any]) -> Table:
    """The share of the gain for the smallest offset, one near zero and the largest."""
    x = results["methods"]["raw"]["curve"]["x"]
    shown_at = (0, len(x) // 5, len(x) - 1)
    shown = new_table(
        "Share of the possible gain, steps of size 1",
        "method",
        *(f"rewards {x[n]:+.2g}" for n in shown_at),
    )
    for name, found in results["methods"].items():
        numbers = [f"{found['curve']['mean'][n]:.3f}" for n in shown_at]
        shown.add_row(look(name, VARIANTS).label, *numbers)
    return shown


def _offsets(config: Config) -> np.ndarray:
    return np.linspace(-1.0, 4.0, config.offsets)


def _own(config: Config, digest: str = "") -> Problem:
    mdp, policy, w = own_mdp(config.model, digest, MOST)
    if mdp.criterion != "discounted" or mdp.stop is not None:
        raise ValueError(
            f"--set model={config.model}: needs criterion 'discounted' without `stop`, where a "
            f"constant adds the same to the value of every policy"
        )
    return mdp, policy, w


def _first_and_last(
    problem: Problem, method: Method, constant: float, best: float, iterations: int
) -> tuple[float, float]:
    """Length of the first step in the Fisher metric, and the share of the gain at the end."""
    mdp, policy, w = problem
    evaluator = FiniteEvaluator(mdp)
    pairs = evaluator.evaluate(None, policy, w)
    ahead = direction(method, policy, w, pairs)
    fisher = curvature(policy, w, pairs, "fisher_score")
    length = float(np.sqrt(np.sum(np.asarray(ahead.value * fisher.mv(ahead.value)))))
    found = search(evaluator, policy, w, method, iterations=iterations, patience=None)
    shift = constant / (1 - mdp.discount)
    start = pairs.objective - shift
    return length, (found.or_interrupt().last_objective - shift - start) / (best - start)
