"""Random numbers on CUDA devices.

A key determines all numbers of a call, see `philox`; devices hold no state. In a program that is
captured once and launched many times, a `DeviceKey` stands for the key.
"""

from copy import copy
from math import prod

import cupy
import numpy as np

from ...dtypes import bool_, float32, float64, int64
from ...philox import LANES, Keys, chance, limit
from .loader import contiguous, kernel

_THREADS = 256
_ZERO = np.uint64(0)


class DeviceKey:
    """A key that kernels read from memory: two unsigned integers in the `transfers.Place`."""

    def __init__(self, place):
        self.place = place

    def fresh(self):
        return self


def _launch(name, dtype, n, in_block, args, key, *more):
    """Run a kernel for ``n`` elements, in which each thread makes a block of ``in_block``."""
    if n:
        blocks = -(-n // (in_block * _THREADS))
        kernel("random", name, dtype)((blocks,), (_THREADS,), (*args, n, *words_of(key), *more))


def words_of(key):
    """What kernels take for a key: its two words, and where they lie on the device or None."""
    if type(key) is DeviceKey:
        return _ZERO, _ZERO, key.place.device_array
    return np.uint64(key[0]), np.uint64(key[1]), None


def chance_of(p, key):
    """What kernels take for the probability ``p``; raises ValueError as `philox.limit` does."""
    if type(key) is not DeviceKey:
        limit(p, key)
    return chance(p)


def dropout_mask(shape, p, key, start=0):
    """`philox.kept` on the current device."""
    units = chance_of(p, key)
    out = cupy.empty(shape, bool_)
    # The kernel is the same for every dtype.
    _launch("dropout_mask", float32, prod(shape), LANES, (out,), key, units, start)
    return out


def dropout(x, p, key):
    """``x``, scaled, with 0 in place of the elements that `philox.kept` drops."""
    dtype, units = x.dtype, chance_of(p, key)
    out = cupy.empty(x.shape, dtype)
    # Rounded to the array's dtype, as a multiplication of arrays would.
    scale = float(dtype.type(1 / (1 - p) if p < 1 else 1.0))
    _launch("dropout", dtype, x.size, LANES, (contiguous(x), out, scale), key, units)
    return out


class Random:
    """Seeded random arrays on a CUDA device, with the methods of `backends.numpy.random.Random`."""

    def __init__(self, seed, scope):
        self.scope = scope
        self.keys = Keys(seed, 2)

    def with_key(self, key):
        """A generator that draws everything by this key."""
        other = copy(self)
        other.keys = key
        return other

    def uniform(self, shape, dtype):
        return self._floats("uniform", shape, dtype)

    def normal(self, shape, dtype):
        return self._floats("normal", shape, dtype)

    def integers(self, low, high, shape, dtype):
        bounds = np.iinfo(dtype)
        if not bounds.min <= low < high <= bounds.max + 1:
            raise ValueError(f"the range from {low} to {high} is out of bounds for {dtype}")
        with self.scope:
            out = cupy.empty(shape, int64)
            # The kernel adds modulo 2**64, so an unsigned low beyond int64 wraps around.
            least = low - (1 << 64) * (low >= 1 << 63)
            size = np.uint64((high - low) % (1 << 64))
            _launch("integers", float32, out.size, 4, (out,), self.keys.fresh(), least, size)
            return out.astype(dtype, copy=False)

    def permutation(self, n):
        # Sorts by random keys of 53 bits; equal ones would bias it but are all but impossible.
        with self.scope:
            return cupy.argsort(self.uniform((n,), float64))

    def get_state(self):
        return self.keys.state

    def set_state(self, state):
        self.keys.restore(state)

    def _floats(self, name, shape, dtype):
        with self.scope:
            out = cupy.empty(shape, dtype)
            in_block = 32 // max(dtype.itemsize, 4)
            _launch(name, dtype, out.size, in_block, (out,), self.keys.fresh())
            return out
