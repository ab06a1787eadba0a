"""Several critics side by side, of which the one that foretells best is used."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from mdpnewton.checks import instance, number, refuse
from mdpnewton.evaluators.critics import Critic
from mdpnewton.simulators.trajectories import Trajectories, accumulated


class Rivals(Critic):
    r"""Critics that are all fitted, and judged by what they foretell of transitions to come.

    Before a fit, every critic says what the newest transitions, which it has not been fitted to,
    are going to return. Its error there is $\sum_k \gamma^k \delta_{t+k}$, the discounted sum of
    its temporal differences up to the end of the episode. The mean squares of these errors,
    relative to the mean over the critics, are averaged over the fits; the values are those of the
    critic with the smallest average, or of the first one as long as none is smaller.

    Attributes:
        critics: The critics, at least two.
        old: Share of the average that is kept at each fit.
        errors: The averages.
    """

    critics: tuple[Critic, ...]
    old: float
    errors: Float[Array, " k"]

    def __init__(self, *critics: Critic, old: float = 0.8):
        if len(critics) < 2:
            refuse("Rivals", "critics", f"needs at least two, got {len(critics)}")
        for one in critics:
            instance("Rivals", "critics", one, Critic, "pass critics, as `LinearCritic(features)`")
        self.critics = critics
        self.old = number("Rivals", "old", old, least=0, below=1)
        self.errors = jnp.ones(len(critics))

    def judged(self, data: Trajectories, discount: float, fresh: Bool[Array, " n"]) -> "Rivals":
        """See `Critic`."""
        count = fresh.sum(dtype=float)
        squares = jnp.stack(
            [
                jnp.sum(jnp.where(fresh, _errors(one, data, discount) ** 2, 0.0))
                for one in self.critics
            ]
        )
        mean = squares.mean()
        known = (count > 0) & (mean > 0) & jnp.isfinite(mean)
        newest = squares / jnp.where(known, mean, 1.0)
        errors = jnp.where(known, self.old * self.errors + (1 - self.old) * newest, self.errors)
        judged: Rivals = eqx.tree_at(lambda rivals: rivals.errors, self, errors)
        return judged

    @eqx.filter_jit
    def fitted(self, data: Trajectories, discount: float, ratios: Float[Array, " n"]) -> "Rivals":
        """See `Critic`."""
        fitted = tuple(one.fitted(data, discount, ratios) for one in self.critics)
        found: Rivals = eqx.tree_at(lambda rivals: rivals.critics, self, fitted)
        return found

    def values(self, observations: PyTree) -> Float[Array, " n"]:
        """See `Critic`."""
        found = jnp.stack([one.values(observations) for one in self.critics])
        return found[jnp.argmin(self.errors)]


def _errors(critic: Critic, data: Trajectories, discount: float) -> Float[Array, " n"]:
    """What is returned from each transition on, less what the critic said."""
    after = jnp.where(data.terminated, 0.0, critic.values(data.next_observations))
    surprise = data.rewards + discount * after - critic.values(data.observations)
    return accumulated(surprise, jnp.full(surprise.shape, discount), data)
