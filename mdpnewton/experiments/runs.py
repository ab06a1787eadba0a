"""The runs of several methods as jobs: one job per method and run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mdpnewton.jobs.job import Job, Results

# Settings that say which jobs there are, or what a job is told by name: the files of jobs that are
# done serve larger runs too.
LEFT_OUT = (
    *("runs", "tuning_runs", "practical_runs", "practical_methods", "methods"),
    *("size", "choice", "rule", "first"),
)


@dataclass(frozen=True)
class Runs:
    """Some methods, each run several times by a function of a module.

    The function is called with `settings`, the `Config` as a dictionary without `LEFT_OUT`, and
    with `seed`, `method` and `number`, the number of the run. It returns plain data as
    `files/states.py` saves it.

    Attributes:
        function: Function that does one run of one method.
        config: Settings of the experiment.
        seed: Random seed.
        methods: Names of the methods.
        count: Number of runs per method.
        part: Prefix of the jobs' names, for an experiment that has several kinds of runs.
        more: Further arguments of the function.
    """

    function: Callable[..., Any]
    config: Any
    seed: int
    methods: Sequence[str]
    count: int
    part: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def jobs(self) -> list[Job]:
        """The jobs, in the order in which all methods finish a run before the next one begins."""
        where = f"{self.function.__module__}:{self.function.__name__}"
        settings = {name: it for name, it in asdict(self.config).items() if name not in LEFT_OUT}
        shared = {"settings": settings, "seed": self.seed, **self.more}
        return [
            Job(self._name(method, number), where, {**shared, "method": method, "number": number})
            for number in range(self.count)
            for method in self.methods
        ]

    def of(self, found: Results) -> dict[str, list[Any]]:
        """What every method found, run by run."""
        return {
            method: [found[self._name(method, number)] for number in range(self.count)]
            for method in self.methods
        }

    def _name(self, method: str, number: int) -> str:
        return f"{self.part}{method}-{number}"
