"""Windows of images and their maxima, and convolution, in C, for ``backends/windows.py``.

That file looks for most of these functions by name, and explains the geometry. A function returns
False or None where the library does not compute the result. Then NumPy does, with the same bits.
"""

import ctypes
from functools import lru_cache
from math import prod

import numpy as np

from ..dtypes import float32, float64
from ..numpy.threads import run_pieces
from .base import function_of, place, rows


@lru_cache(1024)
def _are_tiles(geometry):
    """Whether the windows are tiles that the kernels take."""
    lengths, size, counts, stride, before, dilation = geometry
    are_adjacent = stride == size and not any(before) and set(dilation) == {1}
    are_inside = all(k * m <= n for k, m, n in zip(size, counts, lengths, strict=True))
    return are_adjacent and are_inside and len(size) <= 2 and max(size) <= 3 and size[-1] > 1


def _is_known(x):
    return x.dtype in (float32, float64) and x.size and x.flags.c_contiguous


def supports(x, geometry):
    """Whether the kernels may take these arrays and windows."""
    return _is_known(x) and len(geometry.size) <= 2 and prod(geometry.size) < 128


def _run(name, geometry, x, *arrays):
    """Have a kernel go through the planes of ``x``; returns whether it did."""
    size, length = prod(geometry.lengths), -(-geometry.counts[-1] // 8) * 8
    options = {"cost": size, "m": geometry.are_disjoint, "library": "windows"}
    arrays = with_three_axes(geometry), *arrays
    return rows(name, x.dtype, x.size // size, length, *arrays, **options)


@lru_cache(1024)
def with_three_axes(geometry):
    """The numbers of a geometry with up to three axes, as the library takes them: the last two
    axes, and then the first one of three."""
    fill = 1, 1, 1, 1, 0, 1
    rows = [(n,) * (3 - len(x)) + x for n, x in zip(fill, geometry, strict=True)]
    return np.array([(*plane, first) for first, *plane in rows], np.int64)


def copy(x, out, geometry):
    """Write the elements of all windows, at most along three axes, into ``out``."""
    if not _is_known(x) or not out.size or len(geometry.size) > 3:
        return False
    arrays = with_three_axes(geometry), x, out
    items = x.size // prod(geometry.lengths)
    return rows("copy_windows", x.dtype, items, 1, *arrays, library="windows")


def largest(x, out, geometry):
    return _are_tiles(geometry) and _run("tile_maxima", geometry, x, x, out)


def find(x, values, out, geometry):
    is_known = values.dtype == x.dtype and values.flags.c_contiguous
    name = "tile_places" if _are_tiles(geometry) else "window_places"
    return is_known and _run(name, geometry, x, x, values, out)


def put(values, taps, out, geometry):
    is_known = taps.dtype == np.int8 and taps.flags.c_contiguous
    name = "put_in_tiles" if _are_tiles(geometry) else "put_in_windows"
    return is_known and _run(name, geometry, out, values, taps, out)


def convolve_blocks(x, weight, bias, geometry, groups, blocks):
    """The convolution of arrays in C order, of one dtype, in such blocks of images and rows."""
    out = np.empty((x.shape[0], weight.shape[0], *geometry.counts), x.dtype)
    return _convolve(x, weight, bias, out, geometry, groups, weight.shape[0] // groups, blocks, 0)


def sum_blocks(g, x, geometry, groups, blocks, in_sum):
    """The gradients, ``(groups, depth, filters)``, each of ``in_sum`` of the blocks."""
    filters, depth = g.shape[1] // groups, x.shape[1] // groups * prod(geometry.size)
    if groups * depth * filters == 1:
        return None  # NumPy adds up those of images, which lie side by side, in another order
    out = np.empty((-(-len(blocks) // in_sum), groups, depth, filters), x.dtype)
    return _convolve(x, g, None, out, geometry, groups, filters, blocks, in_sum)


def _convolve(x, weight, bias, out, geometry, groups, filters, blocks, in_sum):
    axes, is_by_channel = len(geometry.size), x.shape[1] == groups == groups * filters
    if x.dtype not in (float32, float64) or axes > (2 if is_by_channel else 3):
        return None
    function = function_of(f"gg_convolve_{x.dtype.char}")
    if function is None or not all(a.size for a in (x, weight, out)):
        return None
    images, rows, _ = blocks[0]
    n, channels = x.shape[0], x.shape[1] // groups
    numbers = (
        n, groups, channels, filters, geometry.are_elements,
        images.stop - images.start, rows.stop - rows.start, in_sum,
        (1, 0, 2)[axes - 1], prod(geometry.counts[1:]), *map(int, with_three_axes(geometry).flat),
    )  # fmt: skip
    pointers = [ctypes.c_void_p(place(a)) for a in (x, weight, bias, out)]
    numbers = (ctypes.c_int64 * len(numbers))(*numbers)
    pieces = len(out) if in_sum else n * -(-geometry.counts[0] // (rows.stop - rows.start))
    work = n * prod(geometry.counts) * groups * filters * channels * prod(geometry.size)
    return out if run_pieces(function, numbers, *pointers, pieces=pieces, work=work) else None
