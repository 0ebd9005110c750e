"""Locks that keep captures of streams apart from waits for whole devices.

While one of a device's streams is captured, CUDA refuses to wait for the whole device, in all
threads and in all modes of capture, and the capture is lost too.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_locks: dict[int, Any] = {}
_under_way: set[int] = set()


def without_captures(number: int) -> Any:
    """A context in which no other thread captures a stream of the device."""
    return _locks.setdefault(number, threading.RLock())


@contextmanager
def capturing(number: int) -> Iterator[None]:
    """A block in which this thread captures a stream of a device, and no other thread does."""
    with without_captures(number):
        _under_way.add(number)
        try:
            yield
        finally:
            _under_way.discard(number)


@contextmanager
def if_not_capturing(number: int) -> Iterator[bool]:
    """A block that does not wait for captures; yields whether `without_captures` holds in it.

    Destructors must not wait: they run anywhere, even while their thread holds a lock that others
    wait for.
    """
    lock = without_captures(number)
    is_held = lock.acquire(blocking=False)
    try:
        yield is_held and number not in _under_way
    finally:
        if is_held:
            lock.release()
