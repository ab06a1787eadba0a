"""Learning curves of several methods: summaries, figures and tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.table import Table

from mdpnewton.report.figures import Look, Looks, look
from mdpnewton.simulators import CompiledSimulator
from mdpnewton.training.state import Training
from mdpnewton.training.train import train

FRESH = 1_000_000  # added to the seed for games that no search has seen
PRESET: Looks = {"practical": Look("practical preset", "tab:orange")}  # `train` as it is


def summary(x: Sequence[float] | np.ndarray, runs: Any) -> dict[str, Any]:
    """The mean curve of a method with its standard error and its runs, and its last point.

    Args:
        x: Positions of the points on the horizontal axis.
        runs: Values of the curves: one row per run, one column per point.
    """
    runs = np.asarray(runs, float)
    if runs.ndim != 2 or runs.shape[1] != len(x):
        raise ValueError(
            f"`summary(runs=...)` needs shape (runs, points) with {len(x)} points, got "
            f"{runs.shape}."
        )
    number = len(runs)
    error = runs.std(axis=0, ddof=1) / np.sqrt(number) if number > 1 else np.zeros_like(runs[0])
    return {
        "curve": {
            "x": np.asarray(x).tolist(),
            "mean": runs.mean(axis=0).tolist(),
            "stderr": error.tolist(),
            "runs": runs.tolist(),
        },
        "final": {
            "mean": float(runs[:, -1].mean()),
            "stderr": float(error[-1]),
            "runs": number,
        },
    }


def mean_and_error(values: Sequence[float], errors: Sequence[float]) -> dict[str, float]:
    """Mean and standard error over runs; for one run, the error within it.

    Args:
        values: What each run ended with.
        errors: Standard error of each value.
    """
    error = np.std(values, ddof=1) / len(values) ** 0.5 if len(values) > 1 else errors[0]
    return {"mean": float(np.mean(values)), "stderr": float(error)}


def at_points(x: Sequence[float], seen: Sequence[float], values: Sequence[float]) -> np.ndarray:
    """The last value seen at or before each point, or the first value if there is none yet."""
    place = np.searchsorted(np.asarray(seen), np.asarray(x), side="right") - 1
    return np.asarray(values, float)[np.maximum(place, 0)]


def first_reaching(seen: Sequence[int], values: Any, level: float) -> int | None:
    """The point at which the values first reach the level; None if they never do."""
    above = np.flatnonzero(np.asarray(values) >= level)
    return seen[above[0]] if len(above) else None


def median_reached(needed: Sequence[int | None]) -> float | None:
    """The median over all runs, or None if half of the runs or more never reached the level."""
    median = np.median([np.inf if n is None else n for n in needed])
    return float(median) if np.isfinite(median) else None


class Tested(NamedTuple):
    """A training that was tested after every iteration.

    Attributes:
        transitions: Number of training transitions played before each test. Transitions of the
            tests are not counted.
        returns: Mean discounted return of greedy episodes in each test.
    """

    transitions: list[int]
    returns: list[float]


def trained_and_tested(
    simulator: CompiledSimulator,
    method: str,
    entropy: list[int],
    transitions: int,
    discount: float,
    episodes: int = 20,
) -> Tested:
    """`train` with the preset, tested by greedy episodes after every iteration.

    Args:
        simulator: Simulator to train on.
        method: Name of a method of `train`.
        entropy: Random seed. It is the same for all methods, so that their runs are paired.
        transitions: Number of transitions after which training stops.
        discount: Discount factor of the returns in the tests.
        episodes: Number of episodes per test.
    """
    seed, test_seed = (
        int(number) for number in np.random.default_rng(entropy).integers(2**31, size=2)
    )
    key, tested = jax.random.key(test_seed), Tested([], [])

    def test(training: Training) -> None:
        played = training.play(jax.random.fold_in(key, training.iteration), episodes)
        tested.transitions.append(training.history[-1].transitions)
        tested.returns.append(float(played.returns(discount).mean()))

    done = train(
        simulator,
        method=method,
        transitions=transitions,
        seed=seed,
        callback=test,
    )
    if done.status == "interrupted":
        raise KeyboardInterrupt
    return tested


def trained_summaries(
    runs: Mapping[str, list[Tested]], transitions: int, level: float
) -> dict[str, Any]:
    """Summaries of several training methods on a common clock, and when they reach a level.

    Args:
        runs: The runs of each method.
        transitions: Last point of the clock. The result of a test holds until the next test.
        level: Return that counts as success.
    """
    every = [run.transitions for rows in runs.values() for run in rows]
    first = max(seen[0] for seen in every)
    clock = sorted({t for seen in every for t in seen if first <= t < transitions} | {transitions})
    found = {}
    for name, rows in runs.items():
        reached = [first_reaching(run.transitions, run.returns, level) for run in rows]
        curves = np.array([at_points(clock, *run) for run in rows])
        found[name] = {
            **summary(clock, curves),
            "final_returns": curves[:, -1].tolist(),
            "level": level,
            "transitions_to_level": reached,
            "median_transitions_to_level": median_reached(reached),
        }
    return found


def draw_curves(
    axis: Any,
    methods: Mapping[str, Any],
    prefix: str = "",
    unit: float = 1,
    variants: Looks | None = None,
) -> None:
    """Mean curves with bands of one standard error, in the colours of the methods.

    Args:
        axis: Axis to draw on.
        methods: Summary of each method, by name.
        prefix: Prefix to remove from a name before its colour and label are looked up.
        unit: Length of one unit of the horizontal axis, in units of x.
        variants: Labels and colours of names that are not methods.
    """
    for name, found in methods.items():
        label, color = look(name.removeprefix(prefix), variants)
        x, mean, error = (np.array(found["curve"][k]) for k in ("x", "mean", "stderr"))
        x = x / unit
        axis.plot(x, mean, color=color, label=label)
        axis.fill_between(x, mean - error, mean + error, color=color, alpha=0.2, lw=0)


def shown_final(found: Mapping[str, Any], digits: int = 1) -> str:
    """Mean and standard error of the last point."""
    final = found["final"]
    return f"{final['mean']:.{digits}f} ± {final['stderr']:.{digits}f}"


def shown_difference(found: Mapping[str, Any] | None) -> str:
    """A paired difference with its interval; an empty text for the reference itself."""
    if found is None:
        return ""
    known = [x for x in (found["mean"], found["low"], found["high"]) if x is not None]
    digits = 1 if max(map(abs, known)) < 1000 else 0
    mean, *interval = (f"{x:+,.{digits}f}" for x in known)
    return f"{mean} [{', '.join(interval)}]" if interval else mean


def add_rows(
    table: Table,
    methods: Mapping[str, Any],
    differences: Mapping[str, Mapping[str, Any]],
    reference: str,
    prefix: str = "",
    more: Callable[[Mapping[str, Any]], Iterable[str]] = lambda _: (),
    variants: Looks | None = None,
) -> None:
    """Add one row per method: its final value, the paired difference to the reference, and more."""
    for name, found in methods.items():
        gap = shown_difference(differences.get(name, {}).get(reference))
        label = look(name.removeprefix(prefix), variants).label
        table.add_row(label, shown_final(found), gap, *more(found))
