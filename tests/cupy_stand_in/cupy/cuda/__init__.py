"""Simulated devices and streams; only copies and graphs can be pending on a stream."""

from . import device, function, memory, pinned_memory, runtime  # noqa: F401
from .device import Device  # noqa: F401
from .graph import Graph  # noqa: F401
from .memory import Memory, MemoryPointer, MemoryPool, using_allocator  # noqa: F401
from .stream import Event, Stream, get_current_stream, get_elapsed_time  # noqa: F401
