"""Batches of episodes, and earlier batches that are used again."""

from copy import copy
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import instance, refuse, whole
from mdpnewton.curvature import scores
from mdpnewton.evaluation import State
from mdpnewton.plain import entries, sequence
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories, concatenated

FIELDS = tuple(field.name for field in fields(Trajectories))


class Memory:
    """Plays batches of episodes and keeps the last few.

    Attributes:
        simulator: Plays the episodes.
        episodes: Minimum number of episodes per batch.
        least_transitions: Minimum number of transitions per batch. A batch grows by `episodes`
            episodes at a time until it has that many.
        reuse: Number of batches per evaluation, including the newest.
        owner: Name of the evaluator that the memory belongs to; error messages begin with it.
        batches: The stored batches, with the newest last.
        transitions: Number of transitions played so far.
    """

    def __init__(
        self,
        simulator: Simulator,
        episodes: int,
        least_transitions: int = 0,
        reuse: int = 1,
        *,
        owner: str = "Memory",
    ):
        remedy = "pass one that plays, as `GymnasiumSimulator('CartPole-v1')`"
        self.simulator = instance(owner, "simulator", simulator, Simulator, remedy)
        self.episodes = whole(owner, "episodes", episodes, 1)
        self.least_transitions = whole(owner, "least_transitions", least_transitions)
        self.reuse = whole(owner, "reuse", reuse, 1)
        self.owner = owner
        self.batches: list[Trajectories] = []
        self.transitions = 0

    def play(self, key: PRNGKeyArray, policy: Any, w: PyTree, **options: Any) -> Trajectories:
        """Play a new batch and keep it."""
        return self.keep(
            played(self.simulator, key, policy, w, self.episodes, self.least_transitions, **options)
        )

    def keep(self, batch: Trajectories) -> Trajectories:
        """Count a batch and keep it, in place of the oldest if there are too many."""
        self.batches = [*self.batches, batch][-self.reuse :]
        self.transitions += batch.transitions
        return batch

    def all(self) -> Trajectories:
        """All stored batches, joined into one."""
        return concatenated(self.batches)

    def fresh_return(self, key: PRNGKeyArray, policy: Any, w: PyTree, discount: float) -> float:
        """The mean discounted return of another batch, which is counted but not kept."""
        batch = self.simulator.play(key, policy, w, self.episodes)
        self.transitions += batch.transitions
        return estimated_return(batch, discount)[0]

    def state(self) -> State:
        """The stored batches, each by the fields of `Trajectories`, and the transition count."""
        return {
            "batches": [
                {name: self._plain(name, getattr(batch, name)) for name in FIELDS}
                for batch in self.batches
            ],
            "transitions": self.transitions,
        }

    def restored(self, state: State) -> "Memory":
        """Return a copy of this memory with the batches and the count of a saved state."""
        call = f"{self.owner}.restored"
        batches, transitions = entries(call, state, "batches", "transitions")
        found = copy(self)
        found.transitions = whole(call, "transitions", transitions)
        found.batches = [_batch(call, batch) for batch in sequence(call, "batches", batches)]
        if len(found.batches) > self.reuse:
            refuse(call, "batches", f"has {len(batches)}, more than `reuse={self.reuse}` keeps")
        return found

    def _plain(self, name: str, part: PyTree) -> Any:
        if isinstance(part, dict):
            return {key: self._plain(name, each) for key, each in part.items()}
        if not isinstance(part, jax.Array | np.ndarray):
            raise ValueError(
                f"`{self.owner}.state()` gives {name} that are arrays or dictionaries of arrays, "
                f"and these are of type {type(part).__name__}."
            )
        return np.asarray(part)


def played(
    simulator: Simulator,
    key: PRNGKeyArray,
    policy: Any,
    w: PyTree,
    episodes: int,
    least_transitions: int = 0,
    **options: Any,
) -> Trajectories:
    """Play rounds of `episodes` episodes until there are at least `least_transitions`."""
    rounds = [simulator.play(key, policy, w, episodes, **options)]
    while sum(batch.transitions for batch in rounds) < least_transitions:
        first = len(rounds) * episodes
        rounds.append(simulator.play(key, policy, w, episodes, first=first, **options))
    return concatenated(rounds) if len(rounds) > 1 else rounds[0]


def _batch(call: str, state: Any) -> Trajectories:
    found = dict(zip(FIELDS, entries(call, state, *FIELDS), strict=True))
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(found)]
    if len({leaf.shape[:1] for leaf in leaves}) != 1 or not leaves[0].shape:
        refuse(call, "batches", "needs arrays of one length in a batch, got different ones")
    return Trajectories(**jax.device_put(found))


def estimated_return(
    batch: Trajectories, discount: float, episode: np.ndarray | None = None
) -> tuple[float, float]:
    """The mean discounted return of the episodes, and its standard error, without warnings.

    Args:
        batch: Whole episodes.
        discount: Discount factor gamma.
        episode: Number of the episode of each row. It is needed if episodes were cut, because the
            rows do not tell it then.
    """
    if episode is None:
        returns = batch.returns(discount)
    else:
        rewards = np.asarray(batch.rewards) * discount ** np.asarray(batch.times)
        returns = np.bincount(episode, rewards)
    with np.errstate(over="ignore", invalid="ignore"):  # rewards may be too large for squares
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
    r"""$\gamma^t \prod_{k \leq t} \rho_k$ along each episode: the weight of a pair under `w`.

    The product corrects for the states and actions of another policy without bias (Precup et al.
    2000); its variance grows with the horizon.
    """
    logs = jnp.where(data.valid, jnp.log(ratios), 0.0)
    total = jnp.cumsum(logs)
    first = data.valid & (data.times == 0)
    begun = jax.ops.segment_sum(jnp.where(first, total - logs, 0.0), data.episode, logs.size)
    product = jnp.exp(jnp.where(data.valid, total - begun[data.episode], 0.0))
    return data.discounts(discount) * product
