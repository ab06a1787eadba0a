"""Verifies by finite differences that a policy keeps what it declares."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from mdpnewton.checks import flag, instance, number, whole
from mdpnewton.policies.abstract import Policy


@dataclass(frozen=True)
class PolicyCheck:
    """Result of `check_policy`.

    Attributes:
        problems: One sentence per claim that does not hold; empty if all hold.
        score_error: Largest relative difference between score and finite differences.
        hessian_error: Largest relative difference between the Hessian of the log-policy and finite
            differences.
        largest_eigenvalue: Largest eigenvalue of that Hessian, relative to its largest entry; not
            positive for a log-concave policy.
        largest_block_eigenvalue: Largest eigenvalue of its diagonal blocks, one per leaf of `w`,
            relative to the same entry.
        curvature_spread: Largest relative change of the Hessian between two actions.
    """

    problems: tuple[str, ...]
    score_error: float
    hessian_error: float
    largest_eigenvalue: float
    largest_block_eigenvalue: float
    curvature_spread: float

    @property
    def ok(self) -> bool:
        """Whether every claim held."""
        return not self.problems


def check_policy(
    policy: Policy,
    w: PyTree,
    states: Any,
    *,
    key: Any = None,
    n_actions: int | None = None,
    points: int = 3,
    spread: float = 0.5,
    tolerance: float = 1e-5,
    throw: bool = False,
) -> PolicyCheck:
    """Compare score, Hessian and declared claims of a policy with finite differences.

    Args:
        policy: Policy with `log_prob`, `sample`, and the three declarations of `Policy`.
        w: Parameters about which to check.
        states: Some states, stacked along a leading axis.
        key: Random key for the points, and for the actions if `n_actions` is not given.
        n_actions: Number n of actions, if there are finitely many: all of 0..n-1 are checked, and
            that their probabilities sum to one. Otherwise four actions per state are sampled.
        points: Number of parameter vectors about `w`, the first being `w` itself.
        spread: Standard deviation of the others about `w`.
        tolerance: Relative difference that still counts as agreement.
        throw: Whether to raise `ValueError` with the problems instead of returning them.
    """
    call = "check_policy"
    instance(call, "policy", policy, Policy, "subclass `mdpnewton.Policy`")
    if n_actions is not None:
        whole(call, "n_actions", n_actions, 1)
    whole(call, "points", points, 1)
    number(call, "spread", spread, least=0)
    number(call, "tolerance", tolerance, above=0)
    flag(call, "throw", throw)
    key = jax.random.key(0) if key is None else key
    flat, unravel = ravel_pytree(w)
    move_key, action_key = jax.random.split(key)
    moves = spread * jax.random.normal(move_key, (points, flat.size))
    parameters = flat + moves.at[0].set(0.0)
    seen = _look(policy, unravel, parameters, states, action_key, n_actions)
    score, hessian, differenced_score, differenced_hessian, probabilities = map(np.asarray, seen)
    finite = bool(np.isfinite(score).all() and np.isfinite(hessian).all())
    score_error = hessian_error = mass_error = apart = top = top_block = float("nan")
    if finite:
        size = np.maximum(np.abs(hessian).max(axis=(-1, -2)), 1e-12)
        ends = np.cumsum([0, *(np.size(leaf) for leaf in jax.tree.leaves(w))])
        blocks = [hessian[..., a:b, a:b] for a, b in pairwise(ends)]
        score_error = _relative(score, differenced_score)
        hessian_error = _relative(hessian, differenced_hessian)
        top = float((np.linalg.eigvalsh(hessian)[..., -1] / size).max())
        top_block = max(float((np.linalg.eigvalsh(b)[..., -1] / size).max()) for b in blocks)
        apart = _relative(hessian, hessian[:, :, :1])
        mass_error = float(np.abs(probabilities.sum(axis=-1) - 1).max())
    rules = (
        (not finite, "log_prob has a score or Hessian that is not finite"),
        (score_error > tolerance, "the score disagrees with finite differences of log_prob"),
        (hessian_error > tolerance, "the Hessian disagrees with differences of the score"),
        (
            n_actions is not None and mass_error > tolerance,
            "the probabilities of a state do not sum to one",
        ),
        (policy.log_concave and top > tolerance, "declared log_concave, but is not"),
        (
            policy.blockwise_log_concave and top_block > tolerance,
            "declared blockwise_log_concave, but a block is not concave",
        ),
        (
            policy.constant_curvature and apart > tolerance,
            "declared constant_curvature, but the Hessian depends on the action",
        ),
    )
    problems = tuple(f"{type(policy).__name__}: {text}." for broken, text in rules if broken)
    if problems and throw:
        raise ValueError(" ".join(problems))
    return PolicyCheck(problems, score_error, hessian_error, top, top_block, apart)


def _look(
    policy: Policy, unravel: Any, parameters: Any, states: Any, key: Any, n_actions: int | None
) -> Any:
    """Derivatives and their differences at all points, states and actions, in this order."""

    def log_prob(v: Any, state: Any, action: Any) -> Any:
        return policy.log_prob(unravel(v), state, action)

    score = jax.grad(log_prob)

    def derivatives(v: Any, state: Any, action: Any) -> Any:
        def central(e: Any, step: Any) -> Any:
            up, down = (v + step * e, state, action), (v - step * e, state, action)
            rise, bend = log_prob(*up) - log_prob(*down), score(*up) - score(*down)
            return rise / (2 * step), bend / (2 * step)

        steps = 1e-5 * jnp.maximum(1.0, jnp.abs(v))
        rises, bends = jax.vmap(central)(jnp.eye(v.size), steps)
        exact = score(v, state, action), jax.hessian(log_prob)(v, state, action)
        return *exact, rises, bends, jnp.exp(log_prob(v, state, action))

    def all_actions(v: Any, state: Any) -> Any:
        if n_actions is not None:
            actions = jnp.arange(n_actions)
        else:
            draws = jax.random.split(key, 4)
            actions = jax.vmap(lambda draw: policy.sample(draw, unravel(v), state))(draws)
        return jax.vmap(derivatives, in_axes=(None, None, 0))(v, state, actions)

    by_state = jax.vmap(all_actions, in_axes=(None, 0))
    return jax.jit(jax.vmap(by_state, in_axes=(0, None)))(parameters, states)


def _relative(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x - y).max() / max(1.0, np.abs(y).max()))
