"""Training from samples with one preset for all environments."""

import sys
from collections.abc import Callable
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray, PyTree

from mdpnewton.checks import choice, instance, whole
from mdpnewton.environments.names import simulator_of
from mdpnewton.evaluators.memory import played
from mdpnewton.loop import Record, search
from mdpnewton.policies import RandomFourier, Standardized
from mdpnewton.simulators import Simulator
from mdpnewton.simulators.trajectories import Trajectories
from mdpnewton.steps import TrustedStep
from mdpnewton.training.presets import (
    LEAST,
    PRACTICAL,
    PolicyKind,
    Preset,
    first_parameters,
    policy_of,
    training_methods,
)
from mdpnewton.training.state import Progress, Training, evaluator_of

METHOD = "second_gauss_newton"


def train(
    environment: str | Simulator,
    *,
    method: str = METHOD,
    policy: PolicyKind = "rbf",
    transitions: int | None = None,
    iterations: int | None = None,
    seed: int = 0,
    preset: Preset = PRACTICAL,
    callback: Callable[[Training], object] | None = None,
) -> Training:
    """Train a policy on any environment with the preset.

    Args:
        environment: A Gymnasium id, "cartpole", "navigation", or a simulator.
        method: A name in `TRAINING_METHODS`.
        policy: Kind of the policy: "linear" or "rbf" in the observations, or "mlp", a network.
        transitions: Number of transitions after which training stops; 25,000 if no limit is given.
        iterations: Number of iterations after which training stops.
        seed: Random seed.
        preset: Numbers of the training.
        callback: Function that is called after each iteration. It returns True to stop.

    Returns:
        The trained policy with its history. After Ctrl-C, what has been trained so far.
    """
    remedy = "pass a Gymnasium id, 'cartpole', 'navigation', or a simulator"
    instance("train", "environment", environment, str | Simulator, remedy)
    _check_limits(transitions, iterations)
    if transitions is None and iterations is None:
        transitions = 25_000
    name = environment if isinstance(environment, str) else ""
    training = begin(
        simulator_of(environment), policy, seed, preset, method=method, environment=name
    )
    return proceed(training, transitions=transitions, iterations=iterations, callback=callback)


def begin(
    simulator: Simulator,
    kind: PolicyKind,
    seed: int,
    preset: Preset = PRACTICAL,
    *,
    method: str = METHOD,
    environment: str = "",
) -> Training:
    """A training with its first batch, which is played without observing and fixes the features.

    Args:
        simulator: Simulator to train on, with unit actions.
        kind: Kind of the policy.
        seed: Random seed.
        preset: Numbers of the training.
        method: A name in `TRAINING_METHODS`.
        environment: Name of the environment, by which a saved training finds it again.
    """
    instance("train", "preset", preset, Preset, "pass `Preset(...)`")
    choice("train", "policy", kind, get_args(PolicyKind))
    choice("train", "method", method, training_methods(preset, kind))
    key = jax.random.key(whole("train", "seed", seed, most=2**63 - 1))
    look, draw = jax.random.split(jax.random.fold_in(key, 1))
    batch = _blind_batch(look, simulator, preset)
    seen = np.asarray(batch.observations)[np.asarray(batch.valid)]
    preset = preset.adapted(_horizon(simulator, batch), seen.shape[1])
    standardized = Standardized.of(seen, preset.limit)
    width = (preset.width or 1.0) * _distance(standardized, seen)
    features = RandomFourier.drawn(draw, standardized, preset.features, width)
    policy = policy_of(kind, simulator.spaces, features, preset, seed)
    evaluator = evaluator_of(simulator, features, preset)
    evaluator.memory.keep(batch)
    return Training(
        simulator,
        environment,
        method,
        kind,
        seed,
        preset,
        features,
        policy,
        first_parameters(policy, preset),
        evaluator,
    )


def proceed(
    training: Training,
    *,
    transitions: int | None = None,
    iterations: int | None = None,
    callback: Callable[[Training], object] | None = None,
) -> Training:
    """Continue a training from where it stopped; the arguments are those of `train`."""
    _check_limits(transitions, iterations)
    preset, evaluator = training.preset, training.evaluator
    method = training_methods(preset, training.kind)[training.method]

    def after(record: Record, w: PyTree) -> bool:
        training.w, training.iteration = w, record.iteration + 1
        mean, error = evaluator.here
        training.recent = [*training.recent, (mean - error, w)][-preset.remembered :]
        newest = float(evaluator.memory.batches[-1].returns().mean())
        training.history.append(Progress(evaluator.memory.transitions, newest, record))
        stop = callback is not None and callback(training) is True
        return stop or (transitions is not None and evaluator.memory.transitions >= transitions)

    known = evaluator.again(None, training.policy, training.w) if training.iteration else None
    result = search(
        evaluator,
        training.policy,
        training.w,
        method,
        TrustedStep(preset.divergence, tolerance=preset.tolerance),
        key=jax.random.key(training.seed),
        iterations=sys.maxsize if iterations is None else iterations,
        gradient_tolerance=-1.0,  # a batch without any reward has no gradient but is not the end
        patience=None,
        callback=after,
        evaluation=known,
        first=training.iteration,
        previous=training.history[-1].record.step if training.history else None,
    )
    training.w, training.status = result.w, result.status
    return training


def no_iteration(training: Training) -> str:
    """What to tell if a limit of transitions is over before the first iteration."""
    return (
        f"no iteration was made: the first batch alone has {training.evaluator.memory.transitions} "
        f"transitions; allow more than that to train"
    )


def _blind_batch(key: PRNGKeyArray, simulator: Simulator, preset: Preset) -> Trajectories:
    """Episodes of a policy that ignores observations: mean action zero, or all equally likely."""
    size = simulator.spaces.observation
    plain = Standardized(jnp.zeros(size), jnp.ones(size))
    none = RandomFourier(plain, jnp.zeros((0, size)), jnp.zeros(0))
    blind = policy_of("linear", simulator.spaces, none, preset)
    least = LEAST if preset.least_transitions is None else preset.least_transitions
    w = first_parameters(blind, preset)
    return played(simulator, key, blind, w, preset.episodes, least)


def _horizon(simulator: Simulator, batch: Trajectories) -> int:
    """The length of episodes if all of the batch have the same, otherwise their limit."""
    lengths = {int(time) + 1 for time in batch.times[batch.ends & batch.valid]}
    return lengths.pop() if len(lengths) == 1 else simulator.horizon


def _check_limits(transitions: Any, iterations: Any) -> None:
    for name, limit in (("transitions", transitions), ("iterations", iterations)):
        if limit is not None:
            whole("train", name, limit, 1)


def _distance(standardized: Standardized, seen: np.ndarray, pairs: int = 1000) -> float:
    """The mean distance between two standardised observations."""
    scaled = np.asarray(jax.vmap(standardized.scaled)(jnp.asarray(seen)))
    one, other = np.random.default_rng(0).integers(len(scaled), size=(2, pairs))
    return max(float(np.linalg.norm(scaled[one] - scaled[other], axis=1).mean()), 1e-3)
