"""Trainings of several seeds, and the numbers of a training for TensorBoard."""

import json
import shutil
from pathlib import Path

import pytest

from mdpnewton.cli import main
from mdpnewton.cli.sweep import seeds_of
from mdpnewton.jobs import Here
from mdpnewton.jobs.store import do_job

SHORT = ("train", "cartpole", "--policy", "linear", "--iterations", "1")


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mdpnewton.cli.train.FINAL_EPISODES", 2)

    def run(*words):
        status = main([str(word) for word in (*SHORT, *words)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_a_sweep_has_a_folder_per_seed_with_the_numbers_of_that_seed_and_goes_on(train):
    status, out, err = train("--seeds", "3-4")
    assert (status, err) == (0, ""), err
    folder = Path("runs/train-cartpole-linear-second_gauss_newton-3-4")
    assert f"report: {folder}/report.html" in out
    assert train("--seed", "4", "--out", "alone")[0] == 0
    for name in ("metrics.jsonl", "results.json"):
        assert (folder / "seed-4" / name).read_text() == Path("alone", name).read_text()
    results = json.loads((folder / "results.json").read_text())
    assert [one["seed"] for one in results["runs"]] == [3, 4]
    (group,) = results["comparison"]["groups"].values()
    assert group["seeds"] == [3, 4]
    (line,) = (folder / "seed-3" / "times.jsonl").read_text().splitlines()
    time = json.loads(line)
    assert time["seconds"] > 0
    assert group["seconds_to_level"][0] == time["seconds"]  # the level is where its curve begins
    page = (folder / "report.html").read_text()
    assert "2 runs that differ in their seeds" in page
    before = (folder / "seed-3" / "policy.npz").stat().st_mtime_ns
    (folder / "jobs" / "seed-4.npz").unlink()
    (folder / "seed-4" / "results.json").unlink()
    assert train("--seeds", "3-4")[0] == 0
    assert train("--seeds", "3-4", "--set", "reuse=2", "--out", "x")[0] == 0
    assert train("--seeds", "3-4", "--set", "reuse=2", "--out", "x")[0] == 0
    assert (folder / "seed-3" / "policy.npz").stat().st_mtime_ns == before
    assert (folder / "seed-4" / "results.json").read_text() == Path(
        "alone/results.json"
    ).read_text()
    assert main(["status", str(folder)]) == 0
    assert main(["compare", str(folder), "--json"]) == 0
    status, _, err = train("--seeds", "3-5", "--out", folder)
    assert status == 2
    assert 'holds a run with seeds "3-4"' in err


def test_a_sweep_on_machines_that_do_not_see_its_folder_writes_the_same_files(train, monkeypatch):
    class Elsewhere(Here):
        def submit(self, function, *arguments):
            if function is do_job:  # others are those that play episodes
                arguments = (arguments[0], f"/nowhere/{arguments[1]}")
            return super().submit(function, *arguments)

    monkeypatch.setattr("mdpnewton.cli.workers.executor_for", lambda *about: Elsewhere())
    assert train("--seeds", "3-4", "--out", "sweep")[0] == 0
    assert train("--seed", "4", "--out", "alone")[0] == 0
    for name in ("metrics.jsonl", "results.json", "policy.npz"):
        one, other = (Path(folder, name).read_bytes() for folder in ("sweep/seed-4", "alone"))
        assert one == other, name
    assert {one.name for one in Path("alone").iterdir()} - {".lock"} == {
        one.name for one in Path("sweep/seed-4").iterdir()
    }
    results = json.loads(Path("sweep/results.json").read_text())
    assert [one["seed"] for one in results["runs"]] == [3, 4]
    assert "files" not in results
    shutil.rmtree("sweep/seed-3")
    assert train("--seeds", "3-4", "--out", "sweep")[0] == 0
    assert Path("sweep/seed-3/policy.npz").is_file()


@pytest.mark.parametrize("text", ["", "3", "4-3", "a-b", "1-2-3", "0-99999999999", "-1-2"])
def test_seeds_that_are_none_are_refused_in_one_line(text):
    with pytest.raises(ValueError, match="write FIRST-LAST"):
        seeds_of(text)


def test_what_a_sweep_cannot_do_is_refused_before_anything_is_written(train):
    status, out, err = train("--seeds", "0-1", "--tensorboard", "logs")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert not Path("runs").exists()


def test_tensorboard_gets_every_number_of_an_iteration(train):
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import RecordWriter  # noqa: F401 - the format is theirs

    assert train("--tensorboard", "logs", "--out", "run")[0] == 0
    (path,) = Path("logs").iterdir()
    content, at, found = path.read_bytes(), 0, {}
    while at < len(content):  # length, its checksum, the event, its checksum
        length = int.from_bytes(content[at : at + 8], "little")
        event = Event.FromString(content[at + 12 : at + 12 + length])
        found |= {value.tag: (event.step, value.simple_value) for value in event.summary.value}
        at += 16 + length
    line = json.loads(Path("run/metrics.jsonl").read_text().splitlines()[-1])
    for name in ("return", "kl", "residual", "smallest_curvature"):
        assert found[f"train/{name}"] == (line["transitions"], pytest.approx(line[name], rel=1e-6))
