"""The 3-link manipulator, Section 6.4, Figure 6 and Table 1: line search, and a fixed step size.

Every direction is exact. Rewards are shares of the best reward that any method reached from the
same start.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mdpnewton.domains.manipulator import Manipulator, manipulator
from mdpnewton.evaluators import LinearGaussianEvaluator
from mdpnewton.experiments.learning_curves import (
    FRESH,
    at_points,
    first_reaching,
    summary,
)
from mdpnewton.experiments.manipulator_rows import EM, FIRST_SIZES, ROWS, RULES, Row
from mdpnewton.experiments.manipulator_shown import draw as draw
from mdpnewton.experiments.manipulator_shown import pictures as pictures
from mdpnewton.experiments.manipulator_shown import table as table
from mdpnewton.experiments.runs import Runs
from mdpnewton.experiments.settings import check_settings, listed
from mdpnewton.experiments.timed_search import Way, timed_search
from mdpnewton.jobs.job import Job, Results, Work
from mdpnewton.loop import Record

POINTS = 101  # number of points per curve
DIVERGED = 0.5  # a run diverged if it ends below this share of its own best


@dataclass(frozen=True)
class Config:
    """Settings.

    Attributes:
        steps: Step rule of the methods: "line search" or "fixed step".
        runs: Number of problems. Each has its own start, target and initial parameters.
        iterations: Number of iterations per method. In the comparison with line searches, EM has no
            line search and gets three times as many.
        links: Number of links, N.
        horizon: Number of time steps per episode, H.
        methods: Names of the methods, separated by commas; by default those of the results page.
        rule: Line search of all methods, one of the paper's five: "halving", "quadratic"
            (interpolation by values), "gradient" (cubic interpolation), "bisection" (doubling and
            bisection) or "wolfe" (cubic interpolation and extrapolation).
        first: First size of a line search: "quadratic" or "twice" the previous one.
        tuning_runs: Number of other problems, on which each method chooses its rule and its first
            size among all ten pairs; with 0, `rule` and `first` hold for all.
        gradient_norm: Norm of the gradient of log U at which a search stops, for counts as in Table
            1; with 0, it goes on.
        sigma: Parameter that a fixed step changes beside K and m: "log" for log sigma, or "raw" for
            sigma itself, as in the paper.
    """

    steps: str = "line search"
    runs: int = 2
    iterations: int = 15
    links: int = 3
    horizon: int = 100
    methods: str = ""
    rule: str = "wolfe"
    first: str = "twice"
    tuning_runs: int = 0
    gradient_norm: float = 0.0
    sigma: str = "log"

    def __post_init__(self) -> None:
        check_settings(
            self,
            steps=ROWS,
            rule=RULES,
            first=FIRST_SIZES,
            tuning_runs=0,
            gradient_norm=0,
            sigma=("log", "raw"),
        )


SCALES = {
    "quick": Config(),
    "laptop": Config(runs=24, iterations=1000),
    "paper": Config(runs=100, iterations=1000),
}


def work(config: Config, seed: int) -> Work:
    """Shares of the best reward against iterations and seconds, for every method."""
    every = ROWS[config.steps]
    shown = config.methods or ",".join(name for name, row in every.items() if row.default)
    rows = {name: every[name] for name in listed("methods", shown, every)}
    rules = dict.fromkeys(rows, (config.rule, config.first))
    tuned: dict[str, Any] = {}
    if config.tuning_runs and config.steps == "line search":
        tuned = yield from _tuned(config, seed, [name for name in rows if rows[name].searches])
        rules |= {name: (one["rule"], one["first"]) for name, one in tuned.items()}
    runs = {
        name: Runs(searched_way, config, seed, [name], config.runs, more=_line(*rules[name]))
        for name in rows
    }
    jobs = [job for one in runs.values() for job in one.jobs]
    jobs.sort(key=lambda job: int(job.arguments["number"]))  # all methods finish a problem first
    done = yield jobs
    found = {name: one.of(done)[name] for name, one in runs.items()}
    ways = {name: [Way(**one) for one in each] for name, each in found.items()}
    best: list[float] = []
    poses: list[Any] = []
    for ended in zip(*ways.values(), strict=True):
        best.append(max(way.objective.max() for way in ended))
        poses.append(max(ended, key=lambda way: way.objective[-1]).w["mean"])
    methods = {name: _summary(each, best, rows[name], config) for name, each in ways.items()}
    results: dict[str, Any] = {"methods": methods, "best": [float(b) for b in best]}
    results["seeds"] = [seed, seed + len(best) - 1]
    results["tuning"] = tuned
    if {"second_gauss_newton_30", EM} <= set(ways):
        results["to_reach_em"] = _to_reach_em(ways)
    # The problem whose best policy is best, for the pictures
    place = int(np.argmax(best))
    results["shown"] = {
        "seed": seed + place,
        "horizon": config.horizon,
        "mean": np.asarray(poses[place]).tolist(),
    }
    return results


def _tuned(config: Config, seed: int, names: list[str]) -> Generator[list[Job], Results, Any]:
    """For each method the shares of the best with all rules and first sizes, and the best pair."""
    pairs = [(rule, first) for rule in RULES for first in FIRST_SIZES]
    runs = {
        pair: Runs(
            *(searched_way, config, FRESH + seed, names, config.tuning_runs),
            *(f"{'-'.join(pair)}-", _line(*pair)),
        )
        for pair in pairs
    }
    jobs = [job for one in runs.values() for job in one.jobs]
    done = yield sorted(jobs, key=lambda job: int(job.arguments["number"]))
    ends = {
        pair: {name: [way["objective"][-1] for way in ways] for name, ways in one.of(done).items()}
        for pair, one in runs.items()
    }
    best = np.max([each for one in ends.values() for each in one.values()], axis=0)
    tuned = {}
    for name in names:
        shares = {pair: float(np.mean(ends[pair][name] / best)) for pair in pairs}
        rule, first = max(pairs, key=lambda pair: shares[pair])
        each = {"-".join(pair): share for pair, share in shares.items()}
        tuned[name] = {"rule": rule, "first": first, "shares": each}
    return tuned


def _line(rule: str, first: str) -> dict[str, str]:
    return {"rule": rule, "first": first}


def searched_way(
    settings: dict[str, Any], seed: int, method: str, number: int, rule: str, first: str
) -> dict[str, Any]:
    """One search on one problem; some steps come first, so that compilation is not timed."""
    config = Config(**settings)
    problem = manipulator(seed + number, config.links, config.horizon)
    row = ROWS[config.steps][method].with_rule(rule, first)
    if config.sigma == "raw":
        row = row.with_raw_sigma()
    way = searched(problem, row, config.iterations, warm=True, flat=config.gradient_norm)
    return {**vars(way), "w": {name: np.asarray(leaf) for name, leaf in way.w.items()}}


def searched(
    problem: Manipulator, row: Row, iterations: int, *, warm: bool = False, flat: float = 0.0
) -> Way:
    """One search from the problem's initial parameters; the values are those of U, never log U.

    Args:
        problem: The problem.
        row: Method and step rule.
        iterations: Number of iterations, before the row's own factor.
        warm: Whether to run some iterations first, so that compilation is not timed.
        flat: Norm of the gradient of log U at which to stop.
    """
    evaluator = LinearGaussianEvaluator(problem.mdp, logarithm=row.logarithm)

    def stops(record: Record) -> bool:
        scale = 1.0 if row.logarithm else record.objective
        return record.gradient_norm <= flat * scale

    found = timed_search(
        *(evaluator, problem.policy, problem.w, row.method, row.step),
        round(row.iterations * iterations),
        warm=warm,
        stops=stops,
    )
    return replace(found, objective=np.exp(found.objective)) if row.logarithm else found


def _summary(ways: list[Way], best: list[float], row: Row, config: Config) -> dict[str, Any]:
    shares = [way.objective / top for way, top in zip(ways, best, strict=True)]
    length = round(row.iterations * config.iterations)
    clock = np.unique(np.linspace(0, length, POINTS).round().astype(int))
    curves = [at_points(clock.tolist(), range(len(share)), share.tolist()) for share in shares]
    until = float(np.median([way.seconds[-1] for way in ways]))
    times = np.linspace(0, until, POINTS)
    by_time = [
        at_points(times.tolist(), way.seconds.tolist(), share.tolist())
        for way, share in zip(ways, shares, strict=True)
    ]
    return {
        **summary(clock, curves),
        "time_curve": summary(times, by_time)["curve"],
        "final_shares": [float(share[-1]) for share in shares],
        "iterations_at_stop": [len(share) - 1 for share in shares],
        "iterations_to_90_percent": [_first(share, 0.90) for share in shares],
        "iterations_to_95_percent": [_first(share, 0.95) for share in shares],
        "seconds": [float(way.seconds[-1]) for way in ways],
        "diverged": sum(_diverged(way) for way in ways),
        "refused": sum(way.refused for way in ways),
        "monotone": sum(
            bool((np.diff(way.objective) > -1e-9 * way.objective[1:]).all()) for way in ways
        ),
        "log10_sigma": [float(np.asarray(way.w["scale"]) / np.log(10)) for way in ways],
    }


def _first(share: np.ndarray, level: float) -> int | None:
    return first_reaching(range(len(share)), share, level)


def _diverged(way: Way) -> bool:
    return bool(way.objective[-1] < DIVERGED * way.objective.max())


def _to_reach_em(ways: dict[str, list[Way]]) -> dict[str, Any]:
    """The cost at which second Gauss-Newton reaches EM's final value, as a share of EM's cost."""
    iterations, seconds = [], []
    pairs = zip(ways["second_gauss_newton_30"], ways[EM], strict=True)
    for way, em in pairs:
        reached = np.flatnonzero(way.objective >= em.objective[-1])
        if reached.size:
            iterations.append(int(reached[0]) / (len(em.objective) - 1))
            seconds.append(float(way.seconds[reached[0]] / em.seconds[-1]))
    return {
        "runs": len(iterations),
        "iterations": float(np.median(iterations)) if iterations else None,
        "seconds": float(np.median(seconds)) if seconds else None,
    }
