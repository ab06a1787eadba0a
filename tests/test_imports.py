"""The architecture, read off the imports: they point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mdpnewton

PACKAGE = Path(mdpnewton.__file__).parent
# A module may import from its own folder and from the layers before it: those that share a layer
# are unaware of each other.
LAYERS = (
    {"version", "threads", "checks"},
    {"executors"},
    {"models", "plain", "forms", "comparison"},
    {"evaluation", "simulators"},
    {"policies"},
    {"curvature", "domains", "steps", "files"},
    {"hessian"},
    {"solve", "evaluators", "environments", "jobs"},
    {"methods", "analysis"},
    {"loop", "report"},
    {"training"},
    {"deployment"},
    {"experiments"},
    {"cli"},
    {"__main__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
OUTER = ("experiments", "files", "report", "cli")  # may read files, print or plot


def folder_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(text):
    """The folders and modules at the root that a text imports from, in whatever spelling."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found = [alias.name.split(".") for alias in node.names]
            yield from (name[1] for name in found if name[0] == "mdpnewton" and len(name) > 1)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            module = (node.module or "").split(".")
            if module == ["mdpnewton"]:
                yield from (alias.name for alias in node.names)
            elif module[0] == "mdpnewton":
                yield module[1]


def test_every_spelling_of_an_import_is_seen():
    text = "import mdpnewton.a\nimport mdpnewton.b as x, numpy\nfrom mdpnewton import c\n"
    text += "from mdpnewton.d.deep import y\ndef f():\n    from mdpnewton import e\n"
    assert list(imports(text)) == ["a", "b", "c", "d", "e"]


def test_every_file_and_folder_of_the_root_has_a_layer():
    assert {folder_of(path) for path in FILES} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    name = folder_of(path)
    for other in imports(path.read_text()):
        assert other == name or RANK[other] < RANK[name], f"{name} imports {other}"


@pytest.mark.parametrize("path", sorted((PACKAGE / "files").rglob("*.py")), ids=lambda p: p.stem)
def test_what_writes_files_knows_problems_and_policies_alone(path):
    """It builds no simulator and no evaluator, trains nothing and draws nothing."""
    known = {"files", "models", "policies", "version", "checks"}
    assert set(imports(path.read_text())) <= known


def test_only_the_outer_layers_read_files_print_or_plot():
    for path in FILES:
        if folder_of(path) in OUTER:
            continue
        text = path.read_text()
        for word in (
            "print(",
            "open(",
            "import matplotlib",
            "from matplotlib",
            'required("matplotlib',
            "import rich",
            "from rich",
            "argparse",
            "pickle",
        ):
            assert word not in text, f"{path.name}: {word}"


def test_every_public_name_loads():
    for name in mdpnewton.__all__:
        assert getattr(mdpnewton, name) is not None
    assert set(mdpnewton.__all__) <= set(dir(mdpnewton))


@pytest.mark.parametrize("first", ["import mdpnewton.loop, mdpnewton.curvature", "pass"])
def test_functions_that_share_the_name_of_their_module_stay_functions(first):
    code = f"{first}\nimport mdpnewton\nassert callable(mdpnewton.search)\n"
    code += "import mdpnewton.experiments.demo\nassert callable(mdpnewton.curvature)\n"
    code += "assert callable(mdpnewton.search)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_files_are_small():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 320, path.name
