"""The documentation runs: Python blocks page by page, and every mdpnewton command."""

import re
import shlex
from pathlib import Path

import pytest

from mdpnewton.cli import main
from mdpnewton.cli.flow import RUNS, folder_name
from mdpnewton.cli.run import COMMAND, Options

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
SLOW = ("--scale laptop", "--scale paper")
PLAIN_RUN = re.compile(
    r"mdpnewton run (?P<name>\S+)( --scale quick)?( --seed 0)?"
    r"(?P<settings>( --set \S+)*)( --out (?P<out>\S+))?( --json)?"
)


def blocks(page):
    return BLOCK.findall(page.read_text())


def bring_jobs(shared_run, name, settings, out):
    """The jobs of an experiment are the same on every page: the command finds them done."""
    words = settings.split()
    options = Options(experiment=name, set=tuple(words[1::2]))
    folder = Path(out) if out else RUNS / folder_name(COMMAND.folder, options)
    if not folder.exists():
        shared_run.copy_jobs(folder, name, *words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch, capsys, shared_run):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, f"{page.name}", "exec"), namespace)
        elif language == "sh":
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["mdpnewton"] and not any(slow in line for slow in SLOW):
                    if run := PLAIN_RUN.fullmatch(" ".join(words)):
                        bring_jobs(shared_run, **run.groupdict())
                    assert main(words[1:]) == 0, (line, capsys.readouterr().err)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_of_a_page_exist(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:[#\s][^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_make_targets_that_the_documentation_names_exist():
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        for language, text in blocks(page):
            if language == "sh":
                assert set(re.findall(r"^make ([a-z-]+)", text, re.M)) <= known, page.name


def test_the_paper_map_names_tests_that_exist():
    tests = "".join(path.read_text() for path in (ROOT / "tests").glob("test_*.py"))
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / "paper-map.md").read_text())
    assert len(named) > 20
    missing = [name for name in named if f"def {name}(" not in tests]
    assert not missing


def test_experiment_pages_have_the_fixed_headings():
    for page in (ROOT / "docs" / "experiments").glob("*.md"):
        headings = re.findall(r"^## (.*)$", page.read_text(), re.M)
        fixed = ["In the paper", "Here", "Differences and why", "Command", "Result"]
        assert headings == fixed, page.name
