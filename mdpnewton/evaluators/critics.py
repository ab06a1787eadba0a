"""Critics: estimates of V(s) from trajectories."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree, Scalar

from mdpnewton.checks import flag, instance, number, refuse, whole
from mdpnewton.simulators.trajectories import Trajectories, accumulated

FEATURES = "pass a function from an observation to a vector, for a table `OneHot(states)`"


class Critic(eqx.Module):
    """A function of the observation that estimates V and is fitted anew at every evaluation.

    Evaluators save a critic by `mdpnewton.plain.arrays_of`: its arrays and numbers, in the order in
    which the class declares them. Whatever a fit changes must therefore be a field.
    """

    @abstractmethod
    def fitted(self, data: Trajectories, discount: float, ratios: Float[Array, " n"]) -> "Critic":
        """Return this critic with parameters fitted to the data.

        Args:
            data: Transitions, possibly of earlier policies.
            discount: Discount factor gamma.
            ratios: pi(a|s) over the probability with which a was chosen, limited to 1 unless the
                caller wants unbiased reuse; all ones for data of the policy itself.
        """

    @abstractmethod
    def values(self, observations: PyTree) -> Float[Array, " n"]:
        """Estimated V of every observation."""

    def judged(self, data: Trajectories, discount: float, fresh: Bool[Array, " n"]) -> "Critic":
        """Return this critic with what transitions that it has not been fitted to say of it.

        Args:
            data: Transitions.
            discount: Discount factor gamma.
            fresh: Which of them no fit has seen yet.
        """
        return self


class LinearCritic(Critic):
    r"""$V(s) = \theta^\top\phi(s)$ by LSTD($\lambda$), or by regression on returns.

    With $D_t = \phi_t - \gamma\phi_{t+1} + \gamma\lambda c_{t+1} D_{t+1}$, where c are the ratios,
    and $R_t$ the same sum of rewards, LSTD solves $\Phi^\top C D\,\theta = \Phi^\top C R$ (Boyan
    2002). $\lambda = 1$ gives least squares on the returns, bootstrapped where episodes are
    truncated. Values are clipped to what is possible with the rewards that the fit has seen.

    Attributes:
        features: Maps an observation to the vector $\phi$.
        size: Length of that vector; by default `features.size`.
        trace: Trace parameter $\lambda$.
        ridge: Multiple of the features' mean square that is added to the diagonal. Constant
            features are exempt, so that a constant added to all rewards is added to V.
        parameters: The parameters $\theta$; zeros before the first fit.
        anchored: Whether every fit standardises the features on the observations that it sees, as
            `RandomFourier` and `Standardized` can.
        low: Smallest possible value, from the smallest reward seen and the discount.
        high: Largest possible value.
    """

    features: Any
    size: int = eqx.field(static=True)
    trace: float
    ridge: float
    parameters: Float[Array, " size"]
    anchored: bool = eqx.field(static=True)
    low: Float[Array, ""]
    high: Float[Array, ""]

    def __init__(
        self,
        features: Any,
        size: int | None = None,
        trace: float = 0.9,
        ridge: float = 1e-3,
        parameters: Any = None,
        anchored: bool = False,
    ):
        call = "LinearCritic"
        self.features = instance(call, "features", features, Callable, FEATURES)
        if size is None and not hasattr(features, "size"):
            refuse(call, "size", "must be given for features that have no `size`")
        self.size = whole(call, "size", features.size if size is None else size, 1)
        self.trace = number(call, "trace", trace, least=0, most=1)
        self.ridge = number(call, "ridge", ridge, least=0)
        given = jnp.zeros(self.size) if parameters is None else jnp.asarray(parameters, float)
        if given.shape != (self.size,):
            refuse(call, "parameters", f"needs shape ({self.size},), got {given.shape}")
        self.parameters = given
        self.anchored = flag(call, "anchored", anchored)
        if anchored and not hasattr(features, "anchored"):
            refuse(call, "anchored", "needs features that can be, as `RandomFourier`")
        self.low, self.high = _constant(-jnp.inf), _constant(jnp.inf)

    @eqx.filter_jit
    def fitted(
        self, data: Trajectories, discount: float, ratios: Float[Array, " n"]
    ) -> "LinearCritic":
        """See `Critic`."""
        seen = _shares(data)
        features = self.features
        if self.anchored:
            features = features.anchored(data.observations, seen)
        phi = jax.vmap(features)(data.observations)
        after = jax.vmap(features)(data.next_observations)
        after = jnp.where(data.terminated[:, None], 0.0, after)
        decay = discount * self.trace * following(ratios)
        difference = accumulated(phi - discount * after, decay, data)
        target = accumulated(data.rewards, decay, data)
        weights = ratios * seen
        matrix = phi.T @ (weights[:, None] * difference)
        spread = seen @ phi**2 - (seen @ phi) ** 2
        damped = jnp.where(spread > 1e-12, self.ridge * jnp.mean(seen @ phi**2), 1e-13)
        theta = jnp.linalg.solve(matrix + jnp.diag(damped), phi.T @ (weights * target))
        theta = jnp.where(jnp.isfinite(theta).all(), theta, self.parameters)
        places = lambda critic: (critic.features, critic.parameters, critic.low, critic.high)  # noqa: E731
        found = (features, theta, *_possible(data, discount))
        fitted: LinearCritic = eqx.tree_at(places, self, found)
        return fitted

    def values(self, observations: PyTree) -> Float[Array, " n"]:
        """See `Critic`."""
        phi: Array = jax.vmap(self.features)(observations)
        return jnp.clip(phi @ self.parameters, self.low, self.high)


class NetworkCritic(Critic):
    r"""V as a network, fitted by Adam to the $\lambda$-returns of the network before the fit.

    Values are clipped to what is possible with the rewards that the fit has seen. The network
    computes in single precision, which is enough for noisy targets and three times as fast.

    Attributes:
        network: Any Equinox module that maps a feature vector to one number.
        features: Maps an observation to that feature vector.
        trace: Trace parameter $\lambda$.
        rate: Learning rate of Adam.
        steps: Number of Adam steps per fit.
        rows: Number of transitions per step, drawn at random, always in the same way; None for all.
        shift: Mean of the targets, which is subtracted before the network is fitted.
        scale: Standard deviation of the targets, by which the remainder is divided.
        low: Smallest possible value, from the smallest reward seen and the discount.
        high: Largest possible value.
    """

    network: Any
    features: Any
    trace: float = 0.9
    rate: float = 3e-3
    steps: int = 200
    rows: int | None = eqx.field(static=True, default=None)
    shift: Float[Array, ""] = eqx.field(default_factory=lambda: _constant(0.0))
    scale: Float[Array, ""] = eqx.field(default_factory=lambda: _constant(0.0))
    low: Float[Array, ""] = eqx.field(default_factory=lambda: _constant(-jnp.inf))
    high: Float[Array, ""] = eqx.field(default_factory=lambda: _constant(jnp.inf))

    def __check_init__(self) -> None:
        call = "NetworkCritic"
        instance(call, "features", self.features, Callable, FEATURES)
        instance(call, "network", self.network, Callable, "build one with `mlp`")
        number(call, "trace", self.trace, least=0, most=1)
        number(call, "rate", self.rate, above=0)
        whole(call, "steps", self.steps, 1)
        if self.rows is not None:
            whole(call, "rows", self.rows, 1)

    @eqx.filter_jit
    def fitted(
        self, data: Trajectories, discount: float, ratios: Float[Array, " n"]
    ) -> "NetworkCritic":
        """See `Critic`."""
        import optax  # a fifth of a second, which few need

        value = self.values(data.observations)
        after = jnp.where(data.terminated, 0.0, self.values(data.next_observations))
        surprise = ratios * (data.rewards + discount * after - value)
        target = value + accumulated(surprise, discount * self.trace * following(ratios), data)
        weights = _shares(data)
        shift = weights @ target
        scale = jnp.sqrt(weights @ (target - shift) ** 2) + 1e-8
        inputs = jax.vmap(self.features)(data.observations)
        arrays, rest = eqx.partition(self.network, eqx.is_inexact_array)
        optimizer = optax.adam(self.rate)
        single = _single((arrays, inputs, (target - shift) / scale, weights))
        first, inputs, wanted, shares = single

        def loss(arrays: PyTree, inputs: Array, wanted: Array, shares: Array) -> Array:
            outputs: Array = jax.vmap(eqx.combine(arrays, rest))(inputs).reshape(-1)
            error: Array = shares @ (outputs - wanted) ** 2
            return error

        def step(carry: Any, some: Array | None) -> Any:
            arrays, state = carry
            if some is None:
                slope = jax.grad(loss)(arrays, inputs, wanted, shares)
            else:
                equal = jnp.full(some.shape, 1 / some.size, inputs.dtype)
                slope = jax.grad(loss)(arrays, inputs[some], wanted[some], equal)
            with jax.numpy_dtype_promotion("standard"):  # Adam counts its steps with 32 bits
                updates, state = optimizer.update(slope, state)
            return (optax.apply_updates(arrays, updates), state), None

        start = (first, optimizer.init(first))
        drawn = None if self.rows is None else _drawn(data.valid, (self.steps, self.rows))
        (learnt, _), _ = jax.lax.scan(step, start, drawn, length=self.steps)
        good = jnp.isfinite(loss(learnt, inputs, wanted, shares))
        kept = jax.tree.map(
            lambda new, old: jnp.where(good, new.astype(old.dtype), old), learnt, arrays
        )
        places = lambda c: (c.network, c.shift, c.scale, c.low, c.high)  # noqa: E731
        found = (eqx.combine(kept, rest), shift, scale, *_possible(data, discount))
        fitted: NetworkCritic = eqx.tree_at(places, self, found)
        return fitted

    def values(self, observations: PyTree) -> Float[Array, " n"]:
        """See `Critic`; 0 before the first fit."""
        arrays, rest = eqx.partition(self.network, eqx.is_inexact_array)
        arrays, inputs = _single((arrays, jax.vmap(self.features)(observations)))
        outputs: Array = jax.vmap(eqx.combine(arrays, rest))(inputs).reshape(-1)
        wide = outputs.astype(self.scale.dtype)
        return jnp.clip(self.shift + self.scale * wide, self.low, self.high)


def _drawn(valid: Bool[Array, " n"], shape: tuple[int, int]) -> Array:
    """Numbers of valid rows, each as likely as the others; the draw depends on `valid` alone."""
    first = jnp.argsort(~valid, stable=True)
    found: Array = first[
        jax.random.randint(jax.random.key(0), shape, 0, jnp.maximum(valid.sum(), 1))
    ]
    return found


def _single(tree: PyTree) -> Any:
    """The arrays in single precision."""
    return jax.tree.map(lambda array: array.astype(jnp.float32), tree)


def _constant(value: float) -> Scalar:
    """A number of the type that a fit gives: with another one, all would be compiled twice."""
    return jnp.asarray(value, float)


def following(ratios: Float[Array, " n"]) -> Float[Array, " n"]:
    """Ratio of the next transition, for each transition; an episode's last entry is not used."""
    return jnp.append(ratios[1:], 1.0)


def _possible(data: Trajectories, discount: float) -> tuple[Scalar, Scalar]:
    """The smallest and the largest discounted sum of rewards like those of the data.

    Where an episode has terminated, a sum may also end at any time.
    """
    if discount >= 1:
        return _constant(-jnp.inf), _constant(jnp.inf)
    ended = jnp.any(data.terminated & data.valid)
    least = jnp.min(jnp.where(data.valid, data.rewards, jnp.inf))
    most = jnp.max(jnp.where(data.valid, data.rewards, -jnp.inf))
    least = jnp.where(ended, jnp.minimum(least, 0.0), least)
    most = jnp.where(ended, jnp.maximum(most, 0.0), most)
    return least / (1 - discount), most / (1 - discount)


def _shares(data: Trajectories) -> Float[Array, " n"]:
    """One over the number of valid rows for each valid row, and 0 for padding."""
    return jnp.where(data.valid, 1.0, 0.0) / jnp.maximum(jnp.sum(data.valid, dtype=float), 1.0)
