"""`train --set` changes every number of the preset, with the checks and messages of `run --set`."""

import json
from dataclasses import fields

import pytest
import user_environments  # noqa: F401

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.cli.flags import attribute_docs
from mdpnewton.cli.flow import folder_name
from mdpnewton.cli.solve import COMMAND as SOLVE
from mdpnewton.cli.tetris.train import COMMAND as TETRIS
from mdpnewton.cli.train import COMMAND, Options, _preset
from mdpnewton.files.folder import POLICY
from mdpnewton.files.states import load_state

TRAIN = ("train", "user/Walk-v0", "--policy", "linear", "--iterations", "1", "--json")


@pytest.mark.parametrize("name", sorted({one.name for one in fields(mn.Preset)} - {"squashed"}))
def test_every_number_can_be_set(name):
    value = {"discount": "0.5", "trace": "0.5", "critic_trace": "0.5", "patience": "0.5"}
    text = {**value, "critic": "network"}.get(name, "3")
    preset = _preset(Options(environment="cartpole", set=(f"{name}={text}", "exploration=4")[:2]))
    expected = 4 if name == "exploration" else text if name == "critic" else float(text)
    assert getattr(preset, name) == expected
    assert preset == mn.Preset(**{"exploration": 4.0, name: getattr(preset, name)})


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("discount=2", "--set discount=2: must be a number at least 0 and at most 1, got 2.0"),
        ("discount=high", "--set discount=high: needs a value of type float"),
        ("features=0", "--set features=0: must be a whole number of at least 1, got 0"),
        ("features=many", "--set features=many: needs a value of type int, as 200"),
        ("colour=blue", "--set colour: there is no such setting; known: discount=None, deadline"),
        ("discount", "--set discount: write NAME=VALUE"),
        ("squashed=yes", "--set squashed: say --actions squashed or --actions clipped"),
    ],
)
def test_a_wrong_number_is_named_with_its_rule(setting, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*TRAIN, "--set", setting]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"mdpnewton: error: {words}")
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_training_with_other_numbers_is_another_run(capsys, tmp_path):
    command = [*TRAIN, "--out", str(tmp_path), "--set", "discount=0.9"]
    assert main([*command, "--set", "hidden=5"]) == 0
    preset = load_state(tmp_path / POLICY)["preset"]
    assert (preset["discount"], preset["hidden"]) == (0.9, 5)
    assert mn.load(tmp_path).act([0.5]) in (1, 2)  # what a command saves acts too
    about = json.loads((tmp_path / "config.json").read_text())
    assert about["set"] == {"discount": "0.9", "hidden": "5"}
    capsys.readouterr()
    for other, words in (
        ([], 'holds a run with set {"discount": "0.9", "hidden": "5"}, not null'),
        (["--set", "discount=0.8", "--set", "hidden=5"], 'run with discount "0.9", not "0.8"'),
    ):
        assert main([*TRAIN, "--out", str(tmp_path), *other]) == 2
        assert words in capsys.readouterr().err


def test_default_folders_tell_runs_apart():
    options = Options(environment="CartPole-v1", seed=3, policy="mlp", method="natural")
    assert folder_name(COMMAND.folder, options) == "train-CartPole-v1-mlp-natural-3"
    other = Options(environment="m:A/B-v0", set=("discount=0.9",))
    wanted = "train-m-A-B-v0-rbf-second_gauss_newton-0-discount-0.9"
    assert folder_name(COMMAND.folder, other) == wanted
    for command in (SOLVE, TETRIS):
        assert "-{method}-{seed}" in command.folder


def test_help_lists_the_numbers_of_the_preset(capsys):
    docs = attribute_docs(mn.Preset)
    with pytest.raises(SystemExit):
        main(["train", "cartpole", "--help"])
    out = capsys.readouterr().out
    assert "mdpnewton train cartpole --set NAME=VALUE\n" in out
    assert all(f"\n{name}={value}\n" in out for name, value in vars(mn.PRACTICAL).items())
    assert " ".join(docs["share"].split()) in " ".join(out.split())
    for words in (["train", "--help"], ["run", "--help"], ["run", "nosuch", "--help"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "--set NAME=VALUE\n" not in capsys.readouterr().out
