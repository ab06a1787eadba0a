"""Every experiment at quick scale: files, JSON, and what the paper says of it."""

import json
import shlex
import sys
from dataclasses import replace
from itertools import pairwise

import pytest
from job_functions import results_of

from mdpnewton import direction, search  # noqa: F401
from mdpnewton.cli import main
from mdpnewton.domains.ball_in_cup.pictures import pictures_available
from mdpnewton.experiments import EXPERIMENTS, fsc, tetris  # noqa: F401

FULL = ("first_gauss_newton", "second_gauss_newton")
DIAGONAL = ("diagonal_first_gauss_newton", "diagonal_second_gauss_newton")


TIMED = {"manipulator-line-search", "manipulator-fixed-step"}
MORE = {  # than results and a figure
    **{name: [".gif", ".png"] for name in TIMED},
    "ball-in-cup": [".gif", ".png"] if pictures_available() else [],
    "tetris": [".gif", ".json"],
    "tetris-full": [".gif", ".json"],
}


def untimed(found):
    """Without the seconds that it took."""
    if isinstance(found, dict):
        timed = ("seconds", "time_curve", "seconds_to_95_percent", "seconds_per_iteration")
        return {name: untimed(part) for name, part in found.items() if name not in timed}
    return [untimed(part) for part in found] if isinstance(found, list) else found


def load(folder):
    return json.loads((folder / "results.json").read_text())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_run_folder_holds_config_results_and_figures(shared_run, name):
    folder = shared_run(name)
    config = json.loads((folder / "config.json").read_text())
    found = load(folder)
    for content in (config, found):
        assert (content["experiment"], content["scale"], content["seed"]) == (name, "quick", 0)
    assert config["settings"]
    assert list((folder / "jobs").glob("*.npz")) == list((folder / "jobs").iterdir()) != []
    files = [path for path in folder.iterdir() if path.name != "jobs"]
    endings = sorted(path.suffix for path in files)
    more = MORE.get(name, [])
    assert endings == sorted([".json", ".json", ".json", ".html", ".png", ".svg", *more])
    assert all(path.stat().st_size > 100 for path in files)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_json_prints_the_results_and_nothing_else(shared_run, name, tmp_path, capsys):
    """A job of each experiment is done again; the others are those of the shared run."""
    folder = shared_run(name)
    shared_run.copy_jobs(tmp_path, name)
    again = sorted((tmp_path / "jobs").iterdir())[-1]
    again.unlink()
    capsys.readouterr()
    assert main(["run", name, "--json", "--out", str(tmp_path)]) == 0
    assert again.exists()
    captured = capsys.readouterr()
    assert captured.out == (tmp_path / "results.json").read_text()
    assert captured.err == "" or (name == "ball-in-cup" and not pictures_available())
    # the same seed, the same numbers
    assert untimed(json.loads(captured.out)) == untimed(load(folder))
    for picture in folder.glob("*.svg" if name not in TIMED else "arm.png"):
        assert picture.read_bytes() == (tmp_path / picture.name).read_bytes()


def test_invariance_full_methods_agree_after_both_maps(shared_run):
    distance = load(shared_run("invariance"))["distance"]
    for method in FULL:
        assert distance[method]["rescaled"] < 1e-8
        assert distance[method]["linear"] < 1e-8


def test_invariance_diagonal_methods_agree_after_rescaling_only(shared_run):
    distance = load(shared_run("invariance"))["distance"]
    for method in DIAGONAL:
        assert distance[method]["rescaled"] < 1e-8
        assert distance[method]["linear"] > 1e-2


def test_invariance_steepest_agrees_after_neither(shared_run):
    distance = load(shared_run("invariance"))["distance"]["steepest"]
    assert distance["rescaled"] > 1e-2
    assert distance["linear"] > 1e-2


def test_hallway_the_ratio_passes_600_and_keeps_growing(shared_run):
    found = load(shared_run("hallway"))
    ratio, slope = found["ratio"], found["gradient_norm"]
    assert ratio[0] < 1
    assert max(ratio) > 600
    tail = [r for r, g in zip(ratio, slope, strict=True) if g < 1e-2]
    assert all(b > a for a, b in pairwise(tail))
    assert found["distance"][-1] == 0
    assert len(ratio) == len(slope) == len(found["distance"])


def test_mccallum_the_ratio_settles_below_one(shared_run):
    found = load(shared_run("mccallum", "--set", "tolerance=1e-10"))
    assert found["ratio"][-1] == pytest.approx(0.1655297, abs=1e-6)
    assert sum(x**2 for x in found["optimum"]) ** 0.5 == pytest.approx(1.85, abs=0.01)


@pytest.mark.parametrize(("discount", "ratio"), [(0.9, 0.185), (0.99, 0.152)])
def test_mccallum_at_other_discounts(shared_run, discount, ratio):
    found = load(shared_run("mccallum", "--set", f"discount={discount}"))
    assert found["ratio"][-1] == pytest.approx(ratio, abs=1e-3)


def test_with_current_state_features_a1_vanishes_in_mccallums_grid_and_h12_does_not(shared_run):
    found = load(shared_run("mccallum", "--set", "features=current"))
    assert found["norm_A1"][-1] < 1e-5
    assert found["norm_H12"][-1] > 1


def test_fsc_gauss_newton_solves_the_cheese_maze_from_every_start(shared_run):
    problems = load(shared_run("fsc"))["problems"]
    cheese = problems["cheese"]
    assert cheese["best"] == pytest.approx(cheese["optimum"], rel=1e-6)
    found = cheese["methods"]["block_second_gauss_newton"]
    assert found["reached"] == 4
    slower = cheese["methods"]["expectation_maximization"]["iterations_to_95_percent"]
    for fast, slow in zip(found["iterations_to_95_percent"], slower, strict=True):
        assert fast < slow


def test_ctrl_c_keeps_the_searches_of_fsc_that_are_done(tmp_path, monkeypatch, capsys):
    whole = sys.modules["mdpnewton.experiments.fsc"].search_controllers
    calls = []

    def tiring(*arguments, **options):
        calls.append(arguments)
        found = whole(*arguments, **options)
        return replace(found, interrupted=len(calls) == 14)

    monkeypatch.setattr("mdpnewton.experiments.fsc.search_controllers", tiring)
    more = ["--set", "problems=cheese,load_unload", "--set", "iterations=20"]
    command = ["run", "fsc", "--out", str(tmp_path), *more]
    assert main(command) == 130
    said = "interrupted: 7 of 12 jobs are done; the same command goes on"
    again = shlex.join(["mdpnewton", *command])
    assert capsys.readouterr().err == f"mdpnewton: {said}: {again}\n"
    assert not (tmp_path / "results.json").exists()
    assert main(command) == 0
    assert len(calls) == 14 + 2 * 4  # a search is two calls; six were done, and no one twice
    assert list(load(tmp_path)["problems"]) == ["cheese", "load_unload"]


def test_demo_second_order_methods_beat_steepest_ascent(shared_run):
    methods = load(shared_run("demo"))["methods"]
    steepest = methods["steepest"]["final"]["mean"]
    assert methods["second_gauss_newton"]["final"]["mean"] > steepest
    assert methods["natural"]["final"]["mean"] > steepest


@pytest.mark.parametrize("name", ["invariance", "demo"])
def test_ctrl_c_in_the_middle_of_a_search_ends_the_run(name, tmp_path, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["mdpnewton.loop"], "direction", interrupted)
    assert main(["run", name, "--restart", "--out", str(tmp_path)]) == 130
    count = {"invariance": 10, "demo": 9}[name]
    said = f"interrupted: 0 of {count} jobs are done; the same command goes on"
    again = f"mdpnewton run {name} --out {tmp_path}\n"  # `--restart` would begin anew
    assert capsys.readouterr().err == f"mdpnewton: {said}: {again}"
    assert not (tmp_path / "results.json").exists()


def test_ctrl_c_on_the_way_to_the_optimum_leaves_nothing_half_done(
    shared_run, tmp_path, monkeypatch
):
    left, whole = [12], load(shared_run("hallway"))

    def tiring(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return direction(*arguments, **options)

    monkeypatch.setattr(sys.modules["mdpnewton.loop"], "direction", tiring)
    assert main(["run", "hallway", "--out", str(tmp_path)]) == 130
    assert not (tmp_path / "results.json").exists()
    assert not list((tmp_path / "jobs").iterdir())
    left[0] = 10_000
    assert main(["run", "hallway", "--out", str(tmp_path)]) == 0
    assert load(tmp_path) == whole


def test_tetris_reads_diagonals_where_they_are_enough_and_finds_the_same(monkeypatch):
    names = ("steepest", "natural", "diagonal_second_gauss_newton", "second_gauss_newton")
    enough = [name for name in names if tetris.reads_diagonals(tetris.method_of(name, 1e-2))]
    assert enough == ["steepest", "diagonal_second_gauss_newton"]
    config = tetris.Config(games=20, fresh_games=20, height=6, width=5, methods=",".join(enough))
    found = [results_of(tetris.work(config, 4))]
    monkeypatch.setattr(tetris, "reads_diagonals", lambda method: False)
    found.append(results_of(tetris.work(config, 4)))
    assert found[0] == found[1]


def test_every_trace_of_invariance_is_in_the_frame(shared_run):
    from mdpnewton.experiments import invariance

    results = load(shared_run("invariance"))
    figure = invariance.draw(results, invariance.Config())["invariance"]
    for axis in figure.axes:
        (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
        for line in axis.lines:
            x, y = line.get_data()
            assert left < min(x)
            assert max(x) < right
            assert low < min(y)
            assert max(y) < high
    widths = {line.get_linewidth() for line in figure.axes[0].lines}
    assert len(widths) == 2  # methods that coincide are told apart
