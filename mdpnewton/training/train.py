"""Training from samples with one preset for all environments."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from mdpnewton.evaluators import ActorCritic, LinearCritic
from mdpnewton.loop import Record, search
from mdpnewton.policies import Policy, RandomFourier, Standardized
from mdpnewton.simulators import CompiledSimulator, GymnasiumSimulator, Simulator, UnitActions
from mdpnewton.simulators.trajectories import Trajectories
from mdpnewton.steps import KeepIfBetter, KLStep
from mdpnewton.training.presets import PRACTICAL, PolicyKind, Preset, policy_of, training_methods


@dataclass(frozen=True)
class Progress:
    """One iteration of training.

    Attributes:
        transitions: Played so far, all of them counted.
        mean_return: Undiscounted mean of the newest batch.
        record: What the search recorded.
    """

    transitions: int
    mean_return: float
    record: Record


@dataclass
class Training:
    """A policy in training, or trained: all that is needed to play it and to go on.

    Attributes:
        simulator: What it is trained on, with unit actions.
        kind: "linear", "rbf" or "mlp".
        seed: Of all randomness.
        preset: The numbers.
        features: Of the critic, and of the policy unless it is a network; fixed after the
            first batch.
        policy: The policy.
        w: The parameters, as they are on the way.
        recent: The last points, each with a lower bound of its return.
        evaluator: Holds the batches and the critic.
        iteration: How many are done.
        history: One entry an iteration.
        status: Why it stopped.
    """

    simulator: Simulator
    kind: PolicyKind
    seed: int
    preset: Preset
    features: RandomFourier
    policy: Policy
    w: PyTree
    evaluator: ActorCritic
    recent: list[tuple[float, PyTree]] = field(default_factory=list)
    iteration: int = 0
    history: list[Progress] = field(default_factory=list)
    status: str = "new"

    @property
    def best(self) -> PyTree:
        """The parameters to use: of the last points the one that is surely good."""
        if not self.recent:
            return self.w
        return max(reversed(self.recent), key=lambda point: point[0])[1]

    def play(self, key: PRNGKeyArray, episodes: int) -> Trajectories:
        """Episodes of the most probable actions of the best parameters."""
        return self.simulator.play(key, self.policy, self.best, episodes, greedy=True)


def train(
    environment: str | Simulator,
    *,
    method: str = "second_gauss_newton",
    policy: PolicyKind = "rbf",
    transitions: int | None = None,
    iterations: int | None = None,
    seed: int = 0,
    preset: Preset = PRACTICAL,
    largest: float | None = None,
    callback: Callable[[Training], object] | None = None,
) -> Training:
    """Train a policy on any environment with the preset.

    Args:
        environment: A Gymnasium id, or a simulator.
        method: A name in `TRAINING_METHODS`.
        policy: "linear" or "rbf" in the observations, or "mlp", a network.
        transitions: Stop when so many have been played; 25,000 if nothing is said.
        iterations: Stop after so many.
        seed: Of all randomness.
        preset: The numbers.
        largest: Limit of the step size, in units of the method's direction. If not given it is
            the preset's for "second_gauss_newton" and none for the others, whose directions
            have no length of their own: it depends on the scale of the rewards.
        callback: Called after each iteration; returns True to stop.

    Returns:
        The trained policy with its history; Ctrl-C ends with what there is.
    """
    if transitions is None and iterations is None:
        transitions = 25_000
    started = begin(simulator_of(environment), policy, seed, preset)
    return proceed(
        started,
        method=method,
        transitions=transitions,
        iterations=iterations,
        largest=largest,
        callback=callback,
    )


def simulator_of(environment: str | Simulator) -> Simulator:
    """The simulator of a Gymnasium id, or the given one, with unit actions."""
    if isinstance(environment, str):
        return GymnasiumSimulator(environment, unit_actions=True)
    if isinstance(environment, CompiledSimulator) and not isinstance(environment, UnitActions):
        return UnitActions(environment)
    return environment


def begin(
    simulator: Simulator, kind: PolicyKind, seed: int, preset: Preset = PRACTICAL
) -> Training:
    """Play a first batch blindly, and fix the features to what was seen in it."""
    look, draw = jax.random.split(jax.random.fold_in(jax.random.key(seed), 1))
    training = blank(simulator, kind, seed, preset)
    memory = training.evaluator.memory
    blind = policy_of("linear", simulator.spaces, training.features, preset)
    batch = memory.play(look, blind, blind.initial_parameters())
    seen = np.asarray(batch.observations)[np.asarray(batch.valid)]
    standardized = Standardized.of(seen)
    width = preset.width * _distance(standardized, seen)
    features = RandomFourier.drawn(draw, standardized, preset.features, width)
    return _equipped(training, features)


def blank(simulator: Simulator, kind: PolicyKind, seed: int, preset: Preset) -> Training:
    """A training that has seen nothing: the shape of all its parts."""
    if kind not in get_args(PolicyKind):
        raise ValueError(
            f"`train(policy=...)` knows {', '.join(get_args(PolicyKind))}, got {kind!r}."
        )
    size = simulator.spaces.observation
    plain = Standardized(jnp.zeros(size), jnp.ones(size))
    features = RandomFourier.drawn(jax.random.key(0), plain, preset.features, 1.0)
    evaluator = ActorCritic(
        simulator,
        LinearCritic(features, trace=preset.trace, ridge=preset.ridge),
        preset.discount,
        episodes=preset.episodes,
        least_transitions=preset.least_transitions,
        reuse=preset.reuse,
        trace=preset.trace,
        ratio_limit=preset.ratio_limit,
        discounted_occupancy=False,
    )
    policy = policy_of(kind, simulator.spaces, features, preset, seed)
    w = policy.initial_parameters()
    return Training(simulator, kind, seed, preset, features, policy, w, evaluator)


def proceed(
    training: Training,
    *,
    method: str = "second_gauss_newton",
    transitions: int | None = None,
    iterations: int | None = None,
    largest: float | None = None,
    callback: Callable[[Training], object] | None = None,
) -> Training:
    """Go on with a training from where it was stopped; the arguments are those of `train`."""
    methods = training_methods(training.preset, training.kind)
    if method not in methods:
        raise ValueError(f"`train(method=...)` knows {', '.join(methods)}, got {method!r}.")
    preset, evaluator = training.preset, training.evaluator
    if largest is None:
        largest = preset.largest if method == "second_gauss_newton" else math.inf

    def after(record: Record, w: PyTree) -> bool:
        training.w, training.iteration = w, record.iteration + 1
        mean, error = evaluator.here
        training.recent = [*training.recent, (mean - error, w)][-preset.remembered :]
        newest = float(evaluator.memory.batches[-1].returns().mean())
        training.history.append(Progress(evaluator.memory.transitions, newest, record))
        stop = callback is not None and callback(training) is True
        return stop or (transitions is not None and evaluator.memory.transitions >= transitions)

    result = search(
        evaluator,
        training.policy,
        training.w,
        methods[method],
        KeepIfBetter(KLStep(preset.divergence, largest), preset.tolerance),
        key=jax.random.key(training.seed),
        iterations=sys.maxsize if iterations is None else iterations,
        gradient_tolerance=-1.0,  # a batch without any reward has no gradient, and isn't the end
        patience=None,
        callback=after,
        evaluation=evaluator.again(training.policy, training.w) if training.iteration else None,
        first=training.iteration,
    )
    training.w, training.status = result.w, result.status
    return training


def _equipped(training: Training, features: RandomFourier) -> Training:
    """The training with these features in its policy and its critic."""
    preset = training.preset
    training.features = features
    training.policy = policy_of(
        training.kind, training.simulator.spaces, features, preset, training.seed
    )
    training.w = training.policy.initial_parameters()
    training.evaluator.critic = LinearCritic(features, trace=preset.trace, ridge=preset.ridge)
    return training


def _distance(standardized: Standardized, seen: np.ndarray, pairs: int = 1000) -> float:
    """The mean distance of two standardised observations."""
    scaled = np.asarray(jax.vmap(standardized.scaled)(jnp.asarray(seen)))
    one, other = np.random.default_rng(0).integers(len(scaled), size=(2, pairs))
    return max(float(np.linalg.norm(scaled[one] - scaled[other], axis=1).mean()), 1e-3)
