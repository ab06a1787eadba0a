"""Searches for controllers of sparse problems, and controllers that grow."""

from contextlib import suppress
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import sparse

import mdpnewton as mn
from mdpnewton.domains.rocks import rocks
from mdpnewton.jobs import Checkpoint


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
