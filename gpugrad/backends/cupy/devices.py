"""CUDA devices through CuPy: their names, memory and streams, and the precision of products."""

import os
from typing import Any

import cupy
from cupy import _core
from cupy._core import _routines_linalg as precision
from cupy.cuda import runtime
from cupy.cuda.memory import OutOfMemoryError

from ..dtypes import float32  # an object, since CuPy would parse the name in every product
from .captures import without_captures

GiB = 2**30


def driver_problem() -> str:
    """What to do about the NVIDIA driver, after a CUDA error that it may have caused."""
    driver, own = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    if not driver:
        return "; no NVIDIA driver is loaded"
    if driver // 1000 < own // 1000:
        return (
            f"; the NVIDIA driver is for CUDA {_version(driver)}, this CuPy for {_version(own)}: "
            f"update the driver, or install cupy-cuda{driver // 1000}x"
        )
    return ""


def _version(number):
    return f"{number // 1000}.{number % 1000 // 10}"


current_number = runtime.getDevice  # of the current device
scope = cupy.cuda.Device  # a context in which the device of a number is the current one


def name(number: int) -> str:
    """The device's model."""
    return runtime.getDeviceProperties(number)["name"].decode()


def report() -> list[tuple[str, str]]:
    """Pairs of texts about CuPy and CUDA, for ``python -m gpugrad``."""
    driver, own = runtime.driverGetVersion(), runtime.runtimeGetVersion()
    folder = os.environ.get("CUPY_CACHE_DIR", "~/.cupy/kernel_cache")
    return [
        ("CUDA versions", f"driver for {_version(driver)}, CuPy for {_version(own)}"),
        ("kernel cache", os.path.expanduser(folder)),
    ]


def memory(number: int) -> tuple[int, int, int, int]:
    """Bytes in use by arrays, held by CuPy's pool for them, free on the card, and its total."""
    with scope(number):
        pool = cupy.get_default_memory_pool()
        return (pool.used_bytes(), pool.total_bytes(), *runtime.memGetInfo())


def empty_cache(number: int) -> None:
    """Free the memory that the device's pool holds and no array uses."""
    with scope(number):
        cupy.get_default_memory_pool().free_all_blocks()


def explain(error: BaseException, number: int | None) -> str | None:
    """Explain an error of CuPy's; None if its own text is clear.

    number: the device where it happened, by default the current one.
    """
    if isinstance(error, OutOfMemoryError):
        return (
            f"{error} {_memory_use(number)}. A smaller batch, gpugrad.checkpoint, or no_grad() "
            f"where no gradient is needed take less; the program can continue with what fits"
        )
    text = str(error)
    if not type(error).__module__.startswith("cupy"):
        return None
    if any(word in text for word in _NO_MEMORY):
        return (
            f"{text}: CUDA found no memory outside CuPy's pool. {_memory_use(number)}; "
            f"gpugrad.cuda.empty_cache() frees what the pool does not use"
        )
    if any(word in text for word in _LOST):
        return (
            f"{text}. Everything this process has on CUDA devices is lost: start it again, with "
            f"CUDA_LAUNCH_BLOCKING=1 to get the error where it occurs"
        )
    return None


_NO_MEMORY = "ALLOC_FAILED", "MemoryAllocation", "OUT_OF_MEMORY"
_LOST = "IllegalAddress", "ILLEGAL_ADDRESS", "LaunchFailure", "LAUNCH_FAILED", "MisalignedAddress"


def _memory_use(number):
    """A sentence that says what a device's memory is used for."""
    number = current_number() if number is None else number
    used, held, free, total = memory(number)
    elsewhere = max(total - free - held, 0)
    return (
        f"Of the {total / GiB:.2f} GiB on cuda:{number}, arrays use {used / GiB:.2f}, CuPy's pool "
        f"holds {(held - used) / GiB:.2f} more, and everything else uses {elsewhere / GiB:.2f}"
    )


# Streams

current_stream = cupy.cuda.get_current_stream  # that a device's work in this thread goes to
elapsed = cupy.cuda.get_elapsed_time  # milliseconds between two events


def stream(number: int, priority: int) -> Any:
    """A new stream of a device, which does not wait for any other."""
    with scope(number):
        return cupy.cuda.Stream(non_blocking=True, priority=priority)


def event(timing: bool) -> Any:
    """A new event of the current device."""
    return cupy.cuda.Event(disable_timing=not timing)


def wait(number: int, other: int) -> None:
    """Make the current stream of a device wait for that of another."""
    with scope(other):
        mark = event(timing=False)
        current_stream(other).record(mark)
    with scope(number):
        current_stream(number).wait_event(mark)


def synchronize(number: int) -> None:
    """Wait until a device has done all work of all its streams."""
    with without_captures(number):
        scope(number).synchronize()


# Precision


def tf32() -> bool:
    """Whether products of float32 matrices may be computed in TF32."""
    return _core.get_compute_type(float32) == precision.COMPUTE_TYPE_TF32


def allow_tf32(allowed: bool) -> None:
    """Allow or forbid TF32 in this process; CuPy warns if the current device has no TF32."""
    kind = precision.COMPUTE_TYPE_TF32 if allowed else precision.COMPUTE_TYPE_DEFAULT
    _core.set_compute_type(float32, kind)
