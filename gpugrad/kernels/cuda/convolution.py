"""Twins of convolution, whose gradients are computed together, and of sums of windows."""

from ...backends.cupy.convolution import cotangents
from ...backends.cupy.kernels import windows
from ...backends.windows import geometry_of
from ...ops.convolution import convolution


def _convolution_vjp(
    xp, g, x, weight, x_shape, weight_shape, stride, padding, dilation, groups, wanted
):
    geometry = geometry_of(x_shape[2:], weight_shape[2:], g.shape[2:], stride, padding, dilation)
    arrays = [y for y in (g, x, weight) if y is not None]
    if any(y.dtype != g.dtype or not windows.supports(y, geometry) for y in arrays):
        return NotImplemented
    return cotangents(g, x, weight, (x_shape, weight_shape), wanted, geometry, groups)


convolution.twin("cupy", joint=_convolution_vjp)
