"""How a policy of one's own chooses when it is loaded: in its `actor`, or in compiled calls."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, PyTree

from mdpnewton.policies import Policy
from mdpnewton.policies.acting import Actor
from mdpnewton.policies.alone import Choose


def own_choosing(policy: Policy, w: PyTree) -> Choose:
    """From an observation, or a batch of them, to actions of the policy."""
    actor = policy.actor(w)
    return _compiled(policy, w) if actor is None else _one_by_one(actor)


def _one_by_one(actor: Actor) -> Choose:
    def choose(seen: np.ndarray, generator: np.random.Generator | None) -> Any:
        if seen.ndim == 1:
            return actor(seen, generator)[0]
        return np.array([actor(row, generator)[0] for row in seen])

    return choose


def _compiled(policy: Policy, w: PyTree) -> Choose:
    def choose(seen: np.ndarray, generator: np.random.Generator | None) -> Any:
        seed = 0 if generator is None else int(generator.integers(2**63))
        rows = np.atleast_2d(seen)
        found = np.asarray(_act(policy, w, rows, np.asarray(seed), generator is None))
        return found if seen.ndim > 1 else found[0]

    return choose


@eqx.filter_jit
def _act(policy: Policy, w: PyTree, seen: ArrayLike, seed: ArrayLike, greedy: bool) -> jax.Array:
    rows = jnp.asarray(seen)
    if greedy:
        modes: jax.Array = jax.vmap(lambda row: policy.mode(w, row))(rows)
        return modes
    keys = jax.random.split(jax.random.key(seed), len(rows))
    drawn: jax.Array = jax.vmap(lambda one, row: policy.sample(one, w, row))(keys, rows)
    return drawn
