"""What is between us and a Gymnasium environment: nothing that it does gets past here unnamed."""

import importlib
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mdpnewton.checks import MissingExtraError, required, told
from mdpnewton.simulators.abstract import SimulationError, Spaces

OURS = ("mdpnewton/", "mdpnewton.environments")  # prefix of ids, and the module that registers them
REMEDY = "fix the environment"
PARTS = ("observation_space", "action_space", "reset", "step")  # of every environment


class _Prints:
    """Sends what is printed to standard error: standard output is for results.

    `contextlib.redirect_stdout` would lose standard output for good if two threads overlap.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._outer: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._outer, sys.stdout = sys.stdout, sys.stderr
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.stdout, self._outer = self._outer, None


PRINTS = _Prints()


@dataclass(frozen=True)
class Interface:
    """How to talk to the copies of an environment.

    Attributes:
        name: Name of the environment, with which errors begin.
        spaces: The environment's own spaces.
        least: Number of the first discrete action.
        whole: Whether continuous actions are rounded, because the box is one of integers.
        unit_actions: Whether -1 and 1 stand for the ends of the box.
        flatten: Makes a vector of an observation.
        deadline: Usual length of an episode, as which the policy is told the time: it is the last
            entry of an observation, from 0 to 1. To be cut off then is to terminate. None if the
            time is not told.
        observations: The environment's own space of observations, of Gymnasium.
        actions: The environment's own space of actions, of Gymnasium.
    """

    name: str
    spaces: Spaces
    least: int | np.ndarray
    whole: bool
    unit_actions: bool
    flatten: Callable[[Any], np.ndarray]
    deadline: int | None
    observations: Any
    actions: Any

    @classmethod
    def of(
        cls, name: str, environment: Any, unit_actions: bool, deadline: int | None = None
    ) -> "Interface":
        """The interface of an environment; spaces that are not supported raise `ValueError`."""
        flatten = _flattener(name, environment.observation_space)
        spaces, least = _spaces(name, environment)
        kind = getattr(environment.action_space, "dtype", None)
        whole = spaces.low is not None and np.issubdtype(kind, np.integer)
        own = (environment.observation_space, environment.action_space)
        return cls(name, spaces, least, whole, unit_actions, flatten, deadline, *own)

    @cached_property
    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        return self.spaces.middle(), self.spaces.half_range()

    def sent(self, action: np.ndarray | np.integer, box: Any) -> Any:
        """What the environment gets for an action of the policy.

        Args:
            action: Action of the policy.
            box: Space of the environment's actions.
        """
        if self.spaces.actions is not None:
            return int(action) + self.least
        if self.spaces.choices is not None:
            return (np.asarray(action) + self.least).astype(box.dtype).reshape(box.shape)
        wanted: np.ndarray = np.asarray(action)
        if self.unit_actions:
            middle, half = self._units
            with np.errstate(over="ignore"):  # infinity is clipped
                wanted = middle + half * wanted
        wanted = np.clip(wanted, self.spaces.low, self.spaces.high)
        return (np.rint(wanted) if self.whole else wanted).astype(box.dtype).reshape(box.shape)


class Episode:
    """One episode in one copy of the environment, and its rows."""

    def __init__(self, environment: Any, seed: int, interface: Interface):
        self.environment, self.interface = environment, interface
        self.rows: list[tuple[Any, ...]] = []
        self.over = False
        found = self._guarded(lambda: environment.reset(seed=seed))
        if not isinstance(found, tuple) or len(found) != 2:
            self._fail(f"returned {told(found)} from reset, which is no pair (observation, info)")
        self.seen = self._checked(found[0], 0)

    def step(self, action: np.ndarray | np.integer, log_prob: float, *, last: bool) -> None:
        """Take one step; `last` cuts the episode off after it."""
        sent = self.interface.sent(action, self.environment.action_space)
        found = self._guarded(lambda: self.environment.step(sent))
        if not isinstance(found, tuple) or len(found) != 5:
            count = f"{len(found)} values" if isinstance(found, tuple) else told(found)
            wanted = "(observation, reward, terminated, truncated, info)"
            self._fail(f"returned {count} in step {len(self.rows)}, not {wanted}")
        observation, given, ended, cut, _ = found
        time = len(self.rows) + 1
        after, reward = self._checked(observation, time), self._reward(given)
        terminated, truncated = self._guarded(lambda: (bool(ended), bool(cut)))
        self.over = terminated or truncated or last
        terminated = terminated or (self.over and time >= (self.interface.deadline or math.inf))
        row = (self.seen, action, reward, after, terminated, self.over, log_prob)
        self.rows.append(row)
        self.seen = after

    def _reward(self, given: Any) -> float:
        try:
            found = np.asarray(given)
        except Exception:  # a user's object may do anything
            found = np.zeros(0)
        if found.size != 1 or found.dtype.kind not in "biuf":
            self._fail(f"returned the reward {told(given)} in step {len(self.rows)}, not a number")
        reward = float(found.item())
        if not math.isfinite(reward):
            self._fail(f"returned the reward {reward} in step {len(self.rows)}")
        return reward

    def _checked(self, observation: Any, time: int) -> np.ndarray:
        where, size = f"in step {len(self.rows)}", self.interface.spaces.observation
        try:
            seen = self.interface.flatten(observation)
        except Exception as error:
            self._fail(f"returned an observation {where} that is not of its space ({_line(error)})")
        if seen.shape != (size,):
            shape = np.shape(observation)
            self._fail(f"returned an observation of shape {shape} {where}, its space has {size}")
        if not np.isfinite(seen).all():
            self._fail(f"returned an observation with NaN or infinite entries {where}")
        deadline = self.interface.deadline
        return seen if deadline is None else np.append(seen, time / deadline)

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            with PRINTS:
                return call()
        except (Exception, SystemExit) as error:
            what = f"raised {type(error).__name__} in step {len(self.rows)}: {_line(error)}"
            raise SimulationError(f"{self.interface.name} {what}; {REMEDY}.") from error

    def _fail(self, what: str) -> Any:
        raise SimulationError(f"{self.interface.name} {what}; {REMEDY}.")


def made(name: str, **options: Any) -> Any:
    """Make the environment with this id; `module:Id-v0` imports the module first."""
    gymnasium = required("gymnasium", f"environment {name!r}")
    if module_of(name):
        _import(name, module_of(name))
    try:
        with PRINTS:
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
    except (Exception, SystemExit) as error:
        what = f"it raised {type(error).__name__}: {_line(error)}"
        raise ValueError(f"environment {name!r} cannot be made: {what}; {REMEDY}.") from error


def made_by(name: str, make: Callable[[], Any]) -> Any:
    """The environment that a function makes; the name is what errors call it."""
    try:
        with PRINTS:
            found = make()
    except (ValueError, MissingExtraError):
        raise
    except (Exception, SystemExit) as error:
        what = f"it raised {type(error).__name__}: {_line(error)}"
        raise ValueError(f"environment {name!r} cannot be made: {what}; {REMEDY}.") from error
    lacking = [part for part in PARTS if not hasattr(found, part)]
    if lacking:
        raise ValueError(
            f"environment {name!r} cannot be made: {told(found)} is no environment of Gymnasium, "
            f"it has no `{lacking[0]}`; {REMEDY}."
        )
    return found


def module_of(name: str) -> str:
    """The module that making an environment imports; empty if there is none."""
    prefix, ours = OURS
    return ours if name.startswith(prefix) else name.rpartition(":")[0]


def picture(name: str, environment: Any) -> np.ndarray:
    """What the environment draws of itself."""
    import gymnasium

    try:
        with PRINTS:
            drawn: np.ndarray = environment.render()
    except gymnasium.error.DependencyNotInstalled as error:  # its text says what to install
        raise MissingExtraError(f"environment {name!r} cannot draw pictures: {error}") from None
    return drawn


def _import(name: str, module: str) -> None:
    try:
        with PRINTS:
            importlib.import_module(module)
    except MissingExtraError:
        raise
    except ImportError as error:
        raise ValueError(
            f"environment {name!r}: cannot import {module!r} ({error}); is it installed, or in "
            f"this folder?"
        ) from None
    except (Exception, SystemExit) as error:
        what = f"it raised {type(error).__name__}: {_line(error)}"
        raise ValueError(f"environment {name!r}: cannot import {module!r}: {what}.") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())


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
    if not spaces.flatdim(space):
        raise unsupported("empty")
    return lambda observation: np.asarray(spaces.flatten(space, observation), float).ravel()


def _spaces(name: str, environment: Any) -> tuple[Spaces, int | np.ndarray]:
    from gymnasium import spaces

    length = spaces.flatdim(environment.observation_space)
    actions = environment.action_space
    if isinstance(actions, spaces.Discrete):
        return Spaces(length, int(actions.n)), int(actions.start)
    if isinstance(actions, spaces.MultiBinary) and all(actions.shape):
        size = int(np.prod(actions.shape))
        return Spaces(length, choices=(2,) * size), np.zeros(size, int)
    if isinstance(actions, spaces.MultiDiscrete) and actions.nvec.size:
        sizes = tuple(int(number) for number in actions.nvec.ravel())
        return Spaces(length, choices=sizes), np.ravel(actions.start)
    if isinstance(actions, spaces.Box) and actions.low.size:
        low, high = (np.asarray(end, float).ravel() for end in (actions.low, actions.high))
        try:
            return Spaces(length, low=low, high=high), 0
        except ValueError as error:
            raise ValueError(f"environment {name!r} has a wrong box of actions: {error}") from None
    kind = "empty" if isinstance(actions, spaces.Box) else type(actions).__name__
    raise ValueError(
        f"environment {name!r} has {kind} actions, which are not supported; wrap it so that it "
        f"takes a Discrete, a MultiDiscrete or a Box (gymnasium.ActionWrapper)."
    )
