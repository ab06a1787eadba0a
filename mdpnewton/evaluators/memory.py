"""Batches of episodes, and the ones before them that are used again."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mdpnewton.curvature import scores
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories, joined


class Memory:
    """Plays batches of episodes and keeps the last few.

    Attributes:
        simulator: Plays.
        episodes: At least so many episodes a batch.
        least_transitions: Batches grow by `episodes` until they hold so many transitions.
        reuse: How many batches are used at once, the newest included.
        batches: What is kept, the newest last.
        transitions: How many were ever played.
    """

    def __init__(self, simulator: Simulator, episodes: int, least_transitions: int, reuse: int):
        for name, number, least in (
            ("episodes", episodes, 1),
            ("least_transitions", least_transitions, 0),
            ("reuse", reuse, 1),
        ):
            if number < least:
                raise ValueError(f"`{name}` must be at least {least}, got {number}.")
        self.simulator, self.episodes = simulator, episodes
        self.least_transitions, self.reuse = least_transitions, reuse
        self.batches: list[Trajectories] = []
        self.transitions = 0

    def play(self, key: PRNGKeyArray, policy: Any, w: PyTree, **options: Any) -> Trajectories:
        """A new batch, which is kept, while the oldest may go."""
        rounds = [self.simulator.play(key, policy, w, self.episodes, **options)]
        while sum(batch.transitions for batch in rounds) < self.least_transitions:
            first = len(rounds) * self.episodes
            rounds.append(
                self.simulator.play(key, policy, w, self.episodes, first=first, **options)
            )
        batch = joined(rounds) if len(rounds) > 1 else rounds[0]
        self.batches = [*self.batches, batch][-self.reuse :]
        self.transitions += batch.transitions
        return batch

    def all(self) -> Trajectories:
        """Every batch that is kept, as one."""
        return joined(self.batches)

    def fresh_return(self, key: PRNGKeyArray, policy: Any, w: PyTree, discount: float) -> float:
        """The mean discounted return of another batch, which is counted but not kept."""
        played = self.simulator.play(key, policy, w, self.episodes)
        self.transitions += played.transitions
        return estimated_return(played, discount)[0]


def estimated_return(
    batch: Trajectories, discount: float, episode: np.ndarray | None = None
) -> tuple[float, float]:
    """The mean discounted return of the episodes, and its standard error.

    Args:
        batch: Whole episodes.
        discount: gamma.
        episode: The episode of each row, where rows don't say it themselves because episodes
            were cut.
    """
    if episode is None:
        returns = batch.returns(discount)
    else:
        rewards = np.asarray(batch.rewards) * discount ** np.asarray(batch.times)
        returns = np.bincount(episode, rewards)
    error = returns.std(ddof=1) / np.sqrt(len(returns)) if len(returns) > 1 else 0.0
    return float(returns.mean()), float(error)


@eqx.filter_jit
def importance_ratios(policy: Any, w: PyTree, data: Trajectories) -> Float[Array, " n"]:
    """pi(a|s; w) over the probability with which a was chosen; 1 for padding."""
    log_probs = jax.vmap(policy.log_prob, in_axes=(None, 0, 0))(w, data.observations, data.actions)
    return jnp.where(data.valid, jnp.exp(log_probs - data.log_probs), 1.0)


def score_rows(policy: Any, w: PyTree, data: Trajectories) -> Float[Array, "n m"]:
    """grad log pi of every row, over the flattened parameters."""
    leaves = jax.tree.leaves(scores(policy, w, data.observations, data.listed_actions))
    return jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in leaves], axis=1)


def reached(data: Trajectories, ratios: Float[Array, " n"], discount: float) -> Float[Array, " n"]:
    r"""$\gamma^t \prod_{k \leq t} \rho_k$ along each episode: what a pair weighs under `w`.

    The product turns the states and actions of another policy into those of this one without
    bias (Precup et al. 2000); its variance grows with the horizon.
    """
    logs = jnp.where(data.valid, jnp.log(ratios), 0.0)
    total = jnp.cumsum(logs)
    first = data.valid & (data.times == 0)
    begun = jax.ops.segment_sum(jnp.where(first, total - logs, 0.0), data.episode, logs.size)
    product = jnp.exp(jnp.where(data.valid, total - begun[data.episode], 0.0))
    return data.discounts(discount) * product
