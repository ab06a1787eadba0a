"""A controller of a POMDP played, to check its value."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.checks import whole
from mdpnewton.models.pomdp.model import FinitePOMDP
from mdpnewton.models.pomdp.product import first_observations

LEFT = 1e-4  # share of the discounted future that a simulation leaves out
MOST_STEPS, SETTLING = 5_000, 1_000


@dataclass(frozen=True)
class Simulated:
    """What a controller earned when it was played.

    Attributes:
        mean: Mean of the returns.
        error: Standard error of the mean.
        episodes: Number of episodes.
    """

    mean: float
    error: float
    episodes: int

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that covers the value with a probability of 95 %."""
        return self.mean - 1.96 * self.error, self.mean + 1.96 * self.error


def simulated_value(
    pomdp: FinitePOMDP, tables: Any, *, episodes: int = 1_000, seed: int = 0
) -> Simulated:
    """Play a finite-state controller, as a check of its value that shares no code with it.

    Rewards are those expected of state and action. An episode lasts until a share of 1e-4 of the
    discounted future is left, or 5,000 steps. Of an average reward the first 1,000 steps do not
    count.

    Args:
        pomdp: The problem.
        tables: Probabilities of the first node (O, B), the next node (B, O, B) and the action
            (B, O, A), as `FiniteStateController.tables` gives them.
        episodes: Number of episodes.
        seed: Random seed.
    """
    whole("simulated_value", "episodes", episodes, 2)
    rng = np.random.default_rng(seed)
    initial, transition, action = (np.asarray(table) for table in tables)
    moves, sees = (
        _Draws(sparse.vstack([sparse.csr_array(table) for table in tables], format="csr"))
        for tables in (pomdp.transition, pomdp.observation)
    )
    n, reward = pomdp.n_states, np.asarray(pomdp.reward)
    average = pomdp.criterion == "average"
    steps = pomdp.horizon or MOST_STEPS
    if 0 < pomdp.discount < 1:
        steps = min(steps, int(np.ceil(np.log(LEFT) / np.log(pomdp.discount))))
    state = rng.choice(n, episodes, p=np.asarray(pomdp.start))
    seeing = _Draws(sparse.csr_array(first_observations(pomdp)))(rng, state)
    node = _drawn(rng, initial[seeing])
    returns, weight = np.zeros(episodes), 1.0
    for t in range(steps if pomdp.discount else 1):
        chosen = _drawn(rng, action[node, seeing])
        if not average or t >= SETTLING:
            returns += weight * reward[state, chosen]
        weight *= pomdp.discount
        state = moves(rng, chosen * n + state)
        seeing = sees(rng, chosen * n + state)
        node = _drawn(rng, transition[node, seeing])
    if average:
        returns /= steps - SETTLING
    return Simulated(
        float(returns.mean()), float(returns.std(ddof=1) / np.sqrt(episodes)), episodes
    )


class _Draws:
    """Draws of columns from rows of a sparse matrix of probabilities."""

    def __init__(self, matrix: Any):
        self._ends, self._columns = matrix.indptr, matrix.indices
        self._summed = np.append(0.0, np.cumsum(matrix.data))

    def __call__(self, rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        begin, end = self._ends[rows], self._ends[rows + 1]
        low, high = self._summed[begin], self._summed[end]
        point = low + rng.random(len(rows)) * (high - low)
        entry = np.searchsorted(self._summed, point, side="right") - 1
        return np.asarray(self._columns[np.clip(entry, begin, end - 1)])


def _drawn(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
    """One draw from the distribution in each row."""
    summed = rows.cumsum(axis=1)
    point = rng.random(len(rows))[:, None] * summed[:, -1:]
    return np.asarray(np.minimum((summed <= point).sum(axis=1), rows.shape[1] - 1))
