"""A POMDP under a finite-state controller, as one finite MDP."""

import numpy as np
from scipy import sparse

from mdpnewton.checks import instance, whole
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.pomdp.model import FinitePOMDP

DENSE = 4_000_000  # number of entries up to which the product is dense


def first_observations(pomdp: FinitePOMDP) -> np.ndarray:
    """p(o | s) before the first action, (S, O'): as declared, or a blank one, numbered last."""
    if pomdp.first_observation is not None:
        return np.asarray(pomdp.first_observation)
    blank = np.zeros((pomdp.n_states, pomdp.n_observations + 1))
    blank[:, -1] = 1.0
    return blank


def observations(pomdp: FinitePOMDP) -> np.ndarray:
    """p(o | s', a), (A, S, O'), with a column for the blank observation if there is one."""
    found = [
        table.toarray() if sparse.issparse(table) else np.asarray(table)
        for table in (pomdp.observation[a] for a in range(pomdp.n_actions))
    ]
    stacked = np.stack(found)
    blank = first_observations(pomdp).shape[1] - pomdp.n_observations
    return np.pad(stacked, ((0, 0), (0, 0), (0, blank)))


def product_shape(pomdp: FinitePOMDP, nodes: int) -> tuple[int, int]:
    """Numbers of states and of decisions of `product_mdp`."""
    return pomdp.n_states * first_observations(pomdp).shape[1] * (
        nodes + 1
    ), nodes * pomdp.n_actions


def product_mdp(pomdp: FinitePOMDP, nodes: int) -> FiniteMDP:
    r"""The MDP whose policy is a `FiniteStateController` with B nodes, Appendix B.2.

    A state combines hidden state, observation and previous node, $(s O + o)(B + 1) + b$ with b = B
    at the start; an action is a decision $b A + a$. Everything that works on a `FiniteMDP` works on
    it: exact terms, H12 and the Hessian, Newton's method, sampling. It is large;
    `ControllerEvaluator` uses its structure and needs much less.

    Args:
        pomdp: The problem.
        nodes: Number B of nodes.
    """
    instance("product_mdp", "pomdp", pomdp, FinitePOMDP, "pass `load_pomdp(name)`")
    whole("product_mdp", "nodes", nodes, 1)
    seen, first = observations(pomdp), first_observations(pomdp)
    S, A, n_seen, B = pomdp.n_states, pomdp.n_actions, first.shape[1], nodes
    size, decisions = product_shape(pomdp, nodes)
    rows, columns, data = [], [], []
    situations = np.arange(n_seen * (B + 1))
    for a in range(A):
        moves = sparse.coo_array(pomdp.transition[a])
        # From (s, any situation), deciding (b, a), to (s', o', b).
        arrival = moves.data[:, None] * seen[a][moves.col]  # (moves, observations)
        for b in range(B):
            target = (moves.col[:, None] * n_seen + np.arange(n_seen)) * (B + 1) + b
            origin = moves.row[:, None] * n_seen * (B + 1) + situations
            pair = origin * decisions + b * A + a
            full = np.broadcast_shapes((*pair.shape, 1), (len(moves.data), 1, n_seen))
            kept = np.broadcast_to((arrival > 0)[:, None], full)
            rows.append(np.broadcast_to(pair[:, :, None], full)[kept])
            columns.append(np.broadcast_to(target[:, None], full)[kept])
            data.append(np.broadcast_to(arrival[:, None], full)[kept])
    matrix = sparse.csr_array(
        (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))),
        shape=(size * decisions, size),
    )
    reward = np.repeat(np.tile(np.asarray(pomdp.reward), (1, B)), n_seen * (B + 1), axis=0)
    start = np.zeros((S, n_seen, B + 1))
    start[:, :, B] = np.asarray(pomdp.start)[:, None] * first
    small = size * decisions * size <= DENSE
    transition = matrix.toarray().reshape(size, decisions, size) if small else matrix
    criterion, horizon = pomdp.criterion, pomdp.horizon
    return FiniteMDP(
        transition, reward, start.ravel(), pomdp.discount, criterion=criterion, horizon=horizon
    )
