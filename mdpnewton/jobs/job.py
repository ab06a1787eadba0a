"""A job: a pure function of plain data, which gives the same bits wherever it is done."""

import hashlib
import importlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mdpnewton.version import RESULTS

Results = dict[str, Any]  # what jobs found, by their names
Work = Generator[list["Job"], Results, dict[str, Any]]  # yields jobs, is sent their results


@dataclass(frozen=True)
class Job:
    """One piece of work, small enough to be done again after a kill.

    Attributes:
        name: The job's name in its run, also that of its file: letters, digits, ".", "_", "-".
        function: Where the function is: "package.module:name".
        arguments: What it is called with by keyword, as plain data that JSON can say.
        version: Number that is raised when the same job gives other results; by default the one of
            this library's numbers.
    """

    name: str
    function: str
    arguments: Mapping[str, Any]
    version: int = RESULTS

    def __post_init__(self) -> None:
        if not self.name or not all(c.isascii() and (c.isalnum() or c in "._-") for c in self.name):
            raise ValueError(
                f"`Job(name=...)` takes letters, digits, '.', '_' and '-', got {self.name!r}; the "
                f"name becomes a file's."
            )

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the result."""
        about = [self.version, self.function, self.arguments]
        text = json.dumps(about, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def do(self) -> Any:
        """Call the function."""
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(module), name)(**self.arguments)


def gathered(work: Work, do: Callable[[Sequence[Job]], Results]) -> dict[str, Any]:
    """The results of work that asks for jobs, perhaps in several rounds.

    Args:
        work: A generator that yields lists of jobs, is sent what they found and returns the
            results. It must ask for the same jobs whenever it is run again.
        do: Does a list of jobs, or finds what they found before.
    """
    found: Results | None = None
    while True:
        try:
            jobs = next(work) if found is None else work.send(found)
        except StopIteration as end:
            results: dict[str, Any] = end.value
            return results
        found = do(jobs)
