"""SIGKILL at random moments, from a fixed schedule; and the same bits for any number of workers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mdpnewton.cli import main
from mdpnewton.experiments import EXPERIMENTS

TESTS = Path(__file__).parent
NOISY = "noisy_environment:Noisy-v0"
SMALL_TETRIS = ["--set=games=20", "--set=fresh_games=20", "--set=height=8"]
COMMANDS = {
    "train compiled": ["train", "cartpole", "--policy=linear", "--iterations=8"],
    "train on Gymnasium": ["train", NOISY, "--policy=linear", "--iterations=8"],
    "run cartpole": ["run", "cartpole", "--set=iterations=3", "--set=practical_methods=1"],
    "run tetris": ["run", "tetris", "--set=iterations=3", *SMALL_TETRIS],
    "run ball-in-cup": ["run", "ball-in-cup", "--set=runs=1", "--set=updates=3"],
    "solve": ["solve", "tiger", "--nodes=4", "--restarts=12"],
}
KILLS = (5, 4, 4, 4)  # per run; with six commands these are 102
TIMES = ("seconds", "time", "x_seconds")


def started(command, folder, where):
    """The command as a process of its own group, which ends with all of its workers."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    words = [sys.executable, "-m", "mdpnewton", *command, "--out", str(folder)]
    return subprocess.Popen(
        words,
        cwd=where,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(command, folder, where):
    """Run to the end; returns how long it took."""
    began = time.monotonic()
    with started(command, folder, where) as process:
        _, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    return time.monotonic() - began


def found(folder):
    """The results without times and names of folders."""
    return _timeless(json.loads((Path(folder) / "results.json").read_text()))


def _timeless(data):
    if isinstance(data, dict):
        kept = {k: v for k, v in data.items() if not any(word in k for word in TIMES)}
        return {key: _timeless(value) for key, value in kept.items() if key != "controller"}
    return [_timeless(each) for each in data] if isinstance(data, list) else data


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Gives the folder of a command that nobody killed, and how long it took."""
    done = {}

    def of(name):
        if name not in done:
            place = tmp_path_factory.mktemp("undisturbed")
            done[name] = place / "whole", finish(COMMANDS[name], "whole", place)
        return done[name]

    return of


def whole(path):
    from mdpnewton.files.states import load_state

    return bool(load_state(path))


@pytest.mark.parametrize("name", ["train on Gymnasium", "solve"])
def test_a_kill_loses_nothing(name, tmp_path, monkeypatch):
    """Two kills while it computes; only what is killed needs a process of its own."""
    monkeypatch.chdir(tmp_path)
    command, rng = COMMANDS[name], np.random.default_rng(0)
    assert main([*command, "--out", "whole"]) == 0
    for _ in range(2):
        with started(command, "killed", tmp_path) as process:
            while not list(Path("killed").rglob("*.npz")):
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.01)
            time.sleep(rng.uniform(0.0, 2.0))
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        assert all(map(whole, Path("killed").rglob("*.npz")))
    assert not Path("killed", "results.json").exists()
    assert main([*command, "--out", "killed"]) == 0
    assert found("killed") == found("whole")


@pytest.mark.slow
@pytest.mark.parametrize(("part", "kills"), list(enumerate(KILLS)))
@pytest.mark.parametrize("name", COMMANDS)
def test_a_hundred_kills_lose_nothing(name, part, kills, undisturbed, tmp_path):
    """Each kill comes after a random part of the duration of the whole command."""
    (expected, duration), rng = undisturbed(name), np.random.default_rng([1, part])
    for _ in range(kills):
        with started(COMMANDS[name], "run", tmp_path) as process:
            time.sleep(duration * rng.uniform(0.2, 1.0))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        assert all(map(whole, tmp_path.rglob("*.npz")))
    finish(COMMANDS[name], "run", tmp_path)
    assert found(tmp_path / "run") == found(expected)


def test_training_does_not_depend_on_the_number_of_workers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for workers in (1, 3):
        words = ["--policy=linear", "--iterations=3", f"--workers={workers}", f"--out=x{workers}"]
        assert main(["train", NOISY, *words]) == 0
    assert found(tmp_path / "x3") == found(tmp_path / "x1")
    assert found(tmp_path / "x1")["return"]["mean"]


WHO = [["--workers=2"], ["--workers=3"], ["--workers=5"], ["--cluster=local", "--workers=2"]]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EXPERIMENTS, "train"])
def test_results_do_not_depend_on_who_computes_them(name, tmp_path):
    command = ["run", name]
    if name == "train":
        command = ["train", NOISY, "--iterations=5"]
    finish(command, "here", tmp_path)
    for number, who in enumerate(WHO):
        finish([*command, *who], f"x{number}", tmp_path)
        assert found(tmp_path / f"x{number}") == found(tmp_path / "here"), who
