"""What `make` installs and when, with a Python that only writes down what it is asked for."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# `-m venv` and `-m virtualenv` make an environment whose programs write down their arguments.
PYTHON = """#!/bin/sh
echo "python $*" >> asked.txt
made() {
  mkdir -p .venv/bin
  cp recorder .venv/bin/python
  cp recorder .venv/bin/mdpnewton
}
case "$*" in
  "-m venv .venv") VENV ;;
  "-m virtualenv --quiet .venv") made ;;
esac
"""
WORKS, FAILS = "made", "mkdir -p .venv/bin; touch .venv/bin/python; exit 1"  # as Debian's does
RECORDER = '#!/bin/sh\necho "$(basename $0) $*" >> asked.txt\n'


@pytest.fixture
def make(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)

    def run(target, venv=WORKS):
        """The programs that a target calls, with their arguments."""
        (tmp_path / "asked.txt").write_text("")
        for name, text in (("fake", PYTHON.replace("VENV", venv)), ("recorder", RECORDER)):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        done = subprocess.run(
            ["make", "--silent", target, "PYTHON=./fake"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return (tmp_path / "asked.txt").read_text().splitlines()

    return run


def installs(asked):
    return [line.split()[-1] for line in asked if "pip install" in line and "-e" in line.split()]


def test_the_demo_installs_what_it_needs_once_and_then_runs(make):
    asked = make("demo")
    assert installs(asked) == [".[gym,plots]"]
    assert [line.split()[1] for line in asked if line.startswith("mdpnewton")] == [
        "train",
        "evaluate",
    ]
    assert installs(make("demo")) == []


def test_setup_installs_everything_also_after_the_demo(make):
    make("demo")
    asked = make("setup")
    assert installs(asked) == [".[dev,docs]"]
    assert not any("venv" in line for line in asked)


def test_after_setup_the_demo_installs_nothing(make):
    make("setup")
    assert installs(make("demo")) == []
    assert installs(make("setup")) == []


def test_without_the_venv_module_virtualenv_makes_the_environment(make):
    asked = make("setup", FAILS)
    assert asked[:3] == [
        "python -m venv .venv",
        "python -m pip install --quiet --target .bootstrap virtualenv",
        "python -m virtualenv --quiet .venv",
    ]
    assert installs(asked) == [".[dev,docs]"]
