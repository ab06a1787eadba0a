"""Episodes played by others, in chunks of a fixed size: the same bits whoever plays them."""

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from mdpnewton.checks import instance, whole
from mdpnewton.executors import Executor, checked_executor, in_order
from mdpnewton.simulators.abstract import SimulationError, Simulator, Spaces, check_play
from mdpnewton.simulators.trajectories import Trajectories, concatenated

KEPT = 4  # simulators, and as many policies, that a thread of a worker keeps


class Distributed:
    """A simulator whose episodes are played by the workers of an executor.

    A chunk is always played whole, by the same compiled program, and what is beyond the number of
    episodes is dropped. The result therefore depends on the size of the chunks in its last bits
    (and with a `GymnasiumSimulator` not even on that), and never on the number of workers or on the
    executor.

    A worker builds the simulator once and keeps it. It also keeps the policy, which must not be
    changed after it has been played. The executor may have a method `share`: it is then called
    once for every new pair of policy and parameters, and what it returns is sent instead of them.

    Attributes:
        simulator: The simulator that workers build and play.
        executor: Object with `submit`, as `concurrent.futures.ProcessPoolExecutor`.
        chunk: Number of episodes per call. Batches that are multiples of it waste no episode. None
            for one call per worker, or a few if there are many episodes: for simulators whose
            episodes do not depend on those beside them, as a `GymnasiumSimulator`'s do not.
    """

    def __init__(self, simulator: Simulator, executor: Executor, chunk: int | None):
        call = "Distributed"
        instance(call, "simulator", simulator, Simulator, "pass one that has `play` and `spaces`")
        self.simulator = simulator
        self.executor = checked_executor(call, executor)
        self.chunk = None if chunk is None else whole(call, "chunk", chunk, 1)
        self._recipe: Any = None
        self._policy: _Sent | None = None
        self._shared: tuple[Any, Any] = (None, None)

    @property
    def spaces(self) -> Spaces:
        """Spaces of the simulator inside."""
        return self.simulator.spaces

    @property
    def horizon(self) -> int:
        """Horizon of the simulator inside."""
        return self.simulator.horizon

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
        if self._policy is None or self._policy.value is not policy:
            self._policy = _Sent(uuid.uuid4().hex, policy)
        parameters = jax.tree.map(np.asarray, w)
        chunk = self.chunk or _share(episodes, getattr(self.executor, "workers", 1))
        parts = {
            "the simulator": self.simulator,
            "the policy": policy,
            "the vector of parameters": parameters,
        }
        how = _How(
            np.asarray(jax.random.key_data(key)),
            str(jax.random.key_impl(key)),
            chunk,
            length,
            greedy,
            str(jnp.result_type(float)),
        )
        recipe, shared = self._sent(parameters)
        last = first + episodes
        calls = (
            (recipe, shared, how, begin, min(chunk, last - begin))
            for begin in range(first, last, chunk)
        )
        played = in_order(self.executor, play_chunk, calls, parts)
        for part in played:
            if isinstance(part, SimulationError):
                raise part
        return concatenated(played)

    def close(self) -> None:
        """Close the simulator inside; workers keep theirs until they end."""
        close: Callable[[], None] | None = getattr(self.simulator, "close", None)
        if close is not None:
            close()

    def _sent(self, parameters: PyTree) -> tuple[Any, Any]:
        """What stands for the simulator, and for the policy with its parameters."""
        share: Callable[[Any], Any] = getattr(self.executor, "share", lambda value: value)
        if self._recipe is None:
            recipe = getattr(self.simulator, "recipe", None)
            made = (_itself, (self.simulator,)) if recipe is None else recipe()
            self._recipe = share(_Sent(uuid.uuid4().hex, made))
        new = (self._policy, _bits(parameters))
        if self._shared[0] != new:
            self._shared = new, share((self._policy, parameters))
        return self._recipe, self._shared[1]


def _share(episodes: int, workers: int) -> int:
    """Episodes per call: one call per worker, but four if each has at least eight episodes.

    Long episodes and short ones are then spread more evenly.
    """
    calls = workers if episodes < 8 * workers else 4 * workers
    return -(-episodes // calls)


@dataclass(frozen=True, eq=False)
class _Sent:
    """Something that a worker keeps, under a name that nothing else has."""

    name: str
    value: Any


@dataclass(frozen=True)
class _How:
    """How a chunk is played; key objects stay where they are, only their data is sent."""

    key_data: np.ndarray
    key_kind: str
    chunk: int
    horizon: int
    greedy: bool
    numbers: str


def play_chunk(
    recipe: _Sent, shared: tuple[_Sent, PyTree], how: _How, first: int, episodes: int
) -> Trajectories | SimulationError:
    """Play a whole chunk and keep so many episodes; this is what is handed to executors.

    Returns:
        The transitions as NumPy arrays, without padding, or the error of the environment.
    """
    if str(jnp.result_type(float)) != how.numbers:
        raise ValueError(
            f"a worker computes with {jnp.result_type(float)}, this process with {how.numbers}; "
            f"set JAX_ENABLE_X64 to the same value for both"
        )
    policy, parameters = shared
    make, arguments = recipe.value
    try:
        simulator = _kept("simulators", recipe.name, lambda: make(*arguments))
        played: Trajectories = simulator.play(
            jax.random.wrap_key_data(jnp.asarray(how.key_data), impl=how.key_kind),
            _kept("policies", policy.name, lambda: policy.value),
            jax.device_put(parameters),
            how.chunk,
            first=first,
            horizon=how.horizon,
            greedy=how.greedy,
        )
    except SimulationError as error:
        return type(error)(str(error))  # as a value: engines would wrap an exception
    rows = np.asarray(played.valid)
    over = np.asarray(played.ends) & rows
    rows = rows & (over.cumsum() - over < episodes)
    kept: Trajectories = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], played)
    return kept


_mine = threading.local()  # environments are not shared by threads


def _kept(kind: str, name: str, make: Callable[[], Any]) -> Any:
    """What this thread has under the name, or what is made now."""
    store: OrderedDict[str, Any] = _mine.__dict__.setdefault(kind, OrderedDict())
    if name not in store:
        store[name] = make()
        while len(store) > KEPT:
            _, old = store.popitem(last=False)
            getattr(old, "close", lambda: None)()
    store.move_to_end(name)
    return store[name]


def _itself(value: Any) -> Any:
    return value


def _bits(tree: PyTree) -> tuple[Any, ...]:
    """What tells two trees of parameters apart."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, *((leaf.dtype.str, leaf.shape, leaf.tobytes()) for leaf in leaves)
