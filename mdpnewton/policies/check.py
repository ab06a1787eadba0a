"""Does a policy keep what it declares? Verified by finite differences."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from mdpnewton.policies.abstract import Policy


@dataclass(frozen=True)
class PolicyCheck:
    """What `check_policy` found.

    Attributes:
        problems: One sentence for each claim that does not hold; empty if all hold.
        score_error: Largest relative difference between score and finite differences.
        hessian_error: The same for the Hessian of the log-policy.
        largest_eigenvalue: Of that Hessian; not positive for a log-concave policy.
        largest_block_eigenvalue: Over its diagonal blocks, one for each leaf of `w`.
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
    """Score, Hessian and declared claims of a policy, compared with finite differences.

    Args:
        policy: Yours: `log_prob`, `sample`, and the three declarations of `Policy`.
        w: Parameters about which to check.
        states: Some states, leading axis for their number.
        key: Draws the points, and actions where `n_actions` is not given.
        n_actions: For finitely many actions 0..n-1: all are checked, and that their
            probabilities sum to one. Otherwise four actions a state are sampled.
        points: How many parameter vectors about `w`, the first being `w` itself.
        spread: Standard deviation of the others.
        tolerance: Relative difference that still counts as agreement.
        throw: Raise `ValueError` with the problems instead of returning them.
    """
    key = jax.random.key(0) if key is None else key
    flat, unravel = ravel_pytree(w)
    flat = jnp.asarray(flat, dtype=float)
    blocks = np.cumsum([0, *(np.size(leaf) for leaf in jax.tree.leaves(w))])

    def log_prob(v: Any, state: Any, action: Any) -> Any:
        return policy.log_prob(unravel(v), state, action)

    score, hessian = jax.jit(jax.grad(log_prob)), jax.jit(jax.hessian(log_prob))
    log_prob = jax.jit(log_prob)
    n_states = jax.tree.leaves(states)[0].shape[0]
    worst = dict.fromkeys(("score", "hessian", "spread", "mass"), 0.0)
    top = top_block = -np.inf
    finite = True
    for point in range(points):
        key, draw = jax.random.split(key)
        v = flat + (spread * jax.random.normal(draw, flat.shape) if point else 0.0)
        for i in range(n_states):
            state = jax.tree.map(lambda leaf, i=i: leaf[i], states)
            actions = _actions(policy, unravel(v), state, key, n_actions)
            curvatures = []
            for action in actions:
                g, H = np.asarray(score(v, state, action)), np.asarray(hessian(v, state, action))
                finite &= bool(np.isfinite(g).all() and np.isfinite(H).all())
                if not finite:
                    break
                numeric_g, numeric_H = _differences(log_prob, score, v, state, action)
                worst["score"] = max(worst["score"], _relative(g, numeric_g))
                worst["hessian"] = max(worst["hessian"], _relative(H, numeric_H))
                size = np.abs(H).max(initial=1e-12)
                top = max(top, np.linalg.eigvalsh(H).max() / size)
                for a, b in pairwise(blocks):
                    top_block = max(top_block, np.linalg.eigvalsh(H[a:b, a:b]).max() / size)
                curvatures.append(H)
            if not finite:
                break
            worst["spread"] = max(
                worst["spread"], *(_relative(H, curvatures[0]) for H in curvatures)
            )
            if n_actions is not None:
                mass = sum(float(jnp.exp(log_prob(v, state, action))) for action in actions)
                worst["mass"] = max(worst["mass"], abs(mass - 1))
    rules = [
        (not finite, "log_prob has a score or Hessian that is not finite"),
        (worst["score"] > tolerance, "the score disagrees with finite differences of log_prob"),
        (
            worst["hessian"] > tolerance,
            "the Hessian disagrees with differences of the score",
        ),
        (worst["mass"] > tolerance, "the probabilities of a state do not sum to one"),
        (policy.log_concave and top > tolerance, "declared log_concave, but is not"),
        (
            policy.blockwise_log_concave and top_block > tolerance,
            "declared blockwise_log_concave, but a block is not concave",
        ),
        (
            policy.constant_curvature and worst["spread"] > tolerance,
            "declared constant_curvature, but the Hessian depends on the action",
        ),
    ]
    problems = tuple(f"{type(policy).__name__}: {text}." for broken, text in rules if broken)
    if problems and throw:
        raise ValueError(" ".join(problems))
    return PolicyCheck(
        problems, worst["score"], worst["hessian"], float(top), float(top_block), worst["spread"]
    )


def _actions(policy: Policy, w: PyTree, state: Any, key: Any, n_actions: int | None) -> Any:
    if n_actions is not None:
        return list(jnp.arange(n_actions))
    return [policy.sample(draw, w, state) for draw in jax.random.split(key, 4)]


def _relative(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.abs(x - y).max() / max(1.0, np.abs(y).max()))


def _differences(log_prob: Any, score: Any, v: Any, state: Any, action: Any) -> Any:
    """Central differences of `log_prob` and of `score`."""
    first, second = [], []
    for i in range(v.size):
        step = 1e-5 * max(1.0, abs(float(v[i])))
        up, down = v.at[i].add(step), v.at[i].add(-step)
        rise = log_prob(up, state, action) - log_prob(down, state, action)
        first.append(float(rise) / (2 * step))
        second.append(
            np.asarray(score(up, state, action) - score(down, state, action)) / (2 * step)
        )
    return np.array(first), np.array(second)
