"""Memory of the host that the device copies from by itself."""

from weakref import WeakValueDictionary

__all__ = ["is_memory_pinned"]

_pinned: WeakValueDictionary = WeakValueDictionary()  # by the address where it starts


class _Pinned(bytearray):
    """A piece of such memory."""


def is_memory_pinned(data):
    return any(at <= data < at + len(memory) for at, memory in list(_pinned.items()))
