"""The one flow of all commands: plan, hold the folder, run, draw, write, show.

A command is a `Command`; its `plan` refuses what can be refused before anything is computed, and
the run of the plan gives an `Outcome`. Everything else is here.

Ctrl-C: a run that can keep finished work gives an outcome with `interrupted`, which is written and
shown like any other; one that has nothing to show lets `KeyboardInterrupt` pass, with a text if the
same command goes on. All end with exit status 130, or 143 after SIGTERM.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mdpnewton.checks import MissingExtraError

Progress = Callable[[int, int, str], None]  # done, total, what is being done
RUNS = Path("runs")
REPORT = "report.html"


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        results: The content of results.json, which is what `--json` prints.
        table: Gives what is shown, a table or plain text; called only where it is.
        draw: Draws the figures, by their names; called in the style of the figures.
        pictures: Makes further pictures when the folder is written, and says where they are.
        replay: Gives what moves in the report, as replay.json holds it.
        files: Further files of the run folder, by what they are: shown first.
        note: A last line to show.
        interrupted: Whether Ctrl-C ended it before its time.
        complete: Whether these are the results of the run, to be written to its folder.
    """

    results: Any
    table: Callable[[], Any]
    draw: Callable[[], Mapping[str, Any]] | None = None
    pictures: Callable[[], list[Path]] | None = None
    replay: Callable[[], Mapping[str, Any]] | None = None
    files: Mapping[str, Path] = field(default_factory=dict)
    note: str = ""
    interrupted: bool = False
    complete: bool = True


@dataclass(frozen=True)
class Plan:
    """What is about to be done: nothing has been computed or written yet, and nothing is wrong.

    Attributes:
        run: Does the work; it is called with the function that shows progress.
        title: What lines of progress begin with; empty for a command that shows none.
        about: What config.json says.
        writes: Whether there is a run folder to write.
        resumes: Whether the same command goes on with the run in the folder. Then config.json is
            written at the beginning, and a folder with anything else in it is refused.
        restart: Whether the run that is in the folder is moved aside.
        part: Part of the run that this command works on beside others; empty for all of it.
    """

    run: Callable[[Progress], Outcome]
    title: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    writes: bool = True
    resumes: bool = False
    restart: bool = False
    part: str = ""


@dataclass(frozen=True)
class Command:
    """A command: its name, its help, its flags and its plan.

    Attributes:
        name: The words after `mdpnewton`, as "tetris play".
        help: One line about it.
        options: The dataclass that its flags come from.
        plan: From the options and the run folder to what is about to be done.
        folder: The name of the run folder under `runs`, as "solve-{model}-{seed}" with fields of
            the options; empty if the command writes none.
        json: Whether it has `--json`.
        lean: Whether `--json` without `--out` writes no folder.
        one_thread: Whether it computes with one thread per process, so that its numbers do not
            depend on the number of cores.
        more: Gives further lines of the help for what is given before `--help`.
    """

    name: str
    help: str
    options: type[Any]
    plan: Callable[[Any, Path], Plan]
    folder: str = ""
    json: bool = True
    lean: bool = False
    one_thread: bool = False
    more: Callable[[Any], str] | None = None


def follow(
    command: Command, options: Any, *, out: Path | None, json: bool, words: str = ""
) -> None:
    """Carry out a command.

    Args:
        command: Which one.
        options: Its options.
        out: The run folder; None for the default.
        json: Whether to print the results as JSON and nothing else.
        words: The command line, which the run folder keeps.
    """
    folder = out or RUNS / folder_name(command.folder, options)
    plan = command.plan(options, folder)
    writes = plan.writes and bool(command.folder) and not (command.lean and json and out is None)
    try:
        if writes:
            outcome, pictures = carry_out(plan, folder, words or command.name, quiet=json)
            writes = outcome.complete
        else:
            outcome, pictures = _run(plan, quiet=json), []
        _show(plan, outcome, pictures, folder if writes else None, json=json)
        if outcome.interrupted:
            raise KeyboardInterrupt
    except KeyboardInterrupt as interrupt:
        if not (plan.resumes and words):
            raise
        said = interrupt.args or ("the same command goes on",)
        again = words.replace(" --restart", "")  # which would begin anew
        raise KeyboardInterrupt(*said, again) from None


def carry_out(plan: Plan, folder: Path, words: str, *, quiet: bool) -> tuple[Outcome, list[Path]]:
    """Do what is planned and write the run folder with its report; returns the pictures too."""
    from mdpnewton.cli.pages import write_report

    with _held(plan, folder), _session(plan, folder, words) as ended:
        outcome = _run(plan, quiet=quiet)
        pictures = _write(plan, outcome, folder) if outcome.complete else []
        ended.append("interrupted" if outcome.interrupted else "finished")
    if outcome.complete:
        write_report([folder], folder / REPORT)
    return outcome, pictures


def folder_name(template: str, options: Any) -> str:
    """The name with the options in their places: paths by their stem, all in plain letters.

    Several seeds take the place of one, and what is None leaves no gap.
    """
    values = {one.name: getattr(options, one.name) for one in fields(options)}
    values["seed"] = values.get("seeds") or values.get("seed")
    every = template.split("-")
    kept = [part for part in every if values.get(part.strip("{}"), part) not in (None, ())]
    return "-".join(kept).format(**{name: _plain(value) for name, value in values.items()})


@contextmanager
def _held(plan: Plan, folder: Path) -> Iterator[None]:
    """The folder is there, it is ours alone, and it is that of this run."""
    from mdpnewton.files.folder import prepare
    from mdpnewton.files.identity import begin_run, check_replaceable, set_aside
    from mdpnewton.files.lock import locked

    aside = set_aside(folder) if plan.restart else None
    if aside is not None:
        print(f"mdpnewton: the old run is now {aside}", file=sys.stderr)
    prepare(folder)
    with locked(folder, plan.part):
        warning = begin_run(folder, plan.about) if plan.resumes else ""
        if not plan.resumes:
            check_replaceable(folder, plan.about)
        if warning:
            print(f"mdpnewton: warning: {warning}", file=sys.stderr)
        yield


@contextmanager
def _session(plan: Plan, folder: Path, words: str) -> Iterator[list[str]]:
    """Note who works on the run and how that ends; shards don't, because they share the folder.

    What cannot be resumed is noted only when it is done: until then its folder may be another's.
    """
    from mdpnewton.files.sessions import begin_session, end_session

    ended: list[str] = []
    if plan.part:
        yield ended
        return
    began, noted = time.monotonic(), plan.resumes
    if noted:
        begin_session(folder, words)
    try:
        yield ended
        if not noted:
            begin_session(folder, words)
        noted = True
    except BaseException as error:
        ended[:] = ["interrupted" if isinstance(error, KeyboardInterrupt) else "failed"]
        raise
    finally:
        if noted:
            end_session(folder, ended[0], time.monotonic() - began)


def _run(plan: Plan, *, quiet: bool) -> Outcome:
    if not plan.title:
        return plan.run(lambda done, total, what: None)
    from mdpnewton.report.progress import progress_bar

    with progress_bar(plan.title, quiet=quiet) as progress:
        return plan.run(progress)


def _write(plan: Plan, outcome: Outcome, folder: Path) -> list[Path]:
    """Write the run folder; returns the pictures in it."""
    from mdpnewton.files.folder import to_json, write_run, write_whole

    figures = _drawn(outcome)
    config = None if plan.resumes else dict(plan.about)
    write_run(folder, config, outcome.results, figures)
    if outcome.replay is not None:
        write_whole(folder / "replay.json", to_json(outcome.replay()).encode())
    pictures = [folder / name for name in figures if name.endswith(".png")]
    return pictures + (outcome.pictures() if outcome.pictures else [])


def _drawn(outcome: Outcome) -> dict[str, bytes]:
    """The figures as files; without Matplotlib a line says so, and the run is not lost."""
    if outcome.draw is None:
        return {}
    from mdpnewton.report.figures import figure_style, rendered

    try:
        with figure_style():
            figures = outcome.draw()
    except MissingExtraError as error:
        print(f"mdpnewton: no figure: {error}", file=sys.stderr)
        return {}
    return rendered(figures)


def _show(
    plan: Plan, outcome: Outcome, pictures: list[Path], folder: Path | None, *, json: bool
) -> None:
    """The table and where the files are, or JSON."""
    if json:
        from mdpnewton.files.folder import to_json

        print(to_json(outcome.results), end="")
        return
    shown = outcome.table()
    if isinstance(shown, str):
        print(shown)
    else:
        from rich.console import Console

        Console().print(shown)
    if outcome.interrupted:
        more = "; the same command goes on" if plan.resumes else ""
        print(f"interrupted: this is what there is so far{more}")
    for name, path in outcome.files.items():
        print(f"{name}: {path}")
    if pictures:
        print(f"figure: {', '.join(map(str, pictures))}")
    if folder is not None:
        print(f"results: {folder / 'results.json'}")
        print(f"report: {folder / REPORT}")
    if outcome.note:
        print(outcome.note)


def _plain(value: Any) -> str:
    name = value.stem if isinstance(value, Path) else str(value)
    if isinstance(value, tuple):
        name = "-".join(map(str, value))
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)
