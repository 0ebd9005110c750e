"""CUDA devices, through CuPy: availability, memory, streams and events.

A device is given as ``"cuda:1"`` or as its number 1; the default is the current device, which
is ``"cuda"``. Ops run on the device of their arrays, whichever is current. `is_available`,
`why_not`, `device_count` and `empty_cache` can be called anywhere; everything else raises
RuntimeError, with the message of `why_not`, if no CUDA device can be used.
"""

from typing import Any, NamedTuple, SupportsIndex

from ._foreign_names import explain_names
from .backends import cuda_device, cuda_device_count, cuda_problem

__all__ = """
    Event MemoryStats Stream allow_tf32 current_stream device_count device_name empty_cache
    is_available memory_stats synchronize tf32_allowed why_not
""".split()
explain_names(__name__)

Device = str | SupportsIndex | None


def is_available() -> bool:
    """Whether a CUDA device can be used: CuPy is installed, finds a GPU and computes on it."""
    return cuda_problem() is None


def why_not() -> str | None:
    """None if a CUDA device can be used, else a sentence that says what is missing."""
    return cuda_problem()


def device_count() -> int:
    """The number of CUDA devices that can be used; 0 if there are none."""
    return cuda_device_count()


def device_name(device: Device = None) -> str:
    """The model of a device, such as ``"NVIDIA H200"``."""
    cupy, number = cuda_device(device)
    return cupy.name(number)


class MemoryStats(NamedTuple):
    """Bytes of a device's memory.

    used: in use by arrays, both gpugrad's and CuPy's.
    reserved: held by CuPy's memory pool, for these arrays and for future ones.
    free, total: free and total memory of the card, counting all programs that use it.
    """

    used: int
    reserved: int
    free: int
    total: int


def memory_stats(device: Device = None) -> MemoryStats:
    """How a device's memory is used; does not wait for the device."""
    cupy, number = cuda_device(device)
    return MemoryStats(*cupy.memory(number))


def empty_cache(device: Device = None) -> None:
    """Release unused memory in CuPy's pool to other programs and to CUDA's libraries.

    New arrays then take longer to allocate. It does not help if an array does not fit, because
    the pool is emptied before that becomes an error. Without a CUDA device it does nothing.
    """
    if is_available():
        cupy, number = cuda_device(device)
        cupy.empty_cache(number)


def synchronize(device: Device = None) -> None:
    """Wait until a device has finished the work submitted so far on all its streams.

    While another thread captures a compiled function on the device, it waits for that first.
    """
    cupy, number = cuda_device(device)
    cupy.synchronize(number)


def allow_tf32(allowed: bool = True) -> None:
    """Allow products of float32 matrices to round their factors to TF32, or forbid it.

    TF32 keeps 10 of the 23 bits of the mantissa, and makes products several times faster. The
    setting holds for the whole process; it is off at first, unless the environment has
    ``CUPY_TF32=1``. Devices older than the A100 do not support TF32, and CuPy warns about it.
    """
    cupy, _ = cuda_device(None)
    cupy.allow_tf32(allowed)


def tf32_allowed() -> bool:
    """Whether products of float32 matrices may be computed in TF32; see `allow_tf32`."""
    cupy, _ = cuda_device(None)
    return cupy.tf32()


class Stream:
    """A queue of work for one device; the work of one stream is done in order.

    Within ``with stream:`` all work that gpugrad and CuPy submit to its device from this thread
    goes to the stream, including backward and optimizer steps. Streams wait neither for each
    other nor for the default stream: code that switches between streams must make each wait for
    the other, both ways.

    >>> side = Stream()  # doctest: +SKIP
    >>> side.wait_stream(current_stream())  # doctest: +SKIP
    >>> with side:  # doctest: +SKIP
    ...     loss = model(batch).sum()
    >>> current_stream().wait_stream(side)  # doctest: +SKIP
    >>> loss.backward()  # doctest: +SKIP

    `backward` runs on the stream that is current when it is called, as in this example, whereas
    PyTorch's runs on the streams of the forward pass; so the current stream must wait for those
    first. The memory of a freed array is reused by the stream it was made on: if another stream
    works with an array, keep the array until the first stream has waited for the other.

    device: by default the current one.
    priority: among streams that have work, those with lower numbers go first.
    """

    __slots__ = ("_cupy", "_raw", "_scope", "device")

    def __init__(self, device: Device = None, *, priority: int = 0):
        cupy, number = cuda_device(device)
        self._set(cupy, number, cupy.stream(number, priority))

    def _set(self, cupy, number, raw):
        self._cupy = cupy
        self._raw = raw
        self._scope = cupy.scope(number)
        self.device = f"cuda:{number}"
        return self

    def __enter__(self) -> "Stream":
        self._scope.__enter__()
        self._raw.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._raw.__exit__(*error)
        self._scope.__exit__(*error)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same queue."""
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self._raw.ptr) == (other.device, other._raw.ptr)

    def __hash__(self) -> int:
        return hash((self.device, self._raw.ptr))

    def __repr__(self) -> str:
        return f"<Stream {self._raw.ptr:#x} on {self.device}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """Pass the stream to other libraries, by the protocol of this name."""
        return 0, self._raw.ptr

    def wait_stream(self, other: "Stream") -> None:
        """Make later work wait for all work submitted to ``other``, on any device, so far."""
        self.wait_event(other.record_event())

    def wait_event(self, event: "Event") -> None:
        """Make later work wait until ``event`` is reached."""
        with self._scope:
            self._raw.wait_event(event._raw)

    def record_event(self, *, timing: bool = False) -> "Event":
        """A mark at the end of the work submitted so far.

        timing: whether the event will be used to measure time.
        """
        with self._scope:
            raw = self._cupy.event(timing)
            self._raw.record(raw)
        return Event(self._cupy, raw, self._scope)

    def query(self) -> bool:
        """Whether all work submitted so far is done; does not wait."""
        with self._scope:  # the default streams of all devices have the same handle
            return self._raw.done

    def synchronize(self) -> None:
        """Wait until all work submitted so far is done."""
        with self._scope:
            self._raw.synchronize()


class Event:
    """A mark in a stream's work, made by `Stream.record_event`."""

    __slots__ = ("_cupy", "_raw", "_scope")

    def __init__(self, cupy: Any, raw: Any, scope: Any):
        self._cupy = cupy
        self._raw = raw
        self._scope = scope  # elsewhere CUDA would make a context on the current device

    def query(self) -> bool:
        """Whether the stream has reached the mark; does not wait."""
        with self._scope:
            return self._raw.done

    def synchronize(self) -> None:
        """Wait until the stream reaches the mark."""
        with self._scope:
            self._raw.synchronize()

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this mark to ``end``.

        Both must have been made with ``timing``, and have been reached.
        """
        return self._cupy.elapsed(self._raw, end._raw)


def current_stream(device: Device = None) -> Stream:
    """The stream that work for a device is submitted to at present, in this thread."""
    cupy, number = cuda_device(device)
    return Stream.__new__(Stream)._set(cupy, number, cupy.current_stream(number))
