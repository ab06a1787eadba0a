"""Wrong constructions get one line that names the call, the rule and what came.

Evaluators have a file of their own, `test_evaluator_constructions.py`.
"""

import dataclasses
import inspect
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import random_mdp

import mdpnewton as mn
from mdpnewton.domains.arm import Arm, simulate
from mdpnewton.domains.cartpole import CartPole
from mdpnewton.domains.manipulator import manipulator
from mdpnewton.domains.mazes import HALLWAY
from mdpnewton.domains.pomdps import load_unload
from mdpnewton.domains.tetris.policy import AfterstatePolicy
from mdpnewton.domains.two_state import start_parameters
from mdpnewton.methods import BlockwiseMaximization, Exploring, Guarded
from mdpnewton.models.pomdp import optimal_value
from mdpnewton.simulators import Spaces, UnitActions
from mdpnewton.solve import Solver
from mdpnewton.training.survival import Schedule

NAN, INF = math.nan, math.inf
KEY = jax.random.key(0)
MDP = random_mdp(3, n_states=3, n_actions=2)
POMDP = load_unload(n_locations=3)
CONTROLLERS = mn.ControllerEvaluator(POMDP)
CONTROLLER = CONTROLLERS.controller(2)
STARTS = mn.random_starts(CONTROLLER, 0, 2)
NETWORK = mn.mlp(KEY, 2, 1, 4)
PLAIN = mn.Standardized(jnp.zeros(2), jnp.ones(2))
SIMULATOR = mn.FiniteSimulator(MDP, horizon=5)
TABLE = mn.TabularSoftmax(3, 2)


def flat(x):
    return 0.0


def play(**options):
    return SIMULATOR.play(KEY, TABLE, TABLE.initial_parameters(), **{"episodes": 1, **options})


class Endless(CartPole):
    """A compiled simulator that forgot its horizon."""

    @property
    def horizon(self):
        return 0


def maximize(**options):
    return mn.maximize(flat, [0.0, 0.0], **options)


def controllers(**options):
    given = {"evaluator": CONTROLLERS, "policy": CONTROLLER, "starts": STARTS, **options}
    return mn.search_controllers(**given)


def finite(**changes):
    given = {
        "transition": MDP.transition,
        "reward": MDP.reward,
        "start": MDP.start,
        "discount": 0.9,
    }
    return mn.FiniteMDP(**{**given, **changes})


def linear_gaussian(**changes):
    one = manipulator(0, links=1).mdp
    names = ("A", "B", "noise", "start_mean", "start_covariance")
    names += ("reward_map", "reward_target", "reward_covariance")
    given = {name: np.asarray(getattr(one, name)) for name in names}
    return mn.LinearGaussianMDP(**{**given, "horizon": 5, **changes})


# "Call(parameter": the call that is wrong, and what the error must say of rule and value. Words
# after the parameter tell two rows apart.
WRONG = {
    # solvers
    "Dense(ridge": (lambda: mn.Dense(ridge=-1), "at least 0, got -1"),
    "Dense(absolute": (lambda: mn.Dense(absolute="no"), "True or False, got 'no'"),
    "Dense(relative_ridge": (lambda: mn.Dense(relative_ridge=INF), "at least 0, got inf"),
    "Block(ridge": (lambda: mn.Block(-1e-9), "at least 0, got -1e-09"),
    "Block(absolute": (lambda: mn.Block(absolute=1), "True or False, got 1"),
    "Diagonal(ridge": (lambda: mn.Diagonal(ridge=NAN), "at least 0, got nan"),
    "Diagonal(relative_ridge": (lambda: mn.Diagonal(relative_ridge=-1), "at least 0, got -1"),
    "ConjugateGradient(products": (
        lambda: mn.ConjugateGradient(products="exakt"),
        "one of 'exact', 'finite_difference', got 'exakt'",
    ),
    "ConjugateGradient(start": (
        lambda: mn.ConjugateGradient(start="zeros"),
        "one of 'gradient', 'zero', got 'zeros'",
    ),
    "ConjugateGradient(iterations": (
        lambda: mn.ConjugateGradient(iterations=2.5),
        "a whole number of at least 0, got 2.5",
    ),
    "ConjugateGradient(tolerance": (
        lambda: mn.ConjugateGradient(tolerance=-1e-6),
        "at least 0, got -1e-06",
    ),
    "ConjugateGradient(epsilon": (lambda: mn.ConjugateGradient(epsilon=0.0), "above 0, got 0.0"),
    "ConjugateGradient(ridge": (lambda: mn.ConjugateGradient(ridge=-1), "at least 0, got -1"),
    "SteepestDescent(iterations": (
        lambda: mn.SteepestDescent(-1),
        "a whole number of at least 0, got -1",
    ),
    "SteepestDescent(least_squares": (
        lambda: mn.SteepestDescent(least_squares="yes"),
        "True or False, got 'yes'",
    ),
    "SteepestDescent(products": (
        lambda: mn.SteepestDescent(products=None),
        "one of 'exact', 'finite_difference', got None",
    ),
    # step rules
    "Constant(size": (lambda: mn.Constant(-1), "above 0, got -1"),
    "Constant(size word": (lambda: mn.Constant("small"), "above 0, got 'small'"),
    "Decay(initial": (lambda: mn.Decay(0.0), "above 0, got 0.0"),
    "Decay(time": (lambda: mn.Decay(1.0, time=0), "above 0, got 0"),
    "BestOfSet(sizes": (lambda: mn.BestOfSet(()), "a tuple of at least one size, got ()"),
    "BestOfSet(sizes list": (lambda: mn.BestOfSet([1.0]), "needs a tuple"),
    "BestOfSet(sizes entry": (lambda: mn.BestOfSet((1.0, -2.0)), "at least 0, got -2.0"),
    "BestOfSet(stay": (lambda: mn.BestOfSet(stay=2), "True or False, got 2"),
    "KeepIfBetter(rule": (lambda: mn.KeepIfBetter(0.5), "needs a StepRule, got float; pass a rule"),
    "KeepIfBetter(tolerance": (
        lambda: mn.KeepIfBetter(mn.Constant(), -1),
        "at least 0, got -1",
    ),
    "Armijo(initial": (
        lambda: mn.Armijo(initial="thrice"),
        "a number above 0, 'twice' or 'quadratic', got 'thrice'",
    ),
    "Armijo(initial none": (lambda: mn.Armijo(initial=None), "above 0, got None"),
    "Armijo(shrink": (lambda: mn.Armijo(shrink=1.0), "above 0 and below 1, got 1.0"),
    "Armijo(interpolation": (
        lambda: mn.Armijo(interpolation="cubix"),
        "'halving', 'quadratic', 'cubic', 'gradient', got 'cubix'",
    ),
    "Armijo(fraction": (lambda: mn.Armijo(fraction=1.5), "at least 0 and below 1, got 1.5"),
    "Armijo(largest": (lambda: mn.Armijo(largest=0), "above 0, got 0"),
    "Armijo(trials": (lambda: mn.Armijo(trials=0), "a whole number of at least 1, got 0"),
    "Bracketing(initial": (lambda: mn.Bracketing(initial=-1.0), "above 0, got -1.0"),
    "Bracketing(flatness": (lambda: mn.Bracketing(flatness=1), "above 0 and below 1, got 1"),
    "StrongWolfe(initial": (lambda: mn.StrongWolfe(initial=INF), "above 0, got inf"),
    "StrongWolfe(extrapolation": (lambda: mn.StrongWolfe(extrapolation=1), "above 1, got 1"),
    "StrongWolfe(trials": (lambda: mn.StrongWolfe(trials=True), "a whole number"),
    "KLStep(divergence": (lambda: mn.KLStep(-0.1), "above 0, got -0.1"),
    "KLStep(largest": (lambda: mn.KLStep(0.1, 0.0), "above 0, got 0.0"),
    "KLStep(tolerance": (lambda: mn.KLStep(tolerance=0), "above 0, got 0"),
    "KLStep(trials": (lambda: mn.KLStep(trials=0), "at least 1, got 0"),
    "SurrogateBacktracking(rule": (lambda: mn.SurrogateBacktracking(0.1), "needs a StepRule"),
    "SurrogateBacktracking(shrink": (
        lambda: mn.SurrogateBacktracking(shrink=2),
        "above 0 and below 1, got 2",
    ),
    # methods
    "Compatible(ridge": (lambda: mn.Compatible(-0.3), "at least 0, got -0.3"),
    "ExpectationMaximization(closed_form": (
        lambda: mn.ExpectationMaximization("numeric"),
        "True or False, got 'numeric'",
    ),
    "ExpectationMaximization(tolerance": (
        lambda: mn.ExpectationMaximization(tolerance=-1),
        "at least 0, got -1",
    ),
    "ExpectationMaximization(iterations": (
        lambda: mn.ExpectationMaximization(iterations=0),
        "a whole number of at least 1, got 0",
    ),
    "Guarded(method": (lambda: Guarded("natural"), "needs a Method, got str"),
    "Guarded(size": (lambda: Guarded(BlockwiseMaximization(), 0.0), "above 0, got 0.0"),
    # presets and training
    "Preset(episodes": (lambda: mn.Preset(episodes=-1), "a whole number of at least 1, got -1"),
    "Preset(discount": (lambda: mn.Preset(discount=2), "at least 0 and at most 1, got 2"),
    "Preset(least_transitions": (lambda: mn.Preset(least_transitions=1e3), "got 1000.0"),
    "Preset(exploration": (lambda: mn.Preset(exploration=0.05), "above 0.05, got 0.05"),
    "Preset(features": (lambda: mn.Preset(features=0), "at least 1, got 0"),
    "Preset(width": (lambda: mn.Preset(width=-0.3), "above 0, got -0.3"),
    "Preset(floor": (lambda: mn.Preset(floor=-0.1), "at least 0, got -0.1"),
    "Preset(patience": (lambda: mn.Preset(patience=1.5), "at most 1, got 1.5"),
    "Preset(limit": (lambda: mn.Preset(limit=0), "above 0, got 0"),
    "Exploring(method": (lambda: Exploring("natural"), "needs a Method, got str"),
    "Exploring(share": (lambda: Exploring(mn.Steepest(), -0.1), "at least 0"),
    "Exploring(nothing": (lambda: Exploring(mn.Steepest(), nothing=math.nan), "finite"),
    "TrustedStep(divergence": (lambda: mn.TrustedStep(0.0), "above 0, got 0.0"),
    "TrustedStep(least": (lambda: mn.TrustedStep(0.05, least=0.1), "at most 0.05, got 0.1"),
    "TrustedStep(most": (lambda: mn.TrustedStep(0.05, most=0.01), "at least 0.05, got 0.01"),
    "TrustedStep(shorten": (lambda: mn.TrustedStep(shorten=1.5), "at most 1, got 1.5"),
    "TrustedStep(fading": (lambda: mn.TrustedStep(fading=0), "above 0, got 0"),
    "TrustedStep(lengthen": (lambda: mn.TrustedStep(lengthen=0.5), "at least 1, got 0.5"),
    "Gaussian(floor": (lambda: mn.Gaussian(1, 1, floor=-1.0), "at least 0, got -1.0"),
    "NetworkGaussian(sigma floor": (
        lambda: mn.NetworkGaussian(mn.mlp(jax.random.key(0), 1, 1), [0.1], floor=0.1),
        "must be above `floor=0.1`, got 0.1",
    ),
    "Block(relative_ridge": (lambda: mn.Block(relative_ridge=-1.0), "at least 0, got -1.0"),
    "LinearCritic(anchored": (
        lambda: mn.LinearCritic(mn.OneHot(2), anchored=True),
        "needs features that can be, as `RandomFourier`",
    ),
    "Preset(trace": (lambda: mn.Preset(trace=1.1), "at most 1, got 1.1"),
    "Preset(ratio_limit": (lambda: mn.Preset(ratio_limit=0.5), "at least 1, got 0.5"),
    "Preset(divergence": (lambda: mn.Preset(divergence=NAN), "above 0, got nan"),
    "Preset(remembered": (lambda: mn.Preset(remembered=0), "at least 1, got 0"),
    "train(environment": (lambda: mn.train(None), "got None; pass a Gymnasium id"),
    "maximize(function": (lambda: mn.maximize(1.0, [0.0]), "needs a Callable, got float"),
    "maximize(start": (lambda: mn.maximize(flat, [[0.0]]), "1 axis (k,), not empty"),
    "maximize(start NaN": (lambda: mn.maximize(flat, [NAN]), "entry (0,) is nan"),
    "maximize(sigma": (lambda: maximize(sigma=-1.0), "positive, but its least entry is -1"),
    "maximize(sigma shape": (lambda: maximize(sigma=[1.0] * 3), "shape (2,) like `start`"),
    "maximize(method": (lambda: maximize(method="newton"), "one of 'second_gauss_newton'"),
    "maximize(step": (lambda: maximize(step=0.0), "above 0, got 0.0"),
    "maximize(budget": (lambda: maximize(budget=10), "one batch and the last mean, 16, got 10"),
    "maximize(samples": (lambda: maximize(samples=0), "at least 1, got 0"),
    "maximize(reuse": (lambda: maximize(reuse=0), "at least 1, got 0"),
    "maximize(weighting": (lambda: maximize(weighting="none"), "'pooled', 'importance', got"),
    "maximize(seed": (lambda: maximize(seed=-1), "at least 0, got -1"),
    "maximize(batched": (lambda: maximize(batched="yes"), "True or False, got 'yes'"),
    "minimize(tolerance": (lambda: mn.minimize(flat, [0.0], tolerance=-1), "at least 0, got -1"),
    "minimize(sigma": (lambda: mn.minimize(flat, [0.0], sigma=0.0), "positive"),
    "search_controllers(evaluator": (
        lambda: controllers(evaluator=POMDP),
        "needs a ControllerEvaluator, got FinitePOMDP",
    ),
    "search_controllers(policy": (lambda: controllers(policy=TABLE), "got TabularSoftmax"),
    "search_controllers(starts": (
        lambda: controllers(starts=CONTROLLER.initial_parameters()),
        "a leading axis, got",
    ),
    "search_controllers(iterations": (lambda: controllers(iterations=0), "at least 1, got 0"),
    "search_controllers(iterations one by one": (
        lambda: controllers(method="newton", iterations=0),
        "at least 1, got 0",
    ),
    "search_controllers(margin": (lambda: controllers(margin=-0.5), "at least 0, got -0.5"),
    "search_controllers(learning_rate": (lambda: controllers(learning_rate=0), "above 0, got 0"),
    "random_starts(starts": (lambda: mn.random_starts(CONTROLLER, 0, 0), "at least 1, got 0"),
    # policies
    "Gibbs(features": (lambda: mn.Gibbs(np.ones((2, 3))), "3 axes (states, actions, n)"),
    "Gibbs(features words": (lambda: mn.Gibbs("phi"), "an array of numbers"),
    "Gibbs(n_features": (lambda: mn.Gibbs(jnp.cos), "is needed with a function"),
    "Gibbs(n_features none": (lambda: mn.Gibbs(jnp.cos, 0), "at least 1, got 0"),
    "Gibbs(n_features other": (lambda: mn.Gibbs(np.ones((2, 2, 3)), 4), "must be 3"),
    "TabularSoftmax(n_states": (lambda: mn.TabularSoftmax(0, 2), "at least 1, got 0"),
    "TabularSoftmax(n_actions": (
        lambda: mn.TabularSoftmax(3, 1, reduced=True),
        "at least 2 with `reduced=True`",
    ),
    "TabularSoftmax(reduced": (lambda: mn.TabularSoftmax(3, 2, "yes"), "True or False"),
    "gibbs_over_successors(state_features": (
        lambda: mn.gibbs_over_successors(MDP, np.eye(4)),
        "needs shape (3, n), one row per state, got (4, 4)",
    ),
    "LinearGaussian(covariance": (lambda: mn.LinearGaussian(-1.0, 2), "positive definite"),
    "LinearGaussian(covariance flat": (lambda: mn.LinearGaussian([1, 2], 2), "not symmetric"),
    "LinearGaussian(covariance NaN": (lambda: mn.LinearGaussian(NAN, 2), "is nan"),
    "LinearGaussian(n_features": (lambda: mn.LinearGaussian(1.0, 0), "at least 1, got 0"),
    "LinearGaussian(features": (lambda: mn.LinearGaussian(1.0, 2, np.eye(2)), "pass a function"),
    "Gaussian(n_actions": (lambda: mn.Gaussian(0, 2), "at least 1, got 0"),
    "Gaussian(n_features": (lambda: mn.Gaussian(1, 2.0), "a whole number"),
    "Gaussian(scale": (lambda: mn.Gaussian(1, 2, scale="wide"), "one of 'log_sigma'"),
    "AffineGaussian(n_states": (lambda: mn.AffineGaussian(1, -2), "at least 1, got -2"),
    "AffineGaussian(scale": (lambda: mn.AffineGaussian(1, 2, "wide"), "got 'wide'"),
    "AffineGaussian.parameters(sigma": (
        lambda: mn.AffineGaussian(1, 1).parameters([[0.0]], [0.0], NAN),
        "above 0, got nan",
    ),
    "DiagonalGaussian(size": (lambda: mn.DiagonalGaussian(1.5), "a whole number"),
    "NoisyGain(n_actions": (lambda: mn.NoisyGain(0, 2, 1.0), "at least 1, got 0"),
    "NoisyGain(sigma": (lambda: mn.NoisyGain(1, 2, "wide"), "above 0, got 'wide'"),
    "LinearSoftmax(n_actions": (lambda: mn.LinearSoftmax(0, 2, jnp.cos), "at least 1, got 0"),
    "Product(policy": (lambda: mn.Product(None, (2, 3)), "pass a policy with logits"),
    "Product(sizes": (lambda: mn.Product(mn.LinearSoftmax(2, 2, jnp.cos), ()), "not be empty"),
    "LinearSoftmax(features": (lambda: mn.LinearSoftmax(2, 2, None), "pass a function"),
    "FiniteStateController(nodes": (
        lambda: mn.FiniteStateController(1.0, 2, 2),
        "a whole number of at least 1, got 1.0",
    ),
    "mlp(in_size": (lambda: mn.mlp(KEY, 0, 1), "at least 1, got 0"),
    "mlp(depth": (lambda: mn.mlp(KEY, 1, 1, depth=-1), "at least 0, got -1"),
    "mlp(activation": (lambda: mn.mlp(KEY, 1, 1, activation="tanh"), "got str; pass a function"),
    "NetworkCategorical(network": (lambda: mn.NetworkCategorical(jnp.tanh), "`mlp(key"),
    "NetworkCategorical(features": (lambda: mn.NetworkCategorical(NETWORK, 3), "pass a function"),
    "NetworkGaussian(sigma": (lambda: mn.NetworkGaussian(NETWORK, 1.0), "pass `[sigma]`"),
    "NetworkGaussian(sigma zero": (lambda: mn.NetworkGaussian(NETWORK, [0.0]), "positive"),
    "NetworkGaussian(learn_sigma": (
        lambda: mn.NetworkGaussian(NETWORK, [1.0], "no"),
        "True or False, got 'no'",
    ),
    "Squashed(policy": (lambda: mn.Squashed(None), "needs a Policy"),
    "Reparametrized(policy": (lambda: mn.Reparametrized(MDP, np.eye(3)), "needs a Policy"),
    "Reparametrized(matrix": (
        lambda: mn.Reparametrized(TABLE, np.ones((6, 6))),
        "non-singular, got rank 1 of 6",
    ),
    "Reparametrized(offset": (
        lambda: mn.Reparametrized(TABLE, np.eye(6), np.zeros(5)),
        "needs shape (6,) for a policy with 6 parameters, got (5,)",
    ),
    # features
    "Standardized(mean": (lambda: mn.Standardized([0.0], jnp.ones(1)), "1 axis, got list"),
    "Standardized(scale": (lambda: mn.Standardized(jnp.zeros(1), jnp.zeros(1)), "positive"),
    "Standardized(scale shape": (
        lambda: mn.Standardized(jnp.zeros(1), jnp.ones(2)),
        "shape (1,) like `mean`, got (2,)",
    ),
    "Standardized(limit": (
        lambda: mn.Standardized(jnp.zeros(1), jnp.ones(1), -1.0),
        "above 0, got -1.0",
    ),
    "Standardized.of(observations": (lambda: mn.Standardized.of(np.ones(3)), "2 axes (n, d)"),
    "RandomFourier(standardized": (
        lambda: mn.RandomFourier(None, jnp.ones((3, 2)), jnp.ones(3)),
        "needs a Standardized, got NoneType",
    ),
    "RandomFourier(frequencies": (
        lambda: mn.RandomFourier(PLAIN, jnp.ones((2, 3)), jnp.ones(3)),
        "needs shape (3, 2)",
    ),
    "RandomFourier.drawn(number": (
        lambda: mn.RandomFourier.drawn(KEY, PLAIN, 0, 1.0),
        "at least 1, got 0",
    ),
    "RandomFourier.drawn(width": (
        lambda: mn.RandomFourier.drawn(KEY, PLAIN, 5, 0.0),
        "above 0, got 0.0",
    ),
    "RadialBasis(centers": (lambda: mn.RadialBasis(jnp.ones(2), jnp.ones(2)), "2 axes"),
    "RadialBasis(precision": (
        lambda: mn.RadialBasis(jnp.ones((3, 2)), -jnp.ones(2)),
        "not be negative, got -1",
    ),
    "OneHot(size": (lambda: mn.OneHot(0), "at least 1, got 0"),
    # simulators
    "FiniteSimulator(horizon": (lambda: mn.FiniteSimulator(MDP, 0), "at least 1, got 0"),
    "FiniteSimulator(mdp": (lambda: mn.FiniteSimulator(POMDP, 5), "needs a FiniteMDP"),
    "FiniteSimulator.play(episodes": (lambda: play(episodes=0), "at least 1, got 0"),
    "FiniteSimulator.play(horizon": (lambda: play(horizon=0), "at least 1, got 0"),
    "FiniteSimulator.play(first": (lambda: play(first=-1), "at least 0, got -1"),
    "Endless(horizon": (Endless, "a whole number of at least 1, got 0"),
    "UnitActions(simulator": (lambda: UnitActions("cartpole"), "a CompiledSimulator, got str"),
    "GymnasiumSimulator(make": (lambda: mn.GymnasiumSimulator(None), "pass an id"),
    "GymnasiumSimulator(copies": (
        lambda: mn.GymnasiumSimulator("CartPole-v1", copies=0),
        "at least 1, got 0",
    ),
    "GymnasiumSimulator(horizon": (
        lambda: mn.GymnasiumSimulator("CartPole-v1", horizon=0),
        "at least 1, got 0",
    ),
    "Spaces(observation": (lambda: Spaces(-1, 2), "at least 0, got -1"),
    "Spaces(actions": (lambda: Spaces(2), "must be given, or `low` and `high`"),
    "Spaces(choices": (lambda: Spaces(2, choices=(2, 0)), "at least 1, got 0"),
    "Spaces(still": (
        lambda: Spaces(2, None, -np.ones(1), np.ones(1), still=np.zeros(2)),
        "shape (1,)",
    ),
    "Spaces(low": (lambda: Spaces(2, low=np.ones(1), high=np.zeros(1)), "not exceed `high`"),
    # models
    "FiniteMDP(discount": (lambda: finite(discount="0.9"), "at least 0 and below 1, got '0.9'"),
    "FiniteMDP(linear_solver": (lambda: finite(linear_solver="lu"), "one of 'auto', 'direct'"),
    "FiniteMDP(start": (lambda: finite(start=[1.0, 0.0]), "(S,) = (3,) to match `reward`"),
    "LinearGaussianMDP(horizon": (lambda: linear_gaussian(horizon=5.0), "a whole number"),
    "LinearGaussianMDP(at_end": (lambda: linear_gaussian(at_end=1), "True or False, got 1"),
    "LinearGaussianMDP(discount": (lambda: linear_gaussian(discount=0), "above 0"),
    "LinearGaussianMDP(reward_map": (lambda: linear_gaussian(reward_map=[[1], [2, 3]]), "numbers"),
    "FinitePOMDP(rescaled_rows": (
        lambda: dataclasses.replace(POMDP, rescaled_rows=-1),
        "at least 0, got -1",
    ),
    "FinitePOMDP(outcome_reward": (
        lambda: dataclasses.replace(POMDP, outcome_reward=[1.0]),
        "needs an OutcomeReward, got list",
    ),
    "product_mdp(nodes": (lambda: mn.product_mdp(POMDP, 0), "at least 1, got 0"),
    "optimal_value(limit": (lambda: optimal_value(POMDP, 0), "at least 1, got 0"),
    # domains
    "garnet(seed": (lambda: mn.garnet(0.5), "a whole number of at least 0, got 0.5"),
    "garnet(n_states": (lambda: mn.garnet(0, 0), "at least 1, got 0"),
    "garnet(branching": (lambda: mn.garnet(0, 4, branching=5), "at most 4, got 5"),
    "garnet(discount": (lambda: mn.garnet(0, discount=1), "below 1, got 1"),
    "manipulator(links": (lambda: manipulator(0, links=0), "at least 1, got 0"),
    "manipulator(horizon": (lambda: manipulator(0, horizon=-1), "at least 1, got -1"),
    "manipulator(dt": (lambda: manipulator(0, dt=0.0), "above 0, got 0.0"),
    "load_unload(n_locations": (lambda: load_unload(n_locations=1), "at least 2, got 1"),
    "Maze.policy(features": (lambda: HALLWAY.policy(0.9, "walls"), "'successor', 'current'"),
    "start_parameters(move_first": (lambda: start_parameters(0.5), "below 0.25"),
    "Arm(masses": (lambda: Arm([1.0], [0.0], [0.5], [0.1]), "positive"),
    "Arm(gravity": (lambda: Arm([1.0], [1.0], [0.5], [0.1], "down"), "got 'down'"),
    "Arm.uniform(links": (lambda: Arm.uniform(2.5), "a whole number"),
    "simulate(dt": (
        lambda: simulate(Arm.uniform(1), lambda t, s: s[:1], [0.0], [0.0], -0.1, 3),
        "above 0, got -0.1",
    ),
    "Schedule(games": (lambda: Schedule(games=0), "at least 1, got 0"),
    "Schedule(least_games": (lambda: Schedule(least_games=0), "at least 1, got 0"),
    "Schedule(divergence": (lambda: Schedule(divergence=0), "above 0, got 0"),
    "Schedule(damping": (lambda: Schedule(damping=-1), "at least 0, got -1"),
    "Schedule(averaged": (lambda: Schedule(averaged=2), "at most 1, got 2"),
    "Schedule(lower": (lambda: Schedule(lower=(0.6, 0.6)), "a sum below 1, got (0.6, 0.6)"),
    "AfterstatePolicy(features": (lambda: AfterstatePolicy("ib"), "one of 'bi', 'dt', got 'ib'"),
    "AfterstatePolicy(height": (
        lambda: AfterstatePolicy(height=1),
        "at least 2 and at most 32, got 1",
    ),
    "AfterstatePolicy(width": (lambda: AfterstatePolicy(width=17), "at most 16, got 17"),
    # functions that look
    "check_policy(points": (
        lambda: mn.check_policy(TABLE, jnp.zeros((3, 2)), jnp.arange(2), points=0),
        "at least 1, got 0",
    ),
}


def test_there_are_enough_of_them():
    assert len(WRONG) >= 60


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_construction_is_refused_in_one_line(name):
    build, rule = WRONG[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the text is compared below
        build()
    text = str(caught.value)
    assert text.startswith(f"`{name.split(' ')[0]}=...)` ")
    assert rule in text
    assert text.endswith(".")
    assert "\n" not in text


PUBLIC = [getattr(mn, name) for name in mn.__all__]
CHECKED = [
    each
    for each in PUBLIC
    if isinstance(each, type)
    and issubclass(each, Solver | mn.StepRule)
    and not inspect.isabstract(each)
]
REQUIRED = {mn.KLSchedule: {"done": lambda iteration: 0.0}}
FIELDS = [(each, field.name) for each in CHECKED for field in dataclasses.fields(each)]


@pytest.mark.parametrize(("kind", "name"), FIELDS, ids=lambda part: getattr(part, "__name__", part))
def test_every_field_of_a_solver_or_step_rule_is_checked(kind, name):
    needed = REQUIRED.get(kind, {})
    for wrong in (NAN, "a lot", None, np.ones(2)):
        with pytest.raises(ValueError, match=rf"^`{kind.__name__}\({name}=\.\.\.\)` "):
            kind(**{**needed, name: wrong})
        with pytest.raises(ValueError, match=rf"^`{kind.__name__}\({name}=\.\.\.\)` "):
            dataclasses.replace(kind(**needed), **{name: wrong})


def test_all_solvers_and_step_rules_are_among_them():
    names = {each.__name__ for each in CHECKED}
    assert {"Dense", "Block", "Diagonal", "ConjugateGradient", "SteepestDescent"} <= names
    assert {"Constant", "Decay", "BestOfSet", "KeepIfBetter", "Armijo", "Bracketing"} <= names
    assert {"StrongWolfe", "KLStep", "SurrogateBacktracking"} <= names


def test_the_bounds_themselves_are_allowed():
    mn.Dense(ridge=0, relative_ridge=0)
    mn.ConjugateGradient(iterations=0, tolerance=0.0)
    mn.BestOfSet((1,))
    mn.Armijo(initial="quadratic", fraction=0, largest=INF, trials=1)
    mn.KeepIfBetter(tolerance=INF)
    mn.Preset(discount=1, trace=0, ratio_limit=INF, least_transitions=0, tolerance=0)
    mn.TabularSoftmax(1, 1)
    mn.TabularSoftmax(1, 2, reduced=True)
    mn.garnet(0, 3, branching=3, discount=0)
    mn.mlp(KEY, 1, 1, 1, 0)
    mn.Standardized(jnp.zeros(1), jnp.ones(1), INF)
    linear_gaussian(horizon=1, discount=1)


def test_numbers_of_numpy_and_jax_are_numbers():
    assert mn.Constant(np.float32(0.5)).size == 0.5
    assert mn.Constant(jnp.array(2.0)).size == 2.0
    assert mn.Armijo(initial=np.int64(3), trials=np.int64(2)).trials == 2


def test_what_is_traced_is_let_through():
    """Nothing is known of it yet, and a look would end the trace."""
    ridges = jax.vmap(lambda ridge: mn.Dense(ridge=ridge).ridge)(jnp.array([0.5, -1.0]))
    assert ridges.tolist() == [0.5, -1.0]
    assert float(jax.grad(lambda size: mn.Constant(size).size ** 2)(3.0)) == 6.0

    @jax.jit
    def log_prob(sigma, mean, scale):
        state, action = jnp.array([1.0, 2.0]), jnp.zeros(1)
        seen = mn.Standardized(mean, scale)(state)
        waves = mn.RandomFourier(mn.Standardized(mean, scale), jnp.outer(mean, mean), scale)
        basis = mn.RadialBasis(jnp.outer(mean, mean), scale)
        total = seen.sum() + waves(state).sum() + basis(state).sum()
        return total + mn.NoisyGain(1, 2, sigma).log_prob(jnp.ones((1, 2)), state, action)

    assert np.isfinite(log_prob(0.5, jnp.zeros(2), jnp.ones(2)))
    with pytest.raises(ValueError, match=r"Standardized\(scale=...\)` needs shape \(2,\)"):
        log_prob(0.5, jnp.zeros(2), jnp.ones(3))


def test_what_is_rebuilt_from_its_leaves_is_not_checked_again():
    """Transformations put all sorts of things in the place of leaves."""
    nothing = jax.tree.map(lambda leaf: 0 * leaf, PLAIN)
    assert not nothing.scale.any()
    assert jax.tree.map(lambda leaf: None, PLAIN).scale is None
    moved = eqx.tree_at(lambda tree: tree.scale, PLAIN, -PLAIN.scale)
    assert (moved.scale == -1).all()
    assert eqx.filter_jit(lambda rule: rule.size)(mn.Constant(0.5)) == 0.5
    shapes = eqx.filter_eval_shape(mn.Standardized, jnp.zeros(2), jnp.ones(2))
    assert shapes.scale.shape == (2,)


def test_what_came_is_told_in_one_short_line():
    with pytest.raises(ValueError, match=r"got array\(\[\[1\., 1\.\], \[1\., 1\.\]\]\)\.$"):
        mn.Dense(ridge=np.ones((2, 2)))
    with pytest.raises(ValueError) as caught:  # noqa: PT011  its length is the matter
        mn.Dense(ridge="x" * 10_000)
    assert len(str(caught.value)) < 200
