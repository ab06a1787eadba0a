"""Actor-critic evaluation: advantages from a value function, all data used."""

import math
from copy import copy
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import instance, number
from mdpnewton.evaluation import Evaluation, Evaluator, State, WeightedPairs
from mdpnewton.evaluators.critics import Critic, following
from mdpnewton.evaluators.memory import Memory, estimated_return, importance_ratios, reached
from mdpnewton.plain import arrays_of, entries, reals, with_arrays
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories, accumulated


class ActorCritic(Evaluator):
    r"""Weights from a fitted V and generalised advantages (Schulman et al. 2016).

    $\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)$, with V = 0 after a termination and the critic's
    value after a truncation, and $A_t = \delta_t + \gamma\lambda c_{t+1} A_{t+1}$. Batches of
    earlier policies take part with $\rho_t = \pi(a_t|s_t)$ over the probability of their choice,
    $c_t = \min(1, \rho_t)$ in the traces and $\min(\rho_t, \text{limit})$ in the gradient. That
    is biased, because their states are those of the earlier policies; `unbiased_reuse` weighs by
    the products of all ratios up to the action instead, and pays with variance.

    The evaluation has `value` = p (V + A), for H2 by the estimated Q, and `state_value` = V, for
    V2: the value-weighted matrix whose weights are non-negative once the least V is taken off.

    With `discounted_occupancy=False` a state counts alike whenever it is visited, gamma only
    shortens the sight of the advantages, and the objective is the undiscounted return: steps are
    judged by what the gradient climbs.

    Attributes:
        critic: Estimate of V, as it was fitted last.
        discount: gamma of values and advantages.
        trace: lambda of the generalised advantages.
        ratio_limit: Largest importance ratio in the gradient.
        discounted_occupancy: Whether states are weighed by gamma to the power of their time.
        unbiased_reuse: Whether earlier batches are weighed by products of ratios.
        memory: The batches, and how they are played.
        here: Mean and standard error of the return at the parameters evaluated last.
        returned_to: What is known of the point that was returned to last.
    """

    def __init__(
        self,
        simulator: Simulator,
        critic: Critic,
        discount: float,
        *,
        episodes: int = 10,
        least_transitions: int = 0,
        reuse: int = 1,
        trace: float = 0.9,
        ratio_limit: float = 2.0,
        discounted_occupancy: bool = True,
        unbiased_reuse: bool = False,
    ):
        call = "ActorCritic"
        self.critic = instance(call, "critic", critic, Critic, "pass `LinearCritic(features)`")
        self.discount = number(call, "discount", discount, least=0, most=1)
        self.trace = number(call, "trace", trace, least=0, most=1)
        self.ratio_limit = number(call, "ratio_limit", ratio_limit, least=1, infinite=True)
        self.discounted_occupancy, self.unbiased_reuse = discounted_occupancy, unbiased_reuse
        self.here, self.returned_to = (float("nan"), 0.0), Visited(float("nan"), 0.0)
        self.memory = Memory(simulator, episodes, least_transitions, reuse, owner=call)

    def evaluate(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> WeightedPairs:
        """Play a batch at `w`, fit the critic to all batches, and weigh their pairs."""
        batch = self.memory.play(key, policy, w)
        return self._weighed(policy, w, *self._judged(batch))

    def revisit(
        self, key: PRNGKeyArray, policy: Any, w: PyTree, known: Evaluation
    ) -> WeightedPairs:
        """The evaluation at `w` again, from what has been played since.

        Every second time `w` is played too, and the mean is over all that was played there: its
        first return may have been a lucky draw, against which every other policy would look bad.
        """
        seen, before = self.returned_to, (known.objective, known.objective_error)
        if before != seen[:2]:
            seen = Visited(*before)
        if seen.returns % 2:
            seen = seen.joined(self._judged(self.memory.play(key, policy, w)))
        self.returned_to = seen._replace(returns=seen.returns + 1)
        return self._weighed(policy, w, seen.mean, seen.error)

    def again(self, policy: Any, w: PyTree) -> WeightedPairs:
        """The last evaluation, made again from the batches: `w` must be where it was made."""
        return self._weighed(policy, w, *self.here)

    def objective(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> float:
        """The mean return of a fresh batch, which is not kept."""
        return self.memory.fresh_return(key, policy, w, self.occupancy_discount)

    @property
    def occupancy_discount(self) -> float:
        """The discount of the states' weights, and so of the return that the gradient climbs."""
        return self.discount if self.discounted_occupancy else 1.0

    def state(self) -> State:
        """The memory, the critic by `arrays_of`, and what is known of returns.

        `here` lists mean and standard error, `returned_to` the fields of `Visited`.
        """
        return {
            "memory": self.memory.state(),
            "critic": arrays_of(self.critic),
            "here": list(self.here),
            "returned_to": list(self.returned_to),
        }

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        call, found = "ActorCritic.restored", copy(self)
        memory, critic, here, returned_to = entries(
            call, state, "memory", "critic", "here", "returned_to"
        )
        found.memory = self.memory.restored(memory)
        found.critic = with_arrays(call, "critic", self.critic, critic)
        mean, error = reals(call, "here", here, 2)
        found.here = (mean, error)
        mean, error, batches, returns = reals(call, "returned_to", returned_to, 4)
        found.returned_to = Visited(mean, error, int(batches), int(returns))
        return found

    def _judged(self, batch: Trajectories) -> tuple[float, float]:
        return estimated_return(batch, self.occupancy_discount)

    def _weighed(self, policy: Any, w: PyTree, mean: float, error: float) -> WeightedPairs:
        self.here = (mean, error)
        data = self.memory.all()
        ratios = importance_ratios(policy, w, data)
        traces = ratios if self.unbiased_reuse else jnp.minimum(ratios, 1.0)
        self.critic = self.critic.fitted(data, self.discount, traces)
        found = _advantages(self.critic, data, traces, self.discount, self.trace)
        discount = self.occupancy_discount
        if self.unbiased_reuse:
            occupancy, trusted = reached(data, ratios, discount), jnp.ones_like(ratios)
        else:
            occupancy = data.discounts(discount)
            trusted = jnp.minimum(ratios, self.ratio_limit)
        occupancy, trusted = (occupancy / max(data.episodes, 1))[:, None], trusted[:, None]
        advantage, value = found.advantage[:, None], found.value[:, None]
        return WeightedPairs(
            states=data.observations,
            actions=data.listed_actions,
            occupancy=occupancy,
            value=occupancy * trusted * (value + advantage),
            advantage=occupancy * trusted * advantage,
            objective=mean,
            objective_error=error,
            ascent=occupancy * trusted * advantage,
            state_value=found.value,
        )


class Visited(NamedTuple):
    """What is known of the return at a point.

    Attributes:
        mean: Mean return over all batches that were played there.
        error: Standard error of the mean.
        batches: Number of those batches.
        returns: How often a step from there was taken back.
    """

    mean: float
    error: float
    batches: int = 1
    returns: int = 0

    def joined(self, fresh: tuple[float, float]) -> "Visited":
        """The same with the mean and standard error of another batch."""
        more = self.batches + 1
        mean = (self.batches * self.mean + fresh[0]) / more
        return Visited(
            mean, math.hypot(self.batches * self.error, fresh[1]) / more, more, self.returns
        )


class _Estimates(NamedTuple):
    value: Float[Array, " n"]
    advantage: Float[Array, " n"]


@eqx.filter_jit
def _advantages(
    critic: Critic, data: Trajectories, traces: Array, discount: float, trace: float
) -> _Estimates:
    value = critic.values(data.observations)
    after = jnp.where(data.terminated, 0.0, critic.values(data.next_observations))
    surprise = data.rewards + discount * after - value
    decay = discount * trace * following(traces)
    return _Estimates(value, accumulated(surprise, decay, data))
