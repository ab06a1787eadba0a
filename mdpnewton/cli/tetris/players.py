"""Who plays: threads of this process, or a cluster."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any


def players(workers: int | None, cluster: str | None) -> AbstractContextManager[Any]:
    """The executor that plays the games, or None for threads of this process.

    Args:
        workers: Number of games at once, or None.
        cluster: As in `executor_for`, or None.
    """
    if cluster is None:
        return nullcontext()
    from mdpnewton.cli.workers import executor_for

    return executor_for(workers, cluster)
