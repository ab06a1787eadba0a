"""A look at an environment before a training: what would make it learn nothing, in sentences."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from mdpnewton.policies.features import constant_entries
from mdpnewton.simulators import GymnasiumSimulator, SimulationError, Simulator, Spaces
from mdpnewton.simulators.environment import Episode

STEPS = 50  # maximum length of an episode that is played to look
LISTED = 5  # maximum number of entries that a warning lists


def warnings_of(simulator: Simulator, key: PRNGKeyArray) -> list[str]:
    """One sentence for each thing about an environment that is likely to disturb a training.

    Three short episodes with random actions are played in copies that are closed again. They show
    whether observations and rewards have their shapes and are finite, whether an episode repeats
    under its seed, also beside another one, and which observations never change. Simulators that
    are not of Gymnasium are only asked for their spaces.

    Args:
        simulator: The simulator of the training.
        key: Random key for the seeds and the actions.
    """
    while not isinstance(simulator, GymnasiumSimulator) and hasattr(simulator, "simulator"):
        simulator = simulator.simulator
    if not isinstance(simulator, GymnasiumSimulator):
        return _about_actions(type(simulator).__name__, simulator.spaces, False)
    face = simulator.interface
    found = _about_actions(face.name, face.spaces, face.whole)
    try:
        with _global_randomness_kept():
            alone, beside = _looked_at(simulator, key)
    except SimulationError as error:
        return [*found, str(error)]
    if not _same(alone, beside):
        found.append(
            f"{face.name}: an episode does not repeat under its seed, so that no training on it "
            f"does; draw all randomness from `self.np_random`, which `reset(seed=...)` seeds."
        )
    seen = np.array([row[0] for row in alone + beside])
    constant = np.flatnonzero(constant_entries(seen))
    if len(constant):
        found.append(
            f"{face.name}: {_entries('observation', constant)} did not change in {len(seen)} steps "
            f"of random actions; a policy learns nothing from what is constant."
        )
    return found


def _looked_at(
    simulator: GymnasiumSimulator, key: PRNGKeyArray
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The rows of an episode that is played alone, and again beside another one."""
    seed = int(np.asarray(jax.random.bits(key, dtype=jnp.uint32)) >> 1)
    spaces, face = simulator.spaces, simulator.interface
    draws = np.random.default_rng(seed)
    length = min(STEPS, simulator.horizon)
    actions: np.ndarray
    if spaces.actions is not None:
        actions = draws.integers(spaces.actions, size=length)
    elif spaces.choices is not None:
        actions = draws.integers(spaces.choices, size=(length, len(spaces.choices)))
    else:
        actions = draws.uniform(-1.0, 1.0, (length, spaces.action_size))
    copies = [simulator.make() for _ in range(2)]
    try:
        one = Episode(copies[0], seed, face)
        _play([one], actions)
        again, other = (Episode(copy, seed + n, face) for n, copy in enumerate(copies))
        _play([again, other], actions)
    finally:
        for copy in copies:
            copy.close()
    return one.rows, again.rows


def _play(episodes: list[Episode], actions: np.ndarray) -> None:
    for time, action in enumerate(actions):
        for episode in episodes:
            if not episode.over:
                episode.step(action, 0.0, last=time == len(actions) - 1)


def _same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> bool:
    """Whether observations, rewards and ends are equal."""

    def told(row: tuple[Any, ...]) -> tuple[Any, ...]:
        seen, _, reward, after, *ends, _ = row
        return seen.tolist(), reward, after.tolist(), ends

    return list(map(told, one)) == list(map(told, other))


def _about_actions(name: str, spaces: Spaces, whole: bool) -> list[str]:
    if spaces.low is None or spaces.high is None:
        return []
    found = []
    ends = np.isfinite(spaces.low).astype(int) + np.isfinite(spaces.high)
    for count, what in ((1, "one bound is infinite"), (0, "both bounds are infinite")):
        entries = np.flatnonzero(ends == count)
        if len(entries):
            middle = ", ".join(f"{each:g}" for each in spaces.middle()[entries][:LISTED])
            found.append(
                f"{name}: {what} in {_entries('action', entries)}, so that training begins about "
                f"{middle} in units of 1; give the box both bounds (gymnasium.ActionWrapper)."
            )
    if whole:
        found.append(
            f"{name}: its box of actions is one of integers, to which actions are rounded; if they "
            f"are choices and not amounts, make them a Discrete space."
        )
    return found


def _entries(what: str, numbers: np.ndarray) -> str:
    listed = ", ".join(map(str, numbers[:LISTED])) + (", ..." if len(numbers) > LISTED else "")
    return f"{'entry' if len(numbers) == 1 else 'entries'} {listed} of the {what}"


@contextmanager
def _global_randomness_kept() -> Iterator[None]:
    """What the environment draws from global generators is as if it had never been drawn."""
    plain, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(plain)
        np.random.set_state(numpy)  # noqa: NPY002
