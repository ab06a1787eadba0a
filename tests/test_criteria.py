"""Total, finite-horizon and average reward: every term against the oracle, for every policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from criterion_problems import PROBLEMS, as_sparse
from jax.flatten_util import ravel_pytree
from problems import POLICIES
from scipy import sparse

import mdpnewton as mn
from mdpnewton.models import SolveError

TERMS = ("H1", "H2", "H12", "A1", "A2", "V1", "V2", "fisher", "hessian")


def gap(found, expected):
    """The largest difference, relative to the size of what is expected where that is above 1."""
    expected = np.asarray(expected)
    return np.abs(np.asarray(found) - expected).max() / max(1.0, np.abs(expected).max())


def made(problem, kind, seed=0):
    """A problem, a policy, its naive twin, and parameters of both."""
    mdp = PROBLEMS[problem](seed)
    policy, twin, w = POLICIES[kind](seed, mdp)
    return mdp, policy, twin, jnp.asarray(w), np.asarray(w).ravel()


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_term_of_every_criterion_matches_the_oracle(problem, kind):
    mdp, policy, twin, w, flat = made(problem, kind)
    expected = reference.criterion_terms(mdp, twin, flat)
    found = mn.analyze(mdp, policy, w)
    for name in ("objective", "gradient", "occupancy", "value", "advantage"):
        assert gap(getattr(found, name), expected[name]) < 1e-10, name
    for name in TERMS:
        assert gap(found.terms[name], expected["terms"][name]) < 1e-10, name
    pairs = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
    assert gap(mn.value_gradient(policy, w, pairs), expected["value_gradient"]) < 1e-10
    vector = jnp.cos(jnp.arange(w.size)).reshape(w.shape)
    product = np.asarray(mn.policy_hessian(policy, w, pairs).mv(vector)).ravel()
    assert gap(product, expected["terms"]["hessian"] @ np.asarray(vector).ravel()) < 1e-10
    for name in ("H1", "H2", "A1", "A2", "fisher"):
        matrix = mn.curvature(policy, w, pairs, name).dense()
        assert gap(matrix, expected["terms"][name]) < 1e-10, name


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_oracle_matches_finite_differences(problem, kind):
    mdp, _, twin, _, flat = made(problem, kind)
    expected = reference.criterion_terms(mdp, twin, flat)
    step = 1e-5
    for i in range(0, len(flat), 6):
        e = step * np.eye(len(flat))[i]
        above, below = (reference.criterion_terms(mdp, twin, flat + d) for d in (e, -e))
        for value, slope in (("objective", "gradient"), ("value", "value_gradient")):
            rise = (above[value] - below[value]) / (2 * step)
            assert gap(rise, expected[slope][..., i]) < 1e-6
        bend = (above["gradient"] - below["gradient"]) / (2 * step)
        assert gap(bend, expected["terms"]["hessian"][i]) < 1e-6


@pytest.mark.parametrize("solver", ["direct", "iterative"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_sparse_problems_of_every_criterion_agree_with_dense_ones(problem, solver):
    mdp, policy, _, w, _ = made(problem, "gibbs")
    dense, lean = mn.analyze(mdp, policy, w), mn.analyze(as_sparse(mdp, solver), policy, w)
    tolerance = 1e-10 if solver == "direct" else 1e-8
    assert gap(lean.objective, dense.objective) < tolerance
    for name in TERMS:
        assert gap(lean.terms[name], dense.terms[name]) < tolerance
    assert lean.consistency.consistent == dense.consistency.consistent


def small_pomdp(criterion, **given):
    rng = np.random.default_rng(3)
    transition = rng.dirichlet(np.ones(3), size=(2, 3))
    reward = rng.normal(size=(3, 2))
    if criterion == "total":
        transition[:, 2] = np.eye(3)[2]
        reward[2] = 0
    seen = rng.dirichlet(np.ones(2), size=(2, 3))
    start = np.array([0.6, 0.4, 0.0])
    return mn.FinitePOMDP(transition, seen, reward, start, criterion=criterion, **given)


@pytest.mark.parametrize(
    "given",
    [
        ("total", None),
        pytest.param(("finite", 3), marks=pytest.mark.slow),
        pytest.param(("average", None), marks=pytest.mark.slow),
    ],
)
def test_a_controller_is_worth_the_same_as_a_policy_on_the_product_by_every_criterion(given):
    criterion, horizon = given
    pomdp = small_pomdp(criterion, horizon=horizon)
    product = mn.product_mdp(pomdp, 2)
    assert (product.criterion, product.horizon) == given
    policy = mn.FiniteStateController(2, 3, 2)
    w = mn.random_starts(policy, 0, 1)
    w = {name: leaf[0] for name, leaf in w.items()}
    pairs = mn.FiniteEvaluator(product).evaluate(None, policy, w)
    hessian = mn.hessian_terms(policy, w, pairs)["hessian"]
    flat, unravel = ravel_pytree(w)
    evaluator, step = mn.FiniteEvaluator(product), 1e-5
    for i in range(0, flat.size, 11):
        moved = [unravel(flat.at[i].add(change)) for change in (step, -step)]
        slopes = [
            ravel_pytree(mn.gradient(policy, v, evaluator.evaluate(None, policy, v)))[0]
            for v in moved
        ]
        assert gap(hessian[i], (slopes[0] - slopes[1]) / (2 * step)) < 1e-6


def goalless():
    """Two states that go round and earn, and a goal beside them."""
    transition = np.zeros((3, 1, 3))
    transition[0, 0, 1] = transition[1, 0, 0] = transition[2, 0, 2] = 1
    return transition, np.array([[1.0], [0.0], [0.0]]), np.array([1.0, 0.0, 0.0])


def test_a_policy_that_never_ends_is_reported_with_its_states():
    mdp = mn.FiniteMDP(*goalless(), criterion="total", state_names=["left", "right", "goal"])
    policy = mn.TabularSoftmax(3, 1)
    with pytest.raises(mn.ChainError, match="from states left, right it goes on for ever") as error:
        mn.FiniteEvaluator(mdp).objective(None, policy, policy.initial_parameters())
    assert "\n" not in str(error.value)
    pomdp = mn.FinitePOMDP(
        np.swapaxes(mdp.transition, 0, 1), np.ones((1, 3, 1)), mdp.reward, mdp.start,
        criterion="total",
    )  # fmt: skip
    with pytest.raises(mn.ChainError, match="from states 0, 1 it goes on"):
        mn.ControllerEvaluator(pomdp)


def test_several_recurrent_classes_are_reported_with_their_states():
    mdp = mn.FiniteMDP(*goalless(), criterion="average")
    policy = mn.TabularSoftmax(3, 1)
    with pytest.raises(mn.ChainError, match=r"there are 2, with the states \{0, 1\}; \{2\}"):
        mn.analyze(mdp, policy, policy.initial_parameters())


def test_a_chain_that_hardly_ever_ends_is_refused_instead_of_given_without_digits():
    stop = np.array([[1.0, 0.0]])
    transition = np.array([[[0.0], [1.0]]])
    for matrix in (transition, sparse.csr_array(transition.reshape(2, 1))):
        mdp = mn.FiniteMDP(matrix, np.ones((1, 2)), [1.0], criterion="total", stop=stop)
        policy = mn.TabularSoftmax(1, 2)
        w = jnp.array([[-34.0, 0.0]])
        with pytest.raises(SolveError, match="no digits left"):
            mn.FiniteEvaluator(mdp).objective(None, policy, w)


BAD = {
    "criterion": ({"criterion": "totl"}, r"one of 'discounted', 'total', .*, got 'totl'"),
    "no horizon": ({"criterion": "finite"}, "`FiniteMDP(horizon=...)` is missing; criterion"),
    "horizon of zero": ({"criterion": "finite", "horizon": 0}, "of at least 1, got 0"),
    "half a step": ({"criterion": "finite", "horizon": 2.5}, "whole number of at least 1"),
    "horizon alone": ({"horizon": 5, "discount": 0.9}, "belongs to criterion 'finite', got 5"),
    "discount of average": (
        {"criterion": "average", "discount": 0.9},
        "is 1 for criterion 'average', got 0.9; leave it out",
    ),
    "no discount": ({}, "got None; for undiscounted rewards pass criterion='total'"),
    "discount above one": ({"criterion": "finite", "horizon": 3, "discount": 1.5}, "at most 1"),
    "stop of average": (
        {"criterion": "average", "stop": [[1.0], [0], [0]]},
        "must be zero for criterion 'average'",
    ),
    "stop above one": ({"criterion": "total", "stop": [[2.0], [0], [0]]}, "got 2 in state 0"),
    "stop beside": (
        {"criterion": "total", "stop": [[0.5], [0], [0]]},
        "state 0, action 0 sums to 1.5",
    ),
    "names": ({"criterion": "total", "state_names": ["a", "b"]}, "needs a list of 3 names"),
    "same names": ({"criterion": "total", "state_names": ["a", "b", "a"]}, "'a' comes twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_criteria_are_refused_in_one_line_with_the_remedy(name):
    given, message = BAD[name]
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")) as error:
        mn.FiniteMDP(*goalless(), **given)
    assert str(error.value).startswith("`FiniteMDP(")
    assert "\n" not in str(error.value)


def test_a_row_that_does_not_sum_to_one_is_called_by_its_names():
    transition, reward, start = goalless()
    transition[1, 0, 0] = 0.5
    names = {"state_names": ["left", "right", "goal"], "action_names": ["go"]}
    with pytest.raises(ValueError, match=r"state right, action go sums to 0\.5"):
        mn.FiniteMDP(transition, reward, start, criterion="total", **names)


def with_time(mdp, policy):
    """The problem of states and times, and the same policy there."""
    features = jnp.tile(policy.features, (mdp.horizon, 1, 1))
    return mn.unrolled(mdp), mn.Gibbs(features)


@pytest.mark.parametrize("problem", ["finite", "finite_discounted", "finite_once"])
def test_a_finite_horizon_is_the_total_reward_of_states_and_times(problem):
    mdp, policy, _, w, _ = made(problem, "gibbs")
    here, (product, same) = mn.analyze(mdp, policy, w), with_time(mdp, policy)
    assert product.is_sparse
    there = mn.analyze(product, same, w)
    assert there.objective == pytest.approx(here.objective, abs=1e-12)
    for name in TERMS:
        assert gap(there.terms[name], here.terms[name]) < 1e-10, name
    occupancy = there.occupancy.reshape(mdp.horizon, *mdp.reward.shape).sum(axis=0)
    assert gap(occupancy, here.occupancy) < 1e-12
    assert there.consistency.consistent == here.consistency.consistent


def test_a_policy_that_sees_the_time_earns_what_no_other_does():
    transition = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]])
    reward, start = np.array([[1.0, 0.0], [3.0, 3.0]]), np.array([1.0, 0.0])
    mdp = mn.FiniteMDP(transition, reward, start, criterion="finite", horizon=3)
    best = mn.policy_iteration(mdp)
    assert best.actions[:, 0].tolist() == [1, 1, 0]  # in the end it does not pay to go
    found = []
    for problem in (mdp, mn.unrolled(mdp)):
        policy = mn.TabularSoftmax(problem.n_states, problem.n_actions)
        start = policy.initial_parameters()
        found.append(mn.plan_policy(problem, policy, start, iterations=40).objective)
    assert found[1] == pytest.approx(best.objective, abs=1e-3)
    assert found[0] < best.objective - 0.1


def test_average_reward_of_a_large_sparse_problem_is_never_dense(monkeypatch):
    n = 5_000
    rng = np.random.default_rng(0)
    columns = rng.integers(n, size=(2 * n, 3))
    columns[:, 0] = (np.arange(2 * n) // 2 + 1) % n
    data, rows = rng.dirichlet(np.ones(3), size=2 * n).ravel(), np.repeat(np.arange(2 * n), 3)
    transition = sparse.coo_array((data, (rows, columns.ravel())), shape=(2 * n, n))
    mdp = mn.FiniteMDP(transition, rng.random((n, 2)), np.full(n, 1 / n), criterion="average")
    for name in ("toarray", "todense"):
        monkeypatch.setattr(sparse.csr_array, name, lambda *_: pytest.fail("dense"))
    chain = mn.ClosedLoop(mdp, np.full((n, 2), 0.5))
    bellman = (0.5 * chain.action_value).sum(axis=1) - chain.value
    assert np.abs(bellman).max() < 1e-8
    visits = chain.occupancy.sum(axis=1)
    assert np.abs(chain.flow(chain.occupancy) - visits).max() < 1e-12
    assert chain.objective == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("problem", ["total_stopping", "total_goal", "finite"])
def test_episodes_that_are_played_earn_what_the_criterion_says(problem):
    mdp = PROBLEMS[problem](0)
    policy = mn.TabularSoftmax(mdp.n_states, mdp.n_actions)
    w = policy.initial_parameters()
    simulator = mn.FiniteSimulator(mdp, mdp.horizon or 200)
    played = simulator.play(jax.random.key(0), policy, w, 4_000).returns()
    expected = mn.FiniteEvaluator(mdp).objective(None, policy, w)
    assert abs(played.mean() - expected) < 4 * played.std() / len(played) ** 0.5


def test_a_discount_is_a_chance_to_stop():
    mdp, policy, _, w, _ = made("discounted", "gibbs")
    stop = np.full(mdp.reward.shape, 1 - mdp.discount)
    same = mn.FiniteMDP(
        mdp.discount * mdp.transition, mdp.reward, mdp.start, criterion="total", stop=stop
    )
    here, there = mn.analyze(mdp, policy, w), mn.analyze(same, policy, w)
    assert gap(there.objective, here.objective) < 1e-12
    for name in TERMS:
        assert gap(there.terms[name], here.terms[name]) < 1e-10
