"""The policy in the state of a training: what it is rebuilt from, with or without a simulator."""

from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from mdpnewton.checks import choice, flag, instance, refuse, whole
from mdpnewton.evaluation import State
from mdpnewton.plain import arrays_of, entries, reals, sequence, with_arrays
from mdpnewton.policies import Policy, RandomFourier, Standardized
from mdpnewton.simulators import Spaces
from mdpnewton.training.presets import OWN, PolicyKind, Preset, policy_of

Points = list[tuple[float, PyTree]]  # parameters, each with a bound of its return


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


class SavedPolicy(NamedTuple):
    """The policy of a training, as its state has it.

    Attributes:
        preset: Numbers of the training.
        features: Features of the critic, and of the policy unless it is a network or your own.
        policy: The policy.
        w: The newest parameters.
        recent: The last points.
        chosen: Which policy is played, once that has been decided.
    """

    preset: Preset
    features: RandomFourier
    policy: Policy
    w: PyTree
    recent: Points
    chosen: Chosen | None

    @property
    def greedy(self) -> bool:
        """Whether its most probable actions are played."""
        return (self.chosen or Chosen()).greedy

    @property
    def played(self) -> PyTree:
        """The parameters of the policy that is played."""
        return played_of(self.chosen, self.recent, self.w)


def played_of(chosen: Chosen | None, recent: Points, w: PyTree) -> PyTree:
    """The parameters that are played: what was chosen, or the best point until then."""
    points = {"best": best_of, "newest": lambda recent, w: w, "average": average_of}
    return points[(chosen or Chosen()).point](recent, w)


def best_of(recent: Points, w: PyTree) -> PyTree:
    """The last of the points with the highest bound; the newest parameters without any."""
    if not recent:
        return w
    return max(reversed(recent), key=lambda point: point[0])[1]


def average_of(recent: Points, w: PyTree) -> PyTree:
    """The mean of the points; the newest parameters without any."""
    if not recent:
        return w
    return jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *(point for _, point in recent))


def saved_policy(
    call: str, parts: dict[str, Any], spaces: Spaces, own: Policy | None
) -> SavedPolicy:
    """The policy that is in the parts of a state.

    Args:
        call: Name of the call, for errors.
        parts: Entries of the state by name.
        spaces: Spaces of the simulator that it was trained on, with unit actions.
        own: The policy, if it was given to the training by the user.
    """
    preset = Preset(**parts["preset"])
    kind = choice(call, "kind", parts["kind"], (*get_args(PolicyKind), OWN))
    seed = whole(call, "seed", parts["seed"])
    size, waves = spaces.observation, preset.features
    plain = Standardized(jnp.zeros(size), jnp.ones(size), preset.limit)
    shapes = RandomFourier(plain, jnp.zeros((waves, size)), jnp.zeros(waves))
    features = with_arrays(call, "features", shapes, parts["features"])
    built = own if kind == OWN else policy_of(kind, spaces, features, preset, seed)
    assert built is not None
    policy = with_arrays(call, "policy", built, parts["policy"])
    w = policy.initial_parameters()
    recent = restored_points(call, "recent", w, parts["recent"])
    chosen = None if parts["chosen"] is None else Chosen(**parts["chosen"])
    newest = with_arrays(call, "w", w, parts["w"])
    return SavedPolicy(preset, features, policy, newest, recent, chosen)


def check_own(call: str, parts: dict[str, Any], own: Any) -> None:
    """Refuse a state whose policy is the user's own without it, and any other one with it."""
    if own is not None:
        instance(call, "policy", own, Policy, "pass the policy that was trained")
    if parts["kind"] == OWN and own is None:
        rule = "is needed: the training was begun with a policy of its own; pass it"
        refuse(call, "policy", rule)
    if parts["kind"] != OWN and own is not None:
        refuse(call, "policy", f"is for policies of one's own, this is {parts['kind']!r}")


def points_as_data(points: Points) -> list[State]:
    """Points as plain data."""
    return [{"bound": bound, "w": arrays_of(w)} for bound, w in points]


def restored_points(call: str, name: str, w: PyTree, state: Any) -> Points:
    """The points that `points_as_data` made the data of."""
    found = []
    for point in sequence(call, name, state):
        bound, there = entries(call, point, "bound", "w")
        found.append((*reals(call, name, [bound], 1), with_arrays(call, name, w, there)))
    return found
