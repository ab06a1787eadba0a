"""The one preset of training, and the policies and methods that it stands for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import jax
import numpy as np

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
    """Every number of `train`. The defaults are the preset for all environments.

    Attributes:
        discount: gamma of values and advantages.
        episodes: At least so many episodes a batch,
        least_transitions: and at least so many transitions.
        reuse: Batches used at once, the newest included.
        exploration: Standard deviation of an action, in half-ranges of its bounds.
        features: Random Fourier features of the policy "rbf" and of the critic.
        width: Of their kernel, in mean distances of two standardised observations.
        hidden: Units in each of the two hidden layers of the policy "mlp".
        trace: lambda of LSTD and of the generalised advantages.
        ridge: Of the critic, relative.
        ratio_limit: Of the importance ratios in the gradient.
        margin: Of the tight offset.
        damping: Ridge of the solve, as a share of the matrix's mean diagonal.
        divergence: Mean KL of a step, at most.
        largest: Size of a step, at most, where the direction has the tight offset: it then has
            a length that depends on neither the scale nor the offset of the rewards. Near an
            optimum, where the gradient is noise, this keeps steps small.
        tolerance: A step is taken back if the batch return fell by more standard errors.
        remembered: What is played is the best of the points after the last so many iterations,
            by return less its standard error: the newest one may be a lucky draw.
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
    """A policy of that kind for these spaces; actions are in units of their half-range."""
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
