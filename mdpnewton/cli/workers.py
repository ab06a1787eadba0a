"""Who does the work of a command: this process, others on this machine, or a cluster."""

import os
from collections.abc import Sequence
from pathlib import Path

from mdpnewton.jobs import Here, Processes
from mdpnewton.jobs.cluster import Cluster
from mdpnewton.threads import one_thread


def executor_for(
    workers: int | None, cluster: str | None = None, modules: Sequence[Path] = ()
) -> Here | Processes | Cluster:
    """What does the work; its `workers` say how much to hand out at a time.

    Args:
        workers: Number of processes; None for one, or with "local" for one per core.
        cluster: "local" to start a Ray cluster on this machine, "auto" for the one that it belongs
            to, or the address of one; None for no cluster.
        modules: Files and folders of the user's modules, which a cluster is sent; see `modules_of`.
    """
    if cluster is None:
        return Here() if workers in (None, 1) else Processes(workers, one_thread())
    if cluster == "local":
        return Cluster(cluster, workers or os.cpu_count() or 1, modules=modules)
    if workers is not None:
        raise ValueError(
            f"--workers {workers} with --cluster {cluster}: a cluster that exists has as many "
            f"workers as CPUs; leave --workers out, or use --cluster local"
        )
    return Cluster(cluster, modules=modules)


def modules_of(environment: str) -> tuple[Path, ...]:
    """The file or folder in the current folder with the module that `module:Id-v0` names."""
    package = environment.rpartition(":")[0].partition(".")[0]
    if not package:
        return ()
    places = (Path.cwd() / f"{package}.py", Path.cwd() / package)
    return tuple(place for place in places if place.is_file() or (place / "__init__.py").is_file())
