"""Do H12 and the rate of the first method vanish as features get rich? Sections 4.1 and 4.2.3.

Random MDPs with two actions, and policies with 1, 2, ... features up to as many as states, which
are a table. At an optimum of each, the norm of H12 + H12' is compared with that of the Hessian, and
the rates of both Gauss-Newton methods are predicted; that of the first method is measured too, by
the paper's definition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from rich.table import Table

from mdpnewton.analysis.finite import analyze
from mdpnewton.domains.garnet import garnet
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings
from mdpnewton.jobs.job import Work
from mdpnewton.methods import direction
from mdpnewton.policies import Categorical
from mdpnewton.report.figures import legend_below, new_figure
from mdpnewton.report.tables import new_table
from mdpnewton.training.plan import stationary_point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEPS, NEAR, ROUND_OFF = 12, 1e-2, 1e-12
QUANTITIES = ("ratio", "first_rate", "second_rate", "measured")


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        n_states: Number of states of the random MDPs.
        discount: Discount factor.
        features: Numbers of features, separated by commas; as many as there are states are a table.
        runs: Number of random MDPs.
        floor: Smallest probability of an action.
        iterations: Maximum number of steps of the search for an optimum.
    """

    n_states: int = 12
    discount: float = 0.9
    features: str = "1,2,4,8,12"
    runs: int = 4
    floor: float = 0.05
    iterations: int = 200

    def __post_init__(self) -> None:
        bounds = {"above": 0.0, "below": 0.5}
        check_settings(self, discount={"least": 0, "below": 1}, floor=bounds)

    @property
    def counts(self) -> list[int]:
        """The numbers of features."""
        try:
            found = sorted({int(word) for word in self.features.split(",")})
        except ValueError:
            found = [0]
        if found[0] < 1 or found[-1] > self.n_states:
            raise ValueError(
                f"--set features={self.features}: needs whole numbers from 1 to the number of "
                f"states, {self.n_states}, separated by commas"
            )
        return found


SCALES = {
    "quick": Config(n_states=8, features="1,4,8", runs=1, iterations=60),
    "laptop": Config(runs=10),
    "paper": Config(n_states=24, features="1,2,4,8,12,16,20,24", runs=30),
}


class Turned(Categorical):
    """Two actions with pi(1|s) = floor + (1 - 2 floor) sin(pi/4 + w'phi(s))^2.

    A softmax is best at infinity, where no rate is defined; this policy is best where the angle is
    0 or pi/2, and smooth there.
    """

    features: Float[Array, "S n"]
    floor: float
    log_concave = False
    blockwise_log_concave = False
    constant_curvature = False

    def logits(self, w: Any, state: Any) -> Float[Array, " 2"]:
        """The logarithms of both probabilities."""
        angle = jnp.pi / 4 + self.features[state] @ w
        share = jnp.stack([jnp.cos(angle), jnp.sin(angle)]) ** 2
        return jnp.log(self.floor + (1 - 2 * self.floor) * share)

    def initial_parameters(self) -> Float[Array, " n"]:
        """Both actions alike."""
        return jnp.zeros(self.features.shape[1])


def work(config: Config, seed: int) -> Work:
    """Every quantity for every number of features, over the random MDPs."""
    names = [str(count) for count in config.counts]
    runs = Runs(measured, config, seed, names, config.runs)
    found = runs.of((yield runs.jobs))
    rows = {}
    for name in names:
        kept = [one for one in found[name] if one["optimum"]]
        columns = {what: [one[what] for one in kept] for what in QUANTITIES}
        rows[name] = {
            "optima": len(kept),
            "consistent": sum(one["consistent"] for one in kept),
            "values": columns,
            "median": {what: _median(column) for what, column in columns.items()},
        }
    curves = {what: {"curve": _curve(rows, what)} for what in QUANTITIES}
    verdict = _verdict(rows)
    return {"features": rows, "curves": curves, "runs": config.runs, "verdict": verdict}


def measured(settings: dict[str, Any], seed: int, method: str, number: int) -> dict[str, Any]:
    """One MDP with one number of features, which is the name of the "method"."""
    config, count = Config(**settings), int(method)
    mdp = garnet(1000 * seed + number, config.n_states, 2, discount=config.discount)
    rng = np.random.default_rng([seed, number])
    basis = np.linalg.qr(rng.normal(size=(config.n_states, config.n_states)))[0]
    policy = Turned(jnp.asarray(basis[:, :count]), config.floor)
    w = stationary_point(mdp, policy, policy.initial_parameters(), config.iterations)
    found = analyze(mdp, policy, w, stationary_tolerance=1e-6)
    hessian = found.terms["hessian"]
    rates = found.rates
    optimum = found.stationary and bool(np.linalg.eigvalsh(hessian).max() < 0) and len(rates) == 3
    if not optimum:
        return {"optimum": False}
    cross = found.terms["H12"] + found.terms["H12"].T
    return {
        "optimum": True,
        "consistent": found.consistency is not None and found.consistency.consistent,
        "ratio": float(np.linalg.norm(cross, 2) / np.linalg.norm(hessian, 2)),
        "first_rate": rates["first_gauss_newton"].rate,
        "second_rate": rates["second_gauss_newton"].rate,
        "measured": _measured_rate(FiniteEvaluator(mdp), policy, w, rng),
    }


def _measured_rate(evaluator: FiniteEvaluator, policy: Turned, best: Any, rng: Any) -> float | None:
    """|U - L| after a step of the first method over that before, on the way to the optimum."""
    pairs = evaluator.evaluate(None, policy, best)
    limit, floor = pairs.objective, ROUND_OFF * abs(pairs.objective)
    w = best + NEAR * jnp.asarray(rng.normal(size=best.shape)) / best.size**0.5
    gaps: list[float] = []
    for _ in range(STEPS):
        pairs = evaluator.evaluate(None, policy, w)
        gap = abs(pairs.objective - limit)
        if not gap > floor:
            break
        gaps.append(gap)
        w = w + direction("first_gauss_newton", policy, w, pairs).value
    return gaps[-1] / gaps[-2] if len(gaps) > 1 else None


def _median(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def _curve(rows: Mapping[str, Any], what: str) -> dict[str, list[float]]:
    """The median of a quantity against the number of features, where there is one."""
    known = {int(name): row["median"][what] for name, row in rows.items()}
    kept = {count: median for count, median in known.items() if median is not None}
    return {"x": list(kept), "median": list(kept.values())}


def _verdict(rows: Mapping[str, Any]) -> str:
    """What the medians say of the claim that both go to zero with the number of features."""
    known = [row["median"] for row in rows.values() if row["optima"]]
    if len(known) < 2:
        return "too few optima were found to say anything"
    said = []
    for what, name in (("ratio", "|H12 + H12'| / |H|"), ("first_rate", "the first method's rate")):
        first, last = known[0][what], known[-1][what]
        middle = [one[what] for one in known[1:-1]]
        falls = all(a >= b for a, b in zip([first, *middle], [*middle, last], strict=True))
        way = "falls all the way" if falls else "rises before it falls"
        said.append(f"{name} {way}, from {first:.2g} to {last:.2g}")
    return "; ".join(said)


def draw(results: dict[str, Any], config: Config) -> dict[str, "Figure"]:
    """The ratio and the rates against the number of features, with every run as a dot."""
    figure, axes = new_figure(1, 2)
    counts = [int(name) for name in results["features"]]
    rows = list(results["features"].values())
    for axis, shown in ((axes[0], ("ratio",)), (axes[1], ("first_rate", "second_rate"))):
        for what in shown:
            medians = [np.nan if r["median"][what] is None else r["median"][what] for r in rows]
            (line,) = axis.plot(counts, medians, "-o", label=what.replace("_", " "))
            for count, row in zip(counts, rows, strict=True):
                values = [value for value in row["values"][what] if value is not None]
                axis.plot([count] * len(values), values, ".", color=line.get_color(), alpha=0.3)
        axis.set_xlabel("features")
        axis.set_yscale("symlog", linthresh=1e-3)
    axes[0].set_title("|H12 + H12'| / |H| at the optimum")
    axes[1].set_title("predicted rates at step 1")
    legend_below(figure, axes[1:])
    return {"richness": figure}


def table(results: dict[str, Any]) -> Table:
    """The medians, and the verdict."""
    shown = new_table(
        f"From one feature to a table: medians of {results['runs']} random MDPs",
        *("features", "optima", "ratio", "first", "squared", "in U", "second"),
    )
    for name, row in results["features"].items():
        median = row["median"]
        first = median["first_rate"]
        numbers = [median["ratio"], first, None if first is None else first**2]
        numbers += [median["measured"], median["second_rate"]]
        said = ["-" if value is None else f"{value:.3g}" for value in numbers]
        shown.add_row(name, str(row["optima"]), *said)
    shown.caption = results["verdict"]
    return shown
