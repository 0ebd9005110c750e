"""Exponentials, logarithms, trigonometric and hyperbolic functions, elementwise.

All except `atan2` and `logaddexp` accept complex numbers too. On a branch cut, the sign of the
zero decides which side's value and gradient apply.
"""

import math

from ..autograd.operation import elementwise

# Exponentials and logarithms


@elementwise
def exp(xp, x):
    """Elementwise exponential."""
    return xp.exp(x)


exp.vjp(x=lambda xp, g, out: g * out)


@elementwise
def expm1(xp, x):
    """Elementwise ``exp(x) - 1``, precise near 0."""
    return xp.expm1(x)


expm1.vjp(x=lambda xp, g, out: g * (out + 1))


@elementwise
def log(xp, x):
    """Elementwise natural logarithm; -inf at 0, nan below."""
    return xp.log(x)


log.vjp(x=lambda xp, g, x: g / x)


@elementwise
def log1p(xp, x):
    """Elementwise ``log(1 + x)``, precise near 0; -inf at -1, nan below."""
    return xp.log1p(x)


log1p.vjp(x=lambda xp, g, x: g / (1 + x))


@elementwise
def log2(xp, x):
    """Elementwise logarithm to the base 2; -inf at 0, nan below."""
    return xp.log2(x)


log2.vjp(x=lambda xp, g, x: g / (x * math.log(2)))


@elementwise
def log10(xp, x):
    """Elementwise logarithm to the base 10; -inf at 0, nan below."""
    return xp.log10(x)


log10.vjp(x=lambda xp, g, x: g / (x * math.log(10)))


@elementwise
def logaddexp(xp, x1, x2):
    """Elementwise ``log(exp(x1) + exp(x2))`` of real numbers, without overflow.

    As in `logsumexp`, an infinite input gets the whole gradient if it is inf, and none if it is
    -inf.
    """
    return xp.logaddexp(x1, x2)


def _logaddexp_vjp(xp, g, x, out):
    # inf - inf would be nan.
    return g * xp.exp(xp.where(xp.isfinite(x), x - out, xp.minimum(x, 0.0)))


logaddexp.vjp(
    x1=lambda xp, g, x1, out: _logaddexp_vjp(xp, g, x1, out),
    x2=lambda xp, g, x2, out: _logaddexp_vjp(xp, g, x2, out),
)


# Trigonometric functions; angles are in radians


@elementwise
def sin(xp, x):
    """Elementwise sine."""
    return xp.sin(x)


sin.vjp(x=lambda xp, g, x: g * xp.cos(x))


@elementwise
def cos(xp, x):
    """Elementwise cosine."""
    return xp.cos(x)


cos.vjp(x=lambda xp, g, x: -g * xp.sin(x))


@elementwise
def tan(xp, x):
    """Elementwise tangent."""
    return xp.tan(x)


tan.vjp(x=lambda xp, g, out: g * (1 + out * out))


@elementwise
def asin(xp, x):
    """Elementwise arcsine; the gradient is infinite at -1 and 1, and nan beyond."""
    return xp.asin(x)


asin.vjp(x=lambda xp, g, x: g / _sqrt_1_minus_square(xp, x))


@elementwise
def acos(xp, x):
    """Elementwise arccosine; the gradient is infinite at -1 and 1, and nan beyond."""
    return xp.acos(x)


acos.vjp(x=lambda xp, g, x: -g / _sqrt_1_minus_square(xp, x))


def _sqrt_1_minus_square(xp, x):
    # Factored, since 1 - x * x loses digits near -1 and 1.
    if xp.isdtype(x.dtype, "real floating"):
        return xp.sqrt((1 - x) * (1 + x))
    # x - 1 keeps the sign of an imaginary 0, as 1 - x does not; it decides the side of the cut.
    return xp.sqrt(-(x - 1) * (x - -1))


@elementwise
def atan(xp, x):
    """Elementwise arctangent."""
    return xp.atan(x)


atan.vjp(x=lambda xp, g, x: g / (1 + x * x))


@elementwise
def atan2(xp, x1, x2):
    """Elementwise angle, in [-pi, pi], of the point (``x2``, ``x1``); for real numbers.

    Where both inputs are 0 the gradients are 0.
    """
    return xp.atan2(x1, x2)


def _over_square_of_distance(xp, x, other):
    # After division by the larger one, squares do not overflow; this is faster than hypot.
    largest = xp.maximum(abs(x), abs(other))
    x, other = x / largest, other / largest
    return xp.where(largest != 0, x / ((x * x + other * other) * largest), 0.0)


atan2.vjp(
    x1=lambda xp, g, x1, x2: g * _over_square_of_distance(xp, x2, x1),
    x2=lambda xp, g, x1, x2: -g * _over_square_of_distance(xp, x1, x2),
)


# Hyperbolic functions


@elementwise
def sinh(xp, x):
    """Elementwise hyperbolic sine."""
    return xp.sinh(x)


sinh.vjp(x=lambda xp, g, x: g * xp.cosh(x))


@elementwise
def cosh(xp, x):
    """Elementwise hyperbolic cosine."""
    return xp.cosh(x)


cosh.vjp(x=lambda xp, g, x: g * xp.sinh(x))


@elementwise
def tanh(xp, x):
    """Elementwise hyperbolic tangent."""
    return xp.tanh(x)


tanh.vjp(x=lambda xp, g, out: g * (1 - out * out))


@elementwise
def asinh(xp, x):
    """Elementwise inverse hyperbolic sine."""
    return xp.asinh(x)


asinh.vjp(x=lambda xp, g, x: g / xp.sqrt(x * x - -1))  # not + 1: see `_sqrt_1_minus_square`


@elementwise
def acosh(xp, x):
    """Elementwise inverse hyperbolic cosine; the gradient is infinite at 1, and nan below."""
    return xp.acosh(x)


acosh.vjp(x=lambda xp, g, x: g / (xp.sqrt(x - 1) * xp.sqrt(x - -1)))


@elementwise
def atanh(xp, x):
    """Elementwise inverse hyperbolic tangent; infinite at -1 and 1, as is its gradient."""
    return xp.atanh(x)


atanh.vjp(x=lambda xp, g, x: g / ((1 - x) * (1 + x)))
