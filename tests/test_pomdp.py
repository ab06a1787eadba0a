"""FinitePOMDP and the shipped problems: clear errors, and the values that are known."""

import dataclasses
from importlib.resources import files

import numpy as np
import pytest
from scipy import sparse

from mdpnewton.domains.pomdps import PROBLEMS, description, load_unload
from mdpnewton.files.pomdp import load_pomdp, save_pomdp, shipped
from mdpnewton.files.pomdp_text import format_pomdp
from mdpnewton.models.pomdp import FinitePOMDP, OutcomeReward


def parts(seed=0, n_states=4, n_actions=2, n_observations=3):
    rng = np.random.default_rng(seed)
    return {
        "transition": rng.dirichlet(np.ones(n_states), size=(n_actions, n_states)),
        "observation": rng.dirichlet(np.ones(n_observations), size=(n_actions, n_states)),
        "reward": rng.normal(size=(n_states, n_actions)),
        "start": rng.dirichlet(np.ones(n_states)),
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


RULE = OutcomeReward(np.array([[0, 1, -1, 2]]), np.array([1.0]))
BAD = {
    "transition row": (broken(transition=with_entry((1, 2), 0.1)), "action 1, state 2 sums to 0.4"),
    "negative": (
        broken(transition=with_entry((0, 1), [-0.5, 1.5, 0, 0])),
        r"negative probability, -0\.5, in action 0, state 1",
    ),
    "NaN": (broken(transition=with_entry((0, 0, 0), np.nan)), r"entry \(0, 0, 0\) is nan"),
    "transition shape": (broken(transition=lambda p: p[:, :, :3]), r"needs shape \(A, S, S\)"),
    "transition axes": (broken(transition=np.eye(4)), "needs 3 axes"),
    "words": (broken(transition="no"), "array of numbers"),
    "one sparse matrix": (broken(transition=sparse.eye_array(4)), "one sparse matrix for each"),
    "sparse NaN": (
        broken(transition=[sparse.csr_array(np.full((4, 4), np.nan))] * 2),
        "NaN or infinite",
    ),
    "sparse sizes": (
        broken(transition=[sparse.eye_array(4), sparse.eye_array(3)]),
        r"needs shape \(A, S, S\)",
    ),
    "observation row": (
        broken(observation=with_entry((0, 3), 1.0)),
        "action 0, state 3 sums to 3; normalise",
    ),
    "observation shape": (
        broken(observation=lambda p: p[:, :3]),
        r"\(A, S, O\) = \(2, 4, O\) to match `transition`",
    ),
    "observation actions": (broken(observation=lambda p: p[:1]), r"\(A, S, O\) = \(2, 4, O\)"),
    "reward shape": (broken(reward=np.ones((2, 4))), r"\(S, A\) = \(4, 2\), got \(2, 4\)"),
    "infinite reward": (broken(reward=with_entry((0, 1), np.inf)), r"entry \(0, 1\) is inf"),
    "no reward": (broken(reward=None), "needs an `outcome_reward`"),
    "two rewards": (broken(outcome_reward=RULE), "differs from the expectation"),
    "rule beyond": (
        broken(reward=None, outcome_reward=OutcomeReward(np.array([[0, 4, 0, 0]]), np.ones(1))),
        r"rule \[0, 4, 0, 0\], beyond the sizes \[2, 4, 4, 3\]",
    ),
    "start": (broken(start=np.ones(4)), "must sum to one"),
    "start shape": (broken(start=np.ones(3) / 3), r"\(S\) = \(4,\), got \(3,\)"),
    "discount": (broken(discount=1.0), r"must be a number at least 0 and below 1, got 1\.0"),
    "NaN discount": (broken(discount=np.nan), "at least 0 and below 1, got nan"),
    "values": (broken(values="loss"), "must be one of 'reward', 'cost', got 'loss'"),
    "first": (broken(first_observation=np.ones((4, 3))), "row 0 sums to 3"),
    "first shape": (broken(first_observation=np.ones((3, 4))), r"\(S, O\) = \(4, 3\)"),
    "names": (broken(states=("a", "b")), "needs 4 names"),
    "a string for names": (broken(actions="ab"), "needs 2 names"),
    "same names": (broken(actions=("a", "a")), "'a' occurs twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_line_that_names_call_and_rule(name):
    given, message = BAD[name]
    with pytest.raises(ValueError, match=message) as error:
        FinitePOMDP(**given)
    assert str(error.value).startswith("`FinitePOMDP(")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("rules", "value", "message"),
    [
        (np.zeros((2, 3), int), np.ones(2), r"shape \(n, 4\) = \(2, 4\)"),
        (np.zeros((1, 4)), np.ones(1), "whole numbers"),
        (np.full((1, 4), -2), np.ones(1), "at least -1"),
        (np.zeros((1, 4), int), [np.nan], "must be finite"),
    ],
)
def test_bad_rules_are_refused(rules, value, message):
    with pytest.raises(ValueError, match=message):
        OutcomeReward(rules, value)


def test_the_expected_reward_is_the_sum_over_outcomes():
    given = parts(1)
    table = np.random.default_rng(2).normal(size=(2, 4, 4, 3))
    given |= {"reward": None, "outcome_reward": OutcomeReward.from_array(table)}
    p, seen = given["transition"], given["observation"]
    naive = np.einsum("ast,ato,asto->sa", p, seen, table)
    np.testing.assert_allclose(FinitePOMDP(**given).reward, naive, atol=1e-13)
    given["transition"] = [sparse.csr_array(matrix) for matrix in p]
    np.testing.assert_allclose(FinitePOMDP(**given).reward, naive, atol=1e-13)


def test_the_last_rule_that_fits_counts(monkeypatch):
    monkeypatch.setattr("mdpnewton.models.pomdp.outcomes.CHUNK", 7)  # several chunks
    rng = np.random.default_rng(3)
    rules = rng.integers(-1, 2, size=(40, 4))
    value = rng.normal(size=40)
    table = np.zeros((2, 4, 4, 3))
    for rule, each in zip(rules, value, strict=True):
        table[tuple(slice(None) if i < 0 else i for i in rule)] = each
    reward = OutcomeReward(rules, value)
    np.testing.assert_array_equal(
        reward.of(np.argwhere(np.ones_like(table))).reshape(table.shape), table
    )
    given = parts(4)
    naive = np.einsum("ast,ato,asto->sa", given["transition"], given["observation"], table)
    found = reward.expected(given["transition"], given["observation"])
    np.testing.assert_allclose(found, naive, atol=1e-13)


def test_rewards_of_states_and_actions_are_not_rounded():
    rules = OutcomeReward(np.array([[-1, -1, -1, -1], [1, 2, -1, -1]]), [0.1, 0.7])
    assert rules.of_pairs
    reward = FinitePOMDP(**broken(reward=None, outcome_reward=rules)).reward
    assert reward[2, 1] == 0.7
    assert (np.delete(reward.ravel(), 5) == 0.1).all()


def test_sparse_and_dense_hold_the_same():
    given = parts(5)
    dense = FinitePOMDP(**given)
    twin = FinitePOMDP(
        **(given | {"transition": [sparse.coo_array(p) for p in given["transition"]]})
    )
    assert twin.is_sparse
    assert not dense.is_sparse
    assert (dense.n_states, dense.n_actions, dense.n_observations) == (4, 2, 3)
    assert (twin.n_states, twin.n_actions, twin.n_observations) == (4, 2, 3)
    for action in range(2):
        for name in ("transition", "observation"):
            matrix = getattr(twin, name)[action]
            assert isinstance(matrix, sparse.csr_array)
            np.testing.assert_array_equal(matrix.toarray(), getattr(dense, name)[action])
    mdp = dense.fully_observed()
    np.testing.assert_array_equal(mdp.transition[:, 1], dense.transition[1])
    np.testing.assert_array_equal(twin.fully_observed().transition.toarray(), mdp.transition_matrix)


def test_a_first_observation_needs_observations_that_do_not_depend_on_the_action():
    pomdp = PROBLEMS["cheese"]()
    first = pomdp.with_first_observation().first_observation
    np.testing.assert_array_equal(first, pomdp.observation[2])
    with pytest.raises(ValueError, match="the same after every action"):
        PROBLEMS["tiger"]().with_first_observation()


def test_labels_are_names_or_numbers():
    assert PROBLEMS["tiger"]().labels("actions") == ("listen", "open-left", "open-right")
    assert FinitePOMDP(**parts()).labels("observations") == ("0", "1", "2")


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_shipped_file_is_what_the_writer_makes_of_its_generator(name, tmp_path):
    # To write them again: save_pomdp(path, PROBLEMS[name](), description(name))
    path = tmp_path / f"{name}.pomdp"
    save_pomdp(path, PROBLEMS[name](), description(name))
    text = (files("mdpnewton.files") / "problems" / path.name).read_text()
    assert text == path.read_text()
    assert text.startswith("# ")
    pomdp = load_pomdp(name)
    assert format_pomdp(pomdp, description(name)) == text
    model = PROBLEMS[name]()
    for field in ("transition", "observation", "reward", "start"):
        np.testing.assert_array_equal(getattr(model, field), getattr(pomdp, field))
    for field in ("discount", "states", "actions", "observations", "values", "rescaled_rows"):
        assert getattr(model, field) == getattr(pomdp, field)


def test_shipped_names_are_those_of_the_generators():
    assert shipped() == sorted(PROBLEMS)


def test_a_missing_file_or_folder_is_one_line_with_a_remedy(tmp_path):
    with pytest.raises(ValueError, match=r"no such file; give a \.pomdp file or one of cheese"):
        load_pomdp(tmp_path / "absent.pomdp")
    with pytest.raises(ValueError, match=r"there is no folder .*; make it first"):
        save_pomdp(tmp_path / "absent" / "x.pomdp", PROBLEMS["tiger"]())


def test_comments_in_an_old_encoding_are_read(tmp_path):
    path = tmp_path / "old.pomdp"
    path.write_bytes("# Åström\n".encode("latin-1") + format_pomdp(PROBLEMS["tiger"]()).encode())
    assert load_pomdp(path).n_states == 2


def belief_value(pomdp):
    """The optimal value from the start, over the beliefs that can be reached: finitely many."""
    numbers, beliefs, moves = {}, [], []

    def number(belief):
        key = tuple(np.round(belief, 10))
        if key not in numbers:
            numbers[key] = len(beliefs)
            beliefs.append(belief)
        return numbers[key]

    number(pomdp.start)
    for belief in beliefs:  # grows
        row = []
        for a in range(pomdp.n_actions):
            joint = (belief @ pomdp.transition[a])[:, None] * pomdp.observation[a]
            seen = [(joint[:, o].sum(), joint[:, o]) for o in range(pomdp.n_observations)]
            after = [(p, number(b / p)) for p, b in seen if p > 1e-12]
            row.append((belief @ pomdp.reward[:, a], after))
        moves.append(row)
    value = np.zeros(len(beliefs))
    for _ in range(600):
        value = np.array(
            [
                max(r + pomdp.discount * sum(p * value[b] for p, b in after) for r, after in row)
                for row in moves
            ]
        )
    return value[0]


def test_load_unload_pays_once_a_round_trip():
    pomdp = load_unload()
    assert (pomdp.n_states, pomdp.n_actions, pomdp.n_observations) == (14, 2, 3)
    np.testing.assert_allclose(belief_value(pomdp), 0.95**13 / (1 - 0.95**14), rtol=1e-10)


def test_the_cheese_maze_is_that_of_the_benchmark():
    pomdp = load_pomdp("cheese")
    assert (pomdp.n_states, pomdp.n_actions, pomdp.n_observations) == (11, 4, 7)
    np.testing.assert_array_equal(pomdp.start, np.append(np.full(10, 0.1), 0))
    np.testing.assert_array_equal(pomdp.transition[:, 10], [pomdp.start] * 4)
    assert belief_value(pomdp) == pytest.approx(3.48621, abs=1e-5)


def test_the_mazes_of_the_paper_alias_the_states_it_says():
    grid, hall = load_pomdp("mccallum_grid"), load_pomdp("hallway_paper")
    np.testing.assert_array_equal(grid.observation[0].argmax(axis=1), [0, 1, 2, 3, 3, 3, 4, 4, 4])
    np.testing.assert_array_equal(hall.observation[0].argmax(axis=1), [0, 1, 1, 1, 2])
    np.testing.assert_allclose(belief_value(hall), 0.95**3 / (1 - 0.95**5), rtol=1e-10)


def test_the_hallway_has_the_rows_of_the_benchmark():
    pomdp = load_pomdp("hallway")
    assert (pomdp.n_states, pomdp.n_actions, pomdp.n_observations) == (60, 5, 21)
    forward = {  # rows of the published file
        8: {13: 0.05, 44: 0.025, 46: 0.025, 7: 0.05, 8: 0.85},
        9: {13: 0.8, 46: 0.05, 5: 0.025, 7: 0.025, 9: 0.1},
        19: {21: 0.025, 23: 0.025, 50: 0.05, 15: 0.8, 19: 0.1},
        48: {16: 0.8, 48: 0.2},
        50: {16: 0.025, 18: 0.025, 50: 0.95},
    }
    for state, row in forward.items():
        expected = np.zeros(60)
        expected[list(row)] = list(row.values())
        np.testing.assert_allclose(pomdp.transition[1][state], expected, atol=1e-12)
    np.testing.assert_allclose(pomdp.transition[3][5, 4:8], [0.15, 0.1, 0.15, 0.6])
    np.testing.assert_allclose(pomdp.observation[0][1, 4:8], [0.00855, 0.07695, 0.07695, 0.69255])
    np.testing.assert_allclose(pomdp.observation[0][9, 1], 0.771637, atol=1e-6)
    assert [int(pomdp.observation[0][s].argmax()) for s in (10, 18, 26, 34, 57)] == [*range(16, 21)]
    np.testing.assert_array_equal(pomdp.transition[:, 56:], np.tile(pomdp.start, (5, 4, 1)))
    np.testing.assert_allclose(pomdp.reward[34], [0, 0.8, 0, 0, 0])
    assert dataclasses.replace(pomdp, discount=0.9).outcome_reward is pomdp.outcome_reward
