"""`mdpnewton tetris`: numbers, replays, one-line errors."""

import json
import os
import pty
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest

from mdpnewton.cli import main
from mdpnewton.domains.tetris import DT_10, DT_20, play, play_chunks
from mdpnewton.training.tetris import train_tetris

KEYS = ("mean", "stderr", "games", "pieces", "pieces_per_cpu_second", "capped")
BI = [0.0] * 10 + [-0.3] * 9 + [0.0, -1.0]


def run(capsys, *arguments):
    status = main(["tetris", *[str(word) for word in arguments]])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture
def weights(tmp_path):
    def write(content, name="weights.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_play_prints_the_six_numbers_as_json(capsys, weights):
    path = weights(BI)
    options = ("--height", 12, "--games", 30, "--policy", "gibbs", "--seed", 4, "--workers", 2)
    status, out, err = run(capsys, "play", "--weights", path, *options, "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert tuple(found) == KEYS
    expected = play(BI, height=12, games=30, policy="gibbs", seed=4)
    assert found["mean"] == pytest.approx(expected.mean)
    assert found["stderr"] == pytest.approx(expected.stderr)
    assert (found["games"], found["capped"]) == (30, 0)
    assert found["pieces"] == expected.pieces.sum()
    assert found["pieces_per_cpu_second"] > 0


def test_play_prints_a_table(capsys, weights):
    path = weights({"weights": DT_10, "features": "dt", "note": "published"})
    status, out, err = run(capsys, "play", "--weights", path, "--games", 4, "--cap", 100)
    assert (status, err) == (0, "")
    assert "dt features" in out
    for words in ("lines per game", "pieces per CPU second", "capped", "400"):
        assert words in out


def test_features_of_the_file_or_of_the_option(capsys, weights):
    plain = weights(list(DT_10))
    status, out, _ = run(
        capsys, "play", "--weights", plain, "--features", "dt", "--games", 2, "--cap", 50, "--json"
    )
    assert status == 0
    assert json.loads(out)["capped"] == 2
    said = weights({"weights": DT_10, "features": "dt"})
    status, _, err = run(capsys, "play", "--weights", said, "--features", "bi")
    assert status == 2
    assert "'dt' features, not 'bi'" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[1, 2", "not JSON"),
        ("\x00\x01", "not JSON"),
        ("{}", "list of numbers"),
        ("3", "list of numbers"),
        ('["a"]', "list of numbers"),
        ("[true]", "list of numbers"),
        ("[1, 2]", "needs 21 numbers"),
        (json.dumps(BI[:-1])[:-1] + ", NaN]", "finite"),
        ('{"weights": [1], "features": "x"}', "'bi' or 'dt'"),
    ],
)
@pytest.mark.parametrize("command", ["play", "watch"])
def test_bad_files_are_refused_in_one_line(capsys, weights, content, words, command):
    status, out, err = run(capsys, command, "--weights", weights(content))
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("play", "--features", "bi"), "--weights"),
        (("play", "--weights", "no-such-file.json"), "No such file"),
        (("play", "--weights", "."), "directory"),
        (("watch", "--features", "bi"), "--weights"),
        (("watch", "--delay", "-1"), "--delay"),
        (("watch", "--pieces", "0"), "--pieces"),
        (("watch", "--width", "99"), "width"),
        ((), "COMMAND"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(capsys, arguments, words):
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", ["--games", "--workers", "--cap", "--width", "--height"])
def test_bad_numbers_are_refused_in_one_line(capsys, weights, option):
    status, out, err = run(capsys, "play", "--weights", weights(BI), option, 0)
    assert (status, out) == (2, "")
    assert option[2:] in err
    assert err.count("\n") == 1


def test_watch_prints_plain_frames_where_there_is_no_terminal(capsys):
    status, out, _ = run(capsys, "watch", "--pieces", 3, "--height", 6, "--width", 5)
    assert status == 0
    assert out.count("+---------+") == 3
    assert out.rstrip().endswith("3 pieces")
    assert "\x1b" not in out


def test_watch_replays_a_game_of_play(capsys, weights):
    path = weights([-0.5, -0.4, -0.3, -0.2, -0.1, -0.3, -0.4, -0.2, -0.6, -0.1, -0.9])
    size = ("--height", 6, "--width", 5, "--policy", "gibbs", "--seed", 2)
    _, out, _ = run(capsys, "watch", "--weights", path, *size, "--game", 3)
    played = play(json.loads(path.read_text()), height=6, width=5, policy="gibbs", seed=2, games=4)
    assert out.rstrip().endswith(f"{played.lines[3]} lines, {played.pieces[3]} pieces")


def test_watch_is_live_in_a_terminal():
    shown, side = pty.openpty()
    command = [sys.executable, "-m", "mdpnewton", "tetris", "watch", "--pieces", "3"]
    command += ["--delay", "0.01", "--height", "6", "--width", "6"]
    done = subprocess.run(command, stdout=side, stderr=side, timeout=120)
    os.close(side)
    text = os.read(shown, 1 << 16).decode(errors="replace")
    os.close(shown)
    assert done.returncode == 0
    assert "\x1b[" in text
    assert "3 pieces" in text


def test_ctrl_c_reports_the_games_that_are_complete(weights, monkeypatch, capsys):
    def tiring(*arguments, **options):
        yield from islice(play_chunks(*arguments, **options), 2)
        raise KeyboardInterrupt

    monkeypatch.setattr("mdpnewton.domains.tetris.simulate.play_chunks", tiring)
    path = weights({"weights": DT_10, "features": "dt"})
    command = ["tetris", "play", "--weights", str(path), "--games", "1000", "--cap", "200"]
    assert main([*command, "--json"]) == 130
    captured = capsys.readouterr()
    assert "interrupted" in captured.err
    found = json.loads(captured.out)
    assert 0 < found["games"] < 1000
    assert np.isfinite(found["mean"])


def test_ctrl_c_keeps_the_weights_so_far(tmp_path, monkeypatch, capsys):
    def tiring(*arguments, **options):
        found = train_tetris(*arguments, **options)
        found.interrupted = True
        return found

    monkeypatch.setattr("mdpnewton.training.tetris.train_tetris", tiring)
    run = ["tetris", "train", "--height", "6", "--width", "5", "--iterations", "1"]
    assert main([*run, "--out", str(tmp_path)]) == 130
    captured = capsys.readouterr()
    assert "interrupted" in captured.out
    again = "the same command goes on: mdpnewton tetris train"
    assert captured.err.startswith(f"mdpnewton: interrupted: {again}")
    names = {path.name for path in tmp_path.iterdir()}
    assert {"weights.json", "results.json", "learning-curve.png"} <= names


def test_help_loads_nothing_heavy():
    code = (
        "import sys, mdpnewton.cli\n"
        "try: mdpnewton.cli.main(['tetris', 'play', '--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'jax', 'numba', 'rich', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--weights FILE.json" in done.stdout
    assert len(DT_20) == 9
