"""Sums, means and variances over the leading axes of arrays.

CuPy has no fast way to compute these, because CUB, which it uses, takes only contiguous rows.
Here numbers are always added in the same order, so results are reproducible, those of `add_rows`
too.
"""

from math import prod
from threading import get_ident

import cupy
import numpy as np

from ...dtypes import int64
from .loader import accumulator, contiguous, covers, kernel

ROWS = 16  # rows of threads in a block that sums columns, as in common.cuh


def shape_without(x, axis, keepdims):
    """The shape of a reduction of ``x``, if ``axis`` is its leading axes and a kernel supports it.

    Otherwise the result is None, as it is for reductions over all axes.
    """
    axes = axis if type(axis) is tuple else (axis,)
    ndim = x.ndim
    if not (0 < len(axes) < ndim and covers(x.dtype) and x.size and x.flags.c_contiguous):
        return None
    if not all(type(a) is int and -ndim <= a < ndim for a in axes):
        return None
    if {a % ndim for a in axes} != {*range(len(axes))}:
        return None
    rest = x.shape[len(axes) :]
    return (1,) * (len(axes) * keepdims) + rest if prod(rest) > 1 else None


def sum_rows(x, shape, divisor=1.0, mean=None):
    """The sums of the columns of contiguous ``x``, divided by ``divisor``, in this ``shape``.

    mean: if given, the means of the columns; the squares of deviations from them are then summed.
    """
    dtype = x.dtype
    columns = prod(shape)
    rows = x.size // columns
    grid, packed, parts = sums_of_columns(rows, columns, dtype, (x,))
    total = cupy.empty(shape, dtype)
    args = x, mean, total, *parts, rows, columns, float(divisor), packed
    kernel("reductions", "sum_rows", dtype)(grid, (32, ROWS), args)
    return total


def sums_of_columns(rows, columns, dtype, arrays):
    """How to launch a kernel that sums columns of arrays, which are contiguous.

    Returns the grid, whether to read packs of 16 bytes, and arrays for the sums of each chunk of
    rows and for `arrivals`, both None if there is one chunk.
    """
    # Packs are read from multiples of 16 bytes, at which all rows must start.
    can_pack = not any(n % 16 for n in (columns * dtype.itemsize, *[x.data.ptr for x in arrays]))
    packed = rows * columns >= LARGE and can_pack
    grid, parts = chunks(rows, columns, dtype, packed)
    return grid, packed, parts


def chunks(rows, columns, dtype, packed):
    """The grid and the arrays that `sums_of_columns` returns."""
    strips = -(-columns // (32 * (16 // dtype.itemsize if packed else 1)))
    chunks = 1 if rows <= 256 else min(-(-rows // 64), max(_BLOCKS // strips, 1))
    if chunks == 1:
        return (strips, 1), (None, None)
    return (strips, chunks), (cupy.empty((chunks, columns), accumulator(dtype)), arrivals())


def arrivals():
    """Counters for kernels of the current stream, each of which leaves them 0.

    A graph's kernels use the counters of the stream in which they were captured, which nothing else
    uses while the graph exists.
    """
    stream = cupy.cuda.get_current_stream().ptr
    thread = get_ident() if stream == cupy.cuda.Stream.ptds.ptr else None
    key = cupy.cuda.runtime.getDevice(), stream, thread
    if key not in _arrivals:
        with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):
            _arrivals[key] = cupy.zeros(_BLOCKS, np.uint32)
    return _arrivals[key]


LARGE = 1 << 20  # elements, from which on kernels read packs of 16 bytes
_BLOCKS = 528  # that sum columns
_MOST_COMPARED = 1 << 22  # pairs of a row and an index; comparing fewer is faster than sorting
_arrivals: dict = {}


def add_rows(values, indices, n):
    """An array ``(n, ...)`` of zeros to which ``values[i]`` is added at ``indices[i]``.

    The values for each place are added up in their order, so the result is reproducible, as that
    of CuPy's ``add.at`` is not. Indices wrap around.
    """
    values = contiguous(values)
    shape, dtype = (n, *values.shape[1:]), values.dtype
    if not (values.size and n):
        return cupy.zeros(shape, dtype)
    indices = indices.astype(int64, copy=False)  # n may be too large for their dtype
    if n * indices.size <= _MOST_COMPARED:
        out = cupy.empty(shape, dtype)
        columns = out.size // n
        threads = min(-(-columns // 32) * 32, 256)
        args = values, contiguous(indices), out, indices.size, n, columns
        kernel("reductions", "sum_matches", dtype)((n, -(-columns // threads)), (threads,), args)
        return out
    indices = indices % n
    order = cupy.argsort(indices)  # which is stable
    starts = cupy.searchsorted(indices[order], cupy.arange(n + 1))
    out = cupy.empty(shape, dtype)
    blocks = min(-(-out.size // 256), 1 << 16)
    args = values, order, starts, out, n, out.size // n
    kernel("reductions", "sum_segments", dtype)((blocks,), (256,), args)
    return out
