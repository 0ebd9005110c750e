"""How numbers and arrays get into a captured program, and its results out of it."""

import cupy
import numpy as np
from cupy.cuda.function import CPointer

from ...dtypes import float32
from .loader import kernel

_WORDS = 448  # of a launch's table, as in the source
_CHUNK = 16384  # bytes that a block copies
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
    most = _WORDS // 4
    for i in range(0, len(arrays), most):
        some = arrays[i : i + most]
        n = len(some)
        sizes = np.array([x.nbytes for x in some], np.int64)
        blocks = -(-sizes // _CHUNK)
        table = np.zeros(1, _COPIES)
        table["count"] = n
        words = table["words"][0]
        words[:n] = blocks.cumsum() - blocks
        words[n : 2 * n] = sizes
        words[2 * n : 3 * n] = [x.data.ptr for x in some]
        words[3 * n : 4 * n] = slots[i : i + most]
        grid = (max(int(blocks.sum()), 1),)
        run(grid, (_THREADS,), (CPointer(table.ctypes.data), addresses, outward))
