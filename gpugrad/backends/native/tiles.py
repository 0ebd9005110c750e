"""Maxima of windows that lie side by side, by kernels of ``rows.c``.

The functions are some of those in ``backends/windows.py``, which explain the geometry. They return
None where the kernels do not compute the result, and then NumPy does, with the same bits.
"""

from functools import lru_cache
from math import prod

import numpy as np

from ..dtypes import float32, float64
from .base import rows


@lru_cache(1024)
def _tiles(geometry):
    """The geometry as the kernels take it; None if they do not."""
    lengths, size, counts, stride, before, dilation = geometry
    are_tiles = stride == size and not any(before) and set(dilation) == {1}
    are_inside = all(k * m <= n for k, m, n in zip(size, counts, lengths, strict=True))
    if not are_tiles or not are_inside or len(size) > 2 or max(size) > 3 or size[-1] == 1:
        return None
    return np.array([(1,) * (2 - len(x)) + x for x in (counts, size, lengths)], np.int64)


def supports(x, geometry):
    """Whether the kernels may take these arrays and windows."""
    is_known = x.dtype in (float32, float64) and x.size and x.flags.c_contiguous
    return is_known and _tiles(geometry) is not None


def _run(name, geometry, out, *arrays):
    """Have a kernel write ``out``; returns that, or None."""
    tiles = _tiles(geometry)
    lengths = prod(geometry[0])
    (dtype,) = {x.dtype for x in arrays if x.dtype != np.int8}
    planes = max(out.size, *[x.size for x in arrays]) // lengths
    length, arrays = -(-int(tiles[0, 1]) // 8) * 8, (tiles, *arrays, out)
    return out if rows(name, dtype, planes, length, *arrays, cost=lengths) else None


def largest(x, shape, geometry):
    return _run("tile_maxima", geometry, np.empty(shape, x.dtype), x)


def find(x, values, dtype, geometry):
    if values.dtype != x.dtype or not values.flags.c_contiguous:
        return None
    return _run("tile_places", geometry, np.empty(values.shape, dtype), x, values)


def put(values, taps, shape, geometry):
    if taps.dtype != np.int8 or not taps.flags.c_contiguous:
        return None
    return _run("put_in_tiles", geometry, np.empty(shape, values.dtype), values, taps)
