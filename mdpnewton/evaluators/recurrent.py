"""Evaluation by cycles between visits of a recurrent state, Algorithm 2."""

from collections.abc import Callable
from copy import copy
from typing import Any, Literal, NamedTuple, Self, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import choice, instance
from mdpnewton.evaluation import Evaluator, State, WeightedPairs
from mdpnewton.evaluators.critics import following
from mdpnewton.evaluators.memory import Memory
from mdpnewton.plain import entries
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories, accumulated

Objective = Literal["average", "cycle"]


class RecurrentState(Evaluator):
    r"""Values a pair by the reward from it to the next visit of the recurrent state.

    Appendix B.1, Algorithm 2 (after Williams 1992), with pairs in place of the eligibility traces:
    $\sum_t R_t \Phi_t$ and $\sum_i \nabla\log\pi_i \sum_{t \geq i} R_t$ are the same sum. A cycle
    goes from one visit to the next; the end of a game counts as a visit, since the next game begins
    in the recurrent state. Incomplete cycles are left out.

    Paper: "estimates (up to a positive scalar)" of the gradient of the average reward, from plain
    rewards. Here: plain rewards give the gradient of the reward of a *cycle*, which
    `objective="cycle"` asks for and which suits games. For the average reward per step the
    estimated average is subtracted from every reward (Marbach & Tsitsiklis 2001), because a policy
    also decides how long cycles last; values are then differential, and H2 may be indefinite.

    Attributes:
        recurrent: Function that says whether an observation is that of the recurrent state.
        of: Objective: the "average" reward per step, or the reward per "cycle".
        include_recurrent: Whether the decisions in the recurrent state count. Algorithm 2, read
            literally, leaves them out; the gradient is unbiased only with them.
        memory: Plays the batches and keeps the last one.
    """

    def __init__(
        self,
        simulator: Simulator,
        recurrent: Callable[[Any], Bool[Array, ""]],
        *,
        objective: Objective = "average",
        episodes: int = 10,
        include_recurrent: bool = True,
    ):
        call = "RecurrentState"
        remedy = "pass a function of the observation, as `lambda state: state == 0`"
        self.recurrent = instance(call, "recurrent", recurrent, Callable, remedy)
        self.include_recurrent = include_recurrent
        self.of: Objective = choice(call, "objective", objective, get_args(Objective))
        self.memory = Memory(simulator, episodes, owner=call)

    def evaluate(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> WeightedPairs:
        """Play a batch at `w` and weight the pairs of all complete cycles."""
        data = self.memory.play(key, policy, w)
        found = self._cycles(data)
        counted = found.complete
        if not self.include_recurrent:
            counted &= ~found.recurrent
        share = jnp.where(counted, 1.0, 0.0) / found.scale
        value = share * found.value
        return WeightedPairs(
            states=data.observations,
            actions=data.listed_actions,
            occupancy=share[:, None],
            value=value[:, None],
            # V of a state is unknown: the mean over all decisions replaces it.
            advantage=(value - share * value.sum() / share.sum())[:, None],
            objective=float(found.mean),
            objective_error=float(found.error),
        )

    def objective(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> float:
        """The objective from another batch, which is counted but not kept."""
        simulator, episodes = self.memory.simulator, self.memory.episodes
        data = simulator.play(key, policy, w, episodes)
        self.memory.transitions += data.transitions
        return float(self._cycles(data).mean)

    def state(self) -> State:
        """The state of the memory."""
        return {"memory": self.memory.state()}

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        (memory,) = entries("RecurrentState.restored", state, "memory")
        found = copy(self)
        found.memory = self.memory.restored(memory)
        return found

    def _cycles(self, data: Trajectories) -> "_Cycles":
        found = _cycles(self.recurrent, data, self.of == "average")
        if not found.number:
            raise ValueError(
                f"`RecurrentState` saw no complete cycle in {data.transitions} transitions; the "
                f"recurrent state is rarely visited: play longer episodes, or choose another one."
            )
        return found


class _Cycles(NamedTuple):
    recurrent: Bool[Array, " n"]
    complete: Bool[Array, " n"]
    value: Float[Array, " n"]
    scale: Float[Array, ""]  # number of steps, or of cycles
    mean: Float[Array, ""]
    error: Float[Array, ""]
    number: Array


@eqx.filter_jit
def _cycles(recurrent: Callable[[Any], Any], data: Trajectories, average: bool) -> _Cycles:
    n = data.rewards.size
    here = jax.vmap(recurrent)(data.observations) & data.valid
    # The next row of the same episode is in the recurrent state, or the game is over.
    closing = jnp.append(here[1:], False) & ~data.ends
    closing = data.valid & (closing | data.terminated)
    begun = _raised(here, data)
    ahead = accumulated(jnp.where(closing, 1.0, 0.0), jnp.ones(n), data) > 0
    complete = data.valid & begun & ahead
    weight = jnp.where(complete, 1.0, 0.0)
    # Number the cycles in the order of time: a closing row and all rows before it share a number.
    over = jnp.where(complete & closing, 1, 0)
    cycle = jnp.cumsum(over) - over
    number = over.sum()
    rewards = jax.ops.segment_sum(weight * data.rewards, cycle, n)
    lengths = jax.ops.segment_sum(weight, cycle, n)
    cycles, steps = jnp.maximum(number, 1).astype(float), jnp.maximum(weight.sum(), 1.0)
    mean = rewards.sum() / (steps if average else cycles)
    # The error of a ratio of means, by the delta method.
    gaps = rewards - mean * (lengths if average else jnp.where(lengths > 0, 1.0, 0.0))
    spread = jnp.sqrt(jnp.sum(gaps**2) / jnp.maximum(cycles - 1, 1.0) / cycles)
    error = spread * cycles / (steps if average else cycles)
    gain = data.rewards - mean if average else data.rewards
    value = accumulated(weight * gain, following(jnp.where(here, 0.0, 1.0)), data)
    return _Cycles(here, complete, value, steps if average else cycles, mean, error, number)


def _raised(flags: Bool[Array, " n"], data: Trajectories) -> Bool[Array, " n"]:
    """Whether a flag is set in this row or in an earlier row of the same episode."""
    raised = jnp.cumsum(jnp.where(flags, 1, 0))
    first = data.valid & (data.times == 0)
    before = jnp.where(first, raised - jnp.where(flags, 1, 0), 0)
    begun = jax.ops.segment_sum(before, data.episode, flags.size)
    return raised > begun[data.episode]
