"""Finite MDPs from what people have: functions, environments with tables, other libraries' models.

All of them give a sparse `FiniteMDP`. An action that a state does not offer does there what the
state's first action does, so that every state has every action and no value changes.
"""

import warnings
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from mdpnewton.checks import refuse, required, told, whole
from mdpnewton.models.checks import finite_array, numbers
from mdpnewton.models.finite import FiniteMDP
from mdpnewton.models.names import Called

FUNCTION = "FiniteMDP.from_function"
Outcome = tuple[float, Hashable, float, bool]  # probability, next state, reward, done


def from_function(
    states: Any,
    actions: Any,
    step: Callable[[Any, Any], Iterable[Outcome]],
    most: int,
    given: Mapping[str, Any],
) -> FiniteMDP:
    """See `FiniteMDP.from_function`."""
    whole(FUNCTION, "most", most, 1)
    start = _start(states)
    offered = _offered(actions)
    table = _Table()
    number: dict[Hashable, int] = {}
    found: list[Hashable] = []
    names: dict[Hashable, int] = {}  # of the actions, in the order in which they turn up

    def known(state: Hashable) -> int:
        place = number.get(state)
        if place is None:
            place = number[state] = len(found)
            found.append(state)
            if place >= most:
                rule = f"reached more than {most:,} states, the last one {told(state)}"
                refuse(FUNCTION, "most", f"{rule}; raise it, or let fewer states be reached")
        return place

    shares = [(known(state), share) for state, share in start]
    for state in found:  # it grows
        place = number[state]
        choices = offered(state)
        if not choices:
            rule = f"offers no action in state {told(state)}"
            refuse(FUNCTION, "actions", f"{rule}; let a final state be reached with done=True")
        for action in choices:
            column = names.setdefault(action, len(names))
            try:
                outcomes = step(state, action)
                for p, after, reward, done in outcomes:
                    if done:
                        table.add(place, column, -1, p, reward)
                    elif p != 0:
                        table.add(place, column, known(after), p, reward)
            except (TypeError, ValueError) as error:
                if str(error).startswith(f"`{FUNCTION}"):
                    raise
                reason = " ".join(str(error).split())
                rule = "must yield (probability, next state, reward, done) with a probability from "
                rule += "0 to 1, a finite reward and a hashable state"
                at = f"state {told(state)}, action {told(action)}"
                refuse(FUNCTION, "step", f"{rule}, but did not for {at}: {reason}")
    first = np.zeros(len(found))
    for place, share in shares:
        first[place] += share
    labels = {"state_names": Called(found), "action_names": Called(list(names))}
    return table.model(len(found), len(names), {"start": first, **labels, **given})


def from_gymnasium(environment: Any, given: Mapping[str, Any]) -> FiniteMDP:
    """See `FiniteMDP.from_gymnasium`."""
    call = "FiniteMDP.from_gymnasium"
    if isinstance(environment, str):
        gymnasium = required("gymnasium", f"the environment {environment}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that there is a newer version
                environment = gymnasium.make(environment)
        except Exception as error:  # whatever an environment raises
            reason = " ".join(str(error).split()).rstrip(".")
            refuse(call, "environment", f"cannot be made: {reason}")
    inner = getattr(environment, "unwrapped", environment)
    rows = getattr(inner, "P", None)
    if not isinstance(rows, Mapping | Sequence) or not len(rows):
        rule = f"has no table of transitions `P`, got {type(inner).__name__}"
        refuse(call, "environment", f"{rule}; `mdpnewton train` learns on it from samples")
    size, table, state, action = len(rows), _Table(), 0, 0
    try:
        for state in range(size):
            for action in range(len(rows[state])):
                for p, after, reward, done in rows[state][action]:
                    table.add(state, action, -1 if done else int(after), float(p), float(reward))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        rule = "has a table `P` that is not P[state][action] = [(probability, next state, reward, "
        rule += f"terminated), ...] with states and actions from 0 on: {type(error).__name__}"
        refuse(call, "environment", f"{rule} {error} at state {state}, action {action}")
    start = getattr(inner, "initial_state_distrib", None)
    if start is None and "start" not in given:
        rule = "has no `initial_state_distrib`"
        refuse(call, "environment", f"{rule}; pass `start`, the distribution of the first state")
    return table.model(size, max(map(len, _values(rows))), {"start": start, **given})


def from_discrete_dp(ddp: Any, given: Mapping[str, Any]) -> FiniteMDP:
    """See `FiniteMDP.from_discrete_dp`."""
    call = "FiniteMDP.from_discrete_dp"
    missing = [name for name in ("R", "Q", "beta") if not hasattr(ddp, name)]
    if missing:
        rule = f"needs R, Q and beta like a `DiscreteDP`, but has no {', '.join(missing)}"
        refuse(call, "ddp", f"{rule}; pass arrays to `FiniteMDP` instead")
    reward = np.asarray(ddp.R, dtype=float)
    if reward.ndim == 2:
        n_states, n_actions = reward.shape
        state, action = np.divmod(np.arange(reward.size), n_actions)
        Q = ddp.Q if sparse.issparse(ddp.Q) else np.reshape(ddp.Q, (reward.size, n_states))
    else:
        state, action = np.asarray(ddp.s_indices), np.asarray(ddp.a_indices)
        n_states, n_actions, Q = ddp.Q.shape[1], int(action.max()) + 1, ddp.Q
    feasible = np.flatnonzero(np.isfinite(reward.ravel()))
    entries = sparse.coo_array(sparse.csr_array(Q)[feasible])
    table = _Table()
    pair = feasible[entries.row]
    table.extend(state[pair], action[pair], entries.col, entries.data)
    table.earn(state[feasible], action[feasible], reward.ravel()[feasible])
    settings = {"start": np.full(n_states, 1 / n_states), **given}
    if "criterion" not in settings or settings["criterion"] in ("discounted", "finite"):
        settings.setdefault("discount", float(ddp.beta))
    return table.model(n_states, n_actions, settings)


def from_matrices(P: Any, R: Any, given: Mapping[str, Any]) -> FiniteMDP:
    """See `FiniteMDP.from_matrices`."""
    call = "FiniteMDP.from_matrices"
    moves = [sparse.csr_array(matrix, dtype=float) for matrix in P]
    shapes = {matrix.shape for matrix in moves}
    if not moves or len(shapes) != 1 or len({*next(iter(shapes))}) != 1:
        refuse(call, "P", f"needs one square matrix per action, (A, S, S), got shapes {shapes}")
    n_states, n_actions = moves[0].shape[0], len(moves)
    listed = isinstance(R, Sequence | np.ndarray) and len(R) == n_actions
    each = [one for one in R] if listed and np.ndim(R[0]) == 2 else None
    if each is not None:  # a reward for every next state
        columns = [
            np.asarray(matrix.multiply(sparse.csr_array(one)).sum(axis=1)).ravel()
            for matrix, one in zip(moves, each, strict=True)
        ]
        reward = np.stack(columns, axis=1)
    else:
        found = R.toarray() if sparse.issparse(R) else numbers(call, "R", R)
        if found.shape not in ((n_states,), (n_states, n_actions)):
            rule = f"needs shape ({n_states},), ({n_states}, {n_actions}) or that of `P`"
            refuse(call, "R", f"{rule}, got {found.shape}")
        reward = np.broadcast_to(found.reshape(n_states, -1), (n_states, n_actions)).copy()
    settings = {"start": np.full(n_states, 1 / n_states), **given}
    return FiniteMDP(moves, finite_array(call, "reward", reward, 2), **_complete(settings))


def _values(rows: Any) -> Iterable[Any]:
    return rows.values() if isinstance(rows, Mapping) else rows


class _Entries(NamedTuple):
    state: "array[int]"
    action: "array[int]"
    after: "array[int]"
    p: "array[float]"


class _Table:
    """Outcomes one after the other, in little memory; -1 is the end of the process."""

    def __init__(self) -> None:
        self.entries = _Entries(array("q"), array("i"), array("q"), array("d"))
        self.earned = _Entries(array("q"), array("i"), array("q"), array("d"))

    def add(self, state: int, action: int, after: int, p: float, reward: float) -> None:
        """One outcome of a pair; several may lead to the same state, whose sum would hide this."""
        if not (p >= 0 and reward - reward == 0):  # NaN too
            raise ValueError(f"probability {p}, reward {reward}")
        entries = self.entries
        entries.p.append(p)
        entries.state.append(state)
        entries.action.append(action)
        entries.after.append(after)
        if reward:
            earned = self.earned
            earned.p.append(p * reward)
            earned.state.append(state)
            earned.action.append(action)

    def extend(self, state: Any, action: Any, after: Any, p: Any) -> None:
        """Many outcomes, without their rewards."""
        entries = self.entries
        entries.state.extend(np.asarray(state).tolist())
        entries.action.extend(np.asarray(action).tolist())
        entries.after.extend(np.asarray(after).tolist())
        entries.p.extend(np.asarray(p).tolist())

    def earn(self, state: Any, action: Any, reward: Any) -> None:
        """Rewards of pairs."""
        self.earned.state.extend(np.asarray(state).tolist())
        self.earned.action.extend(np.asarray(action).tolist())
        self.earned.p.extend(np.asarray(reward).tolist())

    def model(self, n_states: int, n_actions: int, given: Mapping[str, Any]) -> FiniteMDP:
        """The problem; actions that a state lacks do what its first one does."""
        state, action, after = (np.asarray(one, dtype=np.int64) for one in self.entries[:3])
        p = np.asarray(self.entries.p)
        if after.max(initial=-1) >= n_states:
            rule = f"lead to state {int(after.max())}, but there are {n_states}, from 0 on"
            refuse("FiniteMDP", "transition", rule)
        pairs = n_states * n_actions
        row = state * n_actions + action
        ends = after < 0
        stop = np.bincount(row[ends], p[ends], pairs)
        goes = ~ends
        transition = sparse.csr_array((p[goes], (row[goes], after[goes])), shape=(pairs, n_states))
        place = np.asarray(self.earned.state, dtype=np.int64) * n_actions
        place += np.asarray(self.earned.action, dtype=np.int64)
        reward = np.bincount(place, np.asarray(self.earned.p), pairs)
        offered = np.zeros(pairs, dtype=bool)
        offered[row] = True
        offered[place] = True
        if not offered.all():
            table = offered.reshape(n_states, n_actions)
            first = np.arange(n_states) * n_actions + table.argmax(axis=1)
            source = np.where(offered, np.arange(pairs), np.repeat(first, n_actions))
            transition, stop, reward = transition[source], stop[source], reward[source]
        shape = n_states, n_actions
        stops = {"stop": stop.reshape(shape)} if stop.any() else {}
        return FiniteMDP(transition, reward.reshape(shape), **{**stops, **_complete(given)})


def _complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the problem: without discount and criterion it is total reward."""
    found = {name: value for name, value in given.items() if value is not None}
    if "discount" not in found and "criterion" not in found:
        found["criterion"] = "total"
    return found


def _start(states: Any) -> list[tuple[Hashable, float]]:
    if isinstance(states, Mapping):
        return list(states.items())
    if isinstance(states, str) or not isinstance(states, Iterable):
        rule = "needs the start states in a list, or their probabilities in a dict"
        refuse(FUNCTION, "states", f"{rule}, got {told(states)}")
    listed = list(states)
    if not listed:
        refuse(FUNCTION, "states", "is empty; give at least one start state")
    try:
        hash(tuple(listed))
    except TypeError:
        refuse(FUNCTION, "states", "needs hashable states, as tuples instead of lists or arrays")
    return [(state, 1 / len(listed)) for state in listed]


def _offered(actions: Any) -> Callable[[Any], Sequence[Any]]:
    if callable(actions):
        return lambda state: tuple(actions(state))
    fixed = tuple(actions) if isinstance(actions, Iterable) else ()
    if not fixed:
        rule = "needs a list of actions, or a function of the state that gives one"
        refuse(FUNCTION, "actions", f"{rule}, got {told(actions)}")
    return lambda state: fixed
