"""Exact evaluation of Gaussian policies on linear dynamics with quadratic costs."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from mdpnewton.checks import instance
from mdpnewton.evaluation import Evaluator, WeightedPairs
from mdpnewton.evaluators.affine_features import affine_map
from mdpnewton.models.quadratic import QuadraticMDP, power_sum
from mdpnewton.policies.affine import AffineGaussian, Deviation
from mdpnewton.policies.full_gaussian import FullGaussian
from mdpnewton.policies.gaussian import Gaussian, LinearGaussian
from mdpnewton.threads import threads_for


class QuadraticEvaluator(Evaluator):
    r"""Computes U, and pairs with which every form of `FORMS` is exact, on a `QuadraticMDP`.

    It evaluates `AffineGaussian`, and `LinearGaussian`, `Gaussian` and `FullGaussian` with features
    affine in the state. With r the noise of the action,
    $-A(s,a) = r^\top G r - \mathrm{tr}\,G\Sigma + 2r^\top E x$ is linear in x = (s, 1), and odd
    powers of r average out. So all forms are quadratic in the state, for the weights p A as well as
    p V, and a few nodes with the second moments of both measures replace them without loss: 2d
    states each, and in every state the $4^k$ actions of a Gauss-Hermite rule.

    With respect to the mean of a policy, $A_1 = -2\,G \otimes S$, where S are the moments of x, and
    the gradient is $-2 E S$: the first Gauss-Newton method with step 1 is policy iteration.

    Where $\gamma\rho(A + BK)^2 \geq 1$ the objective is minus infinity. Where only
    $\gamma\rho(A + BK)^4 \geq 1$, the forms that are weighted by p Q or p V (H1, H2, V1, V2) are
    infinite, and a solve with them reports "not finite"; all other forms and the gradient are
    finite.

    An action of an `AffineGaussian` is represented by r alone, so that a small sigma costs no
    digits but those of 1 / sigma. For the other policies A1 is accurate to about
    $10^{-16}|a|^2/\sigma^2$.
    """

    def __init__(self, mdp: QuadraticMDP):
        remedy = "build one with `QuadraticMDP(...)`"
        self.mdp: QuadraticMDP = instance("QuadraticEvaluator", "mdp", mdp, QuadraticMDP, remedy)
        self._noise, self._shares = _gauss_hermite(mdp.n_actions)

    def evaluate(self, key: Any, policy: Any, w: PyTree) -> WeightedPairs:
        """The weighted nodes at `w`; `key` is not used."""
        d, k = self.mdp.n_states, self.mdp.n_actions
        found = self.moments(policy, w)
        shape = (2, 2 * d, self._shares.size)  # p, then p V; states; actions
        occupancy, value, advantage = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        states, r = np.zeros((*shape[:2], d)), np.zeros((shape[2], k))
        if found is None:
            occupancy[:], value[:], advantage[:] = np.inf, -np.inf, -np.inf
        else:
            share = self._shares / (2 * d)
            valued = found.visited if found.valued is None else found.valued
            states[:] = _nodes(found.visited), _nodes(valued)
            x = np.concatenate([states, np.ones((*shape[:2], 1))], axis=2)
            r = self._noise @ np.linalg.cholesky(found.covariance).T
            even = np.sum(r @ found.curvature * r, axis=1)
            even -= np.sum(found.curvature * found.covariance)
            occupancy[0] = found.visited[-1, -1] * share
            advantage[0] = -occupancy[0] * (even + 2 * x[0] @ found.slope.T @ r.T)
            value[0] = advantage[0]
            value[1] = -np.inf if found.valued is None else -valued[-1, -1] * share
        flat = jnp.asarray(states.reshape(-1, d))
        return WeightedPairs(
            states=flat,
            actions=_actions(policy, w, flat, jnp.asarray(r)),
            occupancy=_listed(occupancy),
            value=_listed(value),
            advantage=_listed(advantage),
            objective=-np.inf if found is None else found.objective,
            ascent=_listed(advantage),
        )

    def objective(self, key: Any, policy: Any, w: PyTree) -> float:
        """U, or minus infinity; `key` is not used."""
        cost = self._cost(policy, w)
        return -np.inf if cost is None else cost.objective

    def moments(self, policy: Any, w: PyTree) -> "QuadraticMoments | None":
        """The moments behind the pairs; None where the objective is minus infinity."""
        cost = self._cost(policy, w)
        with np.errstate(all="ignore"), threads_for(100 * (self.mdp.n_states + 1) ** 6):
            found = None if cost is None else _moments(self.mdp, cost)
        return found if found is not None and np.isfinite(found.visited).all() else None

    def _cost(self, policy: Any, w: PyTree) -> "_Cost | None":
        mdp = self.mdp
        with np.errstate(all="ignore"):  # an overflow shows as a value that is not finite
            gain, covariance = _law(policy, w, mdp)
            if not (_is_positive_definite(covariance) and mdp.growth(gain) < 1):
                return None
            P = mdp.cost_to_go(gain)
            G, gamma = mdp.action_curvature(P), mdp.discount
            noise = np.sum(G * covariance) + gamma * np.sum(P[:-1, :-1] * np.asarray(mdp.noise))
            constant = noise / (1 - gamma)
            objective = -float(np.sum(P * mdp.start_moments()) + constant)
        cost = _Cost(gain, covariance, P, float(constant), G, objective)
        return cost if np.isfinite(objective) else None


class QuadraticMoments(NamedTuple):
    r"""Moments under a policy $a = [K|m]\,x + N(0, \Sigma)$, with x = (s, 1).

    Attributes:
        gain: Gain and offset [K | m].
        covariance: Covariance $\Sigma$ of the action about its mean.
        cost_to_go: P in -V(s) = x'P x + `constant`.
        constant: Cost of the noise of all steps.
        curvature: $G = R + \gamma B^\top P B$.
        objective: The objective U.
        slope: $E = R[K|m] + \gamma B^\top P L$, which is zero where the mean is greedy.
        visited: $S = \sum_t\gamma^t E\,x_t x_t^\top$.
        valued: $-\sum_t\gamma^t E\,V(s_t)\,x_t x_t^\top$; None where it is infinite.
    """

    gain: Float[np.ndarray, "k x"]
    covariance: Float[np.ndarray, "k k"]
    cost_to_go: Float[np.ndarray, "x x"]
    constant: float
    curvature: Float[np.ndarray, "k k"]
    objective: float
    slope: Float[np.ndarray, "k x"]
    visited: Float[np.ndarray, "x x"]
    valued: Float[np.ndarray, "x x"] | None


class _Cost(NamedTuple):
    """The first fields of `QuadraticMoments`, which are all that U needs."""

    gain: np.ndarray
    covariance: np.ndarray
    cost_to_go: np.ndarray
    constant: float
    curvature: np.ndarray
    objective: float


def _moments(mdp: QuadraticMDP, cost: _Cost) -> QuadraticMoments:
    gamma, P, B = mdp.discount, cost.cost_to_go, np.asarray(mdp.B)
    L = mdp.closed_loop(cost.gain)
    start, noise = mdp.start_moments(), np.zeros_like(P)
    noise[:-1, :-1] = np.asarray(mdp.noise) + B @ cost.covariance @ B.T
    visited = power_sum(gamma**0.5 * L, start + gamma / (1 - gamma) * noise)
    slope = np.asarray(mdp.action_cost) @ cost.gain + gamma * B.T @ P[:-1] @ L
    valued = None
    if mdp.growth(cost.gain) ** 2 < gamma:
        # E x x x x of all steps: that of a Gaussian at the start, then L x + noise.
        ahead, mean = L @ visited @ L.T, start[-1]
        fresh = _pairings(ahead, noise) + _pairings(noise, ahead)
        fresh += _pairings(noise, noise) / (1 - gamma)
        first = _pairings(start, start) - 2 * np.einsum("i,j,k,l->ijkl", mean, mean, mean, mean)
        square = (P.size, P.size)
        quartic = power_sum(gamma**0.5 * np.kron(L, L), (first + gamma * fresh).reshape(square))
        found = (P.ravel() @ quartic).reshape(P.shape) + cost.constant * visited
        valued = found if np.isfinite(found).all() else None
    return QuadraticMoments(*cost, slope, visited, valued)


def _pairings(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """X_ij Y_kl + X_ik Y_jl + X_il Y_jk."""
    product = np.multiply.outer(X, Y)
    total: np.ndarray = product + product.transpose(0, 2, 1, 3) + product.transpose(0, 3, 2, 1)
    return total


def _nodes(moments: Float[np.ndarray, "x x"]) -> Float[np.ndarray, "nodes d"]:
    """2d states of equal weight that, with the right mass, have these moments of (s, 1).

    States in different units keep their digits.
    """
    d = len(moments) - 1
    units = np.sqrt(np.diag(moments)[:d] / moments[d, d])
    units = np.where(units > 0, units, 1.0)
    scaled = moments[:d] / moments[d, d] / units[:, None]
    mean = scaled[:, d]
    values, vectors = np.linalg.eigh(scaled[:, :d] / units - np.outer(mean, mean))
    out = (vectors * np.sqrt(d * np.maximum(values, 0.0))).T
    nodes: np.ndarray = units * (mean + np.concatenate([out, -out]))
    return nodes


def _gauss_hermite(k: int) -> tuple[np.ndarray, np.ndarray]:
    """Four points per axis for a standard normal: exact to degree 7; A1 of sigma has degree 6."""
    points, weights = np.polynomial.hermite_e.hermegauss(4)
    grid = np.stack(np.meshgrid(*[points] * k, indexing="ij"), axis=-1).reshape(-1, k)
    shares = np.stack(np.meshgrid(*[weights / weights.sum()] * k), axis=-1)
    return grid, shares.prod(axis=-1).ravel()


def _listed(weights: np.ndarray) -> Array:
    """Join both measures into one list of states."""
    return jnp.asarray(weights.reshape(-1, weights.shape[2]))


@eqx.filter_jit
def _actions(policy: Any, w: PyTree, states: Array, r: Float[Array, "j k"]) -> Any:
    """The mean in every state plus each r, represented by r alone for an `AffineGaussian`."""
    if not isinstance(policy, AffineGaussian):
        return jax.vmap(policy.mode, (None, 0))(w, states)[:, None] + r
    shape, log_sigma = (len(states), len(r)), policy.log_sigma(w)
    return Deviation(
        at=jnp.broadcast_to(w["mean"], (*shape, *w["mean"].shape)),
        log_sigma=jnp.full(shape, log_sigma),
        residual=jnp.broadcast_to(r, (*shape, r.shape[1])),
        excess=jnp.full(shape, -policy.n_actions * jnp.exp(2 * log_sigma)),  # a single action
    )


def _is_positive_definite(covariance: np.ndarray) -> bool:
    if not np.isfinite(covariance).all():
        return False
    return bool(np.linalg.eigvalsh(covariance).min() > 0)


def _law(policy: Any, w: PyTree, mdp: QuadraticMDP) -> tuple[np.ndarray, np.ndarray]:
    """Gain and offset [K | m], and the covariance of the action about its mean."""
    d, k = mdp.n_states, mdp.n_actions
    if isinstance(policy, AffineGaussian):
        states, mean, features = policy.n_states, w["mean"], np.eye(policy.n_states + 1)
        covariance = np.exp(2 * np.asarray(policy.log_sigma(w))) * np.eye(policy.n_actions)
    elif isinstance(policy, LinearGaussian):
        states, mean, features = d, w, affine_map("QuadraticEvaluator", policy.features, d)
        covariance = np.asarray(policy.covariance)
    elif isinstance(policy, FullGaussian):
        states, mean, features = d, w["mean"], affine_map("QuadraticEvaluator", policy.features, d)
        covariance = np.asarray(_covariance(policy, w))
    elif isinstance(policy, Gaussian):
        states, mean, features = d, w["mean"], affine_map("QuadraticEvaluator", policy.features, d)
        covariance = np.diag(np.exp(2 * np.asarray(policy.log_sigma(w))))
    else:
        raise ValueError(
            f"`QuadraticEvaluator` is exact for `AffineGaussian`, `LinearGaussian`, `Gaussian` and "
            f"`FullGaussian` alone, got {type(policy).__name__}."
        )
    if (states, len(covariance)) != (d, k) or mean.shape != (k, len(features)):
        raise ValueError(
            f"`QuadraticEvaluator` got a policy for {len(covariance)} actions and {states} states "
            f"with a mean of shape {mean.shape}, but the MDP has {k} and {d} dimensions and needs "
            f"{(k, len(features))}."
        )
    return np.asarray(mean) @ features, covariance


@eqx.filter_jit
def _covariance(policy: FullGaussian, w: PyTree) -> Array:
    return policy.covariance(w)
