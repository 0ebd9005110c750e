"""Reductions along rows and over them, outer products, and sums of slices, with NumPy's bits."""

import math

import numpy as np

from ..dtypes import float32, float64
from . import base

SMALL = 1 << 15  # elements: for fewer, NumPy takes no longer
_WIDE = 512  # elements of a row that are added up at a time
_MANY = 1 << 17  # elements whose sum is divided among threads
_STRIP = 64  # elements of slices that are added up at a time


def reduced(name, x, axis, keepdims):
    """The ``"sum"``, ``"max"`` or ``"min"`` of an array; None if the library does not compute it.

    axis: an int, a tuple, or None for all axes.
    """
    if type(x) is not np.ndarray or x.dtype not in (float32, float64):
        return None
    extent = _extent(x, axis) if x.flags.c_contiguous else None
    if extent is None:
        return None
    first, last, before, length, after = extent
    if name != "sum" and before * after == 1:
        return None
    kept = (1,) * (last - first) if keepdims else ()
    out = np.empty(x.shape[:first] + kept + x.shape[last:], x.dtype)
    if after > 1:
        # A piece has up to _WIDE columns, whose results stay in the cache.
        pieces = -(-after // _WIDE)
        options = {"n": length, "m": after, "cost": min(after, _WIDE) * length}
        done = base.rows(f"{name}_middle", x.dtype, before * pieces, _WIDE, x, out, **options)
    elif before == 1 and length >= _MANY:
        done = _sum_of_parts(x, length, out)
    else:
        done = base.rows(name, x.dtype, before, length, x, out)
    if not done:
        return None
    return out if out.ndim else out[()]


def _extent(x, axis):
    """The first of some neighbouring axes, the one after the last of them, and how many elements
    are before, along and after them; None if they are not neighbours, or there are no elements."""
    ndim = x.ndim
    if axis is None:
        first, last = 0, ndim
    elif type(axis) is int:
        first = axis + ndim if axis < 0 else axis
        last = first + 1
    else:
        axes = sorted([a + ndim if a < 0 else a for a in axis]) if type(axis) is tuple else ()
        if not axes or axes != [*range(axes[0], axes[0] + len(axes))]:
            return None  # not neighbours, or not there at all
        first, last = axes[0], axes[-1] + 1
    if not 0 <= first < last <= ndim or not x.size:
        return None
    shape = x.shape
    return first, last, *map(math.prod, (shape[:first], shape[first:last], shape[last:]))


def _sum_of_parts(x, length, out):
    parts = np.empty(1 << min(6, (length // _MANY).bit_length()), x.dtype)
    options = {"n": length, "cost": length // parts.size}
    if not base.rows("sum_part", x.dtype, parts.size, 1, x, parts, **options):
        return False
    while parts.size > 1:
        parts = parts[::2] + parts[1::2]
    np.add.reduce(parts, out=out.reshape(()))
    return True


def outer_product(x1, x2):
    """A column times a row; None if the library does not compute it."""
    kinds = {(type(x), x.dtype, x.ndim, x.flags.c_contiguous) for x in (x1, x2)}
    if kinds != {(np.ndarray, x1.dtype, 2, True)} or x1.dtype not in (float32, float64):
        return None
    items, length = x1.shape[0], x2.shape[1]
    out = np.empty((items, length), x1.dtype)
    return out if base.rows("outer_product", x1.dtype, items, length, x1, x2, out) else None


def added_slices(values, indices, shape, axis):
    """Zeros of ``shape`` with slices of ``values`` added at ``indices`` along an axis, in their
    order; None if the library does not compute it."""
    if type(values) is not np.ndarray or values.dtype not in (float32, float64):
        return None
    ndim = values.ndim
    if values.size < SMALL or not indices.ndim == ndim == len(shape) or not -ndim <= axis < ndim:
        return None
    axis %= ndim
    n, m, length = values.shape[axis], shape[axis], math.prod(shape[axis + 1 :])
    is_like = values.shape == (*shape[:axis], n, *shape[axis + 1 :])
    if not (is_like and length > 1 and indices.size == indices.shape[axis] == n):
        return None
    if not -m <= indices.min() <= indices.max() < m:
        return None
    values, places = np.ascontiguousarray(values), np.ascontiguousarray(indices, np.int64)
    out, items = np.zeros(shape, values.dtype), math.prod(shape[:axis]) * -(-length // _STRIP)
    options = {"n": n, "m": m, "cost": n * min(length, _STRIP)}
    done = base.rows("add_slices", values.dtype, items, length, values, places, out, **options)
    return out if done else None
