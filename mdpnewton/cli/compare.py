"""`mdpnewton compare`: several runs, or the runs of a sweep, in numbers."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mdpnewton.cli.flags import flag
from mdpnewton.cli.flow import Command, Outcome, Plan


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to compare.

    Attributes:
        run: Run folders, or those of sweeps.
        level: Value that curves are to reach (default: 90 % of the way to the best).
    """

    run: tuple[Path, ...] = flag(positional=True, metavar="RUN")
    level: float | None = None


def _plan(options: Options, folder: Path) -> Plan:
    from mdpnewton.files.found import found_in, run_folders
    from mdpnewton.report.page.several import compare

    found = [found_in(one) for each in options.run for one in run_folders(each)]
    results = compare(found, options.level)
    return Plan(lambda progress: Outcome(results, partial(comparison_table, results)), writes=False)


def comparison_table(results: dict[str, Any]) -> Any:
    """Scores with their intervals, and every pair of groups."""
    from rich.console import Group

    from mdpnewton.report.page.parts import interval, told
    from mdpnewton.report.page.several import sentence
    from mdpnewton.report.tables import new_table

    heads = ("runs", "mean", "middle half", "95 %", "to level")
    scores = new_table(f"{results['score']}: {', '.join(results['tasks'])}", "group", *heads)
    for name, one in results["groups"].items():
        scores.add_row(
            name,
            str(one["runs"]),
            f"{one['mean']:.5g}",
            f"{one['interquartile_mean']:.5g}",
            interval(one["low"], one["high"]),
            told(one["median_steps_to_level"]),
        )
    shown: list[Any] = [scores]
    if results["differences"]:
        pairs = new_table("differences, paired by seed", "pair", "pairs", "mean", "95 %")
        for one in results["differences"]:
            told_pair = f"{one['first']} minus {one['second']}"
            ends = interval(one["low"], one["high"])
            pairs.add_row(told_pair, str(one["pairs"]), f"{one['mean']:+.4g}", ends)
        shown.append(pairs)
    if results["improvement"]:
        wins = new_table("probability of improvement", "pair", "probability", "95 %")
        for one in results["improvement"]:
            told_pair = f"{one['first']} over {one['second']}"
            ends = interval(one["low"], one["high"])
            wins.add_row(told_pair, f"{one['probability']:.2f}", ends)
        shown.append(wins)
    return Group(*shown, sentence(results)[1])


COMMAND = Command("compare", "several runs side by side, with intervals", Options, _plan)
