"""How many threads a BLAS may use: one, unless the work is worth the wait for more."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

MANY = 2e10  # floating-point operations, about a second: beyond, all threads may join


def threads_for(operations: float) -> AbstractContextManager[Any]:
    """A context in which NumPy and SciPy use one BLAS thread for small work, else all.

    The threads of a BLAS spin while they wait, against those of JAX and against whatever else
    the machine does: on two busy cores 500 states took up to ten times as long with two.
    """
    return nullcontext() if operations > MANY else _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
