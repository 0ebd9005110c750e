"""Which kernels were launched, and how much memory each read and wrote: a record of the stand-in's.

Each byte counts once in a launch, as if the cache were large enough. With a cache of a given size
what is in it from earlier launches does not count; what is written counts when it comes into it.
"""

from collections import OrderedDict
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


class Touched(NamedTuple):
    """Memory from an address on, with a mark for each byte that a kernel read or wrote."""

    start: int
    marks: np.ndarray


_launches: list[Launch] | None = None
_cache: "Cache | None" = None


@contextmanager
def traffic(cache=None):
    """A list, to which each kernel launched inside the block is added.

    cache: the bytes of a cache between the kernels and the memory; without it, nothing stays.
    """
    global _launches, _cache
    outer = _launches, _cache
    _launches, _cache = [], cache and Cache(cache)
    try:
        yield _launches
    finally:
        _launches, _cache = outer


class Cache:
    """A cache in which what was not used for the longest time gives way to what is used now."""

    SECTOR = 32  # bytes, the unit in which GPUs move memory

    def __init__(self, size):
        self.most = size // self.SECTOR
        self.held = OrderedDict()  # sectors, and whether they were written

    def moved(self, given, is_write):
        """The bytes of memory that come from or go to the memory behind the cache."""
        if given is None:
            return None
        sectors = np.concatenate([self._sectors(x) for x in given] or [[]])
        held, missing = self.held, 0
        for sector in np.unique(sectors).tolist():
            was_written = held.pop(sector, None)
            missing += not was_written if is_write else was_written is None
            held[sector] = is_write or bool(was_written)
            if len(held) > self.most:
                held.popitem(last=False)
        return missing * self.SECTOR

    def _sectors(self, x):
        if isinstance(x, Touched):
            return (np.flatnonzero(x.marks) + x.start) // self.SECTOR
        places = np.zeros(x.shape, np.int64) + x.__array_interface__["data"][0]
        for axis, (n, step) in enumerate(zip(x.shape, x.strides, strict=True)):
            places += (np.arange(n) * step).reshape((n,) + (1,) * (x.ndim - axis - 1))
        return places.ravel() // self.SECTOR


def is_recorded():
    return _launches is not None


def launched(name, read, written, *more):
    """Record a launch that reads and writes NumPy's arrays or `Touched` memory; None if unknown."""
    if _launches is None:
        return
    if _cache is None:
        moved = _bytes(read), _bytes(written)
    else:
        moved = _cache.moved(read, False), _cache.moved(written, True)
    _launches.append(Launch(name, *moved, *more))


def _bytes(given):
    return None if given is None else sum(map(_extent, given))


def _extent(x):
    """Bytes of an array's elements in memory; those along a broadcast axis are the same."""
    if isinstance(x, Touched):
        return int(np.count_nonzero(x.marks))
    lengths = [n for n, step in zip(x.shape, x.strides, strict=True) if step]
    return x.itemsize * int(np.prod(lengths)) if x.size else 0
