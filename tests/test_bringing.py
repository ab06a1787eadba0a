"""Models that people bring: functions, environments with tables, matrices of other libraries."""

from types import SimpleNamespace

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import mdpnewton as mn


def walk(state, action):
    """A line from 0 to 4 with slips; both ends are final."""
    for p, move in ((0.8, action), (0.2, -action)):
        reached = state + move
        yield p, reached, float(reached == 4), reached in (0, 4)


def test_a_function_becomes_a_sparse_model_with_names():
    mdp = mn.FiniteMDP.from_function([2], [-1, 1], walk)
    assert (mdp.criterion, mdp.is_sparse, list(mdp.states)) == ("total", True, ["2", "1", "3"])
    assert list(mdp.actions) == ["-1", "1"]
    np.testing.assert_allclose(mdp.stop, [[0, 0], [0.8, 0.2], [0.2, 0.8]])
    best = mn.policy_iteration(mdp)
    ratio = 0.25  # of a step back and a step ahead: the gambler's ruin
    assert best.objective == pytest.approx((1 - ratio**2) / (1 - ratio**4), abs=1e-12)
    assert best.exact
    start = mn.FiniteMDP.from_function({1: 0.25, 3: 0.75}, [-1, 1], walk, discount=0.9)
    assert (start.criterion, start.start.tolist()) == ("discounted", [0.25, 0.75, 0.0])


def test_actions_that_a_state_does_not_offer_do_what_its_first_one_does():
    mdp = mn.FiniteMDP.from_function(
        ["a"],
        lambda state: ["on"] if state == "b" else ["on", "back"],
        lambda state, action: [(1.0, {"a": "b", "b": "c", "c": "a"}[state], len(action), False)],
        discount=0.5,
    )
    place = list(mdp.states).index("b")
    rows = mdp.transition.toarray().reshape(3, 2, 3)
    assert (rows[place, 0] == rows[place, 1]).all()
    assert mdp.reward[place].tolist() == [2, 2]


BAD = {
    "sum": (
        ([0], ["go"], lambda s, a: [(0.5, 0, 0.0, False)]),
        "state 0, action go sums to 0.5",
    ),
    "no actions": (([0], lambda s: [], walk), "offers no action in state 0"),
    "no start": (([], ["go"], walk), "is empty"),
    "lists": (([[1, 2]], ["go"], walk), "needs hashable states"),
    "list ahead": (([0], [1], lambda s, a: [(1.0, [1], 0.0, False)]), "for state 0, action 1"),
    "three": (([0], [1], lambda s, a: [(1.0, 1, 0.0)]), "must yield .probability, next state"),
    "too many": (([0], [1], lambda s, a: [(1.0, s + 1, 0.0, False)]), "more than 50 states"),
    "NaN": (([0], [1], lambda s, a: [(float("nan"), 0, 0.0, False)]), "action 1: probability nan"),
    "negative": (
        ([0], ["go"], lambda s, a: [(-0.5, 0, 0.0, False), (1.5, 0, 0.0, False)]),
        "state 0, action 'go': probability -0.5",
    ),
    "ends by less": (([0], [1], lambda s, a: [(-1.0, 0, 0.0, True)]), "probability -1.0"),
    "reward": (([0], ["go"], lambda s, a: [(1.0, 0, float("inf"), False)]), "action 'go': .* inf"),
}


@pytest.mark.parametrize("name", BAD)
def test_functions_that_break_a_rule_are_refused_with_the_state(name):
    given, message = BAD[name]
    with pytest.raises(ValueError, match=message) as error:
        mn.FiniteMDP.from_function(*given, most=50, discount=0.9)
    assert "\n" not in str(error.value)


def plain_optimum(rows, discount, sweeps):
    """Value iteration over an environment's table, with loops and nothing of ours."""
    value = [0.0] * len(rows)
    for _ in range(sweeps):
        value = [
            max(
                sum(p * (r + (0.0 if done else discount * value[t])) for p, t, r, done in outcomes)
                for outcomes in rows[s].values()
            )
            for s in range(len(rows))
        ]
    return np.array(value)


@pytest.mark.parametrize(
    ("name", "discount", "sweeps"),
    [
        ("FrozenLake-v1", None, 1500),
        ("FrozenLake-v1", 0.95, 400),
        ("Taxi-v4", 0.9, 60),
        ("Taxi-v4", None, 40),
        ("CliffWalking-v1", None, 60),
    ],
)
def test_the_optimum_of_tabular_environments_is_that_of_a_plain_implementation(
    name, discount, sweeps
):
    environment = gymnasium.make(name)
    mdp = mn.FiniteMDP.from_gymnasium(environment, discount=discount)
    value = plain_optimum(environment.unwrapped.P, discount or 1.0, sweeps)
    found = mn.policy_iteration(mdp)
    first = environment.unwrapped.initial_state_distrib
    assert found.objective == pytest.approx(float(first @ value), abs=1e-8)
    if name == "CliffWalking-v1":
        assert found.objective == pytest.approx(-13)
    if (name, discount) == ("FrozenLake-v1", None):
        assert found.objective == pytest.approx(14 / 17, abs=1e-9)


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(ValueError, match=r"has no table of transitions `P`.*mdpnewton train"):
        mn.FiniteMDP.from_gymnasium("CartPole-v1")
    with pytest.raises(ValueError, match="cannot be made"):
        mn.FiniteMDP.from_gymnasium("NoLake-v1")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({0: {0: [(1.0, 5, 0.0, False)]}}, "lead to state 5, but there are 1"),
        ({1: {0: [(1.0, 1, 0.0, False)]}}, "that is not P.state..action."),
        ({0: {0: [(1.0, 0, 0.0)]}}, "that is not P.state..action."),
        ({0: {0: [(0.4, 0, 0.0, False)]}}, "state 0, action 0 sums to 0.4"),
        (
            {0: {0: [(-0.5, 0, 0, False), (1.5, 0, 0, False)]}},
            "probability -0.5.*, action 0",
        ),
    ],
)
def test_broken_tables_are_refused_in_one_line(table, message):
    environment = SimpleNamespace(P=table, initial_state_distrib=[1.0])
    with pytest.raises(ValueError, match=message) as error:
        mn.FiniteMDP.from_gymnasium(environment, discount=0.9)
    assert "\n" not in str(error.value)


def puterman():
    """Puterman 2005, Section 3.1 and Example 6.2.1, as in QuantEcon's test_ddp.py."""
    reward = np.array([[5.0, 10.0], [-1.0, -np.inf]])
    transition = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.5, 0.5]]])
    return reward, transition, 0.95


@pytest.mark.parametrize("form", ["product", "pairs", "sparse pairs"])
def test_a_discrete_dp_of_either_form_has_the_optimum_of_puterman(form):
    reward, transition, beta = puterman()
    ddp = SimpleNamespace(R=reward, Q=transition, beta=beta)
    if form != "product":
        rows = transition.reshape(4, 2)[:3]
        ddp = SimpleNamespace(
            R=reward.ravel()[:3],
            Q=sparse.csr_matrix(rows) if "sparse" in form else rows,
            beta=beta,
            s_indices=np.array([0, 0, 1]),
            a_indices=np.array([0, 1, 0]),
        )
    mdp = mn.FiniteMDP.from_discrete_dp(ddp)
    best = mn.policy_iteration(mdp)
    value = mn.policy_chain(mdp, np.eye(2)[best.actions]).value
    # v* of the book: (-8.571..., -20), by the policy (0, 0).
    np.testing.assert_allclose(value, [-60 / 7, -20], atol=1e-10)
    assert best.actions.tolist() == [0, 0]


def test_a_finite_horizon_dp_has_the_values_of_backward_induction():
    # QuantEcon's test_ddp.py, TestDDP backward induction on Puterman's example.
    reward, transition, _ = puterman()
    ddp = SimpleNamespace(R=reward, Q=transition, beta=1.0)
    mdp = mn.FiniteMDP.from_discrete_dp(ddp, criterion="finite", horizon=2, start=[1.0, 0.0])
    # V_1 = (10, -1); V_2(0) = max(5 + (10 - 1)/2, 10 - 1)
    assert mn.policy_iteration(mdp).objective == pytest.approx(9.5)


def forest(states=3, older=4.0, cut=2.0, fire=0.1):
    """The forest of pymdptoolbox's examples."""
    P = np.zeros((2, states, states))
    P[0, :, 0] = fire
    for s in range(states):
        P[0, s, min(s + 1, states - 1)] += 1 - fire
    P[1, :, 0] = 1
    R = np.zeros((states, 2))
    R[states - 1] = older, cut
    R[1 : states - 1, 1] = 1
    return P, R


def test_matrices_as_pymdptoolbox_takes_them():
    P, R = forest()
    dense = mn.FiniteMDP.from_matrices(P, R, discount=0.9)
    listed = mn.FiniteMDP.from_matrices([sparse.csr_matrix(one) for one in P], R, discount=0.9)
    each = [np.repeat(R[:, a][:, None], 3, axis=1) for a in range(2)]
    ahead = mn.FiniteMDP.from_matrices(P, np.array(each), discount=0.9)
    for mdp in (dense, listed, ahead):
        best = mn.policy_iteration(mdp)
        value = mn.policy_chain(mdp, np.eye(2)[best.actions]).value
        # Its PolicyIteration example: V = (26.244, 29.484, 33.484), policy (0, 0, 0).
        np.testing.assert_allclose(value, [26.244, 29.484, 33.484], atol=5e-4)
        assert mdp.is_sparse
    np.testing.assert_allclose(ahead.reward, dense.reward)


def test_the_average_reward_of_pymdptoolboxs_example_is_35_ninths():
    """Its RelativeValueIteration stops at 3.885 on the two-state example."""
    P = np.array([[[0.5, 0.5], [0.8, 0.2]], [[0.0, 1.0], [0.1, 0.9]]])
    R = np.array([[5.0, 10.0], [-1.0, 2.0]])
    mdp = mn.FiniteMDP.from_matrices(P, R, criterion="average")
    best = mn.policy_iteration(mdp)
    assert best.objective == pytest.approx(35 / 9, abs=1e-12)
    policy = mn.TabularSoftmax(2, 2)
    method = mn.Precondition("H2", mn.Dense(), mn.TightOffset())
    w = policy.initial_parameters()
    found = mn.search(mn.FiniteEvaluator(mdp), policy, w, method, iterations=60)
    assert found.objective == pytest.approx(35 / 9, abs=1e-3)


def test_names_reach_the_table_of_an_analysis(tmp_path):
    mdp = mn.FiniteMDP.from_function([2], [-1, 1], walk)
    path = mn.save_model(tmp_path / "walk.npz", mdp)
    again, policy, w = mn.load_model(path)
    assert list(again.states) == ["2", "1", "3"]
    assert again.is_sparse
    assert (again.criterion, again.discount) == ("total", 1.0)
    assert (again.transition != mdp.transition).nnz == 0
    assert mn.analyze(again, policy, w).objective == pytest.approx(
        mn.analyze(mdp, policy, jnp.zeros((3, 2))).objective
    )
