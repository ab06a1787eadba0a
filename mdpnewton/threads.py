"""How many threads compute: one for a BLAS and small work, one for everything that must repeat."""

import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

XLA = "--xla_cpu_multi_thread_eigen=false"
MANY = 2e10  # floating-point operations, about a second; more may use all threads


def threads_for(operations: float) -> AbstractContextManager[Any]:
    """A context in which NumPy and SciPy use one BLAS thread for small work, else all.

    The threads of a BLAS spin while they wait, and compete with those of JAX and with whatever else
    the machine does: on two busy cores 500 states took up to ten times as long with two threads.
    """
    return nullcontext() if operations > MANY else _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> dict[str, str]:
    """Environment variables with which a new process computes with one thread.

    XLA and a BLAS split their sums by the number of threads, and so the last bits depend on it; and
    several workers with as many threads as there are cores get in each other's way. The variables
    are read when the libraries are loaded.
    """
    libraries = ("OPENBLAS", "OMP", "MKL", "VECLIB_MAXIMUM")
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if flag != XLA]
    return {
        **{f"{name}_THREADS" if "_" in name else f"{name}_NUM_THREADS": "1" for name in libraries},
        "NPROC": "1",  # threads of XLA's own pool
        "XLA_FLAGS": " ".join([*flags, XLA]),
    }
