"""Exact evaluation of finite MDPs: every pair with its exact weights."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from mdpnewton.checks import instance
from mdpnewton.evaluation import Evaluator, WeightedPairs
from mdpnewton.models.chains import policy_chain
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.policy_chain import PolicyChain


class FiniteEvaluator(Evaluator):
    """Exact values and occupancies of a policy on a `FiniteMDP`, of whatever criterion.

    States and actions are the integers 0..S-1 and 0..A-1. It takes two linear solves, or for a
    finite horizon one sweep back and one forth.
    """

    def __init__(self, mdp: FiniteMDP):
        remedy = "build one with `FiniteMDP(transition, reward, start, discount)`"
        self.mdp: FiniteMDP = instance("FiniteEvaluator", "mdp", mdp, FiniteMDP, remedy)
        n_states, n_actions = mdp.reward.shape
        self._states = jnp.arange(n_states)
        self._actions = jnp.broadcast_to(jnp.arange(n_actions), (n_states, n_actions))

    def closed_loop(self, policy: Any, w: PyTree) -> PolicyChain:
        """The Markov chain of the MDP under `policy` at `w`."""
        table = getattr(policy, "table_shape", None)
        if table is not None and table != self.mdp.reward.shape:
            raise ValueError(
                f"`FiniteEvaluator` got a policy over {table[0]} states and {table[1]} actions "
                f"for an MDP with {self.mdp.n_states} and {self.mdp.n_actions}; build the policy "
                f"for this MDP's shape {self.mdp.reward.shape}."
            )
        probabilities = np.asarray(_probabilities(policy, w, self._states, self._actions))
        sums = probabilities.sum(axis=1)
        # Only the numbers can tell that a policy is not finite: it passes as NaN and is reported.
        if (np.abs(sums - 1) > 1e-6).any():
            state = int(np.argmax(np.abs(sums - 1)))
            raise ValueError(
                f"`FiniteEvaluator` found action probabilities of state {state} that sum to "
                f"{sums[state]:.6g} over the MDP's {self.mdp.n_actions} actions; the policy must "
                f"be normalised over exactly these actions (see `check_policy`)."
            )
        return policy_chain(self.mdp, probabilities)

    def evaluate(self, key: Any, policy: Any, w: PyTree) -> WeightedPairs:
        """The exact weights of all S x A pairs at `w`; `key` is not used."""
        loop = self.closed_loop(policy, w)
        if not np.isfinite(loop.probabilities).all():
            occupancy = value = advantage = np.full(self.mdp.reward.shape, np.nan)
            state_value = np.full(self.mdp.n_states, np.nan)
            objective = float("nan")
        else:
            occupancy = loop.occupancy
            value, advantage = loop.value_weights, loop.advantage_weights
            objective, state_value = loop.objective, loop.mean_value
        return WeightedPairs(
            states=self._states,
            actions=self._actions,
            occupancy=jnp.asarray(occupancy),
            value=jnp.asarray(value),
            advantage=jnp.asarray(advantage),
            objective=objective,
            state_value=jnp.asarray(state_value),
            complete=True,
            closed_loop=loop,
        )

    def objective(self, key: Any, policy: Any, w: PyTree) -> float:
        """U(w) by one solve; `key` is not used."""
        loop = self.closed_loop(policy, w)
        return loop.objective if np.isfinite(loop.probabilities).all() else float("nan")


@eqx.filter_jit
def _probabilities(policy: Any, w: PyTree, states: Array, actions: Array) -> Float[Array, "n k"]:
    return jnp.exp(policy.log_probs(w, states, actions))
