"""Calls that others make: anything with `submit` can play chunks, do jobs or evaluate points."""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from typing import Any, Protocol

from mdpnewton.checks import refuse


class Executor(Protocol):
    """What makes calls: `concurrent.futures`, Dask and submitit have it too."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """A future of `function(*arguments)`, with `result`."""


class ClusterLostError(ValueError):
    """The machines that make the calls cannot be reached any more."""


def checked_executor(call: str, executor: Any) -> Executor:
    """The executor, if it has `submit`."""
    if not callable(getattr(executor, "submit", None)):
        remedy = "pass an executor of `concurrent.futures`, or another object that has it"
        refuse(
            call, "executor", f"needs a method `submit`, got {type(executor).__name__}; {remedy}"
        )
    checked: Executor = executor
    return checked


def in_order(
    executor: Executor,
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    parts: Mapping[str, Any] | None = None,
) -> list[Any]:
    """What the calls return, in the order of the calls, whoever makes them and when.

    Args:
        executor: Object that makes the calls.
        function: Function to call.
        calls: Arguments of each call.
        parts: What is sent to the executor, by the names that an error calls it.

    Raises:
        ValueError: One of the parts cannot be sent to another process.
    """
    futures: list[Any] = []
    try:
        for arguments in calls:
            futures.append(executor.submit(function, *arguments))
        return [future.result() for future in futures]
    except BaseException as error:
        for future in futures:  # those that are done don't mind
            with suppress(Exception):
                future.cancel()
        _raise_unsendable(error, parts or {})
        raise


def _raise_unsendable(error: BaseException, parts: Mapping[str, Any]) -> None:
    """Say what cannot be sent, if that is what the error is about."""
    if not re.search("ickl|erializ", f"{type(error).__name__} {error}"):
        return
    for name, part in parts.items():
        try:
            ForkingPickler.dumps(part)
        except Exception as cause:
            reason = " ".join(str(cause).split())
            raise ValueError(
                f"{name} cannot be sent to another process ({reason}); write its functions and "
                f"classes at the top level of a module, not as lambdas or inside of functions"
            ) from None
