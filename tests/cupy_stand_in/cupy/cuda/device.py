"""Two devices, one of which is current in each thread."""

import threading

from .._capture import refuse_on
from .._reads import note

__all__ = ["Device", "from_pointer", "get_cublas_handle"]

COUNT, _current = 2, threading.local()


def current_device():
    return Device(getattr(_current, "id", 0))


class Device:
    def __init__(self, device=None):
        self.id = current_device().id if device is None else int(device)
        if not 0 <= self.id < COUNT:
            raise ValueError(f"there is no device {device}")
        self._before = []

    def __int__(self):
        return self.id

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __enter__(self):
        self._before.append(current_device().id)
        _current.id = self.id
        return self

    def __exit__(self, *args):
        _current.id = self._before.pop()

    def use(self):
        _current.id = self.id

    def synchronize(self):
        refuse_on(self.id, "synchronizing the device")
        note("device")


def get_cublas_handle():
    return 1000 + current_device().id


def from_pointer(ptr):
    return Device(owners.get(ptr))


owners = {}  # the devices of other libraries' memory; only in the stand-in
