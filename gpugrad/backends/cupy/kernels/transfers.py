"""How numbers and arrays get into a captured program, and its results out of it; joined arrays."""

from math import prod

import cupy
import numpy as np
from cupy.cuda.function import CPointer

from ...dtypes import float32
from .loader import contiguous, kernel

_WORDS = 448  # of a launch's table, as in the source
_CHUNK = 16384  # bytes that a block copies into or out of a program
_UNITS = 2048  # and units of an array that is joined to others
_THREADS = 256
_COPIES = np.dtype([("count", "i8"), ("words", "i8", _WORDS)])


class Numbers:
    """Numbers that kernels read from the device's memory, and their values on the host.

    `place` and `array` make room; after `allocate` the arrays are known. `send` has the device
    take over the host's values, in the order of the current stream.
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

    def array(self, dtype, n):
        """Room for an array of ``n`` numbers, and their places."""
        place = self.place(dtype, (n,))
        items = [Item(place, i) for i in range(n)]
        return place, items

    def allocate(self):
        """Make the arrays of all places, on the current device."""
        tables = -(-self._words // _WORDS)
        self._host = np.zeros(tables * _WORDS, np.uint64)
        self._device = cupy.zeros(self._words, np.uint64)
        for place in self._placed:
            place.find(self._device, self._host)
        self._send = kernel("transfers", "store_words", float32)
        self._launches = []
        for i in range(tables):
            part = self._device[i * _WORDS : (i + 1) * _WORDS]
            table = self._host[i * _WORDS : (i + 1) * _WORDS]
            self._launches.append((CPointer(table.ctypes.data), part, part.size))

    def send(self):
        for args in self._launches:
            self._send((1,), (_THREADS,), args)


class Place:
    """Room for numbers in the memory of `Numbers`: the arrays ``device_array`` and ``host``."""

    def __init__(self, dtype, shape, word):
        self.dtype = dtype
        self.shape = shape
        self.word = word
        self.nbytes = dtype.itemsize * int(np.prod(shape))

    def find(self, device, host):
        part = slice(self.word, self.word + -(-self.nbytes // 8))
        n = self.nbytes // self.dtype.itemsize
        self.device_array = device[part].view(self.dtype)[:n].reshape(self.shape)
        self.host = host[part].view(self.dtype)[:n].reshape(self.shape)


class Item:
    """The place of one number in an array."""

    def __init__(self, place, i):
        self._place = place
        self._i = i

    @property
    def host(self):
        return self._place.host[self._i : self._i + 1]


def copy_arrays(arrays, addresses, slots, *, outward):
    """Copy arrays of the caller's into ``arrays``, or these into the caller's if ``outward``.

    The caller's have the same layout. They lie where ``addresses``, an array on the device, says at
    ``slots`` when the copies are made; an array is left out if it says 0. A launch makes as many
    copies as fit into its table.
    """
    run = kernel("transfers", "copy_arrays", float32)
    sizes = np.array([x.nbytes for x in arrays], np.int64)
    addressed = [x.data.ptr for x in arrays]
    for table, blocks in _tables(-(-sizes // _CHUNK), sizes, addressed, slots):
        run((max(blocks, 1),), (_THREADS,), (CPointer(table.ctypes.data), addresses, outward))


def _tables(blocks, *rows):
    """Yield the tables of launches that make copies of so many ``blocks``, and their blocks."""
    most = _WORDS // (1 + len(rows))
    for i in range(0, len(blocks), most):
        some = slice(i, i + most)
        stops = blocks[some].cumsum()
        words = np.concatenate([stops - blocks[some], *[row[some] for row in rows]])
        table = np.zeros(1, _COPIES)
        table["count"] = len(stops)
        table["words"][0, : len(words)] = words
        yield table, int(stops[-1])


def join(arrays, shape, axis):
    """Arrays joined to one of this shape, along an axis that is not negative; NotImplemented if
    their dtypes differ, if one is not contiguous, unless a stream is being captured, or too large.

    CuPy copies a table of more than 8 small arrays from the host, which it refuses while a stream
    is captured.
    """
    dtype = arrays[0].dtype
    if any(x.dtype != dtype for x in arrays):
        return NotImplemented
    if not all(x.flags.c_contiguous for x in arrays):
        if not cupy.cuda.get_current_stream().is_capturing():
            return NotImplemented
        arrays = [contiguous(x) for x in arrays]
    rows = prod(shape[:axis])
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
    for table, n in _tables(blocks, widths, stops - widths, addresses):
        if n:
            run((n,), (_THREADS,), (CPointer(table.ctypes.data), *options))
    return out
