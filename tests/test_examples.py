"""Every example runs, and one sees what its first lines promise."""

import re
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "examples"


def numbers(line):
    return [float(word) for word in re.findall(r"-?\d+\.?\d*(?:e[-+]\d+)?", line)]


def own_mdp(lines):
    values = [numbers(line)[-1] for line in lines if line.startswith("iteration")]
    assert values == sorted(values)
    repairs = [numbers(line)[-1] for line in lines if line.startswith("wear")]
    assert repairs == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert "'H2': 'negative semidefinite'" in lines[-1]


def own_environment(lines):
    returns = [numbers(line)[-1] for line in lines]
    assert returns[-1] > returns[-2] - 5 > returns[0] + 20


def own_policy(lines):
    assert lines[0] == "promises broken: ()"
    smallest, largest = numbers(lines[1].split(":")[1])
    assert smallest < 0 < largest
    before, after, explores = numbers(lines[2])
    assert before < after
    assert explores < 0.5


def own_method(lines):
    last = [numbers(line)[-1] for line in lines]
    assert min(last[:2]) > max(last[2:])


def pomdp(lines):
    values = numbers(lines[0])
    assert max(values) == pytest.approx(19.37)
    assert min(values) < max(values) - 1
    assert len(lines) == 11
    opened = [line for line in lines if "open" in line]
    assert all(("hear-left" in line) == ("open-right" in line) for line in opened)


def black_box(lines):
    best = {line.split()[0]: numbers(line[38:])[0] for line in lines[1:]}
    assert best["second_gauss_newton"] < 1e-2 < 1 < best["steepest"]
    assert best["natural"] < 1e-2
    assert best["CMA-ES"] < 1e-2


CHECKS = (own_mdp, own_environment, own_policy, own_method, pomdp, black_box)


def test_every_example_is_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_example_shows_what_it_says(check, capsys):
    path = FOLDER / f"{check.__name__}.py"
    assert f"python examples/{path.name}" in path.read_text()
    runpy.run_path(str(path), run_name="__main__")
    check(capsys.readouterr().out.splitlines())
