"""Jobs for the tests, in a module that workers can import."""

import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from mdpnewton.jobs import gathered


def results_of(work):
    """What an experiment finds when its jobs are done here, without files."""
    return gathered(work, lambda jobs: {job.name: job.do() for job in jobs})


def squared(number, scale=1.0):
    return {"square": scale * number**2, "row": np.arange(number) / 3}


def counted(folder, number):
    """Leaves a mark each time it is done."""
    with (Path(folder) / f"{number}.mark").open("a") as marks:
        marks.write("x")
    return {"number": number}


def deadly(folder, number, deaths):
    """Kills its process so many times, then works."""
    mark = Path(folder) / f"{number}.deaths"
    tried = len(mark.read_text()) if mark.exists() else 0
    if tried < deaths:
        mark.write_text("x" * (tried + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return {"number": number}


def failing(number):
    raise ValueError(f"number {number} cannot be done")


def threads_seen():
    seen = {"threads": os.environ.get("OMP_NUM_THREADS", ""), "pid": os.getpid()}
    return {**seen, "nproc": os.environ.get("NPROC", "")}


def normals(seed):
    """Numbers that JAX computes."""
    import jax

    drawn = jax.random.normal(jax.random.key(seed), (20, 20))
    return {"drawn": np.asarray(drawn @ drawn)}


def slowly(folder, number, seconds):
    """Says on which node of a cluster it is done, each time that it is."""
    ray = sys.modules.get("ray")
    there = ray is not None and ray.is_initialized()
    node = ray.get_runtime_context().get_node_id() if there else "here"
    with (Path(folder) / f"{number}.nodes").open("a") as nodes:
        nodes.write(f"{node}\n")
    time.sleep(seconds)
    return {"number": number, "row": np.sin(np.arange(50) + number)}
