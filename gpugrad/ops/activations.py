"""Smooth and piecewise linear activations, elementwise and of real numbers.

Each keeps only its input for backward. All have PyTorch's values and, at kinks, its gradients;
where PyTorch gives nan for an infinite input, most of them give the limit.
"""

import math

from .._arguments import one_of, require
from ..autograd.operation import elementwise
from .neural import largest_exponent, logistic


@elementwise
def leaky_relu(xp, x, /, negative_slope=0.01):
    """``x`` where it is positive, else ``negative_slope * x``, which is also the slope at 0."""
    if 0 < negative_slope <= 1:
        return xp.maximum(x, negative_slope * x)
    return xp.where(x > 0, x, negative_slope * x)


leaky_relu.vjp(x=lambda xp, g, x, negative_slope: xp.where(x > 0, g, g * negative_slope))


@elementwise
def elu(xp, x, /, alpha=1.0, *, scale=1.0, input_scale=1.0):
    """``scale * x`` where ``x`` is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``.

    At 0 the slope is that of the second piece. With the defaults of ``scale`` and
    ``input_scale`` this is the exponential linear unit of Clevert et al. (2016); the functions
    `selu` and `celu` in `gpugrad.nn.functional` choose others.
    """
    # The sum of both pieces, one of which is 0.
    return scale * (xp.maximum(x, 0) + alpha * xp.expm1(input_scale * xp.minimum(x, 0)))


def _elu_vjp(xp, g, x, alpha, scale, input_scale):
    slope = xp.exp(input_scale * xp.minimum(x, 0))
    if alpha * input_scale != 1:
        slope = xp.where(x > 0, 1.0, alpha * input_scale * slope)
    return g * (scale * slope)


elu.vjp(x=_elu_vjp)


# The results below are products of x and a factor that tends to 0 or 1. The factor has reached its
# limit, in every dtype, far inside the bounds to which x is clipped; so inf * 0 does not occur.


@elementwise
def gelu(xp, x, /, approximate="none"):
    """Gaussian error linear unit: ``x`` times the standard normal distribution function of ``x``.

    approximate: ``"none"``, or ``"tanh"`` for
        ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``.

    Elementwise, ``(...) -> (...)``. From Hendrycks and Gimpel (2016). Far from 0 no digits are
    lost. Raises ValueError for another ``approximate``.
    """
    one_of("approximate", approximate, ("none", "tanh"))
    bounded = xp.maximum(x, -40.0)
    if approximate == "tanh":
        return bounded * logistic(xp, _gelu_argument(xp.minimum(bounded, 40.0)))
    return bounded * (0.5 * xp.special.erfc(-math.sqrt(0.5) * x))


def _gelu_argument(x):
    # (1 + tanh(z)) / 2 is the logistic function of 2 * z, which keeps its digits far below 0.
    return x * (_GELU_LINEAR + _GELU_CUBIC * x * x)


_GELU_LINEAR = 2 * math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715 * _GELU_LINEAR


def _gelu_vjp(xp, g, x, approximate):
    x = xp.clip(x, -40.0, 40.0)
    if approximate == "tanh":
        z = _gelu_argument(x)
        share = logistic(xp, z)
        slope = _GELU_LINEAR + (3 * _GELU_CUBIC) * x * x
        return g * share * (1 + x * slope * logistic(xp, -z))
    density = xp.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return g * (0.5 * xp.special.erfc(-math.sqrt(0.5) * x) + x * density)


gelu.vjp(x=_gelu_vjp)


@elementwise
def silu(xp, x):
    """``x * sigmoid(x)``, also called swish."""
    out = logistic(xp, x)
    out *= xp.maximum(x, -1000.0)
    return out


def _silu_vjp(xp, g, x):
    # share * (1 + x * (1 - share)) with share = e / (1 + e). Above the bound it is 1.
    x = xp.clip(x, -1000.0, largest_exponent(xp, x.dtype))
    e = xp.exp(x)
    above = 1 + e
    return g * (e * ((above + x) / above) / above)


silu.vjp(x=_silu_vjp)


@elementwise
def mish(xp, x):
    """``x * tanh(log(1 + exp(x)))``, from Misra (2019)."""
    return xp.maximum(x, -1000.0) * xp.tanh(_log_1_plus_exp(xp, x))


def _mish_vjp(xp, g, x):
    x = xp.clip(x, -1000.0, 1000.0)
    t = xp.tanh(_log_1_plus_exp(xp, x))
    return g * (t + x * (1 - t * t) * logistic(xp, x))


mish.vjp(x=_mish_vjp)


@elementwise
def softplus(xp, x, /, beta=1.0, threshold=20.0):
    """``log(1 + exp(beta * x)) / beta`` elementwise, ``(...) -> (...)``, without overflow.

    Where ``beta * x`` is above ``threshold`` the result is ``x``, and the slope 1.
    """
    scaled = beta * x
    out = _log_1_plus_exp(xp, scaled) / beta
    return out if threshold == math.inf else xp.where(scaled > threshold, x, out)


def _log_1_plus_exp(xp, x):
    return xp.maximum(x, 0.0) + xp.log1p(xp.exp(-xp.abs(x)))


def _softplus_vjp(xp, g, x, beta, threshold):
    scaled = beta * x
    slope = logistic(xp, scaled)
    return g * (slope if threshold == math.inf else xp.where(scaled > threshold, 1.0, slope))


softplus.vjp(x=_softplus_vjp)


@elementwise
def logsigmoid(xp, x):
    """``log(sigmoid(x))`` elementwise, ``(...) -> (...)``, without overflow."""
    return -_log_1_plus_exp(xp, -x)


logsigmoid.vjp(x=lambda xp, g, x: g * logistic(xp, -x))


@elementwise
def tanhshrink(xp, x):
    """``x - tanh(x)`` elementwise, ``(...) -> (...)``."""
    return x - xp.tanh(x)


tanhshrink.vjp(x=lambda xp, g, x: g * xp.square(xp.tanh(x)))


@elementwise
def softsign(xp, x):
    """``x / (1 + abs(x))`` elementwise, ``(...) -> (...)``."""
    return x / (1 + xp.abs(x))


# Divided twice, because the square would overflow.
softsign.vjp(x=lambda xp, g, x: g / (1 + xp.abs(x)) / (1 + xp.abs(x)))


@elementwise(discards=True)
def hardtanh(xp, x, /, min_val=-1.0, max_val=1.0):
    """``x`` limited to ``[min_val, max_val]``; unlike that of `clip`, the slope at a bound is 0."""
    return xp.clip(x, min_val, max_val)


hardtanh.vjp(x=lambda xp, g, x, min_val, max_val: xp.where((x > min_val) & (x < max_val), g, 0.0))


@elementwise(discards=True)
def hardsigmoid(xp, x):
    """``clip(x + 3, 0, 6) / 6``; the slope at -3 and at 3 is 0."""
    return xp.clip(x, -3.0, 3.0) * (1 / 6) + 0.5


hardsigmoid.vjp(x=lambda xp, g, x: xp.where((x > -3) & (x < 3), g * (1 / 6), 0.0))


@elementwise(discards=True)
def hardswish(xp, x):
    """``x * clip(x + 3, 0, 6) / 6``; the slope is 0 at -3 and 1 at 3."""
    out = xp.clip(x, -3.0, 3.0)
    out *= 1 / 6
    out += 0.5
    out *= xp.maximum(x, -3.0)
    return out


def _hardswish_vjp(xp, g, x):
    # The slope x / 3 + 0.5 is 1 at 1.5.
    return xp.where(x <= -3, 0.0, g * (xp.where(x >= 3, 1.5, x) / 3 + 0.5))


hardswish.vjp(x=_hardswish_vjp)


@elementwise(discards=True)
def hardshrink(xp, x, /, lambd=0.5):
    """``x`` where its magnitude is above ``lambd``, else 0; the slope at ``lambd`` is 0."""
    return xp.where(xp.abs(x) <= lambd, 0.0, x)


@elementwise(discards=True)
def softshrink(xp, x, /, lambd=0.5):
    """``x`` moved towards 0 by ``lambd``, or 0 where its magnitude is less; slope 0 at ``lambd``.

    Raises ValueError if ``lambd`` is negative.
    """
    require(lambd >= 0, "lambd must be at least 0", lambd)
    return x - xp.clip(x, -lambd, lambd)


for _call in (hardshrink, softshrink):
    _call.vjp(x=lambda xp, g, x, lambd: xp.where(xp.abs(x) <= lambd, 0.0, g))


@elementwise(discards=True)
def threshold(xp, x, /, threshold, value):
    """``x`` where it is above ``threshold``, else ``value``; the slope at the threshold is 0."""
    return xp.where(x <= threshold, value, x)


threshold.vjp(x=lambda xp, g, x, threshold: xp.where(x <= threshold, 0.0, g))
