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

from mdpnewton.analysis.rates import Rate, predicted_rates
from mdpnewton.analysis.spectra import LANCZOS, ROUND_OFF, Spectrum, eigenvalues, ends
from mdpnewton.curvature import curvature, gradient
from mdpnewton.evaluation import WeightedPairs
from mdpnewton.evaluators import FiniteEvaluator
from mdpnewton.hessian import hessian_terms, policy_hessian, score_table
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.policies import Policy

DENSE = 5_000  # parameters of which matrices are formed: nine of 200 MB
TINY = np.finfo(float).tiny
LEFT_OUT = "matrices, value consistency, singularity and rates"


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
        consistency: Whether Definition 2 holds at w; None if that was left out.
        guaranteed: Whether Theorem 5 guarantees that H2 is negative semidefinite.
        stationary: Whether the gradient is zero up to `stationary_tolerance`.
        unused_parameters: Numbers of the parameters that change the policy in no state, as with a
            feature that is zero everywhere.
        rates: Predicted rates of "first_gauss_newton", "second_gauss_newton" and
            "expectation_maximization", where w is stationary and they are defined.
        ends: The ends of the spectra by Lanczos, where the matrices would be too large to form;
            then `terms` is empty. None otherwise.
    """

    objective: float
    gradient: np.ndarray
    terms: dict[str, np.ndarray]
    occupancy: np.ndarray
    value: np.ndarray
    advantage: np.ndarray
    constant_curvature: bool
    consistency: Consistency | None
    guaranteed: bool
    stationary: bool
    unused_parameters: list[int] = field(default_factory=list)
    rates: dict[str, Rate] = field(default_factory=dict)
    ends: dict[str, tuple[float, float]] | None = None

    @cached_property
    def singular(self) -> bool | None:
        """Whether H2 has an eigenvalue that is zero up to round-off; None if it was left out."""
        if self.ends is not None:
            return None
        values = np.abs(eigenvalues(self.terms["H2"]))
        return bool(values.min() <= ROUND_OFF * values.max())

    @property
    def left_out(self) -> str:
        """What was left out, and why; empty if nothing was."""
        if self.ends is None:
            return ""
        size = 9 * 8 * len(self.gradient) ** 2 / 1e9
        why = f"more than {DENSE:,} parameters, whose matrices would take {size:.3g} GB"
        return f"{LEFT_OUT} are left out: {why}; the ends of the spectra are by Lanczos"

    @cached_property
    def spectra(self) -> dict[str, Spectrum]:
        """Extreme eigenvalues of every term; the cross term is represented by H12 + H12'."""
        if self.ends is not None:
            size = max(max(map(abs, one)) for one in self.ends.values())
            return {
                name: Spectrum(*one, size, 10 * LANCZOS, inside=True)
                for name, one in self.ends.items()
            }
        found = {}
        scale = max(float(np.abs(matrix).max()) for matrix in self.terms.values())
        for name, matrix in self.terms.items():
            symmetric = matrix + matrix.T if name == "H12" else 0.5 * (matrix + matrix.T)
            values = eigenvalues(symmetric)
            label = "H12+H12'" if name == "H12" else name
            found[label] = Spectrum(float(values[0]), float(values[-1]), scale)
        return found


def analyze(
    mdp: FiniteMDP, policy: Policy, w: PyTree, *, stationary_tolerance: float = 1e-6
) -> Analysis:
    """Compute every term of the policy Hessian at `w` and what follows from them.

    Args:
        mdp: The problem. Up to 5,000 parameters dense matrices of the size of `w` squared are
            formed; beyond that spectra have their ends alone.
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
    flat = np.asarray(ravel_pytree(gradient(policy, w, pairs))[0])
    small = flat.size <= DENSE
    terms = hessian_terms(policy, w, pairs) if small else {}
    found = None if small else _ends(policy, w, pairs)
    diagonal = np.diag(terms["fisher"]) if small else _fisher_diagonal(policy, w, pairs)
    largest = np.abs(terms["H2"]).max() if small else np.abs(found["H2"]).max()  # type: ignore[index]
    stationary = bool(np.linalg.norm(flat) <= stationary_tolerance * max(largest, TINY))
    return Analysis(
        objective=pairs.objective,
        gradient=flat,
        terms=terms,
        occupancy=loop.occupancy,
        value=loop.value,
        advantage=loop.advantage,
        constant_curvature=has_constant_curvature(policy, w, pairs),
        consistency=value_consistency(policy, w, pairs) if small else None,
        guaranteed=is_guaranteed_definite(policy, pairs),
        stationary=stationary,
        unused_parameters=[int(i) for i in np.flatnonzero(~(diagonal > 0))],
        rates=predicted_rates(terms) if stationary and small else {},
        ends=found,
    )


def _ends(policy: Policy, w: PyTree, pairs: WeightedPairs) -> dict[str, tuple[float, float]]:
    """The ends of the spectrum of every term, from products with vectors."""
    flat, unravel = ravel_pytree(w)
    whole = policy_hessian(policy, w, pairs)

    def by(product: Any) -> tuple[float, float]:
        return ends(
            lambda x: np.asarray(ravel_pytree(product(unravel(jnp.asarray(x))))[0]), flat.size
        )

    def cross(p: PyTree) -> PyTree:
        return jax.tree.map(lambda x, y: x - y, whole.mv(p), whole.local.mv(p))

    forms = {
        name: by(curvature(policy, w, pairs, name).mv)
        for name in ("H1", "H2", "A1", "A2", "V1", "V2", "fisher")
    }
    return {"hessian": by(whole.mv), "H12+H12'": by(cross), **forms}


def _fisher_diagonal(policy: Policy, w: PyTree, pairs: WeightedPairs) -> np.ndarray:
    return np.asarray(ravel_pytree(curvature(policy, w, pairs, "fisher").diagonal())[0])


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
