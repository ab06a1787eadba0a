"""`mdpnewton run EXPERIMENT --set model=...`: experiments on models that people bring."""

import json

import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.cli import main

TIGERISH = """discount: 0.75
values: reward
states: left right
actions: wait leap
observations: dim bright
T: wait identity
T: leap uniform
O: * uniform
R: leap : left : * : * 1
"""


def saved(path, reward=0.0, **keys):
    rng = np.random.default_rng(1)
    transition, table = rng.dirichlet(np.ones(4), size=(4, 2)), rng.normal(size=(4, 2))
    keys = keys or {"discount": 0.9}
    mn.save_model(path, mn.FiniteMDP(transition, table + reward, np.full(4, 0.25), **keys))
    return str(path)


def run(experiment, model, folder, *settings):
    changes = [f"--set={one}" for one in (f"model={model}", *settings)]
    return main(["run", experiment, *changes, "--out", str(folder), "--json"])


def found(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("keys", [{"discount": 0.9}, {"criterion": "average"}])
def test_methods_are_compared_on_the_model_from_its_own_start_on(keys, tmp_path, capsys):
    path = saved(tmp_path / "mine.npz", reward=-5.0, **keys)  # costs, which need the offset
    assert run("demo", path, tmp_path / "run", "problems=1", "iterations=8") == 0
    methods = found(capsys)["methods"]
    assert max(one["curve"]["mean"][-1] for one in methods.values()) == 1
    assert methods["second_gauss_newton"]["curve"]["mean"][-1] > 0.9
    assert (tmp_path / "run" / "report.html").is_file()


def test_the_cross_term_of_the_model_is_that_of_its_own_matrices(tmp_path, capsys):
    path = saved(tmp_path / "mine.npz", reward=-5.0)
    assert run("mccallum", path, tmp_path / "run", "iterations=3") == 0
    results = found(capsys)
    mdp, policy, w = mn.load_model(path)
    analysis = mn.analyze(mdp, policy, w)
    cross = analysis.terms["H12"] + analysis.terms["H12"].T
    assert results["norm_H12"][0] == pytest.approx(np.linalg.norm(cross, 2))
    assert results["norm_A1"][0] == pytest.approx(np.linalg.norm(analysis.terms["A1"], 2))
    assert (results["model"], len(results["ratio"])) == ("mine", 4)
    assert results["objective"] == sorted(results["objective"])


def test_an_offset_matters_to_the_model_only_where_it_is_not_removed(tmp_path, capsys):
    path = saved(tmp_path / "mine.npz")
    assert run("offset", path, tmp_path / "run", "offsets=2", "iterations=3") == 0
    methods = found(capsys)["methods"]
    gains = {name: one["curve"]["mean"] for name, one in methods.items()}
    assert gains["tight_offset"][0] == pytest.approx(gains["tight_offset"][1])
    assert gains["raw"][0] != pytest.approx(gains["raw"][1], rel=1e-2)
    average = saved(tmp_path / "average.npz", criterion="average")
    assert run("offset", average, tmp_path / "other") == 2
    assert "needs criterion 'discounted'" in capsys.readouterr().err


def test_controllers_are_searched_for_a_file(tmp_path, capsys):
    path = tmp_path / "mine.pomdp"
    path.write_text(TIGERISH)
    how = "restarts=2", "iterations=3", "nodes=2"
    assert run("fsc", path, tmp_path / "run", *how) == 0
    problem = found(capsys)["problems"]["mine"]
    assert problem["nodes"] == 2
    assert problem["best"] <= problem["optimum"] + 1e-9


def test_a_run_does_not_go_on_with_another_content_of_the_same_file(tmp_path, capsys):
    path, folder = tmp_path / "mine.npz", tmp_path / "run"
    saved(path)
    assert run("offset", path, folder, "offsets=1", "iterations=1") == 0
    saved(path, -3.0)
    assert run("offset", path, folder, "offsets=1", "iterations=1") == 2
    assert "was made with other settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("experiment", "model", "said"),
    [
        ("invariance", "mine.npz", "those that take a model are demo, hallway, mccallum, fsc"),
        ("hallway", "Taxi-v4", "has 3,000 parameters"),
        ("demo", "nowhere.npz", "there is no such file"),
        ("fsc", "nowhere.pomdp", "there is no such file"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(experiment, model, said, tmp_path, capsys):
    assert run(experiment, model, tmp_path / "run") == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_what_is_no_text_is_quoted_without_its_control_characters(tmp_path, capsys):
    path = saved(tmp_path / "mine.npz")
    assert run("fsc", path, tmp_path / "run") == 2
    assert capsys.readouterr().err.rstrip("\n").isprintable()
