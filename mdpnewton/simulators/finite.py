"""A finite MDP as a simulator, on which sampled evaluators are checked."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from mdpnewton.checks import instance, refuse, whole
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.simulators.abstract import Spaces
from mdpnewton.simulators.compiled import CompiledSimulator


class FiniteSimulator(CompiledSimulator):
    """Samples states and rewards of a `FiniteMDP`; observations are the state numbers.

    Attributes:
        horizon: Number of steps after which episodes are truncated. Choose it so that the discount
            to its power is negligible; otherwise the episodes are those of a finite-horizon
            problem, as they shall be if that is the criterion.
    """

    transition: Float[Array, "S A S"]
    reward: Float[Array, "S A"]
    start: Float[Array, " S"]
    stop: Float[Array, "S A"] | None
    steps: int = eqx.field(static=True)

    def __init__(self, mdp: FiniteMDP, horizon: int):
        call = "FiniteSimulator"
        instance(call, "mdp", mdp, FiniteMDP, "for another problem subclass `CompiledSimulator`")
        if mdp.is_sparse:
            refuse(call, "mdp", "needs dense transitions of shape (S, A, S), got sparse ones")
        self.transition = jnp.cumsum(jnp.asarray(np.asarray(mdp.transition)), axis=2)
        self.reward = jnp.asarray(mdp.reward)
        self.start = jnp.cumsum(jnp.asarray(mdp.start))
        self.stop = None if mdp.stop is None else jnp.asarray(mdp.stop)
        self.steps = whole(call, "horizon", horizon, 1)

    @property
    def spaces(self) -> Spaces:
        """Integer observations and integer actions."""
        return Spaces(observation=0, actions=self.reward.shape[1])

    @property
    def horizon(self) -> int:
        """Number of steps after which episodes are truncated."""
        return self.steps

    def reset(self, key: PRNGKeyArray) -> Int[Array, ""]:
        """A state drawn from the start distribution."""
        return _drawn(key, self.start)

    def step(
        self, key: PRNGKeyArray, state: Int[Array, ""], action: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Float[Array, ""], Bool[Array, ""]]:
        """See `CompiledSimulator`."""
        ends = jnp.array(False)
        if self.stop is not None:
            key, last = jax.random.split(key)
            ends = jax.random.uniform(last) < self.stop[state, action]
        after = _drawn(key, self.transition[state, action])
        return after, self.reward[state, action], ends


def _drawn(key: PRNGKeyArray, cumulative: Float[Array, " S"]) -> Int[Array, ""]:
    point = jax.random.uniform(key, maxval=cumulative[-1])
    return jnp.searchsorted(cumulative, point, side="right").clip(0, cumulative.size - 1)
