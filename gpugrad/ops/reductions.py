"""Reductions: ``axis`` is None (all axes), an int or a tuple; ``keepdims`` keeps them as 1."""

from ..autograd.operation import op


def _axes(axis, ndim):
    """The reduced axes, all non-negative."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(a % ndim for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def _kept(shape, axis):
    """The result's shape under ``keepdims``, and how many elements each result reduces."""
    axes = _axes(axis, len(shape))
    count = 1
    for a in axes:
        count *= shape[a]
    return tuple(1 if i in axes else n for i, n in enumerate(shape)), count


def _spread(xp, g, shape, axis):
    """``g`` broadcast back over the reduced axes."""
    return xp.broadcast_to(xp.reshape(g, _kept(shape, axis)[0]), shape)


@op
def sum(xp, x, /, axis=None, *, dtype=None, keepdims=False):
    """Sum of the elements; of none it is 0. ``dtype`` is the accumulator's and result's."""
    return xp.sum(x, axis=axis, dtype=dtype, keepdims=keepdims)


sum.vjp(x=lambda xp, g, x_shape, axis: _spread(xp, g, x_shape, axis))


@op
def mean(xp, x, /, axis=None, *, keepdims=False):
    """Mean of the elements, floating; of none it is nan."""
    return xp.mean(x, axis=axis, keepdims=keepdims)


def _mean_vjp(xp, g, x_shape, axis):
    _, count = _kept(x_shape, axis)
    return _spread(xp, g / count if count else g, x_shape, axis)


mean.vjp(x=_mean_vjp)


def _freedom(shape, axis, correction):
    freedom = _kept(shape, axis)[1] - correction
    return freedom if freedom > 0 else 0


@op
def var(xp, x, /, axis=None, *, correction=0.0, keepdims=False):
    """Variance of the elements: squared deviations over ``count - correction``.

    Where that is not positive they are divided by 0, as in PyTorch: one element with
    ``correction=1`` gives nan.
    """
    deviation = x - xp.mean(x, axis=axis, keepdims=True)
    total = xp.sum(deviation * deviation, axis=axis, keepdims=keepdims)
    return total / _freedom(x.shape, axis, correction)


def _var_vjp(xp, g, x, axis, correction):
    deviation = x - xp.mean(x, axis=axis, keepdims=True)
    return _spread(xp, 2 * g / _freedom(x.shape, axis, correction), x.shape, axis) * deviation


var.vjp(x=_var_vjp)


@op(discards=True)
def max(xp, x, /, axis=None, *, keepdims=False):
    """Maximum of the elements; a tie shares its gradient evenly. Of none it raises."""
    return xp.max(x, axis=axis, keepdims=keepdims)


@op(discards=True)
def min(xp, x, /, axis=None, *, keepdims=False):
    """Minimum of the elements; a tie shares its gradient evenly. Of none it raises."""
    return xp.min(x, axis=axis, keepdims=keepdims)


def _extremum_vjp(xp, g, x, out, axis):
    kept, _ = _kept(x.shape, axis)
    hit = x == xp.reshape(out, kept)
    ties = xp.sum(xp.astype(hit, g.dtype), axis=axis, keepdims=True)
    return xp.where(hit, xp.reshape(g, kept) / ties, 0.0)


max.vjp(x=_extremum_vjp)
min.vjp(x=_extremum_vjp)


@op
def logsumexp(xp, x, /, axis=None, *, keepdims=False):
    """``log(sum(exp(x)))`` without overflow. Of no elements it raises.

    The gradient is ``softmax(x)``. Where the result is infinite, an element equal
    to it gets the whole gradient if it is inf, and none if it is -inf.
    """
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    total = xp.sum(xp.exp(x - top), axis=axis, keepdims=True)
    return xp.reshape(xp.log(total) + top, _result_shape(x.shape, axis, keepdims))


def _result_shape(shape, axis, keepdims):
    kept, _ = _kept(shape, axis)
    axes = _axes(axis, len(shape))
    return kept if keepdims else tuple(n for i, n in enumerate(shape) if i not in axes)


def _logsumexp_vjp(xp, g, x, out, axis):
    kept, _ = _kept(x.shape, axis)
    out = xp.reshape(out, kept)
    # inf - inf would be nan.
    weight = xp.exp(xp.where(x == out, 0.0, x - out))
    return xp.reshape(g, kept) * xp.where(x == -float("inf"), 0.0, weight)


logsumexp.vjp(x=_logsumexp_vjp)


@op(differentiable=False)
def argmax(xp, x, /, axis=None, *, keepdims=False):
    """Index of the first maximum, into the flattened array where ``axis`` is None."""
    return xp.argmax(x, axis=axis, keepdims=keepdims)


@op(differentiable=False)
def argmin(xp, x, /, axis=None, *, keepdims=False):
    """Index of the first minimum, into the flattened array where ``axis`` is None."""
    return xp.argmin(x, axis=axis, keepdims=keepdims)


@op(differentiable=False)
def all(xp, x, /, axis=None, *, keepdims=False):
    """Whether all elements are true."""
    return xp.all(x, axis=axis, keepdims=keepdims)


@op(differentiable=False)
def any(xp, x, /, axis=None, *, keepdims=False):
    """Whether any element is true."""
    return xp.any(x, axis=axis, keepdims=keepdims)
