"""`mdpnewton list`: the experiments, methods and environments."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mdpnewton.cli import tables
from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan, Progress

SCALES = ("quick", "laptop", "paper")


@dataclass(frozen=True)
class Options:
    """What to list.

    Attributes:
        what: The experiments, the methods or the environments (default: all three).
    """

    what: Literal["experiments", "methods", "environments"] | None = flag(None, positional=True)


def _plan(options: Options, folder: Path) -> Plan:
    names = [options.what] if options.what else ["experiments", "methods", "environments"]

    def run(progress: Progress) -> Outcome:
        found: dict[str, Any] = {name: getattr(tables, name)() for name in names}
        results = found[options.what] if options.what else found
        return Outcome(results, lambda: _table(found))

    return Plan(run, writes=False)


def _table(found: dict[str, Any]) -> Any:
    from rich.console import Group

    shown: list[Any] = []
    if "experiments" in found:
        table = _named("mdpnewton run EXPERIMENT", "experiment", "shows", *SCALES)
        for name, row in found["experiments"].items():
            table.add_row(name, row["shows"], *(row["takes"][scale] for scale in SCALES))
        shown += [table, "times: roughly, at each --scale, with one worker"]
    if "methods" in found:
        table = _named("--method METHOD", "method", "where")
        for name, row in found["methods"].items():
            table.add_row(name, ", ".join(row["places"]))
        shown.append(table)
        shown += [f"{place}: {meaning}" for place, meaning in tables.places().items()]
    if "environments" in found:
        table = _named("mdpnewton train ENV", "environment", "id", "what one does")
        for name, row in found["environments"].items():
            table.add_row(name, row["id"], row["sentence"])
        shown.append(table)
    return Group(*shown)


def _named(title: str, name: str, *others: str) -> Any:
    """A table whose names are never cut."""
    from rich.table import Column, Table

    return Table(Column(name, no_wrap=True), *others, title=title)


COMMAND = Command("list", "the experiments, methods and environments", Options, _plan)
