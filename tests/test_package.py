"""The package as a guest: what importing it changes, and what it says when an extra is missing."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import yaml

from mdpnewton.checks import EXTRAS, MissingExtraError, required

ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / "docs" / "results" / "tetris" / "weights.json"
BLOCKED = "import sys\nfor name in {names!r}:\n    sys.modules[name] = None\n"


def run(code, *arguments, environment=None):
    given = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    given |= environment or {}
    return subprocess.run(command, capture_output=True, text=True, env=given)


def without(names, code, *arguments):
    """What a program does where those packages are not installed."""
    return run(BLOCKED.format(names=names) + code, *arguments)


def command_without(names, *arguments):
    return without(names, "from mdpnewton.cli import main\nsys.exit(main())", *arguments)


# Importing


def test_importing_the_package_leaves_the_import_system_alone_and_loads_no_guest():
    code = (
        "import sys\nfinders, hooks = list(sys.meta_path), list(sys.path_hooks)\n"
        "import mdpnewton\n"
        "assert sys.meta_path == finders and sys.path_hooks == hooks\n"
        "heavy = {'jax', 'equinox', 'scipy', *" + repr(sorted(EXTRAS)) + "} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_the_experiments_load_neither_figures_nor_statistics_before_they_need_them():
    """Every process that works imports its experiment; these packages are as slow as JAX."""
    code = (
        "import importlib, sys\nfrom mdpnewton.experiments import EXPERIMENTS\n"
        "import mdpnewton.training.train\n"
        "for one in EXPERIMENTS.values():\n"
        "    importlib.import_module('mdpnewton.experiments.' + one.module)\n"
        "early = {'matplotlib', 'optax', 'scipy.stats'} & set(sys.modules)\n"
        "assert not early, early\n"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_the_threads_are_limited_before_numpy_and_jax_are_loaded():
    code = (
        "import sys\nfrom mdpnewton.cli import parser\nfrom mdpnewton.threads import one_thread\n"
        "def limited():\n    loaded.append({'numpy', 'jax'} & set(sys.modules))\n"
        "    return one_thread()\n"
        "loaded, parser.one_thread = [], limited\n"
        "status = parser.main(sys.argv[1:])\n"
        "assert loaded == [set()] and status == 2, (loaded, status)\n"
    )
    for words in (("train", "no-such:X"), ("solve", "no-such-file"), ("run", "no-such-experiment")):
        done = run(code, *words)
        assert done.returncode == 0, (words, done.stderr)


@pytest.mark.parametrize("first", ["", "import jax\n"], ids=["before jax", "after jax"])
@pytest.mark.parametrize(
    ("setting", "bits"), [(None, 64), ("0", 32), ("1", 64), ("yes", 64), ("false", 32)]
)
def test_64_bits_unless_the_variable_says_otherwise(first, setting, bits):
    code = first + "import mdpnewton, jax.numpy\nprint(jax.numpy.zeros(1).dtype)"
    done = run(code, environment={} if setting is None else {"JAX_ENABLE_X64": setting})
    assert done.stdout.strip() == f"float{bits}", done.stderr


def test_the_table_of_environments_can_be_read_without_gymnasium():
    code = (
        "from mdpnewton.environments import ENVIRONMENTS, IDS\nprint(len(ENVIRONMENTS), len(IDS))"
    )
    done = without(["gymnasium"], code)
    assert done.stdout.split() == ["4", "4"], done.stderr


# Extras


@pytest.mark.parametrize("package", EXTRAS)
def test_every_extra_that_an_error_names_installs_the_package(package):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    called, extra = EXTRAS[package]
    wanted = [re.split(r"[\[<>=]", line)[0] for line in project["optional-dependencies"][extra]]
    found = [re.search(r"\[(.*)\]", line) for line in project["optional-dependencies"][extra]]
    wanted += [inner for match in found if match for inner in match[1].split(",")]
    assert called.lower() in wanted


def test_the_core_needs_none_of_the_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[\[<>=]", line)[0] for line in project["dependencies"]}
    assert not names & {called.lower() for called, _ in EXTRAS.values()}


def test_a_missing_package_is_one_line_that_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingExtraError) as caught:
        required("numba", "Tetris")
    expected = "Tetris needs Numba; install it with: pip install 'mdpnewton[tetris]'"
    assert str(caught.value) == expected
    assert isinstance(caught.value, ImportError)


def test_a_package_that_misses_something_itself_keeps_its_own_error(monkeypatch, tmp_path):
    (tmp_path / "cma.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.delitem(sys.modules, "cma", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="nobody_has") as caught:
        required("cma", "CMA-ES")
    assert not isinstance(caught.value, MissingExtraError)


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("numba", "mn.domains.tetris.play(DT_10, games=1, features='dt', height=10)"),
        ("numba", "mn.domains.tetris.estimate(DT_10, games=1, features='dt', height=10)"),
        ("gymnasium", "mn.train('CartPole-v1')"),
        ("gymnasium", "import mdpnewton.environments.tetris"),
        ("mujoco", "mn.GymnasiumSimulator('mdpnewton/BallInCup-v0')"),
        ("PIL", "mdpnewton.environments.drawing.cart_pole_picture(0.0, 0.0)"),
        ("PIL", "mn.domains.tetris.pictures.color_picture(np.zeros((8, 6), bool), 0)"),
        ("matplotlib", "import mdpnewton.report.figures as f; f.new_figure()"),
        ("matplotlib", "import mdpnewton.report.figures as f; f.figure_style()"),
    ],
)
def test_in_python_a_missing_extra_is_an_import_error(package, code):
    before = (
        "import mdpnewton as mn, numpy as np, mdpnewton.environments.drawing\n"
        "import mdpnewton.domains.tetris.pictures\nfrom mdpnewton.domains.tetris import DT_10\n"
        "try:\n    "
    )
    after = "\nexcept ImportError as error:\n    print(error)"
    done = without([package], before + code + after)
    called, extra = EXTRAS[package]
    assert f" needs {called}; install it with: pip install 'mdpnewton[{extra}]'" in done.stdout, (
        done.stderr
    )


def test_pictures_without_the_environments_own_package_are_an_import_error():
    code = (
        "import jax, mdpnewton as mn\nsimulator = mn.GymnasiumSimulator('CartPole-v1')\n"
        "import jax.numpy as jnp\n"
        "class Still:\n"
        "    def mode(self, w, seen):\n        return jnp.asarray(0)\n"
        "    def log_prob(self, w, seen, action):\n        return 0.0\n"
        "try:\n    simulator.frames(jax.random.key(0), Still(), None)\n"
        "except ImportError as error:\n    print(error)"
    )
    done = without(["pygame"], code)
    assert "cannot draw pictures" in done.stdout, done.stderr
    assert "pip install" in done.stdout


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("numba", ["tetris", "play", "--weights", WEIGHTS, "--games", "1"]),
        ("gymnasium", ["train", "CartPole-v1"]),
        ("mujoco", ["run", "ball-in-cup"]),
    ],
)
def test_a_command_ends_with_status_2_and_one_line(package, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = command_without([package], *command)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"pip install 'mdpnewton[{EXTRAS[package][1]}]'" in done.stderr


def test_the_twelve_lines_of_the_readme_need_no_extra():
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    twelve = blocks[0]
    assert len(twelve.splitlines()) == 12
    done = without(sorted(EXTRAS), twelve)
    assert done.returncode == 0, done.stderr
    objective, status, smallest = done.stdout.splitlines()[0].split()
    assert float(objective) > 0
    assert status == "iterations"
    assert np.isfinite(float(smallest))


def test_analyze_needs_no_extra_and_says_why_there_is_no_figure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = {"reward": np.ones((3, 2)), "start": np.full(3, 1 / 3), "discount": 0.9}
    np.savez("model.npz", transition=np.full((3, 2, 3), 1 / 3), **model)
    done = command_without(sorted(EXTRAS), "analyze", "model.npz")
    assert done.returncode == 0, done.stderr
    assert "negative semidefinite" in done.stdout
    assert done.stderr.splitlines() == [
        "mdpnewton: no figure: a figure needs Matplotlib; install it with: "
        "pip install 'mdpnewton[plots]'"
    ]
    names = {path.name for path in (tmp_path / "runs" / "analyze-model").iterdir()}
    assert names == {"config.json", "results.json", "sessions.json", "report.html"}


def test_help_needs_no_extra():
    assert command_without(sorted(EXTRAS), "--help").returncode == 0


# The files around it


def test_hooks_run_programs_of_the_environment_and_need_no_address():
    repositories = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [one["repo"] for one in repositories] == ["local"]
    for hook in repositories[0]["hooks"]:
        assert hook["language"] == "system"
        assert (Path(sys.executable).parent / hook["entry"].split()[0]).exists()


def test_the_workflow_calls_targets_of_the_makefile():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    called = {
        step["run"].split()[1] for job in jobs.values() for step in job["steps"] if "run" in step
    }
    assert called == {"lint", "setup-browser", "test"} <= known


def test_the_citation_names_the_paper():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    paper = citation["references"][0]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text().split())
    assert [author["family-names"] for author in paper["authors"]] == ["Furmston", "Lever"]
