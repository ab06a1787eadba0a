"""Settings of experiments: checked by every `Config`, changed by --set, shown by --settings."""

import json
from dataclasses import fields

import pytest

from mdpnewton.cli import main
from mdpnewton.cli.flags import attribute_docs
from mdpnewton.experiments import EXPERIMENTS

SCALES = ("quick", "laptop", "paper")
# Smallest whole numbers other than 1, as the docs say.
LEAST = {"tuning_runs": 0, "practical_runs": 0}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_setting_is_documented_and_checked_at_construction(name):
    config = EXPERIMENTS[name].load().Config
    docs = attribute_docs(config)
    assert list(docs) == [one.name for one in fields(config)]
    for text in docs.values():
        assert text[0].isupper() or text[0] == '"'
        assert text.endswith(".")
        assert not text.startswith("Of ")
    for one in fields(config):
        if one.type is int:
            least = LEAST.get(one.name, 1)
            assert getattr(config(**{one.name: least}), one.name) == least
            for wrong in (least - 1, 1.5, True):
                rule = rf"`Config\({one.name}=...\)` must be a whole number of at least {least}, "
                with pytest.raises(ValueError, match=rule):
                    config(**{one.name: wrong})
        elif one.type is float:
            for wrong in (float("nan"), float("inf"), "much"):
                with pytest.raises(ValueError, match=rf"`Config\({one.name}=...\)` must be a num"):
                    config(**{one.name: wrong})


def test_a_documented_zero_is_accepted():
    assert EXPERIMENTS["cartpole"].config("paper", {"tuning_runs": "0"}).tuning_runs == 0
    assert EXPERIMENTS["tetris-training"].config("laptop", {"minutes": "0"}).minutes == 0


@pytest.mark.parametrize(
    ("name", "setting", "said"),
    [
        ("cartpole", "tuning_runs=-1", "must be a whole number of at least 0, got -1."),
        ("cartpole", "runs=0", "must be a whole number of at least 1, got 0."),
        ("tetris-training", "minutes=-1", "must be a number at least 0, got -1.0."),
        ("hallway", "maze=round", "must be one of 'hallway', 'mccallum', got 'round'."),
        ("manipulator-fixed-step", "steps=long", "must be one of 'line search', 'fixed step', "),
        ("invariance", "move_first=1", "must be a number above 0 and below 1, got 1.0."),
        ("ball-in-cup", "sigma=0", "must be a number above 0, got 0.0."),
    ],
)
def test_a_bad_setting_is_named_with_its_rule(name, setting, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", name, "--set", setting]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"mdpnewton: error: --set {setting}: {said}")
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_are_shown_with_defaults_and_docs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    row = EXPERIMENTS[name]
    assert main(["run", name, "--settings", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    docs = attribute_docs(row.load().Config)
    assert list(found) == list(docs)
    for setting, shown in found.items():
        assert shown["sentence"] == docs[setting]
        for scale in SCALES:
            assert shown[scale] == getattr(row.config(scale, {}), setting)
    assert main(["run", name, "--settings"]) == 0
    out = capsys.readouterr().out
    for setting, shown in found.items():
        assert f"\n{setting}={shown['quick']}" in out
    with pytest.raises(SystemExit):
        main(["run", name, "--help"])
    assert capsys.readouterr().out.endswith(f"\n\n{out}")
    sentences = [line for line in out.splitlines() if line.startswith("    ")]
    assert max(map(len, sentences)) <= 80
    assert " ".join(" ".join(sentences).split()) == " ".join(docs.values())
    assert not (tmp_path / "runs").exists()
