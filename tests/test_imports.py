"""The architecture, read off the imports: they point one way."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mdpnewton

PACKAGE = Path(mdpnewton.__file__).parent
# A module may import from its own layer's name and from those that stand before it.
LAYERS = (
    {"version", "threads"},
    {"mdp", "linear_gaussian"},
    {"pomdp"},
    {"pomdp_text"},
    {"quadratic"},
    {"closed_loop"},
    {"evaluation", "forms"},
    {"policies"},
    {"trajectories"},
    {"simulators"},
    {"domains", "curvature"},
    {"environments"},
    {"evaluators"},
    {"hessian"},
    {"solve"},
    {"bound"},
    {"divergence"},
    {"methods", "steps"},
    {"trust_region", "line_searches"},
    {"search"},
    {"black_box"},
    {"controller_rows"},
    {"controller_search", "tetris_training"},
    {"presets"},
    {"training"},
    {"analysis"},
    {"linear_gaussian_analysis"},
    {"report"},
    {"runs"},
    {"experiments"},
    {"cli_tetris_train"},
    {"cli_solve", "cli_train", "cli_tetris"},
    {"cli"},
    {"__main__"},
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mdpnewton."):
            yield node.module.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for other in imports(path):
        assert other == name or RANK[other] < RANK[name], f"{name} imports {other}"


def test_only_the_outer_layers_read_files_print_or_plot():
    for path in FILES:
        name = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if name in ("experiments", "runs", "report") or name.startswith("cli"):
            continue
        text = path.read_text()
        for word in (
            "print(",
            "open(",
            "matplotlib",
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


@pytest.mark.parametrize("first", ["import mdpnewton.search, mdpnewton.curvature", "pass"])
def test_functions_that_share_the_name_of_their_module_stay_functions(first):
    code = f"{first}\nimport mdpnewton\nassert callable(mdpnewton.search)\n"
    code += "import mdpnewton.experiments.demo\nassert callable(mdpnewton.curvature)\n"
    code += "assert callable(mdpnewton.search)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_files_are_small():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 320, path.name
