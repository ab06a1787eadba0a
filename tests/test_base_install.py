"""The package without extras, installed into an environment of its own: what it can do alone."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
WEIGHTS = ROOT / "docs" / "results" / "tetris" / "weights.json"
PARTS = ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "mdpnewton")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Runs a program of the new environment, in an empty folder."""
    project = tmp_path_factory.mktemp("project")
    for name in PARTS:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, project / name)
    folder = tmp_path_factory.mktemp("elsewhere")
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in ours}

    def run(program, *arguments, cwd=folder):
        command = [project / ".venv" / "bin" / program, *map(str, arguments)]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)

    made = subprocess.run(
        ["make", ".venv/bin/python", f"PYTHON={sys.executable}"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    done = run("python", "-m", "pip", "install", "-q", "-c", "constraints.txt", ".", cwd=project)
    assert done.returncode == 0, done.stderr
    return run


def test_no_extra_is_installed(installed):
    names = installed("python", "-m", "pip", "list", "--format", "freeze").stdout.lower()
    assert "mdpnewton==" in names
    for name in ("matplotlib", "pillow", "gymnasium", "numba", "mujoco", "cma", "ray", "onnx"):
        assert f"\n{name}==" not in f"\n{names}", name


def test_the_twelve_lines_of_the_readme_run(installed):
    text = (ROOT / "README.md").read_text()
    twelve = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)[0]
    done = installed("python", "-c", twelve)
    assert done.returncode == 0, done.stderr
    assert "negative" in done.stdout


def test_help_and_analyze_run(installed, tmp_path):
    assert installed("mdpnewton", "--help").returncode == 0
    model = tmp_path / "model.npz"
    transition = np.random.default_rng(0).dirichlet(np.ones(3), size=(3, 2))
    reward, start = np.ones((3, 2)), np.full(3, 1 / 3)
    np.savez(model, transition=transition, reward=reward, start=start, discount=0.9)
    for more in ([], ["--json"], ["--out", tmp_path / "run"]):
        done = installed("mdpnewton", "analyze", model, *more)
        assert done.returncode == 0, done.stderr
        if more == ["--json"]:  # which draws nothing
            assert "hessian" in json.loads(done.stdout)
            assert "no figure" not in done.stderr
            continue
        assert "Policy Hessian" in done.stdout
        assert "figure" not in done.stdout
        assert [line for line in done.stderr.splitlines() if "no figure" in line] == [
            "mdpnewton: no figure: a figure needs Matplotlib; install it with: "
            "pip install 'mdpnewton[plots]'"
        ]
    assert "hessian" in json.loads((tmp_path / "run" / "results.json").read_text())
    assert not list((tmp_path / "run").glob("*.png"))
    report = (tmp_path / "run" / "report.html").read_text()
    assert "uPlot" in report  # its script and its style are in the wheel


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("tetris", ["tetris", "play", "--weights", WEIGHTS, "--games", "1"]),
        ("gym", ["train", "CartPole-v1"]),
    ],
)
def test_what_needs_an_extra_says_so_in_one_line(installed, extra, command):
    done = installed("mdpnewton", *command)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"pip install 'mdpnewton[{extra}]'" in done.stderr
