"""The Markov chain of a POMDP under a finite-state controller, solved without its observations.

Between two decisions only three things matter: how the last action is observed, where it led, and
the node. Let g number the classes of actions that are observed in the same way, p(o|s',a) =
O_g(o|s'). The value W(g, s, b) of arriving in s with node b, before anything is observed, satisfies

    Q(s, b, a) = R(s, a) + gamma sum_s' p(s'|s, a) W(g(a), s', b)
    W(g, s, b) = sum_{b',a} k(g, s, b, b', a) Q(s, b', a)
    k = sum_o O_g(o|s) p(b'|b, o) pi(a|b', o),

a system of G S B equations, where the product chain has S O (B + 1) states. A finite horizon is one
sweep back and one forth instead, and everything that sums over the hidden states then sums over the
times too. For an average reward the equations have one more unknown, the average itself.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import sequential_vmap
from jaxtyping import Array, Float
from scipy import sparse

from mdpnewton.models.pomdp import FinitePOMDP
from mdpnewton.models.pomdp.endings import goes_on
from mdpnewton.models.pomdp.product import first_observations, observations
from mdpnewton.policies.controller import Tables
from mdpnewton.threads import threads_for

TOLERANCE = 1e-12


class Closed(NamedTuple):
    """Values and visits under a controller.

    Attributes:
        objective: The objective U.
        action_value: Q(s, b, a), shape (S, B, A); of a finite horizon (T S, B, A), time by time.
        arrivals: Discounted visits of hidden state s, observation o and node b before the decision,
            shape (S, O, B) or (T S, O, B), without those of the first decision.
        residual: The larger relative residual of the two linear solves.
    """

    objective: Float[Array, ""]
    action_value: Float[Array, "TS B A"]
    arrivals: Float[Array, "TS O B"]
    residual: Float[Array, ""]


class Chain(eqx.Module):
    """A POMDP as arrays, ready for controllers with any number of nodes.

    Attributes:
        moves: p(s'|s, a), shape (A, S, S).
        seen: O_g(o|s), shape (G, S, O).
        kind: Class g(a) of each action, as a row of the unit matrix, shape (A, G).
        reward: R(s, a), shape (S, A).
        first: p(s) p(o|s) before the first action, shape (S, O); of a finite horizon (T S, O), with
            zeros after the first time. For an average, which forgets it, zeros.
        discount: Discount factor gamma.
        horizon: Number T of times, or None.
        average: Whether the objective is the average reward.
        dense: Largest number of equations for which the system is factorised; larger systems are
            solved by iteration.
    """

    moves: Float[Array, "A S S"]
    seen: Float[Array, "G S O"]
    kind: Float[Array, "A G"]
    reward: Float[Array, "S A"]
    first: Float[Array, "TS O"]
    discount: float = eqx.field(static=True)
    horizon: int | None = eqx.field(static=True, default=None)
    average: bool = eqx.field(static=True, default=False)
    dense: int = eqx.field(static=True, default=1_500)

    @classmethod
    def of(cls, pomdp: FinitePOMDP) -> "Chain":
        """Build the arrays from a POMDP."""
        tables = observations(pomdp)
        kinds, kind = np.unique(tables.reshape(len(tables), -1), axis=0, return_inverse=True)
        alive = goes_on(pomdp)
        moves = [sparse.csr_array(pomdp.transition[a]).toarray() for a in range(pomdp.n_actions)]
        first = (alive * np.asarray(pomdp.start))[:, None] * first_observations(pomdp)
        average = pomdp.criterion == "average"
        later = np.zeros((((pomdp.horizon or 1) - 1) * len(first), first.shape[1]))
        return cls(
            moves=jnp.asarray(np.stack(moves) * alive),
            seen=jnp.asarray(kinds.reshape(-1, *tables.shape[1:])),
            kind=jnp.eye(len(kinds))[kind.reshape(-1)],
            reward=jnp.asarray(pomdp.reward, dtype=float),
            first=jnp.asarray(np.concatenate([0.0 * first if average else first, later])),
            discount=float(pomdp.discount),
            horizon=pomdp.horizon,
            average=average,
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
        start = self.first[: self.reward.shape[0]]
        decided = jnp.einsum("so,oc,coa->sca", start, initial, action)
        if self.horizon is not None:
            return self._swept(self.horizon, k, decided)
        gain = jnp.einsum("gsbca,sa->gsb", k, self.reward)
        begun = self._sent(decided)
        value, visits, average, residual = self._stationary(k, gain, begun)
        Q = self.reward[:, None] + self.discount * self._ahead(value) - average
        if self.average:  # values have mean zero, and so differ by less from other chains'
            Q -= jnp.einsum("gsb,gsbca,sca->", visits, k, Q)
        return Closed(
            objective=average if self.average else jnp.sum(decided * Q),
            action_value=Q,
            arrivals=jnp.einsum("gsb,gso->sob", visits, self.seen),
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

    def _stationary(self, k: Array, gain: Array, begun: Array) -> tuple[Array, ...]:
        """W, the visits, the average reward or 0, and the larger relative residual.

        The values of an average are known up to a constant: their mean over all unknowns is zero.
        Where there is one recurrent class, the system with the average as one more unknown is
        regular.
        """
        shape, size = gain.shape, gain.size
        aims = gain.ravel(), begun.ravel()
        if self.average:
            aims = jnp.append(aims[0], 0.0), jnp.zeros(size + 1).at[-1].set(1.0)

        def system(x: Array) -> Array:
            ahead = self._system(k, x[:size].reshape(shape)).ravel()
            return jnp.append(ahead + x[-1], x[:size].mean()) if self.average else ahead

        turned = jax.linear_transpose(system, aims[0])
        if size <= self.dense:
            matrix = jnp.eye(size) - self.discount * self._matrix(k).reshape(size, size)
            if self.average:
                border = jnp.ones((size, 1))
                corner = jnp.append(border.T / size, jnp.zeros((1, 1)), axis=1)
                matrix = jnp.concatenate([jnp.append(matrix, border, axis=1), corner])
            found = _solved(matrix, *aims)
        else:
            found = _iterated(system, aims[0]), _iterated(lambda x: turned(x)[0], aims[1])
        residual = jnp.maximum(
            _relative(system(found[0]) - aims[0], aims[0]),
            _relative(turned(found[1])[0] - aims[1], aims[1]),
        )
        average = found[0][-1] if self.average else jnp.array(0.0)
        value, visits = (x[:size].reshape(shape) for x in found)
        return value, visits, average, residual

    def _swept(self, horizon: int, k: Array, decided: Float[Array, "S B A"]) -> Closed:
        """Values by a sweep back through the times, visits by one forth."""

        def back(value: Array, _: None) -> tuple[Array, Array]:
            Q = self.reward[:, None] + self.discount * self._ahead(value)
            return jnp.einsum("gsbca,sca->gsb", k, Q), Q

        def forth(visits: Array, _: None) -> tuple[Array, Array]:
            after = self._sent(jnp.einsum("gsbca,gsb->sca", k, visits))
            return after, jnp.einsum("gsb,gso->sob", visits, self.seen)

        begun = self._sent(decided)
        _, Q = jax.lax.scan(back, jnp.zeros_like(begun), None, horizon, reverse=True)
        _, later = jax.lax.scan(forth, begun, None, horizon - 1)
        none = jnp.zeros((1, *self.seen.shape[1:], begun.shape[2]))
        arrivals = jnp.concatenate([none, later])
        return Closed(
            objective=jnp.sum(decided * Q[0]),
            action_value=Q.reshape(-1, *Q.shape[2:]),
            arrivals=arrivals.reshape(-1, *arrivals.shape[2:]),
            residual=jnp.array(0.0),
        )

    def _ahead(self, value: Float[Array, "G S B"]) -> Float[Array, "S B A"]:
        """sum_s' p(s'|s, a) W(g(a), s', b)."""
        by_action = jnp.einsum("ag,gsb->asb", self.kind, value)
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
