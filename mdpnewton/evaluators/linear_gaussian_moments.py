"""Moments of the trajectories of a linear-Gaussian MDP, by one pass forward and one backward.

The noise of an action is given by one variance, or by a covariance of any shape.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, Scalar

from mdpnewton.models.linear_gaussian import LinearGaussianMDP
from mdpnewton.policies.affine import AffineGaussian
from mdpnewton.policies.full_gaussian import FullGaussian

Affine = AffineGaussian | FullGaussian


class Measure(NamedTuple):
    """A measure over states: its mass, and the mean and covariance of the normalised measure."""

    mass: Scalar
    mean: Float[Array, " d"]
    covariance: Float[Array, "d d"]


class Moments(NamedTuple):
    r"""Moments of the trajectories, with $\zeta = \Sigma^{-1}(a - Ks - m)$.

    Attributes:
        log_objective: log U.
        visited: Measure of the states under p_gamma.
        valued: Measure of the states under p_gamma V / U.
        drive: $E\zeta$ under p_gamma Q / U, normalised.
        covariance: $\mathrm{Cov}(\zeta, s)$ under the same measure.
        gradient: Gradient of log U with respect to [K | m]: $E\zeta x^\top$ with x = (s, 1).
        excess: $E\zeta\zeta^\top - \Sigma^{-1}$ under p_gamma Q / U, not normalised: twice the
            derivative of log U with respect to $\Sigma$.
    """

    log_objective: Scalar
    visited: Measure
    valued: Measure
    drive: Float[Array, " k"]
    covariance: Float[Array, "k d"]
    gradient: Float[Array, "k x"]
    excess: Float[Array, "k k"]


class _Law(NamedTuple):
    """Mean and covariance of the state at every step."""

    mean: Float[Array, "H d"]
    covariance: Float[Array, "H d d"]


def log_objective(
    mdp: LinearGaussianMDP, means: Float[Array, "H k x"], variances: Float[Array, "H ..."]
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
            loop @ law.covariance @ loop.T + _spread(mdp.B, variance) + mdp.noise,
        )
        return after, law

    start = _Law(mdp.start_mean, mdp.start_covariance)
    return jax.lax.scan(step, start, (means, variances))[1]


def _spread(B: Float[Array, "n k"], variance: Float[Array, "..."]) -> Float[Array, "n n"]:
    """Covariance of B r, where r has one variance or a covariance."""
    return variance * B @ B.T if variance.ndim == 0 else B @ variance @ B.T


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
        S = F @ P @ F.T + _spread(jnp.eye(d + k)[:, d:], variance)
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
def value(mdp: LinearGaussianMDP, policy: Affine, w: PyTree, logarithm: bool) -> Array:
    """Log U, or U itself."""
    found = log_objective(mdp, *_repeated(mdp, policy, w))
    return found if logarithm else jnp.exp(found)


def law_of(policy: Affine, w: PyTree, d: int) -> tuple[Array, Array]:
    """Gain and offset [K | m] of a policy over d dimensions, and its variance or covariance."""
    if isinstance(policy, AffineGaussian):
        return w["mean"], jnp.exp(2 * policy.log_sigma(w))
    origin = policy.features(jnp.zeros(d))
    slope = jax.vmap(policy.features)(jnp.eye(d)) - origin
    return w["mean"] @ jnp.concatenate([slope, origin[None]]).T, policy.covariance(w)


def _repeated(mdp: LinearGaussianMDP, policy: Affine, w: PyTree) -> tuple[Array, Array]:
    """Gain and offset, and the variance, repeated for every step."""
    mean, variance = law_of(policy, w, mdp.n_states)
    H = mdp.horizon
    return jnp.broadcast_to(mean, (H, *mean.shape)), jnp.broadcast_to(
        variance, (H, *variance.shape)
    )


@eqx.filter_jit
def moments(mdp: LinearGaussianMDP, policy: Affine, w: PyTree) -> Moments:
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

    gain = means[0, :, :-1]
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
        excess=bent[:, d:, d:].sum(axis=0),
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
