"""Forms: by name and as objects, and the sign with which each of them is solved."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from problems import random_mdp

import mdpnewton as mn
from mdpnewton.methods import Situation

POSITIVE = {"H1", "V1", "fisher", "fisher_score", "generalized_fisher"}
POLICY = mn.TabularSoftmax(4, 3, reduced=True)
W = POLICY.initial_parameters() + 0.1 * jnp.arange(8.0).reshape(4, 2)
PAIRS = mn.FiniteEvaluator(random_mdp(1, n_states=4)).evaluate(None, POLICY, W)
# A2 is zero where the curvature of a policy is constant, Lemma 3: there is nothing to solve with.
SOLVABLE = [name for name in mn.FORMS if name != "A2"]


def accumulated():
    """The same evaluation as a compiled simulator would give it: matrices in place of pairs."""
    names = [name for name in mn.FORMS if name != "A2"]
    return mn.AccumulatedMatrices(
        mn.gradient(POLICY, W, PAIRS).ravel(),
        {name: mn.curvature(POLICY, W, PAIRS, name).dense() for name in names},
        PAIRS.objective,
    )


EVALUATIONS = {"pairs": (W, PAIRS), "matrices": (W.ravel(), accumulated())}


def test_each_row_says_with_which_sign_it_is_solved():
    assert {name for name, form in mn.FORMS.items() if form.positive} == POSITIVE


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("name", SOLVABLE)
def test_a_form_by_name_and_as_an_object_give_the_same_bits(name, damping, evaluation):
    w, seen = EVALUATIONS[evaluation]
    own = mn.Form(*dataclasses.astuple(mn.FORMS[name])[:4])  # a user's, of the same numbers
    first, *others = [
        mn.direction(mn.Precondition(form, fisher_damping=damping), POLICY, w, seen)
        for form in (name, mn.FORMS[name], own)
    ]
    for other in others:
        np.testing.assert_array_equal(first.value, other.value)
        assert first.report == other.report


@pytest.mark.parametrize("evaluation", EVALUATIONS)
@pytest.mark.parametrize("name", sorted(POSITIVE | {"H2", "V2", "generalized"}))
def test_every_row_that_is_definite_ascends(name, evaluation):
    w, seen = EVALUATIONS[evaluation]
    assert mn.direction(mn.Precondition(mn.FORMS[name]), POLICY, w, seen).report.slope > 0


@pytest.mark.parametrize(
    "form",
    [
        mn.Form("occupancy", -2.0),
        mn.Form("occupancy", 2.0),
        mn.Form("occupancy", 0.0, 0.5),
        mn.Form("occupancy", 0.0, 0.0, 3.0),
        mn.Form("occupancy", -1.0, 1.0, -1.0),
        mn.Form("value", 3.0),
        mn.Form("value", -1.0),
        mn.Form("value", 1.0, 0.1),
        mn.Form("baseline", 0.5, 0.1, 0.5),
        mn.Form("baseline", 0.0, -1.0),
    ],
)
def test_a_form_of_ones_own_ascends(form):
    ahead = mn.direction(mn.Precondition(form), POLICY, W, PAIRS)
    assert ahead.report.status == "solved"
    assert ahead.report.slope > 0


@pytest.mark.parametrize("name", SOLVABLE)
def test_a_multiple_of_a_row_goes_the_same_way(name):
    row = mn.FORMS[name]
    expected = mn.direction(mn.Precondition(name), POLICY, W, PAIRS).value
    for factor in (2.0, -0.5):
        scaled = mn.Form(row.weights, *(factor * each for each in row.terms.values()))
        found = mn.direction(mn.Precondition(scaled), POLICY, W, PAIRS).value
        np.testing.assert_allclose(abs(factor) * found, expected, rtol=1e-9, atol=1e-12)


def test_who_knows_better_says_the_sign():
    flipped = mn.Form("value", positive=True)
    assert flipped == mn.FORMS["H2"]  # the same matrix
    down = mn.direction(mn.Precondition(flipped), POLICY, W, PAIRS)
    assert down.report.slope < 0


def test_forms_work_as_objects_wherever_names_do():
    for name, form in mn.FORMS.items():
        by_name, as_object = (mn.curvature(POLICY, W, PAIRS, one) for one in (name, form))
        np.testing.assert_array_equal(by_name.dense(), as_object.dense())
        v = W + 0.1
        assert mn.surrogate(POLICY, W, PAIRS, name)(v) == mn.surrogate(POLICY, W, PAIRS, form)(v)
    found = accumulated()
    own = mn.Form("value", 1, 0)
    np.testing.assert_array_equal(found.matrix(W.ravel(), own).entries, found.matrices["H2"])
    with pytest.raises(ValueError, match="accumulated H1, H2") as caught:
        found.matrix(W.ravel(), mn.Form("value", 7.0))
    assert "\n" not in str(caught.value)


def test_the_damping_of_a_form_in_the_outputs_is_in_the_outputs_too():
    """So that it is positive for networks, too."""
    for form in ("generalized", mn.FORMS["generalized"], mn.Form("baseline", 0.0, 0.0, 2.0)):
        method = mn.Precondition(form, fisher_damping=0.5)
        at = Situation(POLICY, W, PAIRS, mn.gradient(POLICY, W, PAIRS), None, None)
        assert method.operator(at).parts == {"output"}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: mn.Form("values"), r"`Form\(weights=...\)` must be one of 'occupancy'"),
        (lambda: mn.Form(1.0), r"`Form\(weights=...\)` must be one of 'occupancy'"),
        (lambda: mn.Form("value", math.nan), r"`Form\(hessian=...\)` must be a number that is"),
        (lambda: mn.Form("value", "1"), r"`Form\(hessian=...\)` must be a number that is"),
        (lambda: mn.Form("value", 1.0, math.inf), r"`Form\(outer=...\)` must be a number"),
        (lambda: mn.Form("value", 1.0, 0.0, None), r"`Form\(output=...\)` must be a number"),
        (lambda: mn.Form("value", 0.0), r"`Form\(hessian=...\)` is zero, and so are `outer`"),
        (lambda: mn.Form("value", positive=1), r"`Form\(positive=...\)` needs a bool, got int"),
        (lambda: mn.Precondition("H3"), r"`Precondition\(curvature=...\)` must be one of 'H1'"),
        (lambda: mn.Precondition(None), r"`Precondition\(curvature=...\)` must be one of 'H1'"),
        (lambda: mn.Precondition("H2", "dense"), r"Precondition\(solver=...\)` needs a Solver"),
        (lambda: mn.Precondition("H2", mn.Dense), r"Precondition\(solver=...\)` needs a Solver"),
        (lambda: mn.Precondition("H2", 0.1), r"Precondition\(solver=...\)` needs a Solver"),
        (
            lambda: mn.Precondition("H2", fisher_damping=math.nan),
            r"`Precondition\(fisher_damping=...\)` must be a number that is finite",
        ),
        (
            lambda: mn.Precondition("H2", fisher_damping=math.inf),
            r"`Precondition\(fisher_damping=...\)` must be a number that is finite",
        ),
        (
            lambda: mn.Precondition("H2", fisher_damping="tight"),
            r"`Precondition\(fisher_damping=...\)` must be a number that is finite",
        ),
        (
            lambda: mn.Precondition("differenced_hessian", fisher_damping=0.1),
            r"`Precondition\(fisher_damping=...\)` must be 0 for 'differenced_hessian'",
        ),
        (lambda: mn.TightOffset(-1.0), r"`TightOffset\(margin=...\)` must be a number at least 0"),
        (lambda: mn.TightOffset(math.nan), r"`TightOffset\(margin=...\)` must be a number"),
        (lambda: mn.TightOffset(math.inf), r"`TightOffset\(margin=...\)` must be a number"),
        (lambda: mn.curvature(POLICY, W, PAIRS, "H3"), r"`curvature\(form=...\)` knows H1, H2"),
        (lambda: mn.curvature(POLICY, W, PAIRS, 3), r"`curvature\(form=...\)` knows H1, H2"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_given(build, words):
    with pytest.raises(ValueError, match=words) as caught:
        build()
    assert "\n" not in str(caught.value)


def test_a_negative_damping_takes_a_constant_off_the_values():
    """-H2 - c G is what values that are smaller by c give: any finite number is allowed."""
    least = float(PAIRS.state_value.min())
    ahead = mn.direction(mn.Precondition("H2", fisher_damping=-0.5 * least), POLICY, W, PAIRS)
    assert ahead.report.slope > 0
