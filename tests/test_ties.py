"""Numbers of the documentation are those of the files of results: one wrong digit is found."""

import json
import re
from pathlib import Path

import pytest
import ties

DOCS = ties.DOCS
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if ties.TABLE.search(page.read_text()) or ties.LINK.search(page.read_text())
)
EXPERIMENTS = sorted((DOCS / "experiments").glob("*.md"))
SETTINGS = {"in the paper", "damping", "time of a run"}  # columns without results of ours
DIGITS = re.compile(r"\d")


def titled(page):
    return str(page.relative_to(DOCS))


@pytest.mark.parametrize("page", PAGES, ids=titled)
def test_the_numbers_of_a_page_are_those_of_the_files(page):
    assert ties.differences(page, page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=titled)
def test_one_changed_digit_is_found(page):
    """Every digit of a tied number, changed alone, makes the test above fail."""
    text = page.read_text()
    places = [match.span(1) for match in ties.LINK.finditer(text)]
    for match in ties.TABLE.finditer(text):
        columns = [field.strip() for field in match["columns"].split(" | ")]
        for line, there, said in ties.table_cells(page, match):
            at = text.index(line, match.start("body")) + len(f"| {there[0]}")
            assert len(said) == len(columns)
            for cell, other in zip(there[1:], said, strict=True):
                at = text.index(cell, at)
                if other is not None:
                    places.append((at, at + len(cell)))
                at += len(cell)
    assert places
    for start, end in places:
        digits = [start + found.start() for found in DIGITS.finditer(text[start:end])]
        for at in digits[:1] + digits[-1:]:
            wrong = text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]
            assert ties.differences(page, wrong), text[start:end]


def test_rewriting_mends_a_wrong_digit_and_nothing_else():
    page = DOCS / "experiments" / "cartpole.md"
    text = page.read_text()
    wrong = text.replace("46.0 ± 1.1", "47.0 ± 1.1")
    assert wrong != text
    assert ties.rewritten(page, wrong) == text


@pytest.mark.parametrize("page", EXPERIMENTS, ids=titled)
def test_every_table_of_an_experiment_names_its_file(page):
    text = page.read_text()
    assert ties.untied(text) == []
    for match in ties.TABLE.finditer(text):
        heads = ties.cells(match["head"].splitlines()[0])[1:]
        fields = [field.strip() for field in match["columns"].split(" | ")]
        free = {head for head, field in zip(heads, fields, strict=True) if field == "-"}
        assert free <= SETTINGS


def test_the_overview_has_no_number_of_ours_without_a_file():
    for line in re.findall(r"\*\*Here\*\*: (.*)", (DOCS / "results.md").read_text()):
        assert not DIGITS.search(ties.LINK.sub("", line).replace("H12", "").replace("A1", "")), line


def claims():
    """The rows of the verdict tables: claim, verdict, our number, how to repeat."""
    page = (DOCS / "verdicts.md").read_text().split("\n## Defects")[0]
    tables = [table[0].splitlines()[2:] for table in ties.ANY_TABLE.finditer(page)]
    return [ties.cells(ties.LINK.sub(r"<\1>", line)) for table in tables for line in table]


def test_every_claim_has_one_of_four_verdicts():
    rows = claims()
    assert len(rows) >= 45
    for row in rows:
        assert len(row) == 4, row
        assert re.match(r"(holds|in part|does not|not decided)\b", row[1]), row
        assert row[2] or row[3] or row[1].startswith("not decided"), row
        assert row[3] or row[1].startswith("not decided"), row


def test_a_verdict_has_no_number_of_ours_without_a_file():
    names = r"\b(H12|H1|H2|A1|A2|\d+x\d+|eq\. \(\d+\))"  # of matrices, boards and equations
    for _, _, number, _ in claims():
        bare = re.sub(r"<[^>]*>|" + names, "", number)
        assert not DIGITS.search(bare), number


def test_tests_that_the_verdicts_name_exist():
    text = (DOCS / "verdicts.md").read_text()
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", text))
    assert len(named) > 40
    assert not [name for name in named if f"def {name}(" not in tests]


def test_the_verdicts_are_linked_from_the_first_screen_and_the_navigation():
    root = DOCS.parent
    assert "docs/verdicts.md" in "\n".join((root / "README.md").read_text().splitlines()[:25])
    assert "verdicts.md" in (root / "mkdocs.yml").read_text()


def test_every_file_of_results_is_named_on_a_page():
    pages = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    for path in sorted((DOCS / "results").rglob("*.json")):
        if path.name in ("config.json", "weights.json"):
            continue
        folder = path.parent.relative_to(DOCS).as_posix()
        anyone = folder.rsplit("/", 1)[0] + "/*/results.json"
        assert f"{folder}/" in pages or anyone in pages, path
        if path.name != "results.json":
            assert path.name in pages or f"{folder}/*.json" in pages, path


def test_formats_are_those_of_the_pages(tmp_path):
    path = tmp_path / "results.json"
    row = {"mean": 1234.56, "stderr": 0.5}
    gap = {"mean": 1.0, "low": -2.0, "high": 4.0}
    path.write_text(json.dumps({"a": row, "b": gap, "c": [None, 4e-7, 2], "d": {"e": 0.125}}))
    told = {
        "a:,.1f": "1,234.6 ± 0.5",
        "b:+.1f": "+1.0 [-2.0, +4.0]",
        "c.1:.1e": "4.0e-7",
        "c.0:.1f": "-",
        "{c.known} of {c.count}": "2 of 3",
        "c.median:.0f": "2",
        "c.quartiles:g": "2 (4e-7, -)",
        "d.e:.1%": "12.5 %",
        "d.nothing:.1f": "",
    }
    assert {field: ties.filled(field, path) for field in told} == told
