"""Linear dynamics with quadratic costs, discounted for ever: control with a known optimum."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from mdpnewton.checks import number
from mdpnewton.models.checks import check_covariance, finite_array

CALL = "QuadraticMDP"


class QuadraticMDP(eqx.Module):
    r"""$s_{t+1} = A s_t + B a_t + N(0, W)$ with the reward $-s^\top Q s - a^\top R a$.

    The policies of interest have means affine in the state, $a = [K|m]\,x$ with x = (s, 1). Such a
    policy is evaluated exactly if $\gamma\rho(A + BK)^2 < 1$; its expected cost to go is then
    $x^\top P x$ plus a constant. The best of all is $a = K^* s$, whatever the noise and the start.

    Attributes:
        A: Matrix that maps the state to the next state, shape (d, d).
        B: Matrix that maps the action to the next state, shape (d, k).
        state_cost: Matrix Q of the state's cost, shape (d, d), positive semidefinite.
        action_cost: Matrix R of the action's cost, shape (k, k), positive definite.
        noise: Covariance W of the noise, shape (d, d), positive semidefinite.
        start_mean: Mean of the first state, shape (d,).
        start_covariance: Covariance of the first state, shape (d, d), positive semidefinite.
        discount: Discount factor gamma, within (0, 1).
    """

    A: Float[Array, "d d"]
    B: Float[Array, "d k"]
    state_cost: Float[Array, "d d"]
    action_cost: Float[Array, "k k"]
    noise: Float[Array, "d d"]
    start_mean: Float[Array, " d"]
    start_covariance: Float[Array, "d d"]
    discount: float

    def __init__(
        self,
        A: Any,
        B: Any,
        state_cost: Any,
        action_cost: Any,
        noise: Any,
        start_mean: Any,
        start_covariance: Any,
        discount: float,
    ):
        A, B = finite_array(CALL, "A", A, 2), finite_array(CALL, "B", B, 2)
        d, k = A.shape[0], B.shape[1]
        given = {
            "A": (A, (d, d)),
            "B": (B, (d, k)),
            "state_cost": (state_cost, (d, d)),
            "action_cost": (action_cost, (k, k)),
            "noise": (noise, (d, d)),
            "start_mean": (start_mean, (d,)),
            "start_covariance": (start_covariance, (d, d)),
        }
        fits = f"to fit A {A.shape} and B {B.shape}"
        for name, (value, shape) in given.items():
            array = finite_array(CALL, name, value, len(shape), shape=shape, fits=fits)
            if name in ("state_cost", "action_cost", "noise", "start_covariance"):
                check_covariance(CALL, name, array, definite=name == "action_cost")
            setattr(self, name, jnp.asarray(array))
        self.discount = number(CALL, "discount", discount, above=0, below=1)

    @property
    def n_states(self) -> int:
        """d, the dimension of a state."""
        return self.B.shape[0]

    @property
    def n_actions(self) -> int:
        """k, the dimension of an action."""
        return self.B.shape[1]

    def reward(self, state: Float[Array, " d"], action: Float[Array, " k"]) -> Float[Array, ""]:
        """Reward r(s, a) of one step: minus the cost."""
        return -(state @ self.state_cost @ state + action @ self.action_cost @ action)

    def growth(self, gain: Any) -> float:
        r"""$\gamma\rho(A + BK)^2$, or infinity if K is not finite.

        The expected cost is finite if this is below 1.
        """
        with np.errstate(all="ignore"):
            loop = self.closed_loop(self._affine(gain))[:-1, :-1]
            if not np.isfinite(loop).all():
                return np.inf
            return float(self.discount * np.abs(np.linalg.eigvals(loop)).max() ** 2)

    def cost_to_go(self, gain: Any) -> np.ndarray:
        r"""P under $a = [K|m]\,x$, for which the cost from s on is $x^\top P x$ plus a constant.

        It satisfies $P = Q_x + [K|m]^\top R\,[K|m] + \gamma L^\top P L$ with L the closed loop of
        x.

        Args:
            gain: K, shape (k, d), or [K | m], shape (k, d + 1).
        """
        gain = self._affine(gain)
        growth = self.growth(gain)
        if not growth < 1:
            raise ValueError(
                f"`QuadraticMDP.cost_to_go(gain)` has no finite answer: discount * rho(A + BK)^2 "
                f"is {growth:.6g} and must be below 1; see `growth(gain)`."
            )
        now = gain.T @ np.asarray(self.action_cost) @ gain
        now[:-1, :-1] += np.asarray(self.state_cost)
        return power_sum(self.discount**0.5 * self.closed_loop(gain).T, now)

    def action_curvature(self, cost_to_go: np.ndarray) -> np.ndarray:
        r"""$G = R + \gamma B^\top P B$: half the Hessian of -Q(s, a) in the action."""
        B = np.asarray(self.B)
        later = self.discount * B.T @ cost_to_go[:-1, :-1] @ B
        found: np.ndarray = np.asarray(self.action_cost) + later
        return found

    def improved(self, gain: Any) -> np.ndarray:
        r"""One step of policy iteration, greedy for the cost to go: $-G^{-1}\gamma B^\top P A$.

        Args:
            gain: K, shape (k, d), or [K | m], shape (k, d + 1); the result has the same shape.
        """
        gain = np.asarray(gain, dtype=float)
        P = self.cost_to_go(gain)
        coupled = self.discount * np.asarray(self.B).T @ P[:-1] @ self.closed_loop(0 * gain)
        return -np.linalg.solve(self.action_curvature(P), coupled)[:, : gain.shape[1]]

    def optimal_gain(self) -> np.ndarray:
        r"""$K^*$, shape (k, d), by the Riccati equation of $\sqrt\gamma A$ and $\sqrt\gamma B$.

        It is the best of the gains with `growth` below 1.
        """
        root = self.discount**0.5
        A, B, Q, R = (
            np.asarray(x) for x in (root * self.A, root * self.B, self.state_cost, self.action_cost)
        )
        try:
            P = scipy.linalg.solve_discrete_are(A, B, Q, R)
            gain = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
        except np.linalg.LinAlgError:
            gain = np.full(B.T.shape, np.nan)
        if not self.growth(gain) < 1:
            raise ValueError(
                "`QuadraticMDP.optimal_gain()` found no stabilising solution of the Riccati "
                "equation: some motion that grows by more than discount ** -0.5 per step cannot "
                "be controlled, or some on that limit costs nothing."
            )
        return gain

    def closed_loop(self, gain: Any) -> np.ndarray:
        r"""The matrix L in $E x_{t+1} = L x_t$ under $a = [K|m]\,x$, shape (d + 1, d + 1)."""
        d = self.n_states
        loop = np.eye(d + 1)
        loop[:d, :d] = np.asarray(self.A)
        loop[:d] += np.asarray(self.B) @ self._affine(gain)
        return loop

    def start_moments(self) -> np.ndarray:
        r"""$E\,x_0 x_0^\top$, shape (d + 1, d + 1)."""
        mean = np.append(np.asarray(self.start_mean), 1.0)
        moments = np.outer(mean, mean)
        moments[:-1, :-1] += np.asarray(self.start_covariance)
        return moments

    def _affine(self, gain: Any) -> np.ndarray:
        """[K | m], with m = 0 if K alone is given."""
        gain = np.asarray(gain, dtype=float)
        d, k = self.n_states, self.n_actions
        if gain.shape not in ((k, d), (k, d + 1)):
            raise ValueError(
                f"`QuadraticMDP` needs a gain K of shape {(k, d)}, or [K | m] of shape "
                f"{(k, d + 1)}, got {gain.shape}."
            )
        return np.pad(gain, ((0, 0), (0, d + 1 - gain.shape[1])))


def power_sum(M: np.ndarray, X: np.ndarray) -> np.ndarray:
    r"""$\sum_t M^t X (M^\top)^t$, which solves $Y = X + M Y M^\top$ if $\rho(M) < 1$.

    It is computed by doubling: each round sums twice as many terms. Nothing is subtracted, so that
    sums of positive semidefinite matrices stay positive semidefinite.
    """
    total = X
    for _ in range(100):
        more = M @ total @ M.T
        total, M = total + more, M @ M
        if not np.abs(more).max() > 1e-17 * np.abs(total).max():
            break
    return total
