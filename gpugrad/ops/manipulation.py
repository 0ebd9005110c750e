"""Shape, dtype and device: the same values, differently laid out."""

import math

from ..autograd.operation import op
from ..backends import as_shape, backend_of, transfer


@op
def reshape(xp, x, /, shape, *, copy=None):
    """The elements in row-major order in another ``shape``; one -1 in it is inferred."""
    return xp.reshape(x, shape if isinstance(shape, tuple) else as_shape(shape), copy=copy)


reshape.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape))


@op
def permute_dims(xp, x, /, axes):
    """The axes in another order: axis i of the result is axis ``axes[i]`` of ``x``."""
    return xp.permute_dims(x, tuple(axes))


def _permute_dims_vjp(xp, g, axes):
    inverse = [0] * len(axes)
    for i, a in enumerate(axes):
        inverse[a] = i
    return xp.permute_dims(g, tuple(inverse))


permute_dims.vjp(x=_permute_dims_vjp)


@op
def broadcast_to(xp, x, /, shape):
    """``x`` repeated along new leading axes and along axes of length 1."""
    return xp.broadcast_to(x, as_shape(shape))


broadcast_to.vjp(x=lambda xp, g: g)  # the sweep sums it back


@op
def squeeze(xp, x, /, axis):
    """Without the axes named, which must have length 1."""
    return xp.squeeze(x, axis=axis)


squeeze.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape))


@op
def expand_dims(xp, x, /, axis=0):
    """With an axis of length 1 at position ``axis`` of the result."""
    return xp.expand_dims(x, axis=axis)


expand_dims.vjp(x=lambda xp, g, x_shape: xp.reshape(g, x_shape))


@op
def concat(xp, *arrays, axis=0):
    """The arrays of a sequence joined along an existing axis; flattened first if it is None."""
    return xp.concat(arrays, axis=axis)


def _concat_vjp(xp, g, arrays_shape, axis):
    pieces, start = [], 0
    for shape in arrays_shape:
        if axis is None:
            length = math.prod(shape)
            pieces.append(xp.reshape(g[start : start + length], shape))
        else:
            length = shape[axis]
            key = [slice(None)] * len(shape)
            key[axis] = slice(start, start + length)
            pieces.append(g[tuple(key)])
        start += length
    return pieces


concat.vjp(arrays=_concat_vjp)


@op
def stack(xp, *arrays, axis=0):
    """The arrays of a sequence, of one shape, joined along a new axis."""
    return xp.stack(arrays, axis=axis)


def _stack_vjp(xp, g, arrays_shape, axis):
    ndim = len(arrays_shape[0]) + 1
    key = [slice(None)] * ndim
    pieces = []
    for i in range(len(arrays_shape)):
        key[axis] = i
        pieces.append(g[tuple(key)])
    return pieces


stack.vjp(arrays=_stack_vjp)


@op
def unstack(xp, x, /, axis=0):
    """The slices along an axis as a tuple of arrays."""
    return tuple(xp.unstack(x, axis=axis))


unstack.vjp(x=lambda xp, g, axis: xp.stack(g, axis=axis))


@op
def astype(xp, x, /, dtype, *, copy=True):
    """The values in another dtype. The gradient is cast back; to integers there is none."""
    return xp.astype(x, backend_of[type(x)].dtype(dtype), copy=copy)


astype.vjp(x=lambda xp, g: g)  # the sweep casts it back


@op
def to_device(xp, x, /, device):
    """The values on another device, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``."""
    return transfer(x, device)


to_device.vjp(x=lambda xp, g, x_device: xp.to_device(g, x_device))
