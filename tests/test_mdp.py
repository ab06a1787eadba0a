"""FiniteMDP: sparse and dense agree, and bad input gets one clear line."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import random_mdp
from scipy import sparse

import mdpnewton as mn
from mdpnewton.models import closed_loop


def parts(seed=0):
    mdp = random_mdp(seed, n_states=4, n_actions=2)
    return {
        "transition": mdp.transition.copy(),
        "reward": mdp.reward.copy(),
        "start": mdp.start.copy(),
        "discount": 0.9,
    }


def broken(**changes):
    given = parts()
    for name, change in changes.items():
        given[name] = change(given[name]) if callable(change) else change
    return given


def with_entry(index, value):
    def change(array):
        array[index] = value
        return array

    return change


BAD = {
    "row does not sum to one": (
        broken(transition=lambda p: with_entry((2, 1), 0.2 * p[2, 1])(p)),
        r"state 2, action 1 sums to 0\.2; normalise",
    ),
    "negative probability": (
        broken(transition=lambda p: with_entry((1, 0), [-0.5, 1.5, 0, 0])(p)),
        r"negative probability, -0\.5, in state 1, action 0",
    ),
    "NaN probability": (broken(transition=with_entry((0, 0, 0), np.nan)), "must be finite"),
    "NaN reward": (broken(reward=with_entry((1, 1), np.nan)), r"entry \(1, 1\) is nan"),
    "infinite reward": (broken(reward=with_entry((0, 1), np.inf)), r"entry \(0, 1\) is inf"),
    "discount of one": (broken(discount=1.0), r"must be a number at least 0 and below 1, got 1\.0"),
    "negative discount": (broken(discount=-0.1), "at least 0 and below 1, got"),
    "NaN discount": (broken(discount=np.nan), "at least 0 and below 1, got"),
    "start of another length": (
        broken(start=np.ones(3) / 3),
        r"\(S,\) = \(4,\) to match `reward`, got \(3,\)",
    ),
    "start that does not sum to one": (broken(start=np.ones(4)), "must sum to one"),
    "transition of another shape": (
        broken(transition=lambda p: p[:, :, :3]),
        r"needs shape \(S, A, S\) = \(4, 2, 4\)",
    ),
    "reward of one axis": (
        broken(reward=np.ones(4)),
        r"needs 2 axes, none of them empty, got shape \(4,\)",
    ),
    "words for rewards": (broken(reward=[["a", "b"]] * 4), "array of numbers"),
    "unknown solver": (
        broken(linear_solver="magic"),
        "one of 'auto', 'direct', 'iterative', got 'magic'",
    ),
    "sparse of another shape": (
        broken(transition=sparse.eye_array(4)),
        r"\(S\*A, S\) = \(8, 4\)",
    ),
    "too few sparse matrices": (
        broken(transition=[sparse.eye_array(4)]),
        "needs 2 of shape",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line_that_names_call_and_rule(name):
    given, message = BAD[name]
    with pytest.raises(ValueError, match=message) as error:
        mn.FiniteMDP(**given)
    assert str(error.value).startswith("`FiniteMDP(")
    assert "\n" not in str(error.value)


def sparse_twins():
    given = parts(3)
    dense = mn.FiniteMDP(**given)
    transition = given.pop("transition")
    rows = sparse.csr_array(transition.reshape(-1, 4))
    by_action = [sparse.csr_matrix(transition[:, a]) for a in range(2)]
    return dense, [
        mn.FiniteMDP(rows, **given),
        mn.FiniteMDP(by_action, **given),
        mn.FiniteMDP(rows, **given, linear_solver="direct"),
        mn.FiniteMDP(rows, **given, linear_solver="iterative"),
    ]


def test_dense_and_every_sparse_form_give_the_same_evaluation():
    dense, twins = sparse_twins()
    policy = mn.TabularSoftmax(4, 2)
    w = jnp.sin(jnp.arange(8.0)).reshape(4, 2)
    expected = mn.FiniteEvaluator(dense).evaluate(None, policy, w)
    hessian = mn.policy_hessian(policy, w, expected)
    for twin in twins:
        found = mn.FiniteEvaluator(twin).evaluate(None, policy, w)
        for name in ("objective", "occupancy", "value", "advantage"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-11)
        again = mn.policy_hessian(policy, w, found)
        np.testing.assert_allclose(again.dense(), hessian.dense(), atol=1e-10)
        np.testing.assert_allclose(again.mv(w), hessian.mv(w), atol=1e-10)


def test_auto_takes_lu_on_grids_and_iterates_on_random_graphs(monkeypatch):
    monkeypatch.setattr(closed_loop, "DIRECT_FILL", 20_000)
    n = 400
    line = sparse.diags_array([np.full(n - 1, 0.5), np.full(n - 1, 0.5)], offsets=[-1, 1]).tolil()
    line[0, 0] = line[n - 1, n - 1] = 0.5
    rng = np.random.default_rng(0)
    columns = rng.integers(n, size=(n, 5))
    graph = sparse.coo_array((np.full(5 * n, 0.2), (np.repeat(np.arange(n), 5), columns.ravel())))
    called = []
    original = closed_loop._iterate
    monkeypatch.setattr(closed_loop, "_iterate", lambda *a: called.append(1) or original(*a))
    for matrix, iterates in ((line, False), (graph, True)):
        called.clear()
        mdp = mn.FiniteMDP([sparse.csr_array(matrix)], np.ones((n, 1)), np.ones(n) / n, 0.9)
        loop = mn.ClosedLoop(mdp, np.ones((n, 1)))
        np.testing.assert_allclose(loop.value, 10.0, rtol=1e-10)
        assert bool(called) == iterates


def test_an_evaluator_refuses_what_is_not_a_finite_mdp():
    with pytest.raises(ValueError, match="needs a FiniteMDP, got dict"):
        mn.FiniteEvaluator({})


def test_an_evaluator_refuses_a_policy_for_another_problem():
    evaluator = mn.FiniteEvaluator(random_mdp(0))
    policy = mn.TabularSoftmax(4, 3)
    with pytest.raises(ValueError, match="4 states and 3 actions for an MDP with 5 and 3"):
        evaluator.evaluate(None, policy, policy.initial_parameters())


def test_an_evaluator_refuses_a_policy_that_is_not_normalised():
    class Loud(mn.Categorical):
        log_concave = blockwise_log_concave = constant_curvature = False

        def logits(self, w, state):
            return jnp.zeros(3) * w

        def log_prob(self, w, state, action):
            return self.logits(w, state)[action]

        def initial_parameters(self):
            return jnp.zeros(())

    evaluator = mn.FiniteEvaluator(random_mdp(0))
    with pytest.raises(ValueError, match="sum to 3 over the MDP's 3 actions"):
        evaluator.objective(None, Loud(), jnp.zeros(()))


def test_the_iterative_solver_survives_a_single_absorbing_state_with_all_the_reward():
    n = 300
    step = sparse.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)).tolil()
    step[n - 1, n - 1] = 1
    reward = np.zeros((n, 1))
    reward[n - 1] = 1
    start = np.eye(n)[0]
    mdp = mn.FiniteMDP([sparse.csr_array(step)], reward, start, 0.95, linear_solver="iterative")
    value = mn.ClosedLoop(mdp, np.ones((n, 1))).value
    np.testing.assert_allclose(value[-50:], 20 * 0.95 ** np.arange(49, -1, -1), rtol=1e-8)


def test_a_state_that_all_others_may_restart_in_does_not_rule_out_lu(monkeypatch):
    monkeypatch.setattr(closed_loop, "DIRECT_FILL", 20_000)
    monkeypatch.setattr(closed_loop, "_iterate", lambda *_: pytest.fail("iterated"))
    n = 2_000
    forward = sparse.diags_array([np.full(n - 1, 0.9)], offsets=[1], shape=(n, n)).tolil()
    forward[:, 0] = 0.1
    forward[n - 1, 0] = 1.0
    mdp = mn.FiniteMDP([sparse.csr_array(forward)], np.ones((n, 1)), np.ones(n) / n, 0.9)
    np.testing.assert_allclose(mn.ClosedLoop(mdp, np.ones((n, 1))).value, 10.0, rtol=1e-10)
