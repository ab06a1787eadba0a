"""Algorithm 2 against exact average rewards and exact cycles of a small finite MDP."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import gibbs, random_mdp

import mdpnewton as mn
from mdpnewton.evaluators import RecurrentState

MDP = random_mdp(11, n_states=4, n_actions=2)
POLICY, _, W = gibbs(11, MDP, n=2)
W = jnp.asarray(W)
SIMULATOR = mn.FiniteSimulator(MDP, horizon=400)
REPEATS = 24


def at_zero(state):
    return state == 0


def exact(w, objective):
    """Objective, visits per unit and values of all pairs, by linear algebra."""
    states, actions = jnp.arange(4), jnp.broadcast_to(jnp.arange(2), (4, 2))
    pi = np.exp(np.asarray(POLICY.log_probs(w, states, actions)))
    P = np.einsum("sa,sat->st", pi, MDP.transition)
    r = (pi * MDP.reward).sum(axis=1)
    away = P.copy()
    away[:, 0] = 0  # killed on return
    visits = np.linalg.solve(np.eye(4) - away.T, np.eye(4)[0])  # of one cycle
    mean = visits @ r if objective == "cycle" else visits @ r / visits.sum()
    taken = 0.0 if objective == "cycle" else mean
    h = np.linalg.solve(np.eye(4) - away, r - taken)
    Q = MDP.reward - taken + np.einsum("sat,t->sa", MDP.transition, np.where(states > 0, h, 0))
    scale = 1.0 if objective == "cycle" else visits.sum()
    return mean, visits[:, None] * pi / scale, Q


def exact_pairs(w, objective, include):
    mean, occupancy, Q = exact(w, objective)
    if not include:
        occupancy = occupancy * (np.arange(4) > 0)[:, None]
    return mn.WeightedPairs(
        states=jnp.arange(4),
        actions=jnp.broadcast_to(jnp.arange(2), (4, 2)),
        occupancy=jnp.asarray(occupancy),
        value=jnp.asarray(occupancy * Q),
        advantage=jnp.asarray(occupancy * Q),
        objective=mean,
        complete=True,
    )


def quantities(pairs):
    H2 = mn.curvature(POLICY, W, pairs, "H2").dense().ravel()
    fisher = mn.curvature(POLICY, W, pairs, "fisher").dense().ravel()
    return np.concatenate([[pairs.objective], mn.gradient(POLICY, W, pairs), H2, fisher])


@pytest.mark.parametrize("objective", ["average", "cycle"])
def test_the_exact_gradient_is_that_of_the_objective(objective):
    slope = mn.gradient(POLICY, W, exact_pairs(W, objective, True))
    for n, e in enumerate(1e-5 * np.eye(2)):
        rise = (exact(W + e, objective)[0] - exact(W - e, objective)[0]) / 2e-5
        assert slope[n] == pytest.approx(rise, rel=1e-6)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("objective", ["average", "cycle"])
def test_estimates_agree_with_exact_values(objective, include):
    samples, errors = [], []
    for repeat in range(REPEATS):
        evaluator = RecurrentState(
            SIMULATOR, at_zero, objective=objective, episodes=20, include_recurrent=include
        )
        pairs = evaluator.evaluate(jax.random.key(repeat), POLICY, W)
        samples.append(quantities(pairs))
        errors.append(pairs.objective_error)
    expected = quantities(exact_pairs(W, objective, include))
    error = np.std(samples, axis=0, ddof=1) / REPEATS**0.5
    # Episodes are cut at 400 steps, in the middle of a cycle of about four: 1 % of bias
    allowed = 4 * error + 0.01 * np.abs(expected).max()
    assert (np.abs(np.mean(samples, axis=0) - expected) <= allowed).all()
    assert np.mean(errors) == pytest.approx(np.std(samples, axis=0, ddof=1)[0], rel=0.5)


def test_pairs_give_the_sums_of_the_traces_of_algorithm_2():
    evaluator = RecurrentState(
        SIMULATOR, at_zero, objective="cycle", episodes=3, include_recurrent=False
    )
    pairs = evaluator.evaluate(jax.random.key(5), POLICY, W)
    data = evaluator.memory.batches[-1]
    total, cycles = np.zeros(2), 0
    score = jax.jit(jax.grad(POLICY.log_prob))
    states, actions, rewards = map(np.asarray, (data.observations, data.actions, data.rewards))
    for first in np.flatnonzero(np.asarray(data.times) == 0):
        visits = first + np.flatnonzero(states[first : first + 400] == 0)
        cycles += len(visits) - 1
        trace = np.zeros(2)
        for t in range(visits[0], visits[-1]):  # complete cycles
            if states[t] == 0:
                trace = np.zeros(2)
            else:
                trace = trace + np.asarray(score(W, states[t], actions[t]))
            total += rewards[t] * trace
    np.testing.assert_allclose(mn.gradient(POLICY, W, pairs), total / cycles, rtol=1e-10)


def test_the_end_of_a_game_closes_a_cycle():
    class Game(mn.CompiledSimulator):
        """Counts down from 3; every step pays 1."""

        @property
        def spaces(self):
            return mn.Spaces(observation=0, actions=2)

        @property
        def horizon(self):
            return 10

        def reset(self, key):
            return jnp.array(3)

        def step(self, key, state, action):
            return state - 1, jnp.array(1.0), state == 1

    evaluator = RecurrentState(Game(), lambda s: s == 3, objective="cycle", episodes=4)
    policy = mn.TabularSoftmax(4, 2)
    pairs = evaluator.evaluate(jax.random.key(0), policy, policy.initial_parameters())
    assert pairs.objective == 3.0
    assert pairs.objective_error == 0.0
    assert evaluator.objective(jax.random.key(1), policy, policy.initial_parameters()) == 3.0


def test_bad_input():
    with pytest.raises(ValueError, match="must be one of 'average', 'cycle', got 'sum'"):
        RecurrentState(SIMULATOR, at_zero, objective="sum")
    never = RecurrentState(SIMULATOR, lambda s: s == 9)
    with pytest.raises(ValueError, match="no complete cycle"):
        never.evaluate(jax.random.key(0), POLICY, W)
