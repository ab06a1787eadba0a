"""Limits a BLAS to one thread, unless the work is large enough for more."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

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
