"""Rewards that depend on where an action led and on what was seen there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.checks import refuse
from mdpnewton.models.checks import finite_array

ANY = -1  # in a rule, matches every action, state or observation
CHUNK = 1_000_000  # number of outcomes that are averaged at a time


@dataclass(frozen=True, eq=False)
class OutcomeReward:
    """$R(a,s,s',o)$ as a list of rules: the last rule that matches an outcome counts, else 0.

    Attributes:
        rules: Action, state, next state and observation of each rule, shape (n, 4); -1 matches all.
        value: Reward of each rule, shape (n,).
    """

    rules: np.ndarray
    value: np.ndarray

    def __post_init__(self) -> None:
        rules = np.array(self.rules)
        value = finite_array("OutcomeReward", "value", self.value, 1, empty=True)
        if rules.dtype.kind not in "iu" or rules.shape != (len(value), 4):
            refuse(
                "OutcomeReward",
                "rules",
                f"needs whole numbers of shape (n, 4) = ({len(value)}, 4) to match `value`, got "
                f"{rules.dtype} of shape {rules.shape}",
            )
        if (rules < ANY).any():
            refuse(
                "OutcomeReward", "rules", f"must be at least -1, which fits all, got {rules.min()}"
            )
        object.__setattr__(self, "rules", rules.astype(np.int64))
        object.__setattr__(self, "value", value + 0.0)  # no -0.0

    @classmethod
    def from_array(cls, reward: Any) -> "OutcomeReward":
        """The rules of a dense array of shape (A, S, S', O): one per entry that is not 0."""
        array = finite_array("OutcomeReward.from_array", "reward", reward, 4)
        where = np.argwhere(array != 0)
        return cls(where, array[tuple(where.T)])

    @property
    def of_pairs(self) -> bool:
        """Whether no rule depends on the next state or the observation."""
        return bool((self.rules[:, 2:] == ANY).all())

    def of(self, outcomes: np.ndarray) -> np.ndarray:
        """The reward of each row (a, s, s', o) of an array of shape (m, 4)."""
        last = np.full(len(outcomes), -1)
        fixed = self.rules >= 0
        for pattern in np.unique(fixed, axis=0):
            mine = np.flatnonzero((fixed == pattern).all(axis=1))[::-1]  # the latest first
            sizes = np.maximum(self.rules.max(axis=0), outcomes.max(axis=0, initial=0)) + 1
            known, first = np.unique(_key(self.rules[mine], sizes, pattern), return_index=True)
            asked = _key(outcomes, sizes, pattern)
            place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
            fits = known[place] == asked
            last[fits] = np.maximum(last[fits], mine[first[place[fits]]])
        return np.where(last >= 0, self.value[last] if len(self.value) else 0.0, 0.0)

    def expected(self, transition: Sequence[Any], observation: Sequence[Any]) -> np.ndarray:
        r"""$R(s,a) = \sum_{s',o} p(s'|s,a)\, p(o|s',a)\, R(a,s,s',o)$, shape (S, A).

        Args:
            transition: One matrix (S, S') per action, dense or sparse.
            observation: One matrix (S', O) per action, dense or sparse.
        """
        columns = []
        for action, (T, seen) in enumerate(zip(transition, observation, strict=True)):
            mine = np.isin(self.rules[:, 0], (ANY, action))
            rules = OutcomeReward(self.rules[mine], self.value[mine])
            columns.append(rules._average(action, sparse.csr_array(T), sparse.csr_array(seen)))
        return np.stack(columns, axis=1) + 0.0

    def _average(self, action: int, T: sparse.csr_array, seen: sparse.csr_array) -> np.ndarray:
        n = T.shape[0]
        if self.of_pairs:  # without sums, hence without rounding
            return self.of(_outcomes(action, np.arange(n), 0, 0))
        state, successor, p = np.repeat(np.arange(n), np.diff(T.indptr)), T.indices, T.data
        if (self.rules[:, 3] == ANY).all():
            return np.bincount(state, p * self.of(_outcomes(action, state, successor, 0)), n)
        total, width = np.zeros(n), np.diff(seen.indptr)
        step = max(1, CHUNK // int(width.max()))
        for i in range(0, len(p), step):
            s, t, q = (array[i : i + step] for array in (state, successor, p))
            each = np.repeat(np.arange(len(t)), width[t])
            ends = np.cumsum(width[t])
            entry = np.arange(len(each)) - (ends - width[t])[each] + seen.indptr[t[each]]
            earned = self.of(_outcomes(action, s[each], t[each], seen.indices[entry]))
            total += np.bincount(s[each], q[each] * seen.data[entry] * earned, n)
        return total


def _key(rows: np.ndarray, sizes: np.ndarray, columns: np.ndarray) -> np.ndarray:
    key = np.zeros(len(rows), dtype=np.int64)
    for column in np.flatnonzero(columns):
        key = key * sizes[column] + rows[:, column]
    return key


def _outcomes(action: int, state: Any, successor: Any, observation: Any) -> np.ndarray:
    return np.stack(np.broadcast_arrays(action, state, successor, observation), axis=1)
