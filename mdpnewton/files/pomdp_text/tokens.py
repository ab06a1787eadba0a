"""The words of a .pomdp text and their positions."""

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn

import numpy as np

# A comment, or a word: a number whose sign may be separate, anything without a separator, `:` or
# `*`. Only words are captured.
WORD = re.compile(r"#[^\n]*|([+-]\s+(?=[\d.])[^\s:#*]+|[^\s:#*]+|[:*])")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
STATEMENTS = ("discount", "values", "states", "actions", "observations", "start", "T", "O", "R")
MOST_NOTES = 1_000  # words that are read leniently, and names that a word may be near to
LONGEST = 40  # maximum number of letters of a word that an error quotes
RESERVED = frozenset(
    (*STATEMENTS, "uniform", "identity", "reward", "cost", "include", "exclude", "reset")
)


class POMDPError(ValueError):
    """What is wrong with a .pomdp text, and where: `source:line:column: rule`.

    Attributes:
        line: Number of the line, counted from 1.
        column: Number of the column, counted from 1.
    """

    def __init__(self, source: str, line: int, column: int, rule: str):
        super().__init__(f"{source}:{line}:{column}: {rule}.")
        self.line, self.column = line, column


class Tokens:
    """The words of a text, and which of them comes next.

    Positions are not stored. They are found again when an error needs one, which keeps large files
    fast.

    Attributes:
        words: All words, without comments.
        index: Index of the word that comes next.
        notes: Takes a line for each word that breaks a rule and is read all the same; None where
            the rules are kept.
    """

    def __init__(self, text: str, source: str, notes: list[str] | None = None):
        self.notes = notes
        self.text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
        self.source = source
        found = filter(None, WORD.findall(self.text))
        self.words = ["".join(word.split()) if word[0] in "+-" else word for word in found]
        self.index = 0
        self._offsets: list[int] = []

    @property
    def word(self) -> str:
        """The word that comes next, "" at the end."""
        return self.words[self.index] if self.index < len(self.words) else ""

    def take(self) -> str:
        """Return the next word and advance to the one after it."""
        word = self.word
        self.index += 1
        return word

    def colon(self, after: str) -> None:
        """Skip the colon that has to follow."""
        if self.word != ":":
            self.fail(f"`{after}` needs a colon after it, got {self.shown()}; write `{after}:`")
        self.index += 1

    def note(self, text: str, at: int | None = None) -> None:
        """Say what a word was taken for, by default the next."""
        assert self.notes is not None
        if len(self.notes) >= MOST_NOTES:
            self.fail(
                f"this is one word of more than {MOST_NOTES:,} that break rules; correct them"
            )
        if not self._offsets:  # at once, because notes may be many
            found = WORD.finditer(self.text)
            self._offsets = [match.start() for match in found if match.group(1) is not None]
        line, column = self.position(self.index if at is None else at)
        self.notes.append(f"{self.source}:{line}:{column}: {text}")

    def skip_colon(self, word: str) -> None:
        """Skip what, read leniently, may stand before the number of an entry."""
        if self.word == ":" and self.notes is not None:
            self.note(f"took the colon before the number of `{word}:` for a space")
            self.index += 1

    def is_row(self, count: int) -> bool:
        """Whether as many numbers come as a row has, which is read leniently for an entry."""
        if self.notes is None or count < 2:
            return False
        words = [*self.words[self.index : self.index + count + 1], ""]
        numbers = [NUMBER.fullmatch(word) is not None for word in words]
        return all(numbers[:count]) and len(numbers) > count and not numbers[count]

    def guess(self, known: Iterable[str], least: float = 0.7) -> bool:
        """Whether the next word, read leniently, was one of these misspelt; it is corrected."""
        word = self.word
        if self.notes is None or not NAME.fullmatch(word):
            return False
        if len(word) < 3:
            return len(set(word.upper())) == 1 and self._letter(word, known)
        names = {name.lower(): name for name in reversed(list(known))}
        if len(names) > MOST_NOTES:  # it would take long
            return False
        near = get_close_matches(word.lower(), names, 1, least)
        if not near:
            return False
        self.note(f"took `{word}` for `{names[near[0]]}`")
        self.words[self.index] = names[near[0]]
        return True

    def _letter(self, word: str, known: Iterable[str]) -> bool:
        """Whether a word such as OO or o stands before a colon for the statement O."""
        letter, follows = word[0].upper(), self.words[self.index + 1 : self.index + 2]
        if letter not in known or word == letter or follows != [":"]:
            return False
        self.note(f"took `{word}` for `{letter}`")
        self.words[self.index] = letter
        return True

    def mend(self, at: int) -> bool:
        """Whether a word, read leniently, was a number misspelt, as 0,5; it is corrected."""
        word = self.words[at] if at < len(self.words) else ""
        mended = re.sub(r"[.,]+", ".", word.replace("O", "0").replace("o", "0"))
        if self.notes is None or not re.match(r"[+-]?[\d.,Oo]*\d", word):
            return False
        for one in (mended, mended.rstrip(".")):
            if NUMBER.fullmatch(one):
                self.note(f"took `{word}` for `{one}`", at)
                self.words[at] = one
                return True
        return False

    def number(self, what: str) -> float:
        """The next word as a number."""
        if not NUMBER.fullmatch(self.word):
            self.mend(self.index)
        word = self.word
        value = float(word) if NUMBER.fullmatch(word) else math.nan
        if not math.isfinite(value):
            self.fail(f"{what} needs a finite number, got {self.shown()}")
        self.index += 1
        return value

    def numbers(self, count: int, what: str) -> np.ndarray:
        """The next `count` words as numbers."""
        words = self.words[self.index : self.index + count]
        for i, word in enumerate(words):
            if not NUMBER.fullmatch(word) and self.mend(self.index + i):
                words[i] = self.words[self.index + i]
        good = next((i for i, word in enumerate(words) if not NUMBER.fullmatch(word)), len(words))
        if good < count:
            at = self.index + good
            came = f"got {good} and then {self.shown(at)}"
            self.fail(f"{what} needs {count} number{'s' * (count > 1)}, {came}", at)
        values = np.array([float(word) for word in words])
        if not np.isfinite(values).all():
            at = self.index + int(np.argmin(np.isfinite(values)))
            self.fail(f"{what} must be finite, got {self.shown(at)}", at)
        self.index += count
        return values

    def shown(self, at: int | None = None) -> str:
        """A word as errors quote it."""
        at = self.index if at is None else at
        if at >= len(self.words):
            return "the end of the text"
        word = "".join(one if one.isprintable() else "?" for one in self.words[at])
        return f"`{word}`" if len(word) <= LONGEST else f"`{word[:LONGEST]}...`"

    def fail(self, rule: str, at: int | None = None) -> NoReturn:
        """Raise the error of a rule that is broken at a word, by default the next."""
        line, column = self.position(self.index if at is None else at)
        raise POMDPError(self.source, line, column, rule)

    def position(self, at: int) -> tuple[int, int]:
        """Line and column of a word, or of the end of the last one."""
        offset, count = 0, 0
        if at < len(self._offsets):
            offset = self._offsets[at]
            return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        for match in WORD.finditer(self.text):
            if match.group(1) is None:
                continue
            offset = match.start()
            if count == at:
                break
            offset, count = match.end(), count + 1
        return self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
