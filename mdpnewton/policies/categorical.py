"""Policies over finitely many actions, given by their logits."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import flag, instance, refuse, whole
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.models.checks import finite_array
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.acting import Actor, categorical_actor
from mdpnewton.policies.alone import Plain


class Categorical(Policy):
    """A softmax of `logits(w, state)`; actions are the integers 0..A-1."""

    @abstractmethod
    def logits(self, w: PyTree, state: Any) -> Float[Array, " actions"]:
        """Unnormalised log-probabilities, one per action."""

    def plain_logits(self, w: PyTree) -> Plain | None:
        """The logits in NumPy, or None if they are known to JAX only."""
        return None

    def actor(self, w: PyTree) -> Actor | None:
        """See `Policy`."""
        return categorical_actor(self.plain_logits(w))

    def log_prob(self, w: PyTree, state: Any, action: int | Int[Array, ""]) -> Scalar:
        """log pi(action | state; w)."""
        return jax.nn.log_softmax(self.logits(w, state))[action]

    def sample(self, key: PRNGKeyArray, w: PyTree, state: Any) -> Int[Array, ""]:
        """An action drawn from the softmax."""
        return jax.random.categorical(key, self.logits(w, state))

    def outputs(self, w: PyTree, state: Any) -> Float[Array, " actions"]:
        """The logits."""
        return self.logits(w, state)

    def output_fisher(
        self, outputs: Float[Array, " actions"], u: Float[Array, " actions"]
    ) -> Float[Array, " actions"]:
        r"""$(\mathrm{diag}(\pi) - \pi\pi^\top) u$."""
        pi = jax.nn.softmax(outputs)
        return pi * (u - pi @ u)

    def mode(self, w: PyTree, state: Any) -> Int[Array, ""]:
        """The action with the largest logit."""
        return jnp.argmax(self.logits(w, state))

    def kl(self, w: PyTree, v: PyTree, state: Any) -> Scalar:
        r"""$\sum_a \pi_w(a|s) (\log\pi_w(a|s) - \log\pi_v(a|s))$."""
        here = jax.nn.log_softmax(self.logits(w, state))
        there = jax.nn.log_softmax(self.logits(v, state))
        return jnp.exp(here) @ (here - there)


class Gibbs(Categorical):
    r"""$\pi(a|s;w) \propto \exp(w^\top\phi(s,a))$, Section 3.1.

    Attributes:
        features: Features $\phi$: an array of shape (S, A, n) for states 0..S-1, or a function of
            the state that returns shape (A, n).
        n_features: Number n of features; needed only if `features` is a function.
    """

    features: Float[Array, "states actions n"] | Callable[[Any], Float[Array, "actions n"]]
    n_features: int = eqx.field(static=True)
    log_concave = True
    blockwise_log_concave = True
    constant_curvature = True

    def __init__(self, features: Any, n_features: int | None = None):
        if callable(features):
            if n_features is None:
                refuse("Gibbs", "n_features", "is needed with a function; pass its vectors' length")
            self.features, self.n_features = features, whole("Gibbs", "n_features", n_features, 1)
            return
        table = finite_array("Gibbs", "features", features, 3, letters="(states, actions, n)")
        if n_features not in (None, table.shape[2]):
            rule = f"must be {table.shape[2]}, the last axis of `features`, or left out"
            refuse("Gibbs", "n_features", f"{rule}, got {n_features!r}")
        self.features, self.n_features = jnp.asarray(table), table.shape[2]

    @property
    def table_shape(self) -> tuple[int, int] | None:
        """(S, A) if the features are a table."""
        return None if callable(self.features) else (self.features.shape[0], self.features.shape[1])

    def logits(self, w: Float[Array, " n"], state: Any) -> Float[Array, " actions"]:
        """phi(state, .) w."""
        phi = self.features(state) if callable(self.features) else self.features[state]
        return phi @ w

    def log_probs(self, w: PyTree, states: PyTree, actions: PyTree) -> Float[Array, "n k"]:
        """See `Policy`. For a whole table of states it multiplies before it looks up."""
        if callable(self.features) or states.shape[0] < self.features.shape[0]:
            return super().log_probs(w, states, actions)
        logits = (self.features @ w)[states]  # looking up first would copy the features
        return jnp.take_along_axis(jax.nn.log_softmax(logits), actions, axis=1)

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> Float[Array, " n"]:
        """Minus the variance of each feature, whatever the action."""

        def variance(state: Any) -> Float[Array, " n"]:
            phi = self.features(state) if callable(self.features) else self.features[state]
            pi = jax.nn.softmax(phi @ w)
            return pi @ (phi - pi @ phi) ** 2

        return -jnp.einsum("nk,nf->f", weights, jax.vmap(variance)(states))

    def initial_parameters(self) -> Float[Array, " n"]:
        """Zeros: the uniform policy."""
        return jnp.zeros(self.n_features)


class TabularSoftmax(Categorical):
    """A softmax with its own logits in every state: the richest policy, Theorem 6.

    Attributes:
        n_states: Number S of states.
        n_actions: Number A of actions.
        reduced: Whether the last action's logit is fixed at zero, so that `w` has shape (S, A - 1)
            and H2 is not singular. Otherwise `w` is (S, A), and adding a constant to a row changes
            nothing: solves then return the step of least norm, and report "singular".
    """

    n_states: int = eqx.field(static=True)
    n_actions: int = eqx.field(static=True)
    reduced: bool = eqx.field(static=True, default=False)
    log_concave = True
    blockwise_log_concave = True
    constant_curvature = True

    def __check_init__(self) -> None:
        call, reduced = "TabularSoftmax", flag("TabularSoftmax", "reduced", self.reduced)
        whole(call, "n_states", self.n_states, 1)
        whole(call, "n_actions", self.n_actions, 1)
        if reduced and self.n_actions == 1:
            rule = "must be at least 2 with `reduced=True`, which leaves one action no parameter"
            refuse(call, "n_actions", f"{rule}, got 1; pass `reduced=False`")

    @property
    def table_shape(self) -> tuple[int, int]:
        """(S, A)."""
        return self.n_states, self.n_actions

    @property
    def independent_axes(self) -> int:
        """1: every state has a row of its own."""
        return 1

    def logits(self, w: Float[Array, "states k"], state: Any) -> Float[Array, " actions"]:
        """The row of the state."""
        return jnp.append(w[state], 0.0) if self.reduced else w[state]

    def hessian_diagonal(
        self, w: PyTree, states: PyTree, actions: PyTree, weights: Float[Array, "m j"]
    ) -> Float[Array, "states k"]:
        r"""$-\pi (1 - \pi)$ in the row of the state, whatever the action."""
        pi = jax.nn.softmax(jax.vmap(self.logits, (None, 0))(w, jnp.arange(self.n_states)))
        visits = jax.ops.segment_sum(weights.sum(axis=1), states, self.n_states)
        return -(visits[:, None] * pi * (1 - pi))[:, : w.shape[1]]

    def initial_parameters(self) -> Float[Array, "states k"]:
        """Zeros: the uniform policy."""
        return jnp.zeros((self.n_states, self.n_actions - self.reduced))

    def maximum(self, w: PyTree, pairs: WeightedPairs) -> PyTree | None:
        """Logarithm of the value weights, row by row, if all of them are positive."""
        listed = jnp.arange(self.n_actions)
        if not (pairs.complete and pairs.value.shape == self.table_shape):
            return None
        if not (bool((pairs.actions == listed).all()) and bool((pairs.value > 0).all())):
            return None  # the maximum of a row with a zero lies at infinity
        logits = jnp.log(pairs.value)
        if self.reduced:
            return (logits - logits[:, -1:])[:, :-1]
        return logits - logits.mean(axis=1, keepdims=True) + w.mean(axis=1, keepdims=True)


def gibbs_over_successors(mdp: FiniteMDP, state_features: Any) -> Gibbs:
    r"""A Gibbs policy that looks one step ahead: $\pi(a|s;w) \propto \exp(w^\top\phi(s'))$.

    This is the policy of the mazes of Section 3.3. Where the successor $s'$ is random, its expected
    features $E[\phi(s')|s,a]$ take its place.

    Args:
        mdp: The problem, which gives the successors.
        state_features: Features $\phi$ of the states, shape (S, n).
    """
    call = "gibbs_over_successors"
    instance(call, "mdp", mdp, FiniteMDP, "it lists the successors")
    features = finite_array(call, "state_features", state_features, 2, letters="(states, n)")
    if len(features) != mdp.n_states:
        needed = f"needs shape ({mdp.n_states}, n), one row per state"
        refuse(call, "state_features", f"{needed}, got {features.shape}")
    return Gibbs(mdp.expected_next(features))
