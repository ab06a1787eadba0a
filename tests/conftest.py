"""64 bits, strict promotion, a compilation cache on disk, and an end to what was compiled."""

import gc
import os
from pathlib import Path

import pytest

cache = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")
os.environ.setdefault("MPLBACKEND", "agg")

import jax  # noqa: E402
import shapes  # noqa: E402

shapes.install()

import mdpnewton  # noqa: E402, F401


@pytest.fixture(autouse=True, scope="module")
def _programs_end_with_their_module():
    """Each compiled program takes memory maps, and Linux ends a process that has 65,530."""
    yield
    jax.clear_caches()
    gc.collect()
