"""Random numbers on CUDA devices.

A key decides them all: see `philox`. No device holds a state.
"""

from math import prod

import cupy
import numpy as np

from ...dtypes import bool_, float32, float64, int64
from ...philox import LANES, Keys, limit
from .loader import kernel

_THREADS = 256


def _launch(name, dtype, n, in_block, args, key, *more):
    """Run the kernel for ``n`` elements; each thread makes ``in_block`` of them."""
    if n:
        blocks = -(-n // (in_block * _THREADS))
        words = np.uint64(key[0]), np.uint64(key[1])
        kernel("random", name, dtype)((blocks,), (_THREADS,), (*args, n, *words, *more))


def dropout_mask(shape, p, key):
    """`philox.kept` on the current device."""
    least = limit(p, key)
    out = cupy.empty(shape, bool_)
    # A kernel of any dtype: it has none of its own.
    _launch("dropout_mask", float32, prod(shape), LANES, (out,), key, least)
    return out


def dropout(x, p, key):
    """``x`` with the elements that `philox.kept` drops set to 0, and the others scaled."""
    dtype = x.dtype
    least = limit(p, key)
    out = cupy.empty(x.shape, dtype)
    # Rounded as where an array of this dtype is multiplied by it.
    scale = float(dtype.type(1 / (1 - p) if p < 1 else 1.0))
    _launch("dropout", dtype, x.size, LANES, (cupy.ascontiguousarray(x), out, scale), key, least)
    return out


class Random:
    """Seeded random arrays on a CUDA device: see `backends.numpy.random.Random`."""

    def __init__(self, seed, scope):
        self.scope = scope
        self.keys = Keys(seed, 2)

    def uniform(self, shape, dtype):
        return self._floats("uniform", shape, dtype)

    def normal(self, shape, dtype):
        return self._floats("normal", shape, dtype)

    def integers(self, low, high, shape, dtype):
        bounds = np.iinfo(dtype)
        if not bounds.min <= low < high <= bounds.max + 1:
            raise ValueError(f"from {low} to {high} is out of bounds for {dtype}")
        with self.scope:
            out = cupy.empty(shape, int64)
            # As bits, since an unsigned low may be beyond int64.
            least = low - (1 << 64) * (low >= 1 << 63)
            size = np.uint64((high - low) % (1 << 64))
            _launch("integers", float32, out.size, 4, (out,), self.keys.fresh(), least, size)
            return out.astype(dtype, copy=False)

    def permutation(self, n):
        # By keys of 53 bits, of which two that are equal would bias it: all but impossible.
        with self.scope:
            return cupy.argsort(self.uniform((n,), float64))

    def get_state(self):
        return self.keys.state

    def set_state(self, state):
        self.keys.state = state

    def _floats(self, name, shape, dtype):
        with self.scope:
            out = cupy.empty(shape, dtype)
            in_block = 32 // max(dtype.itemsize, 4)
            _launch(name, dtype, out.size, in_block, (out,), self.keys.fresh())
            return out
