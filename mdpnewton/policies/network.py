"""Policies whose logits or mean come from a network: any Equinox module."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Scalar

from mdpnewton.checks import flag, instance, number, refuse, whole
from mdpnewton.models.checks import check_positive, finite_array, numbers
from mdpnewton.policies.abstract import Policy
from mdpnewton.policies.acting import Actor, gaussian_actor, in_numpy
from mdpnewton.policies.alone import Plain, layered
from mdpnewton.policies.categorical import Categorical
from mdpnewton.policies.gaussian import STATE_FEATURES, diagonal_fisher, diagonal_kl, floored

Network = Callable[[Any], Float[Array, " outputs"]]


def tanh(x: Array) -> Array:
    """`jnp.tanh`, with a derivative that is kept as one array for all products with a curvature."""
    return _tanh(x)  # a plain function, unlike that one, can be sent to another process


@jax.custom_jvp
def _tanh(x: Array) -> Array:
    return jnp.tanh(x)


@_tanh.defjvp
def _tanh_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    y = _tanh(*primals)
    return y, ((1 - y) * (1 + y)) * tangents[0]


def mlp(
    key: PRNGKeyArray,
    in_size: int,
    out_size: int,
    width: int = 64,
    depth: int = 2,
    activation: Callable[[Array], Array] = tanh,
) -> eqx.nn.MLP:
    """A fully connected network with `depth` hidden layers of `width` units.

    Args:
        key: Random key for the initial weights.
        in_size: Length of an observation, after the features.
        out_size: Number of logits, or of action dimensions.
        width: Number of units per hidden layer.
        depth: Number of hidden layers; 0 for a linear map.
        activation: Activation function of the hidden units.
    """
    for name, size, least in (
        ("in_size", in_size, 1),
        ("out_size", out_size, 1),
        ("width", width, 1),
        ("depth", depth, 0),
    ):
        whole("mlp", name, size, least)
    instance("mlp", "activation", activation, Callable, "pass a function, as `jax.numpy.tanh`")
    network = eqx.nn.MLP(in_size, out_size, width, depth, activation, identity, key=key)
    layers = tuple(_Linear(layer.weight, layer.bias) for layer in network.layers)
    replaced: eqx.nn.MLP = eqx.tree_at(lambda m: m.layers, network, layers)
    return replaced


class _Linear(eqx.Module):
    """x W' + b, which keeps the batch axis first under `vmap`.

    The W x of `eqx.nn.Linear` puts it last, so that every layer of every product with the curvature
    pays for a transposed copy of its activations.
    """

    weight: Float[Array, "out in"]
    bias: Float[Array, " out"] | None

    def __call__(self, x: Float[Array, " in"], *, key: Any = None) -> Float[Array, " out"]:
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


def identity(state: Any) -> Any:
    """The features of a state that is a vector of features."""
    return state


class NetworkCategorical(Categorical):
    r"""$\pi(a|s;w) \propto \exp(z_a)$ with logits $z = f_w(\phi(s))$, f a network.

    `w` holds the network's inexact arrays: it is the module with None for everything else.

    Attributes:
        network: Maps $\phi(s)$ to one logit per action; its arrays are the initial parameters.
        features: Maps a state to $\phi(s)$: a function, or an Equinox module whose arrays may
            differ from run to run and are not learnt; the state itself by default.
    """

    network: Network
    features: Callable[[Any], Any]
    log_concave = False
    blockwise_log_concave = False
    constant_curvature = False

    def __init__(self, network: Network, features: Callable[[Any], Any] = identity):
        self.network = _checked("NetworkCategorical", network)
        remedy = STATE_FEATURES
        self.features = instance("NetworkCategorical", "features", features, Callable, remedy)

    def logits(self, w: PyTree, state: Any) -> Float[Array, " actions"]:
        """The network with the arrays `w`, at the features of the state."""
        return _apply(self.network, w, self.features(state))

    def plain_logits(self, w: PyTree) -> Plain | None:
        """See `Categorical`; for networks that `mlp` makes."""
        return _in_numpy(self.network, w, self.features)

    def initial_parameters(self) -> PyTree:
        """The arrays of the network that was given."""
        return eqx.filter(self.network, eqx.is_inexact_array)


class NetworkGaussian(Policy):
    r"""$\pi(a|s;w) = N(a \,|\, f_w(\phi(s)), \mathrm{diag}(\sigma^2))$, f a network.

    `w` is `{"mean": the network's inexact arrays, "log_sigma": (k,)}`, or the arrays alone if sigma
    is fixed.

    Attributes:
        network: Maps $\phi(s)$ to the mean, shape (k,); its arrays are the initial parameters.
        log_sigma: Initial $\log(\sigma - \text{floor})$, shape (k,), which stays if it is not
            learnt.
        learn_sigma: Whether that is part of `w`.
        features: Maps a state to $\phi(s)$: a function, or an Equinox module whose arrays may
            differ from run to run and are not learnt; the state itself by default.
        floor: No $\sigma$ is smaller, so that a search never ceases to explore.
    """

    network: Network
    log_sigma: Float[Array, " k"]
    features: Callable[[Any], Any]
    learn_sigma: bool = eqx.field(static=True)
    floor: float = eqx.field(static=True)
    log_concave = False
    blockwise_log_concave = False
    constant_curvature = False

    def __init__(
        self,
        network: Network,
        sigma: Any,
        learn_sigma: bool = True,
        features: Callable[[Any], Any] = identity,
        floor: float = 0.0,
    ):
        call = "NetworkGaussian"
        if numbers(call, "sigma", sigma).ndim == 0:
            rule = "needs shape (k,), one number per action dimension"
            refuse(call, "sigma", f"{rule}, got shape (); for one dimension pass `[sigma]`")
        scale = finite_array(call, "sigma", sigma, 1, letters="(k,)")
        check_positive(call, "sigma", scale)
        self.floor = number(call, "floor", floor, least=0)
        if (scale <= self.floor).any():
            refuse(call, "sigma", f"must be above `floor={floor:g}`, got {scale.min():g}")
        self.network = _checked(call, network)
        self.features = instance(call, "features", features, Callable, STATE_FEATURES)
        self.log_sigma = jnp.asarray(np.log(scale - self.floor))
        self.learn_sigma = flag(call, "learn_sigma", learn_sigma)

    def mean(self, w: PyTree, state: Any) -> Float[Array, " k"]:
        """The network with its arrays from `w`, at the features of the state."""
        arrays = w["mean"] if self.learn_sigma else w
        mean = _apply(self.network, arrays, self.features(state))
        if mean.shape != self.log_sigma.shape:  # it would broadcast silently
            raise ValueError(
                f"`NetworkGaussian` has sigma of shape {self.log_sigma.shape}, but its network "
                f"returns a mean of shape {mean.shape}; give both the action's dimension."
            )
        return mean

    def log_prob(self, w: PyTree, state: Any, action: Float[Array, " k"]) -> Scalar:
        """The log-density of the action."""
        log_sigma = self._log_sigma(w)
        error = (action - self.mean(w, state)) * jnp.exp(-log_sigma)
        return -jnp.sum(0.5 * error**2 + log_sigma + 0.5 * jnp.log(2 * jnp.pi))

    def sample(self, key: PRNGKeyArray, w: PyTree, state: Any) -> Float[Array, " k"]:
        """The mean plus independent noise."""
        noise = jax.random.normal(key, self.log_sigma.shape)
        return self.mean(w, state) + jnp.exp(self._log_sigma(w)) * noise

    def outputs(self, w: PyTree, state: Any) -> Float[Array, " outputs"]:
        """The mean, followed by log sigma if it is learnt."""
        mean = self.mean(w, state)
        return jnp.concatenate([mean, self._log_sigma(w)]) if self.learn_sigma else mean

    def output_fisher(
        self, outputs: Float[Array, " outputs"], u: Float[Array, " outputs"]
    ) -> Float[Array, " outputs"]:
        r"""$\sigma^{-2} u$ for the mean, 2u for log sigma."""
        if self.learn_sigma:
            return diagonal_fisher(outputs, u)
        return jnp.exp(-2 * floored(self.log_sigma, self.floor)) * u

    def mode(self, w: PyTree, state: Any) -> Float[Array, " k"]:
        """The mean."""
        return self.mean(w, state)

    def actor(self, w: PyTree) -> Actor | None:
        """See `Policy`; for networks that `mlp` makes."""
        arrays = w["mean"] if self.learn_sigma else w
        mean = _in_numpy(self.network, arrays, self.features)
        return gaussian_actor(mean, np.exp(self._log_sigma(w)))

    def kl(self, w: PyTree, v: PyTree, state: Any) -> Scalar:
        """See `diagonal_kl`."""
        here, there = (jnp.concatenate([self.mean(x, state), self._log_sigma(x)]) for x in (w, v))
        return diagonal_kl(here, there)

    def initial_parameters(self) -> PyTree:
        """The arrays of the network that was given, and log sigma if it is learnt."""
        arrays = eqx.filter(self.network, eqx.is_inexact_array)
        return {"mean": arrays, "log_sigma": self.log_sigma} if self.learn_sigma else arrays

    def _log_sigma(self, w: PyTree) -> Float[Array, " k"]:
        return floored(w["log_sigma"] if self.learn_sigma else self.log_sigma, self.floor)


def _apply(network: Network, arrays: PyTree, observation: Any) -> Array:
    rest = eqx.filter(network, eqx.is_inexact_array, inverse=True)
    outputs: Array = eqx.combine(arrays, rest)(observation)
    return outputs


def layers_of(network: Network, arrays: PyTree) -> list[tuple[Any, Any]] | None:
    """Weights and biases as NumPy arrays, or None unless `mlp` made the network with `tanh`."""
    if not isinstance(network, eqx.nn.MLP) or network.activation is not tanh:
        return None
    if not all(isinstance(layer, _Linear) and layer.bias is not None for layer in network.layers):
        return None
    return [(np.asarray(one.weight), np.asarray(one.bias)) for one in arrays.layers]


def _in_numpy(network: Network, arrays: PyTree, features: Any) -> Plain | None:
    """The network in NumPy, if NumPy has it and the features."""
    phi, layers = in_numpy(features), layers_of(network, arrays)
    return None if phi is None or layers is None else layered(phi, layers)


def _checked(name: str, network: Any) -> Any:
    if not callable(network) or not jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array)):
        raise ValueError(
            f"`{name}(network=...)` needs an Equinox module with arrays to learn, called with an "
            f"observation; got {type(network).__name__}. `mlp(key, in_size, out_size)` makes one."
        )
    return network
