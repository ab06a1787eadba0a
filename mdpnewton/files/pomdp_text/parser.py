"""From a .pomdp text to the model."""

from typing import Any, cast

import numpy as np
from scipy import sparse

from mdpnewton.files.pomdp_text.entries import Probabilities, Rewards, stored
from mdpnewton.files.pomdp_text.preamble import (
    KINDS,
    TOLERANCE,
    Names,
    no_more_numbers,
    probabilities,
    probability,
    read_discount,
    read_names,
    read_start,
    read_values,
    take_unsaid,
)
from mdpnewton.files.pomdp_text.tokens import NUMBER, STATEMENTS, Tokens
from mdpnewton.models.checks import ROW_TOLERANCE
from mdpnewton.models.pomdp import ANY, FinitePOMDP

PREAMBLE = STATEMENTS[:5]
SHAPES = ("uniform", "identity", "reset")
MOST_ACTIONS = 10_000  # each has matrices of its own
MOST_PAIRS = 10_000_000  # maximum number of pairs of a state and an action
MOST_ENTRIES = 10_000_000  # maximum number of probabilities beyond those that the text lists
NEARLY = 0.2  # how far from 1 a sum may be that is read leniently
MOST_OUTCOMES = 300_000_000  # maximum number of outcomes whose rewards are averaged


def parse_pomdp(text: str, source: str = "text", notes: list[str] | None = None) -> FinitePOMDP:
    """The model that a text in Cassandra's .pomdp format describes.

    It reads all forms of the published grammar (https://pomdp.org/code/pomdp-file-grammar.html)
    and `reset`, which pomdp-solve knows for rows of T. Numbers may leave out digits before or
    after the point. Later statements override earlier ones. A distribution whose sum differs from
    1 by up to 1e-5, the tolerance of pomdp-solve, is divided by its sum; `rescaled_rows` of the
    model counts these distributions. Costs become negative rewards. Models with more than 250,000
    probabilities stay sparse where that is smaller. A discount of 1 is the criterion "total".

    Args:
        text: The whole text.
        source: Name of the text in errors, such as the name of its file.
        notes: A list to read leniently: words that break a rule, but whose meaning is near at hand,
            are read, and the list takes a line for each: misspelt words and names, several states
            after `start:`, a colon before the last number, a row of numbers where one belongs,
            rows that sum to 0.8 to 1.2, numbers such as 0,5, and no discount or `values` at all.
            None refuses them.

    Raises:
        POMDPError: The text breaks a rule. The message is `source:line:column: rule` and refers to
            the first word that breaks one.
    """
    return _Parser(Tokens(text, source, notes)).model()


class _Parser:
    def __init__(self, tokens: Tokens):
        self.tokens = tokens
        self.given: dict[str, Any] = {}
        self.start: np.ndarray | None = None
        self.rescaled = 0
        self.entries = 0
        self.in_body = False

    def model(self) -> FinitePOMDP:
        while self.tokens.word:
            self._statement()
        self._begin_body()
        every = range(self.actions.size)
        transition = [self._rows(self.T, "T", action) for action in every]
        observation = [self._rows(self.O, "O", action) for action in every]
        self._check_outcomes(transition, observation)
        sign = -1.0 if self.given["values"] == "cost" else 1.0
        moves, sees = stored(transition, observation)
        return FinitePOMDP(
            moves,
            sees,
            None,
            cast(np.ndarray, self.start),
            self.given["discount"],
            outcome_reward=self.R.outcome_reward(sign),
            values=self.given["values"],
            states=self.states.names,
            actions=self.actions.names,
            observations=self.observations.names,
            rescaled_rows=self.rescaled,
            criterion="total" if self.given["discount"] == 1 else "discounted",
        )

    def _statement(self) -> None:
        tokens, word = self.tokens, self.tokens.word
        if word not in STATEMENTS and tokens.guess(STATEMENTS):
            word = tokens.word
        if word not in STATEMENTS:
            hint = "; the statement before it has too many numbers" * bool(NUMBER.fullmatch(word))
            tokens.fail(f"expected one of {', '.join(STATEMENTS)}, got {tokens.shown()}{hint}")
        at = tokens.index
        if word in ("T", "O", "R"):
            self._begin_body()
            tokens.index += 1
            tokens.colon(word)
            if word == "R":
                self._reward()
            elif word == "T":
                self._probabilities(at, word, self.T, self.states)
            else:
                self._probabilities(at, word, self.O, self.observations)
        elif word == "start":
            self._start()
        elif word in self.given:
            tokens.fail(f"`{word}:` comes a second time; keep one")
        else:
            tokens.index += 1
            tokens.colon(word)
            self._declaration(word)

    def _declaration(self, word: str) -> None:
        if word == "discount":
            self.given[word] = read_discount(self.tokens)
        elif word == "values":
            self.given[word] = read_values(self.tokens)
        else:
            self.given[word] = read_names(self.tokens, word)

    def _start(self) -> None:
        tokens = self.tokens
        if self.start is not None:
            tokens.fail(
                "`start` must come before the first T:, O: or R:; move it up"
                if self.in_body
                else "`start` comes a second time; keep one"
            )
        if "states" not in self.given:
            tokens.fail("`start` must come after `states:`; move it below")
        tokens.index += 1
        self.start, rescaled = read_start(tokens, self.given["states"])
        self.rescaled += rescaled

    def _begin_body(self) -> None:
        if self.in_body:
            return
        take_unsaid(self.tokens, self.given)
        missing = [word for word in PREAMBLE if word not in self.given]
        if missing == ["observations"]:
            self.tokens.fail(
                "`observations:` is missing before here: without it the text describes an MDP; "
                "add it and O: lines, or use FiniteMDP"
            )
        if missing:
            self.tokens.fail(f"`{missing[0]}:` is missing before here; add it to the preamble")
        self.states: Names = self.given["states"]
        self.actions: Names = self.given["actions"]
        self.observations: Names = self.given["observations"]
        n = self.states.size
        if self.actions.size > MOST_ACTIONS or n * self.actions.size > MOST_PAIRS:
            self.tokens.fail(
                f"{n:,} states with {self.actions.size:,} actions are too many: at most "
                f"{MOST_ACTIONS:,} actions and {MOST_PAIRS:,} pairs of both are read; use fewer"
            )
        if self.start is None:
            self.start = np.full(n, 1 / n)
        self.T = Probabilities(n, n)
        self.O = Probabilities(n, self.observations.size)
        self.R = Rewards()
        self.in_body = True

    def _probabilities(self, at: int, word: str, into: Probabilities, columns: Names) -> None:
        tokens, width = self.tokens, columns.size
        action = self.actions.index(tokens)
        if tokens.word != ":":
            self._matrix(at, word, into, action)
            return
        tokens.index += 1
        row = self.states.index(tokens)
        if tokens.word not in SHAPES:
            tokens.guess(SHAPES)
        if tokens.word == ":":
            tokens.index += 1
            column = columns.index(tokens)
            if tokens.is_row(width):
                label = f"{word}: {self.actions.label(action)} : {self.states.label(row)}"
                tokens.note(f"took the {width} numbers for the row `{label}`")
                self._row(at, word, into, action, row)
                return
            tokens.skip_colon(word)
            value = probability(tokens, f"`{word}: action : state : {KINDS[columns.kind]}`")
            self._count(at, action, row, width if column == ANY else 1)
            into.set_entry(at, action, row, column, value)
        elif tokens.word == "uniform":
            tokens.index += 1
            self._count(at, action, row, width)
            into.set_row(at, action, row, np.full(width, 1 / width))
        elif tokens.word == "reset" and word == "T":
            tokens.index += 1
            self._count(at, action, row, np.count_nonzero(cast(np.ndarray, self.start)))
            into.set_row(at, action, row, cast(np.ndarray, self.start))
        elif tokens.word in ("identity", "reset"):
            remedy = "write T: action identity" if tokens.word == "identity" else "only T has it"
            tokens.fail(f"`{word}: action : state` takes no `{tokens.word}`; {remedy}")
        else:
            self._row(at, word, into, action, row)

    def _row(self, at: int, word: str, into: Probabilities, action: int, row: int) -> None:
        values = probabilities(self.tokens, into.shape[1], f"`{word}: action : state`")
        self._count(at, action, row, np.count_nonzero(values))
        into.set_row(at, action, row, values)

    def _matrix(self, at: int, word: str, into: Probabilities, action: int) -> None:
        tokens, (n, width) = self.tokens, into.shape
        if tokens.word not in SHAPES:
            tokens.guess(SHAPES)
        if tokens.word == "uniform":
            tokens.index += 1
            self._count(at, action, ANY, width)
            into.set_row(at, action, ANY, np.full(width, 1 / width))
        elif tokens.word == "identity" and word == "T":
            tokens.index += 1
            self._count(at, action, ANY, 1)
            into.set_identity(at, action)
        elif tokens.word in ("identity", "reset"):
            remedy = "only T has it" if word == "O" else "write T: action : * reset"
            tokens.fail(f"`{word}: action` takes no `{tokens.word}`; {remedy}")
        else:
            values = probabilities(tokens, n * width, f"`{word}: action`")
            self._count(at, action, 0, np.count_nonzero(values))
            into.set_matrix(at, action, values.reshape(n, width))

    def _count(self, at: int, action: int, row: int, columns: Any) -> None:
        rows = self.states.size if row == ANY else 1
        self.entries += (self.actions.size if action == ANY else 1) * rows * int(columns)
        if self.entries > MOST_ENTRIES + len(self.tokens.words):
            self.tokens.fail(
                f"the statements up to this one set {self.entries:,} probabilities, more than the "
                f"{MOST_ENTRIES:,} that are read beyond those in the text; use fewer states, or "
                f"say what is not 0",
                at,
            )

    def _check_outcomes(self, transition: list[Any], observation: list[Any]) -> None:
        if not self.R.of_observations:
            return
        total = sum(
            int(np.diff(seen.indptr)[T.indices].sum())
            for T, seen in zip(transition, observation, strict=True)
        )
        if total > MOST_OUTCOMES:
            self.tokens.fail(
                f"rewards of observations have {total:,} outcomes, more than the "
                f"{MOST_OUTCOMES:,} that are averaged; write * for the observation, or say what "
                f"is not 0",
                len(self.tokens.words),
            )

    def _reward(self) -> None:
        tokens, width = self.tokens, self.observations.size
        action = self.actions.index(tokens)
        if tokens.word != ":":
            tokens.fail(
                f"`R: action` needs a state, got {tokens.shown()}; R: action with a whole matrix "
                f"is for MDPs, write R: action : state : state : observation value"
            )
        tokens.index += 1
        state = self.states.index(tokens)
        if tokens.word != ":":
            count = self.states.size * width
            values = self._rewards(count, "`R: action : state`")
            self.R.set_matrix(action, state, values.reshape(-1, width))
            return
        tokens.index += 1
        successor = self.states.index(tokens)
        if tokens.word != ":":
            values = self._rewards(width, "`R: action : state : state`")
            self.R.set_row(action, state, successor, values)
            return
        tokens.index += 1
        rule = (action, state, successor, self.observations.index(tokens))
        tokens.skip_colon("R")
        value = tokens.number("`R: action : state : state : observation`")
        self.R.set_entry(rule, value)

    def _rewards(self, count: int, what: str) -> np.ndarray:
        values = self.tokens.numbers(count, what)
        no_more_numbers(self.tokens, count, what)
        return values

    def _rows(self, entries: Probabilities, word: str, action: int) -> sparse.csr_array:
        matrix, touched = entries.matrix(action)
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        bad = np.abs(sums - 1) > TOLERANCE
        for row in np.flatnonzero(bad).tolist():
            whose = f"`{word}: {self.actions.label(action)} : {self.states.label(row)}`"
            if touched[row] < 0:
                end = len(self.tokens.words)
                self.tokens.fail(f"{whose} is missing: no line gives its probabilities", end)
            if self.tokens.notes is not None and abs(sums[row] - 1) <= NEARLY:
                said = f"took {whose}, which sums to {sums[row]:.8g}, for its shares of that sum"
                self.tokens.note(said, int(touched[row]))
                continue
            self.tokens.fail(
                f"{whose} must sum to 1, but sums to {sums[row]:.8g} after this, the last line "
                f"about it; correct its numbers",
                int(touched[row]),
            )
        off = np.abs(sums - 1) > ROW_TOLERANCE
        self.rescaled += int(off.sum())
        matrix.data /= np.repeat(np.where(off, sums, 1.0), np.diff(matrix.indptr))
        return matrix
