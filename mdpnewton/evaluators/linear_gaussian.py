"""Exact evaluation of affine policies on linear-Gaussian MDPs, in time linear in the horizon."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from mdpnewton.checks import choice, instance
from mdpnewton.evaluation import Evaluator, WeightedPairs
from mdpnewton.evaluators.affine_features import affine_map
from mdpnewton.evaluators.linear_gaussian_moments import (
    Affine,
    Measure,
    Moments,
    law_of,
    moments,
    value,
)
from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.policies.affine import AffineGaussian, Deviation
from mdpnewton.policies.full_gaussian import FullDeviation, FullGaussian


class LinearGaussianEvaluator(Evaluator):
    r"""Computes U and the exact measures behind gradient, H2, Fisher matrix and EM in two passes.

    One pass runs forward in time, one backward. There are few pairs: 2d nodes replace a measure of
    known mass, mean and covariance without loss, because the average of log pi is quadratic in the
    state. It takes `AffineGaussian`, and `FullGaussian` with features affine in the state. Forms
    with outer products of scores (A1, H1) are quartic and therefore refused; see
    `linear_gaussian_terms`.

    Attributes:
        mdp: The problem.
        logarithm: Whether the objective is log U. Its gradient and H2 are those of U divided by U,
            which may be as small as 1e-49 on a plateau.
    """

    def __init__(self, mdp: LinearGaussianMDP, *, logarithm: bool = True):
        call, remedy = "LinearGaussianEvaluator", "build one with `LinearGaussianMDP(...)`"
        self.mdp: LinearGaussianMDP = instance(call, "mdp", mdp, LinearGaussianMDP, remedy)
        self.logarithm: bool = choice(call, "logarithm", logarithm, (True, False))

    def evaluate(self, key: Any, policy: Affine, w: PyTree) -> WeightedPairs:
        """The weighted nodes at `w`; `key` is not used."""
        self._check(policy)
        pairs, objective = _evaluation(self.mdp, policy, w, self.logarithm)
        return WeightedPairs(**pairs, objective=float(objective), averaged=True)

    def objective(self, key: Any, policy: Affine, w: PyTree) -> float:
        """log U if `logarithm`, else U; `key` is not used."""
        self._check(policy)
        return float(value(self.mdp, policy, w, self.logarithm))

    def moments(self, policy: Affine, w: PyTree) -> Moments:
        """The measures at `w`, divided by U."""
        self._check(policy)
        return moments(self.mdp, policy, w)

    def _check(self, policy: Any) -> None:
        call, shape = "LinearGaussianEvaluator", (self.mdp.n_actions, self.mdp.n_states)
        if not isinstance(policy, Affine):
            raise ValueError(
                f"`{call}` is exact for `AffineGaussian` and `FullGaussian` alone, got "
                f"{type(policy).__name__}."
            )
        states = shape[1]
        if isinstance(policy, FullGaussian):
            size = len(affine_map(call, policy.features, states))
            if size != policy.n_features:
                raise ValueError(
                    f"`{call}` got a policy for {policy.n_features} features, but for the MDP's "
                    f"{states} dimensions its features have {size}."
                )
        else:
            states = policy.n_states
        if (policy.n_actions, states) != shape:
            raise ValueError(
                f"`{call}` got a policy for {policy.n_actions} actions and {states} states, but "
                f"the MDP has {shape[0]} and {shape[1]} dimensions."
            )


def _nodes(measure: Measure) -> tuple[Float[Array, "nodes d"], Float[Array, "d d"]]:
    """2d states of equal weight with this mean and covariance, and the inverse of the root.

    The root is that of the correlation matrix, so that states in different units keep their digits.
    """
    d = measure.mean.size
    units = jnp.sqrt(jnp.diag(measure.covariance))
    units = jnp.where(units > 0, units, 1.0)
    values, vectors = jnp.linalg.eigh(measure.covariance / units / units[:, None])
    roots = jnp.sqrt(jnp.maximum(values, 0.0))
    inverse = jnp.where(values > 1e-15, 1 / jnp.where(values > 1e-15, roots, 1.0), 0.0)
    out = d**0.5 * (units[:, None] * vectors * roots).T
    return measure.mean + jnp.concatenate([out, -out]), vectors / units[:, None] * inverse


@eqx.filter_jit
def _evaluation(
    mdp: LinearGaussianMDP, policy: Affine, w: PyTree, logarithm: bool
) -> tuple[dict[str, Any], Any]:
    """The nodes of p Q, of p V with actions from the policy, and of p.

    They also give the advantage p Q - p V, because the average of log pi is linear in the weights.
    """
    n = 2 * mdp.n_states
    found = moments(mdp, policy, w)
    mean, variance = law_of(policy, w, mdp.n_states)
    U = 1.0 if logarithm else jnp.exp(found.log_objective)
    measures = jax.tree.map(lambda *parts: jnp.stack(parts), found.valued, found.visited)
    (valued, visited), (inverse, _) = jax.vmap(_nodes)(measures)  # one batch of eigenvectors
    along = mdp.n_states**0.5 * (found.covariance @ inverse).T
    drive = found.drive + jnp.concatenate([along, -along])
    none, mass = jnp.zeros((n, 1)), jnp.full((n, 1), U * found.valued.mass / n)
    pairs = {
        "states": jnp.concatenate([valued, valued, visited]),
        "actions": _deviation(policy, w, mean, variance, drive, found.excess / found.valued.mass),
        "occupancy": jnp.concatenate([none, none, jnp.full((n, 1), found.visited.mass / n)]),
        "value": jnp.concatenate([mass, none, none]),
        "advantage": jnp.concatenate([mass, -mass, none]),
    }
    return pairs, found.log_objective if logarithm else U


def _deviation(
    policy: Affine, w: PyTree, mean: Array, variance: Array, drive: Array, excess: Array
) -> Deviation | FullDeviation:
    r"""The actions in the first nodes, and those of the policy in as many and as many more.

    Args:
        policy: The policy.
        w: Its parameters.
        mean: Gain and offset.
        variance: Variance or covariance.
        drive: $E\zeta$ in every node.
        excess: $E\zeta\zeta^\top - \Sigma^{-1}$ over all of them.
    """
    n = len(drive)

    def first(x: Array) -> Array:
        return jnp.concatenate([x, jnp.zeros((2 * n, x.shape[1]))])[:, None]

    def everywhere(x: Array) -> Array:
        return jnp.broadcast_to(x, (3 * n, 1, *x.shape))

    if isinstance(policy, AffineGaussian):
        residual = variance * drive
        explained = jnp.mean(jnp.sum(residual**2, axis=1)) / variance
        left = variance * (variance * jnp.trace(excess) - explained)
        return Deviation(
            at=everywhere(mean),
            log_sigma=jnp.full((3 * n, 1), policy.log_sigma(w)),
            residual=first(residual),
            excess=jnp.concatenate([jnp.full((n, 1), left), jnp.zeros((2 * n, 1))]),
        )
    residual = drive @ variance
    left = variance @ excess @ variance - residual.T @ residual / n
    none = jnp.zeros((2 * n, 1, *left.shape))
    return FullDeviation(
        at=everywhere(mean),
        covariance=everywhere(variance),
        residual=first(residual),
        excess=jnp.concatenate([jnp.broadcast_to(left, (n, 1, *left.shape)), none]),
    )
