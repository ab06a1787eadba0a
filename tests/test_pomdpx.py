"""POMDPX: flat and factored models, and XML that is not read."""

import numpy as np
import pytest

import mdpnewton as mn
from mdpnewton.files.pomdp_text import format_pomdp, parse_pomdp
from mdpnewton.files.pomdpx import POMDPXError, parse_pomdpx

TIGER = """<?xml version="1.0" encoding="ISO-8859-1"?>
<pomdpx version="1.0" id="tiger" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<Description>The tiger problem</Description>
<Discount>0.95</Discount>
<Variable>
  <StateVar vnamePrev="door0" vnameCurr="door1" fullyObs="false">
    <ValueEnum>left right</ValueEnum>
  </StateVar>
  <ObsVar vname="sound"><ValueEnum>hear-left hear-right</ValueEnum></ObsVar>
  <ActionVar vname="act"><ValueEnum>listen open-left open-right</ValueEnum></ActionVar>
  <RewardVar vname="r"/>
</Variable>
<InitialStateBelief>
  <CondProb><Var>door0</Var><Parent>null</Parent>
    <Parameter type="TBL">
      <Entry><Instance>-</Instance><ProbTable>uniform</ProbTable></Entry>
    </Parameter>
  </CondProb>
</InitialStateBelief>
<StateTransitionFunction>
  <CondProb><Var>door1</Var><Parent>act door0</Parent>
    <Parameter type="TBL">
      <Entry><Instance>* - -</Instance><ProbTable>uniform</ProbTable></Entry>
      <Entry><Instance>listen - -</Instance><ProbTable>identity</ProbTable></Entry>
    </Parameter>
  </CondProb>
</StateTransitionFunction>
<ObsFunction>
  <CondProb><Var>sound</Var><Parent>act door1</Parent>
    <Parameter type="TBL">
      <Entry><Instance>* * -</Instance><ProbTable>0.5 0.5</ProbTable></Entry>
      <Entry><Instance>listen - -</Instance><ProbTable>0.85 0.15 0.15 0.85</ProbTable></Entry>
    </Parameter>
  </CondProb>
</ObsFunction>
<RewardFunction>
  <Func><Var>r</Var><Parent>act door0</Parent>
    <Parameter type="TBL">
      <Entry><Instance>listen *</Instance><ValueTable>-1</ValueTable></Entry>
      <Entry><Instance>open-left -</Instance><ValueTable>-100 10</ValueTable></Entry>
      <Entry><Instance>open-right -</Instance><ValueTable>10 -100</ValueTable></Entry>
    </Parameter>
  </Func>
</RewardFunction>
</pomdpx>
"""


def test_the_tiger_is_the_one_of_the_package():
    found, known = parse_pomdpx(TIGER), mn.load_pomdp("tiger")
    for name in ("transition", "observation", "reward", "start"):
        np.testing.assert_allclose(getattr(found, name), getattr(known, name), atol=1e-12)
    assert found.discount == known.discount
    assert found.actions == ("listen", "open-left", "open-right")


def factored():
    """A robot on a line of two cells, which it sees, and a rock that is good or bad."""

    def cond(var, parents, entries, tag="CondProb", table="ProbTable"):
        rows = "".join(
            f"<Entry><Instance>{instance}</Instance><{table}>{values}</{table}></Entry>"
            for instance, values in entries
        )
        about = f"<Var>{var}</Var><Parent>{parents}</Parent>"
        return f"<{tag}>{about}<Parameter>{rows}</Parameter></{tag}>"

    return (
        "<pomdpx><Discount>1</Discount><Variable>"
        '<StateVar vnamePrev="x0" vnameCurr="x1" fullyObs="true">'
        "<NumValues>2</NumValues></StateVar>"
        '<StateVar vnamePrev="rock0" vnameCurr="rock1"><ValueEnum>good bad</ValueEnum></StateVar>'
        '<ObsVar vname="look"><ValueEnum>good bad</ValueEnum></ObsVar>'
        '<ActionVar vname="a"><ValueEnum>move check</ValueEnum></ActionVar>'
        '<RewardVar vname="r"/><RewardVar vname="q"/></Variable><InitialStateBelief>'
        + cond("x0", "null", [("-", "1 0")])
        + cond("rock0", "null", [("-", "uniform")])
        + "</InitialStateBelief><StateTransitionFunction>"
        + cond("x1", "a x0", [("move * -", "0 1"), ("check - -", "identity")])
        + cond("rock1", "rock0", [("- -", "identity")])
        + "</StateTransitionFunction><ObsFunction>"
        + cond("look", "a rock1", [("* * -", "0.5 0.5"), ("check good -", "0.9 0.1"),
                                   ("check bad -", "0.1 0.9")])
        + "</ObsFunction><RewardFunction>"
        + cond("r", "a x0 x1 rock0", [("move s0 s1 good", "10"), ("move s0 s1 bad", "-10")],
               "Func", "ValueTable")
        + cond("q", "look", [("good", "0.5")], "Func", "ValueTable")
        + "</RewardFunction></pomdpx>"
    )  # fmt: skip


def test_a_factored_model_is_the_product_of_its_variables():
    found = parse_pomdpx(factored())
    assert found.states == ("s0_good", "s0_bad", "s1_good", "s1_bad")
    assert found.observations == ("good_s0", "good_s1", "bad_s0", "bad_s1")
    assert (found.criterion, found.discount) == ("total", 1.0)
    expected = np.zeros((2, 4, 4))
    for cell in range(2):
        for rock in range(2):
            expected[0, 2 * cell + rock, 2 + rock] = 1
            expected[1, 2 * cell + rock, 2 * cell + rock] = 1
    np.testing.assert_allclose(found.transition, expected)
    np.testing.assert_allclose(found.observation[1, 0], [0.9, 0, 0.1, 0])
    np.testing.assert_allclose(found.observation[0, 3], [0, 0.5, 0, 0.5])
    np.testing.assert_allclose(found.reward[:, 0], [10.25, -9.75, 0.25, 0.25])
    np.testing.assert_allclose(found.reward[:, 1], [0.45, 0.05, 0.45, 0.05])
    again = parse_pomdp(format_pomdp(found))
    np.testing.assert_allclose(again.transition, found.transition)


BOMB = """<?xml version="1.0"?>
<!DOCTYPE pomdpx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>
<pomdpx><Discount>&c;</Discount></pomdpx>"""
OUTSIDE = """<!DOCTYPE pomdpx [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<pomdpx><Discount>&a;</Discount></pomdpx>"""
BAD = {
    "a bomb": (BOMB, 2, "has a document type or an entity"),
    "from outside": (OUTSIDE, 1, "has a document type or an entity"),
    "a document type": ("<!DOCTYPE pomdpx SYSTEM 'x.dtd'><pomdpx/>", 1, "document type"),
    "an entity": ("<pomdpx>&a;</pomdpx>", 1, "is no whole XML: undefined entity"),
    "no end": ("<pomdpx>", 1, "is no whole XML: no element found"),
    "empty": ("", 1, "is no whole XML"),
    "depth": ("<a>" * 100, 1, "too deep"),
    "another root": ("<html/>", 1, "needs the root `pomdpx`, got `html`"),
    "no variables": ("<pomdpx>\n<Discount>1</Discount></pomdpx>", 1, "needs one `Variable`, got 0"),
    "a diagram": (TIGER.replace('"TBL"', '"DD"'), 0, "decision diagrams are not read"),
    "a sum": (TIGER.replace("0.85 0.15 0.15", "0.8 0.1 0.15"), 28, "sums to 0.9 for action listen"),
    "too few": (TIGER.replace("0.85 0.15 0.15 0.85", "0.85 0.15"), 32, "needs 4 numbers, got 2"),
    "a value": (TIGER.replace("open-left -<", "open -<"), 0, "there is no value 'open' of act"),
    "a variable": (TIGER.replace("act door0</P", "act dor0</P"), 0, "names 'dor0'; it may depend"),
    "words": (TIGER.replace("listen - -", "listen -"), 0, "`Instance` needs 3 words, got 2"),
    "discount": (TIGER.replace("0.95", "2"), 4, "must be in [0, 1], got 2"),
    "negative": (TIGER.replace("0.85 0.15 0.15", "1.15 -.15 0.15"), 32, "negative or not finite"),
    "too large": (
        TIGER.replace("<ValueEnum>left right</ValueEnum>", "<NumValues>5000</NumValues>"),
        5,
        "more than the 5,000 states or 20,000,000 entries",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_breaks_a_rule_is_refused_in_one_line_with_its_place(name):
    text, line, message = BAD[name]
    with pytest.raises(POMDPXError) as error:
        parse_pomdpx(text, "some.pomdpx")
    assert message in str(error.value)
    assert str(error.value).startswith(f"some.pomdpx:{line or ''}")
    assert "\n" not in str(error.value)


def test_a_file_is_read_by_its_name(tmp_path):
    path = tmp_path / "tiger.pomdpx"
    path.write_text(TIGER)
    assert mn.load_pomdp(path).n_states == 2
