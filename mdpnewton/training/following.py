"""Features that follow the observations, while what the policy does stays the same."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PyTree, Scalar

from mdpnewton.evaluators import Critic, NetworkCritic, Rivals
from mdpnewton.policies import Policy, RandomFourier, Standardized
from mdpnewton.training.presets import OWN, Kind, policy_of
from mdpnewton.training.state import Training

RIDGE = 1e-4  # of the fit of the old features, relative to the mean square of the new ones
MOST = 0.01  # mean KL divergence of a change that counts as none: a fifth of a usual step


def due(training: Training) -> bool:
    """Whether twice as many transitions have been played as when the features were fixed last."""
    if training.kind == OWN:
        return False
    return training.evaluator.memory.transitions >= 2 * training.anchors[-1]


def follow(training: Training) -> None:
    """Standardise the observations on those in memory, and rewrite all parameters to fit.

    Policies, and a network that estimates V, see the features through one matrix each; the old
    features are a linear function of the new ones wherever neither is clipped, and nearly so
    elsewhere. If the policy would change by more than `MOST`, everything stays as it is.
    """
    memory = training.evaluator.memory
    training.anchors = [*training.anchors, memory.transitions]
    data = memory.all()
    seen, valid, before = data.observations, np.asarray(data.valid), training.features
    after, *both = _compared(before, seen, valid)
    old, new = map(np.asarray, both)
    plain = 1 + before.standardized.mean.size
    standardized = after.standardized
    narrow = turn(before.standardized, standardized, old[valid, :plain], new[valid, :plain])
    wide = turn(before.standardized, standardized, old[valid], new[valid])
    matrix = wide if training.kind == "rbf" else narrow
    policy = policy_of(
        training.kind, training.simulator.spaces, after, training.preset, training.seed
    )
    w = turned(training.kind, training.w, matrix)
    change = _change(training.policy, training.w, policy, w, seen, valid)
    if not float(change) <= MOST:
        return
    training.features, training.policy, training.w = after, policy, w
    training.recent = [
        (bound, turned(training.kind, one, matrix)) for bound, one in training.recent
    ]
    if training.highest is not None:
        bound, best = training.highest
        training.highest = bound, turned(training.kind, best, matrix)
    evaluator = training.evaluator
    evaluator.critic = _with_inputs(evaluator.critic, standardized, narrow)
    evaluator.judge = _with_inputs(evaluator.judge, standardized, narrow)


def turn(
    before: Standardized,
    after: Standardized,
    old: Float[np.ndarray, "n m"],
    new: Float[np.ndarray, "n m"],
) -> Float[np.ndarray, "m m"]:
    """The matrix T with old = T new, in the mean square over the rows.

    The fit begins at what is exact as long as nothing is clipped: 1 and z are affine in each other,
    and the cosines are the same functions of z. It is a ridge regression on what is left of that.

    Args:
        before: The old standardisation.
        after: The new standardisation.
        old: Old features of some observations.
        new: New features of the same observations.
    """
    rows, size = new.shape
    start, entries = np.eye(size), np.arange(1, 1 + before.mean.size)
    scale = np.asarray(before.scale)
    start[entries, 0] = (np.asarray(after.mean) - np.asarray(before.mean)) / scale
    start[entries, entries] = np.asarray(after.scale) / scale
    gram = new.T @ new / rows
    ridge = RIDGE * np.trace(gram) / size
    left = new.T @ (old - new @ start.T) / rows
    return start + np.linalg.solve(gram + ridge * np.eye(size), left).T


def turned(kind: Kind, w: PyTree, matrix: Float[np.ndarray, "m m"]) -> PyTree:
    """The parameters that do with the new features what `w` does with the old ones.

    Args:
        kind: Kind of the policy, which tells where the parameters see the features.
        w: Parameters of a Gaussian policy or of a softmax.
        matrix: Matrix that gives the old features from the new ones.
    """

    def first(w: PyTree) -> Any:
        inside = w["mean"] if isinstance(w, dict) else w
        return inside.layers[0].weight if kind == "mlp" else inside

    return _rewritten(first, w, matrix)


def _rewritten(where: Callable[[Any], Any], tree: Any, matrix: Float[np.ndarray, "m m"]) -> Any:
    """The tree with the weights found there times the matrix."""
    return eqx.tree_at(where, tree, jnp.asarray(np.asarray(where(tree)) @ matrix))


def _with_inputs(critic: Critic, inputs: Standardized, matrix: Float[np.ndarray, "m m"]) -> Critic:
    """The same critic; a network has new inputs. LSTD standardises at every fit."""
    if isinstance(critic, Rivals):
        followed = tuple(_with_inputs(one, inputs, matrix) for one in critic.critics)
        rivals: Critic = eqx.tree_at(lambda rivals: rivals.critics, critic, followed)
        return rivals
    if not isinstance(critic, NetworkCritic):
        return critic
    network = _rewritten(lambda network: network.layers[0].weight, critic.network, matrix)
    places = lambda critic: (critic.network, critic.features)  # noqa: E731
    found: Critic = eqx.tree_at(places, critic, (network, inputs))
    return found


@eqx.filter_jit
def _compared(
    features: RandomFourier, observations: Array, valid: ArrayLike
) -> tuple[RandomFourier, Array, Array]:
    shares = jnp.where(valid, 1.0, 0.0) / jnp.sum(valid, dtype=float)
    after = features.anchored(observations, shares)
    return after, jax.vmap(features)(observations), jax.vmap(after)(observations)


@eqx.filter_jit
def _change(
    before: Policy, w: PyTree, after: Policy, v: PyTree, observations: Array, valid: ArrayLike
) -> Scalar:
    """The mean KL divergence between both policies, to second order in the outputs."""

    def at(state: Array) -> Scalar:
        outputs = before.outputs(w, state)
        step = after.outputs(v, state) - outputs
        return 0.5 * step @ before.output_fisher(outputs, step)

    found = jnp.where(valid, jax.vmap(at)(observations), 0.0)
    return found.sum() / jnp.sum(valid, dtype=float)
