"""The preset of training, and the policies and methods that it defines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import jax
import numpy as np

from mdpnewton.checks import number, whole
from mdpnewton.methods import Method, MethodsOf, Settings, names
from mdpnewton.policies import (
    LinearGaussian,
    LinearSoftmax,
    NetworkCategorical,
    NetworkGaussian,
    Policy,
    RandomFourier,
    mlp,
)
from mdpnewton.simulators import Spaces

PolicyKind = Literal["linear", "rbf", "mlp"]


@dataclass(frozen=True)
class Preset:
    """All numbers of `train`. The defaults are the preset for all environments.

    Attributes:
        discount: Discount factor gamma of values and advantages.
        episodes: Minimum number of episodes per batch.
        least_transitions: Minimum number of transitions per batch.
        reuse: Number of batches that are used at once, including the newest.
        exploration: Standard deviation of an action, in half-ranges of its bounds.
        features: Number of random Fourier features of the policy "rbf" and of the critic.
        width: Width of the features' kernel, as a multiple of the mean distance between two
            standardised observations.
        hidden: Number of units in each of the two hidden layers of the policy "mlp".
        trace: Parameter lambda of LSTD and of the generalised advantages.
        ridge: Ridge of the critic's fit, relative to the mean square of the features.
        ratio_limit: Largest importance ratio in the gradient.
        margin: Margin of the tight offset, as a share of the range of values.
        damping: Ridge of the solve, as a share of the matrix's mean diagonal.
        divergence: Largest mean KL divergence of a step.
        largest: Largest size of a step whose direction has the tight offset. The length of such a
            direction depends on neither the scale nor the offset of the rewards. Near an optimum,
            where the gradient is noise, this limit keeps steps small.
        tolerance: Number of standard errors by which the batch return may fall before a step is
            undone.
        remembered: Number of iterations whose points compete to be the policy that is played. The
            best return minus its standard error wins, because the newest point may be a lucky draw.
    """

    discount: float = 0.99
    episodes: int = 4
    least_transitions: int = 400
    reuse: int = 4
    exploration: float = 0.4
    features: int = 200
    width: float = 0.3
    hidden: int = 64
    trace: float = 0.9
    ridge: float = 1e-3
    ratio_limit: float = 2.0
    margin: float = 0.2
    damping: float = 1e-2
    divergence: float = 0.2
    largest: float = 100.0
    tolerance: float = 1.0
    remembered: int = 5

    def __post_init__(self) -> None:
        for name in ("episodes", "reuse", "features", "hidden", "remembered"):
            whole("Preset", name, getattr(self, name), 1)
        whole("Preset", "least_transitions", self.least_transitions)
        for name in ("discount", "trace"):
            number("Preset", name, getattr(self, name), least=0, most=1)
        for name in ("exploration", "width", "divergence"):
            number("Preset", name, getattr(self, name), above=0)
        for name in ("ridge", "margin", "damping"):
            number("Preset", name, getattr(self, name), least=0)
        number("Preset", "ratio_limit", self.ratio_limit, least=1, infinite=True)
        number("Preset", "largest", self.largest, above=0, infinite=True)
        number("Preset", "tolerance", self.tolerance, least=0, infinite=True)


PRACTICAL = Preset()


def training_methods(preset: Preset, kind: PolicyKind) -> Mapping[str, Method]:
    """The methods of `train`, which differ in the direction and in nothing else."""
    settings = Settings(damping=preset.damping, margin=preset.margin)
    return MethodsOf("network" if kind == "mlp" else "sampled", settings)


TRAINING_METHODS = names("sampled")


def policy_of(
    kind: PolicyKind,
    spaces: Spaces,
    features: RandomFourier,
    preset: Preset = PRACTICAL,
    seed: int = 0,
) -> Policy:
    """A policy of the given kind for the spaces; actions are in units of their half-range."""
    outputs = spaces.actions or spaces.action_size
    sigma = np.full(spaces.action_size, preset.exploration)
    standardized = features.standardized
    if kind == "mlp":
        network = mlp(jax.random.key(seed), standardized.size, outputs, preset.hidden)
        if spaces.actions:
            return NetworkCategorical(network, standardized)
        return NetworkGaussian(network, sigma, learn_sigma=False, features=standardized)
    inputs = standardized if kind == "linear" else features
    if spaces.actions:
        return LinearSoftmax(outputs, inputs.size, inputs)
    return LinearGaussian(np.diag(sigma**2), inputs.size, inputs)
