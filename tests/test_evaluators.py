"""The contract of every evaluator: what `search` asks for, and a state that can be saved."""

import inspect
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import smoothing
from problems import gibbs, random_mdp

import mdpnewton as mn
import mdpnewton.evaluators
from mdpnewton.domains.tetris.evaluator import TetrisEvaluator
from mdpnewton.domains.tetris.policy import soft_start
from mdpnewton.files.states import load_state, save_state
from mdpnewton.plain import arrays_of
from mdpnewton.policies.features import OneHot
from mdpnewton.training.survival import Clock, Schedule, SurvivalEvaluator

MDP = random_mdp(3, n_states=3, n_actions=2, discount=0.7)
POLICY, _, W = gibbs(3, MDP, n=2)
SIMULATOR = mn.FiniteSimulator(MDP, horizon=8)
TABLE = OneHot(MDP.n_states)
KEYS = jax.random.split(jax.random.key(5), 6)


def bowl(points):
    return -((points - 1.0) ** 2).sum(axis=1)


def finite(evaluator):
    return evaluator, POLICY, jnp.asarray(W)


def linear_gaussian():
    mdp, policy, w = smoothing.problem(1, links=1, horizon=5)
    return mn.LinearGaussianEvaluator(mdp), policy, w


def quadratic():
    mdp = mn.QuadraticMDP(
        A=[[0.9, 0.1], [0.0, 0.8]],
        B=[[0.0], [1.0]],
        state_cost=np.eye(2),
        action_cost=np.eye(1),
        noise=0.1 * np.eye(2),
        start_mean=np.ones(2),
        start_covariance=np.eye(2),
        discount=0.9,
    )
    policy = mn.AffineGaussian(1, 2)
    return mn.QuadraticEvaluator(mdp), policy, policy.parameters(np.zeros((1, 2)), np.zeros(1), 0.5)


def controller():
    pomdp = mn.FinitePOMDP(
        np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.5, 0.5]]]),
        np.array([[[0.7, 0.3], [0.2, 0.8]]] * 2),
        np.array([[1.0, 0.0], [0.3, 0.6]]),
        np.array([0.5, 0.5]),
        0.9,
    )
    evaluator = mn.ControllerEvaluator(pomdp, offset=0.5)
    policy = evaluator.controller(2)
    return evaluator, policy, policy.random_parameters(jax.random.key(0))


def bandit():
    policy = mn.DiagonalGaussian(2)
    return mn.Bandit(bowl, samples=5, reuse=2), policy, policy.initial_parameters()


def actor_critic(critic=None, **options):
    critic = mn.LinearCritic(TABLE) if critic is None else critic
    return mn.ActorCritic(SIMULATOR, critic, 0.7, episodes=4, reuse=2, **options)


def network_critic():
    return mn.NetworkCritic(mn.mlp(jax.random.key(0), 3, 1, width=4, depth=1), TABLE, steps=3)


def tetris(diagonal=False):
    policy = mn.AfterstatePolicy("bi", 6, 5)
    evaluator = TetrisEvaluator(games=20, line_games=10, threads=1, cap=10_000, diagonal=diagonal)
    return evaluator, policy, jnp.asarray(soft_start(policy))


def survival():
    policy = mn.AfterstatePolicy("bi", 6, 5)
    numbers, clock = Schedule(games=20, least_games=5, pieces=200), Clock(iterations=5)
    evaluator = SurvivalEvaluator(numbers, ((0.1, 5), (1.0, 6)), clock, threads=1)
    return evaluator, policy, jnp.asarray(soft_start(policy))


def recurrent():
    return mn.RecurrentState(SIMULATOR, lambda state: state == 0, episodes=10)


CASES = {
    "FiniteEvaluator": lambda: finite(mn.FiniteEvaluator(MDP)),
    "LinearGaussianEvaluator": linear_gaussian,
    "QuadraticEvaluator": quadratic,
    "ControllerEvaluator": controller,
    "MonteCarlo": lambda: finite(mn.MonteCarlo(SIMULATOR, 0.7, episodes=4, reuse=2)),
    "ActorCritic": lambda: finite(actor_critic()),
    "ActorCritic with a network": lambda: finite(actor_critic(network_critic())),
    "CompatibleCritic": lambda: finite(mn.CompatibleCritic(SIMULATOR, 0.7, episodes=6)),
    "RecurrentState": lambda: finite(recurrent()),
    "Bandit": bandit,
    "Shaped": lambda: finite(mn.Shaped(mn.MonteCarlo(SIMULATOR, 0.7, episodes=4, reuse=3))),
    "Shaped over a critic": lambda: finite(mn.Shaped(actor_critic())),
    "AveragedCurvature": lambda: finite(
        mn.AveragedCurvature(mn.MonteCarlo(SIMULATOR, 0.7, episodes=4), forms=("hessian", "H2"))
    ),
    "TetrisEvaluator": tetris,
    "TetrisEvaluator of diagonals": lambda: tetris(diagonal=True),
    "SurvivalEvaluator on two boards": survival,
}
REMEMBERING = [name for name in CASES if "Evaluator" not in name]
every_evaluator = pytest.mark.parametrize("name", CASES)
every_memory = pytest.mark.parametrize("name", REMEMBERING)


def test_every_public_evaluator_is_a_case():
    modules = (mn, mdpnewton.evaluators)
    public = [getattr(module, name) for module in modules for name in module.__all__]
    classes = [each for each in public if inspect.isclass(each) and issubclass(each, mn.Evaluator)]
    names = {each.__name__ for each in classes if each is not mn.Evaluator}
    inside = {"TetrisEvaluator", "SurvivalEvaluator"}
    assert names | inside == {case.split(" ")[0] for case in CASES}


def is_plain(data):
    """Dictionaries by text, lists, numbers, strings, None, and arrays of numbers."""
    if isinstance(data, dict):
        return all(isinstance(key, str) and is_plain(each) for key, each in data.items())
    if isinstance(data, list):
        return all(map(is_plain, data))
    if type(data) is np.ndarray:
        return data.dtype.kind in "biuf"
    return data is None or type(data) in (bool, int, float, str)


def test_what_is_not_plain_is_told_from_what_is():
    assert is_plain({"a": [1, 2.0, None, "x", np.zeros(3), {"b": True}]})
    odd = [(1, 2), {1: 2}, jnp.zeros(2), np.float64(1.0), np.array([None]), TABLE, np.array(["x"])]
    for each in odd:
        assert not is_plain({"a": [each]}), each


def same(left, right):
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for one, other in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        if not isinstance(one, mn.ClosedLoop):  # it is made of the policy and the MDP
            np.testing.assert_array_equal(one, other)


def numbers(evaluation):
    """All that an evaluation says; states and actions of a few nodes may be infinite."""
    if isinstance(evaluation, mn.AccumulatedMatrices):
        return [evaluation.gradient, *evaluation.matrices.values(), evaluation.objective]
    weights = [evaluation.occupancy, evaluation.value, evaluation.advantage]
    return [*weights, evaluation.objective, evaluation.objective_error, evaluation.gradient_weights]


@every_evaluator
def test_an_evaluator_answers_all_that_the_search_asks(name):
    evaluator, policy, w = CASES[name]()
    assert isinstance(evaluator, mn.Evaluator)
    found = evaluator.evaluate(KEYS[0], policy, w)
    assert isinstance(found, mn.WeightedPairs | mn.AccumulatedMatrices)
    again = evaluator.revisit(KEYS[1], policy, w, found)
    assert type(again) is type(found)
    assert all(np.isfinite(part).all() for each in (found, again) for part in numbers(each))
    objective = evaluator.objective(KEYS[2], policy, w)
    assert type(objective) is float
    assert np.isfinite(objective)


@every_evaluator
def test_a_restored_evaluator_goes_on_bit_for_bit(name, tmp_path):
    old, policy, w = CASES[name]()
    beside = jax.tree.map(lambda leaf: leaf + 0.01, w)
    for key, there in zip(KEYS[:2], (w, beside), strict=True):
        known = old.evaluate(key, policy, there)
    known = old.revisit(KEYS[2], policy, beside, known)
    state = old.state()
    assert is_plain(state)
    assert json.dumps(state, default=np.ndarray.tolist)
    save_state(tmp_path / "state.npz", state)
    fresh = CASES[name]()[0]
    unused = fresh.state()
    new = fresh.restored(load_state(tmp_path / "state.npz"))
    same(new.state(), state)
    expected = old.evaluate(KEYS[3], policy, w)
    same(new.evaluate(KEYS[3], policy, w), expected)
    same(new.revisit(KEYS[4], policy, w, expected), old.revisit(KEYS[4], policy, w, expected))
    assert new.objective(KEYS[5], policy, w) == old.objective(KEYS[5], policy, w)
    same(new.state(), old.state())
    same(fresh.state(), unused)  # restored gives a copy


@every_evaluator
@pytest.mark.parametrize("returned", [False, True], ids=["moved", "returned"])
def test_the_last_evaluation_is_rebuilt_bit_for_bit(name, returned, tmp_path):
    old, policy, w = CASES[name]()
    old.evaluate(KEYS[0], policy, w)
    beside = jax.tree.map(lambda leaf: leaf + 0.01, w)
    last = old.evaluate(KEYS[1], policy, beside)
    if returned:
        last = old.revisit(KEYS[2], policy, beside, last)
    save_state(tmp_path / "state.npz", old.state())
    new = CASES[name]()[0].restored(load_state(tmp_path / "state.npz"))
    same(new.again(KEYS[2] if returned else KEYS[1], policy, beside), last)
    same(new.state(), old.state())


@every_memory
def test_a_state_stays_as_it_was_taken(name):
    evaluator, policy, w = CASES[name]()
    evaluator.evaluate(KEYS[0], policy, w)
    state = evaluator.state()
    before = jax.tree.map(np.array, state)
    evaluator.evaluate(KEYS[1], policy, w)
    same(jax.tree.map(np.array, state), before)


def changes(state):
    """States that are a little wrong, each with what is wrong with it."""
    yield "more", {**state, "more": 1}
    for name in state:
        yield f"no {name}", {key: each for key, each in state.items() if key != name}
        yield f"{name} of text", {**state, name: "text"}
    if "memory" in state:
        memory = state["memory"]
        batch = memory["batches"][0]
        short = {**batch, "rewards": batch["rewards"][:-1]}
        for batches in (memory["batches"] * 5, [short], [{"rewards": batch["rewards"]}], [None]):
            yield "batches", {**state, "memory": {**memory, "batches": batches}}
        yield "transitions", {**state, "memory": {**memory, "transitions": -1}}
    if "critic" in state:
        for critic in (state["critic"][:-1], [np.zeros(9)] * len(state["critic"]), [None]):
            yield "critic", {**state, "critic": critic}
    if "adapted" in state:
        held, adapted = state["held"], state["adapted"]
        yield "another count", {**state, "evaluations": 0}
        yield "nothing held", {**state, "held": None}
        for name, wrong in (("gradient", np.zeros((2, 2))), ("numbers", [1.0]), ("stage", "text")):
            yield name, {**state, "held": {**held, name: wrong}}
        yield "no matrices", {**state, "held": {**held, "matrices": 3}}
        yield "matrices", {**state, "held": {**held, "matrices": {"H2": np.zeros((2, 3))}}}
        yield "seen", {**state, "seen": state["seen"][1:]}
        for name, wrong in (("height", 0), ("games", 0.5), ("critic", adapted["critic"][1:])):
            yield name, {**state, "adapted": {**adapted, name: wrong}}
    if "best" in state:
        yield "best", {**state, "best": {"action": None}}
        yield "batches", {**state, "batches": state["batches"] * 3}
        shorter = {name: each[:-1] for name, each in state["batches"][0].items()}
        yield "samples", {**state, "batches": [shorter]}


@every_memory
def test_a_state_that_does_not_fit_is_refused_in_one_line(name):
    evaluator, policy, w = CASES[name]()
    evaluator.evaluate(KEYS[0], policy, w)
    wrong = list(changes(evaluator.state()))
    assert len(wrong) >= 3
    for what, state in wrong:
        with pytest.raises(ValueError, match=r"restored\(\w+=\.\.\.\)` .*[^\n]$") as caught:
            evaluator.restored(state)
        assert "\n" not in str(caught.value), what


def test_an_evaluator_that_remembers_nothing_refuses_the_state_of_another():
    with pytest.raises(ValueError, match=r"FiniteEvaluator\.restored.* remembers nothing"):
        mn.FiniteEvaluator(MDP).restored({"memory": {}})


def test_a_critics_arrays_come_in_the_order_of_its_fields():
    critic = mn.LinearCritic(OneHot(2), trace=0.5, ridge=0.25, parameters=jnp.array([1.0, 2.0]))
    assert [each.tolist() for each in arrays_of(critic)] == [0.5, 0.25, [1.0, 2.0], -np.inf, np.inf]
    network = network_critic()
    arrays = arrays_of(network)
    assert len(arrays) == len(arrays_of(network.network)) + 7
    assert [float(each) for each in arrays[-7:]] == [0.9, 3e-3, 3, 0.0, 0.0, -np.inf, np.inf]


def test_observations_that_are_no_plain_data_are_told():
    class Pairs(mn.FiniteSimulator):
        def observe(self, state):
            return (state, state)

    class Seeing(mn.TabularSoftmax):
        def logits(self, w, state):
            return super().logits(w, state[0])

    policy = Seeing(3, 2)
    evaluator = mn.MonteCarlo(Pairs(MDP, 4), 0.7, episodes=2)
    evaluator.evaluate(KEYS[0], policy, policy.initial_parameters())
    with pytest.raises(ValueError, match=r"`MonteCarlo.state\(\)` gives observations that are"):
        evaluator.state()


def test_shaping_is_applied_once_when_a_step_is_undone():
    shaped = mn.Shaped(actor_critic())
    plain = actor_critic()
    w = jnp.asarray(W)
    known = shaped.evaluate(KEYS[0], POLICY, w)
    plainly = plain.evaluate(KEYS[0], POLICY, w)
    for key in KEYS[1:4]:  # every second time the point is played again
        back = shaped.revisit(key, POLICY, w, known)
        expected = mdpnewton.evaluators.shaped(plain.revisit(key, POLICY, w, plainly))
        same(back, expected)
        assert back.objective == plain.here[0]
    exact = mn.Shaped(mn.FiniteEvaluator(MDP))
    once = exact.evaluate(None, POLICY, w)
    assert exact.revisit(None, POLICY, w, once) is once


class Duck:
    """Has all methods of an evaluator and is none."""

    def __init__(self):
        self.inner = mn.FiniteEvaluator(MDP)

    def evaluate(self, key, policy, w):
        return self.inner.evaluate(key, policy, w)

    def objective(self, key, policy, w):
        return self.inner.objective(key, policy, w)


def test_search_refuses_what_is_no_evaluator():
    for build in (lambda: mn.search(Duck(), POLICY, W), lambda: mn.Shaped(Duck())):
        with pytest.raises(ValueError, match="an Evaluator, got Duck; subclass") as caught:
            build()
        assert "\n" not in str(caught.value)
