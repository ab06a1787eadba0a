"""Runs that survive: killed at any moment, gone on with, shared, refused to others."""

import errno
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny_experiment
from mortal import every_death

from mdpnewton.cli import main, parser
from mdpnewton.experiments import EXPERIMENTS, Experiment
from mdpnewton.files.lock import locked
from mdpnewton.version import RESULTS

DEMO = ["demo", "--set=problems=2", "--set=states=8", "--set=features=3", "--set=iterations=3"]


@pytest.fixture
def tiny(monkeypatch, tmp_path, capsys):
    """Runs `mdpnewton run tiny`; gives status, output and errors."""
    monkeypatch.setitem(sys.modules, "mdpnewton.experiments.tiny", tiny_experiment)
    monkeypatch.setitem(EXPERIMENTS, "tiny", Experiment("tiny", "nothing"))
    monkeypatch.chdir(tmp_path)

    def run(*words, first=("run", "tiny")):
        status = main([*first, *map(str, words)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def marks(tmp_path):
    """How often each job was done."""
    place = tmp_path / "marks"
    place.mkdir()
    return lambda: {path.name: len(path.read_text()) for path in place.iterdir()}


TIMED = ("sessions.json", "report.html")  # which say when a command began and how long it took


def content(folder):
    """All files of a folder without times, by their paths."""
    every = (path for path in Path(folder).rglob("*") if path.is_file() and path.name not in TIMED)
    return {str(path.relative_to(folder)): path.read_bytes() for path in every}


def results(folder):
    return json.loads((Path(folder) / "results.json").read_text())


MARKED = ("--out", "x", "--set", "marks=marks")
EACH = {name: 1 for name in ("a-0", "a-1", "b-0", "b-1", "c-0", "c-1")}


# Going on


def test_the_same_command_again_does_nothing_twice(tiny, marks):
    assert tiny(*MARKED)[0] == 0
    before = results("x")
    Path("x/results.json").unlink()
    status, out, err = tiny(*MARKED)
    assert (status, err) == (0, "")
    assert "3 methods" in out
    assert marks() == EACH
    assert results("x") == before


@pytest.mark.parametrize("missing", ["a-1", "last-c-0"])
def test_what_is_missing_is_done(tiny, marks, missing):
    tiny(*MARKED)
    before = results("x")
    Path(f"x/jobs/{missing}.npz").unlink()
    assert tiny(*MARKED)[0] == 0
    assert marks() == {**EACH, missing.removeprefix("last-"): 2}
    assert results("x") == before


def test_a_run_that_dies_after_any_operation_goes_on(tiny, monkeypatch):
    tiny("--out", "whole")
    whole = content("whole")

    def check(folder, moment):
        assert tiny("--out", folder)[0] == 0, moment
        found = content(folder)
        leftovers = {name for name in found if name.endswith(".part") or "/.lock" in f"/{name}"}
        assert results(folder) == results("whole"), moment
        assert found.keys() - leftovers == whole.keys(), moment

    moments = every_death(monkeypatch, lambda folder: main(["run", "tiny", "--out", folder]), check)
    assert moments > 30  # eight files, each opened, synced, renamed and its folder synced


def test_a_damaged_job_is_one_line_and_stays(tiny):
    tiny("--out", "x")
    path = Path("x/jobs/b-1.npz")
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"result")] ^= 1
    path.write_bytes(damaged)
    before = content("x")
    status, out, err = tiny("--out", "x")
    assert (status, out) == (2, "")
    assert err == (
        f"mdpnewton: error: {path}: is damaged; move it away, and the same command does this job "
        f"again\n"
    )
    assert content("x") == before
    path.unlink()
    assert tiny("--out", "x")[0] == 0


# Refusing


def test_a_folder_of_another_command_is_refused_by_its_name(tiny):
    tiny("--out", "x")
    about = json.loads(Path("x/config.json").read_text())
    Path("x/config.json").write_text(json.dumps({**about, "command": "train"}))
    status, _, err = tiny("--out", "x")
    assert (status, err.count("\n")) == (2, 1)
    assert "x: holds a run of `train`, not of `run`; name another folder" in err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--seed", 1], "holds a run with seed 0, not 1; name another folder with --out, or use"),
        (["--scale", "laptop"], 'holds a run with scale "quick", not "laptop"; name another'),
        (["--set", "scale=2"], "holds a run with scale 1.0, not 2.0; name another folder"),
    ],
)
def test_another_configuration_is_refused_and_nothing_is_written(tiny, more, said):
    tiny("--out", "x")
    before = content("x")
    status, out, err = tiny("--out", "x", *more)
    assert (status, out) == (2, "")
    assert err.startswith(f"mdpnewton: error: x: {said}")
    assert err.count("\n") == 1
    assert content("x") == before


def test_another_experiment_and_another_version_are_refused(tiny, monkeypatch):
    tiny("--out", "x")
    before = content("x")
    status, _, err = tiny("--out", "x", first=("run", "hallway"))
    assert status == 2
    assert 'x: holds a run with experiment "tiny", not "hallway"' in err
    monkeypatch.setattr("mdpnewton.cli.run.RESULTS", 99)
    status, _, err = tiny("--out", "x")
    assert status == 2
    assert f"x: holds a run with results version {RESULTS}, not 99" in err
    assert content("x") == before


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("config.json", '{"experiment": "tiny", "seed": 0}', "older version or another command"),
        ("config.json", "{", "config.json: is damaged"),
        ("thesis.tex", "mine", "is not empty and holds no run; name another folder with --out"),
    ],
)
def test_a_folder_of_others_is_one_line_and_stays(tiny, name, text, said):
    Path("x").mkdir()
    Path("x", name).write_text(text)
    status, out, err = tiny("--out", "x")
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
    assert content("x") == {name: text.encode()}


def test_restart_moves_the_old_run_aside_and_never_deletes(tiny):
    assert tiny("--out", "x", "--restart")[0] == 0
    before = content("x")
    status, _, err = tiny("--out", "x", "--seed", 1, "--restart")
    assert (status, err) == (0, "mdpnewton: the old run is now x.old-1\n")
    assert tiny("--out", "x", "--seed", 2, "--restart")[0] == 0
    assert content("x.old-1") == before
    assert [results(name)["seed"] for name in ("x.old-1", "x.old-2", "x")] == [0, 1, 2]
    Path("mine").mkdir()
    Path("mine/thesis.tex").write_text("mine")
    status, _, err = tiny("--out", "mine", "--restart")
    assert status == 2
    assert "holds no run that --restart could move aside" in err
    assert content("mine") == {"thesis.tex": b"mine"}


def test_settings_have_folders_of_their_own(tiny):
    assert tiny()[0] == tiny("--set", "scale=2")[0] == 0
    assert {path.name for path in Path("runs").iterdir()} == {
        "tiny-quick-0",
        "tiny-quick-0-scale-2",
    }


def test_another_machine_or_library_is_a_warning(tiny):
    tiny("--out", "x")
    config = json.loads(Path("x/config.json").read_text())
    assert {"cpu", "x64"} == config["machine"].keys()
    config["libraries"]["numpy"] = "1.0"
    Path("x/config.json").write_text(json.dumps(config))
    status, _, err = tiny("--out", "x")
    assert status == 0
    assert err.startswith('mdpnewton: warning: x: this run began with numpy "1.0", not "')


def test_two_processes_do_not_share_a_folder(tiny):
    tiny("--out", "x")
    before = content("x")
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom mdpnewton.files.lock import locked\n"
        "with locked(Path('x')):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        for more in ([], ["--shard", "1/2"], ["--restart"]):
            status, out, err = tiny("--out", "x", *more)
            assert (status, out) == (2, "")
            assert f"another process is working in this folder (process {other.pid} on " in err
        other.kill()
    assert tiny("--out", "x")[0] == 0  # a lock ends with its process
    assert content("x") == before  # and leaves no file behind


def test_where_a_file_system_has_no_locks_the_run_goes_without(tiny, monkeypatch):
    def missing(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", missing)
    assert tiny("--out", "x")[0] == 0


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    import fcntl

    whole, times = fcntl.flock, []

    def late(opened, kind):
        times.append(kind)
        if len(times) == 1:  # its last holder removes it between our opening and our locking
            (tmp_path / ".lock").unlink()
        whole(opened, kind)

    monkeypatch.setattr(fcntl, "flock", late)
    with locked(tmp_path):
        assert len(times) == 2
        assert (tmp_path / ".lock").exists()
    assert not list(tmp_path.iterdir())


# Failing, and looking at it


def test_a_job_that_fails_is_told_and_the_others_are_kept(tiny, marks):
    status, _, err = tiny(*MARKED, "--set", "failing=a")
    assert (status, err) == (2, "mdpnewton: error: method a cannot be done\n")
    status, out, _ = tiny("x", first=("status",))
    assert status == 0
    assert out.splitlines() == [
        "tiny, quick scale, seed 0",
        "jobs: 2 of 4 done, 2 left",
        "failed: a-0: method a cannot be done",
        "failed: a-1: method a cannot be done",
        "results: not yet; the same command goes on",
    ]
    tiny(*MARKED, "--set", "failing=a")
    assert marks() == {"a-0": 2, "a-1": 2, "b-0": 1, "b-1": 1}


def test_status_says_what_is_done_and_left(tiny):
    tiny("--out", "x", "--shard", "1/4")
    status, out, _ = tiny("x", "--json", first=("status",))
    assert status == 0
    assert json.loads(out) == {
        "experiment": "tiny",
        "scale": "quick",
        "seed": 0,
        "done": ["a-0"],
        "left": ["b-0", "a-1", "b-1"],
        "failed": {},
        "results": False,
    }
    tiny("--out", "x")
    status, out, _ = tiny("x", first=("status",))
    assert out.splitlines()[1:] == ["jobs: 6 of 6 done, 0 left", "results: written"]


def test_status_of_another_version_is_one_line(tiny, monkeypatch):
    tiny("--out", "x")
    monkeypatch.setattr("mdpnewton.cli.status.RESULTS", 99)
    status, _, err = tiny("x", first=("status",))
    assert status == 2
    assert "x: holds no run of this version; ask mdpnewton" in err


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_status_of_what_is_no_run_is_one_line(tiny, name):
    Path("empty").mkdir()
    status, out, err = tiny(name, first=("status",))
    assert (status, out) == (2, "")
    assert err.startswith(f"mdpnewton: error: {name}: ")
    assert err.count("\n") == 1


def test_a_dry_run_lists_the_jobs_and_writes_nothing(tiny, marks):
    status, out, _ = tiny("--out", "x", "--dry-run")
    assert status == 0
    assert out.splitlines()[:4] == ["left  a-0", "left  b-0", "left  a-1", "left  b-1"]
    assert "jobs: 0 of 4 done, 4 left" in out
    assert "estimated from a-0" in out
    assert not Path("x").exists()
    tiny(*MARKED, "--shard", "1/2")
    before = content("x")
    status, out, _ = tiny(*MARKED, "--dry-run", "--json")
    found = json.loads(out)
    assert (found["done"], found["left"]) == (["a-0", "a-1"], ["b-0", "b-1"])
    assert found["seconds_left"] == pytest.approx(2 * found["seconds_per_job"])
    assert content("x") == before
    assert marks() == {"a-0": 1, "a-1": 1}
    status, _, err = tiny("--out", "x", "--dry-run", "--seed", 3)
    assert status == 2
    assert "x: holds a run with seed 0, not 3" in err


# Shards and workers


def test_shards_fill_one_folder_and_a_plain_run_gathers(tiny, marks):
    tiny("--out", "whole")
    for more in (["--shard", "1/3"], ["--shard", "2/3"]):
        status, out, err = tiny(*MARKED, *more)
        assert (status, err) == (0, "")
        assert "the same command without --shard gathers" in out
        assert not Path("x/results.json").exists()
    assert marks() == {"a-0": 1, "b-0": 1, "b-1": 1}  # jobs 1, 2 and 4
    assert tiny(*MARKED)[0] == 0
    assert marks() == EACH
    assert results("x") == results("whole")


def test_the_last_shard_gathers(tiny):
    for part in ("1/2", "2/2"):
        tiny("--out", "x", "--shard", part)
    assert not Path("x/results.json").exists()  # the first shard has a part in the second round
    assert tiny("--out", "x", "--shard", "1/2")[0] == 0
    assert len(results("x")["methods"]) == 3


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_a_bad_shard_is_one_line(tiny, text):
    status, _, err = tiny(f"--shard={text}")
    assert status == 2
    assert f"--shard {text}: write I/N with 1 <= I <= N, as 1/4" in err
    assert not Path("runs").exists()


def test_a_shard_does_not_restart_what_others_work_on(tiny):
    tiny("--out", "x")
    before = content("x")
    status, _, err = tiny("--out", "x", "--shard", "1/2", "--restart")
    assert status == 2
    assert "--restart with --shard" in err
    assert content("x") == before


def test_workers_do_the_jobs_and_find_the_same(tiny):
    tiny("--out", "one")
    status, _, err = tiny("--out", "two", "--workers", 2)
    assert (status, err) == (0, "")
    assert results("one") == results("two")


def started(*words, program=(tiny_experiment.__file__,)):
    """A process of its own, by default with the tiny experiment."""
    command = [sys.executable, *program, "run", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(count, folder, process):
    """Waits until so many jobs are done."""
    while len(list((folder / "jobs").glob("*.npz"))) < count:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


SLOW = ("--set", "seconds=0.05", "--set", "runs=4")


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 6, 10])
def test_a_run_that_is_killed_goes_on(tiny, tmp_path, count, workers):
    killed = tmp_path / "killed"
    with started("tiny", *SLOW, "--out", killed, "--workers", workers) as process:
        until(count, killed, process)
        process.kill()
    assert not (killed / "results.json").exists()
    times = {path: path.stat().st_mtime_ns for path in (killed / "jobs").glob("*.npz")}
    assert tiny(*SLOW, "--out", "killed")[0] == 0
    assert len(times) >= count
    assert all(path.stat().st_mtime_ns == moment for path, moment in times.items())
    tiny(*SLOW, "--out", "whole", "--workers", 2)
    assert results("killed") == results("whole")


def test_an_experiment_killed_with_two_workers_goes_on_with_one(tmp_path):
    killed, whole, module = tmp_path / "killed", tmp_path / "whole", ("-m", "mdpnewton")
    with started(*DEMO, "--out", killed, "--workers", 2, program=module) as process:
        until(2, killed, process)
        process.kill()
    assert not (killed / "results.json").exists()
    for folder in (killed, whole):
        with started(*DEMO, "--out", folder, program=module) as process:
            assert process.wait() == 0, process.stderr.read()
    assert results(killed) == results(whole)
    assert (killed / "demo.svg").read_bytes() == (whole / "demo.svg").read_bytes()


@pytest.mark.parametrize(
    ("kind", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)], ids=["Ctrl-C", "SIGTERM"]
)
def test_a_signal_keeps_what_is_done_and_says_how_to_go_on(tmp_path, kind, workers):
    many = ("--set", "seconds=0.05", "--set", "runs=1000", "--json", "--workers", workers)
    with started("tiny", *many, "--out", tmp_path) as process:
        until(2, tmp_path, process)
        process.send_signal(kind)
        out, err = process.communicate()
    assert process.returncode == 128 + kind
    assert out == ""
    done = len(list((tmp_path / "jobs").glob("*.npz")))
    first, last = err.splitlines()
    assert first == "mdpnewton: stopping as soon as nothing is lost; once more to stop at once"
    said = (
        f"interrupted: {done} of 2000 jobs are done; the same command goes on: mdpnewton run tiny"
    )
    assert last.startswith(f"mdpnewton: {said}")
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "sessions.json", "jobs"}
    assert not list((tmp_path / "jobs").glob("*.failed"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_signal_ends_at_once_and_nothing_is_torn(tmp_path, workers):
    folder, marks = tmp_path / "run", tmp_path / "marks"
    marks.mkdir()
    slow = ("--set", "seconds=60", "--set", f"marks={marks}", "--workers", workers)
    with started("tiny", "--json", "--out", folder, *slow) as process:
        while not list(marks.iterdir()):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.stderr.readline().startswith("mdpnewton: stopping as soon as")
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (143, "")
    assert err.startswith("mdpnewton: stopped at once; what was written is whole\n")
    assert time.monotonic() - began < 30  # the job takes a minute
    known = {"config.json", "sessions.json", "jobs", ".lock"}
    assert {path.name for path in folder.iterdir()} <= known


def test_every_command_that_goes_on_says_so_in_its_help(capsys):
    with pytest.raises(SystemExit):
        parser.main(["run", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for flag in ("--workers", "--shard I/N", "--dry-run", "--restart"):
        assert flag in text
