"""A training: its contents, their form as plain data, and how it is rebuilt from that."""

import json
import sys
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from jaxtyping import PRNGKeyArray, PyTree

from mdpnewton.checks import choice, instance, whole
from mdpnewton.environments.names import simulator_of
from mdpnewton.evaluation import State
from mdpnewton.evaluators import ActorCritic
from mdpnewton.files.states import save_to
from mdpnewton.loop import Record
from mdpnewton.plain import arrays_of, entries, fields_of, reals, rebuilt, sequence
from mdpnewton.policies import Policy, RandomFourier
from mdpnewton.simulators import Simulator, described, timed
from mdpnewton.simulators.environment import OURS, module_of
from mdpnewton.simulators.trajectories import Trajectories
from mdpnewton.training.presets import Kind, Preset, critic_of, training_methods
from mdpnewton.training.saved import (
    Chosen,
    average_of,
    best_of,
    check_own,
    played_of,
    points_as_data,
    restored_points,
    saved_policy,
)

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
    "anchors",
    "chosen",
    "evaluator",
    "history",
)
SPACES = "spaces"  # what a policy needs to act without its environment; older states lack it


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


@dataclass
class Training:
    """A policy during or after training, with all that is needed to play it and to continue.

    Attributes:
        simulator: Simulator that the policy is trained on, with unit actions.
        environment: Name of the environment; empty if a simulator was given instead.
        method: Name of the method.
        kind: Kind of the policy: "linear", "rbf" or "mlp"; "own" if it was given.
        seed: Random seed.
        preset: Numbers of the preset, adapted to the environment.
        features: Features of the critic, and of the policy unless it is a network or was given.
            Their standardisation follows the observations, see `follow`.
        policy: The policy.
        w: The current parameters.
        evaluator: Evaluator, which holds the batches and the critic.
        recent: The last points, each with a lower bound of its return.
        blind: Returns of the first batch, which is played without observing.
        highest: The point with the highest lower bound of its return so far; None in the beginning.
        restarts: Iterations at which the training had diverged and went back to that point.
        anchors: Numbers of transitions after which the features were standardised, see `follow`.
        chosen: Which policy is played, once that has been decided.
        iteration: Number of iterations done.
        history: One entry per iteration.
        status: Why the training stopped.
    """

    simulator: Simulator
    environment: str
    method: str
    kind: Kind
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
    anchors: list[int] = field(default_factory=lambda: [0])
    chosen: Chosen | None = None
    iteration: int = 0
    history: list[Progress] = field(default_factory=list)
    status: str = "new"
    _lines: list[str] = field(default_factory=list, repr=False)

    @property
    def best(self) -> PyTree:
        """The parameters to use: the last point with the highest lower bound of its return."""
        return best_of(self.recent, self.w)

    @property
    def average(self) -> PyTree:
        """The mean of the last points, where noise that each of them has learnt cancels."""
        return average_of(self.recent, self.w)

    @property
    def playing(self) -> Chosen:
        """What was chosen, or the best point with its most probable actions until then."""
        return self.chosen or Chosen()

    @property
    def played(self) -> PyTree:
        """The parameters of the policy that is played."""
        return played_of(self.chosen, self.recent, self.w)

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
            "recent": points_as_data(self.recent),
            "blind": list(self.blind),
            "highest": points_as_data([] if self.highest is None else [self.highest]),
            "restarts": list(self.restarts),
            "anchors": list(self.anchors),
            "chosen": None if self.chosen is None else asdict(self.chosen),
            "evaluator": self.evaluator.state(),
            "history": list(self._lines),
            SPACES: described(self.simulator),
        }

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the training to a file, which `mdpnewton.load` and `mdpnewton evaluate` read.

        Args:
            path: A folder, which gets the file policy.npz; or a file whose name ends with .npz.

        Returns:
            The file.
        """
        return save_to(path, self.state())

    @classmethod
    def restored(
        cls,
        state: State,
        simulator: Any = None,
        *,
        module: str = "",
        policy: Policy | None = None,
    ) -> "Training":
        """The training that a state was taken from; it continues bit for bit.

        Args:
            state: State that the method `state` gave.
            simulator: Simulator or environment to continue with, as `train` takes it. By default
                it is the environment that the state names.
            module: Module that may be imported if the state's environment is `module:Id-v0`: a
                saved training runs no code without your word.
            policy: The policy that was trained, if `train` was given one: the state has its arrays
                and not its class.
        """
        call = "Training.restored"
        parts = parts_of(call, state)
        check_own(call, parts, policy)
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
            if deadline := Preset(**parts["preset"]).deadline:
                simulator = timed(simulator, deadline)
            return _rebuilt(call, simulator, parts, policy)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the saved training does not fit the environment {name!r} as it is now "
                f"({str(error).rstrip('.')}); train again"
            ) from None


def parts_of(call: str, state: State) -> dict[str, Any]:
    """The entries of a state by name; `SPACES` is None in one that was saved without it."""
    given = {SPACES: None, **state} if isinstance(state, dict) else state
    return dict(zip((*PARTS, SPACES), entries(call, given, *PARTS, SPACES), strict=True))


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
    least, discount = preset.least_transitions or 0, preset.discount
    return ActorCritic(
        simulator,
        critic_of(features, preset),
        1.0 if discount is None else discount,
        episodes=preset.episodes,
        least_transitions=least,
        reuse=preset.reuse,
        share=preset.share,
        capacity=preset.reuse * least + simulator.horizon,
        trace=preset.trace,
        ratio_limit=preset.ratio_limit,
        discounted_occupancy=False,
        held_out=True,
    )


def _progress(call: str, line: Any) -> Progress:
    """One line of a saved history."""
    text = instance(call, "history", line, str, "train again")
    found: Progress = rebuilt(call, Progress, json.loads(text))
    return found


def _rebuilt(
    call: str, simulator: Simulator, parts: dict[str, Any], own: Policy | None
) -> Training:
    """The training rebuilt from the parts of a state."""
    saved = saved_policy(call, parts, simulator.spaces, own)
    preset, kind, policy = saved.preset, parts["kind"], saved.policy
    known = training_methods(preset, kind, policy=policy)
    highest = restored_points(call, "highest", saved.w, parts["highest"])
    blind = reals(call, "blind", parts["blind"], len(sequence(call, "blind", parts["blind"])))
    restarts, anchors = (
        [whole(call, name, one) for one in sequence(call, name, parts[name])]
        for name in ("restarts", "anchors")
    )
    return Training(
        simulator,
        parts["environment"],
        choice(call, "method", parts["method"], known),
        kind,
        whole(call, "seed", parts["seed"]),
        preset,
        saved.features,
        policy,
        saved.w,
        evaluator_of(simulator, saved.features, preset).restored(parts["evaluator"]),
        saved.recent,
        list(blind),
        highest[0] if highest else None,
        restarts,
        anchors,
        saved.chosen,
        whole(call, "iteration", parts["iteration"]),
        [_progress(call, line) for line in sequence(call, "history", parts["history"])],
    )
