"""`make figures`: every result that the documentation shows has a command, the one that made it."""

import importlib.util
import json
import shlex
import sys
from pathlib import Path

import pytest

from mdpnewton.experiments import EXPERIMENTS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
SPEC = importlib.util.spec_from_file_location("figures", ROOT / "tools" / "figures.py")
figures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figures)
# Made by a version that no command brings back, and by a script of its own with its own page.
OTHERS = {"tetris-training/dt10/without-undoing.json", "peers"}


def asked(command):
    """The experiment, scale, seed and settings of a command."""
    name, *words = shlex.split(command)
    pairs = list(zip(words[::2], words[1::2], strict=True))
    changes = dict(text.split("=", 1) for flag, text in pairs if flag == "--set")
    given = dict(pairs)
    return name, given["--scale"], int(given.get("--seed", 0)), changes


def shown():
    """What docs/results holds: folders with results, and single files of results."""
    for path in sorted(RESULTS.rglob("*.json")):
        name = path.relative_to(RESULTS).as_posix()
        if path.name == "results.json":
            yield path.parent.relative_to(RESULTS).as_posix()
        elif path.name not in ("config.json", "weights.json"):
            yield name


def test_every_result_that_is_shown_has_a_command():
    known = {*figures.SHOWN, *figures.PRINTED, *OTHERS}
    assert set(shown()) <= known, "add it to tools/figures.py"
    assert {*figures.SHOWN, *figures.PRINTED} <= set(shown())


@pytest.mark.parametrize("name", figures.SHOWN)
def test_the_command_is_the_one_that_made_it(name):
    experiment, scale, seed, changes = asked(figures.SHOWN[name])
    path = RESULTS / name if name.endswith(".json") else RESULTS / name / "results.json"
    found = json.loads(path.read_text())
    assert (found["experiment"], found["scale"], found["seed"]) == (experiment, scale, seed)
    settings = vars(EXPERIMENTS[experiment].config(scale, changes))
    kept = path.with_name("config.json")
    if path.name == "results.json":
        before = json.loads(kept.read_text())["settings"]
        assert {key: settings[key] for key in before} == before
    chosen = settings.get("methods")
    if chosen:
        assert set(found["methods"]) <= set(chosen.split(",")) | {"practical"} or name == "cartpole"


def test_one_part_runs_copies_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "RESULTS", tmp_path / "shown")
    monkeypatch.setattr(figures, "RUNS", tmp_path / "runs")
    calls = []

    def run(command, **_):
        calls.append([str(word) for word in command])
        folder = Path(command[-1])
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("results.json", "config.json", "x.png", "report.html", ".lock"):
            (folder / file).write_text(file)
        (folder / "jobs").mkdir(exist_ok=True)

    monkeypatch.setattr(figures.subprocess, "run", run)
    figures.part("hallway")
    figures.part("tetris/starts/soft-0.0.json")
    assert [call[1:3] for call in calls] == [["run", "hallway"], ["run", "tetris"]]
    copied = {path.name for path in (tmp_path / "shown" / "hallway").iterdir()}
    assert copied == {"results.json", "config.json", "x.png"}
    assert (tmp_path / "shown" / "tetris/starts/soft-0.0.json").read_text() == "results.json"


def test_an_unknown_part_is_refused(monkeypatch, capsys):
    import runpy

    monkeypatch.setattr(sys, "argv", ["figures.py", "nothing"])
    with pytest.raises(SystemExit, match="nothing: choose from demo, "):
        runpy.run_path(str(ROOT / "tools" / "figures.py"), run_name="__main__")
