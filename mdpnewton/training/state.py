"""A training: its contents, their form as plain data, and how it is rebuilt from that."""

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from mdpnewton.checks import choice, flag, instance, whole
from mdpnewton.environments.names import simulator_of
from mdpnewton.evaluation import State
from mdpnewton.evaluators import ActorCritic
from mdpnewton.loop import Record
from mdpnewton.plain import arrays_of, entries, fields_of, reals, rebuilt, sequence, with_arrays
from mdpnewton.policies import Policy, RandomFourier, Standardized
from mdpnewton.simulators import Simulator, timed
from mdpnewton.simulators.environment import OURS, module_of
from mdpnewton.simulators.trajectories import Trajectories
from mdpnewton.training.presets import PolicyKind, Preset, critic_of, policy_of, training_methods

PARTS = (
    "environment",
    "method",
    "kind",
    "seed",
    "preset",
    "iteration",
    "features",
    "policy",
    "w",
    "recent",
    "blind",
    "highest",
    "restarts",
    "chosen",
    "evaluator",
    "history",
)
POINTS = ("recent", "highest")  # parts with parameters and bounds of their returns


@dataclass(frozen=True)
class Progress:
    """One iteration of training.

    Attributes:
        transitions: Number of all transitions played so far.
        mean_return: Undiscounted mean return of the newest batch.
        record: What the search recorded.
    """

    transitions: int
    mean_return: float
    record: Record


@dataclass(frozen=True)
class Chosen:
    """Which policy of a training is played.

    Attributes:
        point: "best" for the last point with the highest lower bound of its return, "newest", or
            "average" for the mean of the last points.
        greedy: Whether it takes its most probable action always, or draws actions.
        transitions: Number of transitions that were played to choose; 0 if nothing was.
    """

    point: str = "best"
    greedy: bool = True
    transitions: int = 0

    def __post_init__(self) -> None:
        choice("Chosen", "point", self.point, ("best", "newest", "average"))
        flag("Chosen", "greedy", self.greedy)
        whole("Chosen", "transitions", self.transitions)


@dataclass
class Training:
    """A policy during or after training, with all that is needed to play it and to continue.

    Attributes:
        simulator: Simulator that the policy is trained on, with unit actions.
        environment: Name of the environment; empty if a simulator was given instead.
        method: Name of the method.
        kind: Kind of the policy: "linear", "rbf" or "mlp".
        seed: Random seed.
        preset: Numbers of the preset, adapted to the environment.
        features: Features of the critic, and of the policy unless it is a network. They are fixed
            after the first batch.
        policy: The policy.
        w: The current parameters.
        evaluator: Evaluator, which holds the batches and the critic.
        recent: The last points, each with a lower bound of its return.
        blind: Returns of the first batch, which is played without observing.
        highest: The point with the highest lower bound of its return so far; None in the beginning.
        restarts: Iterations at which the training had diverged and went back to that point.
        chosen: Which policy is played, once that has been decided.
        iteration: Number of iterations done.
        history: One entry per iteration.
        status: Why the training stopped.
    """

    simulator: Simulator
    environment: str
    method: str
    kind: PolicyKind
    seed: int
    preset: Preset
    features: RandomFourier
    policy: Policy
    w: PyTree
    evaluator: ActorCritic
    recent: list[tuple[float, PyTree]] = field(default_factory=list)
    blind: list[float] = field(default_factory=list)
    highest: tuple[float, PyTree] | None = None
    restarts: list[int] = field(default_factory=list)
    chosen: Chosen | None = None
    iteration: int = 0
    history: list[Progress] = field(default_factory=list)
    status: str = "new"
    _lines: list[str] = field(default_factory=list, repr=False)

    @property
    def best(self) -> PyTree:
        """The parameters to use: the last point with the highest lower bound of its return."""
        if not self.recent:
            return self.w
        return max(reversed(self.recent), key=lambda point: point[0])[1]

    @property
    def average(self) -> PyTree:
        """The mean of the last points, where noise that each of them has learnt cancels."""
        if not self.recent:
            return self.w
        return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *(w for _, w in self.recent))

    @property
    def playing(self) -> Chosen:
        """What was chosen, or the best point with its most probable actions until then."""
        return self.chosen or Chosen()

    @property
    def played(self) -> PyTree:
        """The parameters of the policy that is played."""
        points = {"best": self.best, "newest": self.w, "average": self.average}
        return points[self.playing.point]

    @property
    def transitions(self) -> int:
        """Number of all transitions, also of those that were played to choose the policy."""
        return self.evaluator.memory.transitions + self.playing.transitions

    def play(self, key: PRNGKeyArray, episodes: int) -> Trajectories:
        """Play episodes with the chosen policy."""
        greedy = self.playing.greedy
        return self.simulator.play(key, self.policy, self.played, episodes, greedy=greedy)

    def note(self) -> None:
        """Remember the point of the newest iteration, with the lower bound of its return."""
        mean, error = self.evaluator.here
        point = (mean - error, self.w)
        self.recent = [*self.recent, point][-self.preset.remembered :]
        if self.highest is None or point[0] > self.highest[0]:
            self.highest = point

    def state(self) -> State:
        """All that is needed to continue, and the history, as plain data.

        The history has one line of JSON per iteration: it is saved often and only grows.
        """
        new = self.history[len(self._lines) :]
        self._lines += [json.dumps(fields_of(one)) for one in new]
        return {
            "environment": self.environment,
            "method": self.method,
            "kind": self.kind,
            "seed": self.seed,
            "preset": asdict(self.preset),
            "iteration": self.iteration,
            "features": arrays_of(self.features),
            "policy": arrays_of(self.policy),
            "w": arrays_of(self.w),
            "recent": _points(self.recent),
            "blind": list(self.blind),
            "highest": _points([] if self.highest is None else [self.highest]),
            "restarts": list(self.restarts),
            "chosen": None if self.chosen is None else asdict(self.chosen),
            "evaluator": self.evaluator.state(),
            "history": list(self._lines),
        }

    @classmethod
    def restored(
        cls, state: State, simulator: Simulator | None = None, *, module: str = ""
    ) -> "Training":
        """The training that a state was taken from; it continues bit for bit.

        Args:
            state: State that the method `state` gave.
            simulator: Simulator to continue with. By default it is the environment that the state
                names.
            module: Module that may be imported if the state's environment is `module:Id-v0`: a
                saved training runs no code without your word.
        """
        call = "Training.restored"
        parts = dict(zip(PARTS, entries(call, state, *PARTS), strict=True))
        name = instance(call, "environment", parts["environment"], str, "train again")
        if simulator is None and not name:
            raise ValueError(
                "the training was begun with a simulator of its own; pass it: "
                "`Training.restored(state, simulator)`."
            )
        if simulator is None and untrusted_module(name, module):
            raise ValueError(
                f"the training's environment {name!r} imports a module, which runs its code; if "
                f"you trust it, pass `module={untrusted_module(name, module)!r}`."
            )
        simulator = simulator_of(name if simulator is None else simulator)
        try:
            deadline = Preset(**parts["preset"]).deadline
            return _rebuilt(call, timed(simulator, deadline) if deadline else simulator, parts)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the saved training does not fit the environment {name!r} as it is now "
                f"({str(error).rstrip('.')}); train again"
            ) from None


def untrusted_module(environment: str, trusted: str = "") -> str:
    """The module that the environment of a saved training would import; empty if that is harmless.

    It is harmless if the module is ours, trusted or imported already.

    Args:
        environment: Name of the environment.
        trusted: Name of the module that the user trusts.
    """
    module = module_of(environment)
    return "" if module in ("", OURS[1], trusted) or module in sys.modules else module


def evaluator_of(simulator: Simulator, features: RandomFourier, preset: Preset) -> ActorCritic:
    """The evaluator of a preset that has been adapted, without any batch yet."""
    least = preset.least_transitions or 0
    return ActorCritic(
        simulator,
        critic_of(features, preset),
        1.0 if preset.discount is None else preset.discount,
        episodes=preset.episodes,
        least_transitions=least,
        reuse=preset.reuse,
        share=preset.share,
        capacity=preset.reuse * least + simulator.horizon,
        trace=preset.trace,
        ratio_limit=preset.ratio_limit,
        discounted_occupancy=False,
    )


def _points(points: list[tuple[float, PyTree]]) -> list[State]:
    return [{"bound": bound, "w": arrays_of(w)} for bound, w in points]


def _restored_points(call: str, name: str, w: PyTree, state: Any) -> list[tuple[float, PyTree]]:
    found = []
    for point in sequence(call, name, state):
        bound, there = entries(call, point, "bound", "w")
        found.append((*reals(call, name, [bound], 1), with_arrays(call, name, w, there)))
    return found


def _progress(call: str, line: Any) -> Progress:
    """One line of a saved history."""
    text = instance(call, "history", line, str, "train again")
    progress: Progress = rebuilt(call, Progress, json.loads(text))
    return progress


def _rebuilt(call: str, simulator: Simulator, parts: dict[str, Any]) -> Training:
    """The training rebuilt from the parts of a state."""
    preset, kind = Preset(**parts["preset"]), parts["kind"]
    seed = whole(call, "seed", parts["seed"])
    choice(call, "kind", kind, get_args(PolicyKind))
    method = choice(call, "method", parts["method"], training_methods(preset, kind))
    size, waves = simulator.spaces.observation, preset.features
    plain = Standardized(jnp.zeros(size), jnp.ones(size), preset.limit)
    shapes = RandomFourier(plain, jnp.zeros((waves, size)), jnp.zeros(waves))
    features = with_arrays(call, "features", shapes, parts["features"])
    built = policy_of(kind, simulator.spaces, features, preset, seed)
    policy = with_arrays(call, "policy", built, parts["policy"])
    w = policy.initial_parameters()
    recent, highest = (_restored_points(call, name, w, parts[name]) for name in POINTS)
    blind = sequence(call, "blind", parts["blind"])
    return Training(
        simulator,
        parts["environment"],
        method,
        kind,
        seed,
        preset,
        features,
        policy,
        with_arrays(call, "w", w, parts["w"]),
        evaluator_of(simulator, features, preset).restored(parts["evaluator"]),
        recent,
        list(reals(call, "blind", blind, len(blind))),
        highest[0] if highest else None,
        [whole(call, "restarts", one) for one in sequence(call, "restarts", parts["restarts"])],
        None if parts["chosen"] is None else Chosen(**parts["chosen"]),
        whole(call, "iteration", parts["iteration"]),
        [_progress(call, line) for line in sequence(call, "history", parts["history"])],
    )
