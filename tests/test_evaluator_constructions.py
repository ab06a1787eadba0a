"""Wrong constructions of evaluators and critics get one line that names the call."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from problems import random_mdp

import mdpnewton as mn
from mdpnewton.evaluators.memory import Memory
from mdpnewton.policies.features import OneHot

MDP = random_mdp(3, n_states=3, n_actions=2)
SIMULATOR = mn.FiniteSimulator(MDP, horizon=5)
TABLE = OneHot(3)
CRITIC = mn.LinearCritic(TABLE)


def function(points):
    return points.sum(axis=1)


def visited(state):
    return state == 0


def network(features):
    return features[:1]


WRONG = {
    "MonteCarlo(simulator": lambda: mn.MonteCarlo("CartPole-v1", 0.9),
    "MonteCarlo(discount": lambda: mn.MonteCarlo(SIMULATOR, 1.5),
    "MonteCarlo(discount NaN": lambda: mn.MonteCarlo(SIMULATOR, math.nan),
    "MonteCarlo(episodes": lambda: mn.MonteCarlo(SIMULATOR, 0.9, episodes=0),
    "MonteCarlo(episodes half": lambda: mn.MonteCarlo(SIMULATOR, 0.9, episodes=2.5),
    "MonteCarlo(reuse": lambda: mn.MonteCarlo(SIMULATOR, 0.9, reuse=0),
    "MonteCarlo(baseline": lambda: mn.MonteCarlo(SIMULATOR, 0.9, baseline="mean"),
    "MonteCarlo(baseline alone": lambda: mn.MonteCarlo(SIMULATOR, 0.9, baseline="state"),
    "MonteCarlo(features": lambda: mn.MonteCarlo(SIMULATOR, 0.9, features=np.eye(3)),
    "ActorCritic(simulator": lambda: mn.ActorCritic(MDP, CRITIC, 0.9),
    "ActorCritic(critic": lambda: mn.ActorCritic(SIMULATOR, TABLE, 0.9),
    "ActorCritic(discount": lambda: mn.ActorCritic(SIMULATOR, CRITIC, -0.1),
    "ActorCritic(trace": lambda: mn.ActorCritic(SIMULATOR, CRITIC, 0.9, trace=math.nan),
    "ActorCritic(ratio_limit": lambda: mn.ActorCritic(SIMULATOR, CRITIC, 0.9, ratio_limit=0.5),
    "ActorCritic(least_transitions": lambda: mn.ActorCritic(
        SIMULATOR, CRITIC, 0.9, least_transitions=-1
    ),
    "ActorCritic(episodes": lambda: mn.ActorCritic(SIMULATOR, CRITIC, 0.9, episodes=True),
    "ActorCritic(reuse": lambda: mn.ActorCritic(SIMULATOR, CRITIC, 0.9, reuse="two"),
    "CompatibleCritic(discount": lambda: mn.CompatibleCritic(SIMULATOR, 2.0),
    "CompatibleCritic(episodes": lambda: mn.CompatibleCritic(SIMULATOR, 0.9, episodes=3),
    "CompatibleCritic(value_weight": lambda: mn.CompatibleCritic(
        SIMULATOR, 0.9, value_weight="none"
    ),
    "CompatibleCritic(ridges": lambda: mn.CompatibleCritic(SIMULATOR, 0.9, ridges=()),
    "CompatibleCritic(ridges below": lambda: mn.CompatibleCritic(SIMULATOR, 0.9, ridges=(1, -1)),
    "RecurrentState(recurrent": lambda: mn.RecurrentState(SIMULATOR, 0),
    "RecurrentState(objective": lambda: mn.RecurrentState(SIMULATOR, visited, objective="sum"),
    "RecurrentState(episodes": lambda: mn.RecurrentState(SIMULATOR, visited, episodes=0),
    "RecurrentState(simulator": lambda: mn.RecurrentState(None, visited),
    "Bandit(function": lambda: mn.Bandit(3.0),
    "Bandit(samples": lambda: mn.Bandit(function, samples=0),
    "Bandit(reuse": lambda: mn.Bandit(function, reuse=1.5),
    "Bandit(weighting": lambda: mn.Bandit(function, weighting="none"),
    "Bandit(ratio_limit": lambda: mn.Bandit(function, ratio_limit=math.nan),
    "Bandit(shaping": lambda: mn.Bandit(function, shaping="ranks"),
    "Shaped(evaluator": lambda: mn.Shaped(SIMULATOR),
    "Shaped(shaping": lambda: mn.Shaped(mn.FiniteEvaluator(MDP), None),
    "FiniteEvaluator(mdp": lambda: mn.FiniteEvaluator(SIMULATOR),
    "QuadraticEvaluator(mdp": lambda: mn.QuadraticEvaluator(MDP),
    "LinearGaussianEvaluator(mdp": lambda: mn.LinearGaussianEvaluator(MDP),
    "ControllerEvaluator(pomdp": lambda: mn.ControllerEvaluator(MDP),
    "LinearCritic(features": lambda: mn.LinearCritic(np.eye(3)),
    "LinearCritic(size": lambda: mn.LinearCritic(visited),
    "LinearCritic(size none": lambda: mn.LinearCritic(visited, 0),
    "LinearCritic(trace": lambda: mn.LinearCritic(TABLE, trace=-1.0),
    "LinearCritic(ridge": lambda: mn.LinearCritic(TABLE, ridge=math.inf),
    "LinearCritic(parameters": lambda: mn.LinearCritic(TABLE, parameters=jnp.zeros(2)),
    "NetworkCritic(network": lambda: mn.NetworkCritic(None, TABLE),
    "NetworkCritic(features": lambda: mn.NetworkCritic(network, None),
    "NetworkCritic(trace": lambda: mn.NetworkCritic(network, TABLE, trace=1.1),
    "NetworkCritic(rate": lambda: mn.NetworkCritic(network, TABLE, rate=0.0),
    "NetworkCritic(steps": lambda: mn.NetworkCritic(network, TABLE, steps=0),
    "NetworkCritic(rows": lambda: mn.NetworkCritic(network, TABLE, rows=0),
    "Rivals(critics": lambda: mn.Rivals(CRITIC),
    "Rivals(critics none": lambda: mn.Rivals(CRITIC, None),
    "Rivals(old": lambda: mn.Rivals(CRITIC, CRITIC, old=1.0),
    "Memory(episodes": lambda: Memory(SIMULATOR, 0),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_construction_is_refused_in_one_line(name):
    argument = name.split(" ")[0]
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the text is compared below
        WRONG[name]()
    text = str(caught.value)
    assert text.startswith(f"`{argument}=...)` ")
    assert "got" in text or "pass" in text or "given" in text
    assert "\n" not in text


def test_the_bounds_themselves_are_allowed():
    mn.MonteCarlo(SIMULATOR, 0, episodes=1)
    mn.ActorCritic(SIMULATOR, CRITIC, 1, trace=0, ratio_limit=math.inf, least_transitions=0)
    mn.CompatibleCritic(SIMULATOR, 1.0, episodes=4, ridges=(0.0,))
    mn.Bandit(function, samples=1, reuse=1, ratio_limit=math.inf, shaping=None)
    mn.LinearCritic(visited, size=1, trace=1, ridge=0)
