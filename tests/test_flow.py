"""The one flow of all commands, with a tiny command of its own; flags from a dataclass."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from rich.table import Table

from mdpnewton.cli import parser
from mdpnewton.cli.flags import attribute_docs, flag
from mdpnewton.cli.flow import Command, Outcome, Plan, folder_name
from mdpnewton.report.figures import new_figure

WRITTEN = {"config.json", "results.json", "sessions.json", "report.html"}
LONG = "a sentence that is too long for one line of a cell and goes on in the next one"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to count.

    Attributes:
        words: What the numbers
            stand for.
        how_many: Number of numbers, 50 % more than needed.
        limit: Where to stop.
        share: Share of them.
        order: Which way to go.
        label: Another word; may be repeated.
        known: One of the words that are known (default: found out).
        plain: Leave out the rest.
    """

    words: str = flag(positional=True, metavar="WORDS")
    how_many: int = flag(3, least=1)
    limit: int | None = flag(None, least=0)
    share: float = flag(0.5, above=0)
    order: Literal["up", "down"] = "up"
    label: tuple[str, ...] = flag((), metavar="LABEL")
    known: str = flag("one", known=lambda: ("one", "two"))
    plain: bool = False


def plan(options, folder, seen):
    if options.words == "bad":
        raise ValueError("WORDS bad: choose better ones")
    seen.append(options)
    return Plan(partial(count, options, folder), title="count", about={"words": options.words})


def count(options, folder, progress):
    done, interrupted = [], False
    try:
        for number in range(options.how_many):
            if number == options.limit:
                raise KeyboardInterrupt
            progress(number, options.how_many, "counting")
            done.append(number)
    except KeyboardInterrupt:
        if not done:
            raise
        interrupted = True

    def table():
        shown = Table("number", "word", "of what")
        for number in done:
            shown.add_row(f"{number}", options.words, LONG)
        return shown

    return Outcome(
        {"numbers": done},
        table,
        draw=lambda: {"count": new_figure()[0]},
        pictures=lambda: [folder / "more.gif"],
        files={"list": folder / "list.txt"},
        note="count again: mdpnewton count",
        interrupted=interrupted,
    )


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Runs `count` with some words; gives status, output, errors and the options it got."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    seen = []
    added = Command(
        "count", "some numbers", Options, partial(plan, seen=seen), folder="count-{words}"
    )
    lean = Command("lean", "the same", Options, partial(plan, seen=seen), folder="lean", lean=True)
    monkeypatch.setattr(parser, "new_parser", partial(parser.new_parser, (added, lean)))

    def run(*words):
        status = parser.main([str(word) for word in words])
        captured = capsys.readouterr()
        return status, captured.out, captured.err, seen

    return run


def test_the_flow_writes_a_folder_and_shows_table_and_files(command):
    status, out, err, _ = command("count", "sheep")
    assert (status, err) == (0, "")
    folder = Path("runs/count-sheep")
    assert json.loads((folder / "results.json").read_text()) == {"numbers": [0, 1, 2]}
    assert json.loads((folder / "config.json").read_text())["words"] == "sheep"
    names = {path.name for path in folder.iterdir()}
    assert names == {"count.png", "count.svg", *WRITTEN}
    assert out.splitlines()[-5:] == [
        f"list: {folder}/list.txt",
        f"figure: {folder}/count.png, {folder}/more.gif",
        f"results: {folder}/results.json",
        f"report: {folder}/report.html",
        "count again: mdpnewton count",
    ]


def test_the_table_has_80_columns_and_no_broken_line(command):
    _, out, _, _ = command("count", "sheep")
    rows = [line for line in out.splitlines() if line[:1] in "┏┡└│┃"]
    assert {len(line) for line in rows} == {80}
    assert " ".join(" ".join(line.split("│")[3].split()) for line in rows if "│" in line).count(
        LONG
    ) == len([0, 1, 2])


def test_json_is_all_that_is_printed(command):
    status, out, err, _ = command("count", "sheep", "--json", "--out", "here")
    assert (status, err) == (0, "")
    assert out == Path("here/results.json").read_text()


def test_a_lean_command_writes_no_folder_for_json_unless_it_is_named(command):
    assert command("lean", "sheep", "--json")[0] == 0
    assert not Path("runs").exists()
    assert command("lean", "sheep", "--json", "--out", "here")[0] == 0
    assert Path("here/results.json").exists()
    assert command("lean", "sheep")[0] == 0
    assert Path("runs/lean/results.json").exists()


def test_what_the_plan_refuses_leaves_no_folder(command):
    status, out, err, _ = command("count", "bad")
    assert (status, out) == (2, "")
    assert err == "mdpnewton: error: WORDS bad: choose better ones\n"
    assert not Path("runs").exists()


def test_a_folder_that_cannot_be_is_refused_before_anything_is_run(command, monkeypatch):
    Path("taken").write_text("mine")
    monkeypatch.setattr("mdpnewton.cli.flow._run", lambda *_, **__: pytest.fail("it ran"))
    status, out, err, _ = command("count", "sheep", "--out", "taken")
    assert (status, out) == (2, "")
    assert err == "mdpnewton: error: --out taken: is a file; name a folder\n"


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["table", "json"])
def test_ctrl_c_in_the_middle_keeps_what_is_finished(command, more):
    status, out, err, _ = command("count", "sheep", "--limit", 2, *more)
    assert (status, err) == (130, "mdpnewton: interrupted\n")
    assert json.loads(Path("runs/count-sheep/results.json").read_text()) == {"numbers": [0, 1]}
    if more:
        assert json.loads(out) == {"numbers": [0, 1]}
    else:
        assert "interrupted: this is what there is so far\n" in out


def test_ctrl_c_before_anything_is_finished_writes_nothing(command):
    status, out, err, _ = command("count", "sheep", "--limit", 0)
    assert (status, out, err) == (130, "", "mdpnewton: interrupted\n")
    assert not list(Path("runs/count-sheep").iterdir())


def test_without_matplotlib_the_run_is_complete_and_a_line_says_what_is_missing(
    command, monkeypatch
):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    status, out, err, _ = command("count", "sheep")
    assert status == 0
    assert err.startswith("mdpnewton: no figure: a figure needs Matplotlib; install it with")
    assert Path("runs/count-sheep/results.json").exists()
    assert ".png" not in out


# Flags


def test_flags_have_the_types_and_defaults_of_the_fields(command):
    assert command("count", "sheep")[3][-1] == Options(words="sheep")
    given = ["--how-many", 5, "--limit", 4, "--share", 2, "--order", "down", "--plain"]
    given += ["--label", "a", "--label", "b", "--known", "two"]
    assert command("count", "sheep", *given)[3][-1] == Options(
        words="sheep",
        how_many=5,
        limit=4,
        share=2.0,
        order="down",
        label=("a", "b"),
        known="two",
        plain=True,
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--how-many", "0"], "--how-many must be at least 1, got 0"),
        (["--how-many", "x"], "argument --how-many: invalid int value: 'x'"),
        (["--limit", "-1"], "--limit must not be negative, got -1"),
        (["--share", "0"], "--share must be positive, got 0.0"),
        (["--share", "nan"], "--share must be positive, got nan"),
        (["--order", "left"], "argument --order: invalid choice: 'left'"),
        (["--known", "three"], "there is no known 'three'; choose one of one, two"),
        (["--colour", "red"], "unrecognized arguments: --colour red"),
    ],
)
def test_the_rules_of_flags_are_checked_once_for_all_commands(command, words, said):
    status, out, err, _ = command("count", "sheep", *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"mdpnewton: error: {said}")
    assert err.count("\n") == 1


def test_a_flag_without_a_default_is_required(command):
    status, _, err, _ = command("count")
    assert status == 2
    assert "required: WORDS" in err


def test_help_comes_from_the_docs_of_the_fields(command, capsys):
    with pytest.raises(SystemExit):
        command("count", "--help")
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "WORDS What the numbers stand for",
        "--how-many HOW_MANY Number of numbers, 50 % more than needed (default: 3)",
        "--limit LIMIT Where to stop --",
        "--order {up,down} Which way to go (default: up)",
        "--label LABEL Another word; may be repeated --",
        "--known KNOWN One of the words that are known (default: found out)",
        "--out FOLDER Run folder (default: runs/count-WORDS)",
        "--json Print the results as JSON and nothing else",
    ):
        assert part in text


def test_every_field_of_every_command_is_documented():
    for command in parser.COMMANDS:
        docs = attribute_docs(command.options)
        assert list(docs) == list(command.options.__dataclass_fields__), command.name
        for name, text in docs.items():
            assert text[0].isupper(), (command.name, name)
            assert text.endswith("."), (command.name, name)


def test_the_default_folder_is_named_after_the_options():
    @dataclass
    class Given:
        model: Path
        environment: str

    given = Given(Path("far/away/tiger.pomdp"), "user_environments:user/Walk-v0")
    assert folder_name("solve-{model}", given) == "solve-tiger"
    assert folder_name("{environment}", given) == "user_environments-user-Walk-v0"
