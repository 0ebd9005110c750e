"""Normalization: subtract the mean over some axes, and divide by the standard deviation over them.

The rules keep only the input and the weight, and compute mean and variance again. This reads the
input once more, but keeping the normalized values would take as much memory as the input does.
"""

import math

from .._batched import aligned, equally, shapes_of_examples
from ..autograd import call as calls
from ..autograd.operation import op
from .elementwise import add, multiply
from .manipulation import astype, moveaxis, reshape


def common_dtype(xp, arrays):
    """The result dtype of these arrays, some of which may be None."""
    first, *others = [x.dtype for x in arrays if x is not None]
    for dtype in others:
        if dtype != first:
            first = xp.result_type(first, dtype)
    return first


def common_dtypes(xp, *arrays):
    """The dtype of the result, and the one to compute in, which is float32 for float16."""
    dtype = common_dtype(xp, arrays)
    if dtype in (xp.float32, xp.float64):
        return dtype, dtype
    if xp.isdtype(dtype, "complex floating"):
        raise TypeError("the inputs must be real")
    if not xp.isdtype(dtype, "real floating"):
        return xp.float32, xp.float32  # of integers, to which the call casts the results
    is_long = xp.finfo(dtype).bits > 32  # float64 of another byte order
    return dtype, dtype if is_long else xp.float32


def widen(xp, *arrays):
    """Floating arrays, cast to the dtype to compute in."""
    dtype = common_dtype(xp, arrays)
    if xp.finfo(dtype).bits < 32:
        dtype = xp.float32
    return [cast(xp, x, dtype) for x in arrays]


def cast(xp, x, dtype, shape=None):
    """An array with this dtype and shape; None stays None."""
    if x is None:
        return None
    if x.dtype != dtype:
        x = xp.astype(x, dtype)
    return x if shape is None or tuple(x.shape) == shape else xp.reshape(x, shape)


# Layer normalization; the normalized axes are handled as one.


@op
def layer_norm(xp, x, weight=None, bias=None, /, *, ndim=1, eps=1e-5):
    """``(x - mean) / sqrt(var + eps) * weight + bias``, normalized over the last ``ndim`` axes.

    x: ``(..., *shape)``, real, where ``shape`` has ``ndim`` axes.
    weight, bias: ``shape``; by default 1 and 0.

    The variance is the sum of squared deviations divided by the number of elements. For
    float16, intermediate values are computed in float32.
    (Ba, Kiros and Hinton 2016, "Layer normalization")
    """
    return _normalized(xp, x, weight, bias, ndim, eps)


def _normalized(xp, x, weight, bias, ndim, eps, *, centered=True):
    """`layer_norm`, or, if not ``centered``, `rms_norm`."""
    _check_layer_norm(ndim, x.shape, weight, bias)
    shape = tuple(x.shape)
    dtype, wide = common_dtypes(xp, x, weight, bias)
    rows = _as_rows(xp, cast(xp, x, wide), ndim)
    rows, scale, _ = _center_rows(xp, rows, _rms_eps(xp, x, eps), centered)
    y, last = rows * scale, (rows.shape[1],)
    if weight is not None:
        y *= cast(xp, weight, wide, last)
    if bias is not None:
        y += cast(xp, bias, wide, last)
    return cast(xp, y, dtype, shape)


def _check_layer_norm(ndim, x_shape, weight, bias=None):
    """Raise ValueError if the shapes do not fit."""
    if not 1 <= ndim <= len(x_shape):
        most = len(x_shape)
        raise ValueError(f"ndim, the number of axes to normalize, must be 1 to {most}, not {ndim}")
    _check_parameters(weight, bias, tuple(x_shape[len(x_shape) - ndim :]), "the last axes of x")


def _check_parameters(weight, bias, shape, owner):
    for name, x in (("weight", weight), ("bias", bias)):
        given = x if x is None or isinstance(x, tuple) else tuple(x.shape)
        if given is not None and given != shape:
            raise ValueError(f"{name} must have the shape {shape} of {owner}, not {given}")


def _as_rows(xp, x, ndim):
    """``x`` reshaped to a matrix, each row of which is normalized by itself."""
    if ndim == 1 and len(x.shape) == 2:
        return x
    split = len(x.shape) - ndim
    return xp.reshape(x, (math.prod(x.shape[:split]), math.prod(x.shape[split:])))


def _center_rows(xp, x, eps, centered=True):
    """The rows, minus their means if ``centered``; the reciprocals of their root mean squares, as a
    column; and the number of elements in a row."""
    count = max(x.shape[1], 1)
    if centered:
        x = x - xp.sum(x, axis=1, keepdims=True) / count
    scale = math.sqrt(count) / xp.sqrt(xp.vecdot(x, x, axis=-1) + eps * count)
    return x, xp.reshape(scale, (-1, 1)), count


def _rms_eps(xp, x, eps):
    if eps is None:
        dtype = xp.float32 if xp.isdtype(x.dtype, "integral") else x.dtype
        eps = float(xp.finfo(dtype).eps)
    return eps


def _sum_rows(xp, x):
    """The sum of the rows, `BLOCK` of them at first: it rounds less, and threads can share it."""
    rows, columns = x.shape
    whole = rows // BLOCK * BLOCK
    if whole < 2 * BLOCK:
        return xp.sum(x, axis=0)
    sums = xp.sum(xp.reshape(x[:whole, :], (-1, BLOCK, columns)), axis=1)
    if whole < rows:
        sums = xp.concat([sums, xp.sum(x[whole:, :], axis=0, keepdims=True)], axis=0)
    return xp.sum(sums, axis=0)


BLOCK = 64


def _layer_norm_vjp(xp, g, x, weight, wanted, ndim, eps, *, centered=True):
    shape = x.shape
    last, eps = shape[len(shape) - ndim :], _rms_eps(xp, x, eps)
    g, x, weight = widen(xp, g, x, weight)
    g = _as_rows(xp, g, ndim)
    rows, scale, count = _center_rows(xp, _as_rows(xp, x, ndim), eps, centered)
    out = rows * scale
    products = g * out
    to_weight = xp.reshape(_sum_rows(xp, products), last) if wanted[1] else None
    to_bias = xp.reshape(_sum_rows(xp, g), last) if any(wanted[2:]) else None
    if not wanted[0]:
        return None, to_weight, to_bias
    # The components of the cotangent along changes of the variance and of the mean go.
    row = None if weight is None else xp.reshape(weight, (1, -1))
    to_x = g if row is None else g * row
    if centered:
        to_x = to_x - _along(xp, g, row) / count
    out *= _along(xp, products, row) / count
    return xp.reshape((to_x - out) * scale, shape), to_weight, to_bias


def _along(xp, x, row):
    """The products of the rows of ``x`` with ``row``, which is 1 by default, as a column."""
    if row is None:
        return xp.sum(x, axis=1, keepdims=True)
    return xp.reshape(xp.vecdot(x, row, axis=-1), (-1, 1))


def _layer_norm_x_jvp(xp, t, x, weight, ndim, eps):
    t, x, weight = widen(xp, t, x, weight)
    # Without a weight the Jacobian is symmetric.
    t, _, _ = _layer_norm_vjp(xp, t, x, None, (True, False, False), ndim, eps)
    return t if weight is None else t * weight


def _layer_norm_weight_jvp(xp, t, x, ndim, eps):
    shape = x.shape
    (x,) = widen(xp, x)
    out, scale, _ = _center_rows(xp, _as_rows(xp, x, ndim), eps)
    return xp.reshape(out * scale, shape) * t


def _layer_norm_vmap(call, batched, x, *parameters, ndim, eps):
    _check_layer_norm(ndim, *shapes_of_examples(batched, (x, *parameters)))
    if not any(batched[1:]):
        return call(x, *parameters, ndim=ndim, eps=eps)
    eps = _rms_eps(calls.namespace, x, eps)
    x = astype(x, common_dtype(calls.namespace, (x, *parameters)), copy=False)
    return _scaled(batched, call(x, ndim=ndim, eps=eps), *parameters)


def _scaled(batched, out, weight, bias=None):
    """``out * weight + bias`` for all examples.

    batched: whether ``out``, ``weight`` and ``bias`` have an axis over the examples.
    """
    if weight is not None:
        out = multiply(*aligned(batched[:2], (out, weight)))
    if bias is not None:
        out = add(*aligned((batched[0] or batched[1], batched[2]), (out, bias)))
    return out


layer_norm.vjp(joint=_layer_norm_vjp).vmap(_layer_norm_vmap)
layer_norm.jvp(x=_layer_norm_x_jvp, weight=_layer_norm_weight_jvp, bias=lambda xp, t: t)


# Batch normalization


@op(materialize=False)
def batch_norm(xp, x, weight=None, bias=None, /, *, eps=1e-5):
    """``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and variance of each channel.

    x: ``(n, channels, ...)``, real.
    weight, bias: ``(channels,)``; by default 1 and 0.

    Returns ``(out, mean, var)``. The statistics, ``(channels,)``, are over all axes but the
    second, and 0 if these have no elements; the variance is the sum of squared deviations divided
    by the number of elements. All three results are differentiable. For float16, intermediate
    values are computed in float32.
    (Ioffe and Szegedy 2015, "Batch normalization: accelerating deep network training by
    reducing internal covariate shift")
    """
    _check_channels(x.shape, weight, bias)
    dtype, wide = common_dtypes(xp, x, weight, bias)
    y, mean, var, scale, _ = _center_channels(xp, cast(xp, x, wide), eps)
    shape = tuple(mean.shape)
    y *= scale if weight is None else scale * cast(xp, weight, wide, shape)
    if bias is not None:
        y += cast(xp, bias, wide, shape)
    return cast(xp, y, dtype), *[cast(xp, x, dtype, shape[1:2]) for x in (mean, var)]


def _check_channels(x_shape, weight, bias, groups=1):
    """Raise ValueError if the shapes do not fit."""
    if len(x_shape) < 2:
        raise ValueError(f"x must have the shape (n, channels, ...), not {tuple(x_shape)}")
    if groups < 1 or x_shape[1] % groups:
        raise ValueError(f"the channels of x must be a multiple of groups, {groups}")
    _check_parameters(weight, bias, tuple(x_shape[1:2]), "the channels of x")


def _center_channels(xp, x, eps):
    """``x`` minus the mean; the mean, the variance and the reciprocal of the standard deviation,
    which broadcast with ``x``; and the number of elements in a channel."""
    axes = _all_but_channels(x)
    count = max(math.prod(x.shape[:1]) * math.prod(x.shape[2:]), 1)
    mean = xp.sum(x, axis=axes, keepdims=True) / count
    centered = x - mean
    var = xp.sum(centered * centered, axis=axes, keepdims=True) / count
    return centered, mean, var, 1 / xp.sqrt(var + eps), count


def _all_but_channels(x):
    return (0, *range(2, len(x.shape)))


def _batch_norm_vjp(xp, g, x, weight, wanted, eps):
    g, g_mean, g_var, x, weight = widen(xp, *g, x, weight)
    axes = _all_but_channels(x)
    out, mean, _, scale, count = _center_channels(xp, x, eps)
    out *= scale
    shape = mean.shape
    to_x = to_weight = to_bias = None
    slope = shift = None  # part of the gradient is ``out * slope + shift``
    if g is not None:
        total = xp.sum(g, axis=axes, keepdims=True)
        along = xp.sum(g * out, axis=axes, keepdims=True)
        to_weight, to_bias = xp.reshape(along, (-1,)), xp.reshape(total, (-1,))
        if not wanted[0]:
            return None, to_weight, to_bias
        factor = scale if weight is None else scale * xp.reshape(weight, shape)
        to_x = g * factor
        factor = factor / -count
        slope, shift = along * factor, total * factor
    if g_var is not None:
        slope = _add(slope, xp.reshape(g_var, shape) * (2 / count) / scale)
    if g_mean is not None:
        shift = _add(shift, xp.reshape(g_mean, shape) / count)
    if slope is not None:
        out *= slope
        to_x = _add(to_x, out)
    to_x = xp.broadcast_to(shift, x.shape) if to_x is None else _add(to_x, shift)
    return to_x, to_weight, to_bias


def _add(x1, x2):
    """``x1 + x2``, computed in place in ``x1``; an operand that is None counts as 0."""
    if x1 is None or x2 is None:
        return x2 if x1 is None else x1
    x1 += x2
    return x1


def _batch_norm_vmap(call, batched, x, weight, bias, *, eps):
    _check_channels(*shapes_of_examples(batched, (x, weight, bias)))
    (out, mean, var), back, shape = _side_by_side(call, batched, (x, weight, bias), eps)
    return back(out), reshape(mean, shape), reshape(var, shape)


def _side_by_side(call, batched, inputs, eps):
    """One call with the channels of all examples side by side.

    Returns the result, a function that separates the examples in it, and the shape of an array that
    has a number for each channel of each example.
    """
    x, *parameters = equally(batched, inputs)
    size, n, channels, *rest = x.shape
    merged = reshape(moveaxis(x, 0, 1), (n, size * channels, *rest))
    flat = [None if p is None else reshape(p, (size * channels,)) for p in parameters]

    def back(out):
        return moveaxis(reshape(out, (n, size, channels, *rest)), 1, 0)

    return call(merged, *flat, eps=eps), back, (size, channels)


batch_norm.vjp(joint=_batch_norm_vjp).vmap(_batch_norm_vmap)


@op
def _by_statistics(xp, x, mean, var, weight=None, bias=None, /, *, eps):
    """`batch_norm` of ``x`` with these statistics, ``(channels,)``, in place of its own."""
    dtype, wide = common_dtypes(xp, x, mean, var, weight, bias)
    scale, shift = _scale_and_shift(
        xp, *[cast(xp, p, wide) for p in (mean, var, weight, bias)], eps
    )
    out = cast(xp, x, wide) * xp.reshape(scale, _column(x))
    out += xp.reshape(shift, _column(x))
    return cast(xp, out, dtype)


def _column(x):
    """The shape in which an array of channels broadcasts with ``x``."""
    return (x.shape[1],) + (1,) * (len(x.shape) - 2)


def _scale_and_shift(xp, mean, var, weight, bias, eps):
    scale = 1 / xp.sqrt(var + eps)
    if weight is not None:
        scale = scale * weight
    return scale, -mean * scale if bias is None else bias - mean * scale


def _by_statistics_vjp(xp, g, x, mean, var, weight, wanted, eps):
    g, x, mean, var, weight = widen(xp, g, x, mean, var, weight)
    axes, sums = _all_but_channels(x), (None, None)
    if any(wanted[1:]):
        deviations = x - xp.reshape(mean, _column(x))
        sums = xp.sum(g * deviations, axis=axes), xp.sum(g, axis=axes)
    return _by_sums(xp, g, var, weight, wanted, eps, *sums)


def _by_sums(xp, g, var, weight, wanted, eps, along, total):
    """The cotangents, from the sums of the products of ``g`` with the deviations, and of ``g``."""
    inverse = 1 / xp.sqrt(var + eps)
    scale = inverse if weight is None else inverse * weight
    to_x = g * xp.reshape(scale, _column(g)) if wanted[0] else None
    if total is None:
        return to_x, None, None, None, None
    along = along * inverse
    return to_x, -total * scale, along * scale * inverse / -2, along, total


def _by_statistics_vmap(call, batched, *inputs, eps):
    out, back, _ = _side_by_side(call, batched, inputs, eps)
    return back(out)


_by_statistics.vjp(joint=_by_statistics_vjp).vmap(_by_statistics_vmap)


# Group normalization. The channels of a group and their elements are one row of a matrix.


@op
def group_norm(xp, x, weight=None, bias=None, /, *, groups, eps=1e-5):
    """``(x - mean) / sqrt(var + eps) * weight + bias``, normalized over groups of channels.

    x: ``(n, channels, ...)``, real; each example's channels are split into ``groups`` of equal
        size, and each group is normalized by itself, over all of its elements.
    weight, bias: ``(channels,)``; by default 1 and 0.

    The variance is the sum of squared deviations divided by the number of elements. For
    float16, intermediate values are computed in float32.
    (Wu and He 2018, "Group normalization")
    """
    _check_channels(x.shape, weight, bias, groups)
    shape = tuple(x.shape)
    n, channels = shape[:2]
    dtype, wide = common_dtypes(xp, x, weight, bias)
    rows, scale, _ = _center_rows(xp, _group_rows(xp, cast(xp, x, wide), groups), eps)
    size = channels // groups
    y = xp.reshape(rows, (n, groups, size, math.prod(shape[2:])))
    scale = xp.reshape(scale, (n, groups, 1, 1))
    column = (groups, size, 1)
    y *= scale if weight is None else scale * cast(xp, weight, wide, column)
    if bias is not None:
        y += cast(xp, bias, wide, column)
    return cast(xp, y, dtype, shape)


def _group_rows(xp, x, groups):
    return xp.reshape(x, (x.shape[0] * groups, x.shape[1] // groups * math.prod(x.shape[2:])))


def _group_norm_vjp(xp, g, x, weight, wanted, groups, eps):
    g, x, weight = widen(xp, g, x, weight)
    n, channels, *rest = x.shape
    rows, scale, count = _center_rows(xp, _group_rows(xp, x, groups), eps)
    rows *= scale
    # A channel of an example is a row of these.
    out = xp.reshape(rows, (n * channels, math.prod(rest)))
    g = xp.reshape(g, out.shape)
    shape = n, groups, channels // groups
    along = xp.reshape(xp.vecdot(g, out, axis=-1), shape)
    total = xp.reshape(xp.sum(g, axis=1), shape)
    to_weight = xp.reshape(xp.sum(along, axis=0), (channels,)) if wanted[1] else None
    to_bias = xp.reshape(xp.sum(total, axis=0), (channels,)) if wanted[2] else None
    if not wanted[0]:
        return None, to_weight, to_bias
    scale = xp.reshape(scale, (n, groups, 1))
    factor = xp.broadcast_to(scale, shape)
    if weight is not None:
        weight = xp.reshape(weight, shape[1:])
        along, total, factor = along * weight, total * weight, factor * weight
    along, total = (xp.sum(a, axis=2, keepdims=True) * scale / count for a in (along, total))
    rows *= xp.reshape(along, (-1, 1))
    rows += xp.reshape(total, (-1, 1))
    to_x = g * xp.reshape(factor, (-1, 1))
    to_x -= xp.reshape(rows, out.shape)
    return xp.reshape(to_x, x.shape), to_weight, to_bias


def _group_norm_vmap(call, batched, x, weight, bias, *, groups, eps):
    shapes = shapes_of_examples(batched, (x, weight, bias))
    _check_channels(*shapes, groups)
    x = astype(x, common_dtype(calls.namespace, (x, weight, bias)), copy=False)
    n, *rest = shapes[0]
    merged = reshape(x, (x.shape[0] * n, *rest)) if batched[0] else x
    if not any(batched[1:]):
        return reshape(call(merged, weight, bias, groups=groups, eps=eps), x.shape)
    out = reshape(call(merged, groups=groups, eps=eps), x.shape)
    ones = (1,) * (len(rest) - 1)
    columns = [p if p is None else reshape(p, (*p.shape, *ones)) for p in (weight, bias)]
    return _scaled(batched, out, *columns)


group_norm.vjp(joint=_group_norm_vjp).vmap(_group_norm_vmap)


# Normalization by the root mean square; the normalized axes are handled as one.


@op
def rms_norm(xp, x, weight=None, /, *, ndim=1, eps=None):
    """``x / sqrt(mean(x**2) + eps) * weight``, with the mean over the last ``ndim`` axes.

    x: ``(..., *shape)``, real, where ``shape`` has ``ndim`` axes.
    weight: ``shape``; by default 1.
    eps: by default the distance from 1 to the next number of x's dtype.

    For float16, intermediate values are computed in float32.
    (Zhang and Sennrich 2019, "Root mean square layer normalization")
    """
    return _normalized(xp, x, weight, None, ndim, eps, centered=False)


def _rms_norm_vjp(xp, g, x, weight, wanted, ndim, eps):
    return _layer_norm_vjp(xp, g, x, weight, wanted, ndim, eps, centered=False)[:2]


rms_norm.vjp(joint=_rms_norm_vjp).vmap(_layer_norm_vmap)
