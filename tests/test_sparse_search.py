"""Searches for controllers of sparse problems, and controllers that grow."""

import json
from contextlib import suppress
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import sparse

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.domains.rocks import rocks
from mdpnewton.evaluators.controller import numbers_of
from mdpnewton.evaluators.sparse_chain import SparseChain
from mdpnewton.jobs import Checkpoint
from mdpnewton.training import growth, growth_jobs
from mdpnewton.training.new_node import Lookahead, lookahead, with_node


def lean(name):
    pomdp = mn.load_pomdp(name)
    return pomdp, replace(pomdp, transition=[sparse.csr_array(one) for one in pomdp.transition])


@pytest.mark.parametrize("method", ["second_gauss_newton", "expectation_maximization", "adam"])
def test_sparse_searches_go_where_dense_ones_go(method):
    found = []
    for pomdp in lean("load_unload"):
        evaluator = mn.ControllerEvaluator(pomdp)
        policy = evaluator.controller(2)
        starts = mn.random_starts(policy, 0, 2)
        found.append(mn.search_controllers(evaluator, policy, starts, method, iterations=12))
    dense, thin = found
    np.testing.assert_allclose(thin.objective, dense.objective, rtol=1e-6)
    assert thin.residual < 1e-8
    assert thin.seconds.shape == dense.seconds.shape


class Stopping(Checkpoint):
    """A checkpoint that keeps everything, and after some savings is interrupted."""

    def __init__(self, path, savings):
        super().__init__(path, seconds=0)
        self.left = savings

    def keep(self, state, *, now=False):
        super().keep(state, now=True)
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("savings", [1, 4, 9])
def test_a_sparse_search_goes_on_bit_for_bit(savings, tmp_path):
    _, pomdp = lean("load_unload")
    evaluator = mn.ControllerEvaluator(pomdp)
    policy = evaluator.controller(2)
    starts = mn.random_starts(policy, 0, 2)

    def searched(checkpoint):
        return mn.search_controllers(evaluator, policy, starts, iterations=6, checkpoint=checkpoint)

    whole = searched(None)
    path = tmp_path / "state.npz"
    with suppress(KeyboardInterrupt):
        searched(Stopping(path, savings))
    again = searched(Checkpoint(path, seconds=0))
    np.testing.assert_array_equal(again.objective, whole.objective)
    for one, other in zip(jax.tree.leaves(again.w), jax.tree.leaves(whole.w), strict=True):
        np.testing.assert_array_equal(one, other)


def test_rocks_is_what_it_says():
    pomdp = rocks(3, 2, seed=1)
    assert (pomdp.n_states, pomdp.n_actions, pomdp.n_observations) == (37, 7, 19)
    assert pomdp.is_sparse
    full = mn.policy_iteration(pomdp.fully_observed()).objective
    bounds = mn.upper_bounds(pomdp)
    assert bounds.fast_informed <= bounds.qmdp + 1e-9
    assert bounds.qmdp <= full + 1e-9
    straight = 10 * 0.95**2  # two steps to the last column, one out of it
    assert straight < bounds.fast_informed
    with pytest.raises(ValueError, match="rocks"):
        rocks(3, 10)


@pytest.fixture(scope="module")
def tiger():
    return mn.ControllerEvaluator(mn.load_pomdp("tiger"))


@pytest.fixture(scope="module")
def grown(tiger):
    told = []
    found = mn.grow_controller(tiger, 3, progress=lambda *now: told.append(now))
    return found, told


def test_the_gain_of_a_new_node_is_that_of_a_plain_computation():
    """For one situation of a small problem, by loops over hidden states, actions, observations."""
    pomdp = mn.load_pomdp("load_unload")
    chain, policy = SparseChain(pomdp), mn.FiniteStateController(2, 4, 2)
    tables = numbers_of(policy, policy.random_parameters(jax.random.key(2)))
    closed = chain.closed(tables)
    ahead = lookahead(chain, tables, closed)
    A, width, gamma = 2, 3, pomdp.discount
    T, Z, R = pomdp.transition, pomdp.observation, pomdp.reward
    dense = mn.ControllerEvaluator(pomdp).chain
    known = dense.closed(policy.tables(policy.random_parameters(jax.random.key(2))))
    Q, visits = np.asarray(known.action_value), np.asarray(known.arrivals)
    X = np.einsum("coa,sca->soc", tables.action, Q)  # value of a node in a state, seeing o
    for o in range(width):
        for b in range(2):
            eta = visits[:, o, b]
            if not eta.sum() > 1e-6:
                assert ahead.gain[o, b] == -np.inf
                continue
            now = eta @ (X[:, o] @ tables.transition[b, o])
            worth = []
            for a in range(A):
                then = gamma * eta @ T[a]
                best = [max((then * Z[a][:, p]) @ X[:, p, c] for c in range(2))
                        for p in range(width)]  # fmt: skip
                worth.append(eta @ R[:, a] + sum(best))
            assert ahead.gain[o, b] == pytest.approx(max(worth) - now, abs=1e-8)
            assert ahead.action[o, b] == int(np.argmax(worth))
    start = np.asarray(pomdp.start)
    begun = start @ (X[:, 3] @ tables.initial[3])
    worth = [start @ R[:, a] + sum(max((gamma * start @ T[a] * Z[a][:, p]) @ X[:, p, c]
             for c in range(2)) for p in range(width)) for a in range(A)]  # fmt: skip
    assert ahead.gain[3, 2] == pytest.approx(max(worth) - begun, abs=1e-8)


def test_a_controller_with_a_node_more_is_what_it_was_but_for_the_new_node():
    policy, rng = mn.FiniteStateController(2, 3, 2), np.random.default_rng(0)
    tables = numbers_of(policy, policy.random_parameters(jax.random.key(0)))
    gains = Lookahead(np.zeros((3, 3)), np.ones((3, 3), int), np.full((3, 3, 3), -1))
    gains.after[1, 0, 2] = 1
    logits = with_node(tables, rng, (1, 0), gains, 1e-9)
    initial, transition, action = (np.exp(one) for one in logits)
    for table in (initial, transition, action):
        np.testing.assert_allclose(table.sum(axis=-1), 1)
    assert transition[0, 1, 2] == pytest.approx(0.5)  # half of the decisions of its situation
    np.testing.assert_allclose(transition[1, :, :2], tables.transition[1], atol=1e-8)
    np.testing.assert_allclose(action[:2], tables.action, atol=1e-8)
    assert action[2, 1, 1] > 0.9
    assert transition[2, 2, 1] > 0.8


def test_growing_finds_more_with_every_node_until_the_gap_is_small(grown, tiger):
    found, told = grown
    assert [one["nodes"] for one in found.growth] == [1, 2, 3]
    assert found.ended == "nodes"
    assert found.objective == max(one["value"] for one in found.growth)
    assert found.objective > -2.1  # two nodes listen for ever, -20
    assert tiger.objective(None, found.policy, found.w) == pytest.approx(found.objective, abs=1e-8)
    assert [nodes for nodes, *_ in told] == [1, 2, 3]
    assert told[-1][1:] == (found.objective, found.upper - found.objective)
    small = mn.grow_controller(tiger, 3, gap=2.0)
    assert small.ended == "gap"
    assert small.policy.nodes == 1


def test_growing_stops_when_its_time_is_over(tiger):
    found = mn.grow_controller(tiger, 3, seconds=1e-6)
    assert found.ended == "time"
    assert found.policy.nodes == 1


def test_growing_by_command_goes_on_where_it_was_stopped(grown, tmp_path, capsys, monkeypatch):
    command = ["solve", "tiger", "--grow", "--nodes", "3", "--json", "--out", str(tmp_path / "run")]
    searched, calls = growth._searched, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return searched(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(growth, "_searched", interrupted)
        patch.setattr(growth_jobs, "PIECES", growth.PIECES)
        assert main(command) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert main(["status", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["searches"] == 1
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    values = [one["value"] for one in found["growth"]]
    assert values == [one["value"] for one in grown[0].growth]  # whoever asks, the same bits
    assert found["value"] == max(values)
    assert found["gap"] == pytest.approx(found["upper"] - found["value"])
    assert found["ended"] == "nodes"
    low, high = found["simulated_interval"]
    assert low < high
    assert mn.load(tmp_path / "run" / "controller.json") is not None
    report = (tmp_path / "run" / "report.html").read_text()
    assert "A controller that grows to up to 3 nodes for tiger" in report
    assert "The best controller has 3 nodes and the value -2.0" in report
    assert "Value by processor time" in report


def rocky(tmp_path, capsys, *more):
    mn.save_pomdp(tmp_path / "rocks.pomdp", rocks(3, 1))
    command = ["solve", str(tmp_path / "rocks.pomdp"), "--grow", "--nodes", "2", "--json"]
    command += ["--iterations", "5", *more, "--out", str(tmp_path / f"run{len(more)}")]
    assert main(command) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_file_is_grown_for(tmp_path, capsys):
    found = rocky(tmp_path, capsys)
    assert found["value"] > 10 * 0.95**2  # it looks at the rock on its way
    assert found["gap"] > 0


@pytest.mark.slow
def test_growing_does_not_depend_on_the_number_of_workers(tmp_path, capsys):
    alone, together = rocky(tmp_path, capsys), rocky(tmp_path, capsys, "--workers", "2")
    assert [one["value"] for one in alone["growth"]] == [one["value"] for one in together["growth"]]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--gap", "0.1"], "--gap is for a controller that grows; add --grow"),
        (["--minutes", "1"], "--minutes is for a controller that grows; add --grow"),
        (["--grow", "--restarts", "3"], "--restarts is for random starts; leave it out"),
        (["--grow", "--method", "newton"], "--grow takes the methods for controllers"),
        (["--grow", "--minutes", "0"], "--minutes must be above 0, got 0"),
        (["--grow", "--gap", "-1"], "--gap must be at least 0, got -1"),
        (["--criterion", "total"], "needs a proper policy"),
        (["--horizon", "0"], "of at least 1, got 0"),
    ],
)
def test_flags_that_do_not_fit_are_refused_in_a_line(flags, said, tmp_path, capsys):
    assert main(["solve", "tiger", *flags, "--out", str(tmp_path / "run")]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
