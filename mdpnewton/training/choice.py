"""When a training goes back to its best point, and which of its policies is played in the end."""

import math

import jax
import numpy as np

from mdpnewton.training.saved import Chosen
from mdpnewton.training.state import Training

LONG = 10  # batches below the blind one after which a training has diverged
SHARE = 10  # one transition in so many is for the choice of the policy
POINTS = ("best", "average", "newest")  # which may be chosen
# How many of the points, whether drawn actions are played too, and how many episodes: the first
# row that the share allows.
TRIALS = ((3, True, 16), (3, True, 8), (3, True, 4), (2, False, 4), (2, False, 2), (1, False, 2))


def diverged(training: Training) -> bool:
    """Whether all of the last batches returned less than the blind one, beyond its noise."""
    begun = training.restarts[-1] if training.restarts else 0
    last = [one.mean_return for one in training.history[begun:]][-LONG:]
    blind = np.asarray(training.blind)
    if len(last) < LONG or len(blind) < 2:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        error = blind.std(ddof=1) / len(blind) ** 0.5
        return bool(max(last) < blind.mean() - 2 * error)


def go_back(training: Training) -> None:
    """Return to the best point; the steps from there are shorter, see `train`."""
    assert training.highest is not None
    training.w = training.highest[1]
    training.restarts = [*training.restarts, training.iteration]


def to_choose_with(training: Training, transitions: int | None) -> int:
    """Number of transitions that are set aside to choose the policy; 0 if they would not do.

    Args:
        training: The training.
        transitions: Limit of transitions; None if there is none.
    """
    candidates, episodes = _trials(training, transitions)
    return math.ceil(len(candidates) * episodes * _length(training))


def choose(training: Training, transitions: int | None) -> None:
    """Choose what is played: the best point, the newest or the average, greedy or drawn actions.

    All play the same episodes, and the highest mean return wins. If there are too few transitions
    for that, drawn actions are worth what they brought in the last batches; and if there are still
    too few, it is the best point with its most probable actions.

    Args:
        training: The training, which plays what is chosen from now on.
        transitions: Limit of transitions; None if there is none.
    """
    candidates, episodes = _trials(training, transitions)
    training.chosen = Chosen()
    if not candidates:
        return
    key = jax.random.fold_in(jax.random.key(training.seed), training.iteration)
    returns, spent = [], 0
    for candidate in candidates:
        training.chosen = candidate
        found = training.play(jax.random.fold_in(key, 2), episodes)
        returns.append(found.returns().mean())
        spent += found.transitions
    if training.recent and all(candidate.greedy for candidate in candidates):
        candidates = [*candidates, Chosen("best", False)]
        returns.append(np.mean([bound for bound, _ in training.recent]))
    best = candidates[int(np.argmax(np.nan_to_num(returns, nan=-np.inf)))]
    training.chosen = Chosen(best.point, best.greedy, spent)


def _trials(training: Training, transitions: int | None) -> tuple[list[Chosen], int]:
    """What may be chosen, and how many episodes of each are played for that."""
    played = training.evaluator.memory.transitions
    share = (played if transitions is None else transitions) / SHARE
    for points, drawn, episodes in TRIALS:
        ways = (True, False) if drawn else (True,)
        candidates = [Chosen(point, greedy) for point in POINTS[:points] for greedy in ways]
        if len(candidates) * episodes * _length(training) <= share:
            return candidates, episodes
    return [], 0


def _length(training: Training) -> float:
    """Mean length of the newest episodes."""
    batch = training.evaluator.memory.batches[-1]
    return batch.transitions / max(batch.episodes, 1)
