"""Elementwise functions of the namespace, each in a single kernel."""

import cupy

from .loader import contiguous, covers, elementwise_grid, flat, kernel


def zero_discarded_nans(c, g, in_place=False):
    """`Backend.xp.zero_discarded_nans`; NotImplemented unless shapes and dtypes are equal.

    in_place: whether the result may be ``c`` itself, overwritten. Then the kernel writes
        only near a nan.
    """
    n, dtype = c.size, c.dtype
    if g.dtype != dtype or g.shape != c.shape or not covers(dtype):
        return NotImplemented
    c, (g, single) = contiguous(c), flat(g)
    out = c if in_place else cupy.empty(c.shape, dtype)
    if n:
        run = kernel("elementwise", "zero_discarded_nans", dtype)
        run(*elementwise_grid(n, dtype), (c, g, out, n, single))
    return out


def blend(x, y, a, b):
    """`Backend.blend`, for contiguous arrays of the same shape and dtype on one device."""
    n, dtype = x.size, x.dtype
    if y.dtype != dtype or y.shape != x.shape or not covers(dtype) or y.device != x.device:
        return False
    if not (x.flags.c_contiguous and y.flags.c_contiguous):
        return False
    if n:
        run = kernel("elementwise", "blend", dtype)
        run(*elementwise_grid(n, dtype), (x, y, n, float(a), float(b)))
    return True
