"""Bessel functions."""

import math

from .common import near_zero, polynomial, special_function


def _ratio(xp, x, out, coefficients, scale=None):
    """``out / x`` for an odd function; near 0, a series in ``x**2`` with these ``coefficients``.

    There, dividing by x would turn small errors of the function into large errors of the
    ratio's derivatives. The series is multiplied by ``scale(x)``, if given.
    """

    def series(x):
        total = polynomial(coefficients, x * x)
        return total if scale is None else scale(x) * total

    return near_zero(xp, x, 1.0, series, lambda x: out / x)


_J1 = [(-1) ** k / (2 * 4**k * math.factorial(k) * math.factorial(k + 1)) for k in range(11)]
_I1 = [abs(c) for c in _J1]


@special_function(x=lambda xp, g, x: -g * xp.special.j1(x))
def j0(x):
    """Bessel function of the first kind of order 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``-j1(x)``. It solves Bessel's equation
    ``x**2 * y'' + x * y' + x**2 * y = 0`` and is 1 at 0.
    """


@special_function(x=lambda xp, g, x, out: g * (xp.special.j0(x) - _ratio(xp, x, out, _J1)))
def j1(x):
    """Bessel function of the first kind of order 1.

    Elementwise, ``(...) -> (...)``, with the gradient ``j0(x) - j1(x) / x``, which is 1/2 at 0. It
    is the solution of ``x**2 * y'' + x * y' + (x**2 - 1) * y = 0`` that is finite at 0.
    """


@special_function(x=lambda xp, g, x: -g * xp.special.y1(x))
def y0(x):
    """Bessel function of the second kind of order 0; -inf at 0, nan below.

    Elementwise, ``(...) -> (...)``, with the gradient ``-y1(x)``, which is inf at 0. It is the
    solution of Bessel's equation that is infinite at 0; `j0` is the one that is finite.
    """


@special_function(x=lambda xp, g, x, out: g * (xp.special.y0(x) - out / x))
def y1(x):
    """Bessel function of the second kind of order 1; -inf at 0, nan below.

    Elementwise, ``(...) -> (...)``, with the gradient ``y0(x) - y1(x) / x``, which is nan at 0. It
    is the solution of Bessel's equation that is infinite at 0; `j1` is the one that is finite.
    """


@special_function(x=lambda xp, g, n, x, out: g * (xp.special.yn(n - 1, x) - n * out / x))
def yn(n, x):
    """Bessel function of the second kind of integer order ``n``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is ``yn(n - 1, x) - n / x * yn(n, x)``.
    At 0 the value is -inf, and below it is nan. `yv` takes any real order.
    """


@special_function(x=lambda xp, g, x: g * xp.special.i1(x))
def i0(x):
    """Modified Bessel function of the first kind of order 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``i1(x)``. It grows as
    ``exp(x) / sqrt(2 * pi * x)``; where it overflows, `i0e` does not.
    """


@special_function(x=lambda xp, g, x, out: g * (xp.special.i1e(x) - xp.sign(x) * out))
def i0e(x):
    """`i0` scaled by ``exp(-abs(x))``; the gradient at 0, a kink, is 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``i1e(x) - sign(x) * i0e(x)``.
    """


@special_function(x=lambda xp, g, x, out: g * (xp.special.i0(x) - _ratio(xp, x, out, _I1)))
def i1(x):
    """Modified Bessel function of the first kind of order 1.

    Elementwise, ``(...) -> (...)``, with the gradient ``i0(x) - i1(x) / x``, which is 1/2 at 0.
    Where it overflows, `i1e` does not.
    """


def _i1e_x(xp, g, x, out):
    ratio = _ratio(xp, x, out, _I1, lambda x: xp.exp(-xp.abs(x)))
    return g * (xp.special.i0e(x) - xp.sign(x) * out - ratio)


@special_function(x=_i1e_x)
def i1e(x):
    """`i1` scaled by ``exp(-abs(x))``.

    Elementwise, ``(...) -> (...)``, with the gradient ``i0e(x) - (sign(x) + 1 / x) * i1e(x)``,
    which is 1/2 at 0.
    """


@special_function(x=lambda xp, g, x: -g * xp.special.k1(x))
def k0(x):
    """Modified Bessel function of the second kind of order 0; inf at 0, nan below.

    Elementwise, ``(...) -> (...)``, with the gradient ``-k1(x)``, which is -inf at 0. Where it
    underflows, `k0e` does not.
    """


@special_function(x=lambda xp, g, x, out: g * (out - xp.special.k1e(x)))
def k0e(x):
    """`k0` scaled by ``exp(x)``.

    Elementwise, ``(...) -> (...)``, with the gradient ``k0e(x) - k1e(x)``. It is inf at 0 and nan
    below; the gradient is nan at 0.
    """


@special_function(x=lambda xp, g, x, out: -g * (xp.special.k0(x) + out / x))
def k1(x):
    """Modified Bessel function of the second kind of order 1; inf at 0, nan below.

    Elementwise, ``(...) -> (...)``, with the gradient ``-k0(x) - k1(x) / x``, which is -inf at 0.
    Where it underflows, `k1e` does not.
    """


@special_function(x=lambda xp, g, x, out: g * (out - xp.special.k0e(x) - out / x))
def k1e(x):
    """`k1` scaled by ``exp(x)``.

    Elementwise, ``(...) -> (...)``, with the gradient ``k1e(x) - k0e(x) - k1e(x) / x``. It is inf
    at 0 and nan below; the gradient is nan at 0.
    """


# Functions of real order, which gets no gradient. Their derivatives combine neighboring orders, see
# NIST's Digital Library of Mathematical Functions, 10.6.1 and 10.29.1.


def _neighbors(xp, name, v, x, sign=1):
    function = getattr(xp.special, name)
    return (function(v - 1, x) + sign * function(v + 1, x)) / 2


@special_function(x=lambda xp, g, v, x: g * _neighbors(xp, "jv", v, x, -1))
def jv(v, x):
    """Bessel function of the first kind of real order ``v``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``(jv(v - 1, x) - jv(v + 1, x)) / 2``. For orders that are not integers, it is nan where ``x``
    is negative.
    """


@special_function(x=lambda xp, g, v, x: g * _neighbors(xp, "yv", v, x, -1))
def yv(v, x):
    """Bessel function of the second kind of real order ``v``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``(yv(v - 1, x) - yv(v + 1, x)) / 2``. The value is nan where ``x`` is negative.
    """


@special_function(x=lambda xp, g, v, x: g * _neighbors(xp, "iv", v, x))
def iv(v, x):
    """Modified Bessel function of the first kind of real order ``v``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``(iv(v - 1, x) + iv(v + 1, x)) / 2``. For orders that are not integers, it is nan where ``x``
    is negative. Where it overflows, `ive` does not.
    """


@special_function(x=lambda xp, g, v, x, out: g * (_neighbors(xp, "ive", v, x) - xp.sign(x) * out))
def ive(v, x):
    """`iv` scaled by ``exp(-abs(x))``; the order gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``(ive(v - 1, x) + ive(v + 1, x)) / 2 - sign(x) * ive(v, x)``.
    """


@special_function(x=lambda xp, g, v, x: -g * _neighbors(xp, "kv", v, x))
def kv(v, x):
    """Modified Bessel function of the second kind of real order ``v``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``-(kv(v - 1, x) + kv(v + 1, x)) / 2``. The value is inf at 0 and nan below. Where it
    underflows, `kve` does not.
    """


@special_function(x=lambda xp, g, v, x, out: g * (out - _neighbors(xp, "kve", v, x)))
def kve(v, x):
    """`kv` scaled by ``exp(x)``; the order gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``kve(v, x) - (kve(v - 1, x) + kve(v + 1, x)) / 2``. The value is inf at 0 and nan below.
    """
