"""The Markov chain of a POMDP under a finite-state controller, solved without its observations.

Between two decisions only three things matter: how the last action is observed, where it led, and
the node. Let g number the classes of actions that are observed in the same way, p(o|s',a) =
O_g(o|s'). The value W(g, s, b) of arriving in s with node b, before anything is observed, satisfies

    Q(s, b, a) = R(s, a) + gamma sum_s' p(s'|s, a) W(g(a), s', b)
    W(g, s, b) = sum_{b',a} k(g, s, b, b', a) Q(s, b', a)
    k = sum_o O_g(o|s) p(b'|b, o) pi(a|b', o),

a system of G S B equations, where the product chain has S O (B + 1) states.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import sequential_vmap
from jax.experimental.sparse import BCOO
from jaxtyping import Array, Float
from scipy import sparse

from mdpnewton.models.pomdp import FinitePOMDP
from mdpnewton.models.pomdp.product import first_observations, observations
from mdpnewton.models.recurrence import ends, recurrent_classes
from mdpnewton.policies.controller import Tables
from mdpnewton.threads import threads_for

TOLERANCE = 1e-12


class Closed(NamedTuple):
    """Values and visits under a controller.

    Attributes:
        objective: The objective U.
        action_value: Q(s, b, a), shape (S, B, A).
        arrivals: Discounted visits of hidden state s, observation o and node b before the decision,
            shape (S, O, B), without those of the first decision.
        residual: The larger relative residual of the two linear solves.
    """

    objective: Float[Array, ""]
    action_value: Float[Array, "S B A"]
    arrivals: Float[Array, "S O B"]
    residual: Float[Array, ""]


class Chain(eqx.Module):
    """A POMDP as arrays, ready for controllers with any number of nodes.

    Attributes:
        moves: p(s'|s, a), as one array of shape (A, S, S), or as A sparse matrices.
        seen: O_g(o|s), shape (G, S, O).
        kind: Class g(a) of each action, as a row of the unit matrix, shape (A, G).
        reward: R(s, a), shape (S, A).
        first: p(s) p(o|s) before the first action, shape (S, O).
        discount: Discount factor gamma.
        dense: Largest number of equations for which the system is factorised; larger systems are
            solved by iteration.
    """

    moves: Any
    seen: Float[Array, "G S O"]
    kind: Float[Array, "A G"]
    reward: Float[Array, "S A"]
    first: Float[Array, "S O"]
    discount: float = eqx.field(static=True)
    dense: int = eqx.field(static=True, default=1_500)

    @classmethod
    def of(cls, pomdp: FinitePOMDP) -> "Chain":
        """Build the arrays from a POMDP."""
        tables = observations(pomdp)
        kinds, kind = np.unique(tables.reshape(len(tables), -1), axis=0, return_inverse=True)
        by_action = [pomdp.transition[a] for a in range(pomdp.n_actions)]
        start = np.asarray(pomdp.start)
        if pomdp.criterion == "total":
            goes_on = (~_ended(pomdp)).astype(float)
            by_action = [matrix * goes_on for matrix in by_action]
            start = start * goes_on
        if pomdp.is_sparse:
            moves: Any = tuple(
                BCOO.from_scipy_sparse(sparse.coo_array(matrix)) for matrix in by_action
            )
        else:
            moves = jnp.asarray(np.stack(by_action))
        return cls(
            moves=moves,
            seen=jnp.asarray(kinds.reshape(-1, *tables.shape[1:])),
            kind=jnp.eye(len(kinds))[kind.reshape(-1)],
            reward=jnp.asarray(pomdp.reward, dtype=float),
            first=jnp.asarray(start[:, None] * first_observations(pomdp)),
            discount=float(pomdp.discount),
        )

    def threads(self, nodes: int) -> AbstractContextManager[Any]:
        """Context with the number of BLAS threads that suits a solve; see `threads_for`."""
        return threads_for(float(self.seen.shape[0] * self.seen.shape[1] * nodes) ** 3)

    def closed(self, tables: Tables) -> Closed:
        """Values and visits under a controller, by two solves with one matrix."""
        initial, transition, action = tables
        # How likely decisions are from every arrival; p(b'|b, o) pi(a|b', o) is the controller's
        # part.
        k = jnp.einsum("gso,boc,coa->gsbca", self.seen, transition, action)
        decided = jnp.einsum("so,oc,coa->sca", self.first, initial, action)
        gain = jnp.einsum("gsbca,sa->gsb", k, self.reward)
        begun = self._sent(decided)
        system = partial(self._system, k)
        turned = jax.linear_transpose(system, gain)
        size = gain.size
        if size <= self.dense and not isinstance(self.moves, tuple):
            matrix = jnp.eye(size) - self.discount * self._matrix(k).reshape(size, size)
            value, visits = _solved(matrix, gain.ravel(), begun.ravel())
            value, visits = value.reshape(gain.shape), visits.reshape(gain.shape)
        else:
            value = _iterated(system, gain)
            visits = _iterated(lambda x: turned(x)[0], begun)
        residual = jnp.maximum(
            _relative(system(value) - gain, gain), _relative(turned(visits)[0] - begun, begun)
        )
        Q = self.reward[:, None] + self.discount * self._ahead(value)
        arrivals = jnp.einsum("gsb,gso->sob", visits, self.seen)
        return Closed(
            objective=jnp.sum(decided * Q),
            action_value=Q,
            arrivals=arrivals,
            residual=residual,
        )

    def earned(self, tables: Tables, closed: Closed) -> tuple[Tables, Tables]:
        r"""Value of every entry of every table row, and how often each row is used.

        An entry's weight in H2 is its value q times its probability. The block of H2 for a row is
        $-\sum_x \pi_x q_x (\mathrm{diag}(\pi) - \pi\pi^\top)$: Appendix B.2, applied to single
        rows.

        Returns:
            The values q, shaped like the tables, and the discounted visits, shaped like the tables
            without their last axis.
        """
        initial, transition, action = tables
        Q, visits = closed.action_value, closed.arrivals
        chosen = jnp.einsum("coa,sca->soc", action, Q)
        deciding = jnp.einsum("sob,boc->sco", visits, transition)
        deciding += jnp.einsum("so,oc->sco", self.first, initial)
        values = Tables(
            jnp.einsum("so,soc->oc", self.first, chosen),
            jnp.einsum("sob,soc->boc", visits, chosen),
            jnp.einsum("sco,sca->coa", deciding, Q),
        )
        used = Tables(self.first.sum(axis=0), visits.sum(axis=0).T, deciding.sum(axis=0))
        return values, used

    def _ahead(self, value: Float[Array, "G S B"]) -> Float[Array, "S B A"]:
        """sum_s' p(s'|s, a) W(g(a), s', b)."""
        by_action = jnp.einsum("ag,gsb->asb", self.kind, value)
        if isinstance(self.moves, tuple):
            parts = [moves @ x for moves, x in zip(self.moves, by_action, strict=True)]
            return jnp.stack(parts, axis=2)
        return jnp.einsum("ast,atb->sba", self.moves, by_action)

    def _sent(self, decided: Float[Array, "S B A"]) -> Float[Array, "G S B"]:
        """The arrivals that follow decisions, discounted once: the transpose of `_ahead`."""
        zeros = jnp.zeros((self.kind.shape[1], *decided.shape[:2]))
        sent: Array = jax.linear_transpose(self._ahead, zeros)(decided)[0]
        return self.discount * sent

    def _system(self, k: Array, value: Float[Array, "G S B"]) -> Float[Array, "G S B"]:
        return value - self.discount * jnp.einsum("gsbca,sca->gsb", k, self._ahead(value))

    def _matrix(self, k: Array) -> Array:
        return jnp.einsum("gsbca,ast,ah->gsbhtc", k, self.moves, self.kind)


def _ended(pomdp: FinitePOMDP) -> np.ndarray:
    """Where a problem of total reward has ended; a softmax takes every action at times."""
    steps = sum(sparse.csr_array(pomdp.transition[a]) for a in range(pomdp.n_actions))
    classes = recurrent_classes(steps, np.zeros(pomdp.n_states, dtype=bool))
    earns = (np.asarray(pomdp.reward) != 0).any(axis=1)
    return ends(classes, earns, pomdp.labels("states"), "FinitePOMDP")


def _both(matrix: Array, gain: Array, begun: Array) -> tuple[Array, Array]:
    factor = jax.scipy.linalg.lu_factor(matrix)
    return jax.scipy.linalg.lu_solve(factor, gain), jax.scipy.linalg.lu_solve(
        factor, begun, trans=1
    )


# One after the other under vmap: batched triangular solves of jaxlib 0.10.2 can deadlock.
_solved: Callable[[Array, Array, Array], tuple[Array, Array]] = sequential_vmap(_both)


def _iterated(system: Callable[[Array], Array], target: Array) -> Array:
    # GMRES compares residuals with an absolute number; a power of two changes no digit.
    _, exponent = jnp.frexp(jnp.abs(target).max())
    found: Array = jax.scipy.sparse.linalg.gmres(
        system, jnp.ldexp(target, -exponent), tol=TOLERANCE, atol=0.0, restart=50, maxiter=40
    )[0]
    return jnp.ldexp(found, exponent)


def _relative(error: Array, of: Array) -> Array:
    size, distance = jnp.linalg.norm(of.ravel()), jnp.linalg.norm(error.ravel())
    return jnp.asarray(distance / jnp.where(size > 0, size, 1.0))
