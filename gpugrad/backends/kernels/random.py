"""Twins of ops in gpugrad/ops/dropout.py: the mask is made as it is used, in one kernel."""

from math import prod

import cupy
import numpy as np

from ..numpy import bool_, float32
from ..philox import LANES, limit
from .loader import covers, kernel

_THREADS = 256


def dropout_mask(shape, p, key):
    """`philox.kept` on the current device."""
    out = cupy.empty(shape, bool_)
    # A kernel of any dtype: it has none of its own.
    _launch("dropout_mask", float32, prod(shape), (out,), p, key)
    return out


def _dropout(xp, x, p, key):
    dtype = x.dtype
    if not covers(dtype):
        return NotImplemented
    out = cupy.empty(x.shape, dtype)
    # Rounded as where an array of this dtype is multiplied by it.
    scale = float(dtype.type(1 / (1 - p) if p < 1 else 1.0))
    _launch("dropout", dtype, x.size, (cupy.ascontiguousarray(x), out, scale), p, key)
    return out


def _launch(name, dtype, n, args, p, key):
    least = limit(p, key)
    if n:
        blocks = -(-n // (LANES * _THREADS))
        words = np.uint64(key[0]), np.uint64(key[1])
        kernel("random", name, dtype)((blocks,), (_THREADS,), (*args, n, *words, least))


twins = {"dropout": {"forward": _dropout, "x": lambda xp, g, p, key: _dropout(xp, g, p, key)}}
