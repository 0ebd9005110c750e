"""Elementwise functions of the namespace, each in a single kernel."""

import cupy

from ...dtypes import int64
from .loader import contiguous, covers, elementwise_grid, is_one, kernel, launch_elementwise


def zero_discarded_nans(c, g, in_place=False):
    """`Backend.xp.zero_discarded_nans`; NotImplemented unless shapes and dtypes are equal.

    in_place: whether the result may be ``c`` itself, overwritten. Then the kernel writes
        only near a nan.
    """
    if g.dtype != c.dtype or g.shape != c.shape or not covers(c.dtype):
        return NotImplemented
    c, single = contiguous(c), is_one(g)
    g = g if single else contiguous(g)
    out = c if in_place else cupy.empty(c.shape, c.dtype)
    return launch_elementwise("elementwise", "zero_discarded_nans", (c, g, out), single)


def blend(arrays, others, a, shares):
    """`Backend.blend`, for contiguous arrays of the same shape and dtype on one device."""
    count = arrays[-1] if len(arrays) > len(others) else None
    first, arrays = arrays[0], arrays[: len(others)]
    n, dtype = first.size, first.dtype
    like = dtype, first.shape, first.device, True
    given = [(x.dtype, x.shape, x.device, x.flags.c_contiguous) for x in (*arrays, *others)]
    if not (n and covers(dtype)) or any(x != like for x in given):
        return False
    if count is not None and (count.dtype != int64 or count.device != first.device):
        return False
    more = (None, None, 0.0) if len(others) == 1 else (arrays[1], others[1], float(shares[1]))
    args = first, others[0], float(shares[0]), *more, count, n, float(a)
    kernel("elementwise", "blend", dtype)(*elementwise_grid(n, dtype), args)
    return True
