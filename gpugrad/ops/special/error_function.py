"""The error function and the normal distribution."""

import math

from .common import polynomial, special_function

SQRT_PI = math.sqrt(math.pi)
SQRT_TAU = math.sqrt(2 * math.pi)


@special_function(x=lambda xp, g, x: g * (2 / SQRT_PI * xp.exp(-x * x)))
def erf(x):
    """Error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to ``x``.

    Elementwise, ``(...) -> (...)``, with the gradient ``2 / sqrt(pi) * exp(-x**2)``. It rises from
    -1 to 1.
    """


@special_function(x=lambda xp, g, x: g * (-2 / SQRT_PI * xp.exp(-x * x)))
def erfc(x):
    """Complementary error function, ``1 - erf(x)`` without loss of digits.

    Elementwise, ``(...) -> (...)``, with the gradient ``-2 / sqrt(pi) * exp(-x**2)``. It falls from
    2 to 0.
    """


# 1 - sqrt(pi) * x * erfcx(x) ~ s/2 - 3/4 s**2 + 15/8 s**3 - ... with s = 1 / x**2. These are
# coefficients of powers of 100 s, since float16 cannot hold the later coefficients for s.
_TAIL = [0.0] + [-math.prod(range(1, 2 * k, 2)) * (-0.005) ** k for k in range(1, 14)]


def _erfcx_x(xp, g, x, out):
    # In the far tail, where log_ndtr needs this for its second derivative, the difference cancels.
    far = x > 10
    tail = polynomial(_TAIL, (10 / xp.where(far, x, math.inf)) ** 2)
    return g * xp.where(far, -2 / SQRT_PI * tail, 2 * x * out - 2 / SQRT_PI)


@special_function(x=_erfcx_x)
def erfcx(x):
    """Scaled complementary error function, ``exp(x**2) * erfc(x)``.

    Elementwise, ``(...) -> (...)``, with the gradient ``2 * x * erfcx(x) - 2 / sqrt(pi)``. It does
    not underflow where ``x`` is large, as `erfc` does.
    """


@special_function(x=lambda xp, g, out: g * (SQRT_PI / 2 * xp.exp(out * out)))
def erfinv(x):
    """Inverse of `erf`; value and slope are infinite at -1 and 1.

    Elementwise, ``(...) -> (...)``, for ``x`` from -1 to 1; nan beyond. The gradient is
    ``sqrt(pi) / 2 * exp(erfinv(x)**2)``.
    """


@special_function(x=lambda xp, g, out: g * (-SQRT_PI / 2 * xp.exp(out * out)))
def erfcinv(x):
    """Inverse of `erfc`; value and slope are infinite at 0 and 2.

    Elementwise, ``(...) -> (...)``, for ``x`` from 0 to 2; nan beyond. The gradient is
    ``-sqrt(pi) / 2 * exp(erfcinv(x)**2)``.
    """


@special_function(x=lambda xp, g, x: g * (xp.exp(-0.5 * (x * x)) / SQRT_TAU))
def ndtr(x):
    """Distribution function of the standard normal distribution.

    The probability of at most ``x``, ``(1 + erf(x / sqrt(2))) / 2``. Elementwise,
    ``(...) -> (...)``, with the density ``exp(-x**2 / 2) / sqrt(2 * pi)`` as gradient.
    """


@special_function(y=lambda xp, g, out: g * (SQRT_TAU * xp.exp(0.5 * (out * out))))
def ndtri(y):
    """Inverse of `ndtr`, the normal quantile; value and slope are infinite at 0 and 1.

    Elementwise, ``(...) -> (...)``, for ``y`` from 0 to 1; nan beyond. The gradient is
    ``sqrt(2 * pi) * exp(ndtri(y)**2 / 2)``.
    """


@special_function(
    # The density divided by ndtr(x), without the 0 / 0 in the tail.
    x=lambda xp, g, x: g * (math.sqrt(2 / math.pi) / xp.special.erfcx(-math.sqrt(0.5) * x))
)
def log_ndtr(x):
    """Logarithm of `ndtr`; value and derivatives keep their digits far into the tail.

    Elementwise, ``(...) -> (...)``, with the gradient
    ``exp(-x**2 / 2) / (sqrt(2 * pi) * ndtr(x))``.
    """
