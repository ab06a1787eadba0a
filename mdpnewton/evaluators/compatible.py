"""The paper's actor-critic for cart-pole: a compatible critic on half of the trajectories."""

from copy import copy
from typing import Any, Literal, NamedTuple, Self, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import choice, number, refuse, whole
from mdpnewton.evaluation import Evaluator, State, WeightedPairs
from mdpnewton.evaluators.memory import Memory, estimated_return, score_rows
from mdpnewton.plain import entries, reals
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories, accumulated, selected

ValueWeight = Literal["critic", "absolute", "monte_carlo"]
RIDGES = tuple(float(10.0**power) for power in range(-4, 5))


class CompatibleCritic(Evaluator):
    r"""Weights half of the episodes by $\hat Q = \theta^\top\nabla\log\pi$, fitted to the others.

    Section 6.2: episodes have length 2H. Their first H steps are the pairs, and the H steps from a
    pair on give its target $\sum_{k<H} \gamma^k r_{t+k}$. Ridge regression on the pairs of the
    critic's half gives $\theta$; the ridge is the best one of `ridges` on the last episode of that
    half.

    $\hat Q$ has mean zero in every state: it is an advantage. The weights of H2 are therefore a
    choice:

    * "critic": $\hat Q$, the literal reading of the paper. $E H_2 = 0$ where the curvature is
      constant, so that the matrix is noise and not definite;
    * "absolute": $|\hat Q|$. The matrix is definite, but it is no longer H2;
    * "monte_carlo": the roll-out returns of the pairs, the weights with Theorem 5's guarantee.

    Attributes:
        discount: Discount factor gamma.
        value_weight: Name of the weights of H2, one of those above.
        ridges: Ridges to choose from.
        memory: Plays the batches and keeps the last one.
        ridge: The ridge that was chosen last.
    """

    def __init__(
        self,
        simulator: Simulator,
        discount: float,
        *,
        episodes: int = 10,
        value_weight: ValueWeight = "critic",
        ridges: tuple[float, ...] = RIDGES,
    ):
        call = "CompatibleCritic"
        self.discount = number(call, "discount", discount, least=0, most=1)
        weights = get_args(ValueWeight)
        self.value_weight: ValueWeight = choice(call, "value_weight", value_weight, weights)
        if not ridges:
            refuse(call, "ridges", "needs at least one ridge to choose from, got none")
        self.ridges = jnp.asarray([number(call, "ridges", ridge, least=0) for ridge in ridges])
        self.ridge = float("nan")
        # Two episodes per half: one to fit theta, one to choose the ridge.
        self.memory = Memory(simulator, whole(call, "episodes", episodes, 4), owner=call)

    def evaluate(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> WeightedPairs:
        """Play episodes of length 2H, fit the critic to half of them and weight the other pairs."""
        steps = self.memory.simulator.horizon
        data = self.memory.play(key, policy, w, horizon=2 * steps)
        episode = np.asarray(data.episode)
        half = self.memory.episodes // 2
        first = np.asarray(data.valid) & (np.asarray(data.times) < steps)
        returns = _window_returns(data, self.discount, steps)
        for_critic, for_pairs = first & (episode < half), first & (episode >= half)
        taught = selected(data, for_critic)
        held_out = jnp.asarray(episode[for_critic] == half - 1)
        pairs = selected(data, for_pairs)
        fit = _critic(policy, w, taught, pairs, returns[for_critic], held_out, self.ridges)
        self.ridge = float(fit.ridge)
        count = self.memory.episodes - half
        occupancy = pairs.discounts(self.discount) / count
        weights = {
            "critic": fit.value,
            "absolute": jnp.abs(fit.value),
            "monte_carlo": returns[for_pairs],
        }[self.value_weight]
        mean, error = estimated_return(taught, self.discount, np.asarray(episode[for_critic]))
        return WeightedPairs(
            states=pairs.observations,
            actions=pairs.listed_actions,
            occupancy=occupancy[:, None],
            value=(occupancy * weights)[:, None],
            advantage=(occupancy * fit.value)[:, None],
            objective=mean,
            objective_error=error,
            ascent=(occupancy * fit.value)[:, None],
        )

    def objective(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> float:
        """The mean discounted return of a fresh batch."""
        return self.memory.fresh_return(key, policy, w, self.discount)

    def state(self) -> State:
        """The state of the memory, and the ridge."""
        return {"memory": self.memory.state(), "ridge": self.ridge}

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        memory, ridge = entries("CompatibleCritic.restored", state, "memory", "ridge")
        found = copy(self)
        found.memory = self.memory.restored(memory)
        (found.ridge,) = reals("CompatibleCritic.restored", "ridge", [ridge], 1)
        return found


class _Critic(NamedTuple):
    value: Float[Array, " n"]
    ridge: Float[Array, ""]


@eqx.filter_jit
def _critic(
    policy: Any,
    w: PyTree,
    taught: Trajectories,
    pairs: Trajectories,
    target: Array,
    held_out: Array,
    ridges: Array,
) -> _Critic:
    psi = score_rows(policy, w, taught)
    used = jnp.where(held_out, 0.0, 1.0)

    def solved(weights: Array, ridge: Array) -> Array:
        matrix = psi.T @ (weights[:, None] * psi)
        matrix = matrix + ridge * jnp.eye(psi.shape[1])
        theta: Array = jnp.linalg.solve(matrix, psi.T @ (weights * target))
        return theta

    def error(ridge: Array) -> Array:
        return jnp.sum((1 - used) * (target - psi @ solved(used, ridge)) ** 2)

    ridge = ridges[jnp.argmin(jax.vmap(error)(ridges))]
    theta = solved(jnp.ones_like(used), ridge)
    return _Critic(score_rows(policy, w, pairs) @ theta, ridge)


@eqx.filter_jit
def _window_returns(data: Trajectories, discount: float, steps: int) -> Float[Array, " n"]:
    """Discounted sum of the next `steps` rewards of the episode, for every row."""
    total = accumulated(data.rewards, jnp.full(data.rewards.shape, discount), data)
    later = jnp.roll(total, -steps)
    same = jnp.roll(data.times, -steps) == data.times + steps
    return total - jnp.where(same & jnp.roll(data.valid, -steps), discount**steps * later, 0.0)
