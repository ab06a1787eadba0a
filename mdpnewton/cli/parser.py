"""The parser of all commands, their errors and their exit status.

Nothing heavy is imported before it is needed: `--help` answers at once.
"""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mdpnewton.checks import MissingExtraError
from mdpnewton.cli import analyze, compare, evaluate, report, run, solve, status, train
from mdpnewton.cli import list as listing
from mdpnewton.cli import watch as page
from mdpnewton.cli.flags import add_flags, checked
from mdpnewton.cli.flow import RUNS, Command, follow
from mdpnewton.cli.signals import exit_status, interrupts
from mdpnewton.cli.terminal import use_similar_signs
from mdpnewton.cli.tetris import play, watch
from mdpnewton.cli.tetris import train as tetris_train
from mdpnewton.threads import one_thread
from mdpnewton.version import __version__

COMMANDS = (
    listing.COMMAND,
    run.COMMAND,
    status.COMMAND,
    analyze.COMMAND,
    train.COMMAND,
    evaluate.COMMAND,
    report.COMMAND,
    compare.COMMAND,
    page.COMMAND,
    solve.COMMAND,
    play.COMMAND,
    watch.COMMAND,
    tetris_train.COMMAND,
)
GROUPS = {"tetris": "play Tetris, watch it, or look for weights"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


class _Help(argparse.Action):
    """Shows the help of a command, and more about what was given before it."""

    def __init__(self, option_strings: Any, dest: str, more: Callable[[Any], str]):
        text = "show this help message, and more if it comes last, and exit"
        super().__init__(option_strings, dest, nargs=0, help=text)
        self.more = more

    def __call__(self, parser: Any, given: Any, values: Any, option: Any = None) -> None:
        text = "\n\n".join(filter(None, (parser.format_help().rstrip(), self.more(given))))
        print(text)
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    use_similar_signs()
    given = [*(sys.argv[1:] if arguments is None else arguments)]
    debug = "--debug" in given
    try:
        found = new_parser().parse_args([word for word in given if word != "--debug"])
        command: Command = found.command
        if command.one_thread:
            os.environ.update(one_thread())  # before anything loads NumPy or JAX
        options = checked(command.options, found)
        out, json = getattr(found, "out", None), getattr(found, "json", False)
        with interrupts():
            follow(command, options, out=out, json=json, words=shlex.join(["mdpnewton", *given]))
    except KeyboardInterrupt as interrupt:
        print(": ".join(["mdpnewton: interrupted", *map(str, interrupt.args)]), file=sys.stderr)
        return exit_status()
    except BrokenPipeError:  # `mdpnewton ... | head`
        sys.stderr.close()
        return 0
    except Exception as error:
        if debug:
            raise
        expected = isinstance(error, ValueError | OSError | ArithmeticError | MissingExtraError)
        text = " ".join(str(error).split()) or type(error).__name__
        if not expected:
            text = f"{type(error).__name__}: {text}; run it again with --debug to see where"
        print(f"mdpnewton: error: {text}", file=sys.stderr)
        return 2
    return 0


def new_parser(commands: Sequence[Command] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of the commands; what it finds has the `Command` as `command`."""
    root = _Parser(
        prog="mdpnewton",
        description="Second-order policy search for Markov decision processes.",
        epilog="Every command takes --debug, which shows the traceback of an error.",
    )
    root.add_argument("--version", action="version", version=f"mdpnewton {__version__}")
    places: dict[str, Any] = {"": _places(root)}
    for command in commands:
        group, _, name = command.name.rpartition(" ")
        if group not in places:
            places[group] = _places(places[""].add_parser(group, help=GROUPS.get(group)))
        added = places[group].add_parser(name, help=command.help, add_help=command.more is None)
        if command.more is not None:
            added.add_argument("-h", "--help", action=_Help, more=command.more)
        add_flags(added, command.options)
        _add_output(added, command)
        added.set_defaults(command=command)
    return root


def _places(parent: argparse.ArgumentParser) -> Any:
    return parent.add_subparsers(title="commands", metavar="COMMAND", required=True)


def _add_output(added: argparse.ArgumentParser, command: Command) -> None:
    """The flags that the flow itself answers to."""
    if command.folder:
        shown = re.sub(r"\{(\w+)\}", lambda field: field[1].upper(), command.folder)
        text = f"Run folder (default: {RUNS / shown})"
        added.add_argument("--out", type=Path, metavar="FOLDER", help=text)
    if command.json:
        text = "Print the results as JSON and nothing else"
        added.add_argument("--json", action="store_true", help=text)
