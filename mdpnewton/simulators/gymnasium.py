"""Any Gymnasium environment as a simulator."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PRNGKeyArray, PyTree

from mdpnewton.checks import flag, instance, whole
from mdpnewton.simulators.abstract import check_play
from mdpnewton.simulators.environment import Episode, Interface, made, made_by, picture
from mdpnewton.simulators.trajectories import Trajectories

UNLIMITED = 1000  # steps per episode, for an environment without a limit of its own


class GymnasiumSimulator:
    """Episodes of a Gymnasium environment, each with its own seed.

    Observations are flattened; images and observations without a fixed length are refused. Actions
    are a `Discrete` or a `Box`; continuous ones are clipped to the box before the environment gets
    them, rounded if it is a box of integers, and recorded as the policy chose them. What an
    environment prints goes to standard error.

    Attributes:
        spaces: Spaces of observations and actions.
        horizon: The environment's own limit of steps, or 1000 if it has none.
        limited: Whether there is a limit of steps, of the environment's or as it was given.
        copies: Number of episodes that run side by side if the policy is known to JAX only, see
            `Policy.actor`. It changes the last bits at most.
        unit_actions: Whether -1 and 1 in the policy's actions stand for the ends of the box. In a
            box with one end, -1 or 1 stands for that end, and a unit is 1.
        deadline: Usual length of an episode, if the policy is told the time: its last observation
            then goes from 0 to 1, and to be cut off at the deadline is to terminate. None if not.
        interface: How to talk to a copy of the environment.
        make: Function that makes another copy.
    """

    def __init__(
        self,
        make: str | Callable[[], Any],
        copies: int = 4,
        horizon: int | None = None,
        unit_actions: bool = False,
        deadline: int | None = None,
    ):
        call, remedy = "GymnasiumSimulator", "pass an id, as 'CartPole-v1', or a function"
        instance(call, "make", make, str | Callable, remedy)
        self.copies = whole(call, "copies", copies, 1)
        self.unit_actions = flag(call, "unit_actions", unit_actions)
        for which, steps in (("horizon", horizon), ("deadline", deadline)):
            if steps is not None:
                whole(call, which, steps, 1)
        self.deadline = deadline
        self.name = make if isinstance(make, str) else getattr(make, "__name__", "environment")
        self._given = make
        how = partial(made, make) if isinstance(make, str) else partial(made_by, self.name, make)
        self.make: Callable[[], Any] = how
        self._environments = [self.make()]
        first = self._environments[0]
        self.interface = Interface.of(self.name, first, self.unit_actions, deadline)
        own = self.interface.spaces
        own = own.unit() if unit_actions else own
        self.spaces = own if deadline is None else own.timed()
        limit = getattr(first.spec, "max_episode_steps", None)
        self.horizon = horizon or limit or UNLIMITED
        self.limited = bool(horizon or limit)

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
        """See `Simulator`."""
        length = check_play(self, episodes, first, horizon)
        in_numpy = getattr(policy, "actor", None)
        actor = in_numpy(w) if in_numpy else None
        if actor is None:
            return _trajectories(self._compiled(key, policy, w, episodes, first, length, greedy))
        played = []
        for number in range(first, first + episodes):
            generator, seed = _randomness(key, number)
            episode = Episode(self._environments[0], seed, self.interface)
            while not episode.over:
                action, log_prob = actor(episode.seen, None if greedy else generator)
                episode.step(action, log_prob, last=len(episode.rows) == length - 1)
            played.append(episode)
        return _trajectories(played)

    def _compiled(
        self,
        key: PRNGKeyArray,
        policy: Any,
        w: PyTree,
        episodes: int,
        first: int,
        length: int,
        greedy: bool,
    ) -> list[Episode]:
        """Episodes side by side, so that one compiled call chooses the actions of several."""
        while len(self._environments) < min(self.copies, episodes):
            self._environments.append(self.make())
        played: list[Episode] = []
        for begin in range(first, first + episodes, self.copies):
            # The policy always answers `copies` observations, some of them zeros, and an episode
            # has its own row among them: the last bits may depend on both.
            numbers = np.roll(np.arange(begin, begin + self.copies), begin % self.copies)
            keys = _keys(key, numbers)
            rows = [
                n % self.copies for n in range(begin, min(begin + self.copies, first + episodes))
            ]
            group = {
                row: Episode(environment, _randomness(key, int(numbers[row]))[1], self.interface)
                for environment, row in zip(self._environments, rows, strict=False)
            }
            seen = np.zeros((self.copies, *group[rows[0]].seen.shape))
            for time in range(length):
                running = [row for row in rows if not group[row].over]
                if not running:
                    break
                for n in running:
                    seen[n] = group[n].seen
                chosen, log_probs = _act(policy, w, seen, keys, np.asarray(time), greedy)
                actions, logs = np.asarray(chosen), np.asarray(log_probs)
                for n in running:
                    group[n].step(actions[n], logs[n], last=time == length - 1)
            played += group.values()
        return played

    def frames(
        self, key: PRNGKeyArray, policy: Any, w: PyTree, greedy: bool = True
    ) -> list[np.ndarray]:
        """Pictures of one episode, drawn by the environment's own renderer."""
        if "rgb_array" not in self._environments[0].metadata.get("render_modes", ()):
            raise ValueError(
                f"environment {self.name!r} draws no pictures: it has no render mode 'rgb_array'; "
                f"play it without --render."
            )
        environment = made(self.name, render_mode="rgb_array")
        episode = Episode(environment, _randomness(key, 0)[1], self.interface)
        pictures = [picture(self.name, environment)]
        for time in range(self.horizon):
            chosen, _ = _act(policy, w, episode.seen[None], key[None], np.asarray(time), greedy)
            episode.step(np.asarray(chosen)[0], 0.0, last=time == self.horizon - 1)
            pictures.append(picture(self.name, environment))
            if episode.over:
                break
        environment.close()
        return pictures

    def close(self) -> None:
        """Close every copy."""
        for environment in self._environments:
            environment.close()

    def until(self, deadline: int) -> "GymnasiumSimulator":
        """This simulator with a deadline, so that the policy is told the time."""
        return GymnasiumSimulator(
            self._given, self.copies, self.horizon, self.unit_actions, deadline
        )

    def recipe(self) -> tuple[Callable[..., "GymnasiumSimulator"], tuple[Any, ...]]:
        """A function and its arguments that build this simulator anew, as in another process."""
        how = (self.copies, self.horizon, self.unit_actions, self.deadline)
        return GymnasiumSimulator, (self._given, *how)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.recipe()


def _randomness(key: PRNGKeyArray, number: int) -> tuple[np.random.Generator, int]:
    """The generator of an episode by its number, and the seed for its environment."""
    words = np.asarray(jax.random.key_data(key)).ravel()
    generator = np.random.default_rng([*words.tolist(), number])
    return generator, int(generator.integers(2**31))


@jax.jit
def _keys(key: PRNGKeyArray, numbers: ArrayLike) -> Key[Array, " n"]:
    """The keys of episodes by their numbers."""
    return jax.vmap(lambda n: jax.random.fold_in(key, n))(jnp.asarray(numbers))


@eqx.filter_jit
def _act(
    policy: Any, w: PyTree, seen: ArrayLike, keys: Key[Array, " n"], time: ArrayLike, greedy: bool
) -> tuple[Array, Array]:
    def one(key: PRNGKeyArray, observation: Array) -> tuple[Array, Array]:
        if greedy:
            action = policy.mode(w, observation)
        else:
            action = policy.sample(jax.random.fold_in(key, time), w, observation)
        return action, policy.log_prob(w, observation, action)

    return jax.vmap(one)(keys, jnp.asarray(seen))


def _trajectories(played: list[Episode]) -> Trajectories:
    rows = [row for one in played for row in one.rows]
    seen, actions, rewards, after, terminated, ends, log_probs = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    columns: dict[str, Any] = {
        "observations": seen,
        "actions": actions,
        "rewards": rewards,
        "next_observations": after,
        "terminated": terminated,
        "ends": ends,
        "times": np.concatenate([np.arange(len(one.rows)) for one in played]),
        "log_probs": log_probs,
        "valid": np.full(len(rewards), True),
    }
    return Trajectories(**jax.device_put(columns))  # `asarray` would compile for every shape
