"""Which kernels were launched, and how much memory each read and wrote: a record of the stand-in's.

Each byte counts once in a launch, as if the cache were large enough.
"""

from contextlib import contextmanager
from typing import NamedTuple

import numpy as np


class Launch(NamedTuple):
    """A kernel launched, and the bytes that it read and wrote; None where that is not known.

    blocks, accesses: of a raw kernel, and how often its threads read or wrote memory.
    """

    name: str
    read: int | None
    written: int | None
    blocks: int | None = None
    accesses: int | None = None


_launches: list[Launch] | None = None


@contextmanager
def traffic():
    """A list, to which each kernel launched inside the block is added."""
    global _launches
    outer, _launches = _launches, []
    try:
        yield _launches
    finally:
        _launches = outer


def is_recorded():
    return _launches is not None


def launched(name, read, written, *more):
    """Record a launch that reads and writes NumPy's arrays, or so many bytes."""
    if _launches is not None:
        _launches.append(Launch(name, _bytes(read), _bytes(written), *more))


def _bytes(given):
    if given is None or isinstance(given, int):
        return given
    return sum(map(_extent, given))


def _extent(x):
    """Bytes of an array's elements in memory; those along a broadcast axis are the same."""
    lengths = [n for n, step in zip(x.shape, x.strides, strict=True) if step]
    return x.itemsize * int(np.prod(lengths)) if x.size else 0
