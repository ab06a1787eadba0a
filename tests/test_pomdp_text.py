"""The .pomdp format: every form of the grammar, and models that come back as they were written."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from mdpnewton.files.pomdp_text import entries as entries_module
from mdpnewton.files.pomdp_text import format_pomdp, parse_pomdp
from mdpnewton.models.pomdp import FinitePOMDP, OutcomeReward

HEAD = """discount: 0.9
values: reward
states: a b c
actions: go stay
observations: x y
"""
BODY = """T: * identity
O: * uniform
"""


def parse(lines, head=HEAD):
    return parse_pomdp(head + lines, "file")


def transition(lines):
    return np.array(parse(f"T: * identity\nO: * uniform\n{lines}").transition)


def observation(lines):
    return np.array(parse(f"T: * identity\nO: * uniform\n{lines}").observation)


def reward(lines):
    """The table R(a, s, s', o) of the text, and the model."""
    model = parse(BODY + lines)
    if model.outcome_reward is None:
        return np.broadcast_to(model.reward.T[:, :, None, None], (2, 3, 3, 2)), model
    where = np.argwhere(np.ones((2, 3, 3, 2)))
    return model.outcome_reward.of(where).reshape(2, 3, 3, 2), model


EYE, THIRD = np.eye(3), np.full((3, 3), 1 / 3)
ROW = np.array([0.1, 0.2, 0.7])
CYCLE = np.roll(EYE, 1, axis=1)


def changed(action, row, values):
    table = np.stack([EYE, EYE])
    table[action, row] = values
    return table


TRANSITIONS = {
    "single": ("T: go : a : b 1\nT: go : a : a 0", changed(0, 0, EYE[1])),
    "single by numbers": ("T: 0 : 0 : 1 1.0 T: 0:0:0 0", changed(0, 0, EYE[1])),
    "no spaces": ("T:go:a:b 1\nT:go:a:a 0", changed(0, 0, EYE[1])),
    "row": ("T: stay : b\n0.1 0.2 0.7", changed(1, 1, ROW)),
    "row over lines": ("T: stay : b 0.1\n0.2 # comment\n\t0.7", changed(1, 1, ROW)),
    "row uniform": ("T: stay : c uniform", changed(1, 2, THIRD[0])),
    "row reset": ("T: go : c reset", changed(0, 2, THIRD[0])),
    "row of all states": ("T: go : * 0.1 0.2 0.7", [np.tile(ROW, (3, 1)), EYE]),
    "row of all actions": ("T: * : a 0.1 0.2 0.7", [np.vstack([ROW, EYE[1:]])] * 2),
    "matrix": ("T: go\n0 1 0\n0 0 1\n1 0 0", [CYCLE, EYE]),
    "matrix of all actions": ("T: * 0 1 0 0 0 1 1 0 0", [CYCLE, CYCLE]),
    "uniform": ("T: stay uniform", [EYE, THIRD]),
    "identity": ("T: go uniform\nT: go identity", [EYE, EYE]),
    "wildcard action": ("T: * : a : b 1\nT: * : a : a 0", [np.vstack([EYE[1], EYE[1:]])] * 2),
    "wildcard state": ("T: go : * 0 0 0\nT: go : * : c 1", [EYE[[2, 2, 2]], EYE]),
    "wildcard end": ("T: go : b : * 0\nT: go : b : c 1", changed(0, 1, EYE[2])),
    "all wildcards": ("T: * : * : * 0\nT: * : * : b 1.", [EYE[[1, 1, 1]]] * 2),
    "later ones win": ("T: go uniform\nT: * : b 0 0 1\nT: go : b 1 0 0\n"
                       "T: go : a : * 0\nT: go : a : c 1\nT: go : c 0 0 1\nT: stay : b 0 1 0",
                       [EYE[[2, 0, 2]], EYE]),
    "numbers": ("T: go : a\n+.5 5e-1 0.\nT: stay : a 2.5E-1 + .75 0e0",
                [np.vstack([[0.5, 0.5, 0], EYE[1:]]), np.vstack([[0.25, 0.75, 0], EYE[1:]])]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSITIONS)
def test_every_form_of_transitions(name):
    lines, expected = TRANSITIONS[name]
    np.testing.assert_array_equal(transition(lines), expected)


HALF = np.full((3, 2), 0.5)
OBSERVATIONS = {
    "single": ("O: go : a : x 1\nO: go : a : y 0", [[[1, 0], [0.5, 0.5], [0.5, 0.5]], HALF]),
    "numbers": ("O: 1 : 2 : 1 0.25 O: 1:2:0 0.75", [HALF, [[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]]]),
    "row": ("O: * : b\n0.2 0.8", [[[0.5, 0.5], [0.2, 0.8], [0.5, 0.5]]] * 2),
    "row of all": ("O: go : * 1 0", [[[1, 0]] * 3, HALF]),
    "row uniform": ("O: go : * 1 0 O: go : b uniform", [[[1, 0], [0.5, 0.5], [1, 0]], HALF]),
    "matrix": ("O: stay 1 0 0 1 0.3 0.7", [HALF, [[1, 0], [0, 1], [0.3, 0.7]]]),
    "uniform": ("O: * 1 0 1 0 1 0 O: stay uniform", [[[1, 0]] * 3, HALF]),
    "wildcards": ("O: go : * : * 0 O: go : * : y 1", [[[0, 1]] * 3, HALF]),
    "all observations": ("O: go : a : * 0.5", [HALF, HALF]),
}


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_every_form_of_observations(name):
    lines, expected = OBSERVATIONS[name]
    np.testing.assert_array_equal(observation(lines), expected)


def test_every_form_of_rewards():
    table = np.zeros((2, 3, 3, 2))
    lines = "R: * : * : * : * -1\n"
    table[:] = -1
    lines += "R: go : a : b : y 2.5\nR: 1 : * : 2 : 0 - 4\n"
    table[0, 0, 1, 1], table[1, :, 2, 0] = 2.5, -4
    lines += "R: go : b : c\n0 7\nR: stay : * : a 1 1\n"
    table[0, 1, 2], table[1, :, 0] = [0, 7], 1
    lines += "R: stay : c\n1 0\n0 2\n3 0\n"
    table[1, 2] = [[1, 0], [0, 2], [3, 0]]
    found, model = reward(lines)
    np.testing.assert_array_equal(found, table)
    naive = np.einsum("ast,ato,asto->sa", model.transition, model.observation, table)
    np.testing.assert_allclose(model.reward, naive, atol=1e-14)


def test_rewards_of_states_and_actions_need_no_table():
    found, model = reward("R: go : * : * : * -1\nR: go : c : * : * 5e0")
    assert model.outcome_reward is None
    np.testing.assert_array_equal(model.reward, [[-1, 0], [-1, 0], [5, 0]])
    assert parse(BODY).reward.tolist() == [[0, 0]] * 3
    np.testing.assert_array_equal(found[0, 2], np.full((3, 2), 5.0))


STARTS = {
    "": [1 / 3] * 3,
    "start: uniform": [1 / 3] * 3,
    "start: 0.5 0.25 .25": [0.5, 0.25, 0.25],
    "start: b": [0, 1, 0],
    "start: 2": [0, 0, 1],
    "start include: a 2": [0.5, 0, 0.5],
    "start exclude: a": [0, 0.5, 0.5],
    "start exclude: 0 c": [0, 1, 0],
}


@pytest.mark.parametrize("line", STARTS)
def test_every_form_of_start(line):
    model = parse(f"{line}\n{BODY}T: go : a reset\n")
    np.testing.assert_array_equal(model.start, STARTS[line])
    np.testing.assert_array_equal(model.transition[0][0], STARTS[line])


def test_the_preamble_comes_in_any_order_with_comments_and_counts():
    text = "# a\r\nobservations:2 # two\nactions :\n  left\n  right\rvalues:cost\nstates: 1\n"
    model = parse_pomdp(
        "\ufeff" + text + "discount:+.5\nstart: 1.0\nT:*identity\nO:* uniform R:*:*:*:* 3"
    )
    assert (model.n_states, model.n_actions, model.n_observations) == (1, 2, 2)
    assert (model.discount, model.values, model.actions) == (0.5, "cost", ("left", "right"))
    assert model.reward.tolist() == [[-3, -3]]
    assert model.states is None


def test_rounded_probabilities_are_rescaled_and_counted():
    third = "0.333333 0.333333 0.333333"
    model = parse(f"start: {third}\n{BODY}T: go : b {third}\n")
    assert model.rescaled_rows == 2
    np.testing.assert_allclose(model.start, 1 / 3, rtol=1e-15)
    np.testing.assert_allclose(model.transition[0][1], 1 / 3, rtol=1e-15)
    assert parse_pomdp(format_pomdp(model)).rescaled_rows == 0


def test_what_the_format_cannot_hold_is_not_written():
    model = parse(BODY)
    with pytest.raises(ValueError, match="has no observation before the first action"):
        format_pomdp(model.with_first_observation())
    names = {"states": ("a", "b", "not so"), "values": "reward"}
    parts = (model.transition, model.observation, model.reward, model.start, 0.9)
    with pytest.raises(ValueError, match="cannot write 'not so' of `states`"):
        format_pomdp(FinitePOMDP(*parts, **names))
    with pytest.raises(ValueError, match="cannot write 'T' of `actions`"):
        format_pomdp(FinitePOMDP(*parts, actions=("go", "T")))


def distributions(draw, shape, n):
    kind = draw(st.sampled_from(["dirichlet", "sparse", "uniform", "one"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kind == "uniform":
        return np.full((*shape, n), 1 / n)
    if kind == "one":
        return np.eye(n)[rng.integers(n, size=shape)]
    return rng.dirichlet(np.full(n, 1.0 if kind == "dirichlet" else 0.05), size=shape)


@st.composite
def models(draw):
    n, a, o = (draw(st.integers(1, size)) for size in (5, 3, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    transition, observation = distributions(draw, (a, n), n), distributions(draw, (a, n), o)
    if draw(st.booleans()):
        transition = [sparse.csr_array(matrix) for matrix in transition]
    reward, outcome = rng.normal(size=(n, a)) * rng.integers(0, 2, size=(n, a)), None
    if draw(st.booleans()):
        rules = rng.integers(-1, (a, n, n, o), size=(draw(st.integers(0, 9)), 4))
        reward, outcome = None, OutcomeReward(rules, rng.normal(size=len(rules)))
    start = distributions(draw, (), n)
    if draw(st.booleans()):
        chosen = rng.permutation(n) < draw(st.integers(1, n))
        start = chosen / chosen.sum()
    named = draw(st.booleans())
    return FinitePOMDP(
        transition,
        observation,
        reward,
        start,
        draw(st.floats(0, 1, exclude_max=True)),
        outcome_reward=outcome,
        values=draw(st.sampled_from(["reward", "cost"])),
        states=tuple(f"s-{i}" for i in range(n)) if named else None,
        actions=tuple(f"act_{i}" for i in range(a)) if named else None,
        observations=tuple(f"O{i}" for i in range(o)) if draw(st.booleans()) else None,
    )


def assert_same(one, two):
    for field in ("transition", "observation"):
        for left, right in zip(getattr(one, field), getattr(two, field), strict=True):
            np.testing.assert_array_equal(
                sparse.csr_array(left).toarray(), sparse.csr_array(right).toarray()
            )
    for field in ("reward", "start"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field))
    for field in ("discount", "values", "states", "actions", "observations", "rescaled_rows"):
        assert getattr(one, field) == getattr(two, field)
    if one.outcome_reward is not None and not one.outcome_reward.of_pairs:
        np.testing.assert_array_equal(one.outcome_reward.rules, two.outcome_reward.rules)
        np.testing.assert_array_equal(one.outcome_reward.value, two.outcome_reward.value)


@given(models(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_model_is_read_as_it_was_written(model, stay_sparse):
    text = format_pomdp(model, "random\n\nmodel")
    before = entries_module.DENSE_ENTRIES
    entries_module.DENSE_ENTRIES = 0 if stay_sparse else before
    try:
        again = parse_pomdp(text)
    finally:
        entries_module.DENSE_ENTRIES = before
    assert_same(model, again)
    assert format_pomdp(again, "random\n\nmodel") == text


def test_a_file_of_2000_states_stays_sparse():
    rng = np.random.default_rng(0)
    n, a, o = 2_000, 4, 20
    columns = rng.permuted(np.tile(np.arange(n), (a, 1)), axis=1)
    lines = [f"discount: 0.95 values: cost states: {n} actions: {a} observations: {o} start: 7"]
    for action in range(a):
        for state in range(n):
            ahead = columns[action, (state + np.arange(5)) % n].tolist()
            lines += [f"T: {action} : {state} : {s} 0.2" for s in ahead]
    lines += [f"O: * : {state} : {state % o} 0.9\nO: * : {state} : {(state + 1) % o} 0.1"
              for state in range(n)]  # fmt: skip
    lines += ["R: * : * : * : * 1", "R: 2 : * : 5 : 5 -100"]
    model = parse_pomdp("\n".join(lines))
    assert model.is_sparse
    assert [matrix.nnz for matrix in model.transition] == [5 * n] * a
    assert [matrix.nnz for matrix in model.observation] == [2 * n] * a
    into = model.transition[2].toarray()[:, 5]
    np.testing.assert_allclose(model.reward[:, 2], -(1 - 101 * 0.9 * into), atol=1e-12)
    np.testing.assert_allclose(model.reward[:, [0, 1, 3]], -1)
    assert_same(model, parse_pomdp(format_pomdp(model)))
