"""H12 and the full Hessian of the objective, for evaluations that know how decisions meet.

H12 joins a decision with all that follow it: an exact evaluation of a finite MDP knows the gradient
of V in every state, and whole episodes show what followed.
"""

from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree
from scipy import sparse

from mdpnewton.curvature import Curvature, curvature, gradient, scores
from mdpnewton.evaluation import (
    AccumulatedMatrices,
    Crossing,
    Evaluation,
    Evaluator,
    WeightedPairs,
)
from mdpnewton.models.policy_chain import PolicyChain
from mdpnewton.policies import Policy
from mdpnewton.threads import threads_for


def score_table(policy: Policy, w: PyTree, pairs: WeightedPairs) -> np.ndarray:
    """grad log pi(a|s) of every pair over the flattened parameters, (S, A, n)."""
    leaves = jax.tree.leaves(_scores(policy, w, pairs.states, pairs.actions))
    lead = pairs.occupancy.shape
    return np.concatenate([np.asarray(leaf).reshape(*lead, -1) for leaf in leaves], axis=2)


def value_gradient(policy: Policy, w: PyTree, pairs: WeightedPairs) -> np.ndarray:
    """grad V(s) in every state, Lemma 1, eq. (37), shape (S, n)."""
    return _closed_loop(pairs).value_gradient(score_table(policy, w, pairs))


def cross_term(policy: Policy, w: PyTree, pairs: WeightedPairs) -> np.ndarray:
    """H12 = sum p_gamma grad log pi grad' Q, eq. (20), as a dense (n, n) matrix.

    From samples it is an unbiased estimate, see `EpisodeCrossing`.
    """
    return _crossing(pairs).cross_term(score_table(policy, w, pairs))


def hessian_terms(policy: Policy, w: PyTree, pairs: WeightedPairs) -> dict[str, np.ndarray]:
    """The Hessian and all its parts, dense, Theorems 3 and 4, eqs. (18)-(22) and (45).

    All of them come from one table of scores. An exact evaluation lists every action, so that
    V2 = -V1 and both forms of the Fisher matrix agree, Lemma 2; A2 is zero where the curvature is
    constant, Lemma 3.
    """
    loop, table = _closed_loop(pairs), score_table(policy, w, pairs)
    A1, V1, fisher = (
        _gram(table, np.asarray(weights))
        for weights in (pairs.advantage, pairs.baseline, pairs.occupancy)
    )
    A2 = np.zeros_like(A1)
    if not policy.constant_curvature:
        A2 = np.asarray(curvature(policy, w, pairs, "A2").dense())
    H12 = loop.cross_term(table)
    return {
        "hessian": A1 + A2 + H12 + H12.T,
        "H1": A1 + V1,
        "H2": A2 - V1,
        "H12": H12,
        "A1": A1,
        "A2": A2,
        "V1": V1,
        "V2": -V1,
        "fisher": fisher,
    }


SPARSE = 0.02  # share of scores that are not zero below which products skip the others


@dataclass(frozen=True)
class PolicyHessian:
    """sign * (H12 + H12') + local: the Hessian of U, Theorem 4, where local is A1 + A2.

    This is an operator like `Curvature`. A product costs two solves with the closed loop, or from
    samples two sums along the episodes, and two passes over the scores; nothing of size n x n or
    S x S is formed.
    """

    pairs: WeightedPairs
    local: Curvature
    sign: float = 1.0

    @property
    def w(self) -> PyTree:
        """Parameters at which the Hessian is taken."""
        return self.local.w

    def __add__(self, other: Curvature) -> "PolicyHessian":
        return replace(self, local=self.local + other)

    def __neg__(self) -> "PolicyHessian":
        return replace(self, local=-self.local, sign=-self.sign)

    def mv(self, p: PyTree) -> PyTree:
        """The product with p, exact or as the samples have it."""
        loop, policy, w = _crossing(self.pairs), self.local.policy, self.w
        states, actions = self.pairs.states, self.pairs.actions
        along = np.asarray(_along(policy, w, states, actions, p))  # p' grad log pi(a|s)
        cotangent = jnp.asarray(loop.cross_weights(along))
        cross = _against(policy, w, states, actions, cotangent)
        return jax.tree.map(lambda x, y: x + self.sign * y, self.local.mv(p), cross)

    def dense(self) -> Float[Array, "n n"]:
        """The matrix, over the flattened parameters."""
        cross = jnp.asarray(cross_term(self.local.policy, self.w, self.pairs))
        return self.local.dense() + self.sign * (cross + cross.T)

    def diagonal(self) -> PyTree:
        """The diagonal, shaped like `w`."""
        return ravel_pytree(self.w)[1](jnp.diagonal(self.dense()))

    def blocks(self) -> list[Float[Array, "blocks m m"]]:
        """The diagonal blocks of each leaf of `w`, over `policy.independent_axes`."""
        return _diagonal_blocks(self.dense(), self.w, self.local.policy.independent_axes)


@dataclass(frozen=True)
class DifferencedHessian:
    """Minus the Hessian of U, by differences of gradients: Appendix B.3, eq. (61).

    Every product evaluates the policy anew near `w`. This is the Hessian-free Newton method that
    the paper compares with, exact or sampled as its evaluator is.

    Attributes:
        policy: The policy.
        w: Parameters at which the Hessian is taken.
        gradient: The policy gradient at `w`.
        evaluator: Evaluates the policy near `w`.
        key: Random key of the evaluator, the same for every product.
        epsilon: Step of the difference, relative to the norms of `w` and of the vector.
    """

    policy: Policy
    w: PyTree
    gradient: PyTree
    evaluator: Evaluator
    key: Any = None
    epsilon: float = 1e-6

    def mv(self, p: PyTree) -> PyTree:
        """The product with p."""
        flat, unravel = ravel_pytree(self.w)
        vector = ravel_pytree(p)[0]
        norm = float(jnp.linalg.norm(vector))
        step = self.epsilon * (1 + float(jnp.linalg.norm(flat))) / (norm or 1.0)
        moved = unravel(flat + step * vector)
        pairs = self.evaluator.evaluate(self.key, self.policy, moved)
        beside = gradient(self.policy, moved, pairs)
        return jax.tree.map(lambda x, y: (x - y) / step, self.gradient, beside)

    def dense(self) -> Float[Array, "n n"]:
        """The matrix, one product per column."""
        flat, unravel = ravel_pytree(self.w)
        columns = [ravel_pytree(self.mv(unravel(e)))[0] for e in jnp.eye(flat.size)]
        matrix = jnp.stack(columns)
        return 0.5 * (matrix + matrix.T)

    def diagonal(self) -> PyTree:
        """The diagonal, shaped like `w`."""
        return ravel_pytree(self.w)[1](jnp.diagonal(self.dense()))

    def blocks(self) -> list[Float[Array, "blocks m m"]]:
        """The diagonal blocks of each leaf of `w`, over `policy.independent_axes`."""
        return _diagonal_blocks(self.dense(), self.w, self.policy.independent_axes)


def policy_hessian(policy: Policy, w: PyTree, pairs: Evaluation) -> Any:
    """The Hessian of U at `w`, Theorem 4, as an operator: exact, or an unbiased estimate.

    Args:
        policy: The policy.
        w: Parameters at which `pairs` was evaluated.
        pairs: Weighted pairs, or matrices with one of the name "hessian".

    Returns:
        A `PolicyHessian`, or a `Matrix` if it was accumulated.
    """
    if isinstance(pairs, AccumulatedMatrices):
        return pairs.matrix(w, "hessian")
    _crossing(pairs)
    return PolicyHessian(pairs, curvature(policy, w, pairs, "A1+A2"))


def _closed_loop(pairs: WeightedPairs) -> PolicyChain:
    if pairs.closed_loop is None:
        raise ValueError(
            "the gradient of V in every state and a table of all terms need an exact evaluation of "
            "a finite MDP; use `FiniteEvaluator`, or from samples `policy_hessian`."
        )
    return pairs.closed_loop


def _crossing(pairs: WeightedPairs) -> Crossing:
    found = pairs.closed_loop or pairs.crossing
    if found is None:
        raise ValueError(
            "H12 and the full Hessian need to know what follows a decision: an exact evaluation of "
            "a finite MDP does (`FiniteEvaluator`), and whole episodes do (`MonteCarlo`); use one "
            "of them, or a Gauss-Newton method."
        )
    return found


def _gram(table: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """sum weights * score score' over all pairs; NumPy computes X'X at half the cost of X'Y."""
    rows = (np.sqrt(np.abs(weights))[:, :, None] * table).reshape(weights.size, -1)
    negative = weights.ravel() < 0
    above, below = rows[~negative], rows[negative]
    if np.count_nonzero(rows) < SPARSE * rows.size:  # as the scores of a table are
        some, other = sparse.csr_array(above), sparse.csr_array(below)
        found: np.ndarray = (some.T @ some - other.T @ other).toarray()
        return found
    with threads_for(rows.size * rows.shape[1]):
        product: np.ndarray = above.T @ above - below.T @ below
    return product


def _diagonal_blocks(matrix: Array, w: PyTree, independent_axes: int) -> list[Array]:
    found, begin = [], 0
    for leaf in jax.tree.leaves(w):
        number = int(np.prod(leaf.shape[:independent_axes], dtype=int))
        size = leaf.size // number
        starts = begin + size * np.arange(number)
        found.append(jnp.stack([matrix[i : i + size, i : i + size] for i in starts]))
        begin += leaf.size
    return found


_scores = eqx.filter_jit(scores)


@eqx.filter_jit
def _along(policy: Policy, w: PyTree, states: Any, actions: Any, p: PyTree) -> Array:
    found: Array = jax.jvp(lambda v: policy.log_probs(v, states, actions), (w,), (p,))[1]
    return found


@eqx.filter_jit
def _against(policy: Policy, w: PyTree, states: Any, actions: Any, cotangent: Array) -> PyTree:
    return jax.vjp(lambda v: policy.log_probs(v, states, actions), w)[1](cotangent)[0]
