"""A linear-quadratic problem as a simulator: states and costs as samples, nothing else."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mdpnewton.checks import instance, whole
from mdpnewton.models.quadratic import QuadraticMDP
from mdpnewton.simulators.abstract import Spaces
from mdpnewton.simulators.compiled import CompiledSimulator


class QuadraticSimulator(CompiledSimulator):
    r"""Plays a `QuadraticMDP`: $s' = As + Ba + N(0, W)$ with the reward $-s^\top Qs - a^\top Ra$.

    What is learnt from it is learnt without the model, and can be held against what
    `QuadraticEvaluator` and `QuadraticMDP.optimal_gain` know.

    Attributes:
        mdp: The problem.
        steps: Number of steps after which episodes are truncated. Choose it so that the discount to
            its power is negligible.
    """

    mdp: QuadraticMDP
    noise_root: Float[Array, "d d"]
    start_root: Float[Array, "d d"]
    steps: int = eqx.field(static=True)

    def __init__(self, mdp: QuadraticMDP, horizon: int):
        call, remedy = "QuadraticSimulator", "build one with `QuadraticMDP(...)`"
        self.mdp = instance(call, "mdp", mdp, QuadraticMDP, remedy)
        self.noise_root = jnp.asarray(_root(mdp.noise))
        self.start_root = jnp.asarray(_root(mdp.start_covariance))
        self.steps = whole(call, "horizon", horizon, 1)

    @property
    def spaces(self) -> Spaces:
        """Vectors of any size."""
        wide = np.full(self.mdp.n_actions, np.inf)
        return Spaces(observation=self.mdp.n_states, low=-wide, high=wide)

    @property
    def horizon(self) -> int:
        """Number of steps after which episodes are truncated."""
        return self.steps

    def reset(self, key: PRNGKeyArray) -> Float[Array, " d"]:
        """A first state."""
        noise = jax.random.normal(key, (self.mdp.n_states,))
        return self.mdp.start_mean + self.start_root @ noise

    def step(
        self, key: PRNGKeyArray, state: Float[Array, " d"], action: Float[Array, " k"]
    ) -> tuple[Float[Array, " d"], Float[Array, ""], Bool[Array, ""]]:
        """See `CompiledSimulator`; no state is final."""
        noise = jax.random.normal(key, (self.mdp.n_states,))
        after = self.mdp.A @ state + self.mdp.B @ action + self.noise_root @ noise
        return after, self.mdp.reward(state, action), jnp.array(False)


def _root(covariance: Array) -> np.ndarray:
    """A matrix whose square is the covariance, which may be singular."""
    values, vectors = np.linalg.eigh(np.asarray(covariance))
    root: np.ndarray = vectors * np.sqrt(np.maximum(values, 0.0))
    return root
