"""Sampled episodes as one flat list of transitions, and the recursions that run along them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree


class Trajectories(eqx.Module):
    """Transitions in the order of time, episode after episode.

    Rows that are not `valid` are padding: they may occur anywhere and have no weight.

    Attributes:
        observations: Observations that the policy saw, with leading axis n.
        actions: Actions that the policy chose, before any clipping by the environment.
        rewards: Rewards of the transitions.
        next_observations: Observations after the transitions, also at the end of an episode.
        terminated: Whether the episode terminated with this transition, so that nothing follows and
            values bootstrap from 0.
        ends: Whether the transition is the last of its episode, by termination or by truncation.
        times: Number of the transition in its episode, from 0.
        log_probs: log pi of the action under the policy that chose it.
        valid: Whether the row is a transition; False for padding.
    """

    observations: PyTree[Array]
    actions: PyTree[Array]
    rewards: Float[Array, "*n"]
    next_observations: PyTree[Array]
    terminated: Bool[Array, "*n"]
    ends: Bool[Array, "*n"]
    times: Int[Array, "*n"]
    log_probs: Float[Array, "*n"]
    valid: Bool[Array, "*n"]

    @property
    def transitions(self) -> int:
        """Number of valid transitions."""
        return int(np.asarray(self.valid).sum())

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return int((np.asarray(self.ends) & np.asarray(self.valid)).sum())

    @property
    def episode(self) -> Int[Array, " n"]:
        """Number of the episode of each row."""
        over = (self.ends & self.valid).astype(int)
        return over.cumsum() - over

    @property
    def listed_actions(self) -> PyTree[Array]:
        """The actions as `WeightedPairs` lists them: one per state."""
        return jax.tree.map(lambda leaf: leaf[:, None], self.actions)

    def discounts(self, discount: float) -> Float[Array, " n"]:
        """gamma^t of every row, or 0 for padding."""
        return jnp.where(self.valid, discount ** jnp.asarray(self.times, float), 0.0)

    def returns(self, discount: float = 1.0) -> np.ndarray:
        """Discounted sum of rewards, one number per episode; infinite if it is too large."""
        valid = np.asarray(self.valid)
        over = np.asarray(self.ends)[valid].astype(int)
        rewards = np.asarray(self.rewards) * discount ** np.asarray(self.times)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.bincount(over.cumsum() - over, rewards[valid])


def accumulated(
    terms: Float[Array, "n *d"], decay: Float[Array, " n"], trajectories: Trajectories
) -> Float[Array, "n *d"]:
    r"""The reverse sum $x_t = u_t + c_t x_{t+1}$ along every episode.

    This is the return for $u_t = r_t, c_t = \gamma$, the generalised advantage for temporal
    differences and $\gamma\lambda$, and a row of LSTD for differences of features.

    Args:
        terms: The terms $u_t$.
        decay: Weight $c_t$ of what follows transition t; ignored at the ends of episodes.
        trajectories: Transitions, which say where episodes end.
    """
    on = jnp.where(trajectories.ends | ~trajectories.valid, 0.0, decay)
    shape = (-1,) + (1,) * (terms.ndim - 1)
    terms = jnp.where(trajectories.valid.reshape(shape), terms, 0.0)

    def step(following: Array, here: tuple[Array, Array]) -> tuple[Array, Array]:
        weight, term = here
        total = term + weight * following
        return total, total

    return jax.lax.scan(step, jnp.zeros_like(terms[0]), (on, terms), reverse=True)[1]


def concatenated(batches: list[Trajectories], length: int | None = None) -> Trajectories:
    """Join the valid rows of all batches, padded to a length.

    Compiled functions meet few different shapes by default: four per octave. The rows themselves
    are chosen by NumPy, because JAX compiles even `asarray` per shape.

    Args:
        batches: The batches.
        length: Number of rows of the result; the next of the few lengths if it is not given.
    """
    rows = [np.asarray(batch.valid) for batch in batches]
    total = sum(int(row.sum()) for row in rows)
    unit = max(2 ** (max(total, 1).bit_length() - 3), 1)
    padding = -total % unit if length is None else length - total

    def join(*leaves: Array | np.ndarray) -> np.ndarray:
        kept = [np.asarray(leaf)[row] for leaf, row in zip(leaves, rows, strict=True)]
        kept.append(np.zeros((padding, *kept[0].shape[1:]), kept[0].dtype))
        return np.concatenate(kept)

    joined: Trajectories = jax.tree.map(join, *batches)
    return joined


def selected(trajectories: Trajectories, rows: np.ndarray) -> Trajectories:
    """The rows for which `rows` is True; `ends` keeps its values."""

    def keep(leaf: Array) -> Array:
        chosen: Array = jax.device_put(np.asarray(leaf)[rows])
        return chosen

    kept: Trajectories = jax.tree.map(keep, trajectories)
    return kept
