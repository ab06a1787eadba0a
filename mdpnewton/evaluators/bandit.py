"""Evaluation of problems of horizon one: samples of a function, weighted and used again."""

from collections.abc import Callable
from copy import copy
from typing import Any, Literal, NamedTuple, Self, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray, PyTree

from mdpnewton.checks import choice, instance, number, refuse, whole
from mdpnewton.evaluation import Evaluator, State, WeightedPairs
from mdpnewton.evaluators.shaping import Shaping, checked_shaping, rank_utilities, with_utilities
from mdpnewton.plain import entries, reals, sequence

Weighting = Literal["pooled", "importance"]


class Batch(NamedTuple):
    """Samples of one policy.

    Attributes:
        actions: Actions that the policy drew, shape (samples, k).
        values: Values of the function, with -inf in place of those that are not finite.
        log_probs: log pi of each action at the parameters that drew it.
    """

    actions: np.ndarray
    values: np.ndarray
    log_probs: np.ndarray


class Bandit(Evaluator):
    r"""Treats a function of actions as a problem of horizon one, Section 6.6.

    Every evaluation draws actions, asks the function for their values and weights the samples of
    the last batches: all equally ("pooled"), as if one policy had drawn them, or by
    $\min(\pi(a;w)/\pi(a;w_a), c)$ ("importance"), where $w_a$ are the parameters that drew a. The
    occupancies sum to one, and so do the values if `shaping` is given.

    Attributes:
        function: Maps a NumPy array of actions, shape (n, k), to n values, of which larger ones are
            better. A value that is not finite counts as the worst.
        samples: Number of actions per batch.
        reuse: Number of batches per evaluation, including the newest.
        weighting: How samples are weighted, "pooled" or "importance".
        ratio_limit: Upper limit c of the importance ratios.
        shaping: Maps values to utilities; None leaves the values as they are.
        batches: The stored batches, with the newest last.
        evaluations: Number of actions for which the function has been evaluated.
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
        call = "Bandit"
        remedy = "pass a function from actions to values"
        self.function = instance(call, "function", function, Callable, remedy)
        self.samples = whole(call, "samples", samples, 1)
        self.reuse = whole(call, "reuse", reuse, 1)
        self.weighting: Weighting = choice(call, "weighting", weighting, get_args(Weighting))
        self.ratio_limit = number(call, "ratio_limit", ratio_limit, above=0, infinite=True)
        self.shaping = None if shaping is None else checked_shaping(call, shaping)
        self.batches: list[Batch] = []
        self.evaluations = 0
        self.best: tuple[np.ndarray | None, float] = (None, -np.inf)

    def evaluate(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> WeightedPairs:
        """Draw a batch at `w` and weight the samples of all stored batches."""
        self.batches = [*self.batches, self._draw(key, policy, w)][-self.reuse :]
        return self.again(key, policy, w)

    def again(self, key: Any, policy: Any, w: PyTree) -> WeightedPairs:
        """Evaluation at `w` from the stored batches, the newest of which was drawn there."""
        joined = Batch(*(np.concatenate(part) for part in zip(*self.batches, strict=True)))
        n, room = len(joined.values), self.samples * self.reuse
        # The number of rows is always the same, so that nothing is compiled twice.
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
        return with_utilities(pairs, utilities[:, None])

    def objective(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> float:
        """The mean value of a fresh batch, which is not kept."""
        return self._estimated(self._draw(key, policy, w).values)[0]

    def state(self) -> State:
        """The batches by the fields of `Batch`, the number of evaluations, and the best action."""
        action, value = self.best
        return {
            "batches": [batch._asdict() for batch in self.batches],
            "evaluations": self.evaluations,
            "best": {"action": action, "value": value},
        }

    def restored(self, state: State) -> Self:
        """See `Evaluator`."""
        call, found = "Bandit.restored", copy(self)
        batches, evaluations, best = entries(call, state, "batches", "evaluations", "best")
        found.evaluations = whole(call, "evaluations", evaluations)
        action, value = entries(call, best, "action", "value")
        (value,) = reals(call, "best", [value], 1)
        found.best = (None if action is None else np.array(action), value)
        found.batches = [
            Batch(*map(np.asarray, entries(call, batch, *Batch._fields)))
            for batch in sequence(call, "batches", batches)
        ]
        if len(found.batches) > self.reuse:
            refuse(call, "batches", f"has {len(batches)}, more than `reuse={self.reuse}` keeps")
        if any(part.shape[:1] != (self.samples,) for batch in found.batches for part in batch):
            refuse(call, "batches", f"needs batches of `samples={self.samples}`, got others")
        return found

    def _draw(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> Batch:
        actions, log_probs = map(np.asarray, _sampled(key, policy, w, self.samples))
        given = np.asarray(self.function(actions.copy()), dtype=float)
        if given.shape != (self.samples,):
            raise ValueError(
                f"`Bandit(function=...)` must return one value per action, shape "
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
        """The values, with -inf replaced by the worst finite value of the stored batches."""
        known = np.concatenate([batch.values for batch in self.batches] or [values])
        known = known[np.isfinite(known)]
        return np.where(np.isfinite(values), values, known.min() if known.size else np.nan)

    def _estimated(self, values: np.ndarray) -> tuple[float, float]:
        values = self._finite(values)
        error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
        return float(values.mean()), float(error)


@eqx.filter_jit
def _sampled(key: PRNGKeyArray, policy: Any, w: PyTree, samples: int) -> tuple[Array, Array]:
    keys = jax.random.split(key, samples)
    actions = jax.vmap(lambda one: policy.sample(one, w, jnp.zeros(())))(keys)
    return actions, _log_probs(policy, w, actions)


@eqx.filter_jit
def _log_probs(policy: Any, w: PyTree, actions: Any) -> Array:
    found: Array = jax.vmap(lambda action: policy.log_prob(w, jnp.zeros(()), action))(actions)
    return found
