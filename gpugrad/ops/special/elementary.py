"""Powers and trigonometric functions: for angles in degrees, or without loss of digits near 0."""

import math

from .common import at_least_float32, near_zero, polynomial, special_function

DEGREE = math.pi / 180


@special_function(x=lambda xp, g, out: g * (math.log(2) * out))
def exp2(x):
    """``2 ** x``.

    Elementwise, ``(...) -> (...)``, with the gradient ``log(2) * 2**x``.
    """


@special_function(x=lambda xp, g, out: g * (math.log(10) * out))
def exp10(x):
    """``10 ** x``.

    Elementwise, ``(...) -> (...)``, with the gradient ``log(10) * 10**x``.
    """


@special_function(x=lambda xp, g, out: g / (3 * out * out))
def cbrt(x):
    """Real cube root; its slope at 0 is infinite.

    Elementwise, ``(...) -> (...)``, with the gradient ``1 / (3 * cbrt(x)**2)``. The root of a
    negative number is negative.
    """


_EXPREL_SLOPE = [1 / (math.factorial(k) * (k + 2)) for k in range(14)]


def _exprel_slope(xp, x, out):
    return near_zero(
        xp, x, 0.3, lambda x: polynomial(_EXPREL_SLOPE, x), lambda x: (xp.exp(x) - out) / x
    )


@special_function(x=lambda xp, g, x, out: g * _exprel_slope(xp, x, out))
def exprel(x):
    """``(exp(x) - 1) / x``, which is 1 at 0.

    Elementwise, ``(...) -> (...)``, without loss of digits near 0. The gradient is
    ``(exp(x) - exprel(x)) / x``, which is 1/2 at 0.
    """


def _boxcox_lmbda(xp, g, log, x, lmbda, out):
    x, lmbda = at_least_float32(xp, x, lmbda)
    log_x = log(x)
    # (x**lmbda * log(x) - out) / lmbda; where u = lmbda * log(x) is small, log(x)**2 * exprel'(u)
    near = xp.abs(lmbda * log_x) < 1
    small, large = xp.where(near, log_x, 0.0), xp.where(near, 0.0, log_x)
    u = lmbda * small
    power = xp.where(large == -math.inf, 0.0, large * xp.exp(lmbda * large))
    slope = xp.where(
        near,
        small * small * _exprel_slope(xp, u, xp.special.exprel(u)),
        (power - out) / xp.where(near, 1.0, lmbda),
    )
    return g * slope


@special_function(
    x=lambda xp, g, x, lmbda: g * x ** (lmbda - 1),
    lmbda=lambda xp, g, x, lmbda, out: _boxcox_lmbda(xp, g, xp.log, x, lmbda, out),
)
def boxcox(x, lmbda):
    """Box-Cox transform ``(x**lmbda - 1) / lmbda``, or ``log(x)`` where ``lmbda`` is 0.

    The inputs broadcast. The gradients are ``x**(lmbda - 1)`` to ``x`` and
    ``(x**lmbda * log(x) - boxcox(x, lmbda)) / lmbda`` to ``lmbda``, which is ``log(x)**2 / 2`` at
    0. It is nan where ``x`` is negative.
    """


@special_function(
    x=lambda xp, g, x, lmbda: g * (1 + x) ** (lmbda - 1),
    lmbda=lambda xp, g, x, lmbda, out: _boxcox_lmbda(xp, g, xp.log1p, x, lmbda, out),
)
def boxcox1p(x, lmbda):
    """``boxcox(1 + x, lmbda)``, without loss of digits near 0.

    The inputs broadcast. The gradient to ``x`` is ``(1 + x)**(lmbda - 1)``, and that to ``lmbda``
    the one of `boxcox` at ``1 + x``. It is nan where ``x`` is below -1.
    """


_LOG1P_RATIO_SLOPE = [(-1) ** (k + 1) * (k + 1) / (k + 2) for k in range(18)]


def _inv_boxcox_lmbda(xp, g, y, lmbda, power):
    # power = exp(y * f(lmbda * y)) with f(u) = log1p(u) / u
    def series(u):
        return polynomial(_LOG1P_RATIO_SLOPE, u)

    def formula(u):
        return (1 / (1 + u) - xp.log1p(u) / u) / u

    slope = near_zero(xp, lmbda * y, 0.1, series, formula)
    return g * power * (y * y * slope)


@special_function(
    y=lambda xp, g, y, lmbda, out: g * out / (1 + lmbda * y),
    lmbda=lambda xp, g, y, lmbda, out: _inv_boxcox_lmbda(xp, g, y, lmbda, out),
)
def inv_boxcox(y, lmbda):
    """Inverse of `boxcox`: ``(1 + lmbda * y)**(1 / lmbda)``, or ``exp(y)`` where ``lmbda`` is 0.

    The inputs broadcast. The gradient to ``y`` is the result divided by ``1 + lmbda * y``. The
    result is nan where this is negative.
    """


@special_function(
    y=lambda xp, g, y, lmbda, out: g * (1 + out) / (1 + lmbda * y),
    lmbda=lambda xp, g, y, lmbda, out: _inv_boxcox_lmbda(xp, g, y, lmbda, 1 + out),
)
def inv_boxcox1p(y, lmbda):
    """Inverse of `boxcox1p`: ``inv_boxcox(y, lmbda) - 1``, without loss of digits near 0.

    The inputs broadcast. The gradients are those of `inv_boxcox`, whose result is greater by 1.
    """


@special_function(x=lambda xp, g, x: g * (DEGREE * xp.special.cosdg(x)))
def sindg(x):
    """Sine of an angle in degrees.

    Elementwise, ``(...) -> (...)``, exact at multiples of 90 degrees. The gradient is
    ``cosdg(x) * pi / 180``.
    """


@special_function(x=lambda xp, g, x: g * (-DEGREE * xp.special.sindg(x)))
def cosdg(x):
    """Cosine of an angle in degrees.

    Elementwise, ``(...) -> (...)``, exact at multiples of 90 degrees. The gradient is
    ``-sindg(x) * pi / 180``.
    """


@special_function(x=lambda xp, g, out: g * (DEGREE * (1 + out * out)))
def tandg(x):
    """Tangent of an angle in degrees.

    Elementwise, ``(...) -> (...)``; inf at 90 degrees. The gradient is
    ``(1 + tandg(x)**2) * pi / 180``.
    """


@special_function(x=lambda xp, g, out: g * (-DEGREE * (1 + out * out)))
def cotdg(x):
    """Cotangent of an angle in degrees.

    Elementwise, ``(...) -> (...)``; inf at 0. The gradient is ``-(1 + cotdg(x)**2) * pi / 180``.
    """


@special_function(
    d=lambda xp, g: g * DEGREE,
    m=lambda xp, g: g * (DEGREE / 60),
    s=lambda xp, g: g * (DEGREE / 3600),
)
def radian(d, m, s):
    """The angle of ``d`` degrees, ``m`` minutes and ``s`` seconds, in radians.

    The inputs broadcast: ``(d + m / 60 + s / 3600) * pi / 180``. All three have gradients, which
    are these factors.
    """


@special_function(x=lambda xp, g, x: -g * xp.sin(x))
def cosm1(x):
    """``cos(x) - 1``, without loss of digits near 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``-sin(x)``.
    """


_SINC_SLOPE = [
    (-1) ** (k + 1) * math.pi ** (2 * k + 2) * (2 * k + 2) / math.factorial(2 * k + 3)
    for k in range(13)
]


def _sinc_x(xp, g, x, out):
    def series(x):
        return x * polynomial(_SINC_SLOPE, x * x)

    return g * near_zero(xp, x, 0.5, series, lambda x: (xp.cos(math.pi * x) - out) / x)


@special_function(x=_sinc_x)
def sinc(x):
    """``sin(pi * x) / (pi * x)``, which is 1 at 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``(cos(pi * x) - sinc(x)) / x``, which is 0
    at 0.
    """
