"""Running a function twice that communicates once, for `compile` to check itself.

The other processes may run it once. So the collectives of the first run are noted, and the second
run gets the same results for the same arrays.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._thread_state import thread
from ..backends import backend_of
from . import group as groups
from .group import Group, Pending


@contextmanager
def noted() -> Iterator["Noting | None"]:
    """Note the collectives within the block; None if there is one process."""
    group = groups._current
    if group is None or group.size == 1:
        yield None
        return
    noting = Noting(group)
    groups.install(noting)
    try:
        yield noting
    finally:
        groups.install(group)


@contextmanager
def repeated(noting: "Noting | None") -> Iterator[None]:
    """Within the block, collectives have the results that were noted; nothing communicates."""
    if noting is None:
        yield
        return
    repeating = Repeating(noting)
    groups.install(repeating)
    try:
        yield
        repeating.end()
    finally:
        groups.install(noting.group)


class Noting(Group):
    """A group that calls ``group`` and notes its collectives, by name, operands and results."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.rank, self.size, self.local_rank = group.rank, group.size, group.local_rank
        self.entries: list[_Entry] = []

    def all_reduce(self, array, op="sum"):
        return self._call("all_reduce", (array, op), array, array)

    def broadcast(self, array, root):
        given = array if root == self.rank else None
        return self._call("broadcast", (array, root), given, array)

    def all_gather(self, array, out):
        return self._call("all_gather", (array, out), array, out)

    def reduce_scatter(self, array, out):
        return self._call("reduce_scatter", (array, out), array, out)

    def any_of(self, flags):
        return self._call("any_of", (flags,), flags, flags)

    def barrier(self):
        self._call("barrier", (), None, None)

    def exchange(self, value):
        return self._call("exchange", (value,), None, None)

    def _call(self, name, args, given, out):
        entry = _Entry(name, _copy(given))
        self.entries.append(entry)
        result = getattr(self.group, name)(*args)
        if isinstance(result, Pending):
            return _Noted(result, entry, out)
        entry.result = result
        return result


class Repeating(Noting):
    """A group whose collectives have the results that ``noting`` has noted."""

    def __init__(self, noting: Noting) -> None:
        super().__init__(noting.group)
        self.number = 0
        self.entries = noting.entries

    def _call(self, name, args, given, out):
        if thread.recorder is not None:
            thread.recorder.refuse_collective()
        entry = self.entries[self.number] if self.number < len(self.entries) else None
        self.number += 1
        if entry is None or entry.name != name or not _equal(entry.given, given):
            raise _difference(f"collective {self.number}, {name}, does not get the values")
        if out is None:
            return entry.result
        out[slice(None) if type(out) is bytearray else ...] = entry.result
        return Pending()

    def end(self):
        if self.number < len(self.entries):
            raise _difference(f"there are {self.number} collectives, not the {len(self.entries)}")


class _Entry:
    def __init__(self, name, given):
        self.name = name
        self.given = given
        self.result = None


class _Noted(Pending):
    def __init__(self, pending, entry, out):
        self._pending = pending
        self._entry = entry
        self._out = out

    def test(self):
        return self._pending.test()

    def wait(self):
        self._pending.wait()
        self._entry.result = _copy(self._out)


def _difference(what):
    return RuntimeError(
        f"gpugrad.compile: in a call that is checked, {what} that it gets without being compiled"
    )


def _copy(x: Any) -> Any:
    if x is None or type(x) is bytearray:
        return x and bytes(x)
    return backend_of[type(x)].asarray(x, copy=True)


def _equal(x, y):
    if y is None or type(y) is bytearray:
        return x == y
    if type(x) is not type(y) or x.dtype != y.dtype or x.shape != y.shape:
        return False
    to_numpy = backend_of[type(y)].to_numpy
    return to_numpy(x).tobytes() == to_numpy(y).tobytes()
