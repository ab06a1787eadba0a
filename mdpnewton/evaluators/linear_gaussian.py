"""Exact evaluation of affine policies on linear-Gaussian MDPs, in time linear in the horizon."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from mdpnewton.checks import choice, instance
from mdpnewton.evaluation import Evaluator, WeightedPairs
from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.policies.affine import AffineGaussian, Deviation


class LinearGaussianEvaluator(Evaluator):
    r"""Computes U and the exact measures behind gradient, H2, Fisher matrix and EM in two passes.

    One pass runs forward in time, one backward. There are few pairs: 2d nodes replace a measure of
    known mass, mean and covariance without loss, because the average of log pi is quadratic in the
    state. Forms with outer products of scores (A1, H1) are quartic and therefore refused; see
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

    def evaluate(self, key: Any, policy: AffineGaussian, w: PyTree) -> WeightedPairs:
        """The weighted nodes at `w`; `key` is not used."""
        self._check(policy)
        pairs, objective = _evaluation(self.mdp, policy, w, self.logarithm)
        return WeightedPairs(**pairs, objective=float(objective), averaged=True)

    def objective(self, key: Any, policy: AffineGaussian, w: PyTree) -> float:
        """log U if `logarithm`, else U; `key` is not used."""
        self._check(policy)
        return float(_objective(self.mdp, policy, w, self.logarithm))

    def moments(self, policy: AffineGaussian, w: PyTree) -> "Moments":
        """The measures at `w`, divided by U."""
        self._check(policy)
        return _moments(self.mdp, policy, w)

    def _check(self, policy: Any) -> None:
        shape = (self.mdp.n_actions, self.mdp.n_states)
        if not isinstance(policy, AffineGaussian):
            raise ValueError(
                f"`LinearGaussianEvaluator` is exact for `AffineGaussian` alone, got "
                f"{type(policy).__name__}."
            )
        if (policy.n_actions, policy.n_states) != shape:
            raise ValueError(
                f"`LinearGaussianEvaluator` got a policy for {policy.n_actions} actions and "
                f"{policy.n_states} states, but the MDP has {shape[0]} and {shape[1]} dimensions."
            )


class Measure(NamedTuple):
    """A measure over states: its mass, and the mean and covariance of the normalised measure."""

    mass: Scalar
    mean: Float[Array, " d"]
    covariance: Float[Array, "d d"]


class Moments(NamedTuple):
    r"""Moments of the trajectories, with $\zeta = (a - Ks - m)/\sigma^2$.

    Attributes:
        log_objective: log U.
        visited: Measure of the states under p_gamma.
        valued: Measure of the states under p_gamma V / U.
        drive: $E\zeta$ under p_gamma Q / U, normalised.
        covariance: $\mathrm{Cov}(\zeta, s)$ under the same measure.
        gradient: Gradient of log U with respect to [K | m]: $E\zeta x^\top$ with x = (s, 1).
        excess: $E|\zeta|^2 - k/\sigma^2$ under p_gamma Q / U, not normalised: twice the derivative
            of log U with respect to $\sigma^2$.
    """

    log_objective: Scalar
    visited: Measure
    valued: Measure
    drive: Float[Array, " k"]
    covariance: Float[Array, "k d"]
    gradient: Float[Array, "k x"]
    excess: Scalar


class _Law(NamedTuple):
    """Mean and covariance of the state at every step."""

    mean: Float[Array, "H d"]
    covariance: Float[Array, "H d d"]


def log_objective(
    mdp: LinearGaussianMDP, means: Float[Array, "H k x"], variances: Float[Array, " H"]
) -> Scalar:
    """log U of a policy that may change from step to step."""
    rewards = _rewards(mdp, means, variances, _forward(mdp, means, variances))
    return jax.nn.logsumexp(rewards.logarithm)


def _forward(mdp: LinearGaussianMDP, means: Array, variances: Array) -> _Law:
    def step(law: _Law, here: tuple[Array, Array]) -> tuple[_Law, _Law]:
        mean, variance = here
        loop = mdp.A + mdp.B @ mean[:, :-1]
        after = _Law(
            loop @ law.mean + mdp.B @ mean[:, -1],
            loop @ law.covariance @ loop.T + variance * mdp.B @ mdp.B.T + mdp.noise,
        )
        return after, law

    start = _Law(mdp.start_mean, mdp.start_covariance)
    return jax.lax.scan(step, start, (means, variances))[1]


class _Rewards(NamedTuple):
    """For every step and reward: the log of its expectation, and the derivatives of that in E z."""

    logarithm: Float[Array, "H j"]
    slope: Float[Array, "H j z"]
    curvature: Float[Array, "H j z z"]  # without the square of the slope


def _rewards(mdp: LinearGaussianMDP, means: Array, variances: Array, law: _Law) -> _Rewards:
    d, k = mdp.n_states, mdp.n_actions

    def one(mean: Array, variance: Array, m: Array, P: Array, M: Array, y: Array, L: Array) -> Any:
        F = jnp.concatenate([jnp.eye(d), mean[:, :-1]])  # z = F s + (0, m) + noise of the action
        nu = jnp.concatenate([m, mean @ jnp.append(m, 1.0)])
        S = F @ P @ F.T + variance * jnp.diag(jnp.concatenate([jnp.zeros(d), jnp.ones(k)]))
        both = jnp.concatenate([(y - M @ nu)[:, None], M], axis=1)
        volume, white = _whitened(L + M @ S @ M.T, both)
        error, seen = white[:, 0], white[:, 1:]
        shrunk = _whitened(L, both[:, :0])[0] - volume
        return 0.5 * shrunk - 0.5 * error @ error, seen.T @ error, -seen.T @ seen

    by_reward = jax.vmap(one, in_axes=(None, None, None, None, 0, 0, 0))
    by_step = jax.vmap(by_reward, in_axes=(0, 0, 0, 0, None, None, None))
    logarithm, slope, curvature = by_step(
        means,
        variances,
        law.mean,
        law.covariance,
        mdp.reward_map,
        mdp.reward_target,
        mdp.reward_covariance,
    )
    counted = mdp.schedule()[:, None] + jnp.log(mdp.reward_weight)
    return _Rewards(logarithm + counted, slope, curvature)


def _whitened(C: Float[Array, "r r"], X: Float[Array, "r n"]) -> tuple[Scalar, Array]:
    """log |C| and the rows of chol(C)^-1 X, by elimination; C is positive definite.

    LAPACK is avoided: when several of its batched solves run in parallel, as they do in the
    derivatives of this function, those of jaxlib 0.10 can wait for each other for ever.
    """
    rows = jnp.arange(len(C))

    def eliminate(left: Array, row: Array) -> tuple[Array, tuple[Array, Array]]:
        pivot, chosen = left[row, row], left[row]
        factors = jnp.where(rows > row, left[:, row] / pivot, 0.0)
        return left - factors[:, None] * chosen, (jnp.log(pivot), chosen / jnp.sqrt(pivot))

    logarithms, white = jax.lax.scan(eliminate, jnp.concatenate([C, X], axis=1), rows)[1]
    return logarithms.sum(), white[:, len(C) :]


@eqx.filter_jit
def _objective(mdp: LinearGaussianMDP, policy: AffineGaussian, w: PyTree, logarithm: bool) -> Array:
    found = log_objective(mdp, *_repeated(mdp, policy, w))
    return found if logarithm else jnp.exp(found)


def _repeated(mdp: LinearGaussianMDP, policy: AffineGaussian, w: PyTree) -> tuple[Array, Array]:
    """Gain and offset, and the variance, repeated for every step."""
    variance = jnp.exp(2 * policy.log_sigma(w))
    return (
        jnp.broadcast_to(w["mean"], (mdp.horizon, *w["mean"].shape)),
        jnp.full(mdp.horizon, variance),
    )


@eqx.filter_jit
def _moments(mdp: LinearGaussianMDP, policy: AffineGaussian, w: PyTree) -> Moments:
    r"""Moments from the law of the states, forward, and from the rewards to come, backward.

    This works like a Bryson-Frazier smoother: $\lambda$ and $\Lambda$ are the slope and the
    curvature, in the mean state, of the rewards still to come, over U. Under p_gamma V / U the
    state of a step has mass W, first moment $P\lambda$ and second moment $WP + P\Lambda P$ about
    its mean. Nothing is inverted or divided by sigma.
    """
    d, k = mdp.n_states, mdp.n_actions
    means, variances = _repeated(mdp, policy, w)
    law = _forward(mdp, means, variances)
    rewards = _rewards(mdp, means, variances, law)
    total = jax.nn.logsumexp(rewards.logarithm)
    share = jnp.exp(rewards.logarithm - total)
    slope = jnp.einsum("tj,tjz->tz", share, rewards.slope)
    bent = rewards.curvature + rewards.slope[..., :, None] * rewards.slope[..., None, :]
    bend = jnp.einsum("tj,tjyz->tyz", share, bent)

    gain = w["mean"][:, :-1]
    ahead = jnp.concatenate([mdp.A + mdp.B @ gain, mdp.B], axis=1)  # (s, noise) to the next s
    here = jnp.block([[jnp.eye(d), jnp.zeros((d, k))], [gain, jnp.eye(k)]])  # ... to z

    def step(later: tuple[Array, Array, Array], now: tuple[Array, Array, Array]) -> Any:
        mass, costate, bent = later
        share, slope, bend = now
        mass = mass + share
        costate = ahead.T @ costate + here.T @ slope
        bent = ahead.T @ bent @ ahead + here.T @ bend @ here
        return (mass, costate[:d], bent[:d, :d]), (mass, costate, bent)

    nothing = (jnp.zeros(()), jnp.zeros(d), jnp.zeros((d, d)))
    now = (share.sum(axis=1), slope, bend)
    mass, costate, bent = jax.lax.scan(step, nothing, now, reverse=True)[1]

    P = law.covariance
    shift = jnp.einsum("tde,te->td", P, costate[:, :d])
    spread = mass[:, None, None] * P + P @ bent[:, :d, :d] @ P
    valued, about = _measure(mass, law.mean, shift, spread)
    counted = mdp.discount ** jnp.arange(mdp.horizon, dtype=float)
    visited, _ = _measure(counted, law.mean, jnp.zeros_like(law.mean), counted[:, None, None] * P)
    drive = costate[:, d:]
    with_state = jnp.einsum("tkd,tde->ke", bent[:, d:, :d], P)
    gradient = with_state + drive.T @ law.mean
    return Moments(
        log_objective=total,
        visited=visited,
        valued=valued,
        drive=drive.sum(axis=0) / valued.mass,
        covariance=(with_state + drive.T @ about) / valued.mass,
        gradient=jnp.concatenate([gradient, drive.sum(axis=0)[:, None]], axis=1),
        excess=jnp.einsum("tkk->", bent[:, d:, d:]),
    )


def _measure(mass: Array, mean: Array, shift: Array, spread: Array) -> tuple[Measure, Array]:
    """Combine all steps into one measure; also return the steps' means about its mean.

    Args:
        mass: Mass of each step.
        mean: Point of each step about which the moments are taken.
        shift: First moment of each step, times its mass.
        spread: Second moment of each step, times its mass.
    """
    total = mass.sum()
    centre = (mass @ mean + shift.sum(axis=0)) / total
    about = mean - centre
    cross = about.T @ shift
    square = spread.sum(axis=0) + (mass[:, None] * about).T @ about + cross + cross.T
    return Measure(total, centre, square / total), about


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
    mdp: LinearGaussianMDP, policy: AffineGaussian, w: PyTree, logarithm: bool
) -> tuple[dict[str, Any], Any]:
    """The nodes of p Q, of p V with actions from the policy, and of p.

    They also give the advantage p Q - p V, because the average of log pi is linear in the weights.
    """
    k, n = mdp.n_actions, 2 * mdp.n_states
    found = _moments(mdp, policy, w)
    variance = jnp.exp(2 * policy.log_sigma(w))
    U = 1.0 if logarithm else jnp.exp(found.log_objective)
    measures = jax.tree.map(lambda *parts: jnp.stack(parts), found.valued, found.visited)
    (valued, visited), (inverse, _) = jax.vmap(_nodes)(measures)  # one batch of eigenvectors
    along = mdp.n_states**0.5 * (found.covariance @ inverse).T
    residual = variance * (found.drive + jnp.concatenate([along, -along]))
    explained = jnp.mean(jnp.sum(residual**2, axis=1)) / variance
    excess = variance * (variance * found.excess / found.valued.mass - explained)
    states = jnp.concatenate([valued, valued, visited])
    none, mass = jnp.zeros((n, 1)), jnp.full((n, 1), U * found.valued.mass / n)
    pairs = {
        "states": states,
        "actions": Deviation(
            at=jnp.broadcast_to(w["mean"], (3 * n, 1, *w["mean"].shape)),
            log_sigma=jnp.full((3 * n, 1), policy.log_sigma(w)),
            residual=jnp.concatenate([residual, jnp.zeros((2 * n, k))])[:, None],
            excess=jnp.concatenate([jnp.full((n, 1), excess), none, none]),
        ),
        "occupancy": jnp.concatenate([none, none, jnp.full((n, 1), found.visited.mass / n)]),
        "value": jnp.concatenate([mass, none, none]),
        "advantage": jnp.concatenate([mass, -mass, none]),
    }
    return pairs, found.log_objective if logarithm else U
