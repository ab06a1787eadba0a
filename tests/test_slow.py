"""What takes minutes: the benchmarks' ratios, and experiments at larger scale."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mdpnewton.cli import main

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def benchmark(name):
    command = [sys.executable, ROOT / "benchmarks" / name, "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_all_terms_cost_a_tenth_of_jax_hessian():
    found = benchmark("dense_terms.py")
    assert found["ratio"] >= 10
    assert found["largest_difference"] < 1e-10


def test_a_hundred_thousand_states_grow_about_linearly():
    found = benchmark("sparse_grid.py")
    assert found["largest_exponent"] < 1.5
    assert found["peak_gigabytes"] < 8  # a dense 100,000 x 100,000 matrix would be 80


def test_the_cost_of_a_diagonal_direction_grows_about_linearly():
    found = benchmark("diagonal.py")
    assert found["largest_exponent"] <= 1.2
    assert found["largest_difference"] < 1e-10


def test_invariance_over_many_maps(tmp_path):
    assert main(["run", "invariance", "--scale", "laptop", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "results.json").read_text())
    for method, distance in found["distance"].items():
        invariant = method.removeprefix("diagonal_") != "steepest"
        assert (distance["rescaled"] < 1e-8) == invariant, method
        full = invariant and not method.startswith("diagonal")
        assert (distance["linear"] < 1e-8) == full, method


def test_the_hallway_ratio_grows_to_a_hundred_million(tmp_path):
    assert main(["run", "hallway", "--scale", "laptop", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["gradient_norm"][-1] <= 1e-9
    assert found["ratio"][-1] > 1e8
