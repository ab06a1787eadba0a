"""Numbers of the documentation and the files of results that they come from.

A field names an entry of a file, and how it is shown, as in `str.format`:

    methods.natural.final:.1f         42.2 ± 1.4 (a mean with its standard error)
    differences.natural.random:+.1f   -1.1 [-5.4, +3.3] (a difference with its interval)
    methods.natural.swung_up:.0%      40 %
    methods.natural.finals.median:.0f (of a list: a name in `OF_LISTS`, or the number of an element)

Text with several fields has them in braces. There are two places for them:

- `[42.2 ± 1.4](results/cartpole/results.json "methods.natural.final:.1f")`, a link with its title;
- a comment in front of a table: the file, the names of the rows, and a field for every column but
  the first; `*` stands for the name of the row and `-` for a column without results of ours. An
  entry that is not there, as the difference of a method to itself, is an empty cell.

`python tests/ties.py` writes all of them anew.
"""

import json
import re
import sys
from functools import cache
from pathlib import Path
from statistics import fmean, median

DOCS = Path(__file__).parents[1] / "docs"
LINK = re.compile(r'\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+\.json)\s+"([^"]+)"\)')
TABLE = re.compile(
    r"<!-- numbers of (?P<file>\S+)\n(?P<rows>(?:.+\n)+?)(?P<columns>.+)\n-->\n\n"
    r"(?P<head>\|.*\n\|[-:| ]+\|\n)(?P<body>(?:\|.*\n)+)"
)
ANY_TABLE = re.compile(r"^ *\|.*\n *\|[-:| ]+\|\n(?: *\|.*\n)+", re.M)


def quartiles(values):
    """The median with the quartiles beside it; None counts as infinity."""
    filled = sorted(float("inf") if x is None else x for x in values)
    low, middle, high = (filled[round(q * (len(filled) - 1))] for q in (0.25, 0.5, 0.75))
    return {"middle": middle, "low": low, "high": high}


OF_LISTS = {
    "mean": fmean,
    "median": lambda values: median(float("inf") if x is None else x for x in values),
    "min": min,
    "max": max,
    "sum": sum,
    "count": len,
    "quartiles": quartiles,
    "milliseconds": lambda values: [None if x is None else 1000 * x for x in values],
    "below_a_tenth": lambda values: sum(x < 0.1 for x in values),
    "known": lambda values: sum(x is not None for x in values),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


class Entry:
    """An entry of a file of results; its attributes are the entries in it."""

    def __init__(self, value):
        self.value = value

    def __getattr__(self, name):
        return self[name]

    def __getitem__(self, name):
        if isinstance(self.value, list):
            reduce = OF_LISTS.get(name)
            return Entry(reduce(self.value) if reduce else self.value[int(name)])
        return Entry(self.value[name])

    def __format__(self, how):
        if isinstance(self.value, dict) and "stderr" in self.value:
            return " ± ".join(shown(self.value[name], how) for name in ("mean", "stderr"))
        if isinstance(self.value, dict) and "middle" in self.value:
            text = "{0[middle]} ({0[low]}, {0[high]})"
            return text.format({name: shown(x, how) for name, x in self.value.items()})
        if isinstance(self.value, dict):
            middle, low, high = (shown(self.value[name], how) for name in ("mean", "low", "high"))
            return f"{middle} [{low}, {high}]"
        return shown(self.value, how)


def shown(value, how):
    """A number in the format; 4.0e-4 and 12 % as the pages write them, "-" for no number."""
    if value is None or value == float("inf"):
        return "-"
    text = format(value, how).replace("%", " %")
    return re.sub(r"e([+-])0*(\d)", lambda part: f"e{part[1].strip('+')}{part[2]}", text)


@cache
def results(path):
    """What is in a file."""
    return json.loads(path.read_text())


def filled(template, path):
    """The text with its fields from the file; empty if an entry is not there."""
    template = template if "{" in template else f"{{{template}}}"
    try:
        return template.format_map(Entry(results(path)))
    except (KeyError, IndexError):
        return ""


def cells(line):
    """The cells of a row of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split(" |")]


def plain(cell):
    """A cell without its emphasis."""
    return cell.replace("*", "").strip()


def table_cells(page, match):
    """The cells of a tied table: for each row, what is there and what the file says."""
    names = match["rows"].split()
    fields = [field.strip() for field in match["columns"].split(" | ")]
    lines = [line for line in match["body"].splitlines() if any(map(plain, cells(line)[1:]))]
    assert len(lines) == len(names), (page, names, len(lines))
    for line, name in zip(lines, names, strict=True):
        path = (page.parent / match["file"].replace("*", name)).resolve()
        there = cells(line)
        assert len(there) == len(fields) + 1, (page, line)
        said = [
            None if field == "-" else filled(field.replace("*", name), path) for field in fields
        ]
        yield line, there, said


def differences(page, text):
    """What a page says otherwise than the files: pairs of what is there and what should be."""
    found = []
    for there, target, field in LINK.findall(text):
        said = filled(field, (page.parent / target).resolve())
        if there != said:
            found.append((there, said))
    for match in TABLE.finditer(text):
        for _, there, said in table_cells(page, match):
            pairs = zip(there[1:], said, strict=True)
            found += [(one, other) for one, other in pairs if other not in (None, plain(one))]
    return found


def rewritten(page, text):
    """The page with the numbers of the files."""

    def link(match):
        said = filled(match[3], (page.parent / match[2]).resolve())
        return f'[{said}]({match[2]} "{match[3]}")'

    def table(match):
        body = match["body"]
        for line, there, said in table_cells(page, match):
            new = [
                one if other is None else other for one, other in zip(there[1:], said, strict=True)
            ]
            body = body.replace(line, f"| {' | '.join([there[0], *new])} |".replace("|  |", "| |"))
        return match[0].removesuffix(match["body"]) + body

    return TABLE.sub(table, LINK.sub(link, text))


def untied(text):
    """Tables that no comment ties to a file."""
    tied = {match["head"] + match["body"] for match in TABLE.finditer(text)}
    return [table[0] for table in ANY_TABLE.finditer(text) if table[0] not in tied]


if __name__ == "__main__":
    for name in sys.argv[1:] or sorted(map(str, DOCS.rglob("*.md"))):
        page = Path(name).resolve()
        page.write_text(rewritten(page, page.read_text()))
