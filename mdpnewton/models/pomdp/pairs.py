"""The pairs of a hidden state and what is observed there, and how actions lead to them."""

from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.models.pomdp.endings import goes_on
from mdpnewton.models.pomdp.model import FinitePOMDP
from mdpnewton.models.pomdp.product import first_observations


class Pairs:
    """A POMDP as sparse matrices over the N pairs (s, o) that occur, sorted by observation.

    Attributes:
        states: Hidden state of each pair, shape (N,).
        observations: Observation of each pair, the blank one included, shape (N,).
        groups: The pairs of each observation.
        ways: p(s', o'|s, a), shape (S A, N), without what comes after the process has ended.
        first: p(s) p(o|s) before the first action, shape (N,).
    """

    def __init__(self, pomdp: FinitePOMDP):
        alive = goes_on(pomdp)
        first = sparse.csr_array(first_observations(pomdp) * (alive * pomdp.start)[:, None])
        n, width = first.shape
        seen = [_widened(table, width) for table in pomdp.observation]
        occurs = sparse.csc_array(sum(seen) + first)
        occurs.sort_indices()
        self.states = occurs.indices
        self.groups = [slice(*occurs.indptr[o : o + 2]) for o in range(width)]
        self.observations = np.repeat(np.arange(width), np.diff(occurs.indptr))
        key = self.observations * n + self.states  # it is sorted
        size, rows = len(key), []
        for moves, table in zip(pomdp.transition, seen, strict=True):
            row, place, p = _placed(table, key)
            arrives = sparse.csr_array((p * alive[row], (row, place)), shape=(n, size))
            rows.append(sparse.csr_array(moves) @ arrives)
        by_state = np.arange(n * len(rows)).reshape(len(rows), n).T.ravel()
        self.ways = sparse.csr_array(sparse.vstack(rows, format="csr")[by_state])
        _, place, p = _placed(first, key)
        self.first = np.zeros(size)
        self.first[place] = p


def _widened(table: Any, width: int) -> Any:
    """Observation probabilities with a column for the blank observation if there is one."""
    entries = sparse.coo_array(table)
    kept = entries.data > 0
    where = entries.row[kept], entries.col[kept]
    return sparse.csr_array((entries.data[kept], where), shape=(entries.shape[0], width))


def _placed(table: Any, key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """State, number of the pair, and probability of every entry of a matrix (S, O)."""
    entries = sparse.coo_array(table)
    place = np.searchsorted(key, entries.col.astype(np.int64) * entries.shape[0] + entries.row)
    return entries.row, place, entries.data
