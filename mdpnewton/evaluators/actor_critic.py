"""Actor-critic evaluation: advantages from a fitted value function, with reuse of earlier data."""

import math
from copy import copy
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import flag, instance, number
from mdpnewton.evaluation import Evaluation, Evaluator, State, WeightedPairs
from mdpnewton.evaluators.critics import Critic, following
from mdpnewton.evaluators.memory import Memory, importance_ratios, reached
from mdpnewton.plain import arrays_of, entries, reals, with_arrays
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories, accumulated
from mdpnewton.threads import threads_for


class ActorCritic(Evaluator):
    r"""Weights from a fitted V and generalised advantages (Schulman et al. 2016).

    $\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)$, with V = 0 after a termination and the critic's
    value after a truncation, and $A_t = \delta_t + \gamma\lambda c_{t+1} A_{t+1}$. Batches of
    earlier policies are reweighted by $\rho_t$, the ratio of $\pi(a_t|s_t)$ to the probability with
    which the action was chosen: $c_t = \min(1, \rho_t)$ in the traces and
    $\min(\rho_t, \text{limit})$ in the gradient. This is biased, because the states are still those
    of the earlier policies; `unbiased_reuse` weights by the products of all ratios up to the action
    instead, at the price of a higher variance.

    In the evaluation, `value` is p (V + A), which gives H2 with the estimated Q, and `state_value`
    is V, which gives V2: the value-weighted matrix whose weights are non-negative once the smallest
    V is subtracted.

    With `discounted_occupancy=False` a state has the same weight whenever it is visited, gamma only
    shortens the horizon of the advantages, and the objective is the undiscounted return, so that
    steps are judged by what the gradient climbs.

    With `held_out` the values are those of the critic before it was fitted to the newest batch. A
    critic that has seen a batch explains part of its luck, and so of what its actions were worth.

    Attributes:
        critic: Estimate of V, as fitted at the last evaluation.
        judge: Estimate of V that the last evaluation was made with.
        discount: Discount factor gamma of values and advantages.
        trace: Trace parameter lambda of the generalised advantages.
        ratio_limit: Upper limit of the importance ratios in the gradient.
        discounted_occupancy: Whether states are weighted by gamma to the power of their time step.
        unbiased_reuse: Whether earlier batches are weighted by products of importance ratios.
        held_out: Whether values come from the critic before the newest fit, if it has had any.
        memory: Plays the batches and keeps the last ones.
        here: Mean and standard error of the return at the parameters evaluated last.
        returned_to: Statistics of the return at the point that the search returned to last.
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
        held_out: bool = False,
        capacity: int | None = None,
        share: float = math.inf,
    ):
        call = "ActorCritic"
        self.critic = instance(call, "critic", critic, Critic, "pass `LinearCritic(features)`")
        self.judge, self.held_out = self.critic, flag(call, "held_out", held_out)
        self.discount = number(call, "discount", discount, least=0, most=1)
        self.trace = number(call, "trace", trace, least=0, most=1)
        self.ratio_limit = number(call, "ratio_limit", ratio_limit, least=1, infinite=True)
        self.discounted_occupancy, self.unbiased_reuse = discounted_occupancy, unbiased_reuse
        self.here, self.returned_to = (float("nan"), 0.0), Visited(float("nan"), 0.0)
        self.memory = Memory(
            simulator, episodes, least_transitions, reuse, capacity, share=share, owner=call
        )

    def evaluate(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> WeightedPairs:
        """Play a batch at `w`, fit the critic to all batches, and weight their pairs."""
        batch = self.memory.play(key, policy, w)
        return self._weighed(policy, w, *self._judged(batch), fresh=batch.transitions)

    def revisit(
        self, key: PRNGKeyArray, policy: Any, w: PyTree, known: Evaluation
    ) -> WeightedPairs:
        """Evaluate `w` again, with everything that has been played since.

        Every second visit plays another batch at `w`, and the mean return is over all batches that
        were played there: the first may have been a lucky draw, against which every other policy
        would look bad.
        """
        self.memory.doubt()
        seen, before = self.returned_to, (known.objective, known.objective_error)
        if before != seen[:2]:
            seen = Visited(*before)
        fresh = 0
        if seen.returns % 2:
            batch = self.memory.play(key, policy, w)
            seen, fresh = seen.joined(self._judged(batch)), batch.transitions
        self.returned_to = seen._replace(returns=seen.returns + 1)
        return self._weighed(policy, w, seen.mean, seen.error, fresh=fresh)

    def again(self, key: Any, policy: Any, w: PyTree) -> WeightedPairs:
        """Rebuild the last evaluation from the batches and the critic that was fitted to them."""
        return self._weighed(policy, w, *self.here, fit=False)

    def objective(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> float:
        """The mean return of a fresh batch, which is not kept."""
        return self.memory.fresh_return(key, policy, w, self.occupancy_discount)

    @property
    def occupancy_discount(self) -> float:
        """Discount of the states' weights, and hence of the return that the gradient climbs."""
        return self.discount if self.discounted_occupancy else 1.0

    def state(self) -> State:
        """The memory, the critics' arrays (see `arrays_of`), and the statistics of the return.

        `here` lists the mean and the standard error, `returned_to` the fields of `Visited`.
        """
        return {
            "memory": self.memory.state(),
            "critic": arrays_of(self.critic),
            "judge": arrays_of(self.judge),
            "here": list(self.here),
            "returned_to": list(self.returned_to),
        }

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        call, found = "ActorCritic.restored", copy(self)
        memory, critic, judge, here, returned_to = entries(
            call, state, "memory", "critic", "judge", "here", "returned_to"
        )
        found.memory = self.memory.restored(memory)
        found.critic = with_arrays(call, "critic", self.critic, critic)
        found.judge = with_arrays(call, "judge", self.critic, judge)
        mean, error = reals(call, "here", here, 2)
        found.here = (mean, error)
        mean, error, batches, returns = reals(call, "returned_to", returned_to, 4)
        found.returned_to = Visited(mean, error, int(batches), int(returns))
        return found

    def _judged(self, batch: Trajectories) -> tuple[float, float]:
        return self.memory.judged(batch, self.occupancy_discount)

    def _weighed(
        self,
        policy: Any,
        w: PyTree,
        mean: float,
        error: float,
        *,
        fresh: int = 0,
        fit: bool = True,
    ) -> WeightedPairs:
        known = not math.isnan(self.here[0])
        self.here = (mean, error)
        data = self.memory.all()
        with threads_for(0):  # a critic's equations are few
            found, self.critic, self.judge = jax.block_until_ready(
                _evaluated(
                    policy,
                    w,
                    self.critic,
                    self.judge,
                    data,
                    np.asarray(fit),
                    np.asarray(self.held_out and known),
                    np.asarray(fresh),
                    discount=self.discount,
                    occupancy_discount=self.occupancy_discount,
                    trace=self.trace,
                    limit=None if self.unbiased_reuse else self.ratio_limit,
                )
            )
        return WeightedPairs(
            states=data.observations,
            objective=mean,
            objective_error=error,
            **found._asdict(),
        )


class Visited(NamedTuple):
    """Statistics of the return at one point.

    Attributes:
        mean: Mean return over all batches that were played there.
        error: Standard error of the mean.
        batches: Number of batches that were played there.
        returns: Number of times that a step from there was undone.
    """

    mean: float
    error: float
    batches: int = 1
    returns: int = 0

    def joined(self, fresh: tuple[float, float]) -> "Visited":
        """The statistics after one more batch, which is given by its mean and standard error."""
        more = self.batches + 1
        mean = (self.batches * self.mean + fresh[0]) / more
        return Visited(
            mean, math.hypot(self.batches * self.error, fresh[1]) / more, more, self.returns
        )


class _Weights(NamedTuple):
    """Fields of `WeightedPairs`."""

    actions: PyTree[Array]
    occupancy: Float[Array, "n 1"]
    value: Float[Array, "n 1"]
    advantage: Float[Array, "n 1"]
    ascent: Float[Array, "n 1"]
    state_value: Float[Array, " n"]


@eqx.filter_jit
def _evaluated(
    policy: Any,
    w: PyTree,
    critic: Critic,
    judge: Critic,
    data: Trajectories,
    fit: ArrayLike,
    earlier: ArrayLike,
    fresh: ArrayLike,
    *,
    discount: float,
    occupancy_discount: float,
    trace: float,
    limit: float | None,
) -> tuple[_Weights, Critic, Critic]:
    """The weights of all pairs, the critic after the fit, and the one that they are made with.

    All of it is one compiled program, whether the critic is fitted or has been before, so that both
    give the same bits. No `limit` is unbiased reuse. The last `fresh` of the valid rows are new.
    """
    newest = data.valid & (data.valid.cumsum() > data.valid.sum() - fresh)
    ratios = importance_ratios(policy, w, data)
    traces = ratios if limit is None else jnp.minimum(ratios, 1.0)
    judged = critic.judged(data, discount, newest)
    fitted = judged.fitted(data, discount, traces)
    judge = _either(fit, _either(earlier, judged, fitted), judge)
    fitted = _either(fit, fitted, critic)
    state_value = judge.values(data.observations)
    after = jnp.where(data.terminated, 0.0, judge.values(data.next_observations))
    surprise = data.rewards + discount * after - state_value
    advantage = accumulated(surprise, discount * trace * following(traces), data)
    if limit is None:
        occupancy, trusted = reached(data, ratios, occupancy_discount), jnp.ones_like(ratios)
    else:
        occupancy, trusted = data.discounts(occupancy_discount), jnp.minimum(ratios, limit)
    episodes = jnp.maximum((data.ends & data.valid).sum(dtype=float), 1.0)
    weights = occupancy * trusted / episodes
    total = weights.sum()
    # The mean advantage of all pairs is a baseline: it lowers the variance of the gradient only.
    mean = jnp.sum(weights * advantage) / jnp.where(total > 0, total, 1.0)
    found = _Weights(
        data.listed_actions,
        (occupancy / episodes)[:, None],
        (weights * (state_value + advantage))[:, None],
        (weights * advantage)[:, None],
        (weights * (advantage - mean))[:, None],
        state_value,
    )
    return found, fitted, judge


def _either(which: ArrayLike, one: Critic, other: Critic) -> Critic:
    """The arrays of `one` where `which` is true, otherwise those of `other`."""
    arrays, rest = eqx.partition(one, eqx.is_array)
    others = eqx.filter(other, eqx.is_array)
    chosen = jax.tree.map(lambda *both: jnp.where(which, *both), arrays, others)
    found: Critic = eqx.combine(chosen, rest)
    return found
