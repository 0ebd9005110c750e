"""CUDA devices as CuPy has them: their names, memory and streams, and how exact products are."""

from contextlib import contextmanager
from typing import Any

import cupy
from cupy import _core
from cupy._core import _routines_linalg as precision
from cupy.cuda import runtime

GiB = 2**30


def current_index() -> int:
    """The number of the current device."""
    return runtime.getDevice()


def scope(index: int) -> Any:
    """A context in which the device of this number is the current one."""
    return cupy.cuda.Device(index)


def name(index: int) -> str:
    """The device's model."""
    return runtime.getDeviceProperties(index)["name"].decode()


def memory(index: int) -> tuple[int, int, int, int]:
    """Bytes in use by arrays, held by CuPy's pool for them, free on the card, and its total."""
    with scope(index):
        pool = cupy.get_default_memory_pool()
        return (pool.used_bytes(), pool.total_bytes(), *runtime.memGetInfo())


def empty_cache(index: int) -> None:
    """Give back what the device's pool holds and no array uses."""
    with scope(index):
        cupy.get_default_memory_pool().free_all_blocks()


def shortage(index: int) -> str:
    """What the memory of a device that has not enough of it is taken by."""
    used, held, free, total = memory(index)
    elsewhere = max(total - free - held, 0)
    return (
        f"of {total / GiB:.1f} GiB on cuda:{index} arrays use {used / GiB:.2f}, CuPy's pool "
        f"holds {(held - used) / GiB:.2f} more, others {elsewhere / GiB:.2f}, and "
        f"{free / GiB:.2f} are free"
    )


# Streams


def stream(index: int, priority: int) -> Any:
    """A new stream of a device, which waits for no other."""
    with scope(index):
        return cupy.cuda.Stream(non_blocking=True, priority=priority)


def current_stream(index: int) -> Any:
    """The stream that the device's work goes to now, in this thread."""
    return cupy.cuda.get_current_stream(index)


def event(index: int, timing: bool) -> Any:
    """A new event of a device."""
    with scope(index):
        return cupy.cuda.Event(disable_timing=not timing)


def elapsed(start: Any, end: Any) -> float:
    """Milliseconds between two events."""
    return cupy.cuda.get_elapsed_time(start, end)


@contextmanager
def ordered(source: int, target: int):
    """What is done between the current streams of two devices is after what either was asked.

    Memory that the source's stream gives to others meanwhile is not written before either.
    """
    streams = {index: current_stream(index) for index in (source, target)}

    def wait(waiting, index):
        with scope(index):
            ready = streams[index].record(cupy.cuda.Event(disable_timing=True))
        with scope(waiting):
            streams[waiting].wait_event(ready)

    wait(target, source)
    yield
    wait(source, target)


# Precision


def tf32() -> bool:
    """Whether products of float32 matrices may be computed in TF32."""
    return _core.get_compute_type("float32") == precision.COMPUTE_TYPE_TF32


def allow_tf32(allowed: bool) -> None:
    """Set that, for the whole process; CuPy warns where the current device has no TF32."""
    kind = precision.COMPUTE_TYPE_TF32 if allowed else precision.COMPUTE_TYPE_DEFAULT
    _core.set_compute_type("float32", kind)
