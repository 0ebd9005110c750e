"""Twins of convolution, whose gradients are computed together, and of sums of windows."""

import cupy

from ...backends.cupy.convolution import cotangents
from ...backends.cupy.kernels import windows
from ...backends.windows import geometry_of
from ...ops.convolution import convolution
from ...ops.windows import sum_windows


def _convolution_vjp(
    xp, g, x, weight, x_shape, weight_shape, stride, padding, dilation, groups, wanted
):
    geometry = geometry_of(x_shape[2:], weight_shape[2:], stride, padding, dilation)
    arrays = [y for y in (g, x, weight) if y is not None]
    if any(y.dtype != g.dtype or not windows.supports(y, geometry) for y in arrays):
        return NotImplemented
    return cotangents(g, x, weight, (x_shape, weight_shape), wanted, geometry, groups)


def _sum_windows_vjp(xp, g, x_shape, size, stride, padding, dilation, scale):
    geometry = geometry_of(x_shape[len(x_shape) - len(size) :], size, stride, padding, dilation)
    if not windows.supports(g, geometry):
        return NotImplemented
    out = cupy.empty(x_shape, g.dtype)
    windows.spread(g, out, geometry, scale)
    return out


convolution.twin("cupy", joint=_convolution_vjp)
sum_windows.twin("cupy", x=_sum_windows_vjp)
