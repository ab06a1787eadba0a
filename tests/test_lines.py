"""Files of lines, one per iteration, and the times of the iterations."""

import json

from mdpnewton.files import lines
from mdpnewton.files.found import found_in
from mdpnewton.files.lines import Clock, add_line, kept_lines


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines_after_the_iteration_at_which_a_run_goes_on_are_cut(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert kept_lines(path, 0) == []
    for n in range(4):
        add_line(path, {"iteration": n, "value": n / 3})
    with path.open("a") as file:
        file.write('[1]\n{"value": 5}\n{"iteration": 4, "val')
    assert kept_lines(path, 3) == rows(path) == [{"iteration": n, "value": n / 3} for n in range(3)]
    add_line(path, {"iteration": 3})
    assert len(rows(path)) == 4


def test_the_clock_goes_on_after_the_last_iteration_that_counts(tmp_path, monkeypatch):
    now = iter([100.0, 101.5, 103.0, 104.0, 500.0, 507.0])
    monkeypatch.setattr(lines.time, "monotonic", lambda: next(now))
    clock = Clock(tmp_path)
    clock.go_on(0)
    for n in range(3):
        clock.note(n)
    clock = Clock(tmp_path)
    clock.go_on(2)  # the third iteration was not saved
    clock.note(2)
    assert rows(tmp_path / "times.jsonl") == [
        {"iteration": 0, "seconds": 1.5},
        {"iteration": 1, "seconds": 3.0},
        {"iteration": 2, "seconds": 10.0},
    ]
    assert [row["seconds"] for row in found_in(tmp_path).times] == [1.5, 3.0, 10.0]
