"""From the elements of a POMDPX text to the model."""

import math
from collections.abc import Sequence

import numpy as np

from mdpnewton.files.pomdpx.tables import (
    MOST_ENTRIES,
    Variable,
    joint_names,
    size,
    spread,
    table_of,
    words_of,
)
from mdpnewton.files.pomdpx.tree import Element, POMDPXError, tree
from mdpnewton.models.pomdp import FinitePOMDP

MOST_STATES = 5_000  # of the product of all state variables
ROUND = 1e-5  # how far from 1 a sum of probabilities may be, as in .pomdp texts


def parse_pomdpx(text: str, source: str = "text") -> FinitePOMDP:
    """The model that a POMDPX text describes (https://bigbird.comp.nus.edu.sg/pmwiki/farm/appl/).

    Several state, action, observation or reward variables become one each: names are joined by
    "_", and rewards are added. Tables are of type TBL, with "*" and "-" in instances, `uniform` and
    `identity`; decision diagrams (DD) are refused, and so are document types and entities. The
    product may have 5,000 states.

    Args:
        text: The whole text.
        source: Name of the text in errors.

    Raises:
        POMDPXError: The text breaks a rule; the message is `source:line: rule`.
    """
    root = tree(text, source)
    if root.tag.lower() != "pomdpx":
        raise POMDPXError(f"{source}:{root.line}: needs the root `pomdpx`, got `{root.tag}`.")
    return _Reader(root).model()


class _Reader:
    def __init__(self, root: Element):
        self.root = root

    def one(self, name: str) -> Element:
        """The one element of this name."""
        found = self.root.all(name)
        if len(found) != 1:
            self.root.fail(f"needs one `{name}`, got {len(found)}")
        return found[0]

    def model(self) -> FinitePOMDP:
        declared = self.one("Variable")
        self.states = [self._variable(each) for each in declared.all("StateVar")]
        self.actions = [self._variable(each) for each in declared.all("ActionVar")]
        shown = [
            self._variable(each)
            for each in declared.all("StateVar")
            if each.attributes.get("fullyObs", "").lower() in ("true", "1")
        ]
        self.shown = {each.after: f"{each.after} seen" for each in shown}
        seen = [self._variable(each) for each in declared.all("ObsVar")]
        self.seen = seen + [
            Variable(name, name, v.values)
            for v, name in zip(shown, self.shown.values(), strict=True)
        ]
        for kind, found in (("StateVar", self.states), ("ActionVar", self.actions)):
            if not found:
                declared.fail(f"needs at least one `{kind}`")
        if not self.seen:
            declared.fail("needs at least one `ObsVar`, or a state variable with fullyObs")
        S, A, n_seen = (size(each) for each in (self.states, self.actions, self.seen))
        if S > MOST_STATES or S * S * A > MOST_ENTRIES or S * A * n_seen > MOST_ENTRIES:
            declared.fail(
                f"has {S:,} states, {A:,} actions and {n_seen:,} observations in all, more than "
                f"the {MOST_STATES:,} states or {MOST_ENTRIES:,} entries that are read"
            )
        discount = self._number(self.one("Discount"))
        if not 0 <= discount <= 1:
            self.one("Discount").fail(f"must be in [0, 1], got {discount:g}")
        start = self._product(self.one("InitialStateBelief"), "CondProb", self.states, "start")
        T = self._product(self.one("StateTransitionFunction"), "CondProb", self.states, "after")
        observed = self.root.all("ObsFunction") or [Element("ObsFunction", self.root.line, {}, [])]
        Z = self._product(observed[0], "CondProb", self.seen, "seen")
        return self._model(discount, start.reshape(S), T.reshape(A, S, S), Z.reshape(A, S, n_seen))

    def _model(
        self, discount: float, start: np.ndarray, T: np.ndarray, Z: np.ndarray
    ) -> FinitePOMDP:
        reward = self._rewards(T, Z)
        for name, table in (("InitialStateBelief", start[None]), ("StateTransitionFunction", T),
                            ("ObsFunction", Z)):  # fmt: skip
            sums = table.sum(axis=-1, keepdims=True)
            if (np.abs(sums - 1) > ROUND).any():
                worst = np.unravel_index(int(np.argmax(np.abs(sums - 1))), sums.shape)
                place = ""
                if table.ndim == 3:
                    action = joint_names(self.actions)[worst[0]]
                    state = joint_names(self.states)[worst[1]]
                    place = f" for action {action}, state {state}"
                (self.root.all(name) or [self.root])[0].fail(
                    f"must sum to 1, but sums to {sums[worst]:.8g}{place}"
                )
            table /= sums
        return FinitePOMDP(
            T,
            Z,
            reward,
            start,
            discount,
            states=joint_names(self.states),
            actions=joint_names(self.actions),
            observations=joint_names(self.seen),
            criterion="total" if discount == 1 else "discounted",
        )

    def _variable(self, element: Element) -> Variable:
        given = element.attributes
        now = given.get("vnamePrev", given.get("vname", ""))
        after = given.get("vnameCurr", given.get("vname", ""))
        if not now or not after:
            element.fail(f"`{element.tag}` needs `vname`, or `vnamePrev` and `vnameCurr`")
        counts, lists = element.all("NumValues"), element.all("ValueEnum")
        if lists:
            values = tuple(lists[0].text.split())
        elif counts:
            count = int(self._number(counts[0]))
            if not 1 <= count <= MOST_STATES:
                counts[0].fail(f"needs from 1 to {MOST_STATES} values, got {count}")
            letter = {"StateVar": "s", "ActionVar": "a"}.get(element.tag, "o")
            values = tuple(f"{letter}{i}" for i in range(count))
        else:
            values = ()
        if not values or len(set(values)) != len(values):
            element.fail(f"`{element.tag}` needs `NumValues`, or a `ValueEnum` of words")
        return Variable(now, after, values)

    def _number(self, element: Element) -> float:
        words = element.text.split()
        try:
            value = float(words[0]) if len(words) == 1 else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            element.fail(f"`{element.tag}` needs a number, got {element.text.strip()[:40]!r}")
        return value

    def _product(
        self, element: Element, tag: str, made: Sequence[Variable], kind: str
    ) -> np.ndarray:
        """The product of all tables of conditional probabilities, over (actions, states, made)."""
        given = self._axes(kind)
        axes = [*given, *[(each.now if kind == "start" else each.after, each) for each in made]]
        total = np.ones([len(each.values) for _, each in axes])
        found: set[str] = set()
        for each in element.all(tag):
            names, table = table_of(each, dict(axes))
            made_here = words_of(each, "Var")
            if found & set(made_here):
                each.fail(f"gives the probabilities of {made_here[0]} a second time")
            found |= set(made_here)
            total = total * spread(table, names, [name for name, _ in axes])
        if kind == "seen":  # variables of the state that are observed as they are
            for after, name in self.shown.items():
                same = np.eye(len(dict(axes)[name].values))
                total = total * spread(same, [after, name], [each for each, _ in axes])
                found.add(name)
        wanted = {name for name, _ in axes[len(axes) - len(made) :]}
        if found != wanted:
            element.fail(f"gives no probabilities of {', '.join(sorted(wanted - found))}")
        return total

    def _axes(self, kind: str) -> list[tuple[str, Variable]]:
        """What a table may depend on: actions, and states before or after the step."""
        if kind == "start":
            return []
        actions = [(each.now, each) for each in self.actions]
        side = [(each.after if kind == "seen" else each.now, each) for each in self.states]
        return actions + side

    def _rewards(self, T: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """The expected reward of every pair, (S, A); the rewards of all variables are added."""
        before = [(each.now, each) for each in self.states]
        after = [(each.after, each) for each in self.states]
        seen = [(each.now, each) for each in self.seen]
        S, A = size(self.states), size(self.actions)
        total = np.zeros((A, S))
        axes = [*[(each.now, each) for each in self.actions], *before]
        for each in self.one("RewardFunction").all("Func"):
            names, table = table_of(each, dict([*axes, *after, *seen]))
            known = [name for name, _ in axes]
            late = [one for one in after if one[0] in names]
            looks = [one for one in seen if one[0] in names]
            order = [*known, *([name for name, _ in after] if late or looks else []),
                     *([name for name, _ in seen] if looks else [])]  # fmt: skip
            whole = spread(table, names, order)
            shape = [len(v.values) for _, v in [*axes, *(after if late or looks else []),
                                                *(seen if looks else [])]]  # fmt: skip
            if math.prod(shape) > MOST_ENTRIES:
                each.fail(f"has rewards of more than {MOST_ENTRIES:,} outcomes")
            whole = np.broadcast_to(whole, shape)
            if looks:
                whole = np.einsum("ato,asto->ast", Z, whole.reshape(A, S, S, -1))
            if late or looks:
                total += np.einsum("ast,ast->as", T, whole.reshape(A, S, S))
            else:
                total += whole.reshape(A, S)
        return total.T.copy()
