"""Step sizes chosen by tuning runs, which come first and have random numbers of their own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdpnewton.experiments.runs import Runs
from mdpnewton.jobs.job import Job, Results

KEPT = 0.5  # share of its return that a size away from the edge keeps when it is made one larger
Tried = Mapping[str, Any]  # "sizes", and for each of them the "returns" of its runs


@dataclass(frozen=True)
class Tuning:
    """Every method with every size of its grid, several times.

    Attributes:
        function: Function that does one run, as in `Runs`; it takes a `size` as well and returns
            one number.
        config: Settings of the experiment.
        seed: Random seed.
        grids: The sizes to try, smallest first, by the names of the methods.
        count: Number of runs per method and size.
    """

    function: Callable[..., float]
    config: Any
    seed: int
    grids: Mapping[str, Sequence[float]]
    count: int

    @property
    def jobs(self) -> list[Job]:
        """The jobs, in the order in which all sizes finish a run before the next one begins."""
        every = [job for row in self._rows.values() for runs in row for job in runs.jobs]
        return sorted(every, key=lambda job: int(job.arguments["number"]))

    def of(self, found: Results) -> dict[str, dict[str, Any]]:
        """What was tried, by method: the sizes, and the returns of the runs of each."""
        return {
            name: {
                "sizes": [float(size) for size in self.grids[name]],
                "returns": [runs.of(found)[name] for runs in row],
            }
            for name, row in self._rows.items()
        }

    @property
    def _rows(self) -> dict[str, list[Runs]]:
        return {
            name: [
                Runs(
                    self.function,
                    self.config,
                    self.seed,
                    [name],
                    self.count,
                    f"size-{size:g}-",
                    {"size": float(size)},
                )
                for size in grid
            ]
            for name, grid in self.grids.items()
        }


def best_size(tried: Tried) -> float:
    """The size with the largest mean; of equal ones the smaller."""
    return float(tried["sizes"][int(np.argmax(np.mean(tried["returns"], axis=1)))])


def safe_size(tried: Tried) -> float:
    """The size with the largest mean among those that are not next to where the method breaks down.

    The next larger size still has `KEPT` of its mean, as that of the last one cannot be known. If
    no size is like that, the best one.
    """
    means = np.mean(tried["returns"], axis=1)
    away = means[1:] >= KEPT * means[:-1]
    if not away.any():
        return best_size(tried)
    return float(tried["sizes"][int(np.argmax(np.where(away, means[:-1], -np.inf)))])
