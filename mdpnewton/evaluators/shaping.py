"""Utilities in place of values: weights that depend on the order of the samples alone."""

from collections.abc import Callable
from copy import copy
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from mdpnewton.checks import instance
from mdpnewton.evaluation import Evaluation, Evaluator, State, WeightedPairs

Shaping = Callable[[np.ndarray], np.ndarray]


def rank_utilities(values: Any) -> Float[np.ndarray, " n"]:
    r"""Utilities by rank: not negative, with sum one, and free of the values' scale and offset.

    $u_k \propto \max(0, \log(n/2 + 1) - \log k)$ for the k-th best of n, Wierstra et al. (2014).
    Equal values share their utilities evenly. NaN counts as the smallest value.

    Paper: the function of Wierstra et al., which subtracts 1/n from every utility. Here: nothing is
    subtracted, because then the utilities would sum to zero, and so would EM's denominator and the
    curvature of the mean.

    Args:
        values: Values of the samples, shape (n,); larger is better.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"`rank_utilities(values)` needs shape (n,), n >= 1, got {values.shape}.")
    values = np.where(np.isnan(values), -np.inf, values)
    n = values.size
    utilities = np.maximum(0.0, np.log(n / 2 + 1) - np.log(np.arange(1, n + 1)))
    _, group, size = np.unique(-values, return_inverse=True, return_counts=True)
    shared = np.add.reduceat(utilities, np.cumsum(size) - size) / size
    found: np.ndarray = shared[group] / utilities.sum()
    return found


def shaped(pairs: WeightedPairs, shaping: Shaping = rank_utilities) -> WeightedPairs:
    """An evaluation with its values replaced by utilities, whose mean is one.

    Args:
        pairs: Sampled pairs. Pairs without occupancy get the value zero.
        shaping: Maps values of shape (n,) to utilities that are not negative.
    """
    occupancy = np.asarray(pairs.occupancy, dtype=float)
    seen = occupancy > 0
    utilities = np.zeros_like(occupancy)
    utilities[seen] = shaping(np.asarray(pairs.value)[seen] / occupancy[seen])
    return with_utilities(pairs, utilities)


class Shaped(Evaluator):
    """Wraps an evaluator and makes its values `shaped`; its objective and state stay the same.

    Attributes:
        evaluator: The evaluator inside, which gives sampled pairs.
        shaping: Maps values to utilities.
    """

    def __init__(self, evaluator: Evaluator, shaping: Shaping = rank_utilities):
        remedy = "subclass `mdpnewton.Evaluator`"
        self.evaluator: Evaluator = instance("Shaped", "evaluator", evaluator, Evaluator, remedy)
        self.shaping = checked_shaping("Shaped", shaping)

    def evaluate(self, key: Any, policy: Any, w: PyTree) -> WeightedPairs:
        """The evaluation by the evaluator inside, with utilities in place of values."""
        return self._shaped(self.evaluator.evaluate(key, policy, w))

    def objective(self, key: Any, policy: Any, w: PyTree) -> float:
        """The objective of the evaluator inside."""
        return self.evaluator.objective(key, policy, w)

    def revisit(self, key: Any, policy: Any, w: PyTree, known: Evaluation) -> Evaluation:
        """What the evaluator inside finds on its return, with utilities in place of values."""
        found = self.evaluator.revisit(key, policy, w, known)
        return known if found is known else self._shaped(found)  # `known` is shaped already

    def again(self, key: Any, policy: Any, w: PyTree) -> WeightedPairs:
        """The last evaluation by the evaluator inside, with utilities in place of values."""
        return self._shaped(self.evaluator.again(key, policy, w))

    def state(self) -> State:
        """The state of the evaluator inside."""
        return self.evaluator.state()

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        found = copy(self)
        found.evaluator = self.evaluator.restored(state)
        return found

    def _shaped(self, found: Evaluation) -> WeightedPairs:
        if not isinstance(found, WeightedPairs):
            raise ValueError("`Shaped` changes the values of pairs, but this evaluator keeps none.")
        return shaped(found, self.shaping)


def checked_shaping(call: str, shaping: Any) -> Any:
    """Return the map from values to utilities if it can be called, else raise."""
    return instance(call, "shaping", shaping, Callable, "pass `rank_utilities`")


def with_utilities(pairs: WeightedPairs, utilities: np.ndarray) -> WeightedPairs:
    """The pairs with values that are proportional to the utilities and have mean one."""
    occupancy = np.asarray(pairs.occupancy, dtype=float)
    value = occupancy * utilities
    total = value.sum()
    # Utilities that are all zero say nothing: every pair is then as good as any other.
    value = value * occupancy.sum() / total if total > 0 else occupancy
    found: WeightedPairs = eqx.tree_at(
        lambda p: (p.value, p.advantage, p.ascent, p.state_value, p.crossing),
        pairs,
        (
            jnp.asarray(value),
            jnp.asarray(value - occupancy),
            None,
            jnp.ones(occupancy.shape[0]),
            None,
        ),
        is_leaf=lambda leaf: leaf is None or leaf is pairs.crossing,
    )
    return found
