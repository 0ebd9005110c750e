"""Functions of `gpugrad.backends.windows` in one launch each, for what `supports` says.

They take the geometry that the functions there make.
"""

from functools import lru_cache, partial
from math import prod

import numpy as np
from cupy.cuda.function import CPointer

from .loader import contiguous, covers, kernel

_THREADS = 256
_AXES = 3


@lru_cache(1024)
def _axes(geometry):
    """The geometry as the kernels take it."""
    lengths, size, counts, stride, before, dilation = geometry
    more = _AXES - len(size)
    rows = [(1,) * more + x for x in (lengths, size, counts, stride)]
    return np.array([*rows, (0,) * more + before, (1,) * more + dilation], np.int64)


def supports(x, geometry):
    """Whether the kernels take an array of this dtype, and windows over so many axes."""
    sizes = [prod(geometry[i]) for i in range(3)]
    return covers(x.dtype) and x.size and len(geometry[0]) <= _AXES and max(sizes) < 2**31


def fill(out, x, geometry, images=0):
    """Write the elements of all windows, and 0 outside, into ``out``, which is contiguous.

    out: ``(..., *size, *counts)``; with ``images``, of which ``x`` has so many, its axes are
        ``(channels, *size, images, *counts)``.
    """
    _, size, counts, *_ = geometry
    blocks = out.size // prod(counts)
    threads = min(-(-prod(counts) // 32) * 32, _THREADS)
    planes = blocks // prod(size)
    args = contiguous(x), out, CPointer(_axes(geometry).ctypes.data), planes, images
    kernel("windows", "window_elements", x.dtype)((blocks,), (threads,), args)


def add(values, out, geometry):
    """Write the sums of the windows' values into ``out``, which is contiguous."""
    return _launch("add_elements", (values,), out, geometry, False, 1.0)


def spread(values, out, geometry, scale):
    """Write for each element the sum of its windows' values, times ``scale``, into ``out``."""
    return _launch("add_elements", (values,), out, geometry, True, float(scale))


def total(x, out, geometry, scale):
    return _launch("window_sums", (x,), out, geometry, float(scale))


def largest(x, out, geometry):
    return _launch("window_maxima", (x,), out, geometry)


def find(x, values, out, geometry):
    if values.dtype != x.dtype:
        return False
    return _launch("find_taps", (x, values), out, geometry, np.int32(out.itemsize))


def _by_taps(name, x, taps, out, geometry):
    if taps.dtype.name not in ("int8", "int32"):
        taps = taps.astype(np.int64)
    return _launch(name, (x, taps), out, geometry, np.int32(taps.itemsize))


take, put = partial(_by_taps, "take_taps"), partial(_by_taps, "put_taps")


def _launch(name, arrays, out, geometry, *more):
    """Run a kernel with a thread for each element of ``out``; returns True."""
    planes = out.size // prod(geometry[0 if name in ("add_elements", "put_taps") else 2])
    blocks = min(-(-out.size // _THREADS), 1 << 16)
    args = *map(contiguous, arrays), out, CPointer(_axes(geometry).ctypes.data), planes, *more
    kernel("windows", name, arrays[0].dtype)((blocks,), (_THREADS,), args)
    return True
