"""Where a controller gains most from one more node, and the controller that has it.

Bounded policy iteration (Poupart and Boutilier, 2004) leaves local optima by nodes that look one
step ahead from a belief. Here the belief is the mean of what is hidden in a situation: with eta its
visits, a fresh node that takes action a there, and after every observation moves to the best node
for what is then believed, gains

    max_a sum_s eta(s) R(s, a) + sum_o' max_b' sum_s' eta_a(s', o') X(s', o', b')

less what is earned there now, sum_s eta(s) U(s).
"""

from typing import Any, NamedTuple

import numpy as np

from mdpnewton.evaluators.sparse_chain import SparseChain, SparseClosed
from mdpnewton.policies.controller import Tables

TAKEN = 0.5  # share of the decisions of its situation that the new node takes
PLANNED = 0.9, 0.8  # probability of its action and of its next nodes there
RARE = 1e-6  # visits below which a situation is left alone


class Lookahead(NamedTuple):
    """What a fresh node would do in each situation; the first decision is situation B of its row.

    Attributes:
        gain: What it gains, shape (O, B + 1); minus infinity where nobody comes.
        action: The action it takes, shape (O, B + 1).
        after: The node it moves to after each observation, (O, B + 1, O); -1 where that cannot be.
    """

    gain: np.ndarray
    action: np.ndarray
    after: np.ndarray


def lookahead(chain: SparseChain, tables: Tables, closed: SparseClosed) -> Lookahead:
    """What a fresh node would gain in each situation, and how."""
    width, nodes = np.shape(tables.initial)
    gain = np.full((width, nodes + 1), -np.inf)
    action = np.zeros(gain.shape, dtype=int)
    after = np.full((*gain.shape, width), -1)
    times = _times(chain, tables, closed)
    n_actions = chain.reward.shape[1]
    for o, group in enumerate(chain.groups):
        mass = [visits[group] for visits, *_ in times]
        seen = np.sum([one.sum(axis=0) for one in mass], axis=0)
        if not (seen > RARE).any():
            continue
        states = chain.states[group]
        here = [one.T @ chain.reward[states] - closed.average * one.sum(axis=0)[:, None]
                for one in mass]  # fmt: skip
        now = np.sum([(one * value[group]).sum(axis=0) for one, (_, value, _) in
                      zip(mass, times, strict=True)], axis=0)  # fmt: skip
        best = np.full(nodes + 1, -np.inf)
        for a in range(n_actions):
            worth = np.sum([one[:, a] for one in here], axis=0)
            rows = chain.ways[states * n_actions + a]
            moves = np.full((nodes + 1, width), -1)
            for seen_then, arrived in chain.by_observation(rows):
                ahead = sum(
                    (one.T @ rows[:, arrived]) @ nexts[arrived]
                    for one, (*_, nexts) in zip(mass, times, strict=True)
                )
                worth = worth + ahead.max(axis=1)
                moves[:, seen_then] = ahead.argmax(axis=1)
            better = worth > best
            best[better] = worth[better]
            action[o, better], after[o, better] = a, moves[better]
        gain[o] = np.where(seen > RARE, best - now, -np.inf)
    return Lookahead(gain, action, after)


def _times(chain: SparseChain, tables: Tables, closed: SparseClosed) -> list[tuple[Any, Any, Any]]:
    """For each time the visits (N, B + 1), the values of situations, and X of the next time."""
    chosen = [chain.node_values(tables, value, closed.average) for value in closed.value]
    nexts = chosen if chain.horizon is None else [*chosen[1:], np.zeros_like(chosen[0])]
    found = []
    for t, (visits, X, ahead) in enumerate(zip(closed.visits, chosen, nexts, strict=True)):
        first = chain.first * float(t == 0 and chain.criterion != "average")
        begun = np.empty(len(X))
        for o, group in enumerate(chain.groups):
            begun[group] = X[group] @ tables.initial[o]
        value = np.column_stack([chain.situation_values(tables, X), begun])
        found.append((np.column_stack([visits, first]), value, ahead))
    return found


def with_node(
    tables: Tables,
    rng: np.random.Generator,
    where: tuple[int, int] | None,
    ahead: Lookahead,
    soft: float,
) -> Tables:
    """The logits of the controller with one more node.

    Args:
        tables: Probabilities of the controller.
        rng: Draws what nothing is known of.
        where: Observation and node of the situation that the new node is made for; None for a
            node that is drawn at random.
        ahead: What `lookahead` found.
        soft: Share of every row that is spread over all choices, so that a search can change it.
    """
    width, nodes = np.shape(tables.initial)
    n_actions = np.shape(tables.action)[2]
    initial = np.column_stack([tables.initial, np.zeros(width)])
    transition = np.zeros((nodes + 1, width, nodes + 1))
    transition[:-1, :, :-1] = tables.transition
    transition[-1] = rng.dirichlet(np.ones(nodes + 1), size=width)
    action = np.concatenate([tables.action, rng.dirichlet(np.ones(n_actions), size=width)[None]])
    row = None
    if where is not None:
        o, b = where
        row = initial[o] if b == nodes else transition[b, o]
        like = int(row.argmax())  # the node that decides there now
        action[-1] = 0.5 * (action[-1] + action[like])
        transition[-1] = 0.5 * (transition[-1] + transition[like])
        action[-1, o] *= 1 - PLANNED[0]
        action[-1, o, ahead.action[o, b]] += PLANNED[0]
        known = np.flatnonzero(ahead.after[o, b] >= 0)
        transition[-1, known] *= 1 - PLANNED[1]
        transition[-1, known, ahead.after[o, b, known]] += PLANNED[1]
    for table in (initial, transition[:-1]):
        table *= 1 - soft
        table[..., -1] += soft
    if row is not None:
        row *= 1 - TAKEN
        row[-1] += TAKEN
    found = (np.log((1 - soft) * p + soft / p.shape[-1]) for p in (initial, transition, action))
    return Tables(*found)
