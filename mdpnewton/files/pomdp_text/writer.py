"""From a model to a .pomdp text that reads back to the same numbers."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from mdpnewton.files.pomdp_text.tokens import NAME, RESERVED
from mdpnewton.models.pomdp import ANY, FinitePOMDP

WIDTH = 100  # maximum width of a line of names


def format_pomdp(pomdp: FinitePOMDP, comment: str = "") -> str:
    """The text of a model in Cassandra's .pomdp format.

    Numbers are written in full, so that `parse_pomdp` gives the same model again. Rewards are
    written as costs if the model counts in costs. Rows that are the same for every action are
    written once under `*`, and rows that are mostly zeros are written entry by entry.

    Args:
        pomdp: The model. Its names must fit the format, and it must have no observation before the
            first action, which the format does not know.
        comment: Text whose lines become a comment at the beginning.
    """
    _check(pomdp)
    states, actions, observations = (
        pomdp.labels("states"),
        pomdp.labels("actions"),
        pomdp.labels("observations"),
    )
    parts = [
        "\n".join(f"# {line}".rstrip() for line in comment.splitlines()),
        "\n".join(
            [
                f"discount: {pomdp.discount!r}",
                f"values: {pomdp.values}",
                _declaration("states", pomdp.states, pomdp.n_states),
                _declaration("actions", pomdp.actions, pomdp.n_actions),
                _declaration("observations", pomdp.observations, pomdp.n_observations),
                _start(pomdp.start, states),
            ]
        ),
        "\n".join(_matrices("T", pomdp.transition, (actions, states, states), pomdp.start)),
        "\n".join(_matrices("O", pomdp.observation, (actions, states, observations), None)),
        "\n".join(_rewards(pomdp, (actions, states, states, observations))),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _check(pomdp: FinitePOMDP) -> None:
    if pomdp.first_observation is not None:
        raise ValueError(
            "`format_pomdp` cannot write `first_observation`: the .pomdp format has no observation "
            "before the first action; write dataclasses.replace(pomdp, first_observation=None)."
        )
    if pomdp.criterion in ("finite", "average"):
        raise ValueError(
            f"`format_pomdp` cannot write criterion {pomdp.criterion!r}: the .pomdp format has a "
            f"discount alone; write dataclasses.replace(pomdp, criterion='total', horizon=None)."
        )
    for kind in ("states", "actions", "observations"):
        for name in getattr(pomdp, kind) or ():
            if name in RESERVED or not NAME.fullmatch(name):
                raise ValueError(
                    f"`format_pomdp` cannot write {name!r} of `{kind}`: names of the .pomdp format "
                    f"are letters, digits, - and _, begin with a letter, and are no reserved word; "
                    f"rename it."
                )


def _declaration(kind: str, names: Sequence[str] | None, size: int) -> str:
    if names is None:
        return f"{kind}: {size}"
    lines = [f"{kind}:"]
    for name in names:
        if len(lines[-1]) + 1 + len(name) > WIDTH:
            lines.append("   ")
        lines[-1] += f" {name}"
    return "\n".join(lines)


def _start(start: np.ndarray, states: Sequence[str]) -> str:
    chosen = np.flatnonzero(start)
    if (start[chosen] != 1 / len(chosen)).any():
        return f"start: {_row(start)}"
    if len(chosen) == len(start):
        return "start: uniform"
    if len(chosen) > len(start) / 2:
        left = np.flatnonzero(start == 0).tolist()
        return f"start exclude: {' '.join(states[i] for i in left)}"
    return f"start include: {' '.join(states[i] for i in chosen.tolist())}"


def _row(values: np.ndarray) -> str:
    return " ".join(map(repr, values.tolist()))


def _matrices(
    word: str, matrices: Any, labels: Sequence[Sequence[str]], start: np.ndarray | None
) -> Iterator[str]:
    rows = [sparse.csr_array(matrix) for matrix in matrices]
    common = np.ones(rows[0].shape[0], dtype=bool)
    for matrix in rows[1:]:
        common &= np.diff(sparse.csr_array(matrix != rows[0]).indptr) == 0
    if len(rows) > 1:
        yield from _matrix(f"{word}: *", word, rows[0], common, labels[1:], start)
        for action, matrix in zip(labels[0], rows, strict=True):
            yield from _matrix(f"{word}: {action}", word, matrix, ~common, labels[1:], start)
    else:
        yield from _matrix(f"{word}: {labels[0][0]}", word, rows[0], common, labels[1:], start)


def _matrix(
    head: str,
    word: str,
    matrix: sparse.csr_array,
    wanted: np.ndarray,
    labels: Sequence[Sequence[str]],
    start: np.ndarray | None,
) -> Iterator[str]:
    n, width = matrix.shape
    if wanted.all():
        if word == "T" and matrix.nnz == n and (matrix != sparse.eye_array(n)).nnz == 0:
            yield f"{head} identity"
            return
        if matrix.nnz == n * width and (matrix.data == 1 / width).all():
            yield f"{head} uniform"
            return
    for state in np.flatnonzero(wanted).tolist():
        entries = slice(matrix.indptr[state], matrix.indptr[state + 1])
        values = np.zeros(width)
        values[matrix.indices[entries]] = matrix.data[entries]
        yield from _distribution(f"{head} : {labels[0][state]}", values, labels[1], start)


def _distribution(
    head: str, values: np.ndarray, columns: Sequence[str], start: np.ndarray | None
) -> Iterator[str]:
    chosen = np.flatnonzero(values)
    if len(chosen) > 1 and (values == 1 / len(values)).all():
        yield f"{head} uniform"
    elif len(chosen) > 1 and start is not None and (values == start).all():
        yield f"{head} reset"
    elif len(chosen) > max(2, len(values) / 2):
        yield f"{head}\n{_row(values)}"
    else:
        for column in chosen.tolist():
            yield f"{head} : {columns[column]} {float(values[column])!r}"


def _rewards(pomdp: FinitePOMDP, labels: Sequence[Sequence[str]]) -> Iterator[str]:
    sign = -1.0 if pomdp.values == "cost" else 1.0
    if pomdp.outcome_reward is not None:
        rules = zip(pomdp.outcome_reward.rules, pomdp.outcome_reward.value, strict=True)
        for rule, value in rules:
            yield _reward(rule.tolist(), sign * value, labels)
        return
    if (pomdp.reward == pomdp.reward[0, 0]).all():
        yield _reward([ANY] * 4, sign * pomdp.reward[0, 0], labels)
        return
    for action, column in enumerate(pomdp.reward.T):
        if (column == column[0]).all() and column[0] != 0:
            yield _reward([action, ANY, ANY, ANY], sign * column[0], labels)
            continue
        for state in np.flatnonzero(column).tolist():
            yield _reward([action, state, ANY, ANY], sign * column[state], labels)


def _reward(rule: Sequence[int], value: float, labels: Sequence[Sequence[str]]) -> str:
    words = ["*" if i == ANY else names[i] for i, names in zip(rule, labels, strict=True)]
    return f"R: {' : '.join(words)} {float(value) + 0.0!r}"
