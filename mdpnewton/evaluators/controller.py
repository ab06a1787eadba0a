"""Exact evaluation of finite-state controllers on POMDPs."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from mdpnewton.checks import instance, number, refuse, whole
from mdpnewton.evaluation import Evaluator, WeightedPairs
from mdpnewton.evaluators.controller_chain import Chain
from mdpnewton.evaluators.sparse_chain import SparseChain
from mdpnewton.models.pomdp import FinitePOMDP
from mdpnewton.models.pomdp.product import first_observations
from mdpnewton.policies import FiniteStateController
from mdpnewton.policies.controller import Tables

RESIDUAL = 1e-8  # a solve with a larger relative residual has failed


class ControllerEvaluator(Evaluator):
    """Exact weights of a `FiniteStateController` on a `FinitePOMDP`.

    Hidden states are summed out, because log pi does not depend on them: the pairs are O (B + 1)
    situations with B A decisions each, however many hidden states there are. For the terms that
    need grad V in every hidden state, H12 and the Hessian, use a `FiniteEvaluator` on
    `product_mdp(pomdp, nodes)`.

    Attributes:
        pomdp: The problem.
        offset: Constant that is added to every reward in the weights, but not in the objective. If
            no reward is negative then, H2 is guaranteed to be negative semidefinite, and EM to
            rise.
        chain: The problem as arrays, or as sparse matrices.
        n_observations: Number of observations, with the blank one if there is one.
    """

    def __init__(self, pomdp: FinitePOMDP, offset: float = 0.0):
        call, remedy = "ControllerEvaluator", "for a fully observed problem use `FiniteEvaluator`"
        self.pomdp: FinitePOMDP = instance(call, "pomdp", pomdp, FinitePOMDP, remedy)
        self.offset = number(call, "offset", offset)
        if pomdp.criterion != "discounted" and self.offset:
            rule = f"must be 0 for criterion {pomdp.criterion!r}"
            refuse(call, "offset", f"{rule}; use `TightOffset` instead")
        self.chain: Chain | SparseChain = SparseChain(pomdp) if pomdp.is_sparse else Chain.of(pomdp)
        self.n_observations = first_observations(pomdp).shape[1]

    def controller(self, nodes: int) -> FiniteStateController:
        """A controller with this number of nodes that fits the problem."""
        return FiniteStateController(nodes, self.n_observations, self.pomdp.n_actions)

    def evaluate(self, key: Any, policy: FiniteStateController, w: PyTree) -> WeightedPairs:
        """The exact weights of all situations and decisions at `w`; `key` is not used."""
        self._check(policy)
        occupancy, value, state_value, objective, residual = self._weights(policy, w)
        found = float(objective) if float(residual) <= RESIDUAL else float("nan")
        raised = self.offset / (1 - self.pomdp.discount) if self.offset else 0.0
        value, state_value = value + raised * occupancy, state_value + raised
        states = jnp.arange(policy.n_situations)
        decisions = jnp.arange(policy.nodes * policy.n_actions)
        return WeightedPairs(
            states=states,
            actions=jnp.broadcast_to(decisions, occupancy.shape),
            occupancy=occupancy,
            value=value,
            advantage=value - occupancy * state_value[:, None],
            objective=found,
            state_value=state_value,
            complete=True,
        )

    def objective(self, key: Any, policy: FiniteStateController, w: PyTree) -> float:
        """U(w); `key` is not used."""
        self._check(policy)
        if isinstance(self.chain, SparseChain):
            worth = self.chain.worth(numbers_of(policy, w))
            return worth.objective if worth.residual <= RESIDUAL else float("nan")
        with self.chain.threads(policy.nodes):
            objective, residual = jax.block_until_ready(_objective(self.chain, policy, w))
        return float(objective) if float(residual) <= RESIDUAL else float("nan")

    def visits(self, policy: FiniteStateController, w: PyTree) -> Tables:
        """How often each row of the controller's tables is used."""
        self._check(policy)
        if isinstance(self.chain, SparseChain):
            numbers = numbers_of(policy, w)
            return self.chain.earned(numbers, self.chain.closed(numbers))[1]
        tables = policy.tables(w)
        return self.chain.earned(tables, self.chain.closed(tables))[1]

    def _weights(self, policy: FiniteStateController, w: PyTree) -> tuple[Any, ...]:
        if not isinstance(self.chain, SparseChain):
            with self.chain.threads(policy.nodes):
                found = _situations(self.chain, policy, w)
                seen, value, objective, residual = jax.block_until_ready(found)
            return *_weighed(policy, w, seen, value), objective, residual
        tables = numbers_of(policy, w)
        closed = self.chain.closed(tables)
        visits, earned = self.chain.situations(tables, closed)
        value = jnp.asarray(earned) * _chosen(policy.tables(w))
        weighed = _weighed(policy, w, jnp.asarray(visits), value)
        return *weighed, closed.objective, closed.residual

    def _check(self, policy: FiniteStateController) -> None:
        expected = self.n_observations, self.pomdp.n_actions
        if not isinstance(policy, FiniteStateController):
            raise ValueError(
                f"`ControllerEvaluator` evaluates a FiniteStateController, got "
                f"{type(policy).__name__}; make one with `evaluator.controller(nodes)`."
            )
        if (policy.n_observations, policy.n_actions) != expected:
            raise ValueError(
                f"`ControllerEvaluator` got a controller of {policy.n_observations} observations "
                f"and {policy.n_actions} actions for a problem with {expected[0]} (blank one "
                f"included) and {expected[1]}; make one with `evaluator.controller(nodes)`."
            )


@eqx.filter_jit
def _objective(chain: Chain, policy: FiniteStateController, w: PyTree) -> tuple[Array, Array]:
    closed = chain.closed(policy.tables(w))
    return closed.objective, closed.residual


@eqx.filter_jit
def _situations(chain: Chain, policy: FiniteStateController, w: PyTree) -> tuple[Array, ...]:
    """Visits of situations, the value that their decisions earn, U and the residual."""
    tables = policy.tables(w)
    closed = chain.closed(tables)
    visits = jnp.concatenate([closed.arrivals, chain.first[:, :, None]], axis=2)
    value = _chosen(tables) * jnp.einsum("sob,sca->obca", visits, closed.action_value)
    return visits.sum(axis=0), value, closed.objective, closed.residual


@eqx.filter_jit
def _weighed(
    policy: FiniteStateController, w: PyTree, seen: Array, value: Array
) -> tuple[Array, Array, Array]:
    """Occupancy and value of the pairs, and the mean value of situations."""
    shape = (policy.n_situations, -1)
    occupancy = seen[:, :, None, None] * _chosen(policy.tables(w))
    earned = value.sum(axis=(2, 3))
    state_value = jnp.where(seen > 0, earned / jnp.where(seen > 0, seen, 1.0), 0.0)
    return occupancy.reshape(shape), value.reshape(shape), state_value.ravel()


def _chosen(tables: Tables) -> Array:
    """Probability of every decision in every situation, (O, B + 1, B, A).

    Situations are numbered o (B + 1) + b, so that the first decision comes last.
    """
    nodes = jnp.concatenate([tables.transition, tables.initial[None]])
    return jnp.einsum("boc,coa->obca", nodes, tables.action)


def numbers_of(policy: FiniteStateController, w: PyTree) -> Tables:
    """The controller's probabilities as NumPy arrays, for a `SparseChain`."""
    return Tables(*(np.asarray(table) for table in policy.tables(w)))  # type: ignore[arg-type]


def random_starts(policy: FiniteStateController, seed: int, starts: int) -> PyTree:
    """Parameters of `starts` random controllers, stacked along a leading axis.

    A start depends on the seed and its own number, but not on how many are drawn.
    """
    remedy = "pass `evaluator.controller(nodes)`"
    instance("random_starts", "policy", policy, FiniteStateController, remedy)
    whole("random_starts", "seed", seed)
    whole("random_starts", "starts", starts, 1)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(
        jax.random.key(seed), np.arange(starts, dtype=np.uint32)
    )
    return jax.vmap(policy.random_parameters)(keys)
