"""The chain of a sparse POMDP under a finite-state controller, solved by products alone.

The unknowns are U(s, o, b), the value of having come to s and observed o with node b, for the pairs
(s, o) that occur:

    Q(s, a, b') = R(s, a) + gamma sum_{s', o'} p(s', o'|s, a) U(s', o', b')
    X(s, o, b') = sum_a pi(a|b', o) Q(s, a, b')
    U(s, o, b)  = sum_b' p(b'|b, o) X(s, o, b').

A product takes a sparse matrix once, and a matrix of the controller's probabilities for every
observation: nothing of the size of the system squared is formed.
"""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from scipy import sparse

from mdpnewton.checks import refuse
from mdpnewton.evaluators.products import Map, solved
from mdpnewton.models.pomdp import FinitePOMDP
from mdpnewton.models.pomdp.pairs import Pairs
from mdpnewton.policies.controller import Tables
from mdpnewton.threads import threads_for


class SparseClosed(NamedTuple):
    """Values and visits under a controller at T times; T is 1 unless the horizon is finite.

    Attributes:
        objective: The objective U.
        value: Value of what follows the decisions of a time, U(s, o, b), shape (T, N, B).
        visits: Discounted visits of pairs and nodes before a decision, (T, N, B), without those of
            the first decision.
        average: What is taken off every reward: the average reward where that is the criterion.
        residual: The larger relative residual of the linear solves.
    """

    objective: float
    value: np.ndarray
    visits: np.ndarray
    average: float
    residual: float


MOST = 3e8  # values of a finite horizon, pairs times nodes times steps
P = ParamSpec("P")
T = TypeVar("T")


def alone(method: Callable[P, T]) -> Callable[P, T]:
    """A method that computes with one BLAS thread: its products are many and small."""

    @wraps(method)
    def called(*arguments: P.args, **named: P.kwargs) -> T:
        with threads_for(0.0):
            return method(*arguments, **named)

    return called


class SparseChain:
    """A POMDP as sparse matrices, ready for controllers with any number of nodes.

    Attributes:
        n_observations: Number O of observations, with the blank one if there is one.
        reward: R(s, a), shape (S, A).
        discount: Discount factor gamma.
        criterion: What the objective adds up.
        horizon: Number T of times, or None.
        states: Hidden state of each pair (s, o), sorted by observation, shape (N,).
        groups: The pairs of each observation.
        ways: gamma p(s', o'|s, a), shape (S A, N).
        first: p(s) p(o|s) before the first action, shape (N,).
    """

    def __init__(self, pomdp: FinitePOMDP):
        pairs = Pairs(pomdp)
        self.discount, self.reward = float(pomdp.discount), np.asarray(pomdp.reward, dtype=float)
        self.criterion, self.horizon = pomdp.criterion, pomdp.horizon
        self.states, self.groups, self.first = pairs.states, pairs.groups, pairs.first
        self.n_observations = len(pairs.groups)
        self.ways = self.discount * pairs.ways
        self._back = sparse.csr_array(self.ways.T)
        self._begins = np.array([group.start for group in self.groups])

    @alone
    def worth(self, tables: Tables, before: SparseClosed | None = None) -> SparseClosed:
        """The objective and the values, without visits, which are those of `before`.

        Args:
            tables: The controller's probabilities.
            before: Values and visits of a controller near by, from which the solves begin.
        """
        begun = self._begun(tables)
        if self.horizon is not None:
            value = np.zeros(self._times(tables.initial.shape[1]))
            for t in range(self.horizon - 1, 0, -1):
                value[t - 1] = self._before(tables, self._chosen(tables, self._earned(value[t])))
            X = self._chosen(tables, self._earned(value[0]))
            return SparseClosed(float((begun * X).sum()), value, np.empty(0), 0.0, 0.0)
        shape = begun.shape
        earned = np.broadcast_to(self.reward[:, :, None], (*self.reward.shape, shape[1]))
        target = self._before(tables, self._chosen(tables, earned)).ravel()
        guess = None if before is None else before.value.ravel()
        average = 0.0
        if self.criterion == "average":
            guess = None if guess is None else np.append(guess, before.average)  # type: ignore[union-attr]
            found, residual = solved(self._bordered(tables), np.append(target, 0.0), guess)
            average, found = float(found[-1]), found[:-1]
        else:
            found, residual = solved(lambda x: self._system(tables, x), target, guess)
        value = found.reshape(1, *shape)
        X = self._chosen(tables, self._earned(value[0]))
        objective = average if self.criterion == "average" else float((begun * X).sum())
        visits = np.empty(0) if before is None else before.visits
        return SparseClosed(objective, value, visits, average, residual)

    @alone
    def closed(
        self, tables: Tables, before: SparseClosed | None = None, worth: SparseClosed | None = None
    ) -> SparseClosed:
        """Values and visits under a controller.

        Args:
            tables: The controller's probabilities.
            before: Values and visits of a controller near by, from which the solves begin.
            worth: What `worth` gave for these tables, if it is known.
        """
        found = self.worth(tables, before) if worth is None else worth
        shape = found.value.shape[1:]
        if self.horizon is not None:
            visits = np.zeros_like(found.value)
            decided = self._begun(tables)
            for t in range(1, self.horizon):
                visits[t] = self._sent(tables, decided)
                decided = self._after(tables, visits[t])
            return found._replace(visits=visits)
        guess = None if before is None else before.visits.ravel()
        if self.criterion == "average":
            one = np.zeros(found.value.size + 1)
            one[-1] = 1.0
            guess = None if guess is None else np.append(guess, 0.0)
            visited, residual = solved(self._turned_border(tables), one, guess)
            visits = visited[:-1].reshape(1, *shape)
            X = self._chosen(tables, self._earned(found.value[0]) - found.average)
            mean = float((self._after(tables, visits[0]) * X).sum())
            found = found._replace(value=found.value - mean)
        else:
            begun = self._sent(tables, self._begun(tables)).ravel()
            visited, residual = solved(lambda x: self._turned(tables, x), begun, guess)
            visits = visited.reshape(1, *shape)
        return found._replace(visits=visits, residual=max(found.residual, residual))

    @alone
    def earned(self, tables: Tables, closed: SparseClosed) -> tuple[Tables, Tables]:
        """Value of every entry of every table row, and how often each row is used.

        See `Chain.earned`, which computes the same.
        """
        values: Any = Tables(*(np.zeros(table.shape) for table in tables))  # type: ignore[arg-type]
        used: Any = Tables(*(np.zeros(one.shape[:-1]) for one in tables))  # type: ignore[arg-type]
        for t, (value, visits) in enumerate(zip(closed.value, closed.visits, strict=True)):
            Q = self._earned(value) - closed.average
            X = self._chosen(tables, Q)
            decided = self._after(tables, visits)
            if t == 0 and self.criterion != "average":
                decided += self._begun(tables)
                for o, group in enumerate(self.groups):
                    values.initial[o] += self.first[group] @ X[group]
                    used.initial[o] += self.first[group].sum()
            for o, group in enumerate(self.groups):
                values.transition[:, o] += visits[group].T @ X[group]
                used.transition[:, o] += visits[group].sum(axis=0)
                at = Q[self.states[group]]
                values.action[:, o] += np.einsum("nc,nac->ca", decided[group], at)
                used.action[:, o] += decided[group].sum(axis=0)
        return values, used

    @alone
    def situations(self, tables: Tables, closed: SparseClosed) -> tuple[np.ndarray, np.ndarray]:
        """Visits of situations, (O, B + 1), and of them times Q of decisions, (O, B + 1, B, A).

        The last situation of an observation is the first decision.
        """
        nodes, n_actions = tables.initial.shape[1], self.reward.shape[1]
        seen = np.zeros((self.n_observations, nodes + 1))
        earned = np.zeros((*seen.shape, nodes, n_actions))
        for t, (value, visits) in enumerate(zip(closed.value, closed.visits, strict=True)):
            first = self.first * float(t == 0 and self.criterion != "average")
            every = np.column_stack([visits, first])
            Q = self._earned(value) - closed.average
            for o, group in enumerate(self.groups):
                seen[o] += every[group].sum(axis=0)
                earned[o] += np.einsum(
                    "nb,nac->bca", every[group], Q[self.states[group]], optimize=True
                )
        return seen, earned

    def _times(self, nodes: int) -> tuple[int, int, int]:
        """The shape of what is kept of a finite horizon."""
        shape = self.horizon or 1, len(self.states), nodes
        if np.prod(shape, dtype=float) > MOST:
            rule = f"needs {np.prod(shape, dtype=float):.1e} values for a horizon of {shape[0]}"
            told = f"and {nodes} nodes, and {MOST:.0e} at most; use fewer nodes, or a discount"
            refuse("ControllerEvaluator", "pomdp", f"{rule} {told}")
        return shape

    def node_values(self, tables: Tables, value: np.ndarray, average: float) -> np.ndarray:
        """X(s, o, b'), the value of a pair and the node that is chosen there, shape (N, B)."""
        return self._chosen(tables, self._earned(value) - average)

    def situation_values(self, tables: Tables, X: np.ndarray) -> np.ndarray:
        """U(s, o, b), the value of a pair and the node with which it is come to, shape (N, B)."""
        return self._before(tables, X)

    def by_observation(self, rows: Any) -> Iterator[tuple[int, np.ndarray]]:
        """The observations that rows of `ways` lead to, and the pairs of each."""
        columns = np.unique(rows.indices)
        place = np.searchsorted(self._begins, columns, side="right") - 1
        for o in np.unique(place):
            yield int(o), columns[place == o]

    def _earned(self, value: np.ndarray) -> np.ndarray:
        """Q(s, a, b') from the values of what follows, (S, A, B)."""
        ahead = (self.ways @ value).reshape(*self.reward.shape, -1)
        return np.asarray(ahead + self.reward[:, :, None])

    def _chosen(self, tables: Tables, Q: np.ndarray) -> np.ndarray:
        """X(s, o, b'), shape (N, B)."""
        found = np.empty((len(self.states), Q.shape[2]))
        for o, group in enumerate(self.groups):
            np.einsum("nac,ca->nc", Q[self.states[group]], tables.action[:, o], out=found[group])
        return found

    def _before(self, tables: Tables, X: np.ndarray) -> np.ndarray:
        """U(s, o, b), shape (N, B)."""
        found = np.empty_like(X)
        for o, group in enumerate(self.groups):
            found[group] = X[group] @ tables.transition[:, o].T
        return found

    def _after(self, tables: Tables, visits: np.ndarray) -> np.ndarray:
        """Visits of pairs and the nodes that are chosen there: the transpose of `_before`."""
        found = np.empty_like(visits)
        for o, group in enumerate(self.groups):
            found[group] = visits[group] @ tables.transition[:, o]
        return found

    def _begun(self, tables: Tables) -> np.ndarray:
        """Visits of pairs and the nodes that are chosen there, of the first decision."""
        found = np.empty((len(self.states), tables.initial.shape[1]))
        for o, group in enumerate(self.groups):
            found[group] = self.first[group][:, None] * tables.initial[o]
        return found

    def _sent(self, tables: Tables, decided: np.ndarray) -> np.ndarray:
        """The visits that follow, discounted once: the transpose of `_chosen` after `ways`."""
        pairs = np.zeros((*self.reward.shape, decided.shape[1]))
        for o, group in enumerate(self.groups):
            pairs[self.states[group]] += decided[group][:, None, :] * tables.action[:, o].T
        return np.asarray(self._back @ pairs.reshape(self.reward.size, -1))

    def _system(self, tables: Tables, x: np.ndarray) -> np.ndarray:
        value = x.reshape(len(self.states), -1)
        ahead = (self.ways @ value).reshape(*self.reward.shape, -1)
        return np.ravel(value - self._before(tables, self._chosen(tables, ahead)))

    def _turned(self, tables: Tables, x: np.ndarray) -> np.ndarray:
        visits = x.reshape(len(self.states), -1)
        return np.ravel(visits - self._sent(tables, self._after(tables, visits)))

    # The values of an average are known up to a constant: their sum is zero, and the average is one
    # more unknown. Where there is one recurrent class, this system is regular.

    def _bordered(self, tables: Tables) -> Map:
        def product(x: np.ndarray) -> np.ndarray:
            return np.append(self._system(tables, x[:-1]) + x[-1], x[:-1].mean())

        return product

    def _turned_border(self, tables: Tables) -> Map:
        def product(x: np.ndarray) -> np.ndarray:
            return np.append(self._turned(tables, x[:-1]) + x[-1] / (len(x) - 1), x[:-1].sum())

        return product
