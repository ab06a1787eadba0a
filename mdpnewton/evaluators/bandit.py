"""Decisions without a state or a future: samples of a function, weighed and used again."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mdpnewton.evaluation import Evaluator, WeightedPairs

Weighting = Literal["pooled", "importance"]
Shaping = Callable[[np.ndarray], np.ndarray]


def rank_utilities(values: Any) -> Float[np.ndarray, " n"]:
    r"""Weights by rank in place of values: no scale, no offset, none negative, sum one.

    $u_k \propto \max(0, \log(n/2 + 1) - \log k)$ for the k-th best of n, Wierstra et al. (2014).
    Equal values share their utilities evenly. NaN counts as the least.

    Paper: the function of Wierstra et al., which takes 1/n off every utility. Here: nothing is
    taken off, because then the utilities add up to zero, and so do EM's denominator and the
    curvature of the mean.

    Args:
        values: Shape (n,), larger is better.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"`rank_utilities(values)` needs shape (n,), n >= 1, got {values.shape}.")
    values = np.where(np.isnan(values), -np.inf, values)
    n = values.size
    utilities = np.maximum(0.0, np.log(n / 2 + 1) - np.log(np.arange(1, n + 1)))
    _, group, size = np.unique(-values, return_inverse=True, return_counts=True)
    shared = np.add.reduceat(utilities, np.cumsum(size) - size) / size
    return shared[group] / utilities.sum()


def shaped(pairs: WeightedPairs, shaping: Shaping = rank_utilities) -> WeightedPairs:
    """An evaluation with its values replaced by utilities, whose mean is one.

    Args:
        pairs: Of sampled pairs. Pairs of no occupancy keep no value.
        shaping: From values of shape (n,) to utilities that are not negative.
    """
    occupancy = np.asarray(pairs.occupancy, dtype=float)
    seen = occupancy > 0
    utilities = np.zeros_like(occupancy)
    utilities[seen] = shaping(np.asarray(pairs.value)[seen] / occupancy[seen])
    return _with_utilities(pairs, utilities)


class Shaped(Evaluator):
    """Another evaluator with `shaped` values; its objective stays.

    Attributes:
        evaluator: Gives sampled pairs.
        shaping: From values to utilities.
    """

    def __init__(self, evaluator: Evaluator, shaping: Shaping = rank_utilities):
        self.evaluator, self.shaping = evaluator, shaping

    def evaluate(self, key: Any, policy: Any, w: PyTree) -> WeightedPairs:
        """The evaluation with utilities for values."""
        found = self.evaluator.evaluate(key, policy, w)
        if not isinstance(found, WeightedPairs):
            raise ValueError("`Shaped` changes values of pairs, and this evaluator keeps none.")
        return shaped(found, self.shaping)

    def objective(self, key: Any, policy: Any, w: PyTree) -> float:
        """That of the evaluator."""
        return self.evaluator.objective(key, policy, w)


class Batch(NamedTuple):
    """Samples of one policy.

    Attributes:
        actions: Shape (samples, k).
        values: What the function said, -inf where that was not finite.
        log_probs: log pi of each action at the parameters that drew it.
    """

    actions: np.ndarray
    values: np.ndarray
    log_probs: np.ndarray


class Bandit(Evaluator):
    r"""A function of actions as a problem of horizon one, Section 6.6.

    Every evaluation draws actions, asks the function for their values and weighs the samples of
    the last batches: all alike ("pooled"), as if one policy had drawn them, or by
    $\min(\pi(a;w)/\pi(a;w_a), c)$ ("importance"), $w_a$ being the parameters that drew a. The
    occupancies sum to one; with shaping so do the values.

    Attributes:
        function: From actions of shape (n, k), a NumPy array, to n values, larger is better. A
            value that is not finite counts as the worst.
        samples: Actions a batch.
        reuse: Batches used at once, the newest included.
        weighting: "pooled" or "importance".
        ratio_limit: c.
        shaping: From values to utilities; None leaves the values as they are.
        batches: What is kept, the newest last; with a key all that a continuation needs.
        evaluations: How often the function was asked.
        best: The best action so far and its value.
    """

    def __init__(
        self,
        function: Callable[[np.ndarray], Any],
        *,
        samples: int = 15,
        reuse: int = 10,
        weighting: Weighting = "pooled",
        ratio_limit: float = 1.0,
        shaping: Shaping | None = rank_utilities,
    ):
        for name, number in (("samples", samples), ("reuse", reuse)):
            if number < 1:
                raise ValueError(f"`Bandit({name}=...)` must be at least 1, got {number}.")
        if weighting not in get_args(Weighting):
            raise ValueError(
                f"`Bandit(weighting=...)` is 'pooled' or 'importance', got {weighting!r}."
            )
        if not ratio_limit > 0:
            raise ValueError(f"`Bandit(ratio_limit=...)` must be positive, got {ratio_limit}.")
        self.function, self.samples, self.reuse = function, samples, reuse
        self.weighting, self.ratio_limit, self.shaping = weighting, float(ratio_limit), shaping
        self.batches: list[Batch] = []
        self.evaluations = 0
        self.best: tuple[np.ndarray | None, float] = (None, -np.inf)

    def evaluate(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> WeightedPairs:
        """Draw a batch at `w` and weigh all batches that are kept."""
        self.batches = [*self.batches, self._draw(key, policy, w)][-self.reuse :]
        return self.again(policy, w)

    def again(self, policy: Any, w: PyTree) -> WeightedPairs:
        """The evaluation at `w` from the batches that are kept, the newest drawn there."""
        joined = Batch(*(np.concatenate(part) for part in zip(*self.batches, strict=True)))
        n, room = len(joined.values), self.samples * self.reuse
        # Always as many rows, so that nothing is compiled twice.
        actions = np.concatenate([joined.actions, np.repeat(joined.actions[-1:], room - n, axis=0)])
        occupancy = np.zeros(room)
        occupancy[:n] = self._ratios(policy, w, actions, joined.log_probs)
        occupancy /= occupancy.sum()
        values = np.zeros(room)
        values[:n] = self._finite(joined.values)
        mean, error = self._estimated(self.batches[-1].values)
        average = float(occupancy @ values)
        pairs = WeightedPairs(
            states=jnp.zeros(room),
            actions=jnp.asarray(actions)[:, None],
            occupancy=jnp.asarray(occupancy)[:, None],
            value=jnp.asarray(occupancy * values)[:, None],
            advantage=jnp.asarray(occupancy * (values - average))[:, None],
            objective=mean,
            objective_error=error,
            state_value=jnp.full(room, average),
        )
        if self.shaping is None:
            return pairs
        utilities = np.zeros(room)
        utilities[:n] = self.shaping(joined.values)
        return _with_utilities(pairs, utilities[:, None])

    def objective(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> float:
        """The mean value of a fresh batch, which is not kept."""
        return self._estimated(self._draw(key, policy, w).values)[0]

    def _draw(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> Batch:
        actions, log_probs = map(np.asarray, _sampled(key, policy, w, self.samples))
        given = np.asarray(self.function(actions.copy()), dtype=float)
        if given.shape != (self.samples,):
            raise ValueError(
                f"`Bandit(function=...)` must return one value an action, shape "
                f"({self.samples},), got {given.shape}."
            )
        self.evaluations += self.samples
        values = np.where(np.isfinite(given), given, -np.inf)
        top = int(values.argmax())
        if values[top] > self.best[1]:
            self.best = (actions[top].copy(), float(values[top]))
        return Batch(actions, values, log_probs)

    def _ratios(self, policy: Any, w: PyTree, actions: np.ndarray, drawn: np.ndarray) -> np.ndarray:
        if self.weighting == "pooled":
            return np.ones(len(drawn))
        here = np.asarray(_log_probs(policy, w, actions))[: len(drawn)]
        capped = np.minimum(here - drawn, np.log(self.ratio_limit))
        return np.exp(np.where(np.isnan(capped), -np.inf, capped))

    def _finite(self, values: np.ndarray) -> np.ndarray:
        """The values, with the worst of those that are kept in place of -inf."""
        known = np.concatenate([batch.values for batch in self.batches] or [values])
        known = known[np.isfinite(known)]
        return np.where(np.isfinite(values), values, known.min() if known.size else np.nan)

    def _estimated(self, values: np.ndarray) -> tuple[float, float]:
        values = self._finite(values)
        error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
        return float(values.mean()), float(error)


def _with_utilities(pairs: WeightedPairs, utilities: np.ndarray) -> WeightedPairs:
    """The pairs with values that are proportional to the utilities and of mean one."""
    occupancy = np.asarray(pairs.occupancy, dtype=float)
    value = occupancy * utilities
    total = value.sum()
    # Utilities that are all zero say nothing: every pair is then as good as any other.
    value = value * occupancy.sum() / total if total > 0 else occupancy
    return eqx.tree_at(
        lambda p: (p.value, p.advantage, p.ascent, p.state_value),
        pairs,
        (
            jnp.asarray(value),
            jnp.asarray(value - occupancy),
            None,
            jnp.ones(occupancy.shape[0]),
        ),
        is_leaf=lambda leaf: leaf is None,
    )


@eqx.filter_jit
def _sampled(key: PRNGKeyArray, policy: Any, w: PyTree, samples: int) -> tuple[Array, Array]:
    keys = jax.random.split(key, samples)
    actions = jax.vmap(lambda one: policy.sample(one, w, jnp.zeros(())))(keys)
    return actions, _log_probs(policy, w, actions)


@eqx.filter_jit
def _log_probs(policy: Any, w: PyTree, actions: Any) -> Array:
    return jax.vmap(lambda action: policy.log_prob(w, jnp.zeros(()), action))(actions)
