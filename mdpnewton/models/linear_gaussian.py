"""Linear-Gaussian control with rewards that are Gaussian in state and action."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mdpnewton.checks import flag, number, refuse, whole
from mdpnewton.models.checks import check_covariance, check_positive, finite_array, numbers

CALL = "LinearGaussianMDP"


class LinearGaussianMDP(eqx.Module):
    r"""$s_{t+1} = A s_t + B a_t + N(0, Q)$ for H steps, Section 6.4 (Hoffman et al. 2009).

    The reward of a step is $\sum_j c_j \exp(-\frac12 |M_j z - y_j|^2_{L_j^{-1}})$ with z = (s, a),
    so that its expectation has a closed form under every Gaussian of z.

    Attributes:
        A: Matrix that maps the state to the next state, shape (d, d).
        B: Matrix that maps the action to the next state, shape (d, k).
        noise: Covariance Q of the noise, shape (d, d), positive semidefinite.
        start_mean: Mean of the first state, shape (d,).
        start_covariance: Covariance of the first state, shape (d, d), positive semidefinite.
        reward_map: Matrices M, shape (j, r, d + k); (r, d + k) for a single Gaussian.
        reward_target: Targets y, shape (j, r) or (r,).
        reward_covariance: Covariances L, shape (j, r, r) or (r, r), positive definite.
        reward_weight: Positive weights c, shape (j,); ones if not given.
        horizon: Number H of actions.
        discount: Discount factor gamma; 1 gives all steps the same weight.
        at_end: Whether only the last step is rewarded.
    """

    A: Float[Array, "d d"]
    B: Float[Array, "d k"]
    noise: Float[Array, "d d"]
    start_mean: Float[Array, " d"]
    start_covariance: Float[Array, "d d"]
    reward_map: Float[Array, "j r z"]
    reward_target: Float[Array, "j r"]
    reward_covariance: Float[Array, "j r r"]
    reward_weight: Float[Array, " j"]
    horizon: int = eqx.field(static=True)
    discount: float
    at_end: bool = eqx.field(static=True)

    def __init__(
        self,
        A: Any,
        B: Any,
        noise: Any,
        start_mean: Any,
        start_covariance: Any,
        reward_map: Any,
        reward_target: Any,
        reward_covariance: Any,
        horizon: int,
        *,
        reward_weight: Any = None,
        discount: float = 1.0,
        at_end: bool = False,
    ):
        A, B = finite_array(CALL, "A", A, 2), finite_array(CALL, "B", B, 2)
        d, k = A.shape[0], B.shape[1]
        maps = numbers(CALL, "reward_map", reward_map)
        if maps.ndim not in (2, 3):
            needed = f"(r, {d + k}), or (j, r, {d + k}) for a mixture"
            refuse(CALL, "reward_map", f"needs shape {needed}, got {maps.shape}")
        single = maps.ndim == 2
        j, r = (1, *maps.shape[:1]) if single else maps.shape[:2]
        given = {
            "A": (A, (d, d)),
            "B": (B, (d, k)),
            "noise": (noise, (d, d)),
            "start_mean": (start_mean, (d,)),
            "start_covariance": (start_covariance, (d, d)),
            "reward_map": (maps, (j, r, d + k)[single:]),
            "reward_target": (reward_target, (j, r)[single:]),
            "reward_covariance": (reward_covariance, (j, r, r)[single:]),
            "reward_weight": (np.ones(j) if reward_weight is None else reward_weight, (j,)),
        }
        fits = f"to fit A {A.shape}, B {B.shape} and {j} reward(s)"
        for name, (value, shape) in given.items():
            array = finite_array(CALL, name, value, len(shape), shape=shape, fits=fits)
            if name in ("reward_map", "reward_target", "reward_covariance") and single:
                array = array[None]
            if name in ("noise", "start_covariance"):
                check_covariance(CALL, name, array)
            elif name == "reward_covariance":
                for spread in array:
                    check_covariance(CALL, name, spread, definite=True)
            elif name == "reward_weight":
                check_positive(CALL, name, array)
            setattr(self, name, jnp.asarray(array))
        self.horizon = whole(CALL, "horizon", horizon, 1)
        self.discount = number(CALL, "discount", discount, above=0, most=1)
        self.at_end = flag(CALL, "at_end", at_end)

    @property
    def n_states(self) -> int:
        """d, the dimension of a state."""
        return self.B.shape[0]

    @property
    def n_actions(self) -> int:
        """k, the dimension of an action."""
        return self.B.shape[1]

    def schedule(self) -> Float[Array, " H"]:
        """Logarithm of the weight that the reward of each step has."""
        times = jnp.arange(self.horizon, dtype=float)
        counted = times * jnp.log(self.discount)
        return jnp.where(times < self.horizon - 1, -jnp.inf, counted) if self.at_end else counted

    def reward(self, state: Float[Array, " d"], action: Float[Array, " k"]) -> Float[Array, ""]:
        """Reward r(s, a) of one step."""
        error = self.reward_map @ jnp.concatenate([state, action]) - self.reward_target
        solved = jnp.linalg.solve(self.reward_covariance, error[..., None])[..., 0]
        return jnp.sum(self.reward_weight * jnp.exp(-0.5 * jnp.sum(error * solved, axis=1)))
