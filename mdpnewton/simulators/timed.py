"""Simulators that tell the policy the time, for tasks whose episodes end at a known one."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from mdpnewton.checks import refuse, whole
from mdpnewton.simulators.abstract import Simulator, Spaces
from mdpnewton.simulators.compiled import CompiledSimulator
from mdpnewton.simulators.distributed import Distributed
from mdpnewton.simulators.gymnasium import GymnasiumSimulator
from mdpnewton.simulators.trajectories import Trajectories


class Timed(CompiledSimulator):
    """A simulator whose observations end with the time, and where no episode is cut off.

    An episode that reaches the horizon terminates: nothing is to be earned after it.

    Attributes:
        simulator: The simulator inside, whose observations are vectors.
        deadline: Usual length of an episode; the time goes from 0 to 1 until then.
    """

    simulator: CompiledSimulator
    deadline: int = eqx.field(static=True)

    @property
    def spaces(self) -> Spaces:
        """Spaces of the simulator inside, with one more observation."""
        return self.simulator.spaces.timed()

    @property
    def horizon(self) -> int:
        """Horizon of the simulator inside."""
        return self.simulator.horizon

    def reset(self, key: PRNGKeyArray) -> PyTree:
        """See `CompiledSimulator`."""
        return jnp.zeros((), int), self.simulator.reset(key)

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Any
    ) -> tuple[PyTree, Float[Array, ""], Bool[Array, ""]]:
        """See `CompiledSimulator`."""
        time, inside = state
        after, reward, terminated = self.simulator.step(key, inside, action)
        return (time + 1, after), reward, terminated | (time + 1 >= self.horizon)

    def observe(self, state: PyTree) -> Float[Array, " n"]:
        """See `CompiledSimulator`."""
        time, inside = state
        return jnp.append(self.simulator.observe(inside), time / self.deadline)


def tells_time(simulator: Simulator) -> bool:
    """Whether `timed` knows how to let this simulator tell the time."""
    if isinstance(simulator, Distributed):
        return tells_time(simulator.simulator)
    return isinstance(simulator, GymnasiumSimulator | CompiledSimulator)


def timed(simulator: Simulator, deadline: int) -> Simulator:
    """The same simulator with the time as the last observation, and its end as a termination.

    Args:
        simulator: A simulator of this library whose observations are vectors.
        deadline: Usual length of an episode; the time goes from 0 to 1 until then.
    """
    whole("timed", "deadline", deadline, 1)
    if getattr(simulator, "deadline", None) == deadline:
        return simulator
    if isinstance(simulator, Distributed):
        inside = timed(simulator.simulator, deadline)
        return Distributed(inside, simulator.executor, simulator.chunk)
    if isinstance(simulator, GymnasiumSimulator):
        return simulator.until(deadline)
    if isinstance(simulator, CompiledSimulator):
        return Timed(simulator, deadline)
    remedy = "give it the time as an observation yourself"
    refuse("timed", "simulator", f"cannot tell the time of a {type(simulator).__name__}; {remedy}")


def with_time(batch: Trajectories, deadline: int) -> Trajectories:
    """A batch of a simulator as its timed one would have given it."""
    times = np.asarray(batch.times)

    def told(seen: Any, time: np.ndarray) -> np.ndarray:
        return np.concatenate([np.asarray(seen), time[:, None] / deadline], axis=1)

    places = lambda b: (b.observations, b.next_observations, b.terminated)  # noqa: E731
    found = (
        told(batch.observations, times),
        told(batch.next_observations, times + 1),
        np.asarray(batch.terminated) | (np.asarray(batch.ends) & (times + 1 >= deadline)),
    )
    replaced: Trajectories = eqx.tree_at(places, batch, found)
    return replaced
