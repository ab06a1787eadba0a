"""What the sampled and the searched experiments show, at a scale that fits: orderings that hold."""

import numpy as np
from job_functions import results_of

from mdpnewton.domains.manipulator import manipulator
from mdpnewton.experiments import navigation, tetris
from mdpnewton.experiments.manipulator import searched
from mdpnewton.experiments.manipulator_rows import ROWS


def test_navigation_without_a_baseline_orders_the_methods():
    """Figure 4b: second Gauss-Newton ahead of EM and of steepest ascent, on the same starts."""
    ends = {}
    sizes = {"second_gauss_newton": 8.0, "expectation_maximization": 1.0, "steepest": 0.025}
    for name, size in sizes.items():
        row = navigation.ROWS[name]
        ends[name] = np.array(
            [np.mean(navigation.gain_curve(row, size, [300, k], 40)[-10:]) for k in range(8)]
        )
    for other in ("expectation_maximization", "steepest"):
        gap = ends["second_gauss_newton"] - ends[other]
        assert gap.mean() > 1, other


def test_with_a_line_search_gauss_newton_is_ahead_on_the_manipulator():
    """Figure 6a: after as many iterations, ahead of natural gradient, EM and steepest ascent."""
    for seed in (300, 301):
        problem = manipulator(seed)
        ends = {
            name: searched(problem, ROWS["line search"][name], 25).objective[-1]
            for name in ("second_gauss_newton", "natural", "expectation_maximization", "steepest")
        }
        assert max(ends, key=lambda name: ends[name]) == "second_gauss_newton", ends


def test_tetris_orders_the_full_the_diagonal_form_and_steepest_ascent():
    """Figure 8a: the full second Gauss-Newton method ahead of both."""
    methods = "second_gauss_newton,diagonal_second_gauss_newton,steepest"
    config = tetris.Config(iterations=6, games=150, fresh_games=300, methods=methods)
    found = results_of(tetris.work(config, 300))["methods"]
    lines = {name: one["fresh"]["mean"] for name, one in found.items()}
    assert lines["second_gauss_newton"] > 1.1 * lines["diagonal_second_gauss_newton"], lines
    assert lines["second_gauss_newton"] > 1.2 * lines["steepest"], lines
