"""What the last bits of a result may depend on beside the settings: libraries and processor."""

import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("jax", "jaxlib", "equinox", "numpy", "scipy")


def made_with() -> dict[str, Any]:
    """Versions, processor, precision, and the number of cores that may be used."""
    return {
        "python": platform.python_version(),
        "libraries": dict(_libraries()),
        "machine": {"cpu": _cpu(), "x64": os.environ.get("JAX_ENABLE_X64", "1")},
        "cores": cores(),
    }


def cores() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _libraries() -> tuple[tuple[str, str], ...]:
    return tuple((name, version(name)) for name in LIBRARIES)


@cache
def _cpu() -> str:
    """The model of the processor and the vector units that results depend on."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    about = [line.partition(":") for line in reversed(lines)]  # the first processor wins
    found = {name.strip(): value.strip() for name, _, value in about}
    units = [unit for unit in ("fma", "avx2", "avx512f") if unit in found.get("flags", "").split()]
    return " ".join([found.get("model name", platform.machine()), *units])
