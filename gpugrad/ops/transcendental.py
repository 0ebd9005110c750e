"""Exponentials, logarithms, trigonometric and hyperbolic functions, elementwise.

All except `atan2` and `logaddexp` accept complex numbers too. On a branch cut, the sign of the
zero decides which side's value and gradient apply.
"""

import math

from ..autograd import call as calls
from .by_name import standard_function

# Exponentials and logarithms


@standard_function(x=lambda xp, g, out: g * out)
def exp(x):
    """Elementwise exponential."""


@standard_function(x=lambda xp, g, out: g * (out + 1))
def expm1(x):
    """Elementwise ``exp(x) - 1``, precise near 0."""


@standard_function(x=lambda xp, g, x: g / x)
def log(x):
    """Elementwise natural logarithm; -inf at 0, nan below."""


@standard_function(x=lambda xp, g, x: g / (1 + x))
def log1p(x):
    """Elementwise ``log(1 + x)``, precise near 0; -inf at -1, nan below."""


@standard_function(x=lambda xp, g, x: g / (x * math.log(2)))
def log2(x):
    """Elementwise logarithm to the base 2; -inf at 0, nan below."""


@standard_function(x=lambda xp, g, x: g / (x * math.log(10)))
def log10(x):
    """Elementwise logarithm to the base 10; -inf at 0, nan below."""


def _logaddexp_vjp(xp, g, x, other):
    # Not exp(x - out), since the rounding error of a large result is large.
    difference = other - x
    if xp is calls.namespace:
        # No exponent is positive, so that derivatives do not overflow. With the absolute value of
        # the difference, whose slope at 0 is 0, they would be wrong for equal numbers.
        is_less = difference > 0
        e = xp.exp(xp.where(is_less, -difference, difference))
        share = xp.where(is_less, e, 1.0) / (1 + e)
    else:
        share = 1 / (1 + xp.exp(difference))
    return g * xp.where(xp.isfinite(x), share, xp.exp(xp.minimum(x, 0.0)))  # inf - inf is nan


@standard_function(
    x1=lambda xp, g, x1, x2: _logaddexp_vjp(xp, g, x1, x2),
    x2=lambda xp, g, x1, x2: _logaddexp_vjp(xp, g, x2, x1),
)
def logaddexp(x1, x2):
    """Elementwise ``log(exp(x1) + exp(x2))`` of real numbers, without overflow.

    As in `logsumexp`, an infinite input gets the whole gradient if it is inf, and none if it is
    -inf.
    """


# Trigonometric functions; angles are in radians


@standard_function(x=lambda xp, g, x: g * xp.cos(x))
def sin(x):
    """Elementwise sine."""


@standard_function(x=lambda xp, g, x: -g * xp.sin(x))
def cos(x):
    """Elementwise cosine."""


@standard_function(x=lambda xp, g, out: g * (1 + out * out))
def tan(x):
    """Elementwise tangent."""


@standard_function(x=lambda xp, g, x: g / _sqrt_1_minus_square(xp, x))
def asin(x):
    """Elementwise arcsine; the gradient is infinite at -1 and 1, and nan beyond.

    The second derivative is nan at -1 and 1.
    """


@standard_function(x=lambda xp, g, x: -g / _sqrt_1_minus_square(xp, x))
def acos(x):
    """Elementwise arccosine; the gradient is infinite at -1 and 1, and nan beyond.

    The second derivative is nan at -1 and 1.
    """


def _sqrt_1_minus_square(xp, x):
    # Factored, since 1 - x * x loses digits near -1 and 1.
    if xp.isdtype(x.dtype, "real floating"):
        return xp.sqrt((1 - x) * (1 + x))
    # x - 1 keeps the sign of an imaginary 0, as 1 - x does not; it decides the side of the cut.
    return xp.sqrt(-(x - 1) * (x - -1))


@standard_function(x=lambda xp, g, x: g / (1 + x * x))
def atan(x):
    """Elementwise arctangent."""


def _over_square_of_distance(xp, x, other):
    # After division by the larger one, squares do not overflow; this is faster than hypot.
    largest = xp.maximum(abs(x), abs(other))
    x, other = x / largest, other / largest
    return xp.where(largest != 0, x / ((x * x + other * other) * largest), 0.0)


@standard_function(
    x1=lambda xp, g, x1, x2: g * _over_square_of_distance(xp, x2, x1),
    x2=lambda xp, g, x1, x2: -g * _over_square_of_distance(xp, x1, x2),
)
def atan2(x1, x2):
    """Elementwise angle, in [-pi, pi], of the point (``x2``, ``x1``); for real numbers.

    Where both inputs are 0 the gradients are 0.
    """


# Hyperbolic functions


@standard_function(x=lambda xp, g, x: g * xp.cosh(x))
def sinh(x):
    """Elementwise hyperbolic sine."""


@standard_function(x=lambda xp, g, x: g * xp.sinh(x))
def cosh(x):
    """Elementwise hyperbolic cosine."""


@standard_function(x=lambda xp, g, out: g * (1 - out * out))
def tanh(x):
    """Elementwise hyperbolic tangent."""


# Not + 1: see `_sqrt_1_minus_square`.
@standard_function(x=lambda xp, g, x: g / xp.sqrt(x * x - -1))
def asinh(x):
    """Elementwise inverse hyperbolic sine."""


@standard_function(x=lambda xp, g, x: g / (xp.sqrt(x - 1) * xp.sqrt(x - -1)))
def acosh(x):
    """Elementwise inverse hyperbolic cosine; the gradient is infinite at 1, and nan below."""


@standard_function(x=lambda xp, g, x: g / ((1 - x) * (1 + x)))
def atanh(x):
    """Elementwise inverse hyperbolic tangent; infinite at -1 and 1, as is its gradient."""
