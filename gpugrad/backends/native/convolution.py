"""Convolution in C, and its gradient by the weight, for ``backends/windows.py``.

Arrays are in C order. The functions return None where the library does not compute the result. Then
NumPy does, with the same bits.
"""

import ctypes
from math import prod

import numpy as np

from ..dtypes import float32, float64
from ..numpy.threads import run_pieces
from .base import base, place
from .tiles import with_two_axes


def convolve_blocks(x, weight, bias, geometry, groups, blocks):
    """The convolution of arrays of one dtype, in such blocks of images and of rows of windows."""
    out = np.empty((x.shape[0], weight.shape[0], *geometry.counts), x.dtype)
    filters = weight.shape[0] // groups
    return _run(x, weight, bias, out, geometry, groups, filters, blocks, 0)


def sum_blocks(g, x, geometry, groups, blocks, in_sum):
    """The gradients, ``(groups, depth, filters)``, each of ``in_sum`` of the blocks."""
    filters, depth = g.shape[1] // groups, x.shape[1] // groups * prod(geometry.size)
    out = np.empty((-(-len(blocks) // in_sum), groups, depth, filters), x.dtype)
    return _run(x, g, None, out, geometry, groups, filters, blocks, in_sum)


def _run(x, weight, bias, out, geometry, groups, filters, blocks, in_sum):
    if x.dtype not in (float32, float64) or len(geometry.size) > 2:
        return None
    function = getattr(base(), f"gg_convolve_{x.dtype.char}", None)
    if function is None or not all(a.size for a in (x, weight, out)):
        return None
    images, rows, _ = blocks[0]
    n, channels = x.shape[0], x.shape[1] // groups
    numbers = (
        n, groups, channels, filters, geometry.are_elements,
        images.stop - images.start, rows.stop - rows.start, in_sum,
        *map(int, with_two_axes(geometry).flat),
    )  # fmt: skip
    pointers = [ctypes.c_void_p(place(a)) for a in (x, weight, bias, out)]
    numbers = (ctypes.c_int64 * len(numbers))(*numbers)
    pieces = len(out) if in_sum else n * -(-geometry.counts[0] // (rows.stop - rows.start))
    work = n * prod(geometry.counts) * groups * filters * channels * prod(geometry.size)
    return out if run_pieces(function, numbers, *pointers, pieces=pieces, work=work) else None
