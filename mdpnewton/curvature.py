"""Every matrix of the paper as the Hessian of one weighted function of the log-policy.

With x_i(v) = log pi(a_i|s_i; v) - log pi(a_i|s_i; w) and weights c_i, the one function is

    S(v) = sum_i c_i (h x_i + o (exp(x_i) - 1 - x_i)),

whose Hessian at v = w is sum_i c_i (h grad grad' log pi_i + o grad log pi_i grad' log pi_i).
`FORMS` is the table of the paper's matrices: which weights c, and the numbers h and o.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree, Scalar

from mdpnewton.evaluation import WeightedPairs
from mdpnewton.policies import Policy


class Form(NamedTuple):
    """Which weights, and how much of each second-order term, make a matrix."""

    weights: str
    hessian: float = 1.0
    outer: float = 0.0


FORMS = {
    "H1": Form("value", 0.0, 1.0),  # eq. (18)
    "H2": Form("value", 1.0, 0.0),  # eq. (19); minus it preconditions eq. (28)
    "A1": Form("advantage", 0.0, 1.0),  # Theorem 4
    "A2": Form("advantage", 1.0, 0.0),  # Theorem 4; zero for constant curvature, Lemma 3
    "A1+A2": Form("advantage", 1.0, 1.0),  # minus it preconditions eq. (27)
    "V1": Form("baseline", 0.0, 1.0),  # eq. (45)
    "V2": Form("baseline", 1.0, 0.0),  # eq. (45); minus V1, Lemma 2
    "fisher": Form("occupancy", -1.0, 0.0),  # eq. (13)
    "fisher_score": Form("occupancy", 0.0, 1.0),  # eq. (14)
}


class Curvature(eqx.Module):
    r"""$\sum_i h_i \nabla\nabla^\top\log\pi_i + o_i \nabla\log\pi_i\nabla^\top\log\pi_i$.

    An operator on PyTrees like `w`: multiplied with, and built only where asked. Sums and
    multiples of curvatures at one `w` are curvatures again: their coefficients add up.

    Attributes:
        policy: Gives `log_prob`.
        w: Where the curvature is taken.
        states: As in `WeightedPairs`.
        actions: As in `WeightedPairs`.
        hessian: $h_i$, the weights times the form's h.
        outer: $o_i$, the weights times the form's o.
        complete: As in `WeightedPairs`.
        has_hessian: Whether any $h_i$ can differ from zero.
    """

    policy: Policy
    w: PyTree
    states: PyTree[Array]
    actions: PyTree[Array]
    hessian: Float[Array, "n k"]
    outer: Float[Array, "n k"]
    complete: bool = eqx.field(static=True)
    has_hessian: bool = eqx.field(static=True)

    def __add__(self, other: "Curvature") -> "Curvature":
        return replace(
            self,
            hessian=self.hessian + other.hessian,
            outer=self.outer + other.outer,
            has_hessian=self.has_hessian or other.has_hessian,
        )

    def __mul__(self, factor: float) -> "Curvature":
        return replace(self, hessian=factor * self.hessian, outer=factor * self.outer)

    __rmul__ = __mul__

    def __neg__(self) -> "Curvature":
        return self * -1.0

    def surrogate(self, v: PyTree) -> Scalar:
        """The one function S(v), whose Hessian at `w` this is."""
        anchor = jax.lax.stop_gradient(self.policy.log_probs(self.w, self.states, self.actions))
        x = self.policy.log_probs(v, self.states, self.actions) - anchor
        return jnp.sum(self.hessian * x + self.outer * (jnp.expm1(x) - x))

    def linearized(self) -> Callable[[PyTree], PyTree]:
        """The exact product p -> C p, prepared once for many p."""
        if self._scores_suffice:  # Scores' (c * (Scores p)): a pass forward and one back
            along = jax.linearize(
                lambda v: self.policy.log_probs(v, self.states, self.actions), self.w
            )[1]
            against = jax.linear_transpose(along, self.w)
            c = self._score_coefficients().reshape(self.outer.shape)
            return lambda p: against(c * along(p))[0]
        return jax.linearize(jax.grad(self.surrogate), self.w)[1]

    def differenced(self, epsilon: float = 1e-6) -> Callable[[PyTree], PyTree]:
        """The product by a difference of gradients, eqs. (57) and (58).

        Paper: epsilon is a small constant. Here: it is scaled by the norms of `w` and of the
        vector, because with a constant the error depends on both.
        """
        gradient = jax.grad(self.surrogate)
        flat, unravel = ravel_pytree(self.w)
        at_w = ravel_pytree(gradient(self.w))[0]

        def product(p: PyTree) -> PyTree:
            vector = ravel_pytree(p)[0]
            norm = jnp.linalg.norm(vector)
            step = epsilon * (1 + jnp.linalg.norm(flat)) / jnp.where(norm > 0, norm, 1.0)
            moved = ravel_pytree(gradient(unravel(flat + step * vector)))[0]
            return unravel((moved - at_w) / step)

        return product

    @eqx.filter_jit
    def mv(self, p: PyTree) -> PyTree:
        """The exact product C p."""
        return self.linearized()(p)

    @eqx.filter_jit
    def dense(self) -> Float[Array, "m m"]:
        """The matrix, over the flattened parameters."""
        if self._scores_suffice:
            flat = jnp.concatenate(self._scores(), axis=1)
            return flat.T @ (self._score_coefficients()[:, None] * flat)
        flat, unravel = ravel_pytree(self.w)
        product = self.linearized()
        columns = jax.vmap(lambda e: ravel_pytree(product(unravel(e)))[0])(jnp.eye(flat.size))
        return 0.5 * (columns + columns.T)

    @eqx.filter_jit
    def diagonal(self) -> PyTree:
        """The diagonal, shaped like `w`."""
        leaves, structure = jax.tree.flatten(self.w)
        if self._scores_suffice and not self.policy.independent_axes:
            c = self._score_coefficients()
            parts = [c @ leaf**2 for leaf in self._scores()]
        else:
            parts = [jnp.einsum("lmm->lm", block) for block in self.blocks()]
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(structure, shaped)

    @eqx.filter_jit
    def blocks(self) -> list[Float[Array, "blocks m m"]]:
        """For each leaf of `w` its diagonal blocks, over `policy.independent_axes`."""
        leaves, structure = jax.tree.flatten(self.w)
        if self._scores_suffice and not self.policy.independent_axes:
            c = self._score_coefficients()
            return [(leaf.T @ (c[:, None] * leaf))[None] for leaf in self._scores()]
        product = self.linearized()
        found = []
        for position, leaf in enumerate(leaves):
            inner = leaf.shape[self.policy.independent_axes :]
            size = 1
            for length in inner:
                size *= length

            # Blocks that never meet are probed together: one product a column of a block.
            def column(e: Array, position: int = position, inner: Any = inner) -> Array:
                tangent = [jnp.zeros_like(other) for other in leaves]
                tangent[position] = jnp.broadcast_to(e.reshape(inner), leaves[position].shape)
                image = jax.tree.leaves(product(jax.tree.unflatten(structure, tangent)))
                return image[position].reshape(-1, e.size)

            block = jnp.moveaxis(jax.vmap(column)(jnp.eye(size)), 0, 1)
            found.append(0.5 * (block + jnp.swapaxes(block, 1, 2)))
        return found

    @property
    def _scores_suffice(self) -> bool:
        """Whether the matrix is Scores' diag(c) Scores: no second derivatives needed."""
        return not self.has_hessian or (self.policy.constant_curvature and self.complete)

    def _score_coefficients(self) -> Float[Array, " pairs"]:
        """The c of Scores' diag(c) Scores.

        With constant curvature, sum_a h_a grad grad' log pi = -(sum_a h_a) sum_a pi_a
        grad log pi_a grad' log pi_a in every state, Lemma 2.
        """
        if not self.has_hessian:
            return self.outer.ravel()
        probabilities = jnp.exp(self.policy.log_probs(self.w, self.states, self.actions))
        return (self.outer - self.hessian.sum(axis=1, keepdims=True) * probabilities).ravel()

    def _scores(self) -> list[Float[Array, "pairs m"]]:
        leaves = jax.tree.leaves(scores(self.policy, self.w, self.states, self.actions))
        pairs = self.outer.size
        return [leaf.reshape(pairs, -1) for leaf in leaves]


def scores(policy: Policy, w: PyTree, states: PyTree, actions: PyTree) -> PyTree:
    """grad log pi of every listed pair, leading axes (n, k)."""
    by_action = jax.vmap(jax.grad(policy.log_prob), in_axes=(None, None, 0))
    return jax.vmap(by_action, in_axes=(None, 0, 0))(w, states, actions)


def curvature(policy: Policy, w: PyTree, pairs: WeightedPairs, form: str | Form) -> Curvature:
    """The matrix of a row of `FORMS`, or of a form of your own, as an operator.

    Args:
        policy: Gives `log_prob(w, state, action)`.
        w: Parameters at which `pairs` was evaluated.
        pairs: Weighted pairs. The weights are constants.
        form: A name in `FORMS`, or a `Form`.
    """
    if isinstance(form, str):
        if form not in FORMS:
            raise ValueError(
                f"`curvature(form=...)` knows {', '.join(FORMS)}, got {form!r}; or pass a "
                f"`Form(weights, hessian, outer)`."
            )
        form = FORMS[form]
    weights = getattr(pairs, form.weights)
    return Curvature(
        policy=policy,
        w=w,
        states=pairs.states,
        actions=pairs.actions,
        hessian=form.hessian * weights,
        outer=form.outer * weights,
        complete=pairs.complete,
        has_hessian=form.hessian != 0,
    )


def surrogate(
    policy: Policy, w: PyTree, pairs: WeightedPairs, form: str | Form = "H2"
) -> Callable[[PyTree], Scalar]:
    r"""The one function S of v, whose derivatives at v = w are the paper's.

    With the value weights of "H2" it is the EM bound $\mathcal{Q}(v, w)$ of eq. (16) up to
    a constant in v, and its gradient at w is the policy gradient, eq. (11).
    """
    return curvature(policy, w, pairs, form).surrogate


def gradient(policy: Policy, w: PyTree, pairs: WeightedPairs) -> PyTree:
    """The policy gradient sum_i c_i grad log pi_i, eq. (11), c the `gradient_weights`."""
    return _gradient(policy, w, pairs.states, pairs.actions, pairs.gradient_weights)


@eqx.filter_jit
def _gradient(policy: Policy, w: PyTree, states: PyTree, actions: PyTree, weights: Array) -> PyTree:
    return jax.grad(lambda v: jnp.sum(weights * policy.log_probs(v, states, actions)))(w)
