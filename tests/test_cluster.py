"""A Ray cluster that loses a node, and then its head: the same bits, and nothing is lost.

All tests share one cluster of three nodes; those that end one put another in its place, and the
last test takes the head.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny_experiment

import mdpnewton as mn
from mdpnewton.cli import main
from mdpnewton.cli.workers import executor_for, modules_of
from mdpnewton.files.states import load_state
from mdpnewton.jobs import Cluster, ClusterLostError, Here, Job, JobFolder, Processes
from mdpnewton.jobs.processes import WorkerDiedError

TESTS = Path(__file__).parent
MODULE = "job_functions"
KEY = jax.random.key(3)
W = jnp.array([[-0.3, 0.1]])


def steer():
    return mn.LinearGaussian([[0.2]], 2, jnp.asarray)


class Nodes:
    """The cluster: its address, and words that it obeys."""

    def __init__(self, process):
        self.process = process
        self.address = process.stdout.readline().strip()

    def tell(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == "done\n"


@pytest.fixture(scope="module")
def nodes():
    path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("RAY_ADDRESS", None)
    with subprocess.Popen(
        [sys.executable, TESTS / "ray_cluster.py"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        yield Nodes(process)
        process.stdin.close()


@pytest.fixture(scope="module")
def shaken(tmp_path_factory):
    """A module that is nowhere on the path of the workers."""
    folder = tmp_path_factory.mktemp("elsewhere")
    source = (TESTS / "noisy_environment.py").read_text()
    (folder / "shaken.py").write_text(source.replace('id="', 'id="Shaken'))
    sys.path.append(str(folder))
    yield folder / "shaken.py"
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def cluster(nodes, shaken):
    with Cluster(nodes.address, modules=[shaken]) as executor:
        yield executor


def slow(folder, count, seconds):
    folder.mkdir(exist_ok=True)
    each = {"folder": str(folder), "seconds": seconds}
    return [Job(f"slow-{n}", f"{MODULE}:slowly", {**each, "number": n}) for n in range(count)]


def same(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


# What needs no cluster


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Cluster("ray://host:10001"), "must be 'auto', 'local' or the address of a head"),
        (lambda: Cluster("auto", 3), "is for address='local'"),
        (lambda: Cluster("local", 0), "must be a whole number"),
        (lambda: Cluster("local", modules=["no_such.py"]), "Python files or folders"),
        (lambda: executor_for(3, "auto"), "--workers 3 with --cluster auto: a cluster that exists"),
    ],
)
def test_what_cannot_be_is_refused_at_once(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_who_does_the_work_of_a_command():
    assert isinstance(executor_for(None), Here)
    assert isinstance(executor_for(1), Here)
    two = executor_for(2)
    assert isinstance(two, Processes)
    assert two.workers == 2
    assert isinstance(executor_for(None, "local"), Cluster)


def test_the_module_of_an_environment_is_found_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    assert modules_of("mine:A-v0") == (tmp_path / "mine.py",)
    assert modules_of("package.deep:A-v0") == (tmp_path / "package",)
    assert modules_of("other:A-v0") == modules_of("CartPole-v1") == ()


def test_no_cluster_is_one_line(monkeypatch, tmp_path, capsys):
    with pytest.raises(ValueError, match=r"^cluster '127.0.0.1:1': there is no Ray head at"):
        Cluster("127.0.0.1:1").__enter__()
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # which "auto" takes
    assert main(["run", "demo", "--cluster", "auto", "--out", str(tmp_path / "x")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mdpnewton: error: cluster 'auto': there is no Ray head at")
    assert "begin one with `ray start --head`, or use 'local'" in line


# With the cluster


def test_jobs_have_the_same_bits_on_a_cluster(nodes, cluster, tmp_path):
    assert cluster.workers == 3
    jobs = [Job(f"s-{n}", f"{MODULE}:squared", {"number": n}) for n in range(7)]
    jobs += [Job(f"n-{n}", f"{MODULE}:normals", {"seed": n}) for n in range(3)]
    alone = JobFolder(tmp_path / "a").finished(jobs, Here())
    together = JobFolder(tmp_path / "b").finished(jobs, cluster, workers=3)
    assert same(alone, together)


def test_workers_have_one_thread_and_errors_arrive_as_they_were(cluster, tmp_path):
    seen = cluster.submit(Job("a", f"{MODULE}:threads_seen", {}).do).result()
    assert seen["threads"] == "1"
    assert seen["nproc"] == "1"
    bad = Job("bad", f"{MODULE}:failing", {"number": 7})
    with pytest.raises(ValueError, match=r"^number 7 cannot be done$"):
        JobFolder(tmp_path).finished([bad], cluster)


def test_a_job_that_kills_its_worker_three_times_is_told(cluster, tmp_path):
    each = {"folder": str(tmp_path)}
    bad = Job("bad", f"{MODULE}:deadly", {**each, "number": 9, "deaths": 99})
    once = Job("once", f"{MODULE}:deadly", {**each, "number": 1, "deaths": 1})
    run = JobFolder(tmp_path / "run")
    with pytest.raises(ValueError, match="job bad: its worker died 3 times"):
        run.finished([bad, once], cluster, workers=2)
    assert run.is_done(once)
    assert (tmp_path / "9.deaths").read_text() == "xxx"


def test_a_node_dies_in_the_middle_of_jobs(nodes, cluster, tmp_path):
    jobs, run, other = slow(tmp_path, 9, 2.0), JobFolder(tmp_path / "run"), tmp_path / "alone"
    alone = JobFolder(other).finished(slow(other, 9, 0.0), Here())

    def kill():
        """Ends a node as soon as a job has begun on it."""
        while True:
            for path in tmp_path.glob("*.nodes"):
                fresh = time.time() - path.stat().st_mtime < 0.5
                if fresh and nodes.tell("kill", *path.read_text().split()):
                    return
            time.sleep(0.05)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    found = run.finished(jobs, cluster, workers=3)
    killer.join(30)
    assert nodes.tell("add")
    assert same(found, alone)
    begun = [len(path.read_text().split()) for path in tmp_path.glob("*.nodes")]
    assert len(begun) == 9
    assert sum(begun) > 9  # the job of the dead node was done again


def test_a_node_dies_in_the_middle_of_plays(nodes, cluster, shaken):
    simulator = mn.GymnasiumSimulator("shaken:ShakenNoisy-v0", copies=2)
    expected = mn.Distributed(simulator, Here(), chunk=4).play(KEY, steer(), W, 40)
    together = mn.Distributed(simulator, cluster, chunk=4)
    policy = steer()
    assert same(together.play(KEY, policy, W, 40), expected)
    killer = threading.Timer(0.1, nodes.tell, args=("kill",))
    killer.start()
    plays = 0
    while killer.is_alive() or plays < 3:
        assert same(together.play(KEY, policy, W, 40), expected)
        plays += 1
    assert nodes.tell("add")
    broken = mn.GymnasiumSimulator("shaken:ShakenBroken-v0", copies=2)
    with pytest.raises(mn.SimulationError, match="in step 4: the motor is off; fix the env"):
        mn.Distributed(broken, cluster, chunk=2).play(KEY, policy, W, 20)


def test_a_node_dies_in_the_middle_of_a_training(nodes, tmp_path):
    iterations = 12
    command = ["train", "noisy_environment:Noisy-v0", "--policy=linear"]
    command += [f"--iterations={iterations}", "--out"]
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert main([*command, str(alone)]) == 0
    metrics, done = together / "metrics.jsonl", []

    def kill():
        """Ends a node after the second iteration, and counts those that follow."""
        while not metrics.exists() or metrics.read_text().count("\n") < 2:
            time.sleep(0.01)
        done.append(nodes.tell("kill"))
        done.append(metrics.read_text().count("\n"))

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    assert main([*command, str(together), "--cluster", nodes.address]) == 0
    killer.join(30)
    assert nodes.tell("add")
    assert done[0]
    assert done[1] < iterations
    a, b = (json.loads((folder / "results.json").read_text()) for folder in (alone, together))
    assert a["return"] == b["return"]
    assert a["final"] == b["final"]
    one, other = (load_state(folder / "policy.npz")["w"] for folder in (alone, together))
    assert same(one, other)


def test_a_sweep_on_a_cluster_has_the_numbers_of_single_trainings(nodes, tmp_path):
    command = ["train", "noisy_environment:Noisy-v0", "--policy=linear", "--iterations=1"]
    sweep, alone = tmp_path / "sweep", tmp_path / "alone"
    seeds = ["--seeds=5-6", "--out", str(sweep), "--cluster", nodes.address]
    assert main([*command, *seeds]) == 0
    assert main([*command, "--seed=6", "--out", str(alone)]) == 0
    for name in ("metrics.jsonl", "results.json"):
        assert (sweep / "seed-6" / name).read_bytes() == (alone / name).read_bytes()


def test_points_of_a_black_box_are_evaluated_on_a_cluster(cluster):
    alone = mn.minimize(np.linalg.norm, np.ones(3), budget=60)
    together = mn.minimize(np.linalg.norm, np.ones(3), budget=60, executor=cluster)
    assert together.value == alone.value
    np.testing.assert_array_equal(together.x, alone.x)


def test_a_broker_that_dies_is_a_lost_cluster(nodes):
    with Cluster(nodes.address) as executor:
        under_way = executor.submit(time.sleep, 300)
        executor._broker.kill()
        with pytest.raises(
            ClusterLostError, match=f"the cluster at {nodes.address} is gone; every"
        ):
            under_way.result(timeout=60)
        with pytest.raises(ClusterLostError):
            executor.check()


def results(folder):
    return json.loads((folder / "results.json").read_text())


def test_the_head_dies_and_the_same_command_goes_on_without_it(nodes, cluster, tmp_path):
    words = ["run", "tiny", "--set", "seconds=0.2", "--set", "runs=10"]
    program = [sys.executable, tiny_experiment.__file__, *words]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    on_cluster = [*program, "--out", killed, "--cluster", nodes.address]
    with subprocess.Popen(on_cluster, stderr=subprocess.PIPE, text=True) as process:
        while len(list((killed / "jobs").glob("*.npz"))) < 4:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        nodes.tell("behead")
        began = time.monotonic()
        _, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 40
    assert process.returncode == 2
    assert err == (
        f"mdpnewton: error: the cluster at {nodes.address} is gone; everything finished is kept, "
        f"and the same command goes on\n"
    )
    kept = {path: path.read_bytes() for path in (killed / "jobs").iterdir()}
    assert len(kept) >= 4
    assert all(path.suffix == ".npz" for path in kept)  # nothing failed
    for folder in (killed, whole):
        done = subprocess.run([*program, "--out", folder, "--workers", "2"], capture_output=True)
        assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in kept} == kept
    assert results(killed) == results(whole)
    with pytest.raises(ClusterLostError, match="is gone; everything finished is kept"):
        cluster.submit(len, "abc").result(timeout=60)  # the other client has noticed, too
    with pytest.raises(ClusterLostError):
        cluster.check()


def test_a_local_cluster_does_a_run_and_ends(tmp_path):
    words = ["run", "tiny", "--set", "runs=2"]
    program = [sys.executable, tiny_experiment.__file__, *words]
    for folder, more in (("here", []), ("local", ["--cluster", "local", "--workers", "2"])):
        done = subprocess.run(
            [*program, "--out", tmp_path / folder, *more],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])},
        )
        assert (done.returncode, done.stderr) == (0, "")
    assert results(tmp_path / "here") == results(tmp_path / "local")


@pytest.mark.slow
def test_a_head_that_hangs_is_noticed():
    with Cluster("local", 1) as executor:
        assert executor.submit(abs, -1).result() == 1
        under_way = executor.submit(time.sleep, 300)
        every = subprocess.run(["ps", "axwwo", "pid,args"], capture_output=True, text=True).stdout
        heads = [line for line in every.splitlines() if "gcs_server" in line]
        (head,) = (int(line.split()[0]) for line in heads if executor._folder in line)
        os.kill(head, signal.SIGSTOP)
        with pytest.raises(ClusterLostError, match="the local cluster does not answer; everything"):
            under_way.result(timeout=120)


@pytest.mark.slow
def test_a_job_that_runs_out_of_memory_is_tried_three_times(monkeypatch, tmp_path):
    """Ray ends the workers of a node whose memory is used up, here at once."""
    monkeypatch.setenv("RAY_memory_usage_threshold", "0.001")
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "200")
    (job,) = slow(tmp_path, 1, 60.0)
    told = pytest.raises(WorkerDiedError, match="its worker ran out of memory 3 times")
    with Cluster("local", 1, modules=[TESTS / "job_functions.py"]) as executor, told:
        executor.submit(job.do).result(timeout=300)
    (begun,) = tmp_path.glob("*.nodes")
    assert 1 <= len(begun.read_text().split()) <= 3  # some die before it begins
