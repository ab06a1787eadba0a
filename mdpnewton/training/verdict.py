"""What a trained policy is worth, compared with doing nothing, in numbers and in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray
from scipy.special import stdtrit

from mdpnewton.simulators.trajectories import Trajectories
from mdpnewton.training.presets import PolicyKind, blind_policy
from mdpnewton.training.state import Training

CONFIDENCE = 0.95
FEW = 10  # iterations, below which the advice is to make more


@dataclass(frozen=True)
class Comparison:
    """How much more is returned than by something else.

    Attributes:
        mean: Mean return of the other.
        difference: How much higher the mean return is.
        low: Lower end of the interval of 95 % around the difference.
        high: Upper end of that interval.
    """

    mean: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True)
class Verdict:
    """What a trained policy is worth.

    Attributes:
        status: "better" or "worse" than doing nothing if the interval says so, else "no better".
        sentence: The same in words, with what to try unless it is better.
        nothing: Comparison with doing nothing: the action 0, or random ones if they are choices.
        blind: Comparison with the first batch of the training.
    """

    status: str
    sentence: str
    nothing: Comparison
    blind: Comparison


def do_nothing(training: Training, key: PRNGKeyArray, episodes: int) -> Trajectories:
    """Episodes in which nothing is done: the action 0, or random ones if they are choices."""
    spaces = training.simulator.spaces
    policy, w = blind_policy(spaces, training.preset)
    if spaces.still is not None:
        w = {**w, "mean": w["mean"].at[:, 0].set(jnp.asarray(spaces.still))}
    return training.simulator.play(key, policy, w, episodes, greedy=spaces.continuous)


def verdict_on(training: Training, key: PRNGKeyArray, played: Trajectories) -> Verdict:
    """Compare episodes of the chosen policy with as many in which nothing is done.

    Args:
        training: The training.
        key: Random key that the episodes were played with: the others have the same starts.
        played: Episodes of the chosen policy.
    """
    returns = played.returns()
    idle = do_nothing(training, key, len(returns)).returns()
    with np.errstate(invalid="ignore"):  # infinite returns have no difference
        nothing = _difference(returns - idle, idle.mean())
    blind = _compared(returns, np.asarray(training.blind))
    status = "better" if nothing.low > 0 else "worse" if nothing.high < 0 else "no better"
    what = "doing nothing" if training.simulator.spaces.continuous else "random actions"
    sentence = (
        f"The policy returns {returns.mean():.4g} per episode, {_told(nothing, what)} and "
        f"{_told(blind, 'the first batch, which was blind')}"
    )
    if status != "better":
        also = ", but worse" if status == "worse" else ""
        sentence = f"No better than {what}{also}: {sentence[0].lower()}{sentence[1:]}"
        sentence += f". {_advice(training)}"
    return Verdict(status, f"{sentence}.", nothing, blind)


def _advice(training: Training) -> str:
    """What to try if a training brought nothing."""
    returns = [*training.blind, *(one.mean_return for one in training.history)]
    kinds = (f"--policy {kind}" for kind in get_args(PolicyKind) if kind != training.kind)
    if np.ptp(returns) == 0:
        return "All returns were equal: reward what leads to the goal, not the goal alone"
    if training.iteration < FEW:
        return f"It made only {training.iteration} iterations: allow more transitions"
    others = " or ".join(kinds)
    return f"Try more transitions, {others}, or rewards that tell good actions from bad ones sooner"


def _difference(differences: np.ndarray, other: float) -> Comparison:
    """The mean of paired differences with its interval, by Student's t."""
    n = len(differences)
    with np.errstate(over="ignore", invalid="ignore"):
        error = differences.std(ddof=1) / n**0.5 if n > 1 else np.inf
        return _around(float(differences.mean()), float(error), max(n - 1, 1), float(other))


def _compared(returns: np.ndarray, others: np.ndarray) -> Comparison:
    """The difference of two means with its interval, by Welch's t."""
    means = (float(returns.mean()), float(others.mean()))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        squares = [
            each.var(ddof=1) / len(each) if len(each) > 1 else np.inf for each in (returns, others)
        ]
        total = sum(squares)
        parts = [
            square**2 / max(len(each) - 1, 1)
            for square, each in zip(squares, (returns, others), strict=True)
        ]
        freedom = total**2 / sum(parts) if 0 < total < np.inf else 1.0
    return _around(means[0] - means[1], float(total) ** 0.5, float(freedom), means[1])


def _around(difference: float, error: float, freedom: float, other: float) -> Comparison:
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error if error else 0.0
    return Comparison(other, difference, difference - half, difference + half)


def _told(found: Comparison, what: str) -> str:
    """The comparison in words."""
    sign = "more" if found.difference >= 0 else "less"
    ends = f"95 % interval {found.low:.4g} to {found.high:.4g}"
    return f"{abs(found.difference):.4g} {sign} than {what} ({ends})"


def cut_off(simulator: Any, batch: Trajectories) -> list[str]:
    """A sentence if episodes were cut off at a limit that nobody gave.

    Args:
        simulator: The simulator of a training.
        batch: Some of its episodes.
    """
    while hasattr(simulator, "simulator"):
        simulator = simulator.simulator
    cut = np.asarray(batch.ends & ~batch.terminated & (batch.times + 1 >= simulator.horizon))
    count = int((cut & np.asarray(batch.valid)).sum())
    if getattr(simulator, "limited", True) or not count:
        return []
    return [
        f"{count} of {batch.episodes} episodes were cut off after {simulator.horizon} steps, "
        f"because the environment has no limit of its own; give it one (max_episode_steps)"
    ]


def remarks(history: Sequence[Any]) -> list[str]:
    """What was not as it should be in the solves of a training, in sentences.

    Args:
        history: The entries of `Training.history`.
    """
    reports = [one.record.report for one in history]
    found = {
        "left a residual above 1": sum(report.residual > 1 for report in reports),
        "were indefinite": sum(report.negative_curvature for report in reports),
    }
    return [
        f"{count} of {len(reports)} linear systems {what}" for what, count in found.items() if count
    ]
