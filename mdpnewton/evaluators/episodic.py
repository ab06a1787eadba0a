"""Episodic Monte-Carlo evaluation: returns as values, with a choice of baselines."""

from collections.abc import Callable
from copy import copy
from typing import Any, Literal, NamedTuple, Self, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import choice, instance, number, refuse
from mdpnewton.evaluation import Evaluator, State, WeightedPairs
from mdpnewton.evaluators.critics import following
from mdpnewton.evaluators.crossing import EpisodeCrossing, weighted_fit
from mdpnewton.evaluators.memory import (
    Memory,
    estimated_return,
    importance_ratios,
    reached,
    score_rows,
)
from mdpnewton.plain import entries
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories, accumulated

Baseline = Literal["none", "constant", "time", "state", "optimal"]


class MonteCarlo(Evaluator):
    r"""Weights every pair of every episode by the return that followed it: no critic, no bias.

    `value` holds $\gamma^t Q_t$ with $Q_t = \sum_{k \geq t} \gamma^{k-t} r_k$: H2 with these
    weights is definite where the rewards are non-negative and the policy is log-concave. The
    gradient has the weights $\gamma^t (Q_t - b)$. Every baseline b is computed without the episode
    that it is subtracted from (or, for "state", without that half of the episodes), so that the
    gradient stays unbiased:

    * "none": $b = 0$;
    * "constant": the mean return to go;
    * "time": the mean return to go from the same time step;
    * "state": $V(s)$, by least squares on `features`;
    * "optimal": for each time step, the number that minimises the gradient's variance,
      $E|\nabla\log\pi|^2 Q \,/\, E|\nabla\log\pi|^2$ (Greensmith et al. 2004).

    The advantages of the first Gauss-Newton method are $Q - V(s)$ if there are `features`;
    otherwise the mean of the time step replaces V. Batches of earlier policies are reweighted by
    per-decision products of importance ratios (Precup et al. 2000). This is unbiased, but it suits
    only short horizons or policies that are close.

    The full Hessian is estimated too, H12 included, see `EpisodeCrossing`: `policy_hessian` gives
    its products and Newton's methods work, for every policy.

    Attributes:
        discount: Discount factor gamma.
        baseline: Name of what is subtracted from the returns in the gradient, one of those above.
        features: Maps a state to the feature vector for V(s); None if no V is fitted.
        memory: Plays the batches and keeps the last ones.
    """

    def __init__(
        self,
        simulator: Simulator,
        discount: float,
        *,
        episodes: int = 100,
        baseline: Baseline = "time",
        features: Any = None,
        reuse: int = 1,
    ):
        call = "MonteCarlo"
        self.discount = number(call, "discount", discount, least=0, most=1)
        self.baseline: Baseline = choice(call, "baseline", baseline, get_args(Baseline))
        table = "for a table `OneHot(states)`"
        if baseline == "state" and features is None:
            refuse(call, "baseline", f"'state' fits V to features; pass `features=...`, {table}")
        if features is not None:
            instance(call, "features", features, Callable, f"pass a function, {table}")
        self.features = features
        self.memory = Memory(simulator, episodes, reuse=reuse, owner=call)

    def evaluate(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> WeightedPairs:
        """Play a batch at `w` and weight the pairs of all stored batches."""
        self.memory.play(key, policy, w)
        return self.again(key, policy, w)

    def again(self, key: Any, policy: Any, w: PyTree) -> WeightedPairs:
        """Rebuild the last evaluation from the batches."""
        mean, error = estimated_return(self.memory.batches[-1], self.discount)
        data = self.memory.all()
        slope = _squared_scores(policy, w, data) if self.baseline == "optimal" else None
        ratios = importance_ratios(policy, w, data)
        found = _weights(data, ratios, slope, self.features, self.discount, self.baseline)
        share = found.reach / max(data.episodes, 1)
        advantage = share * (found.value - found.state_value)
        discounts = data.discounts(self.discount)
        crossing = EpisodeCrossing(
            data=data,
            weights=advantage,
            ratios=jnp.where(
                discounts > 0, found.reach / jnp.where(discounts > 0, discounts, 1), 0
            ),
            reach=found.reach,
            discounts=discounts,
            features=found.features,
        )
        return WeightedPairs(
            states=data.observations,
            actions=data.listed_actions,
            occupancy=share[:, None],
            value=(share * found.value)[:, None],
            advantage=advantage[:, None],
            objective=mean,
            objective_error=error,
            ascent=(share * (found.value - found.baseline))[:, None],
            state_value=found.state_value,
            crossing=crossing,
        )

    def objective(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> float:
        """The mean discounted return of a fresh batch, which is not kept."""
        return self.memory.fresh_return(key, policy, w, self.discount)

    def state(self) -> State:
        """The state of the memory."""
        return {"memory": self.memory.state()}

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        (memory,) = entries("MonteCarlo.restored", state, "memory")
        found = copy(self)
        found.memory = self.memory.restored(memory)
        return found


class _Weights(NamedTuple):
    reach: Float[Array, " n"]  # gamma^t times the product of ratios up to the action
    value: Float[Array, " n"]
    state_value: Float[Array, " n"]
    baseline: Float[Array, " n"]
    features: Float[Array, "n f"] | None


@eqx.filter_jit
def _weights(
    data: Trajectories,
    ratios: Array,
    slope: Array | None,
    features: Any,
    discount: float,
    baseline: Baseline,
) -> _Weights:
    valid = jnp.where(data.valid, 1.0, 0.0)
    value = accumulated(data.rewards, discount * following(ratios), data)
    n = value.size
    reach = reached(data, ratios, discount)
    episode = data.episode

    def of_others(weights: Array, groups: Array, own: Array) -> Array:
        """Weighted mean of `value` in the row's group, without the part that `own` shares."""
        sums = [jax.ops.segment_sum(w, groups, n)[groups] for w in (weights * value, weights)]
        mine = [jax.ops.segment_sum(w, own, n)[own] for w in (weights * value, weights)]
        top, bottom = sums[0] - mine[0], sums[1] - mine[1]
        return jnp.where(bottom > 1e-12, top / jnp.where(bottom > 1e-12, bottom, 1.0), 0.0)

    row = jnp.arange(n)
    by_time = of_others(valid, data.times, row)
    if features is None:
        state_value, phi = by_time, None
    else:
        phi = jax.vmap(features)(data.observations)
        # Returns late in an episode are cut short; the discount in `reach` gives them less weight.
        rows = [jnp.where(episode % 2 == half, reach, 0.0) for half in (0, 1)]
        halves = [weighted_fit(phi, value, weights) for weights in rows]
        state_value = jnp.where(episode % 2 == 0, phi @ halves[1], phi @ halves[0])
    if baseline == "none":
        taken = jnp.zeros(n)
    elif baseline == "constant":
        taken = of_others(data.discounts(discount), jnp.zeros(n, int), episode)
    elif baseline == "time":
        taken = by_time
    elif baseline == "state":
        taken = state_value
    else:
        assert slope is not None
        taken = of_others(valid * slope, data.times, row)
    return _Weights(reach, value, state_value, taken, phi)


@eqx.filter_jit
def _squared_scores(policy: Any, w: PyTree, data: Trajectories) -> Array:
    return jnp.sum(score_rows(policy, w, data) ** 2, axis=1)
