"""Every matrix of the paper as the Hessian of one weighted function of the log-policy.

With x_i(v) = log pi(a_i|s_i; v) - log pi(a_i|s_i; w) and weights c_i, this function is

    S(v) = sum_i c_i (h x_i + o (exp(x_i) - 1 - x_i) - g |z_i(v) - z_i(w)|^2 / 2),

whose Hessian at v = w is sum_i c_i (h grad grad' log pi_i + o grad log pi_i grad' log pi_i
- g J_i' F_i J_i). Here z_i are the policy's outputs in s_i, J_i is their Jacobian, F_i the Fisher
matrix of the distribution that they stand for, and |.| its norm. `forms.py` has the table of
matrices, with their weights c and the numbers h, o and g. The paper's matrices have g = 0.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree, Scalar

from mdpnewton.evaluation import AccumulatedMatrices, Evaluation, WeightedPairs
from mdpnewton.forms import Form, form_named
from mdpnewton.policies import Policy


class Curvature(eqx.Module):
    r"""$\sum_i h_i\nabla\nabla^\top l_i + o_i\nabla l_i\nabla^\top l_i - g_i J_i^\top F_i J_i$.

    Here $l_i = \log\pi(a_i|s_i;w)$, and J and F are as at the top of this file.

    This is an operator on PyTrees like `w`, whose matrix is built only on request. Sums and
    multiples of curvatures at one `w` are curvatures again: their coefficients add up.

    Attributes:
        policy: The policy, which gives `log_prob`, and `outputs` if g is not zero.
        w: Parameters at which the curvature is taken.
        states: The states, as in `WeightedPairs`.
        actions: The actions, as in `WeightedPairs`.
        hessian: Coefficients $h_i$, the weights times the form's h.
        outer: Coefficients $o_i$, the weights times the form's o.
        output: Coefficients $g_i$, the weights times the form's g, summed over the actions of a
            state, which share J and F.
        complete: Whether all actions are listed, as in `WeightedPairs`.
        parts: Which of "hessian", "outer" and "output" can differ from zero.
    """

    policy: Policy
    w: PyTree
    states: PyTree[Array | np.ndarray]
    actions: PyTree[Array | np.ndarray]
    hessian: Float[Array, "n k"]
    outer: Float[Array, "n k"]
    output: Float[Array, " n"]
    complete: bool = eqx.field(static=True)
    parts: frozenset[str] = eqx.field(static=True)

    def __add__(self, other: "Curvature") -> "Curvature":
        return replace(
            self,
            hessian=self.hessian + other.hessian,
            outer=self.outer + other.outer,
            output=self.output + other.output,
            parts=self.parts | other.parts,
        )

    def __mul__(self, factor: float) -> "Curvature":
        h, o, g = _products((factor,) * 3, (self.hessian, self.outer, self.output))
        return replace(self, hessian=h, outer=o, output=g)

    __rmul__ = __mul__

    def __neg__(self) -> "Curvature":
        return self * -1.0

    def surrogate(self, v: PyTree) -> Scalar:
        """The function S(v) whose Hessian at `w` this is."""
        total: Array | float = 0.0
        if self._has_pairs:
            x = self._log_probs(v) - jax.lax.stop_gradient(self._log_probs(self.w))
            total += jnp.sum(self.hessian * x + self.outer * (jnp.expm1(x) - x))
        if "output" in self.parts:
            z = jax.lax.stop_gradient(self._outputs(self.w))
            moved = self._outputs(v) - z
            total -= 0.5 * jnp.sum(self.output[:, None] * moved * self._fisher(z, moved))
        return jnp.asarray(total)

    def linearized(self) -> Callable[[PyTree], PyTree]:
        """The exact product p -> C p, prepared once for many p."""
        products = []
        if self._has_pairs and self._scores_suffice:  # Scores' (c * (Scores p))
            c = self._score_coefficients().reshape(self.outer.shape)
            products.append(_sandwich(self._log_probs, self.w, lambda _, u: c * u))
        elif self._has_pairs:
            without = replace(self, parts=self.parts - {"output"})
            products.append(jax.linearize(jax.grad(without.surrogate), self.w)[1])
        if "output" in self.parts:  # J' (-g * (F (J p)))
            g = -self.output[:, None]
            products.append(_sandwich(self._outputs, self.w, lambda z, u: g * self._fisher(z, u)))
        return lambda p: jax.tree.map(lambda *x: sum(x), *(product(p) for product in products))

    def differenced(self, epsilon: float = 1e-6) -> Callable[[PyTree], PyTree]:
        """The product by a difference of gradients, eqs. (57) and (58).

        Paper: epsilon is constant. Here: it is scaled by the norms of `w` and of the vector,
        because otherwise the error depends on both.
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
            left, right = (jnp.concatenate(leaves, axis=1) for leaves in self._factors())
            return left.T @ right
        flat, unravel = ravel_pytree(self.w)
        product = self.linearized()
        columns = jax.vmap(lambda e: ravel_pytree(product(unravel(e)))[0])(jnp.eye(flat.size))
        return 0.5 * (columns + columns.T)

    @eqx.filter_jit
    def diagonal(self) -> PyTree:
        """The diagonal, shaped like `w`, in O(pairs x parameters) where the policy allows it."""
        leaves, structure = jax.tree.flatten(self.w)
        together = not self.policy.independent_axes
        if self._scores_suffice and together:
            parts = [jnp.sum(L * R, axis=0) for L, R in zip(*self._factors(), strict=True)]
        elif (known := self._hessian_diagonal()) is not None and self.parts == {"hessian"}:
            return known
        elif known is not None and together:
            rest = replace(self, parts=self.parts - {"hessian"}).diagonal()
            return jax.tree.map(jnp.add, known, rest)
        else:
            parts = [jnp.einsum("lmm->lm", block) for block in self.blocks()]
        shaped = [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(structure, shaped)

    @eqx.filter_jit
    def blocks(self) -> list[Float[Array, "blocks m m"]]:
        """The diagonal blocks of each leaf of `w`, over `policy.independent_axes`.

        A leaf has smaller ones if the policy knows that all other entries are zero.
        """
        leaves, structure = jax.tree.flatten(self.w)
        if self.parts == {"output"}:
            known = self.policy.output_blocks(self.w, self.states, -self.output)
            if known is not None:
                return known
        if self._scores_suffice and not self.policy.independent_axes:
            return [(L.T @ R)[None] for L, R in zip(*self._factors(), strict=True)]
        product = self.linearized()
        found = []
        for position, leaf in enumerate(leaves):
            inner = leaf.shape[self.policy.independent_axes :]
            size = math.prod(inner)

            # Independent blocks are probed together, with one product per column of a block.
            def column(e: Array, position: int = position, inner: Any = inner) -> Array:
                tangent = [jnp.zeros_like(other) for other in leaves]
                tangent[position] = jnp.broadcast_to(e.reshape(inner), leaves[position].shape)
                image: list[Array] = jax.tree.leaves(
                    product(jax.tree.unflatten(structure, tangent))
                )
                return image[position].reshape(-1, e.size)

            block = jnp.moveaxis(jax.vmap(column)(jnp.eye(size)), 0, 1)
            found.append(0.5 * (block + jnp.swapaxes(block, 1, 2)))
        return found

    def _hessian_diagonal(self) -> PyTree | None:
        """The diagonal of the part with second derivatives, if the policy knows it."""
        return self.policy.hessian_diagonal(self.w, self.states, self.actions, self.hessian)

    @property
    def _has_pairs(self) -> bool:
        """Whether there is a part in log pi, besides the one in the outputs."""
        return self.parts != {"output"}

    @property
    def _scores_suffice(self) -> bool:
        """Whether that part is Scores' diag(c) Scores, which needs no second derivatives."""
        return "hessian" not in self.parts or (self.policy.constant_curvature and self.complete)

    def _score_coefficients(self) -> Float[Array, " pairs"]:
        """The coefficients c of Scores' diag(c) Scores.

        With constant curvature, sum_a h_a grad grad' log pi = -(sum_a h_a) sum_a pi_a
        grad log pi_a grad' log pi_a in every state, Lemma 2.
        """
        if "hessian" not in self.parts:
            return self.outer.ravel()
        probabilities = jnp.exp(self._log_probs(self.w))
        return (self.outer - self.hessian.sum(axis=1, keepdims=True) * probabilities).ravel()

    def _factors(self) -> tuple[list[Float[Array, "rows m"]], list[Float[Array, "rows m"]]]:
        """Matrices L and R per leaf such that the matrix is L'R, if scores suffice."""
        left: list[list[Array]] = []
        right: list[list[Array]] = []
        if self._has_pairs:
            c = self._score_coefficients()[:, None]
            table = scores(self.policy, self.w, self.states, self.actions)
            left.append([leaf.reshape(c.size, -1) for leaf in jax.tree.leaves(table)])
            right.append([c * leaf for leaf in left[-1]])
        if "output" in self.parts:
            z = self._outputs(self.w)
            table = jax.vmap(jax.jacrev(self.policy.outputs), (None, 0))(self.w, self.states)
            J = [leaf.reshape(*z.shape, -1) for leaf in jax.tree.leaves(table)]
            fisher = jax.vmap(jax.vmap(self.policy.output_fisher, (None, 1), 1))
            g = -self.output[:, None, None]
            left.append([leaf.reshape(z.size, -1) for leaf in J])
            right.append([(g * fisher(z, leaf)).reshape(z.size, -1) for leaf in J])
        return _stacked(left), _stacked(right)

    def _log_probs(self, v: PyTree) -> Float[Array, "n k"]:
        return self.policy.log_probs(v, self.states, self.actions)

    def _outputs(self, v: PyTree) -> Float[Array, "n outputs"]:
        return jax.vmap(self.policy.outputs, in_axes=(None, 0))(v, self.states)

    def _fisher(self, z: Array, u: Array) -> Float[Array, "n outputs"]:
        return jax.vmap(self.policy.output_fisher)(z, u)


@jax.jit  # one call, not three, per direction
def _products(factors: tuple[float, ...], arrays: tuple[Array, ...]) -> list[Array]:
    return [factor * array for factor, array in zip(factors, arrays, strict=True)]


def _stacked(parts: list[list[Array]]) -> list[Array]:
    return [jnp.concatenate(leaves) for leaves in zip(*parts, strict=True)]


def _sandwich(
    f: Callable[[PyTree], Array], w: PyTree, middle: Callable[[Array, Array], Array]
) -> Callable[[PyTree], PyTree]:
    """p -> J' middle(f(w), J p) with J the Jacobian of f, by a pass forward and one back."""
    value, along = jax.linearize(f, w)
    against = jax.linear_transpose(along, w)
    return lambda p: against(middle(value, along(p)))[0]


def scores(policy: Policy, w: PyTree, states: PyTree, actions: PyTree) -> PyTree:
    """grad log pi of every listed pair, leading axes (n, k)."""
    by_action = jax.vmap(jax.grad(policy.log_prob), in_axes=(None, None, 0))
    return jax.vmap(by_action, in_axes=(None, 0, 0))(w, states, actions)


def curvature(policy: Policy, w: PyTree, pairs: Evaluation, form: str | Form) -> Any:
    """The matrix of a row of `FORMS`, or of a form of your own, as an operator.

    Args:
        policy: The policy, which gives `log_prob(w, state, action)`, and `outputs` for the
            generalised forms.
        w: Parameters at which `pairs` was evaluated.
        pairs: Weighted pairs, whose weights are constants, or accumulated matrices.
        form: A name in `FORMS`, or a `Form`.

    Returns:
        A `Curvature`, or a `Matrix` if it was accumulated.
    """
    if isinstance(pairs, AccumulatedMatrices):
        return pairs.matrix(w, form)
    form = form_named("curvature", form)
    weights = pairs.weights(form.weights, squares=form.outer != 0)
    factors = (form.hessian, form.outer, form.output)
    h, o, g = _products(factors, (weights, weights, weights.sum(axis=1)))
    return Curvature(
        policy=policy,
        w=w,
        states=pairs.states,
        actions=pairs.actions,
        hessian=h,
        outer=o,
        output=g,
        complete=pairs.complete,
        parts=frozenset(part for part, factor in form.terms.items() if factor),
    )


def surrogate(
    policy: Policy, w: PyTree, pairs: WeightedPairs, form: str | Form = "H2"
) -> Callable[[PyTree], Scalar]:
    r"""The function S(v), whose derivatives at v = w are the paper's.

    With the value weights of "H2" it is the EM bound $\mathcal{Q}(v, w)$ of eq. (16) up to a
    constant in v, and its gradient at w is the policy gradient, eq. (11).
    """
    found: Callable[[PyTree], Array] = curvature(policy, w, pairs, form).surrogate
    return found


def gradient(policy: Policy, w: PyTree, pairs: Evaluation) -> PyTree:
    """The policy gradient sum_i c_i grad log pi_i, eq. (11), c the `gradient_weights`."""
    if isinstance(pairs, AccumulatedMatrices):
        return pairs.gradient
    return _gradient(policy, w, pairs.states, pairs.actions, pairs.gradient_weights)


@eqx.filter_jit
def _gradient(policy: Policy, w: PyTree, states: PyTree, actions: PyTree, weights: Array) -> PyTree:
    return jax.grad(lambda v: jnp.sum(weights * policy.log_probs(v, states, actions)))(w)
