"""Batches of episodes, and earlier batches that are used again."""

import math
from copy import copy
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import instance, number, refuse, whole
from mdpnewton.curvature import scores
from mdpnewton.evaluation import State
from mdpnewton.plain import entries, reals, sequence
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories, concatenated

USUAL = 9  # batches that tell how much returns usually differ
FEW, GROWTH = 200, 1.5  # transitions that a batch needs at first, and how that number grows
FIELDS = tuple(field.name for field in fields(Trajectories))


class Memory:
    """Plays batches of episodes and keeps the last few.

    Attributes:
        simulator: Plays the episodes.
        episodes: Minimum number of episodes per batch.
        least_transitions: Minimum number of transitions per batch, see `played`.
        share: Share of all transitions so far that is enough for a batch of two episodes, if it has
            `few` of them: a short training has small batches then, and so steps enough.
        reuse: Number of batches per evaluation, including the newest.
        capacity: Number of rows to which the batches are padded, so that all evaluations have one
            shape and are compiled once. The oldest batches are dropped if there is no room. None
            for a few shapes and no limit.
        owner: Name of the evaluator that the memory belongs to; error messages begin with it.
        batches: The stored batches, with the newest last.
        transitions: Number of transitions played so far.
        judgements: Mean return of the last batches and how much their episodes differ, see
            `judged`.
        few: Number of transitions that a batch needs, however few have been played before it. It
            grows with every step that was undone, see `doubt`.
    """

    def __init__(
        self,
        simulator: Simulator,
        episodes: int,
        least_transitions: int = 0,
        reuse: int = 1,
        capacity: int | None = None,
        *,
        share: float = math.inf,
        owner: str = "Memory",
    ):
        remedy = "pass one that plays, as `GymnasiumSimulator('CartPole-v1')`"
        self.simulator = instance(owner, "simulator", simulator, Simulator, remedy)
        self.episodes = whole(owner, "episodes", episodes, 1)
        self.least_transitions = whole(owner, "least_transitions", least_transitions)
        self.share = number(owner, "share", share, above=0, infinite=True)
        self.reuse = whole(owner, "reuse", reuse, 1)
        self.capacity = None if capacity is None else whole(owner, "capacity", capacity, 1)
        self.owner = owner
        self.batches: list[Trajectories] = []
        self.transitions = 0
        self.judgements: list[tuple[float, float]] = []
        self.few = float(FEW)

    def play(self, key: PRNGKeyArray, policy: Any, w: PyTree, **options: Any) -> Trajectories:
        """Play a new batch and keep it."""
        enough = max(self.few, self.share * self.transitions)
        size = (self.episodes, self.least_transitions, enough)
        before = self.batches[-1] if self.batches else None
        return self.keep(played(self.simulator, key, policy, w, *size, before, **options))

    def keep(self, batch: Trajectories) -> Trajectories:
        """Count a batch and keep it, in place of the oldest if there are too many."""
        self.batches = [*self.batches, batch][-self.reuse :]
        self.transitions += batch.transitions
        if self.capacity is not None:
            while len(self.batches) > 1 and self._rows() > self.capacity:
                self.batches = self.batches[1:]
            if self._rows() > self.capacity:
                self.capacity = 2 * self._rows()
        return batch

    def doubt(self) -> None:
        """Let batches be longer from now on: a step failed, so that there was too much noise."""
        self.few *= GROWTH

    def all(self) -> Trajectories:
        """All stored batches, joined into one."""
        return concatenated(self.batches, self.capacity)

    def judged(self, batch: Trajectories, discount: float) -> tuple[float, float]:
        """The mean discounted return of a batch, and its standard error.

        If the returns of its episodes differ by more than is usual among the last batches, what is
        usual counts: a batch with a catastrophe must not be excused by the noise that it brings.
        A single episode is compared with the mean return of the batch before.
        """
        returns = batch.returns(discount)
        mean, error = estimated_return(batch, discount)
        own = error * len(returns) ** 0.5
        if len(returns) < 2:
            before = self.judgements[-1][0] if self.judgements else 0.0
            own = abs(mean - before)
        usual = np.median([spread for _, spread in self.judgements] or [own])
        self.judgements = [*self.judgements, (mean, own)][-USUAL:]
        return mean, float(min(own, usual)) / len(returns) ** 0.5

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
            "capacity": self.capacity,
            "judgements": [list(one) for one in self.judgements],
            "few": self.few,
        }

    def restored(self, state: State) -> "Memory":
        """Return a copy of this memory with the batches and the count of a saved state."""
        call = f"{self.owner}.restored"
        batches, transitions, capacity, judgements, few = entries(
            call, state, "batches", "transitions", "capacity", "judgements", "few"
        )
        found = copy(self)
        found.capacity = None if capacity is None else whole(call, "capacity", capacity, 1)
        found.judgements = []
        for pair in sequence(call, "judgements", judgements):
            mean, spread = reals(call, "judgements", pair, 2)
            found.judgements.append((mean, spread))
        found.transitions = whole(call, "transitions", transitions)
        (found.few,) = reals(call, "few", [few], 1)
        found.batches = [_batch(call, batch) for batch in sequence(call, "batches", batches)]
        if len(found.batches) > self.reuse:
            refuse(call, "batches", f"has {len(batches)}, more than `reuse={self.reuse}` keeps")
        return found

    def _rows(self) -> int:
        return sum(batch.transitions for batch in self.batches)

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
    enough: float = math.inf,
    before: Trajectories | None = None,
    **options: Any,
) -> Trajectories:
    """Play at least `episodes` episodes, and as many as `least_transitions` need.

    From the second episode on, `enough` transitions are enough.

    They are played in rounds. A round has as many episodes as are sure to be needed if none is
    longer than the horizon, or than twice the longest so far; that number is a power of two,
    because a compiled simulator is compiled for each.

    Args:
        simulator: Plays the episodes.
        key: Random key.
        policy: The policy.
        w: Its parameters.
        episodes: Minimum number of episodes.
        least_transitions: Minimum number of transitions.
        enough: Minimum number of transitions of two or more episodes, if it is smaller.
        before: The batch before this one, which tells how long episodes are.
        options: Handed to `simulator.play`.
    """
    known = [] if before is None else [before]
    rounds: list[Trajectories] = []
    number, so_far, least = 0, 0, min(least_transitions, enough)
    while not rounds or so_far < (least if number > 1 else least_transitions):
        longest = max((int(np.asarray(one.times).max()) + 1 for one in known), default=math.inf)
        sure = int(max(least - so_far, 0) // min(simulator.horizon, 2 * longest))
        count = max(1 << (sure.bit_length() - 1) if sure else 1, 0 if rounds else episodes)
        rounds.append(simulator.play(key, policy, w, count, first=number, **options))
        number, so_far = number + count, so_far + rounds[-1].transitions
        known.append(rounds[-1])
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
