"""Copies numbers and arrays into a captured program, and its results out of it; joins arrays."""

from math import prod

import cupy
import numpy as np
from cupy.cuda.function import CPointer

from ...dtypes import float32
from .loader import WORDS, contiguous, kernel, tables

_CHUNK = 16384  # bytes that a block copies into or out of a program
_UNITS = 2048  # and units of an array that is joined to others
_THREADS = 256


class Numbers:
    """Numbers that kernels read from the device's memory, and their values on the host.

    `place` makes room; after `allocate` the arrays are known. `send` copies the host's values to
    the device, in the order of the current stream.
    """

    def __init__(self):
        self._placed = []
        self._words = 0

    def place(self, dtype, shape=()):
        """Room for a number, or for an array of them."""
        place = Place(np.dtype(dtype), shape, self._words)
        self._words += -(-place.nbytes // 8)
        self._placed.append(place)
        return place

    def allocate(self):
        """Make the arrays of all places, on the current device."""
        starts = range(0, self._words, WORDS)
        self._host = np.zeros(len(starts) * WORDS, np.uint64)
        self._device = cupy.zeros(self._words, np.uint64)
        for place in self._placed:
            place.find(self._device, self._host)
        self._send = kernel("transfers", "store_words", float32)
        self._launches = []
        for start in starts:
            part = self._device[start : start + WORDS]
            host = CPointer(self._host[start:].ctypes.data)
            self._launches.append((host, part, part.size))

    def send(self):
        for args in self._launches:
            self._send((1,), (_THREADS,), args)


class Place:
    """Room for numbers in the memory of `Numbers`: the arrays ``device_array`` and ``host``."""

    def __init__(self, dtype, shape, word):
        self.dtype, self.shape, self.word = dtype, shape, word
        self.nbytes = dtype.itemsize * prod(shape)

    def find(self, device, host):
        part = slice(self.word, self.word + -(-self.nbytes // 8))
        n = self.nbytes // self.dtype.itemsize
        self.device_array = device[part].view(self.dtype)[:n].reshape(self.shape)
        self.host = host[part].view(self.dtype)[:n].reshape(self.shape)


def copy_arrays(arrays, addresses, slots, *, outward):
    """Copy the caller's arrays into ``arrays``, or these into the caller's if ``outward``.

    The caller's arrays have the same layout. When the copies are made, their addresses are at
    ``slots`` in ``addresses``, an array on the device; 0 means that there is nothing to copy. A
    launch makes as many copies as fit into its table.
    """
    run = kernel("transfers", "copy_arrays", float32)
    sizes = np.array([x.nbytes for x in arrays], np.int64)
    addressed = [x.data.ptr for x in arrays]
    for _, table, blocks in tables(-(-sizes // _CHUNK), sizes, addressed, slots):
        run((max(blocks, 1),), (_THREADS,), (CPointer(table.ctypes.data), addresses, outward))


def join(arrays, axis, is_new=False):
    """Arrays joined along an axis, which may be a new one.

    NotImplemented if their dtypes or shapes do not fit, if one is too large, or if one is not
    contiguous, unless a stream is being captured. CuPy copies a table of more than 8 small arrays
    from the host, which it refuses while a stream is captured.
    """
    ndim = arrays[0].ndim + is_new
    if axis is None or not -ndim <= axis < ndim:
        return NotImplemented
    axis %= ndim
    after = axis + (not is_new)
    if len({(x.dtype, x.shape[:axis], x.shape[after:]) for x in arrays}) > 1:
        return NotImplemented
    lead, rest, dtype = arrays[0].shape[:axis], arrays[0].shape[after:], arrays[0].dtype
    shape = *lead, len(arrays) if is_new else sum([x.shape[axis] for x in arrays]), *rest
    if not all(x.flags.c_contiguous for x in arrays):
        if not cupy.cuda.get_current_stream().is_capturing():
            return NotImplemented
        arrays = [contiguous(x) for x in arrays]
    rows = prod(lead)
    if not prod(shape):
        return cupy.empty(shape, dtype)
    addresses = np.array([x.data.ptr for x in arrays], np.int64)
    widths = np.array([x.nbytes for x in arrays], np.int64) // rows
    bits = 16 | int(np.bitwise_or.reduce([*addresses, *widths]))
    unit = bits & -bits  # the greatest power of 2 that divides all
    widths //= unit
    if rows * int(widths.max()) >= 2**31:
        return NotImplemented
    out = cupy.empty(shape, dtype)
    run = kernel("transfers", "join", float32)
    stops = widths.cumsum()
    blocks = -(-rows * widths // _UNITS)
    options = out, rows, int(stops[-1]), np.int32(unit)
    for _, table, n in tables(blocks, widths, stops - widths, addresses):
        if n:
            run((n,), (_THREADS,), (CPointer(table.ctypes.data), *options))
    return out
