"""The .pomdp format: what breaks a rule is refused, with line, column and rule."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mdpnewton.files.pomdp_text import POMDPError, format_pomdp, parse_pomdp

HEAD = """discount: 0.9
values: reward
states: a b c
actions: go stay
observations: x y
"""
BODY = """T: * identity
O: * uniform
"""


def edit(old, new):
    assert old in HEAD
    return HEAD.replace(old, new)


# Text, line and column of the error, and a piece of its message.
MALFORMED = {
    "empty": ("", 1, 1, "`discount:` is missing"),
    "only a comment": ("# nothing\n", 1, 1, "`discount:` is missing"),
    "no discount": (edit("discount: 0.9\n", "") + BODY, 5, 1, "`discount:` is missing"),
    "no values": (edit("values: reward\n", "") + BODY, 5, 1, "`values:` is missing"),
    "no states": (edit("states: a b c\n", "") + BODY, 5, 1, "`states:` is missing"),
    "no actions": (edit("actions: go stay\n", "") + BODY, 5, 1, "`actions:` is missing"),
    "an MDP": (edit("observations: x y\n", "") + "T: * identity", 5, 1, "describes an MDP"),
    "discount above 1": (edit("0.9", "1.1"), 1, 11, "must be in [0, 1], got `1.1`"),
    "discount missing": (edit("0.9", ""), 2, 1, "needs a finite number, got `values`"),
    "infinite discount": (edit("0.9", "1e999"), 1, 11, "needs a finite number"),
    "discount twice": (HEAD + "discount: 0.5", 6, 1, "a second time; keep one"),
    "values": (edit("reward", "profit"), 2, 9, "reward or cost, got `profit`"),
    "no colon": (edit("states:", "states"), 3, 8, "`states` needs a colon"),
    "no states at all": (edit("a b c", "0"), 3, 9, "a count from 1 to 10000000, got `0`"),
    "too many states": (edit("a b c", "99999999999"), 3, 9, "a count from 1"),
    "numbers for names": (edit("a b c", "0 1 2"), 3, 11, "takes one count or names"),
    "endless word": (edit("a b c", "9" * 5000), 3, 9, f"got `{'9' * 40}...`"),
    "superscript": (HEAD + "T: ² identity", 6, 4, "expected action name, number or *, got `²`"),
    "a fraction of states": (edit("a b c", "2.5"), 3, 9, "needs a count or names"),
    "name that begins with a digit": (edit("a b c", "a 2b c"), 3, 11, "begin with a letter"),
    "name with a sign": (edit("a b c", "a b! c"), 3, 11, "got `b!`"),
    "name twice": (edit("a b c", "a b a"), 3, 13, "names `a` twice"),
    "reserved name": (edit("go stay", "start stay"), 4, 10, "a reserved word"),
    "reserved name later": (edit("go stay", "go reset"), 4, 13, "expected one of"),
    "unknown statement": (HEAD + "states:\n", 6, 1, "a second time"),
    "stray word": (HEAD + BODY + "hello", 8, 1, "expected one of discount"),
    "start before states": ("start: a\n" + HEAD, 1, 1, "must come after `states:`"),
    "start twice": (HEAD + "start: a\nstart: b\n", 7, 1, "`start` comes a second time"),
    "start too late": (HEAD + BODY + "start: a", 8, 1, "must come before the first T:"),
    "start too short": (HEAD + "start: 0.5 0.5\n" + BODY, 7, 1, "needs 3 numbers, got 2"),
    "start too long": (HEAD + "start: 0.5 0.5 0 0\n", 6, 18, "takes 3 numbers, `0` is one more"),
    "start of half": (HEAD + "start: 0.5 0 0\n", 6, 8, "must sum to 1, but sums to 0.5"),
    "start of no state": (HEAD + "start: d\n", 6, 8, "no state `d`: `states:` names a, b, c"),
    "start beyond": (HEAD + "start: 3\n", 6, 8, "no state `3`: 3 states are numbered from 0 to 2"),
    "start anywhere": (HEAD + "start: *\n", 6, 8, "write `start: uniform`"),
    "start reset": (HEAD + "start: reset\n", 6, 8, "expected state name, number or *"),
    "include nothing": (HEAD + "start include:\n" + BODY, 7, 1, "at least one state, got `T`"),
    "include all": (HEAD + "start include: *\n", 6, 16, "takes no *"),
    "exclude all": (HEAD + "start exclude: a b c\n", 6, 16, "leaves no state"),
    "include without colon": (HEAD + "start include a", 6, 15, "`start include` needs a colon"),
    "T without colon": (HEAD + "T go identity", 6, 3, "`T` needs a colon after it, got `go`"),
    "unknown action": (HEAD + "T: run identity", 6, 4, "no action `run`: `actions:` names go"),
    "action beyond": (HEAD + "T: 2 identity", 6, 4, "no action `2`"),
    "number for a name": (HEAD + "T: 0.5 identity", 6, 4, "expected action name, number or *"),
    "unknown state": (HEAD + "T: go : z : a 1", 6, 9, "no state `z`"),
    "probability above 1": (HEAD + "T: go : a : a 1.5", 6, 15, "from 0 to 1, got `1.5`"),
    "negative probability": (HEAD + "T: go : a\n1 0.5 -0.5", 7, 7, "from 0 to 1, got `-0.5`"),
    "word for a number": (HEAD + "T: go : a : a one", 6, 15, "needs a finite number, got `one`"),
    "NaN": (HEAD + "T: go : a : a nan", 6, 15, "needs a finite number, got `nan`"),
    "underscore": (HEAD + "T: go : a : a 1_0", 6, 15, "got `1_0`"),
    "two points": (HEAD + "T: go : a\n1 0 0..0", 7, 5, "needs 3 numbers, got 2 and then `0..0`"),
    "end within a row": (HEAD + "T: go : a\n1 0", 7, 4, "got 2 and then the end of the text"),
    "row too long": (HEAD + "T: go : a\n1 0 0\n0", 8, 1, "takes 3 numbers, `0` is one more"),
    "matrix too short": (HEAD + "T: go\n1 0 0\n0 1 0\nO: go", 9, 1, "needs 9 numbers, got 6"),
    "number after single": (HEAD + "T: go : a : a 1 0", 6, 17, "has too many numbers"),
    "identity in a row": (HEAD + "T: go : a identity", 6, 11, "write T: action identity"),
    "reset of a matrix": (HEAD + "T: go reset", 6, 7, "write T: action : * reset"),
    "identity of O": (HEAD + "O: go identity", 6, 7, "only T has it"),
    "reset of O": (HEAD + "O: go : a reset", 6, 11, "only T has it"),
    "unknown observation": (HEAD + "O: go : a : z 1", 6, 13, "no observation `z`"),
    "R of an MDP": (HEAD + "R: go 1 2 3", 6, 7, "is for MDPs"),
    "R row too short": (HEAD + "R: go : a : b 1", 6, 16, "needs 2 numbers, got 1"),
    "R too long": (HEAD + "R: go : a : b 1 2 3", 6, 19, "takes 2 numbers, `3` is one more"),
    "R uniform": (HEAD + "R: go : a uniform", 6, 11, "needs 6 numbers, got 0 and then `uniform`"),
    "R infinite": (HEAD + "R: go : a : b 1 1e400", 6, 17, "must be finite"),
    "row sums to more": (HEAD + "T: * identity\nT: go : b : c 0.25\n" + BODY[14:], 7, 1,
                         "`T: go : b` must sum to 1, but sums to 1.25"),
    "row is missing": (HEAD + "T: go identity\nO: * uniform", 7, 13, "`T: stay : a` is missing"),
    "O is missing": (HEAD + "T: * identity\n", 6, 14, "`O: go : a` is missing"),
    "O sums to less": (HEAD + BODY + "O: stay : c\n0.5 0.4", 8, 1, "`O: stay : c` must sum to 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_text_is_refused_where_it_breaks_a_rule(name):
    text, line, column, message = MALFORMED[name]
    with pytest.raises(POMDPError) as error:
        parse_pomdp(text, "some.pomdp")
    assert str(error.value).startswith(f"some.pomdp:{line}:{column}: ")
    assert (error.value.line, error.value.column) == (line, column)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@given(st.text(alphabet="TOR:*# \n.+-01ab", max_size=60))
@settings(max_examples=200, deadline=None)
def test_no_text_ends_in_another_error(text):
    with contextlib.suppress(POMDPError):
        parse_pomdp(HEAD + text)


def test_a_discount_of_one_is_total_reward():
    model = parse_pomdp(edit("0.9", "1.0") + BODY)
    assert (model.criterion, model.discount) == ("total", 1.0)
    assert parse_pomdp(format_pomdp(model)).criterion == "total"


# Text, line and column of the strict error, what the lenient note says.
NEARLY = {
    "rewards": (edit("reward", "rewards") + BODY, 2, 9, "took `rewards` for `reward`"),
    "Cost": (edit("reward", "Cost") + BODY, 2, 9, "took `Cost` for `cost`"),
    "several starts": (HEAD + "start: a c\n" + BODY, 6, 10, "took 2 states after `start:`"),
    "numbered starts": (HEAD + "start: 0 2\n" + BODY, 7, 1, "took 2 whole numbers"),
    "glued": (HEAD + BODY + "T:go:a:a:1.0", 8, 9, "took the colon before the number of `T:`"),
    "glued O": (HEAD + BODY + "O:go:a:x:.5", 8, 9, "took the colon before the number of `O:`"),
    "glued R": (HEAD + BODY + "R:go:a:a:x:5", 8, 11, "took the colon before the number of `R:`"),
    "statement": (edit("states", "sates") + BODY, 3, 1, "took `sates` for `states`"),
    "shape": (HEAD + "T: * idenity\nO: * uniform", 6, 6, "took `idenity` for `identity`"),
    "shape of a row": (HEAD + BODY + "O: go : a unifrom", 8, 11, "took `unifrom` for `uniform`"),
    "name": (HEAD + BODY + "R: styy : * : * : * 1", 8, 4, "took `styy` for `stay`"),
    "doubled": (HEAD + BODY + "OO: go : a : x 1\nO: go : a : y 0", 8, 1, "took `OO` for `O`"),
    "small": (HEAD + BODY + "r: go : * : * : * 1", 8, 1, "took `r` for `R`"),
    "no discount": (edit("discount: 0.9\n", "") + BODY, 5, 1, "took the missing `discount:` for 1"),
    "a row": (
        HEAD + BODY + "O: go : a : x 0 1",
        8,
        17,
        "took the 2 numbers for the row `O: go",
    ),
    "a sum": (HEAD + BODY + "O: go : a 0.4 0.7", 8, 1, "took `O: go : a`, which sums to 1.1, for"),
    "comma": (HEAD + BODY + "R: go : * : * : * 0,5", 8, 19, "took `0,5` for `0.5`"),
    "points": (HEAD + BODY + "O: go : a\n0..5 .5", 9, 1, "took `0..5` for `0.5`"),
}
ROWS = {"a row": [0, 1], "a sum": [4 / 11, 7 / 11], "points": [0.5, 0.5]}


@pytest.mark.parametrize("name", NEARLY)
def test_what_is_nearly_right_is_refused_with_its_place_and_read_leniently(name):
    text, line, column, message = NEARLY[name]
    with pytest.raises(POMDPError) as error:
        parse_pomdp(text, "some.pomdp")
    assert (error.value.line, error.value.column) == (line, column)
    notes = []
    model = parse_pomdp(text, "some.pomdp", notes)
    assert len(notes) == 1
    assert notes[0].startswith(f"some.pomdp:{line - (name == 'numbered starts')}:")
    assert message in notes[0]
    if "starts" in name:
        assert model.start.tolist() == [0.5, 0, 0.5]
    if name in ROWS:
        np.testing.assert_allclose(model.observation[0][0], ROWS[name])


def test_lenient_reading_takes_nothing_for_what_it_may_not_be():
    far = HEAD + BODY + "O: go : a 0.4 0.9", HEAD + BODY + "O: go : a : x 0 1 0"
    for text in (HEAD + "T: fly identity", HEAD + BODY + "hello", edit("0.9", "x"), *far):
        with pytest.raises(POMDPError):
            parse_pomdp(text, "some.pomdp", [])
    notes = []
    parse_pomdp(HEAD + BODY, "some.pomdp", notes)
    assert notes == []


def test_many_small_mistakes_are_read_quickly_and_too_many_are_refused():
    notes = []
    parse_pomdp(HEAD + BODY + "R:go:a:a:x:5\n" * 900, "some.pomdp", notes)
    assert len(notes) == 900
    assert notes[-1].startswith("some.pomdp:907:11: ")
    with pytest.raises(POMDPError, match="one word of more than 1,000"):
        parse_pomdp(HEAD + BODY + "R:go:a:a:x:5\n" * 1_100, "some.pomdp", [])
