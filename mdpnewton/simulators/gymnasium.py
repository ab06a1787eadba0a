"""Any Gymnasium environment as a simulator: copies of it step side by side."""

import importlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Key, PRNGKeyArray, PyTree

from mdpnewton.checks import MissingExtraError, flag, instance, required, whole
from mdpnewton.simulators.abstract import SimulationError, Spaces, check_play
from mdpnewton.simulators.trajectories import Trajectories

OURS = ("mdpnewton/", "mdpnewton.environments")  # prefix of ids, and the module that registers them
UNLIMITED = 1000  # steps per episode, for an environment without a limit of its own


class GymnasiumSimulator:
    """Episodes of a Gymnasium environment, each with its own seed.

    Observations are flattened; images and observations without a fixed length are refused. Actions
    are a `Discrete` or a `Box`; continuous ones are clipped to the box before the environment gets
    them, and recorded as the policy chose them.

    Attributes:
        spaces: Spaces of observations and actions.
        horizon: The environment's own limit of steps, or 1000 if it has none.
        copies: Number of episodes that run side by side. It does not change the results.
        unit_actions: Whether -1 and 1 in the policy's actions stand for the ends of the box.
    """

    def __init__(
        self,
        make: str | Callable[[], Any],
        copies: int = 4,
        horizon: int | None = None,
        unit_actions: bool = False,
    ):
        call, remedy = "GymnasiumSimulator", "pass an id, as 'CartPole-v1', or a function"
        instance(call, "make", make, str | Callable, remedy)
        self.copies = whole(call, "copies", copies, 1)
        self.unit_actions = flag(call, "unit_actions", unit_actions)
        if horizon is not None:
            whole(call, "horizon", horizon, 1)
        self.name = make if isinstance(make, str) else getattr(make, "__name__", "environment")
        self._given = make
        self._make: Callable[[], Any] = (lambda: made(make)) if isinstance(make, str) else make
        self._environments = [self._make()]
        first = self._environments[0]
        self._flatten = _flattener(self.name, first.observation_space)
        self._own, self._least = _spaces(self.name, first)
        self.spaces = self._own.unit() if unit_actions else self._own
        limit = getattr(first.spec, "max_episode_steps", None)
        self.horizon = horizon or limit or UNLIMITED

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
        while len(self._environments) < min(self.copies, episodes):
            self._environments.append(self._make())
        played: list[_Episode] = []
        for begin in range(first, first + episodes, self.copies):
            # The policy always answers `copies` observations, some of them zeros, and an episode
            # has its own row among them: the last bits may depend on both.
            numbers = np.roll(np.arange(begin, begin + self.copies), begin % self.copies)
            keys = jax.vmap(lambda n: jax.random.fold_in(key, n))(jnp.asarray(numbers))
            seeds = np.asarray(jax.vmap(lambda k: jax.random.bits(k, dtype=jnp.uint32))(keys))
            rows = [
                n % self.copies for n in range(begin, min(begin + self.copies, first + episodes))
            ]
            group = {
                row: _Episode(environment, int(seeds[row] >> 1), self)
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
        return _trajectories(played)

    def frames(self, key: PRNGKeyArray, policy: Any, w: PyTree) -> list[np.ndarray]:
        """Pictures of one greedy episode, drawn by the environment's own renderer."""
        if "rgb_array" not in self._environments[0].metadata.get("render_modes", ()):
            raise ValueError(
                f"environment {self.name!r} draws no pictures: it has no render mode 'rgb_array'; "
                f"play it without --render."
            )
        environment = made(self.name, render_mode="rgb_array")
        seed = int(np.asarray(jax.random.bits(key, dtype=jnp.uint32)) >> 1)
        episode = _Episode(environment, seed, self)
        pictures = [_picture(self.name, environment)]
        for time in range(self.horizon):
            chosen, _ = _act(policy, w, episode.seen[None], key[None], np.asarray(time), True)
            episode.step(np.asarray(chosen)[0], 0.0, last=time == self.horizon - 1)
            pictures.append(_picture(self.name, environment))
            if episode.over:
                break
        environment.close()
        return pictures

    def close(self) -> None:
        """Close every copy."""
        for environment in self._environments:
            environment.close()

    def recipe(self) -> tuple[Callable[..., "GymnasiumSimulator"], tuple[Any, ...]]:
        """A function and its arguments that build this simulator anew, as in another process."""
        return GymnasiumSimulator, (self._given, self.copies, self.horizon, self.unit_actions)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.recipe()


class _Episode:
    """One episode in one copy of the environment, and its rows."""

    def __init__(self, environment: Any, seed: int, simulator: GymnasiumSimulator):
        self.environment, self.simulator = environment, simulator
        self.rows: list[tuple[Any, ...]] = []
        self.over = False
        observation, _ = self._guarded(lambda: environment.reset(seed=seed))
        self.seen = self._checked(observation)

    def step(self, action: np.ndarray | np.integer, log_prob: float, *, last: bool) -> None:
        spaces = self.simulator._own
        sent: Any
        if spaces.actions is not None:
            sent = int(action) + self.simulator._least
        else:
            box = self.environment.action_space
            if self.simulator.unit_actions:
                action_sent = spaces.middle() + spaces.half_range() * action
            else:
                action_sent = action
            sent = (
                np.clip(action_sent, spaces.low, spaces.high).astype(box.dtype).reshape(box.shape)
            )
        observation, reward, terminated, truncated, _ = self._guarded(
            lambda: self.environment.step(sent)
        )
        after = self._checked(observation)
        if not np.isfinite(reward):
            raise SimulationError(
                f"{self.simulator.name} returned the reward {reward} in step {len(self.rows)}; "
                f"fix the environment; the policy so far is safe."
            )
        self.over = bool(terminated or truncated or last)
        row = (self.seen, action, float(reward), after, bool(terminated), self.over, log_prob)
        self.rows.append(row)
        self.seen = after

    def _checked(self, observation: Any) -> np.ndarray:
        seen = self.simulator._flatten(observation)
        if not np.isfinite(seen).all():
            raise SimulationError(
                f"{self.simulator.name} returned an observation with NaN or infinite entries in "
                f"step {len(self.rows)}; fix the environment; the policy so far is safe."
            )
        return seen

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            raise SimulationError(
                f"{self.simulator.name} raised {type(error).__name__} in step {len(self.rows)}: "
                f"{error}; fix the environment; the policy so far is safe."
            ) from error


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


def _trajectories(played: list[_Episode]) -> Trajectories:
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
    return Trajectories(**jax.tree.map(jnp.asarray, columns))


def made(name: str, **options: Any) -> Any:
    """Make the environment with this id; `module:Id-v0` imports the module first."""
    gymnasium = required("gymnasium", f"environment {name!r}")
    prefix, module = OURS
    if not name.startswith(prefix):
        module = name.rpartition(":")[0]
    if module:
        try:
            importlib.import_module(module)
        except MissingExtraError:
            raise
        except ImportError as error:
            raise ValueError(
                f"environment {name!r}: cannot import {module!r} ({error}); is it installed, or in "
                f"this folder?"
            ) from None
    try:
        return gymnasium.make(name, **options)
    except MissingExtraError:
        raise
    except gymnasium.error.UnregisteredEnv:  # names, versions and namespaces that don't exist
        raise ValueError(
            f"there is no environment {name!r}; check its spelling (`gymnasium.pprint_registry()` "
            f"lists all), or write `module:Id-v0` to import the module that registers it."
        ) from None
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"environment {name!r} cannot be made: {error}") from None


def _picture(name: str, environment: Any) -> np.ndarray:
    import gymnasium

    try:
        picture: np.ndarray = environment.render()
    except gymnasium.error.DependencyNotInstalled as error:  # its text says what to install
        raise MissingExtraError(f"environment {name!r} cannot draw pictures: {error}") from None
    return picture


def _flattener(name: str, space: Any) -> Callable[[Any], np.ndarray]:
    from gymnasium import spaces

    def unsupported(what: str) -> ValueError:
        return ValueError(
            f"environment {name!r} has {what} observations, which are not supported; wrap it so "
            f"that it gives a vector (gymnasium.ObservationWrapper)."
        )

    def check(part: Any) -> None:
        if isinstance(part, spaces.Dict):
            for inner in part.spaces.values():
                check(inner)
        elif isinstance(part, spaces.Tuple):
            for inner in part.spaces:
                check(inner)
        elif isinstance(part, spaces.Box):
            if len(part.shape) > 1:
                raise unsupported(f"image ({'x'.join(map(str, part.shape))})")
        elif not isinstance(part, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            raise unsupported(type(part).__name__)

    check(space)
    return lambda observation: np.asarray(spaces.flatten(space, observation), float).ravel()


def _spaces(name: str, environment: Any) -> tuple[Spaces, int]:
    from gymnasium import spaces

    length = spaces.flatdim(environment.observation_space)
    actions = environment.action_space
    if isinstance(actions, spaces.Discrete):
        return Spaces(length, int(actions.n)), int(actions.start)
    if isinstance(actions, spaces.Box):
        low, high = (np.asarray(end, float).ravel() for end in (actions.low, actions.high))
        return Spaces(length, low=low, high=high), 0
    raise ValueError(
        f"environment {name!r} has {type(actions).__name__} actions, which are not supported; wrap "
        f"it so that it takes a Discrete or a Box (gymnasium.ActionWrapper)."
    )
