"""Distributions over actions and what they promise; nothing here knows rewards or dynamics."""

from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.affine import AffineGaussian, Deviation
from mdpnewton.policies.categorical import (
    Categorical,
    Gibbs,
    TabularSoftmax,
    gibbs_over_successors,
)
from mdpnewton.policies.check import PolicyCheck, check_policy
from mdpnewton.policies.controller import FiniteStateController
from mdpnewton.policies.diagonal_gaussian import DiagonalGaussian
from mdpnewton.policies.features import OneHot, RadialBasis, RandomFourier, Standardized
from mdpnewton.policies.full_gaussian import FullDeviation, FullGaussian
from mdpnewton.policies.gaussian import Gaussian, LinearGaussian
from mdpnewton.policies.linear_softmax import LinearSoftmax
from mdpnewton.policies.network import NetworkCategorical, NetworkGaussian, mlp
from mdpnewton.policies.noisy_gain import NoisyGain
from mdpnewton.policies.product import Product
from mdpnewton.policies.reparametrized import Reparametrized
from mdpnewton.policies.squashed import Squashed

__all__ = [
    "AffineGaussian",
    "Categorical",
    "Deviation",
    "DiagonalGaussian",
    "FiniteStateController",
    "FullDeviation",
    "FullGaussian",
    "Gaussian",
    "Gibbs",
    "LinearGaussian",
    "LinearSoftmax",
    "NetworkCategorical",
    "NetworkGaussian",
    "NoisyGain",
    "OneHot",
    "Policy",
    "PolicyCheck",
    "Product",
    "RadialBasis",
    "RandomFourier",
    "Reparametrized",
    "Squashed",
    "Standardized",
    "TabularSoftmax",
    "check_policy",
    "gibbs_over_successors",
    "mlp",
]
