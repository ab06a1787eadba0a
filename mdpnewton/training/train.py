"""Training from samples with one preset for all environments."""

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import choice, instance, whole
from mdpnewton.environments.names import simulator_of
from mdpnewton.evaluators.memory import played
from mdpnewton.loop import Record, search
from mdpnewton.policies import Policy, RandomFourier, Standardized
from mdpnewton.simulators import Simulator, tells_time, timed, with_time
from mdpnewton.simulators.trajectories import Trajectories
from mdpnewton.steps import TrustedStep
from mdpnewton.training.choice import choose, diverged, go_back, to_choose_with
from mdpnewton.training.deadline import common_length, deadline_of
from mdpnewton.training.following import due, follow
from mdpnewton.training.own import check_fits, own_policy
from mdpnewton.training.presets import (
    LEAST,
    PRACTICAL,
    PolicyKind,
    Preset,
    blind_policy,
    first_parameters,
    policy_of,
    training_methods,
)
from mdpnewton.training.state import Progress, Training, evaluator_of

METHOD = "second_gauss_newton"


def train(
    environment: Any,
    *,
    method: str = METHOD,
    policy: PolicyKind | Policy = "rbf",
    transitions: int | None = None,
    iterations: int | None = None,
    seed: int = 0,
    preset: Preset = PRACTICAL,
    callback: Callable[[Training], object] | None = None,
) -> Training:
    """Train a policy on any environment with the preset.

    Args:
        environment: A Gymnasium id, "cartpole" or "navigation"; an environment, its class, or a
            function that makes one; a vector environment, of which a single one is made again; or a
            simulator.
        method: A name in `TRAINING_METHODS`.
        policy: Kind of the policy: "linear" or "rbf" in the observations, or "mlp", a network. Or
            your own `Policy`, which sees flattened observations and whose continuous actions are in
            units: -1 and 1 are the ends of the box. It begins at its `initial_parameters`.
        transitions: Number of transitions after which training stops; 25,000 if no limit is given.
        iterations: Number of iterations after which training stops.
        seed: Random seed.
        preset: Numbers of the training.
        callback: Function that is called after each iteration. It returns True to stop.

    Returns:
        The trained policy with its history. After Ctrl-C, what has been trained so far.
    """
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
    kind: PolicyKind | Policy,
    seed: int,
    preset: Preset = PRACTICAL,
    *,
    method: str = METHOD,
    environment: str = "",
) -> Training:
    """A training with its first batch, which is played without observing and fixes the features.

    Args:
        simulator: Simulator to train on, with unit actions.
        kind: Kind of the policy, or the policy itself.
        seed: Random seed.
        preset: Numbers of the training.
        method: A name in `TRAINING_METHODS`.
        environment: Name of the environment, by which a saved training finds it again.
    """
    instance("train", "preset", preset, Preset, "pass `Preset(...)`")
    own, which = own_policy(kind)
    choice("train", "method", method, training_methods(preset, which, policy=own))
    if own is not None:
        preset = replace(preset, deadline=preset.deadline or 0)  # what it sees is its own business
        seen_by = simulator.spaces.timed() if preset.deadline else simulator.spaces
        check_fits(own, seen_by, method)
    key = jax.random.key(whole("train", "seed", seed, most=2**63 - 1))
    look, draw = jax.random.split(jax.random.fold_in(key, 1))
    batch = played(simulator, look, *blind_policy(simulator.spaces, preset), *_first(preset))
    deadline = preset.deadline
    if deadline is None:
        deadline = deadline_of(batch) if tells_time(simulator) else 0
    if deadline:
        simulator, batch = timed(simulator, deadline), with_time(batch, deadline)
    seen = np.asarray(batch.observations)[np.asarray(batch.valid)]
    ended = bool(np.asarray(batch.terminated & batch.valid).any())
    adapted = preset.adapted(_horizon(simulator, batch), seen.shape[1], terminates=ended)
    preset = replace(adapted, deadline=deadline)
    standardized = Standardized.of(seen, preset.limit)
    width = (preset.width or 1.0) * _distance(standardized, seen)
    features = RandomFourier.drawn(draw, standardized, preset.features, width)
    policy, w = own, None if own is None else own.initial_parameters()
    if policy is None:
        policy = policy_of(which, simulator.spaces, features, preset, seed)
        w = first_parameters(policy, preset)
    evaluator = evaluator_of(simulator, features, preset)
    evaluator.memory.keep(batch)
    return Training(
        simulator,
        environment,
        method,
        which,
        seed,
        preset,
        features,
        policy,
        w,
        evaluator,
        blind=batch.returns().tolist(),
        anchors=[batch.transitions],
    )


def proceed(
    training: Training,
    *,
    transitions: int | None = None,
    iterations: int | None = None,
    callback: Callable[[Training], object] | None = None,
) -> Training:
    """Continue a training from where it stopped; the arguments are those of `train`.

    A training that has diverged goes back to its best point, and on with shorter steps. Features
    follow the observations now and then. When a limit is reached, the policy that is played from
    then on is chosen.
    """
    _check_limits(transitions, iterations)
    while not finished(training, transitions, iterations):
        stopped = _search(training, transitions, iterations, callback)
        if stopped or training.status not in ("stopped", "iterations"):
            return training
    if training.chosen is None:
        choose(training, transitions)
    return training


def finished(training: Training, transitions: int | None, iterations: int | None) -> bool:
    """Whether a limit is reached, or another batch as long as the newest one would exceed it.

    Some of the transitions are for the choice of the policy.
    """
    if iterations is not None and training.iteration >= iterations:
        return True
    if transitions is None:
        return False
    memory = training.evaluator.memory
    more = memory.batches[-1].transitions if training.history else 1
    return memory.transitions + to_choose_with(training, transitions) + more > transitions


def _search(
    training: Training,
    transitions: int | None,
    iterations: int | None,
    callback: Callable[[Training], object] | None,
) -> bool:
    """Go on until a limit is reached, the callback stops it, or something has to be mended first.

    That is the training if it has diverged, and the features if they are behind the observations.

    Returns:
        Whether the callback stopped it.
    """
    preset, evaluator = training.preset, training.evaluator
    blind = float(np.mean(training.blind))
    methods = training_methods(preset, training.kind, blind, policy=training.policy)
    method = methods[training.method]
    known, previous, stopped = None, None, False
    training.chosen = None
    if diverged(training):
        go_back(training)
    elif training.history:
        if due(training):
            follow(training)
        known = evaluator.again(None, training.policy, training.w)
        previous = training.history[-1].record.step

    def after(record: Record, w: PyTree) -> bool:
        nonlocal stopped
        training.w, training.iteration = w, record.iteration + 1
        training.note()
        newest = float(evaluator.memory.batches[-1].returns().mean())
        training.history.append(Progress(evaluator.memory.transitions, newest, record))
        stopped = callback is not None and callback(training) is True
        over = finished(training, transitions, iterations)
        return stopped or over or diverged(training) or due(training)

    result = search(
        evaluator,
        training.policy,
        training.w,
        method,
        _step(preset, len(training.restarts)),
        key=jax.random.key(training.seed),
        iterations=sys.maxsize if iterations is None else iterations,
        gradient_tolerance=-1.0,  # a batch without any reward has no gradient but is not the end
        patience=None,
        callback=after,
        evaluation=known,
        first=training.iteration,
        previous=previous,
    )
    training.w, training.status = result.last, result.status
    return stopped


def _step(preset: Preset, restarts: int) -> TrustedStep:
    """The rule for steps, whose limits are halved by every restart."""
    rule = TrustedStep(preset.divergence, tolerance=preset.tolerance, fading=preset.fading)
    smaller = {name: getattr(rule, name) / 2**restarts for name in ("divergence", "least", "most")}
    return replace(rule, **smaller)


def no_iteration(training: Training) -> str:
    """What to tell if a limit of transitions is over before the first iteration."""
    return (
        f"no iteration was made: the first batch alone has {training.evaluator.memory.transitions} "
        f"transitions; allow more than that to train"
    )


def _first(preset: Preset) -> tuple[int, int]:
    """Episodes and transitions of the first batch: at least two, to see how much they differ."""
    least = LEAST if preset.least_transitions is None else preset.least_transitions
    return max(preset.episodes, 2), least


def _horizon(simulator: Simulator, batch: Trajectories) -> int:
    """The length of episodes if all of the batch have the same, otherwise their limit."""
    return common_length(batch) or simulator.horizon


def _check_limits(transitions: Any, iterations: Any) -> None:
    for name, limit in (("transitions", transitions), ("iterations", iterations)):
        if limit is not None:
            whole("train", name, limit, 1)


def _distance(standardized: Standardized, seen: np.ndarray, pairs: int = 1000) -> float:
    """The mean distance between two standardised observations."""
    scaled = np.asarray(jax.vmap(standardized.scaled)(jnp.asarray(seen)))
    one, other = np.random.default_rng(0).integers(len(scaled), size=(2, pairs))
    return max(float(np.linalg.norm(scaled[one] - scaled[other], axis=1).mean()), 1e-3)
