"""The command line: contents, one-line errors, nothing else on standard output."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import reference
from problems import arrays, gibbs, random_mdp, tabular

from mdpnewton.cli import main
from mdpnewton.cli.tables import method_names
from mdpnewton.environments import ENVIRONMENTS
from mdpnewton.experiments import EXPERIMENTS
from mdpnewton.methods import METHODS, PLACES
from mdpnewton.methods import names as names_of
from mdpnewton.training.black_box import BLACK_BOX_METHODS
from mdpnewton.training.presets import TRAINING_METHODS

WRITTEN = {"config.json", "results.json", "sessions.json", "report.html"}


def run(capsys, *arguments):
    status = main([str(word) for word in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def model(folder, **changes):
    mdp = random_mdp(0)
    content = dict(zip(("transition", "reward", "start", "discount"), arrays(mdp), strict=True))
    content.update(changes)
    path = folder / "model.npz"
    np.savez(path, **{name: value for name, value in content.items() if value is not None})
    return path


@pytest.mark.parametrize(
    "words", [[], ["train"], ["run"], ["solve"], ["tetris", "train"], ["list"]], ids=" ".join
)
def test_help_answers_at_once_and_loads_nothing_heavy(words):
    code = (
        "import sys, mdpnewton.cli\n"
        f"try: mdpnewton.cli.main({[*words, '--help']})\n"
        "except SystemExit: pass\n"
        "heavy = {'jax', 'scipy', 'matplotlib', 'rich', 'equinox', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--json" in done.stdout or "analyze" in done.stdout


@pytest.mark.parametrize("what", [None, "experiments", "methods", "environments"])
def test_list_names_everything_in_80_columns(capsys, what):
    names = {
        "experiments": set(EXPERIMENTS),
        "methods": {*METHODS, *TRAINING_METHODS, *BLACK_BOX_METHODS, *names_of("controller")},
        "environments": set(ENVIRONMENTS),
    }
    words = ["list"] if what is None else ["list", what]
    status, out, err = run(capsys, *words)
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    shown = {line.split()[1] for line in out.splitlines() if line.startswith("│ ")}
    wanted = set().union(*names.values()) if what is None else names[what]
    assert shown - {"│"} == wanted  # a line that goes on with a cell begins with two borders
    status, out, err = run(capsys, *words, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    if what is None:
        assert {kind: set(found[kind]) for kind in found} == names
    else:
        assert set(found) == names[what]


def test_list_says_how_long_an_experiment_takes(capsys):
    _, out, _ = run(capsys, "list", "experiments", "--json")
    for name, row in json.loads(out).items():
        assert row["shows"] == EXPERIMENTS[name].shows
        assert list(row["takes"]) == ["quick", "laptop", "paper"]
        assert all(re.fullmatch(r"[\d.]+ (s|min|h|day|week)", one) for one in row["takes"].values())
    _, out, _ = run(capsys, "list", "experiments")
    assert "manipulator-line-search" in out
    assert "1.5 h" in out
    assert "times: roughly, at each --scale, with one worker" in out


def test_list_says_where_a_method_applies(capsys):
    _, out, _ = run(capsys, "list", "methods", "--json")
    found = json.loads(out)
    assert found["natural"] == {"label": "natural gradient", "places": list(PLACES)}
    assert found["adam"]["places"] == ["controller"]
    for place in PLACES:
        expected = [name for name, row in found.items() if place in row["places"]]
        assert set(method_names(place)) == set(expected)
    assert set(method_names("network")) == set(TRAINING_METHODS)
    assert found["newton"]["places"] == ["exact"]


def test_list_of_environments_has_ids_and_sentences(capsys):
    _, out, _ = run(capsys, "list", "environments", "--json")
    for name, row in json.loads(out).items():
        assert (row["id"], row["sentence"]) == (ENVIRONMENTS[name].id, ENVIRONMENTS[name].sentence)


@pytest.mark.parametrize("kind", ["gibbs", "tabular"])
def test_analyze_prints_every_term_in_full_precision(tmp_path, capsys, kind):
    mdp = random_mdp(0)
    policy, oracle, w = {"gibbs": gibbs, "tabular": tabular}[kind](0, mdp)
    features = np.asarray(policy.features) if kind == "gibbs" else None
    path = model(tmp_path, features=features, weights=np.ravel(w))
    status, out, err = run(capsys, "analyze", path, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    gradient, terms = reference.terms(*arrays(mdp), oracle, np.ravel(w))
    values = reference.evaluate(*arrays(mdp), oracle, np.ravel(w))
    np.testing.assert_allclose(found["gradient"], gradient, atol=1e-12)
    for name in ("hessian", "H1", "H2", "H12", "A1", "A2", "V1", "V2", "fisher"):
        np.testing.assert_allclose(found[name], terms[name], atol=1e-11)
    for name in ("objective", "occupancy", "value", "advantage"):
        np.testing.assert_allclose(found[name], values[name], atol=1e-12)
    assert found["constant_curvature"] is True
    assert found["value_consistent"] is (kind == "tabular")
    assert (found["witness"] is None) == (kind == "tabular")


def test_analyze_replaces_its_own_results_and_no_others(tmp_path, capsys):
    path, out = model(tmp_path), tmp_path / "run"
    for _ in range(2):
        assert run(capsys, "analyze", path, "--out", out)[0] == 0
    path.rename(tmp_path / "other.npz")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("")
    for folder in (out, tmp_path / "full"):
        status, _, err = run(capsys, "analyze", tmp_path / "other.npz", "--out", folder)
        assert status == 2
        assert err.endswith("on the same; name another folder with --out\n")
    assert not (tmp_path / "full" / "results.json").exists()


def test_analyze_without_weights_starts_at_the_uniform_policy(tmp_path, capsys):
    _, out, _ = run(capsys, "analyze", model(tmp_path), "--json")
    found = json.loads(out)
    assert len(found["gradient"]) == 15
    occupancy = np.array(found["occupancy"])
    np.testing.assert_allclose(occupancy, np.repeat(occupancy[:, :1], 3, axis=1))


def test_analyze_shows_a_table_and_saves_the_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(capsys, "analyze", model(tmp_path))
    assert status == 0
    assert "negative semidefinite" in out
    folder = tmp_path / "runs" / "analyze-model"
    names = {path.name for path in folder.iterdir()}
    assert names == {*WRITTEN, "hessian.png", "hessian.svg"}
    assert max(map(len, out.splitlines())) <= 80


def write_truncated(folder):
    path = model(folder)
    path.write_bytes(path.read_bytes()[:200])
    return path


def write_text(folder):
    path = folder / "model.npz"
    path.write_text("not an archive")
    return path


def write_array(folder):
    path = folder / "model.npz"
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    return path


def write_objects(folder):
    return model(folder, reward=np.array([[object()] * 3] * 5))


BAD_MODELS = {
    "missing": (lambda d: d / "nothing.npz", "no such file"),
    "truncated": (write_truncated, "not a whole .npz"),
    "not an npz": (write_text, "not a whole .npz"),
    "a single array": (write_array, "single array"),
    "a pickle inside": (write_objects, "not a whole .npz"),
    "unknown key": (lambda d: model(d, rewards=np.ones(2)), "unknown key 'rewards'"),
    "missing key": (lambda d: model(d, start=None), "missing key 'start'"),
    "rows that do not sum to one": (
        lambda d: model(d, transition=np.ones((5, 3, 5))),
        "must sum to one",
    ),
    "discount of one": (lambda d: model(d, discount=1.0), r"at least 0 and below 1"),
    "two discounts": (lambda d: model(d, discount=np.ones(2)), "one number"),
    "features that do not fit": (
        lambda d: model(d, features=np.ones((4, 3, 2))),
        "features need shape (5, 3, n)",
    ),
    "weights that do not fit": (lambda d: model(d, weights=np.ones(4)), "weights need 15"),
    "weights with NaN": (lambda d: model(d, weights=np.full(15, np.nan)), "weights must be finite"),
    "weights that overflow": (
        lambda d: model(d, features=1e300 * np.ones((5, 3, 1)), weights=np.array([1e300])),
        "not finite",
    ),
    "complex rewards": (lambda d: model(d, reward=np.ones((5, 3), complex)), "real numbers"),
    "words": (lambda d: model(d, start=np.array(["a"] * 5)), "real numbers"),
}


@pytest.mark.parametrize("name", BAD_MODELS)
def test_a_bad_model_is_one_line_on_standard_error(tmp_path, capsys, name):
    make, message = BAD_MODELS[name]
    status, out, err = run(capsys, "analyze", make(tmp_path), "--json")
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("mdpnewton: error: ")
    assert message in err


BAD_COMMANDS = {
    ("run", "nothing"): "choose one of demo, invariance",
    ("run", "hallway", "--scale", "huge"): "invalid choice",
    ("run", "hallway", "--set", "maze"): "write NAME=VALUE",
    ("run", "hallway", "--set", "color=red"): "there is no such setting",
    ("run", "hallway", "--set", "discount=high"): "needs a value of type float",
    ("run", "invariance", "--set", "iterations=0"): (
        "--set iterations=0: must be a whole number of at least 1, got 0"
    ),
    ("run", "cartpole", "--set", "tuning_runs=-1"): (
        "--set tuning_runs=-1: must be a whole number of at least 0, got -1"
    ),
    ("run", "hallway", "--set", "maze=round"): "--set maze=round: must be one of 'hallway', 'mcc",
    ("run", "hallway", "--set", "spread=nan"): "--set spread=nan: must be a number at least 0",
    ("list", "planets"): "invalid choice",
    ("train", "cartpole", "--method", "magic"): "there is no method 'magic'; choose one of second",
    ("tetris", "train", "--method", "newton"): "there is no method 'newton'; choose one of second",
    ("run", "hallway", "--set", "discount=0"): "there is no ratio",
    ("run", "hallway", "--set", "discount=2"): "at least 0 and below 1",
    ("run", "hallway", "--set", "features=past"): "'successor', 'current'",
    ("run", "hallway", "--seed", "-1"): "must not be negative",
    ("run", "hallway", "--seed", "x"): "invalid int",
    ("fly",): "invalid choice",
    (): "required",
}


@pytest.mark.parametrize("words", BAD_COMMANDS, ids=" ".join)
def test_a_bad_command_is_one_line_on_standard_error(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert BAD_COMMANDS[words] in err


def test_out_must_be_a_folder(tmp_path, capsys):
    taken = tmp_path / "taken"
    taken.write_text("mine")
    status, _, err = run(capsys, "run", "hallway", "--out", taken)
    assert status == 2
    assert "is a file" in err
    assert taken.read_text() == "mine"


def test_debug_shows_the_traceback():
    with pytest.raises(ValueError, match="choose one of"):
        main(["run", "nothing", "--debug"])


def test_an_interrupt_says_so(capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("mdpnewton.cli.tables.experiments", interrupted)
    assert main(["list"]) == 130
    assert capsys.readouterr().err == "mdpnewton: interrupted\n"


def test_an_unexpected_error_is_one_line_too(capsys, monkeypatch):
    def fail(*_):
        raise RuntimeError("the\nroof")

    monkeypatch.setattr("mdpnewton.cli.tables.experiments", fail)
    assert main(["list"]) == 2
    assert capsys.readouterr().err.startswith("mdpnewton: error: RuntimeError: the roof; run it")
