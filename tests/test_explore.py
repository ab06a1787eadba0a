"""The numbers of the explorable page against the library, to nine digits."""

import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import mdpnewton as mn

PARTS = Path(__file__).parents[1] / "docs" / "assets" / "explore"
MAPS = {"same": [[1, 0], [0, 1]], "rescaled": [[0.4, 0], [0, 2.5]], "linear": [[1, 0.7], [-0.4, 1]]}
ASKED = """(() => {
const found = CASES.map(({ problem, w, map }) => {
  const read = Explore.read(JSON.stringify(problem));
  return { read, ...Explore.analysed(read, w, map) };
});
const refused = ["{", "{}", '{"reward": [[1, 2]], "start": [0.5], "transition": [[[1], [1]]]}'].map(
  (text) => { try { Explore.read(text); return ""; } catch (error) { return error.message; } });
return JSON.stringify({ found, refused, kakade: Explore.kakade, corridor: Explore.corridor });
})()"""


@pytest.fixture(scope="module")
def ask(chromium):
    """What the scripts of the page answer in a browser."""
    with chromium.page("about:blank") as page:
        for part in ("algebra", "numbers", "problems"):
            page.run((PARTS / f"{part}.js").read_text())
        yield lambda cases: json.loads(page.run(ASKED.replace("CASES", json.dumps(cases))))


def random_problem(seed, features=True):
    rng = np.random.default_rng(seed)
    given = {
        "transition": rng.dirichlet(np.ones(4), size=(4, 3)),
        "reward": rng.random((4, 3)),
        "start": rng.dirichlet(np.ones(4)),
        "discount": 0.8,
    }
    if features:
        given["features"] = rng.normal(size=(4, 3, 2))
    return {name: np.asarray(part).tolist() for name, part in given.items()}


def close(ours, theirs):
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9 * max(1, np.abs(theirs).max()))


@pytest.fixture(scope="module")
def answered(ask):
    """What the page computes on its own problems, with offsets and maps, and on others."""
    own = ask([])
    cases = []
    for name in ("kakade", "corridor"):
        for w in ([0.0, 0.0], [1.3, -0.8], [-2.5, 3.1]):
            for offset, discount in ((0, 0.9), (3, 0.5), (0.5, 0.98)):
                problem = {**own[name], "discount": discount}
                problem["reward"] = (np.array(problem["reward"]) + offset).tolist()
                cases += [{"problem": problem, "w": w, "map": map_} for map_ in MAPS.values()]
    cases += [{"problem": random_problem(n), "w": [0.4, -0.9], "map": None} for n in range(3)]
    w = np.random.default_rng(5).normal(size=8).tolist()
    cases.append({"problem": random_problem(7, features=False), "w": w, "map": None})
    return cases, ask(cases)


def test_values_matrices_and_directions_are_those_of_the_library(answered):
    cases, answer = answered
    for case, found in zip(cases, answer["found"], strict=True):
        problem = case["problem"]
        mdp = mn.FiniteMDP(
            *(np.array(problem[part], float) for part in ("transition", "reward", "start")),
            problem["discount"],
        )
        policy, w = mn.Gibbs(np.array(found["read"]["features"], float)), np.array(case["w"])
        evaluation = mn.FiniteEvaluator(mdp).evaluate(None, policy, w)
        close(found["objective"], evaluation.objective)
        close(found["gradient"], mn.gradient(policy, w, evaluation))
        terms = mn.hessian_terms(policy, w, evaluation)
        for name in ("hessian", "H2", "A1", "fisher"):
            close(found[name], terms[name])
        for name in ("hessian", "H2", "A1"):
            close(found["spectra"][name]["values"], np.linalg.eigvalsh(terms[name]))
        map_ = np.eye(w.size) if case["map"] is None else np.array(case["map"], float)
        mapped = mn.Reparametrized(policy, map_)
        v = mapped.transformed(w)
        seen = mn.FiniteEvaluator(mdp).evaluate(None, mapped, v)
        for name, direction in found["directions"].items():
            method = mn.METHODS[name]
            if name == "expectation_maximization":
                method = mn.ExpectationMaximization(tolerance=1e-13)
            close(direction, map_ @ np.asarray(mn.direction(method, mapped, v, seen).value))


def test_a_softmax_without_features_is_the_librarys_table(answered):
    cases, answer = answered
    features = np.array(answer["found"][-1]["read"]["features"], float)
    table, w = mn.TabularSoftmax(4, 3, reduced=True), jnp.array(cases[-1]["w"])
    logits = np.stack([np.asarray(table.logits(w.reshape(4, 2), state)) for state in range(4)])
    np.testing.assert_allclose(features @ w, logits)


def test_em_without_a_maximum_is_left_out(ask):
    own = ask([])["kakade"]
    own["reward"] = (np.array(own["reward"]) - 3).tolist()  # all values are negative
    found = ask([{"problem": own, "w": [1.0, -1.0], "map": None}])["found"][0]
    assert found["directions"]["expectation_maximization"] is None
    assert found["spectra"]["H2"]["definiteness"] == "positive definite"


def test_what_was_typed_wrong_is_said(answered):
    _, answer = answered
    assert [bool(text) for text in answer["refused"]] == [True, True, True]
    assert "sum to one" in answer["refused"][2]
