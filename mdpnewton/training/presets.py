"""The preset of training, and the policies and methods that it defines."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from mdpnewton.checks import choice, flag, number, refuse, whole
from mdpnewton.evaluators import Critic, LinearCritic, NetworkCritic, Rivals
from mdpnewton.methods import Exploring, Method, MethodsOf, Settings, names
from mdpnewton.policies import (
    Categorical,
    Gaussian,
    LinearSoftmax,
    NetworkCategorical,
    NetworkGaussian,
    Policy,
    Product,
    RandomFourier,
    Squashed,
    Standardized,
    mlp,
)
from mdpnewton.simulators import Spaces

PolicyKind = Literal["linear", "rbf", "mlp"]
Kind = Literal["linear", "rbf", "mlp", "own"]
OWN: Kind = "own"  # a policy that the user gave
CriticKind = Literal["linear", "network", "better"]
ADAM, ROWS, RATE = 800, 128, 1e-3  # steps of a fit, which goes on from where the last one ended
LEAST = 400  # transitions of the first batch, and of every batch unless the preset says less


@dataclass(frozen=True)
class Preset:
    """All numbers of `train`. The defaults are the preset for all environments.

    Attributes:
        discount: Discount factor gamma of values and advantages; by default from the horizon, see
            `adapted`.
        deadline: Length of every episode, if policy and critic are told the time; 0 if they are
            not. By default it is found from the first batch, see `deadline_of`.
        episodes: Minimum number of episodes per batch.
        least_transitions: Minimum number of transitions per batch; by default from the horizon.
        share: Share of all transitions so far that is enough for a batch of two episodes, if it has
            200 transitions.
        reuse: Number of batches that are used at once, including the newest.
        exploration: First standard deviation of an action, in half-ranges of its bounds. It is
            learnt from then on.
        floor: Smallest standard deviation of an action.
        squashed: Whether continuous actions are hyperbolic tangents of Gaussian ones, which never
            leave their bounds, or clipped to them.
        patience: Share of their way that the standard deviations go in a step.
        features: Number of random Fourier features of the policy "rbf" and of the critic.
        width: Width of the features' kernel, as a multiple of the mean distance between two
            standardised observations; by default from their dimension.
        limit: Absolute value at which standardised observations are clipped.
        hidden: Number of units in each of the two hidden layers of the policy "mlp".
        trace: Parameter lambda of the generalised advantages.
        critic_trace: Parameter lambda of the critic's LSTD.
        ridge: Ridge of the critic's fit, relative to the mean square of the features.
        ratio_limit: Largest importance ratio in the gradient.
        margin: Margin of the tight offset, as a share of the range of values.
        damping: Ridge of the solve, as a share of the matrix's mean diagonal.
        divergence: Mean KL divergence of the first step; see `TrustedStep` for those after it.
        fading: Number of iterations after which the largest step shrinks, see `TrustedStep`.
        tolerance: Number of standard errors by which the batch return may fall before a step is
            undone.
        remembered: Number of iterations whose points compete to be the policy that is played. The
            best return minus its standard error wins, because the newest point may be a lucky draw.
        critic: "linear" in the random Fourier features, "network", or "better": the one of both
            that has foretold the returns of new batches better, see `Rivals`.
    """

    discount: float | None = None
    deadline: int | None = None
    episodes: int = 1
    least_transitions: int | None = None
    share: float = 0.1
    reuse: int = 4
    exploration: float = 0.5
    floor: float = 0.05
    squashed: bool = False
    patience: float = 0.3
    features: int = 200
    width: float | None = None
    limit: float = 5.0
    hidden: int = 64
    trace: float = 0.95
    critic_trace: float = 0.9
    ridge: float = 1e-3
    ratio_limit: float = 2.0
    margin: float = 0.2
    damping: float = 0.1
    divergence: float = 0.05
    fading: float = 15.0
    tolerance: float = 2.0
    remembered: int = 5
    critic: CriticKind = "better"

    def __post_init__(self) -> None:
        for name in ("episodes", "reuse", "features", "hidden", "remembered"):
            whole("Preset", name, getattr(self, name), 1)
        if self.least_transitions is not None:
            whole("Preset", "least_transitions", self.least_transitions)
        for name in ("trace", "critic_trace", "patience"):
            number("Preset", name, getattr(self, name), least=0, most=1)
        if self.deadline is not None:
            whole("Preset", "deadline", self.deadline)
        if self.discount is not None:
            number("Preset", "discount", self.discount, least=0, most=1)
        number("Preset", "fading", self.fading, above=0, infinite=True)
        for name in ("limit", "divergence"):
            number("Preset", name, getattr(self, name), above=0)
        number("Preset", "share", self.share, above=0, infinite=True)
        if self.width is not None:
            number("Preset", "width", self.width, above=0)
        number("Preset", "floor", self.floor, least=0)
        flag("Preset", "squashed", self.squashed)
        number("Preset", "exploration", self.exploration, above=self.floor)
        for name in ("ridge", "margin", "damping"):
            number("Preset", name, getattr(self, name), least=0)
        number("Preset", "ratio_limit", self.ratio_limit, least=1, infinite=True)
        number("Preset", "tolerance", self.tolerance, least=0, infinite=True)
        choice("Preset", "critic", self.critic, get_args(CriticKind))

    def adapted(self, horizon: int, dimension: int, *, terminates: bool) -> "Preset":
        """The preset with a number for all that depends on the environment.

        The discount factor is closer to 1 for longer episodes: 1 - 2.5 / horizon, but at least 0.9,
        and at most 0.995 where episodes terminate, since nobody knows how long they are going to
        be, and 0.999 where they don't. A batch has four episodes' worth of transitions, but from
        400 to 1000. The kernel is wider in more dimensions, where a narrow one is zero nearly
        everywhere.

        Args:
            horizon: Length of an episode, or its limit.
            dimension: Length of an observation.
            terminates: Whether an episode has been seen to terminate.
        """
        discount, least, width = self.discount, self.least_transitions, self.width
        if discount is None:
            discount = min(max(0.9, 1 - 2.5 / horizon), 0.995 if terminates else 0.999)
        if least is None:
            least = min(max(LEAST, 4 * horizon), 1000)
        if width is None:
            width = max(0.3, 2 * math.pow(self.features, -1 / max(dimension, 1)))
        return replace(self, discount=discount, least_transitions=least, width=width)


PRACTICAL = Preset()


def training_methods(
    preset: Preset, kind: Kind, nothing: float = math.inf, *, policy: Policy | None = None
) -> Mapping[str, Method]:
    """The methods of `train`, which differ in the direction and in nothing else.

    A policy of the user is trained as a linear one if it declares that it is concave in each of its
    leaves, otherwise as a network.

    Args:
        preset: Numbers of the training.
        kind: Kind of the policy.
        nothing: Return of a policy that has found nothing, see `Exploring`.
        policy: The policy, which decides if it is the user's.
    """
    settings = Settings(damping=preset.damping, margin=preset.margin)
    by_blocks = kind in ("linear", "rbf")
    if kind == OWN and policy is not None:
        by_blocks = policy.log_concave or policy.blockwise_log_concave
    methods = MethodsOf("sampled" if by_blocks else "network", settings)
    return {name: Exploring(inside, preset.patience, nothing) for name, inside in methods.items()}


TRAINING_METHODS = names("sampled")


def policy_of(
    kind: Kind,
    spaces: Spaces,
    features: RandomFourier,
    preset: Preset = PRACTICAL,
    seed: int = 0,
) -> Policy:
    """A policy of the given kind for the spaces; actions are in units of their half-range."""
    if preset.squashed and spaces.low is not None and spaces.high is not None:
        if not (np.isfinite(spaces.low) & np.isfinite(spaces.high)).all():
            refuse("Preset", "squashed", "needs actions with finite bounds")
        return Squashed(policy_of(kind, spaces, features, replace(preset, squashed=False), seed))
    if spaces.choices is not None:
        together = Spaces(spaces.observation, sum(spaces.choices))
        inside = policy_of(kind, together, features, preset, seed)
        assert isinstance(inside, Categorical)
        return Product(inside, spaces.choices)
    outputs = spaces.actions or spaces.action_size
    sigma = np.full(spaces.action_size, preset.exploration)
    standardized = features.standardized
    if kind == "mlp":
        network = mlp(jax.random.key(seed), standardized.size, outputs, preset.hidden)
        if spaces.actions:
            return NetworkCategorical(network, standardized)
        return NetworkGaussian(network, sigma, features=standardized, floor=preset.floor)
    inputs = standardized if kind == "linear" else features
    if spaces.actions:
        return LinearSoftmax(outputs, inputs.size, inputs)
    return Gaussian(outputs, inputs.size, inputs, floor=preset.floor)


def critic_of(features: RandomFourier, preset: Preset) -> Critic:
    """The critic of a preset before its first fit; networks begin the same in all trainings."""
    linear = LinearCritic(features, trace=preset.critic_trace, ridge=preset.ridge, anchored=True)
    if preset.critic == "linear":
        return linear
    inputs = features.standardized
    layers = mlp(jax.random.key(0), inputs.size, 1, preset.hidden)
    trace = preset.critic_trace
    network = NetworkCritic(layers, inputs, trace=trace, rate=RATE, steps=ADAM, rows=ROWS)
    return network if preset.critic == "network" else Rivals(linear, network)


def blind_policy(spaces: Spaces, preset: Preset) -> tuple[Policy, PyTree]:
    """A policy that ignores observations: mean action zero, or all actions equally likely."""
    size = spaces.observation
    plain = Standardized(jnp.zeros(size), jnp.ones(size))
    none = RandomFourier(plain, jnp.zeros((0, size)), jnp.zeros(0))
    policy = policy_of("linear", spaces, none, preset)
    return policy, first_parameters(policy, preset)


def first_parameters(policy: Policy, preset: Preset) -> PyTree:
    """The parameters that training starts from: all actions alike, or mean zero and sigma given."""
    w = policy.initial_parameters()
    inside = policy.policy if isinstance(policy, Squashed) else policy
    if isinstance(inside, Gaussian):
        above = math.log(preset.exploration - preset.floor)
        w = {**w, "scale": jnp.full_like(w["scale"], above)}
    return w
