"""Non-linear navigation, Section 6.3: the benchmark of Vlassis et al. (2009)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from mdpnewton.simulators import CompiledSimulator, Spaces

NOISE, START_NOISE, RADIUS = 0.02, 0.001, 0.1
CONTROL = 1.0  # the scale of exploration; the dynamics accept any control


def advance(xp: Any, state: Any, action: Any, noise: Any) -> tuple[Any, Any]:
    """The next (position, velocity), and the reward: 1 if the state is within 0.1 of the origin.

    Paper: the control moves the first component, the start is (0, 1), no reward is given.
    Here: the control drives the velocity and the start is (1, 0), because with the printed
    order every policy of the paper's box scores 0; the reward is that of ReLe's `NLS`.

    Args:
        xp: The module `numpy` or `jax.numpy`.
        state: Position and velocity.
        action: The control.
        noise: Standard normal number; both equations use the same draw.
    """
    kick = NOISE * noise
    velocity = state[1] + 1 / (1 + xp.exp(-action)) - 0.5 + kick
    position = state[0] - 0.1 * velocity + kick
    near = state[0] ** 2 + state[1] ** 2 <= RADIUS**2
    return xp.stack([position, velocity]), xp.where(near, 1.0, 0.0)


class Navigation(CompiledSimulator):
    """Come to rest at the origin: 80 steps, with reward 1 for each within 0.1 of it."""

    @property
    def spaces(self) -> Spaces:
        """Observations are position and velocity; the action is a control."""
        return Spaces(2, low=np.array([-CONTROL]), high=np.array([CONTROL]))

    @property
    def horizon(self) -> int:
        """Number of steps per episode, the paper's H."""
        return 80

    def reset(self, key: PRNGKeyArray) -> Float[Array, " 2"]:
        """The start: position about 1, velocity about 0."""
        return jnp.array([1.0, 0.0]) + START_NOISE * jax.random.normal(key, (2,))

    def step(
        self, key: PRNGKeyArray, state: Float[Array, " 2"], action: Float[Array, " 1"]
    ) -> tuple[Float[Array, " 2"], Float[Array, ""], Bool[Array, ""]]:
        """See `CompiledSimulator`."""
        after, reward = advance(jnp, state, action[0], jax.random.normal(key))
        return after, reward, jnp.array(False)
