"""Exponentials, logarithms, trigonometric and hyperbolic functions, elementwise.

All but `atan2` and `logaddexp` take complex numbers too. On a branch cut the value
and the gradient are those of the side that the sign of a zero tells.
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

    Where an input is infinite it gets, as in `logsumexp`, the whole gradient if it
    is inf and none if it is -inf.
    """
    return xp.logaddexp(x1, x2)


def _logaddexp_vjp(xp, g, x, out):
    # An infinite result less itself would be nan.
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
    """Elementwise arcsine; the gradient at -1 and 1 is infinite, and nan beyond."""
    return xp.asin(x)


asin.vjp(x=lambda xp, g, x: g / _sqrt_1_minus_square(xp, x))


@elementwise
def acos(xp, x):
    """Elementwise arccosine; the gradient at -1 and 1 is infinite, and nan beyond."""
    return xp.acos(x)


acos.vjp(x=lambda xp, g, x: -g / _sqrt_1_minus_square(xp, x))


def _sqrt_1_minus_square(xp, x):
    # In factors, since 1 - x * x loses digits near -1 and 1.
    if xp.isdtype(x.dtype, "real floating"):
        return xp.sqrt((1 - x) * (1 + x))
    # A difference from x keeps the sign of an imaginary 0, which tells the side of a branch cut.
    return xp.sqrt(-(x - 1) * (x - -1))


@elementwise
def atan(xp, x):
    """Elementwise arctangent."""
    return xp.atan(x)


atan.vjp(x=lambda xp, g, x: g / (1 + x * x))


@elementwise
def atan2(xp, x1, x2):
    """Elementwise angle of the point with ordinate ``x1`` and abscissa ``x2``; real numbers.

    In [-pi, pi]. The gradients where both are 0 are 0.
    """
    return xp.atan2(x1, x2)


def _over_square_of_distance(xp, x, other):
    # Squares of what is at most 1 do not overflow, and take less time than hypot.
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


asinh.vjp(x=lambda xp, g, x: g / xp.sqrt(x * x - -1))  # less -1: as in `_sqrt_1_minus_square`


@elementwise
def acosh(xp, x):
    """Elementwise inverse hyperbolic cosine; the gradient at 1 is infinite, and nan below."""
    return xp.acosh(x)


acosh.vjp(x=lambda xp, g, x: g / (xp.sqrt(x - 1) * xp.sqrt(x - -1)))


@elementwise
def atanh(xp, x):
    """Elementwise inverse hyperbolic tangent; infinite at -1 and 1, as is its gradient."""
    return xp.atanh(x)


atanh.vjp(x=lambda xp, g, x: g / ((1 - x) * (1 + x)))
