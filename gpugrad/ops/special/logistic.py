"""Logistic functions, softmax, and the logarithm of a sum of exponentials."""

import math

from ..._batched import aligned, shifted
from ...autograd.operation import composite, elementwise, op
from .. import neural, reductions
from ..elementwise import where
from ..manipulation import squeeze
from .common import as_arrays, special_function


@composite
def expit(x, /):
    """Logistic function ``1 / (1 + exp(-x))``, the same as `gpugrad.sigmoid`.

    Elementwise, ``(...) -> (...)``, without overflow. The gradient is
    ``expit(x) * (1 - expit(x))``.
    """
    return neural.sigmoid(x)


@special_function(x=lambda xp, g, x: g / (x * (1 - x)))
def logit(x):
    """Inverse of `expit`, ``log(x / (1 - x))``; value and slope are infinite at 0 and 1.

    Elementwise, ``(...) -> (...)``, for ``x`` from 0 to 1; nan beyond. The gradient is
    ``1 / (x * (1 - x))``.
    """


@elementwise
def log_expit(xp, x):
    """Logarithm of `expit`, without overflow.

    Elementwise, ``(...) -> (...)``: ``-log(1 + exp(-x))``. The gradient is ``1 - expit(x)``. Raises
    TypeError for complex numbers.
    """
    if xp.isdtype(x.dtype, "complex floating"):
        raise TypeError("x must be real; a complex logarithm has many branches")
    # SciPy's function takes 3 to 30 times as long.
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))


log_expit.vjp(x=lambda xp, g, out: g * -xp.expm1(out))  # 1 - expit(x)


@composite
def softmax(x, axis=None):
    """``exp(x) / sum(exp(x))``, as `gpugrad.softmax`, but by default over all elements.

    ``(...) -> (...)``, without overflow. The results are positive and add up to 1 along ``axis``,
    an int, a tuple or None for all axes.
    """
    return neural.softmax(x, axis)


@composite
def log_softmax(x, axis=None):
    """``log(softmax(x))``, as `gpugrad.log_softmax`, but by default over all elements.

    ``(...) -> (...)``, without overflow and without loss of digits. ``axis`` is an int, a tuple or
    None for all axes.
    """
    return neural.log_softmax(x, axis)


@op
def _logsumexp(xp, a, b, /, axis):
    """``log(abs(t))`` and ``sign(t)`` for ``t = sum(b * exp(a))``; reduced axes have length 1."""
    a, b = xp.broadcast_arrays(*as_arrays(xp, a, b))
    used = xp.where(b == 0, -math.inf, a)
    top = xp.max(used, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    total = xp.sum(b * xp.exp(used - top), axis=axis, keepdims=True)
    return xp.log(xp.abs(total)) + top, xp.sign(total)


def _logsumexp_b(xp, g, a, b, out):
    a, _ = xp.broadcast_arrays(*as_arrays(xp, a, b))
    log, sign = out
    return g[0] * sign * xp.exp(xp.where(a == log, 0.0, a - log))  # inf - inf would be nan


def _logsumexp_a(xp, g, a, b, out):
    a, b = as_arrays(xp, a, b)
    return xp.where(b == 0, 0.0, b * _logsumexp_b(xp, g, a, b, out))


def _logsumexp_vmap(call, batched, a, b, axis):
    a, b = aligned(batched, (a, b))
    ndim = max(x.ndim for x, is_batched in zip((a, b), batched, strict=True) if is_batched) - 1
    return call(a, b, shifted(call.op, axis, ndim)) if ndim else NotImplemented


_logsumexp.vjp(a=_logsumexp_a, b=_logsumexp_b).vmap(_logsumexp_vmap)


@composite
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    """``log(sum(b * exp(a)))`` without overflow; the weights ``b`` are 1 by default.

    axis: None (all axes), an int or a tuple.
    b: broadcasts with ``a``; where ``b`` is 0, ``a`` may be inf.
    return_sign: whether to return the logarithm of the sum's absolute value, and the sum's sign.
        Otherwise the logarithm of a negative sum is nan.
    """
    if b is None and not return_sign:
        return reductions.logsumexp(a, axis, keepdims=keepdims)
    log, sign = _logsumexp(a, 1.0 if b is None else b, axis)
    if not keepdims:
        axes = tuple(range(log.ndim)) if axis is None else axis
        log, sign = squeeze(log, axes), squeeze(sign, axes)
    return (log, sign) if return_sign else where(sign < 0, math.nan, log)
