"""Cart-pole swing-up, Section 6.2: the pole of Lagoudakis and Parr (2003), hanging at first."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mdpnewton.simulators import CompiledSimulator, Spaces

GRAVITY, POLE, CART, LENGTH = 9.8, 2.0, 8.0, 0.5  # m/s^2, kg, kg, m
INTERVAL = 0.1  # s
FORCE, DISTURBANCE = 50.0, 10.0  # N
DISCOUNT = 0.99


def advance(xp: Any, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
    """The next (angle, velocity) and the reward, by explicit Euler as the paper prints it.

    Paper: 0.1 s with explicit Euler, which pumps energy into the pole. Here: the same, because
    the task and its returns depend on it.

    Args:
        xp: The module `numpy` or `jax.numpy`.
        state: Angle from the upright in radians, and its velocity.
        action: Force in newtons before noise and clipping.
        noise: Disturbance in [-1, 1].
    """
    angle, velocity = state[0], state[1]
    force = xp.clip(action + DISTURBANCE * noise, -FORCE, FORCE)
    alpha = 1 / (POLE + CART)
    sine, cosine = xp.sin(angle), xp.cos(angle)
    pull = GRAVITY * sine - alpha * POLE * LENGTH * velocity**2 * sine * cosine
    inertia = 4 * LENGTH / 3 - alpha * POLE * LENGTH * cosine**2
    acceleration = (pull - alpha * cosine * force) / inertia
    after = xp.stack([angle + INTERVAL * velocity, velocity + INTERVAL * acceleration])
    return after, (1 + cosine) / 2


def observation(xp: Any, state: Any) -> Any:
    """The state with its angle wrapped to [-pi, pi)."""
    return xp.stack([(state[0] + np.pi) % (2 * np.pi) - np.pi, state[1]])


class CartPole(CompiledSimulator):
    """Swing the pole up and balance it with a force on the cart: 100 steps, discount 0.99.

    A discounted return of 45 is a pole that was swung up and balanced; the optimum is 52.4.
    """

    @property
    def spaces(self) -> Spaces:
        """Observations are angle and velocity; the action is a force."""
        return Spaces(2, low=np.array([-FORCE]), high=np.array([FORCE]))

    @property
    def horizon(self) -> int:
        """Number of steps per episode, which lasts ten seconds."""
        return 100

    def reset(self, key: PRNGKeyArray) -> Float[Array, " 2"]:
        """The start: the pole hangs at rest."""
        return jnp.array([jnp.pi, 0.0])

    def step(
        self, key: PRNGKeyArray, state: Float[Array, " 2"], action: Float[Array, " 1"]
    ) -> tuple[Float[Array, " 2"], Float[Array, ""], Bool[Array, ""]]:
        """See `CompiledSimulator`."""
        noise = jax.random.uniform(key, minval=-1.0, maxval=1.0)
        after, reward = advance(jnp, state, action[0], noise)
        return after, reward, jnp.array(False)

    def observe(self, state: Float[Array, " 2"]) -> Float[Array, " 2"]:
        """See `observation`."""
        return observation(jnp, state)
