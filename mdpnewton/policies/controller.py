"""Finite-state controllers: policies with a memory of a few nodes."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import number, whole
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.policies.categorical import Categorical


class Tables(NamedTuple):
    """One array per table of a controller: probabilities, or weights of its entries.

    Attributes:
        initial: p(b | o; u), shape (O, B).
        transition: p(b' | b, o'; v), shape (B, O, B).
        action: pi(a | b, o; w), shape (B, O, A).
    """

    initial: Array
    transition: Array
    action: Array


class FiniteStateController(Categorical):
    r"""Memory and policy of Appendix B.2: $p(b_0|o;u)$, $p(b'|b,o';v)$ and $\pi(a|b,o;w)$.

    Every row of the three tables is a softmax with its own logits. A decision chooses node and
    action together: the integer $b A + a$. Its state combines the observation o that has just
    arrived and the previous node b: the integer $o (B + 1) + b$, with b = B before the first
    decision. Larger states number hidden states too, as in `product_mdp`: they are taken modulo
    $O (B + 1)$.

    The parameters are {"initial": (O, B), "transition": (B O, B), "action": (B O, A)}, one row per
    softmax: the row of node b and observation o is $b O + o$.

    Attributes:
        nodes: Number B of nodes.
        n_observations: Number O of observations, including the blank one before the first action.
        n_actions: Number A of actions.
    """

    nodes: int = eqx.field(static=True)
    n_observations: int = eqx.field(static=True)
    n_actions: int = eqx.field(static=True)
    log_concave = True
    blockwise_log_concave = True

    def __check_init__(self) -> None:
        for name in ("nodes", "n_observations", "n_actions"):
            whole("FiniteStateController", name, getattr(self, name), 1)

    @property
    def constant_curvature(self) -> bool:
        """True only with one node: the chosen node decides which row of actions is used."""
        return self.nodes == 1

    @property
    def independent_axes(self) -> int:
        """1: a decision uses one row of each table."""
        return 1

    @property
    def n_situations(self) -> int:
        """Number of combinations of an observation and the previous node: O (B + 1)."""
        return self.n_observations * (self.nodes + 1)

    def shaped(self, w: PyTree) -> Tables:
        """The parameters with separate axes for node and observation."""
        rows = (self.nodes, self.n_observations)
        return Tables(
            w["initial"],
            w["transition"].reshape(*rows, self.nodes),
            w["action"].reshape(*rows, self.n_actions),
        )

    def flattened(self, tables: Tables) -> PyTree:
        """The inverse of `shaped`."""
        return {
            "initial": tables.initial,
            "transition": tables.transition.reshape(-1, self.nodes),
            "action": tables.action.reshape(-1, self.n_actions),
        }

    def tables(self, w: PyTree) -> Tables:
        """The probabilities in the three tables."""
        return Tables(*(jax.nn.softmax(logits) for logits in self.shaped(w)))

    def logits(self, w: PyTree, state: Any) -> Float[Array, " decisions"]:
        """log p(b) + log pi(a | b), for every node and action."""
        observation, before = jnp.divmod(state % self.n_situations, self.nodes + 1)
        initial, transition, action = self.shaped(w)
        known = transition[jnp.minimum(before, self.nodes - 1), observation]
        node = jnp.where(before == self.nodes, initial[observation], known)
        chosen = jax.nn.log_softmax(node)[:, None] + jax.nn.log_softmax(action[:, observation])
        return chosen.ravel()

    def initial_parameters(self) -> PyTree:
        """Zeros: all rows are uniform. The nodes are then alike, and stay alike in every method."""
        return self.flattened(Tables(*(jnp.zeros(shape) for shape in self._shapes())))

    def random_parameters(self, key: PRNGKeyArray, scale: float = 1.0) -> PyTree:
        """Normally distributed logits, so that a search starts from nodes that differ."""
        number("FiniteStateController.random_parameters", "scale", scale, least=0)
        keys = jax.random.split(key, 3)
        drawn = (
            scale * jax.random.normal(each, shape)
            for each, shape in zip(keys, self._shapes(), strict=True)
        )
        return self.flattened(Tables(*drawn))

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree | None:
        """Logarithm of the value that each choice of a row earned, if none of them is zero."""
        decisions = self.nodes * self.n_actions
        complete = pairs.complete and pairs.value.shape[1] == decisions
        if not (complete and bool((pairs.actions == jnp.arange(decisions)).all())):
            return None
        earned = self.flattened(self.collected(pairs.states, pairs.value))

        def best(logits: Array, values: Array) -> Array | None:
            reached = (values != 0).any(axis=1, keepdims=True)
            if bool((values <= 0)[reached[:, 0]].any()):
                return None  # the maximum of a row with a zero lies at infinity
            top = jnp.log(jnp.where(reached, values, 1.0))
            top += (logits - top).mean(axis=1, keepdims=True)  # a constant added to a row is free
            return jnp.where(reached, top, logits)

        found = {name: best(w[name], earned[name]) for name in w}
        return None if any(table is None for table in found.values()) else found

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> PyTree:
        """-p (1 - p) in the rows that a decision uses; its node decides the row of its action."""
        observation, before = jnp.divmod(states % self.n_situations, self.nodes + 1)
        total, first = weights.sum(axis=1), before == self.nodes
        rows = (self.nodes, self.n_observations)
        known = jnp.minimum(before, self.nodes - 1)
        used = Tables(
            jnp.zeros(self.n_observations).at[observation].add(jnp.where(first, total, 0.0)),
            jnp.zeros(rows).at[known, observation].add(jnp.where(first, 0.0, total)),
            jnp.zeros(rows).at[actions // self.n_actions, observation[:, None]].add(weights),
        )
        tables = self.tables(w)
        found = (-m[..., None] * p * (1 - p) for m, p in zip(used, tables, strict=True))
        return self.flattened(Tables(*found))

    def collected(self, states: Array, weights: Float[Array, "n decisions"]) -> Tables:
        """Weights of decisions, summed over the table entries that they used."""
        observation, before = jnp.divmod(states % self.n_situations, self.nodes + 1)
        decided = weights.reshape(-1, self.nodes, self.n_actions)
        node = decided.sum(axis=2)
        first = (before == self.nodes)[:, None]
        zeros = Tables(*(jnp.zeros(shape) for shape in self._shapes()))
        return Tables(
            zeros.initial.at[observation].add(jnp.where(first, node, 0.0)),
            zeros.transition.at[jnp.minimum(before, self.nodes - 1), observation].add(
                jnp.where(first, 0.0, node)
            ),
            zeros.action.at[:, observation].add(jnp.moveaxis(decided, 0, 1)),
        )

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        rows = (self.nodes, self.n_observations)
        return rows[::-1], (*rows, self.nodes), (*rows, self.n_actions)
