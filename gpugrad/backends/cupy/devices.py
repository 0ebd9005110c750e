"""CUDA devices as CuPy has them: their names, memory and streams, and how exact products are."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cupy
from cupy import _core
from cupy._core import _routines_linalg as precision
from cupy.cuda import runtime
from cupy.cuda.memory import OutOfMemoryError

GiB = 2**30


def driver_problem() -> str:
    """What to do about the NVIDIA driver, after an error of CUDA's that may be due to it."""
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


def current_number() -> int:
    """The number of the current device."""
    return runtime.getDevice()


def scope(number: int) -> Any:
    """A context in which the device of this number is the current one."""
    return cupy.cuda.Device(number)


def of_pointer(pointer: int) -> int:
    """The number of the device that memory is on; of none at all the current one's."""
    return cupy.cuda.device.from_pointer(pointer).id if pointer else current_number()


def name(number: int) -> str:
    """The device's model."""
    return runtime.getDeviceProperties(number)["name"].decode()


def memory(number: int) -> tuple[int, int, int, int]:
    """Bytes in use by arrays, held by CuPy's pool for them, free on the card, and its total."""
    with scope(number):
        pool = cupy.get_default_memory_pool()
        return (pool.used_bytes(), pool.total_bytes(), *runtime.memGetInfo())


def empty_cache(number: int) -> None:
    """Give back what the device's pool holds and no array uses."""
    with scope(number):
        cupy.get_default_memory_pool().free_all_blocks()


def meaning(error: BaseException, number: int | None) -> str | None:
    """What an error of CuPy's means for the program; None if its text tells that.

    number: of the device where it came up, by default the current one.
    """
    if isinstance(error, OutOfMemoryError):
        return (
            f"{error} {_shortage(number)}. A smaller batch, gpugrad.checkpoint, or no_grad() where "
            f"no gradient is needed take less; work can go on with what fits"
        )
    text = str(error)
    if not type(error).__module__.startswith("cupy"):
        return None
    if any(word in text for word in _NO_MEMORY):
        return (
            f"{text}: CUDA found no memory beside CuPy's pool. {_shortage(number)}; "
            f"gpugrad.cuda.empty_cache() gives back what the pool does not use"
        )
    if any(word in text for word in _LOST):
        return (
            f"{text}. What this process has on CUDA devices is lost: start it again, with "
            f"CUDA_LAUNCH_BLOCKING=1 to meet the error where it comes up"
        )
    return None


_NO_MEMORY = "ALLOC_FAILED", "MemoryAllocation", "OUT_OF_MEMORY"
_LOST = "IllegalAddress", "ILLEGAL_ADDRESS", "LaunchFailure", "LAUNCH_FAILED", "MisalignedAddress"


def _shortage(number):
    """What the memory of a device that has not enough of it is taken by."""
    number = current_number() if number is None else number
    used, held, free, total = memory(number)
    elsewhere = max(total - free - held, 0)
    return (
        f"Of {total / GiB:.2f} GiB on cuda:{number} arrays use {used / GiB:.2f}, CuPy's pool holds "
        f"{(held - used) / GiB:.2f} more, others use {elsewhere / GiB:.2f}"
    )


# Streams


def stream(number: int, priority: int) -> Any:
    """A new stream of a device, which waits for no other."""
    with scope(number):
        return cupy.cuda.Stream(non_blocking=True, priority=priority)


def current_stream(number: int) -> Any:
    """The stream that the device's work goes to now, in this thread."""
    return cupy.cuda.get_current_stream(number)


def event(timing: bool) -> Any:
    """A new event of the current device."""
    return cupy.cuda.Event(disable_timing=not timing)


def elapsed(start: Any, end: Any) -> float:
    """Milliseconds between two events."""
    return cupy.cuda.get_elapsed_time(start, end)


@contextmanager
def ordered(source: int, target: int) -> Iterator[None]:
    """What is done here with two devices' current streams is done after what they were asked.

    And before what they are asked from then on, which may be to write into memory now freed.
    """
    _wait(target, source)
    yield
    _wait(source, target)


def _wait(number, other):
    """Have the current stream of a device wait for that of another."""
    with scope(other):
        mark = event(timing=False)
        current_stream(other).record(mark)
    with scope(number):
        current_stream(number).wait_event(mark)


# Precision


def tf32() -> bool:
    """Whether products of float32 matrices may be computed in TF32."""
    return _core.get_compute_type("float32") == precision.COMPUTE_TYPE_TF32


def allow_tf32(allowed: bool) -> None:
    """Set that, for the whole process; CuPy warns where the current device has no TF32."""
    kind = precision.COMPUTE_TYPE_TF32 if allowed else precision.COMPUTE_TYPE_DEFAULT
    _core.set_compute_type("float32", kind)
