"""`mdpnewton solve`, saved controllers, and the optimum over beliefs."""

import json
from dataclasses import replace

import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.files.controllers import load_controller, save_controller
from mdpnewton.files.pomdp import load_pomdp, shipped
from mdpnewton.models.pomdp import optimal_value
from mdpnewton.policies.controller import Tables
from mdpnewton.report.controllers import RADIUS, draw_controller

QUICK = ["--nodes", "2", "--restarts", "3", "--iterations", "20"]


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("solve")
    assert main(["solve", "load_unload", *QUICK, "--out", str(folder)]) == 0
    return folder


def test_a_run_folder_holds_the_controller_and_its_graph(solved):
    found = json.loads((solved / "results.json").read_text())
    assert {"value", "nodes", "method", "iterations"} <= set(found)
    assert found["value"] == max(found["values"])
    assert found["residual"] < 1e-10
    for name in ("controller.json", "controller.png", "controller.svg", "config.json"):
        assert (solved / name).stat().st_size > 100


def test_the_saved_controller_is_worth_what_was_said(solved):
    policy, w, about = load_controller(solved / "controller.json")
    evaluator = mn.ControllerEvaluator(load_pomdp("load_unload"))
    assert evaluator.objective(None, policy, w) == pytest.approx(about["value"], rel=1e-12)
    rows = about["probabilities"]["transition (node, observation, next node)"]
    np.testing.assert_allclose(np.sum(rows, axis=2), 1)


def test_no_saved_probability_is_a_trace_of_nothing(tmp_path):
    pomdp, policy = load_pomdp("load_unload"), mn.FiniteStateController(2, 4, 2)
    w = policy.initial_parameters()
    w = w | {"transition": w["transition"].at[..., 0].set(200.0)}
    save_controller(tmp_path / "controller.json", pomdp, policy, w, {})
    _, loaded, about = load_controller(tmp_path / "controller.json")
    rows = np.array(about["probabilities"]["transition (node, observation, next node)"])
    assert set(rows.ravel().tolist()) == {0.0, 1.0}
    np.testing.assert_array_equal(loaded["transition"], w["transition"])


def test_the_graph_says_every_observation_and_every_probability():
    transition = np.zeros((2, 3, 2))
    transition[0], transition[1] = [0.75, 0.25], [0.0, 1.0]
    action = np.zeros((2, 3, 2))
    action[0], action[1] = [0.6, 0.4], [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    tables = Tables(np.tile([1.0, 0.0], (3, 1)), transition, action)
    used = Tables(np.array([0.0, 0.0, 1.0]), np.ones((2, 3)), action)
    figure = draw_controller(tables, used, ["stay", "go"], ["red", "green", "blue"], "test")
    (axis,) = figure.axes
    said = [one.get_text().replace("\u00a0", " ") for one in axis.texts if one.get_text()]
    start = "start\nblue: stay 60 % or go 40 %"
    assert sorted(said) == sorted(
        [
            *("0", "1", start, "any (75 %): stay 60 % or go 40 %"),
            "red, green (25 %): stay\nblue (25 %): go",
            "red, green: stay\nblue: go",
        ]
    )
    loop = next(one for one in axis.texts if one.get_text().startswith("red, green: stay"))
    assert np.linalg.norm(np.array(loop.get_position()) - [0.0, -1.0]) < 0.4  # beside its node
    arrows = [(np.array(one.xy), np.array(one.xyann)) for one in axis.texts if hasattr(one, "xy")]
    loops = [ends for ends in arrows if np.linalg.norm(ends[0] - ends[1]) < 0.2]
    assert len(loops) == 2
    for ends in loops:  # both ends on the rim of the node
        for end in ends:
            assert min(np.linalg.norm(end - [0, y]) for y in (1, -1)) == pytest.approx(RADIUS)


def test_json_prints_the_results_and_nothing_else(solved, tmp_path, capsys):
    assert main(["solve", "load_unload", *QUICK, "--json", "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    printed, earlier = json.loads(captured.out), json.loads((solved / "results.json").read_text())
    assert printed["values"] == earlier["values"]  # the same seed, the same numbers


def test_costs_are_reported_as_rewards(tmp_path, capsys):
    text = """discount: 0.9\nvalues: cost\nstates: 2\nactions: 2\nobservations: 1
T: * identity\nO: * uniform\nR: 0 : * : * : * 1\nR: 1 : * : * : * 3\n"""
    (tmp_path / "costs.pomdp").write_text(text)
    arguments = ["solve", str(tmp_path / "costs.pomdp"), "--nodes", "1", "--restarts", "2"]
    assert main([*arguments, "--json", "--out", str(tmp_path / "run")]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == pytest.approx(-10, rel=1e-3)


@pytest.mark.parametrize("method", ["newton", "first_gauss_newton", "adam"])
def test_other_methods(method, tmp_path):
    arguments = ["solve", "load_unload", "--nodes", "1", "--restarts", "2", "--iterations", "3"]
    assert main([*arguments, "--method", method, "--out", str(tmp_path)]) == 0


def test_ctrl_c_keeps_the_starts_that_are_done(tmp_path, monkeypatch, capsys):
    from mdpnewton.training import controllers

    calls, advanced = [], controllers._advanced

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 2:  # in the second job
            raise KeyboardInterrupt
        return advanced(*arguments)

    monkeypatch.setattr(controllers, "_advanced", interrupted)
    command = ["solve", "tiger", *QUICK, "--restarts", "7", "--out", str(tmp_path)]
    assert main(command) == 130
    err = capsys.readouterr().err
    said = "mdpnewton: interrupted: 1 of 2 jobs are done; the same command goes on: mdpnewton solve"
    assert err.startswith(said)
    assert main(command) == 0
    assert len(calls) == 3  # the first job was not done again


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere.pomdp"], "there is no such file"),
        (["tiger", "--nodes", "0"], "--nodes must be at least 1, got 0"),
        (["tiger", "--restarts", "-1"], "--restarts must be at least 1"),
        (["tiger", "--seed", "-1"], "--seed must not be negative"),
        (["tiger", "--method", "magic"], "there is no method 'magic'"),
    ],
)
def test_bad_input_gets_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["solve", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "damage",
    ["{", "[]", '{"format": 1}', '{"format": 2, "nodes": 1, "observations": [], "actions": []}'],
)
def test_a_damaged_controller_is_refused(damage, tmp_path):
    path = tmp_path / "controller.json"
    path.write_text(damage)
    with pytest.raises(ValueError, match="solve again"):
        load_controller(path)
    with pytest.raises(ValueError, match="no such file"):
        load_controller(tmp_path / "none.json")


def grid_value(pomdp, points=2001):
    """Value iteration on a grid of beliefs about two states, linear in between."""
    belief = np.stack([np.linspace(1, 0, points), np.linspace(0, 1, points)], axis=1)
    value = np.zeros(points)
    while True:
        ways = []
        for a in range(pomdp.n_actions):
            total = belief @ pomdp.reward[:, a]
            for o in range(pomdp.n_observations):
                joint = (belief @ pomdp.transition[a]) * pomdp.observation[a][:, o]
                share = joint.sum(axis=1)
                after = np.interp(joint[:, 1] / share, belief[:, 1], value)
                total = total + pomdp.discount * share * after
            ways.append(total)
        new = np.max(ways, axis=0)
        if np.abs(new - value).max() < 1e-9:
            return float(np.interp(pomdp.start[1], belief[:, 1], new))
        value = new


def test_the_tigers_optimum_by_two_value_iterations():
    tiger = load_pomdp("tiger")
    assert optimal_value(tiger) == pytest.approx(19.3714, abs=1e-4)
    assert grid_value(tiger) == pytest.approx(optimal_value(tiger), rel=1e-3)


def test_where_states_are_seen_the_optimum_is_that_of_the_mdp():
    pomdp = load_pomdp("cheese")
    seen = mn.FinitePOMDP(
        pomdp.transition,
        np.stack([np.eye(pomdp.n_states)] * pomdp.n_actions),
        pomdp.reward,
        pomdp.start,
        pomdp.discount,
        first_observation=np.eye(pomdp.n_states),
    )
    value = np.zeros(pomdp.n_states)
    for _ in range(2000):
        ahead = np.einsum("ast,t->sa", pomdp.transition, value)
        value = (pomdp.reward + pomdp.discount * ahead).max(axis=1)
    assert optimal_value(seen) == pytest.approx(pomdp.start @ value, rel=1e-10)
    assert optimal_value(pomdp) < optimal_value(seen)


@pytest.mark.parametrize("name", ["tiger", "cheese", "mccallum_grid", "load_unload"])
def test_the_best_average_reward_is_how_fast_the_values_of_long_horizons_rise(name):
    pomdp = load_pomdp(name)
    average = optimal_value(replace(pomdp, criterion="average", discount=None))
    values = [
        optimal_value(replace(pomdp, criterion="finite", discount=None, horizon=horizon))
        for horizon in (420, 840)  # multiples of the periods
    ]
    assert average == pytest.approx((values[1] - values[0]) / 420, abs=1e-8)


def test_an_average_that_depends_on_where_one_begins_is_no_optimum():
    stay = np.stack([np.eye(2)])
    seen, earns = np.stack([np.eye(2)]), np.array([[0.0], [1.0]])
    apart = mn.FinitePOMDP(stay, seen, earns, np.full(2, 0.5), criterion="average")
    assert optimal_value(apart) is None


def test_too_many_beliefs_are_no_optimum():
    assert optimal_value(load_pomdp("hallway"), limit=500) is None


def test_a_controller_never_beats_the_optimum():
    for name in set(shipped()) - {"hallway"}:
        pomdp = load_pomdp(name)
        evaluator = mn.ControllerEvaluator(pomdp)
        policy = evaluator.controller(3)
        found = mn.search_controllers(
            evaluator, policy, mn.random_starts(policy, 0, 3), iterations=20
        )
        assert found.objective.max() <= optimal_value(pomdp) * (1 + 1e-9), name


def test_newton_on_a_product_that_does_not_fit_is_refused(tmp_path, capsys):
    arguments = ["solve", "hallway", "--method", "newton", "--restarts", "1"]
    assert main([*arguments, "--out", str(tmp_path)]) == 2
    assert "use fewer nodes, or second_gauss_newton" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "criterion"),
    [
        (["--horizon", "3"], "finite"),
        (["--criterion", "average"], "average"),
        pytest.param(["--criterion", "discounted"], "discounted", marks=pytest.mark.slow),
    ],
)
def test_the_criterion_of_a_pomdp_is_chosen_by_flags(flags, criterion, tmp_path, capsys):
    quick = ["--nodes", "1", "--restarts", "1", "--iterations", "20", "--json"]
    assert main(["solve", "tiger", *quick, *flags, "--out", str(tmp_path / "run")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["criterion"] == criterion
    listening = {"finite": -3.0, "average": -1.0, "discounted": -20.0}[criterion]
    assert found["value"] == pytest.approx(listening, rel=1e-2)
    low, high = found["simulated_interval"]
    assert low - 0.1 <= found["value"] <= high + 0.1
    assert found["gap"] == pytest.approx(found["upper"] - found["value"])


@pytest.mark.parametrize("method", ["conjugate_gradient_second_gauss_newton", "first_gauss_newton"])
def test_exact_methods_search_for_controllers_by_other_criteria(method, tmp_path, capsys):
    """Rewards are negative, and no constant raises the values of an average."""
    quick = ["--nodes", "1", "--restarts", "1", "--iterations", "4", "--json", "--method", method]
    flags = ["--criterion", "average", "--out", str(tmp_path / "run")]
    assert main(["solve", "tiger", *quick, *flags]) == 0
    assert json.loads(capsys.readouterr().out)["value"] > -30  # of opening at random
