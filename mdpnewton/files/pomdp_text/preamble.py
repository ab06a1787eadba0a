"""The first part of a .pomdp text: sizes, names, discount, and the start distribution."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdpnewton.files.pomdp_text.tokens import NAME, NUMBER, RESERVED, Tokens
from mdpnewton.models.checks import ROW_TOLERANCE
from mdpnewton.models.pomdp import ANY

TOLERANCE = 1e-5  # how far from 1 a sum of probabilities may be, as in Cassandra's pomdp-solve
MOST = 10_000_000  # maximum number of states, actions or observations
UNSAID: dict[str, Any] = {"discount": 1.0, "values": "reward"}
KINDS = {"states": "state", "actions": "action", "observations": "observation"}


@dataclass
class Names:
    """The states, actions or observations of a text.

    Attributes:
        kind: What is named: "states", "actions" or "observations".
        size: Number of them.
        names: Their names; None if the text gives only a count.
        numbers: The index of each name and of "*".
    """

    kind: str
    size: int
    names: tuple[str, ...] | None
    numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = {name: i for i, name in enumerate(self.names or ())} | {"*": ANY}

    def index(self, tokens: Tokens) -> int:
        """The index that the next word stands for, `ANY` for the wildcard."""
        word = tokens.word
        number = self.numbers.get(word)
        if number is None and tokens.guess(self.names or ()):
            word = tokens.word
            number = self.numbers[word]
        if number is None:
            number = int(word) if _is_count(word) else self.size
            if number >= self.size:
                self._refuse(tokens, word)
        tokens.index += 1
        return number

    def label(self, index: int) -> str:
        """What errors call an index."""
        return "*" if index == ANY else self.names[index] if self.names else str(index)

    def _refuse(self, tokens: Tokens, word: str) -> None:
        what = KINDS[self.kind]
        if word.isascii() and word.isdigit():
            tokens.fail(
                f"there is no {what} {tokens.shown()}: {self.size} {self.kind} are numbered "
                f"from 0 to {self.size - 1}"
            )
        if NAME.fullmatch(word) and word not in RESERVED:
            known = f"`{self.kind}:` names {_few(self.names)}" if self.names else "has no names"
            tokens.fail(
                f"there is no {what} {tokens.shown()}: {known}; name it there or use a number"
            )
        tokens.fail(f"expected {what} name, number or *, got {tokens.shown()}")


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def read_names(tokens: Tokens, kind: str) -> Names:
    """Read what follows `states:`, `actions:` or `observations:`: a count, or names."""
    word = tokens.word
    if _is_count(word):
        tokens.index += 1
        if NUMBER.fullmatch(tokens.word) or _is_name(tokens.word):
            tokens.fail(
                f"`{kind}:` takes one count or names that begin with a letter, got "
                f"{tokens.shown()} after the count"
            )
        if not 1 <= int(word) <= MOST:
            at = tokens.index - 1
            tokens.fail(f"`{kind}:` needs a count from 1 to {MOST}, got {tokens.shown(at)}", at)
        return Names(kind, int(word), None)
    names: dict[str, None] = {}
    while _is_name(tokens.word):
        if tokens.word in names:
            tokens.fail(f"`{kind}:` names `{tokens.word}` twice; names must differ")
        names[tokens.take()] = None
    if not names or (tokens.word and tokens.word not in RESERVED):
        reserved = " a reserved word;" if tokens.word in RESERVED else ""
        tokens.fail(
            f"`{kind}:` needs a count or names of letters, digits, - and _ that begin with a "
            f"letter, got {tokens.shown()},{reserved} rename it"
        )
    return Names(kind, len(names), tuple(names))


def _is_count(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 1_000  # int refuses longer ones


def _is_name(word: str) -> bool:
    return word not in RESERVED and NAME.fullmatch(word) is not None


def read_discount(tokens: Tokens) -> float:
    """Read what follows `discount:`."""
    at = tokens.index
    discount = tokens.number("`discount:`")
    if not 0 <= discount <= 1:
        tokens.fail(f"`discount:` must be in [0, 1], got {tokens.shown(at)}", at)
    return discount


def take_unsaid(tokens: Tokens, given: dict[str, Any]) -> None:
    """Read leniently, a text without discount or values means what pomdp-solve takes it for."""
    for word, value in UNSAID.items():
        if tokens.notes is not None and word not in given:
            tokens.note(f"took the missing `{word}:` for {value}, as pomdp-solve does")
            given[word] = value


def read_values(tokens: Tokens) -> str:
    """Read what follows `values:`."""
    if tokens.word not in ("reward", "cost") and not tokens.guess(("reward", "cost")):
        tokens.fail(f"`values:` must be reward or cost, got {tokens.shown()}")
    return tokens.take()


def read_start(tokens: Tokens, states: Names) -> tuple[np.ndarray, int]:
    """Read what follows `start`: the distribution of the first state, and 1 if it was rescaled.

    It is either `: uniform`, `: state` or `: probabilities`, or `include:` with the states that
    are equally likely, or `exclude:` with the states that are left out.
    """
    if tokens.word in ("include", "exclude"):
        return _listed(tokens, states, tokens.take()), 0
    tokens.colon("start")
    word, at, n = tokens.word, tokens.index, states.size
    if word == "uniform":
        tokens.index += 1
        return np.full(n, 1 / n), 0
    if not NUMBER.fullmatch(word):
        if word == "*":
            tokens.fail("`start:` takes no *; write `start: uniform`")
        return _chosen(tokens, states), 0
    following = tokens.words[at : at + 2]
    if n > 1 and word.isdigit() and not (len(following) > 1 and NUMBER.fullmatch(following[1])):
        return np.eye(1, n, states.index(tokens))[0], 0
    if tokens.notes is not None and (several := _few_numbers(tokens, n)):
        tokens.note(f"took {several} whole numbers after `start:` for states, alike", at)
        return _alike(tokens, states, several), 0
    values = probabilities(tokens, n, "`start:`")
    return distribution(tokens, values, "`start:`", at)


def _chosen(tokens: Tokens, states: Names) -> np.ndarray:
    """The start in one state; read leniently, in any of several that are named one by one."""
    at, several = tokens.index, 1
    states.index(tokens)
    if tokens.notes is not None:
        while tokens.word in states.numbers and tokens.word not in RESERVED:
            states.index(tokens)
            several += 1
        if several > 1:
            tokens.note(f"took {several} states after `start:` for `start include:`", at)
    tokens.index = at
    return _alike(tokens, states, several)


def _alike(tokens: Tokens, states: Names, several: int) -> np.ndarray:
    chosen = np.zeros(states.size)
    for _ in range(several):
        chosen[states.index(tokens)] = 1
    found: np.ndarray = chosen / chosen.sum()
    return found


def _few_numbers(tokens: Tokens, size: int) -> int:
    """How many whole numbers come next, if they are fewer than probabilities would be, else 0."""
    count = 0
    while (word := "".join(tokens.words[tokens.index + count :][:1])) and NUMBER.fullmatch(word):
        if not word.isdigit() or count >= size:
            return 0
        count += 1
    return count if count < size else 0


def _listed(tokens: Tokens, states: Names, how: str) -> np.ndarray:
    tokens.colon(f"start {how}")
    at, chosen = tokens.index, np.zeros(states.size, dtype=bool)
    while tokens.word and tokens.word not in RESERVED:
        if tokens.word == "*":
            tokens.fail(f"`start {how}:` takes no *; write `start: uniform`")
        chosen[states.index(tokens)] = True
    if tokens.index == at:
        tokens.fail(f"`start {how}:` needs at least one state, got {tokens.shown()}")
    if how == "exclude":
        chosen = ~chosen
    if not chosen.any():
        tokens.fail("`start exclude:` leaves no state to start in; keep one", at)
    return chosen / chosen.sum()


def probability(tokens: Tokens, what: str) -> float:
    """The next word as a probability."""
    value = tokens.number(what)
    if not 0 <= value <= 1 + TOLERANCE:
        tokens.index -= 1
        tokens.fail(f"{what} takes a probability from 0 to 1, got {tokens.shown()}")
    return value


def probabilities(tokens: Tokens, count: int, what: str) -> np.ndarray:
    """The next `count` words as probabilities."""
    at = tokens.index
    values = tokens.numbers(count, what)
    bad = (values < 0) | (values > 1 + TOLERANCE)
    if bad.any():
        at += int(np.argmax(bad))
        tokens.fail(f"{what} takes probabilities from 0 to 1, got {tokens.shown(at)}", at)
    no_more_numbers(tokens, count, what)
    return values


def no_more_numbers(tokens: Tokens, count: int, what: str) -> None:
    """Fail if a number comes next."""
    if NUMBER.fullmatch(tokens.word):
        tokens.fail(f"{what} takes {count} number{'s' * (count > 1)}, {tokens.shown()} is one more")


def distribution(tokens: Tokens, values: np.ndarray, what: str, at: int) -> tuple[np.ndarray, int]:
    """The values, divided by their sum if that is only nearly one, and 1 if they were divided."""
    total = values.sum()
    if abs(total - 1) > TOLERANCE:
        tokens.fail(f"{what} must sum to 1, but sums to {total:.8g}; correct its numbers", at)
    if abs(total - 1) > ROW_TOLERANCE:
        return values / total, 1
    return values, 0
