"""The contents of T:, O: and R: lines, kept sparse until the whole text is read.

Statements override earlier ones, so each entry carries the position `at` of its statement, which
increases through the text. `ANY` stands for the wildcard.
"""

from collections import defaultdict
from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.models.pomdp import ANY, OutcomeReward

DENSE_ENTRIES = 250_000  # a model with at most this many probabilities is always dense
Block = tuple[np.ndarray, np.ndarray, np.ndarray]  # row, column and value of some entries


class Probabilities:
    """One matrix of shape (rows, columns) per action: T or O."""

    def __init__(self, rows: int, columns: int):
        self.shape = (rows, columns)
        self._single: dict[int, list[tuple[int, int, float, int]]] = defaultdict(list)
        self._whole: dict[int, list[tuple[int, Block, int]]] = defaultdict(list)

    def set_entry(self, at: int, action: int, row: int, column: int, value: float) -> None:
        """Set one probability, or a whole row if the column is the wildcard."""
        if column == ANY:
            self.set_row(at, action, row, np.full(self.shape[1], value))
        else:
            self._single[action].append((row, column, value, at))

    def set_row(self, at: int, action: int, row: int, values: np.ndarray) -> None:
        """Set a whole row, or all rows to the same values."""
        columns = np.flatnonzero(values)
        rows = np.arange(self.shape[0]) if row == ANY else np.array([row])
        entries = (
            np.repeat(rows, len(columns)),
            np.tile(columns, len(rows)),
            np.tile(values[columns], len(rows)),
        )
        self._whole[action].append((row, entries, at))

    def set_matrix(self, at: int, action: int, values: np.ndarray) -> None:
        """Set all rows from a dense matrix."""
        rows, columns = np.nonzero(values)
        self._whole[action].append((ANY, (rows, columns, values[rows, columns]), at))

    def set_identity(self, at: int, action: int) -> None:
        """Set the identity matrix."""
        every = np.arange(self.shape[0])
        self._whole[action].append((ANY, (every, every, np.ones(len(every))), at))

    def matrix(self, action: int) -> tuple[sparse.csr_array, np.ndarray]:
        """The matrix of an action, and the last statement about each row, -1 if there is none."""
        touched = np.full(self.shape[0], -1)  # first: when a row was last set as a whole
        parts: list[tuple[np.ndarray, ...]] = [self._singles(action)]
        for which, entries, place in self._whole[action] + self._whole[ANY]:
            rows = slice(None) if which == ANY else which
            touched[rows] = np.maximum(touched[rows], place)
            parts.append((*entries, np.full(len(entries[0]), place)))
        row, column, value, at = (np.concatenate(each) for each in zip(*parts, strict=True))
        alive = at >= touched[row]
        row, column, value, at = row[alive], column[alive], value[alive], at[alive]
        np.maximum.at(touched, row, at)
        key = row * self.shape[1] + column
        order = np.lexsort((at, key))
        latest = order[np.append(key[order][1:] != key[order][:-1], True)[: len(order)]]
        latest = latest[value[latest] != 0]
        kept = sparse.coo_array((value[latest], (row[latest], column[latest])), shape=self.shape)
        return sparse.csr_array(kept), touched

    def _singles(self, action: int) -> tuple[np.ndarray, ...]:
        table = np.array(self._single[action] + self._single[ANY]).reshape(-1, 4)
        spread = table[:, 0] == ANY
        rows = np.tile(np.arange(self.shape[0]), spread.sum())
        wide = np.repeat(table[spread], self.shape[0], axis=0)
        wide[:, 0] = rows
        table = np.concatenate([table[~spread], wide])
        row, column, at = (table[:, i].astype(np.int64) for i in (0, 1, 3))
        return row, column, table[:, 2], at


class Rewards:
    """The rules of R."""

    def __init__(self) -> None:
        self._rules: list[tuple[int, int, int, int]] = []
        self._value: list[float] = []

    def set_entry(self, rule: tuple[int, int, int, int], value: float) -> None:
        """Set one reward; the rule may contain wildcards."""
        self._rules.append(rule)
        self._value.append(value)

    @property
    def of_observations(self) -> bool:
        """Whether a rule depends on the observation."""
        return any(rule[3] != ANY for rule in self._rules)

    def set_row(self, action: int, state: int, successor: int, values: np.ndarray) -> None:
        """Set the rewards of all observations: one rule clears them, others set those not 0."""
        self.set_entry((action, state, successor, ANY), 0.0)
        for observation in np.flatnonzero(values).tolist():
            self.set_entry((action, state, successor, observation), float(values[observation]))

    def set_matrix(self, action: int, state: int, values: np.ndarray) -> None:
        """Set the rewards of all next states and observations."""
        self.set_entry((action, state, ANY, ANY), 0.0)
        for successor, observation in np.argwhere(values).tolist():
            rule = (action, state, successor, observation)
            self.set_entry(rule, float(values[successor, observation]))

    def outcome_reward(self, sign: float) -> OutcomeReward:
        """All rules in order; the sign turns costs into rewards."""
        rules = np.array(self._rules, dtype=np.int64).reshape(-1, 4)
        return OutcomeReward(rules, sign * np.array(self._value))


def stored(transition: list[sparse.csr_array], observation: list[sparse.csr_array]) -> Any:
    """Both as dense arrays if that is small or not larger than both sparse; else both sparse."""
    pairs = [*transition, *observation]
    entries = sum(matrix.shape[0] * matrix.shape[1] for matrix in pairs)
    held = sum(m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in pairs)
    if entries > DENSE_ENTRIES and held < 8 * entries:
        return transition, observation
    return tuple(
        np.stack([matrix.toarray() for matrix in each]) for each in (transition, observation)
    )
