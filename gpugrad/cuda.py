"""CUDA devices, through CuPy: which there are, their memory, and the order of their work.

A device is ``"cuda:1"``, or its number 1; by default the current one, which is ``"cuda"``. Ops
run on the device of their arrays, whichever is current. `is_available`, `why_not`,
`device_count` and `empty_cache` can be called anywhere; the rest raises RuntimeError with the
sentence of `why_not` where no CUDA device can be used.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from .backends import cuda_device, cuda_device_count, cuda_problem
from .foreign_names import answer

__all__ = [
    "Event",
    "MemoryStats",
    "Stream",
    "allow_tf32",
    "current_stream",
    "device_count",
    "device_name",
    "empty_cache",
    "is_available",
    "memory_stats",
    "synchronize",
    "tf32_allowed",
    "why_not",
]
__dir__ = __all__.copy

Device = str | SupportsIndex | None

if not TYPE_CHECKING:
    __getattr__ = answer(__name__)


def is_available() -> bool:
    """Whether a CUDA device can be used: CuPy is installed, finds a GPU and computes on it."""
    return cuda_problem() is None


def why_not() -> str | None:
    """None if a CUDA device can be used, else one sentence that says what is missing."""
    return cuda_problem()


def device_count() -> int:
    """How many CUDA devices can be used; 0 where none can."""
    return cuda_device_count()


def device_name(device: Device = None) -> str:
    """The model of a device, such as ``"NVIDIA H200"``."""
    cupy, number = cuda_device(device)
    return cupy.name(number)


class MemoryStats(NamedTuple):
    """Bytes of a device's memory.

    used: in use by arrays, gpugrad's and CuPy's.
    reserved: held by CuPy's pool, for these and for arrays to come.
    free, total: of the card, whoever uses it.
    """

    used: int
    reserved: int
    free: int
    total: int


def memory_stats(device: Device = None) -> MemoryStats:
    """What a device's memory is used for; the device is not waited for."""
    cupy, number = cuda_device(device)
    return MemoryStats(*cupy.memory(number))


def empty_cache(device: Device = None) -> None:
    """Give back what CuPy's pool holds and no array uses, to other programs and CUDA's libraries.

    Arrays to come take longer to make then. For an array that does not fit it is no help: the
    pool is emptied before that is an error. Without a CUDA device there is nothing to do.
    """
    if is_available():
        cupy, number = cuda_device(device)
        cupy.empty_cache(number)


def synchronize(device: Device = None) -> None:
    """Wait until a device has done all that was asked of it, on every stream."""
    cupy, number = cuda_device(device)
    cupy.scope(number).synchronize()


def allow_tf32(allowed: bool = True) -> None:
    """Let products of float32 matrices round their factors to TF32, or no longer.

    TF32 keeps 10 of the 23 bits behind the point, for products several times faster. It holds
    for the whole process; at first it is off, unless the environment has ``CUPY_TF32=1``.
    Devices older than the A100 have none, of which CuPy warns.
    """
    cupy, _ = cuda_device(None)
    cupy.allow_tf32(allowed)


def tf32_allowed() -> bool:
    """Whether products of float32 matrices may be computed in TF32: see `allow_tf32`."""
    cupy, _ = cuda_device(None)
    return cupy.tf32()


class Stream:
    """A queue of work for one device: what is asked of one stream is done in order.

    In ``with stream:`` all that gpugrad and CuPy ask of its device goes there, backward and
    optimizer steps too, in this thread. Streams wait neither for each other nor for the one
    that is current at first: whoever goes from one to another says so, both ways.

    >>> side = Stream()  # doctest: +SKIP
    >>> side.wait_stream(current_stream())  # doctest: +SKIP
    >>> with side:  # doctest: +SKIP
    ...     loss = model(batch).sum()
    >>> current_stream().wait_stream(side)  # doctest: +SKIP
    >>> loss.backward()  # doctest: +SKIP

    `backward` runs on the stream that is current when it is called, as here, where PyTorch's
    runs on those of the forward: so it is to wait for them. An array's memory is used again by
    the stream it was made on: keep what another works with until the first has waited for that.

    device: by default the current one.
    priority: of streams that have work, those with lower numbers go first.
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
        """Whether it is the same queue."""
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.device, self._raw.ptr) == (other.device, other._raw.ptr)

    def __hash__(self) -> int:
        return hash((self.device, self._raw.ptr))

    def __repr__(self) -> str:
        return f"<Stream {self._raw.ptr:#x} on {self.device}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """The stream for other libraries, by the protocol of this name."""
        return 0, self._raw.ptr

    def wait_stream(self, other: "Stream") -> None:
        """Do what is asked from now on after what ``other`` was asked, on any device, so far."""
        self.wait_event(other.record_event())

    def wait_event(self, event: "Event") -> None:
        """Do what is asked from now on after what the event marks."""
        with self._scope:
            self._raw.wait_event(event._raw)

    def record_event(self, *, timing: bool = False) -> "Event":
        """A mark at the end of what was asked so far.

        timing: whether time is to be measured from it or to it.
        """
        with self._scope:
            raw = self._cupy.event(timing)
            self._raw.record(raw)
        return Event(self._cupy, raw)

    def query(self) -> bool:
        """Whether all that was asked is done, without waiting."""
        with self._scope:  # each device has a first stream, of the same handle
            return self._raw.done

    def synchronize(self) -> None:
        """Wait until all that was asked is done."""
        with self._scope:
            self._raw.synchronize()


class Event:
    """A mark in a stream's work, made by `Stream.record_event`."""

    __slots__ = ("_cupy", "_raw")

    def __init__(self, cupy: Any, raw: Any):
        self._cupy = cupy
        self._raw = raw

    def query(self) -> bool:
        """Whether the stream has come to the mark, without waiting."""
        return self._raw.done

    def synchronize(self) -> None:
        """Wait until the stream comes to the mark."""
        self._raw.synchronize()

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this mark to ``end``, both made with ``timing`` and come to."""
        return self._cupy.elapsed(self._raw, end._raw)


def current_stream(device: Device = None) -> Stream:
    """The stream that the work for a device goes to now, in this thread."""
    cupy, number = cuda_device(device)
    return Stream.__new__(Stream)._set(cupy, number, cupy.current_stream(number))
