"""What the policy Hessian of a finite MDP looks like at w, and what it predicts."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from mdpnewton.curvature import gradient
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.hessian import hessian_terms, score_table
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.policies import Policy

ROUND_OFF = 1e-9  # relative size below which a number counts as zero


@dataclass(frozen=True)
class Spectrum:
    """Extreme eigenvalues of a symmetric matrix, and its definiteness in words.

    Attributes:
        smallest: The smallest eigenvalue.
        largest: The largest eigenvalue.
        scale: Largest entry of all matrices that are analysed together; round-off is relative to
            it.
    """

    smallest: float
    largest: float
    scale: float

    @property
    def definiteness(self) -> str:
        """The definiteness up to round-off, such as "negative semidefinite"."""
        floor = ROUND_OFF * self.scale
        if self.smallest >= -floor and self.largest <= floor:
            return "zero"
        if self.smallest > floor:
            return "positive definite"
        if self.largest < -floor:
            return "negative definite"
        if self.smallest >= -floor:
            return "positive semidefinite"
        if self.largest <= floor:
            return "negative semidefinite"
        return "indefinite"


@dataclass(frozen=True)
class Consistency:
    """Whether value consistency, Definition 2, holds at w.

    Attributes:
        consistent: Whether no witness was found.
        witness: None, or a counterexample: a `parameter` that pulls two `states` in opposite
            directions (kind "opposite signs"), or that moves the policy of a state without moving
            its value, while it moves the value of another state (kind "policy moves, value does
            not").
    """

    consistent: bool
    witness: dict[str, Any] | None


@dataclass(frozen=True)
class Rate:
    """What local convergence theory predicts for a method at a stationary point.

    Attributes:
        jacobian: Jacobian of the update at step size 1, eqs. (29) and (32), Theorem 12.
        rate: Spectral radius of the Jacobian: an iteration shrinks the distance by this factor.
        largest_step: The method converges with step sizes in (0, largest_step), eqs. (30) and (33);
            None if no step size converges.
    """

    jacobian: np.ndarray
    rate: float
    largest_step: float | None


@dataclass(frozen=True)
class Analysis:
    """Analysis of one policy on one finite MDP, as dense arrays over flat parameters.

    Attributes:
        objective: The objective U(w).
        gradient: Gradient of U, eq. (11).
        terms: Matrices "hessian", "H1", "H2", "H12", "A1", "A2", "V1", "V2", "fisher".
        occupancy: Occupancy p_gamma(s, a).
        value: Value V(s).
        advantage: Advantage A(s, a).
        constant_curvature: Whether Definition 1 holds, checked at every action of every state.
        consistency: Whether Definition 2 holds at w.
        guaranteed: Whether Theorem 5 guarantees that H2 is negative semidefinite.
        stationary: Whether the gradient is zero up to `stationary_tolerance`.
        unused_parameters: Numbers of the parameters that change the policy in no state, as with a
            feature that is zero everywhere.
        rates: Predicted rates of "first_gauss_newton", "second_gauss_newton" and
            "expectation_maximization", where w is stationary and they are defined.
    """

    objective: float
    gradient: np.ndarray
    terms: dict[str, np.ndarray]
    occupancy: np.ndarray
    value: np.ndarray
    advantage: np.ndarray
    constant_curvature: bool
    consistency: Consistency
    guaranteed: bool
    stationary: bool
    unused_parameters: list[int] = field(default_factory=list)
    rates: dict[str, Rate] = field(default_factory=dict)

    @cached_property
    def singular(self) -> bool:
        """Whether H2 has an eigenvalue that is zero up to round-off."""
        values = np.abs(np.linalg.eigvalsh(self.terms["H2"]))
        return bool(values.min() <= ROUND_OFF * values.max())

    @cached_property
    def spectra(self) -> dict[str, Spectrum]:
        """Extreme eigenvalues of every term; the cross term is represented by H12 + H12'."""
        found = {}
        scale = max(float(np.abs(matrix).max()) for matrix in self.terms.values())
        for name, matrix in self.terms.items():
            symmetric = matrix + matrix.T if name == "H12" else 0.5 * (matrix + matrix.T)
            values = np.linalg.eigvalsh(symmetric)
            label = "H12+H12'" if name == "H12" else name
            found[label] = Spectrum(float(values[0]), float(values[-1]), scale)
        return found


def analyze(
    mdp: FiniteMDP, policy: Policy, w: PyTree, *, stationary_tolerance: float = 1e-6
) -> Analysis:
    """Compute every term of the policy Hessian at `w` and what follows from them.

    Args:
        mdp: The problem. Dense matrices of the size of `w` squared are formed.
        policy: The policy.
        w: Parameters of the policy.
        stationary_tolerance: Norm of the gradient, relative to |H2|, below which w counts as
            stationary and rates are predicted.
    """
    pairs = FiniteEvaluator(mdp).evaluate(None, policy, w)
    if not np.isfinite(pairs.objective):
        raise ValueError(
            "`analyze(w=...)` gives action probabilities that are not finite; use weights (or "
            "features) of a smaller size."
        )
    loop = pairs.closed_loop
    assert loop is not None
    terms = hessian_terms(policy, w, pairs)
    flat = np.asarray(ravel_pytree(gradient(policy, w, pairs))[0])
    size = max(np.abs(terms["H2"]).max(), np.finfo(float).tiny)
    stationary = bool(np.linalg.norm(flat) <= stationary_tolerance * size)
    return Analysis(
        objective=pairs.objective,
        gradient=flat,
        terms=terms,
        occupancy=loop.occupancy,
        value=loop.value,
        advantage=loop.advantage,
        constant_curvature=has_constant_curvature(policy, w, pairs),
        consistency=value_consistency(policy, w, pairs),
        guaranteed=is_guaranteed_definite(policy, pairs),
        stationary=stationary,
        unused_parameters=[int(i) for i in np.flatnonzero(~(np.diag(terms["fisher"]) > 0))],
        rates=predicted_rates(terms) if stationary else {},
    )


def has_constant_curvature(policy: Policy, w: PyTree, pairs: WeightedPairs) -> bool:
    """Whether grad grad' log pi is the same for all listed actions of a state, at w."""
    products = _probed_curvature(policy, w, pairs.states, pairs.actions)
    spread = jnp.abs(products - products[:, :1]).max()
    return bool(spread <= ROUND_OFF * jnp.maximum(jnp.abs(products).max(), 1e-300))


@eqx.filter_jit
def _probed_curvature(policy: Policy, w: PyTree, states: Any, actions: Any) -> Any:
    """Products of grad grad' log pi with three fixed vectors, which tell matrices apart."""
    flat, unravel = ravel_pytree(w)

    def product(state: Any, action: Any, p: Any) -> Any:
        slope = jax.grad(lambda v: policy.log_prob(unravel(v), state, action))
        return jax.jvp(slope, (flat,), (p,))[1]

    by_probe = jax.vmap(product, in_axes=(None, None, 0))
    by_action = jax.vmap(by_probe, in_axes=(None, 0, None))
    probes = jax.random.normal(jax.random.key(0), (3, flat.size))
    return jax.vmap(by_action, in_axes=(0, 0, None))(states, actions, probes)


def is_guaranteed_definite(policy: Policy, pairs: WeightedPairs) -> bool:
    """Whether Theorem 5 applies: log-concave and Q >= 0, or constant curvature and V >= 0."""
    floor = -ROUND_OFF * float(jnp.abs(pairs.value).max())
    by_action = policy.log_concave and bool((pairs.value >= floor).all())
    by_state = policy.constant_curvature and bool((pairs.value.sum(axis=1) >= floor).all())
    return by_action or (by_state and pairs.complete)


def value_consistency(policy: Policy, w: PyTree, pairs: WeightedPairs) -> Consistency:
    """Check Definition 2 at w: no parameter helps one state and harms another.

    A component of grad V counts as zero if it is below `ROUND_OFF` times what its sum over the
    future would be if nothing in it cancelled.
    """
    loop = pairs.closed_loop
    assert loop is not None
    numbers, slopes, moves, size = loop.responses(score_table(policy, w, pairs))
    floor = ROUND_OFF * size
    rises, falls = slopes > floor, slopes < -floor
    still = ~(rises | falls) & (moves > ROUND_OFF * max(moves.max(initial=0.0), 1e-300))
    opposed = rises.any(axis=0) & falls.any(axis=0)
    stranded = still.any(axis=0) & (rises | falls).any(axis=0)
    if opposed.any():
        i = int(np.argmax(np.where(opposed, np.minimum(slopes.max(0), -slopes.min(0)), -np.inf)))
        rows = [int(np.argmax(slopes[:, i])), int(np.argmin(slopes[:, i]))]
        kind = "opposite signs"
    elif stranded.any():
        i = int(np.argmax(stranded))
        rows = [int(np.argmax(np.abs(slopes[:, i]))), int(np.argmax(still[:, i]))]
        kind = "policy moves, value does not"
    else:
        return Consistency(True, None)
    return Consistency(
        False,
        {
            "kind": kind,
            "parameter": i,
            "states": [int(numbers[row]) for row in rows],
            "value_gradient": [float(slopes[row, i]) for row in rows],
        },
    )


def predicted_rates(terms: dict[str, np.ndarray]) -> dict[str, Rate]:
    """Jacobians of the updates at a stationary point and their spectral radii.

    A singular term is inverted on its range, and its rates are those on that range: a redundant
    parameter stays where it is.
    """
    H = terms["hessian"]
    found = {}
    for name, preconditioner in (
        ("first_gauss_newton", terms["A1"] + terms["A2"]),
        ("second_gauss_newton", terms["H2"]),
        ("expectation_maximization", terms["H2"]),
    ):
        values, vectors = np.linalg.eigh(preconditioner)
        kept = np.abs(values) > ROUND_OFF * np.abs(values).max(initial=0.0)
        if not kept.any():
            continue
        basis = vectors[:, kept]
        inner = (basis.T @ H @ basis) / values[kept][:, None]  # C^-1 H on the range of C
        ratios = np.linalg.eigvals(inner)
        converges = bool((ratios.real > 0).all())
        found[name] = Rate(
            jacobian=np.eye(len(H)) - basis @ inner @ basis.T,
            rate=float(np.abs(1 - ratios).max()),
            largest_step=float((2 * ratios.real / np.abs(ratios) ** 2).min())
            if converges
            else None,
        )
    return found
