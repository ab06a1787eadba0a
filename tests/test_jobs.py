"""Jobs: done once, found again bit for bit, whoever does them and whoever dies."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from mdpnewton.files.folder import write_whole
from mdpnewton.files.lock import locked
from mdpnewton.jobs import Here, Job, JobFolder, Processes, gathered
from mdpnewton.version import RESULTS

MODULE = "job_functions"


def squares(count=4, **more):
    return [Job(f"square-{n}", f"{MODULE}:squared", {"number": n, **more}) for n in range(count)]


def counts(folder, count=4):
    each = {"folder": str(folder)}
    return [Job(f"count-{n}", f"{MODULE}:counted", {**each, "number": n}) for n in range(count)]


def marks(folder):
    return {path.stem: len(path.read_text()) for path in folder.glob("*.mark")}


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name]["square"] == other[name]["square"]
        np.testing.assert_array_equal(one[name]["row"], other[name]["row"])


@pytest.fixture(scope="module")
def two_processes():
    with Processes(2, {"OMP_NUM_THREADS": "1"}) as executor:
        yield executor


# Jobs


def test_the_digest_covers_all_that_decides():
    base = Job("a", f"{MODULE}:squared", {"number": 1, "scale": 2.0})
    assert base.digest == Job("b", base.function, {"scale": 2.0, "number": 1}).digest
    others = [
        Job("a", f"{MODULE}:counted", base.arguments),
        Job("a", base.function, {"number": 2, "scale": 2.0}),
        Job("a", base.function, {"number": 1}),
    ]
    assert len({job.digest for job in [base, *others]}) == 4


def test_the_digest_changes_with_the_version_of_the_results():
    job = squares(1)[0]
    assert job.version == RESULTS
    assert replace(job, version=999).digest != job.digest


@pytest.mark.parametrize("name", ["", "a/b", "../a", "a b", "ä"])
def test_a_name_that_is_no_file_name_is_refused(name):
    with pytest.raises(ValueError, match=r"`Job\(name=...\)`"):
        Job(name, "module:function", {})


def test_work_may_ask_in_rounds():
    def work():
        first = yield squares(3)
        best = max(one["square"] for one in first.values())
        second = yield [Job("last", f"{MODULE}:squared", {"number": int(best)})]
        return {"end": second["last"]["square"]}

    found = gathered(work(), lambda jobs: {job.name: job.do() for job in jobs})
    assert found == {"end": 16.0}


# Folders


def test_jobs_are_done_once(tmp_path):
    run, jobs = JobFolder(tmp_path / "run"), counts(tmp_path)
    run.finished(jobs[:2], Here())
    found = run.finished(jobs, Here())
    assert marks(tmp_path) == {str(n): 1 for n in range(4)}
    assert found == {f"count-{n}": {"number": n} for n in range(4)}


def test_progress_counts_what_was_done_before(tmp_path):
    run, jobs, seen = JobFolder(tmp_path), squares(), []
    run.finished(jobs[:2], Here())
    run.finished(jobs, Here(), seen.append)
    assert [(one.done, one.total, one.last) for one in seen] == [
        (2, 4, ""),
        (3, 4, "square-2"),
        (4, 4, "square-3"),
    ]
    assert seen[0].seconds_left is None
    assert seen[-1].seconds_left == 0


def test_the_file_of_another_configuration_is_refused_and_stays(tmp_path):
    run = JobFolder(tmp_path)
    run.finished(squares(), Here())
    before = run.path(squares()[0]).read_bytes()
    with pytest.raises(ValueError, match="other settings or by another version; use --restart"):
        run.finished(squares(scale=3.0), Here())
    assert run.path(squares()[0]).read_bytes() == before


def test_a_damaged_file_is_refused_and_stays(tmp_path):
    run = JobFolder(tmp_path)
    run.finished(squares(), Here())
    path = run.path(squares()[1])
    content = bytearray(path.read_bytes())
    content[content.index(b"result")] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"square-1\.npz: is damaged"):
        run.finished(squares(), Here())
    assert path.read_bytes() == bytes(content)


def test_a_job_that_fails_is_told_after_all_others_are_done(tmp_path):
    bad = Job("bad", f"{MODULE}:failing", {"number": 7})
    run = JobFolder(tmp_path)
    with pytest.raises(ValueError, match="number 7 cannot be done"):
        run.finished([bad, *squares()], Here())
    assert all(run.is_done(job) for job in squares())
    assert not run.is_done(bad)


def test_stopping_hands_out_no_more_and_keeps_what_is_done(tmp_path):
    run, jobs, seen = JobFolder(tmp_path / "run"), counts(tmp_path), []
    with pytest.raises(KeyboardInterrupt):
        run.finished(jobs, Here(), seen.append, stopping=lambda: len(seen) > 2)
    assert sum(map(run.is_done, jobs)) == 2
    run.finished(jobs, Here())
    assert marks(tmp_path) == {str(n): 1 for n in range(4)}


# Processes


def test_processes_find_the_same_bits_as_this_one(tmp_path, two_processes):
    alone = JobFolder(tmp_path / "alone").finished(squares(5), Here())
    together = JobFolder(tmp_path / "two").finished(squares(5), two_processes, workers=2)
    same(alone, together)


def test_workers_get_their_environment_before_anything_else(two_processes):
    seen = two_processes.submit(Job("a", f"{MODULE}:threads_seen", {}).do).result()
    assert seen["threads"] == "1"
    assert seen["pid"] != os.getpid()


def test_a_worker_that_dies_is_replaced_and_its_job_done_again(tmp_path, two_processes):
    each = {"folder": str(tmp_path)}
    jobs = [
        Job(f"d-{n}", f"{MODULE}:deadly", {**each, "number": n, "deaths": 2 * (n == 1)})
        for n in range(3)
    ]
    run = JobFolder(tmp_path / "run")
    found = run.finished(jobs, two_processes, workers=2)
    assert [found[job.name]["number"] for job in jobs] == [0, 1, 2]
    assert (tmp_path / "1.deaths").read_text() == "xx"


def test_a_job_that_kills_its_worker_three_times_is_told_and_the_rest_goes_on(
    tmp_path, two_processes
):
    each = {"folder": str(tmp_path)}
    bad = Job("bad", f"{MODULE}:deadly", {**each, "number": 9, "deaths": 99})
    run = JobFolder(tmp_path / "run")
    with pytest.raises(ValueError, match="job bad: its worker died 3 times"):
        run.finished([bad, *squares()], two_processes, workers=2)
    assert all(run.is_done(job) for job in squares())
    assert (tmp_path / "9.deaths").read_text() == "xxx"


def test_workers_end_when_their_parent_is_killed(tmp_path):
    code = (
        "import os, time\nfrom mdpnewton.jobs import Processes\n"
        "if __name__ == '__main__':\n"
        "    pool = Processes(1)\n    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    program = tmp_path / "parent.py"
    program.write_text(code)
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
    for _ in range(100):
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the worker outlived its parent")


# Files


def test_a_file_is_whole_or_old_and_no_link_is_followed(tmp_path, monkeypatch):
    path, target = tmp_path / "file", tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "file.part").symlink_to(target)
    write_whole(path, b"one")
    assert target.read_text() == "mine"

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"two")
    assert path.read_bytes() == b"one"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "file.part", "target"]


def test_one_process_holds_a_folder_and_the_other_is_told_which(tmp_path):
    code = (
        "import sys, pathlib\nfrom mdpnewton.files.lock import locked\n"
        "try:\n    with locked(pathlib.Path(sys.argv[1]), sys.argv[2]):\n        print('held')\n"
        "except ValueError as error:\n    print(error)"
    )

    def other(part=""):
        command = [sys.executable, "-c", code, str(tmp_path), part]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    with locked(tmp_path):
        assert f"another process is working in this folder (process {os.getpid()} on" in other()
        assert "another process" in other("shard-1-of-2")
    with locked(tmp_path, "shard-1-of-2"):
        assert "another process" in other()
        assert "another process" in other("shard-1-of-2")
        assert other("shard-2-of-2") == "held"
    assert other() == "held"
