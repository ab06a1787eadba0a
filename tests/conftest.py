"""64 bits, strict promotion, one thread, programs that compile fast, and runs that are shared."""

import gc
import os
import runpy
import threading
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAPS = Path("/proc/self/maps")
MANY = 15_000
SLOWEST = "docs experiments cluster kills sampled controllers training survival curvature runs"
# Most of the time of the tests is compilation, and what they compile runs only a few times.
# `make test-slow` leaves XLA as users have it.
COMPILE_FAST = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)

os.environ.setdefault("XLA_FLAGS", COMPILE_FAST)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests begin some 150 processes
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_NUMPY_DTYPE_PROMOTION", "strict")
os.environ.setdefault("MPLBACKEND", "agg")
# Two processes test at once, and `mdpnewton run` sets the same: XLA's flags are part of the names
# in the cache, which has every program only once if they never change.
os.environ.update(runpy.run_path(str(ROOT / "mdpnewton" / "threads.py"))["one_thread"]())

import jax  # noqa: E402
import shapes  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402

shapes.install()
# JAX loads all dialects of MLIR again for each of thousands of programs, a quarter of a small one's
# time. The tests of one file share them, in each thread.
context_of = cache(lambda thread, make=mlir.make_ir_context: make())
mlir.make_ir_context = lambda: context_of(threading.get_ident())

import browser  # noqa: E402
import shared_runs  # noqa: E402

import mdpnewton  # noqa: E402, F401


def pytest_collection_modifyitems(items):
    """The slowest files come first, so that no process begins one of them when others are done."""
    places = {f"test_{name}": place for place, name in enumerate(SLOWEST.split())}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The tests of one file stay in one process: they share compiled programs and fixtures."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # it would begin with the files of the most tests
    return LoadFileScheduling(config, log)


@pytest.fixture(autouse=True, scope="module")
def _programs_end_before_they_are_too_many():
    """Each compiled program takes memory maps, and Linux ends a process that has 65,530."""
    yield
    context_of.cache_clear()
    if not MAPS.exists() or MAPS.read_bytes().count(b"\n") > MANY:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def shared_run(tmp_path_factory):
    """Gives the folder of `mdpnewton run NAME`, run once for all processes that test."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    return shared_runs.SharedRuns(base / "shared-runs")


@pytest.fixture(scope="session")
def chromium():
    """A browser, started once in each process that tests."""
    missing = "no browser is installed: `make setup-browser` installs Chromium"
    if browser.program() is None:
        if browser.required():
            pytest.fail(missing)
        pytest.skip(missing)
    started = browser.Browser()
    yield started
    started.close()
