"""Linear-Gaussian control with rewards that are Gaussian in state and action."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


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
        A = _array("A", A, 2)
        d = A.shape[0]
        B = _array("B", B, 2)
        k = B.shape[1]
        maps, targets, spreads = (
            np.asarray(given, dtype=float)
            for given in (reward_map, reward_target, reward_covariance)
        )
        if maps.ndim == 2:
            maps, targets, spreads = maps[None], targets[None], spreads[None]
        if maps.ndim != 3:
            raise ValueError(
                f"`LinearGaussianMDP(reward_map=...)` needs shape (r, {d + k}), or (j, r, {d + k}) "
                f"for a mixture, got {np.shape(reward_map)}."
            )
        j, r = maps.shape[:2]
        weight = np.ones(j) if reward_weight is None else _array("reward_weight", reward_weight, 1)
        arrays = {
            "A": (A, (d, d)),
            "B": (B, (d, k)),
            "noise": (_array("noise", noise, 2), (d, d)),
            "start_mean": (_array("start_mean", start_mean, 1), (d,)),
            "start_covariance": (_array("start_covariance", start_covariance, 2), (d, d)),
            "reward_map": (maps, (j, r, d + k)),
            "reward_target": (targets, (j, r)),
            "reward_covariance": (spreads, (j, r, r)),
            "reward_weight": (weight, (j,)),
        }
        check_fit("LinearGaussianMDP", arrays, f"A {A.shape}, B {B.shape} and {j} reward(s)")
        check_covariance("LinearGaussianMDP(noise=...)", arrays["noise"][0])
        check_covariance("LinearGaussianMDP(start_covariance=...)", arrays["start_covariance"][0])
        for spread in spreads:
            check_covariance("LinearGaussianMDP(reward_covariance=...)", spread, definite=True)
        if not (weight > 0).all():
            raise ValueError("`LinearGaussianMDP(reward_weight=...)` must be positive.")
        if int(horizon) != horizon or horizon < 1:
            raise ValueError(
                f"`LinearGaussianMDP(horizon=...)` must be a whole number of at least 1, got "
                f"{horizon}."
            )
        if not 0 < discount <= 1:
            raise ValueError(
                f"`LinearGaussianMDP(discount=...)` must be within (0, 1], got {discount}."
            )
        for name, (array, _) in arrays.items():
            setattr(self, name, jnp.asarray(array))
        self.horizon, self.discount, self.at_end = int(horizon), float(discount), bool(at_end)

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


def check_fit(call: str, arrays: dict[str, tuple[np.ndarray, tuple[int, ...]]], to: str) -> None:
    """Raise ValueError unless every array has its shape and is finite."""
    for name, (array, shape) in arrays.items():
        if array.shape != shape:
            raise ValueError(
                f"`{call}({name}=...)` needs shape {shape} to fit {to}, got {array.shape}."
            )
        if not np.isfinite(array).all():
            raise ValueError(f"`{call}({name}=...)` has NaN or infinite entries.")


def check_covariance(where: str, matrix: np.ndarray, *, definite: bool = False) -> None:
    """Raise ValueError unless the matrix is symmetric and positive (semi)definite."""
    if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12 * np.abs(matrix).max(initial=0)):
        raise ValueError(f"`{where}` is not symmetric; pass (X + X.T) / 2 if that is meant.")
    least = np.linalg.eigvalsh(matrix).min()
    wanted = "positive definite" if definite else "positive semidefinite"
    if least < -1e-12 * np.abs(matrix).max() or (definite and least <= 0):
        raise ValueError(f"`{where}` must be {wanted}, but has the eigenvalue {least:.3g}.")


def _array(name: str, given: Any, dimensions: int) -> np.ndarray:
    array = np.asarray(given, dtype=float)
    if array.ndim != dimensions:
        raise ValueError(
            f"`LinearGaussianMDP({name}=...)` needs {dimensions} dimension(s), got shape "
            f"{array.shape}."
        )
    return array
