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
    """Bessel function of the first kind of order 0."""


@special_function(x=lambda xp, g, x, out: g * (xp.special.j0(x) - _ratio(xp, x, out, _J1)))
def j1(x):
    """Bessel function of the first kind of order 1."""


@special_function(x=lambda xp, g, x: -g * xp.special.y1(x))
def y0(x):
    """Bessel function of the second kind of order 0; -inf at 0, nan below."""


@special_function(x=lambda xp, g, x, out: g * (xp.special.y0(x) - out / x))
def y1(x):
    """Bessel function of the second kind of order 1; -inf at 0, nan below."""


@special_function(x=lambda xp, g, n, x, out: g * (xp.special.yn(n - 1, x) - n * out / x))
def yn(n, x):
    """Bessel function of the second kind of integer order ``n``, which gets no gradient."""


@special_function(x=lambda xp, g, x: g * xp.special.i1(x))
def i0(x):
    """Modified Bessel function of the first kind of order 0."""


@special_function(x=lambda xp, g, x, out: g * (xp.special.i1e(x) - xp.sign(x) * out))
def i0e(x):
    """`i0` scaled by ``exp(-abs(x))``; the gradient at 0, a kink, is 0."""


@special_function(x=lambda xp, g, x, out: g * (xp.special.i0(x) - _ratio(xp, x, out, _I1)))
def i1(x):
    """Modified Bessel function of the first kind of order 1."""


def _i1e_x(xp, g, x, out):
    ratio = _ratio(xp, x, out, _I1, lambda x: xp.exp(-xp.abs(x)))
    return g * (xp.special.i0e(x) - xp.sign(x) * out - ratio)


@special_function(x=_i1e_x)
def i1e(x):
    """`i1` scaled by ``exp(-abs(x))``."""


@special_function(x=lambda xp, g, x: -g * xp.special.k1(x))
def k0(x):
    """Modified Bessel function of the second kind of order 0; inf at 0, nan below."""


@special_function(x=lambda xp, g, x, out: g * (out - xp.special.k1e(x)))
def k0e(x):
    """`k0` scaled by ``exp(x)``."""


@special_function(x=lambda xp, g, x, out: -g * (xp.special.k0(x) + out / x))
def k1(x):
    """Modified Bessel function of the second kind of order 1; inf at 0, nan below."""


@special_function(x=lambda xp, g, x, out: g * (out - xp.special.k0e(x) - out / x))
def k1e(x):
    """`k1` scaled by ``exp(x)``."""


# Functions of real order, which gets no gradient. Their derivatives combine neighboring orders, see
# NIST's Digital Library of Mathematical Functions, 10.6.1 and 10.29.1.


def _first_kind(name):
    def rule(xp, g, v, x):
        function = getattr(xp.special, name)
        return g * (function(v - 1, x) - function(v + 1, x)) / 2

    return rule


def _modified(xp, name, v, x):
    function = getattr(xp.special, name)
    return (function(v - 1, x) + function(v + 1, x)) / 2


@special_function(x=_first_kind("jv"))
def jv(v, x):
    """Bessel function of the first kind of real order ``v``, which gets no gradient."""


@special_function(x=_first_kind("yv"))
def yv(v, x):
    """Bessel function of the second kind of real order ``v``, which gets no gradient."""


@special_function(x=lambda xp, g, v, x: g * _modified(xp, "iv", v, x))
def iv(v, x):
    """Modified Bessel function of the first kind of real order ``v``, which gets no gradient."""


@special_function(x=lambda xp, g, v, x, out: g * (_modified(xp, "ive", v, x) - xp.sign(x) * out))
def ive(v, x):
    """`iv` scaled by ``exp(-abs(x))``; the order gets no gradient."""


@special_function(x=lambda xp, g, v, x: -g * _modified(xp, "kv", v, x))
def kv(v, x):
    """Modified Bessel function of the second kind of real order ``v``, which gets no gradient."""


@special_function(x=lambda xp, g, v, x, out: g * (out - _modified(xp, "kve", v, x)))
def kve(v, x):
    """`kv` scaled by ``exp(x)``; the order gets no gradient."""
