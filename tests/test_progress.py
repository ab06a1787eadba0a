"""Progress: a line of 80 columns in a terminal, a line per minute elsewhere."""

import re
import time

import pytest

from mdpnewton.report.progress import BAR, progress_bar
from mdpnewton.report.training import shown_metrics

LINE = {"return": -1234.56, "kl": 0.2, "step": 100.0, "residual": 1.2e-3, "accepted": True}


def frames(capsys):
    """What was drawn on standard error, without codes of the terminal."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    return [line.rstrip() for line in re.split(r"[\r\n]+", text) if line.strip()]


@pytest.fixture
def terminal(monkeypatch):
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize(
    "what",
    [
        shown_metrics(LINE),
        shown_metrics({**LINE, "accepted": False}),
        shown_metrics({**LINE, "kl": None, "residual": None}),
        "blockwise expectation maximisation, run 17 of 100, [a very long text] that does not fit",
    ],
)
def test_the_bar_the_numbers_and_the_time_fit_80_columns(terminal, capsys, what):
    with progress_bar("mdpnewton/CartPoleSwingUp-v0", quiet=False) as progress:
        progress(12_500, 25_000, what)
    lines = frames(capsys)
    assert all(len(line) <= 80 for line in lines)
    bar, share, *words, elapsed = lines[-1].split()
    assert len(bar) == BAR
    assert share == "50%"
    assert elapsed == "0:00:00"
    text = " ".join(words)
    assert text == what or text.endswith("…")
    if "return" in what:
        assert re.match(r"return -1234.6 kl (0.20|-) step 1e\+02 residual (1e-03|-)", text)
        assert text == what


def logged(capsys, lines, seconds=10.0):
    """Waits for so many lines on standard error."""
    found, end = "", time.monotonic() + seconds
    while found.count("\n") < lines and time.monotonic() < end:
        time.sleep(0.01)
        found += capsys.readouterr().err
    return found.splitlines()


def test_without_a_terminal_a_long_run_writes_lines(monkeypatch, capsys):
    monkeypatch.setattr("mdpnewton.report.progress.EVERY", 0.02)
    with progress_bar("tetris", quiet=False) as progress:
        assert logged(capsys, 1)[0] == "tetris: starting, 0 min"
        progress(3, 10, "natural [gradient]")
        lines = logged(capsys, 3)  # without another report: it is seen to live
    assert lines[-1] == "tetris: natural [gradient], 3/10, 0 min"
    assert len(lines) >= 3
    capsys.readouterr()
    time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_a_quiet_run_and_a_short_one_write_nothing(monkeypatch, capsys):
    with progress_bar("tetris", quiet=False) as progress:
        progress(3, 10, "games")
    monkeypatch.setattr("mdpnewton.report.progress.EVERY", 0.001)
    with progress_bar("tetris", quiet=True) as progress:
        progress(3, 10, "games")
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
