"""`mdpnewton solve` and `analyze` on finite MDPs: files, environments, criteria, names."""

import json

import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.domains.mazes import MCCALLUM


def lake(tmp_path, *more):
    return main(["solve", "FrozenLake-v1", "--iterations", "30", "--out", str(tmp_path), *more])


def test_solving_an_environment_comes_near_the_optimum_and_saves_the_policy(tmp_path, capsys):
    assert lake(tmp_path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {"value", "optimum", "method", "iterations"} <= set(found)
    assert found["optimum"] == pytest.approx(14 / 17)
    assert 0 <= found["gap"] < 0.05
    mdp, policy, w = mn.load_model(tmp_path / "policy.npz")
    assert mn.FiniteEvaluator(mdp).objective(None, policy, w) == found["value"]
    assert main(["analyze", str(tmp_path / "policy.npz"), "--json"]) == 0
    analysis = json.loads(capsys.readouterr().out)
    assert analysis["objective"] == pytest.approx(found["value"])
    assert analysis["criterion"] == "total"


@pytest.mark.parametrize(
    ("flags", "criterion"),
    [
        (["--discount", "0.9"], "discounted"),
        (["--horizon", "20"], "finite"),
    ],
)
def test_the_criterion_of_an_environment_is_chosen_by_flags(flags, criterion, tmp_path, capsys):
    assert lake(tmp_path, "--json", *flags) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["criterion"] == criterion
    assert found["value"] <= found["optimum"] + 1e-12


def saved(tmp_path, **keys):
    rng = np.random.default_rng(0)
    given = {
        "transition": rng.dirichlet(np.ones(3), size=(3, 2)),
        "reward": rng.random((3, 2)),
        "start": np.full(3, 1 / 3),
        **keys,
    }
    path = tmp_path / "model.npz"
    np.savez(path, **{name: value for name, value in given.items() if value is not None})
    return str(path)


@pytest.mark.parametrize(
    "keys", [{"criterion": "average"}, {"criterion": "finite", "horizon": 5}, {"discount": 0.9}]
)
@pytest.mark.parametrize("method", ["second_gauss_newton", "natural", "newton"])
def test_solving_a_file_of_every_criterion(keys, method, tmp_path, capsys):
    path, folder = saved(tmp_path, **keys), tmp_path / "run"
    options = ["--method", method, "--iterations", "15", "--json", "--out", str(folder)]
    assert main(["solve", path, *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == method
    assert found["value"] <= found["optimum"] + 1e-12
    if method != "newton" and "horizon" not in keys:
        assert found["gap"] < 0.05


def maze(tmp_path, **keys):
    """McCallum's grid, whose aliased states have a stationary point in the interior."""
    mdp, features = MCCALLUM.mdp(0.95), MCCALLUM.policy(0.95).features
    parts = {"transition": mdp.transition, "reward": mdp.reward, "start": mdp.start}
    return saved(tmp_path, **parts, features=features, **keys)


def test_analyze_goes_to_a_stationary_point_first(tmp_path, capsys):
    path = maze(tmp_path, criterion="average")
    assert main(["analyze", path, "--optimize", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["stationary"]
    assert "second_gauss_newton" in found["rates"]
    again = maze(tmp_path, criterion="average", weights=found["weights"])
    assert main(["analyze", again, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["stationary"]


def test_names_are_shown(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    names = {"state_names": [f"cell {s}" for s in range(9)], "action_names": list("NSWE")}
    path = maze(tmp_path, discount=0.95, **names)
    assert main(["solve", path, "--iterations", "5", "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "state cell 0" in shown
    assert "N (0." in shown
    report = (tmp_path / "run" / "report.html").read_text()
    assert "A policy for model (discounted reward)" in report
    assert "cell 8" in report
    assert main(["analyze", path, "--out", str(tmp_path / "look")]) == 0
    assert "states [cell " in capsys.readouterr().out


def test_names_reach_figure_report_and_sentences_of_an_analysis(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    transition = np.tile(np.eye(3), (2, 1, 1)).swapaxes(0, 1)  # every state stays
    names = {"state_names": ["here", "there", "[bold]gone"], "action_names": ["go", "stay"]}
    start = np.array([1.0, 0, 0])
    given = {"transition": transition, "start": start, "discount": 0.9, **names}
    assert main(["analyze", saved(tmp_path, **given), "--out", str(tmp_path / "look")]) == 0
    shown = capsys.readouterr().out
    assert "parameters [there go, there stay, [bold]gone go, [bold]gone stay] never" in shown
    for name in ("hessian.svg", "report.html"):
        assert "there stay" in (tmp_path / "look" / name).read_text(), name


def refused(arguments, capsys):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


BAD = {
    "horizon of zero": ({"criterion": "finite", "horizon": 0}, "of at least 1, got 0"),
    "misspelt": ({"criterion": "avrage"}, "must be one of 'discounted', 'total'"),
    "horizon alone": ({"discount": 0.9, "horizon": 4}, "belongs to criterion 'finite'"),
    "no discount": ({}, "missing key 'discount'"),
    "not proper": ({"criterion": "total"}, "needs a proper policy"),
    "a row": ({"criterion": "average", "transition": np.ones((3, 2, 3))}, "state 0, action 0 sums"),
    "names": ({"discount": 0.9, "state_names": ["a"]}, "needs a list of 3 names"),
    "sparse": (
        {
            "discount": 0.9,
            "transition": None,
            "transition_data": np.ones(6),
            "transition_indices": np.array([0, 1, 2, 0, 1, 7]),
            "transition_indptr": np.arange(7),
        },
        "are no CSR matrix of shape (6, 3)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_one_line(name, tmp_path, capsys):
    keys, message = BAD[name]
    assert message in refused(["analyze", saved(tmp_path, **keys), "--json"], capsys)


def test_what_has_no_table_or_no_such_method_is_refused(tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    assert "has no table" in refused(["solve", "CartPole-v1", *out], capsys)
    given = ["solve", saved(tmp_path, discount=0.9), "--method", "adam", *out]
    assert "is for controllers; choose one of" in refused(given, capsys)
    assert "one of 'discounted'" in refused(["analyze", "Taxi-v4", "--criterion", "x"], capsys)


def test_sparse_models_stay_sparse_in_files(tmp_path):
    mdp = mn.FiniteMDP.from_gymnasium("CliffWalking-v1")
    w = np.arange(192.0).reshape(48, 4) / 100
    path = mn.save_model(tmp_path / "cliff.npz", mdp, mn.TabularSoftmax(48, 4), w)
    again, _, weights = mn.load_model(path)
    assert again.is_sparse
    np.testing.assert_array_equal(weights, w)
    np.testing.assert_array_equal(again.stop, mdp.stop)
    with pytest.raises(ValueError, match="there is no folder"):
        mn.save_model(tmp_path / "nowhere" / "cliff.npz", mdp)


def test_the_json_of_many_parameters_has_no_matrices(monkeypatch, tmp_path, capsys):
    from mdpnewton.report import analysis

    monkeypatch.setattr(analysis, "MOST", 5)
    assert main(["analyze", saved(tmp_path, discount=0.9), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["gradient"]) == 6
    assert "H2" not in found
    assert found["spectra"]["H2"]["definiteness"] == "negative semidefinite"


def test_a_solve_that_is_interrupted_goes_on_bit_for_bit(tmp_path, capsys, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    path = saved(tmp_path, discount=0.9)
    command = ["solve", path, "--iterations", "12", "--json", "--out"]
    assert main([*command, str(whole)]) == 0
    expected = json.loads(capsys.readouterr().out)
    evaluate, calls = mn.FiniteEvaluator.evaluate, []

    def interrupted(self, *arguments):
        calls.append(arguments)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return evaluate(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(mn.FiniteEvaluator, "evaluate", interrupted)
        assert main([*command, str(parts)]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert main(["status", str(parts), "--json"]) == 0
    done = json.loads(capsys.readouterr().out)["iterations"]
    assert 0 < done < 12
    for _ in range(2):  # the second time there is nothing left to do
        assert main([*command, str(parts)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert {**found, "policy": ""} == {**expected, "policy": ""}
        monkeypatch.setattr("mdpnewton.loop.direction", lambda *_, **__: pytest.fail("again"))
    first, second = (mn.load_model(folder / "policy.npz")[2] for folder in (whole, parts))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    "flags",
    [["--workers", "2"], ["--restarts", "3"], ["--grow"], ["--nodes", "3"], ["--seed", "0"]],
)
def test_flags_of_controllers_are_refused_for_an_mdp(flags, tmp_path, capsys):
    given = ["solve", saved(tmp_path, discount=0.9), *flags, "--out", str(tmp_path / "run")]
    assert f"{flags[0]} is for POMDPs; an MDP is searched from one start" in refused(given, capsys)


def test_another_solve_in_the_same_folder_is_refused(tmp_path, capsys):
    folder = ["--out", str(tmp_path / "run"), "--json"]
    path = saved(tmp_path, discount=0.9)
    assert main(["solve", path, "--iterations", "3", *folder]) == 0
    capsys.readouterr()
    said = refused(["solve", path, "--iterations", "4", *folder], capsys)
    assert "holds a run with iterations 3, not 4" in said
    moved = refused(["solve", saved(tmp_path, discount=0.8), "--iterations", "3", *folder], capsys)
    assert "holds a run with discount 0.9, not 0.8" in moved
