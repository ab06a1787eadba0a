"""Simulators in pure JAX: episodes side by side, time in one scan."""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import instance, traced, whole
from mdpnewton.simulators.abstract import DivergedError, Spaces, check_play
from mdpnewton.simulators.trajectories import Trajectories


class CompiledSimulator(eqx.Module):
    """A simulator of pure functions: subclasses define `reset` and `step`, this class the loop."""

    def __check_init__(self) -> None:
        whole(type(self).__name__, "horizon", self.horizon, 1)

    @property
    @abstractmethod
    def spaces(self) -> Spaces:
        """Spaces of observations and actions."""

    @property
    @abstractmethod
    def horizon(self) -> int:
        """Maximum length of an episode."""

    @abstractmethod
    def reset(self, key: PRNGKeyArray) -> PyTree:
        """Draw a first state."""

    @abstractmethod
    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Any
    ) -> tuple[PyTree, Float[Array, ""], Bool[Array, ""]]:
        """The next state, the reward of (state, action), and whether the episode terminates."""

    def observe(self, state: PyTree) -> PyTree:
        """What the policy sees of a state; all of it by default."""
        return state

    def play(
        self,
        key: PRNGKeyArray,
        policy: Any,
        w: PyTree,
        episodes: int,
        *,
        first: int = 0,
        horizon: int | None = None,
        greedy: bool = False,
    ) -> Trajectories:
        """See `Simulator`. Rewards and observations that are not finite raise `DivergedError`."""
        length = check_play(self, episodes, first, horizon)
        numbers = jnp.arange(first, first + episodes)
        played = _play(self, key, policy, w, numbers, length, greedy)
        _check_finite(self, played, length, first)
        return played


class UnitActions(CompiledSimulator):
    """Wraps a simulator so that -1 and 1 stand for the bounds of its actions.

    Attributes:
        simulator: The simulator inside.
    """

    simulator: CompiledSimulator

    def __check_init__(self) -> None:
        remedy = "others take unit actions as an option, as `GymnasiumSimulator` does"
        instance("UnitActions", "simulator", self.simulator, CompiledSimulator, remedy)

    @property
    def spaces(self) -> Spaces:
        """Spaces of the simulator inside, with unit actions."""
        return self.simulator.spaces.unit()

    @property
    def horizon(self) -> int:
        """Horizon of the simulator inside."""
        return self.simulator.horizon

    def reset(self, key: PRNGKeyArray) -> PyTree:
        """See `CompiledSimulator`."""
        return self.simulator.reset(key)

    def step(
        self, key: PRNGKeyArray, state: PyTree, action: Any
    ) -> tuple[PyTree, Float[Array, ""], Bool[Array, ""]]:
        """See `CompiledSimulator`."""
        own = self.simulator.spaces
        if own.low is not None:
            action = jnp.asarray(own.middle()) + jnp.asarray(own.half_range()) * action
        return self.simulator.step(key, state, action)

    def observe(self, state: PyTree) -> PyTree:
        """See `CompiledSimulator`."""
        return self.simulator.observe(state)


@eqx.filter_jit
def _play(
    simulator: CompiledSimulator,
    key: PRNGKeyArray,
    policy: Any,
    w: PyTree,
    numbers: Int[Array, " episodes"],
    horizon: int,
    greedy: bool,
) -> Trajectories:
    def one_step(carry: Any, now: tuple[Array, Array]) -> Any:
        state, alive = carry
        time, moment = now
        act, move = jax.random.split(moment)
        seen = simulator.observe(state)
        action = policy.mode(w, seen) if greedy else policy.sample(act, w, seen)
        after, reward, terminated = simulator.step(move, state, action)
        row = Trajectories(
            observations=seen,
            actions=action,
            rewards=reward,
            next_observations=simulator.observe(after),
            terminated=terminated,
            ends=terminated | (time == horizon - 1),
            times=time,
            log_probs=policy.log_prob(w, seen, action),
            valid=alive,
        )
        return (after, alive & ~terminated), row

    def one_episode(number: Scalar) -> Trajectories:
        begin, rest = jax.random.split(jax.random.fold_in(key, number))
        moments = jax.random.split(rest, horizon)
        start = (simulator.reset(begin), jnp.array(True))
        episode: Trajectories = jax.lax.scan(one_step, start, (jnp.arange(horizon), moments))[1]
        return episode

    stacked = jax.vmap(one_episode)(numbers)
    flat: Trajectories = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), stacked)
    return flat


def _check_finite(
    simulator: CompiledSimulator, played: Trajectories, length: int, first: int
) -> None:
    """Name the simulator, the step and the episode where the first number is not finite."""
    if traced(played.rewards):
        return
    while hasattr(simulator, "simulator"):
        simulator = simulator.simulator
    parts = [("a reward", played.rewards)]
    parts += [("an observation", leaf) for leaf in jax.tree.leaves(played.observations)]
    parts += [("an observation", leaf) for leaf in jax.tree.leaves(played.next_observations)]
    found = []
    for what, leaf in parts:
        finite = np.isfinite(np.asarray(leaf))
        if not finite.all():
            rows = ~finite.reshape(len(finite), -1).all(axis=1) & np.asarray(played.valid)
            found += [(int(np.argmax(rows)), what)] if rows.any() else []
    if found:
        row, what = min(found)
        episode, step = divmod(row, length)
        raise DivergedError(
            f"{type(simulator).__name__} returned {what} that is not finite in step {step} of "
            f"episode {first + episode}; fix the simulator."
        )
