"""Policies as plain arrays that NumPy acts with."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from mdpnewton.policies import gaussian, network
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.acting import arrays_of_features
from mdpnewton.policies.gaussian import Gaussian, LinearGaussian, floored
from mdpnewton.policies.linear_softmax import LinearSoftmax
from mdpnewton.policies.network import NetworkCategorical, NetworkGaussian, layers_of
from mdpnewton.policies.product import Product
from mdpnewton.policies.squashed import Squashed


class Plainly(NamedTuple):
    """A policy in plain data.

    Attributes:
        about: Its number of `layers`, its `distribution` ("softmax", "product" or "gaussian"), the
            `sizes` of a product, and whether actions are `squashed`.
        arrays: Arrays by name: `mean`, `scale` and `limit` of the observations if they are
            standardised; `frequencies` and `phases` if there are Fourier features; `weight0`,
            `bias0`, ...; and `root`, standard deviations or a root of the covariance.
    """

    about: dict[str, Any]
    arrays: dict[str, np.ndarray]


def plainly(policy: Policy, w: PyTree) -> Plainly | None:
    """The policy with these parameters, or None if NumPy does not know its class or its features.

    A subclass may compute something else, so that only the classes themselves are known.
    """
    kind, about = type(policy), {"squashed": False, "sizes": list[int]()}
    if kind is Squashed and isinstance(policy, Squashed):
        inside = plainly(policy.policy, w)
        return None if inside is None else inside._replace(about={**inside.about, "squashed": True})
    if kind is Product and isinstance(policy, Product):
        inside, sizes = plainly(policy.policy, w), list(policy.sizes)
        parts = {"distribution": "product", "sizes": sizes}
        return None if inside is None else inside._replace(about={**inside.about, **parts})
    if kind not in _PARTS:
        return None
    layers, root = _PARTS[kind](policy, w)
    arrays = _features(policy.features)  # type: ignore[attr-defined]
    if layers is None or arrays is None:
        return None
    for n, (weight, bias) in enumerate(layers):
        arrays |= {f"weight{n}": np.asarray(weight)}
        arrays |= {} if bias is None else {f"bias{n}": np.asarray(bias)}
    arrays |= {} if root is None else {"root": np.asarray(root)}
    distribution = "softmax" if root is None else "gaussian"
    return Plainly({**about, "distribution": distribution, "layers": len(layers)}, arrays)


def _features(function: Any) -> dict[str, np.ndarray] | None:
    """The arrays of the features; none at all for the observation itself."""
    if function in (gaussian.identity, network.identity):
        return {}
    known = arrays_of_features(function)
    return None if known is None else {name: np.asarray(one) for name, one in known.items()}


def _network_gaussian(policy: NetworkGaussian, w: PyTree) -> tuple[Any, Any]:
    log_sigma = w["log_sigma"] if policy.learn_sigma else policy.log_sigma
    arrays = w["mean"] if policy.learn_sigma else w
    return layers_of(policy.network, arrays), np.exp(floored(log_sigma, policy.floor))


# The layers of each class, and the root of the covariance if its actions are continuous.
_PARTS: dict[type[Policy], Any] = {
    LinearSoftmax: lambda policy, w: ([(w, None)], None),
    NetworkCategorical: lambda policy, w: (layers_of(policy.network, w), None),
    LinearGaussian: lambda policy, w: (
        [(w, None)],
        np.linalg.cholesky(np.asarray(policy.covariance)),
    ),
    Gaussian: lambda policy, w: ([(w["mean"], None)], np.exp(policy.log_sigma(w))),
    NetworkGaussian: _network_gaussian,
}
