"""The optimum of a small POMDP, by value iteration over the beliefs that can be reached."""

import numpy as np
from scipy import sparse

from mdpnewton.checks import whole
from mdpnewton.models.pomdp.model import FinitePOMDP

MOST_SWEEPS = 100_000  # of a total reward, whose values need not settle
LEVEL = 1e-10  # difference of rises that counts as none
SAME = 10  # beliefs that agree to this many decimals are one


def optimal_value(pomdp: FinitePOMDP, limit: int = 5_000) -> float | None:
    """Value of the best policy with any memory, or None if too many beliefs are reachable.

    Beliefs that agree to ten decimals count as one. The value is exact where finitely many are
    reachable, as in deterministic mazes, and nearly exact where they accumulate, as in the tiger
    problem. Of a total reward it is None too if its values do not settle, and of an average reward
    if they do not rise alike in all beliefs, because not all of them can be left.

    Args:
        pomdp: The problem.
        limit: Maximum number of beliefs.
    """
    whole("optimal_value", "limit", limit, 1)
    moves = [sparse.csr_array(matrix).toarray() for matrix in pomdp.transition]
    seen = [sparse.csr_array(matrix).toarray() for matrix in pomdp.observation]
    first = _after_first_observation(pomdp)
    number: dict[tuple[float, ...], int] = {}
    beliefs: list[np.ndarray] = []

    def known(belief: np.ndarray) -> int:
        key = tuple(np.round(belief, SAME).tolist())
        if key not in number:
            number[key] = len(beliefs)
            beliefs.append(belief)
        return number[key]

    roots = [(share, known(belief)) for share, belief in first]
    successors: list[list[list[tuple[float, int]]]] = []
    while len(successors) < len(beliefs) <= limit:
        belief = beliefs[len(successors)]
        ways = []
        for T, seeing in zip(moves, seen, strict=True):
            joint = (belief @ T)[:, None] * seeing  # probability of hidden state and observation
            shares = joint.sum(axis=0)
            ways.append(
                [(share, known(joint[:, o] / share)) for o, share in enumerate(shares) if share > 0]
            )
        successors.append(ways)
    if len(beliefs) > limit:
        return None
    reward = np.stack(beliefs) @ np.asarray(pomdp.reward)
    chain = [_matrix([ways[a] for ways in successors]) for a in range(pomdp.n_actions)]
    if pomdp.criterion == "average":
        return _average(reward, chain)
    value = _values(pomdp, reward, chain)
    return None if value is None else float(sum(share * value[place] for share, place in roots))


def _ahead(reward: np.ndarray, chain: list[sparse.csr_array], value: np.ndarray) -> np.ndarray:
    """The values a step earlier."""
    best: np.ndarray = (reward + np.stack([each @ value for each in chain], axis=1)).max(axis=1)
    return best


def _values(
    pomdp: FinitePOMDP, reward: np.ndarray, chain: list[sparse.csr_array]
) -> np.ndarray | None:
    """The values of all beliefs; None if they do not settle."""
    value = np.zeros(len(reward))
    margin = 1 - pomdp.discount if pomdp.criterion == "discounted" else 1e-2
    for _ in range(pomdp.horizon or (MOST_SWEEPS if pomdp.discount == 1 else 10**9)):
        after = _ahead(reward, chain, pomdp.discount * value)
        change = np.abs(after - value).max()
        value = after
        settled = change <= 1e-12 * margin * max(1.0, np.abs(value).max())
        if settled and pomdp.horizon is None:
            return value
    return value if pomdp.horizon is not None else None


def _average(reward: np.ndarray, chain: list[sparse.csr_array]) -> float | None:
    """How fast the values rise, with half of every step at rest, which allows periods."""
    value = np.zeros(len(reward))
    for _ in range(MOST_SWEEPS):
        rise = _ahead(reward, chain, value) - value
        low, high = float(rise.min()), float(rise.max())
        if high - low <= LEVEL * max(1.0, abs(high)):
            return 0.5 * (low + high)
        value += 0.5 * rise
        value -= value[0]
    return None


def _after_first_observation(pomdp: FinitePOMDP) -> list[tuple[float, np.ndarray]]:
    start = np.asarray(pomdp.start)
    if pomdp.first_observation is None:
        return [(1.0, start)]
    joint = start[:, None] * np.asarray(pomdp.first_observation)
    shares = joint.sum(axis=0)
    return [(float(p), joint[:, o] / p) for o, p in enumerate(shares) if p > 0]


def _matrix(rows: list[list[tuple[float, int]]]) -> sparse.csr_array:
    places = [(row, column, share) for row, ways in enumerate(rows) for share, column in ways]
    i, j, data = zip(*places, strict=True)
    return sparse.csr_array((data, (i, j)), shape=(len(rows), len(rows)))
