"""Sampled evaluators against exact values, on a small finite MDP."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, random_mdp

import mdpnewton as mn
from mdpnewton.evaluators import (
    ActorCritic,
    CompatibleCritic,
    FiniteEvaluator,
    LinearCritic,
    MonteCarlo,
)
from mdpnewton.policies.features import OneHot
from mdpnewton.simulators import FiniteSimulator

DISCOUNT = 0.7
MDP = random_mdp(3, n_states=3, n_actions=2, discount=DISCOUNT)
POLICY, _, W = gibbs(3, MDP, n=2)
W = jnp.asarray(W)
SIMULATOR = FiniteSimulator(MDP, horizon=32)  # 0.7^32 = 1e-5
TABLE = OneHot(MDP.n_states)
REPEATS = 24


def quantities(pairs, forms):
    found = {"gradient": mn.gradient(POLICY, W, pairs), "objective": pairs.objective}
    for form in forms:
        found[form] = mn.curvature(POLICY, W, pairs, form).dense()
    return {name: np.ravel(np.asarray(value)) for name, value in found.items()}


FORMS = ("H2", "fisher", "fisher_score", "A1", "V2")
EXACT = quantities(FiniteEvaluator(MDP).evaluate(None, POLICY, W), FORMS)


def mean_and_error(build, forms=FORMS, earlier=0, repeats=REPEATS):
    samples = {}
    for repeat in range(repeats):
        evaluator, key = build(), jax.random.key(1000 + repeat)
        for n in range(earlier):  # batches of nearby policies, to be used again
            evaluator.evaluate(jax.random.fold_in(key, n), POLICY, W + 0.2 * (-1) ** n)
        pairs = evaluator.evaluate(jax.random.fold_in(key, 99), POLICY, W)
        for name, value in quantities(pairs, forms).items():
            samples.setdefault(name, []).append(value)
    stacked = {name: np.array(rows) for name, rows in samples.items()}
    return {n: (s.mean(0), s.std(0, ddof=1) / len(s) ** 0.5) for n, s in stacked.items()}


def check(found, names):
    for name in names:
        mean, error = found[name]
        allowed = 4 * error + 2e-4 * np.abs(EXACT[name]).max()  # the horizon's tail
        worst = np.max(np.abs(mean - EXACT[name]) / allowed)
        assert worst <= 1, (name, mean, EXACT[name], error)


@pytest.mark.parametrize("baseline", ["none", "constant", "time", "state", "optimal"])
@pytest.mark.parametrize("earlier", [0, 2])
def test_monte_carlo_agrees_with_exact_values(baseline, earlier):
    def build():
        return MonteCarlo(
            SIMULATOR,
            DISCOUNT,
            episodes=200,
            baseline=baseline,
            features=TABLE,
            reuse=earlier + 1,
        )

    check(mean_and_error(build, earlier=earlier), ("gradient", "objective", *FORMS))


@pytest.mark.parametrize("trace", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("earlier", [0, 2])
def test_value_actor_critic_agrees_with_exact_values(trace, earlier):
    def build():
        critic = LinearCritic(TABLE, trace=trace, ridge=0.0)
        return ActorCritic(
            SIMULATOR,
            critic,
            DISCOUNT,
            episodes=200,
            trace=trace,
            reuse=earlier + 1,
            unbiased_reuse=True,
        )

    check(mean_and_error(build, earlier=earlier), ("gradient", "objective", *FORMS))


def test_compatible_critic_agrees_with_exact_values():
    for weight, forms in (("monte_carlo", ("H2", "fisher")), ("critic", ("fisher", "A1"))):

        def build(weight=weight):
            return CompatibleCritic(SIMULATOR, DISCOUNT, episodes=200, value_weight=weight)

        # theta' grad log pi is the advantage's projection: its A1 is not that of the advantage,
        # unless the features are as rich as a table, see the next test.
        names = ("gradient", "objective", *(f for f in forms if f != "A1"))
        check(mean_and_error(build, forms), names)
