"""The tables of experiments fit a terminal of 80 columns, with every heading whole."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from mdpnewton.experiments import EXPERIMENTS

RESULTS = Path(__file__).parents[1] / "docs" / "results"
FOLDERS = sorted(path.parent for path in RESULTS.rglob("config.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(RESULTS)))
def test_a_table_is_not_cut_at_80_columns(folder):
    name = json.loads((folder / "config.json").read_text())["experiment"]
    table = EXPERIMENTS[name].load().table(json.loads((folder / "results.json").read_text()))
    console = Console(width=80, file=io.StringIO(), color_system=None)
    console.print(table)
    lines = console.file.getvalue().splitlines()
    (top,) = [line for line in lines if line.startswith("┏")]
    assert top.endswith("┓"), top
    shown = "\n".join(lines)
    for column in table.columns:
        for word in str(column.header).split():
            assert word in shown, (word, shown)
    assert not any(line.rstrip().endswith("…") for line in lines)
