"""DESIGN.md says what the code is: the tree is drawn from it, the paths of data never go back."""

import ast
import re
from pathlib import Path

from test_imports import LAYERS, folder_of

import mdpnewton

PACKAGE = Path(mdpnewton.__file__).parent
DESIGN = PACKAGE.parent / "DESIGN.md"
WIDTH = 16


def sentence(path):
    """The first paragraph of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split())


def tree():
    """The root's folders and files in the order of the layers, each with its sentence."""
    lines = ["mdpnewton/"]
    for layer in LAYERS:
        for name in sorted(layer):
            folder, module = PACKAGE / name, PACKAGE / f"{name}.py"
            path = folder / "__init__.py" if folder.is_dir() else module
            shown = f"{name}/" if folder.is_dir() else module.name
            lines.append(f"  {shown:<{WIDTH}} {sentence(path)}")
    return "\n".join(lines)


def block(heading):
    """The first indented block below a heading of DESIGN.md."""
    text = DESIGN.read_text().split(f"## {heading}\n", 1)[1].split("\n## ")[0]
    lines = re.search(r"(?:^ {4}.*\n)+", text, re.M)[0].splitlines()
    return "\n".join(line[4:].rstrip() for line in lines)


def test_the_tree_is_drawn_from_the_code():
    assert block("The tree") == tree(), f"the tree as it is:\n\n{tree()}"


def test_every_folder_says_what_belongs_there():
    for path in PACKAGE.rglob("__init__.py"):
        if path.parent != PACKAGE:
            assert sentence(path).endswith("."), path
            assert len(sentence(path)) > 30, path


def test_every_field_is_documented_by_a_sentence_that_stands_alone():
    fragments = r"^ +(?:\w+): (?:Of |As above|Likewise)|[Oo]f all randomness"
    for path in PACKAGE.rglob("*.py"):
        assert not re.findall(fragments, path.read_text(), re.M), path


def test_the_root_holds_at_most_twelve_python_files():
    assert len(list(PACKAGE.glob("*.py"))) <= 12


# What data passes, in this order; a path may leave stations out, and never returns to one.
STATIONS = (
    *("models", "simulators", "domains", "evaluators", "evaluation", "curvature", "solve"),
    *("methods", "steps", "loop", "training", "experiments", "jobs", "files", "report", "cli"),
)


def paths():
    """The paths of data in DESIGN.md: for each command, its files in order."""
    text = DESIGN.read_text().split("## Paths of data\n", 1)[1].split("\n## ")[0]
    found = re.findall(r"^`(\w[^`]*)`: (.*?)\.\n\n", text, re.M | re.S)
    return {command: re.findall(r"`([^`]+)`", files) for command, files in found}


def test_the_paths_of_data_never_go_back():
    known = paths()
    assert {"train Pendulum-v1", "run tetris"} <= set(known)
    for command, names in known.items():
        assert len(names) > 8, command
        assert all((PACKAGE / name).is_file() for name in names), command
        places = [STATIONS.index(folder_of(PACKAGE / name)) for name in names]
        assert places == sorted(places), command
        assert len(set(names)) == len(names), command


if __name__ == "__main__":  # python tests/test_design.py: draw the tree anew
    drawn = "\n".join(f"    {line}" for line in tree().splitlines())
    old = "\n".join(f"    {line}" for line in block("The tree").splitlines())
    DESIGN.write_text(DESIGN.read_text().replace(old, drawn, 1))
