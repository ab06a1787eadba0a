"""Numbers that other projects publish or test against, beside ours."""

from dataclasses import replace

import numpy as np
from test_bringing import forest

import mdpnewton as mn


def test_the_finite_horizon_of_pymdptoolboxs_forest():
    """Its FiniteHorizon example: discount 0.9, three steps, cut down in the second last alone."""
    P, R = forest()
    settings = {"discount": 0.9, "criterion": "finite", "horizon": 3}
    values, actions = [], None
    for start in np.eye(3):
        best = mn.policy_iteration(mn.FiniteMDP.from_matrices(P, R, start=start, **settings))
        values.append(best.objective)
        actions = best.actions
    np.testing.assert_allclose(values, [2.6973, 5.9373, 9.9373], atol=1e-10)
    # policy[state, time] there: [[0, 0, 0], [0, 0, 1], [0, 0, 0]]
    assert actions.T.tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_the_small_example_of_pymdptoolbox():
    """Its PolicyIteration on `small`: V = (42.4418604651163, 36.0465116279070), policy (1, 0)."""
    P = np.array([[[0.5, 0.5], [0.8, 0.2]], [[0.0, 1.0], [0.1, 0.9]]])
    R = np.array([[5.0, 10.0], [-1.0, 2.0]])
    mdp = mn.FiniteMDP.from_matrices(P, R, discount=0.9)
    best = mn.policy_iteration(mdp)
    value = mn.policy_chain(mdp, np.eye(2)[best.actions]).value
    np.testing.assert_allclose(value, [42.4418604651163, 36.0465116279070], atol=1e-10)
    assert best.actions.tolist() == [1, 0]


def test_the_stationary_gain_of_quantecons_linear_control():
    """test_stationary_mat of its test_lqcontrol.py: u = -F x with F = ((-.95, -.95), (0, 0)).

    One of its controls costs nothing, which a policy with a density cannot have: here next to it.
    """
    mdp = mn.QuadraticMDP(
        A=0.95 * np.ones((2, 2)),
        B=-np.ones((2, 2)),
        state_cost=np.diag([1.0, 0.0]),
        action_cost=np.diag([1e-9, 1.0]),
        noise=np.zeros((2, 2)),
        start_mean=np.zeros(2),
        start_covariance=np.eye(2),
        discount=0.95,
    )
    np.testing.assert_allclose(mdp.optimal_gain(), [[0.95, 0.95], [0.0, 0.0]], atol=1e-7)


def test_the_tiger_of_the_r_package_pomdp():
    """Its README solves the tiger by pomdp-solve with discount 0.75: 1.933439 from the start."""
    tiger = replace(mn.load_pomdp("tiger"), discount=0.75)
    assert round(mn.optimal_value(tiger), 6) == 1.933439


def cheng():
    """Cheng's problem D3-5, whose bounds AI-Toolbox tests: 8672 to 8674, and 8705 to 8707."""
    transition = [
        [[0.445, 0.222, 0.333], [0.500, 0.173, 0.327], [0.204, 0.553, 0.243]],
        [[0.234, 0.064, 0.702], [0.549, 0.218, 0.233], [0.061, 0.466, 0.473]],
        [[0.535, 0.313, 0.152], [0.114, 0.870, 0.016], [0.325, 0.360, 0.315]],
    ]
    observation = [
        [[0.686, 0.182, 0.132], [0.138, 0.786, 0.076], [0.279, 0.083, 0.638]],
        [[0.698, 0.131, 0.171], [0.283, 0.624, 0.093], [0.005, 0.202, 0.793]],
        [[0.567, 0.234, 0.199], [0.243, 0.641, 0.116], [0.186, 0.044, 0.770]],
    ]
    reward = [[5.2, 0.8, 9.0], [4.6, 6.8, 9.3], [4.1, 6.9, 0.8]]
    start = np.full(3, 1 / 3)
    return mn.FinitePOMDP(
        np.array(transition), np.array(observation), np.array(reward), start, 0.999
    )


def test_controllers_for_cheng_come_near_the_bounds_of_ai_toolbox():
    """One action for ever is worth 8671.65, and no look ahead gains on it; they have 8673."""
    evaluator = mn.ControllerEvaluator(cheng())
    policy = evaluator.controller(2)
    found = mn.search_controllers(evaluator, policy, mn.random_starts(policy, 0, 2), iterations=80)
    assert 8671.6 < found.objective.max() < 8707
    assert mn.upper_bounds(evaluator.pomdp).fast_informed > 8705


def test_the_fast_informed_bound_of_the_tiger_is_that_of_gapmin():
    """AI-Toolbox tests 87.1885, from GapMin, which stops within 0.001 of a sweep: 0.02 in all."""
    found = mn.upper_bounds(mn.load_pomdp("tiger"))
    assert 0 <= 87.1884724559168 - found.fast_informed < 0.02
