"""H12 from episodes: how the score of a decision meets the gradient of all that follows it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mdpnewton.simulators.trajectories import Trajectories, accumulated


class EpisodeCrossing(eqx.Module):
    r"""The part of the Hessian that joins two decisions of an episode, without bias.

    Differentiating the gradient once more, as infinitely differentiable estimators do (Foerster et
    al. 2018), gives $H_{12} = E\sum_j \nabla l_j \sum_{k>j} c_k \nabla^\top l_k$ with
    $l_j = \log\pi(a_j|s_j)$ and $c_k = \gamma^k Q_k$. Two baselines lower its variance and leave
    its mean: the advantage in place of Q in c, and, taken off the inner sum, what that sum is on
    average at the same time or in the same state in other episodes, an estimate of $\nabla V$.

    All of this is one linear map M from a number per row to a number per row, $H_{12} = S^\top M S$
    with S the scores. A product with $H_{12} + H_{12}^\top$ costs one pass over the scores and one
    back, whatever the policy.

    Attributes:
        data: The episodes.
        weights: Weights $c_k$: occupancy times advantage, as in `WeightedPairs`.
        ratios: Products of importance ratios up to each decision; 1 for episodes of this policy.
        reach: Weights of the rows in the fit of $\nabla V$.
        discounts: $\gamma^t$ of every row, or 0 for padding.
        features: Features of every state for $\nabla V$, or None for the mean of the time step.
    """

    data: Trajectories
    weights: Float[Array, " n"]
    ratios: Float[Array, " n"]
    reach: Float[Array, " n"]
    discounts: Float[Array, " n"]
    features: Float[Array, "n f"] | None = None

    def cross_term(self, scores: np.ndarray) -> np.ndarray:
        """H12, shape (m, m), from scores of shape (n, 1, m)."""
        table = jnp.asarray(scores[:, 0])
        return np.asarray(_crossed_table(self, table))

    def cross_weights(self, along: np.ndarray) -> np.ndarray:
        """Weights of scores, (n, 1), that sum to (H12 + H12')p; `along` is p'grad log pi."""
        return np.asarray(_both_ways(self, jnp.asarray(along)))

    def following(self, x: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """M x: the sum of c x over what follows each row, less what it is in other episodes."""
        terms = self.weights[:, None] * x
        togo = accumulated(terms, jnp.ones_like(self.weights), self.data) - terms
        return togo - self.ratios[:, None] * self._usual(togo)

    def _usual(self, togo: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """What `togo` is on average at the same time, or in the same state, in other episodes."""
        if self.features is None:
            valid = jnp.where(self.data.valid, 1.0, 0.0)[:, None]
            times, n = self.data.times, len(valid)
            total = jax.ops.segment_sum(valid * togo, times, n)[times] - valid * togo
            others = jax.ops.segment_sum(valid, times, n)[times] - valid
            usual: Array = jnp.where(others > 0, total / jnp.where(others > 0, others, 1.0), 0.0)
            return usual
        scale = jnp.where(self.discounts > 0, self.discounts, 1.0)[:, None]
        half = self.data.episode % 2
        fits = []
        for other in (1, 0):  # each half of the episodes gets what the other half shows
            rows = jnp.where(half == other, self.reach, 0.0)
            fits.append(self.features @ weighted_fit(self.features, togo / scale, rows))
        usual = self.discounts[:, None] * jnp.where((half == 0)[:, None], fits[0], fits[1])
        return usual


@eqx.filter_jit
def _crossed_table(crossing: EpisodeCrossing, table: Array) -> Any:
    return table.T @ crossing.following(table)


@eqx.filter_jit
def _both_ways(crossing: EpisodeCrossing, along: Array) -> Any:
    back = jax.linear_transpose(crossing.following, along)
    return crossing.following(along) + back(along)[0]


def weighted_fit(
    features: Float[Array, "n f"], target: Float[Array, "n *d"], weights: Float[Array, " n"]
) -> Float[Array, "f *d"]:
    """Weighted least squares, with a tiny ridge for features that never occur."""
    weighted = (weights[:, None] * features).T
    matrix = weighted @ features
    ridge = 1e-9 * jnp.maximum(jnp.trace(matrix) / matrix.shape[0], 1e-12)
    theta: Array = jnp.linalg.solve(matrix + ridge * jnp.eye(matrix.shape[0]), weighted @ target)
    return theta
