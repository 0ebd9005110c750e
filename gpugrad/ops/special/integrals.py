"""Exponential and elliptic integrals, hypergeometric and Legendre functions."""

import math

from .common import at_least_float32, near_zero, polynomial, special_function


@special_function(x=lambda xp, g, x: -g * xp.exp(-x) / x)
def exp1(x):
    """Exponential integral: the integral of ``exp(-t) / t`` from ``x`` to infinity; nan below 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``-exp(-x) / x``. It is inf at 0.
    """


@special_function(x=lambda xp, g, x: g * xp.exp(x) / x)
def expi(x):
    """Exponential integral: the integral of ``exp(t) / t`` from -inf to ``x``; -inf at 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``exp(x) / x``. It is ``-exp1(-x)`` where
    ``x`` is negative.
    """


def _expn_x(xp, g, n, x):
    n, x = at_least_float32(xp, n, x)
    # SciPy does not compute order -1, which is exp(-x) * (1 + 1 / x) / x.
    below = xp.special.expn(xp.where(n < 1, 0.0, n - 1), x)
    return -g * xp.where(n < 1, below * (1 + 1 / x), below)


@special_function(x=_expn_x)
def expn(n, x):
    """Exponential integral: the integral of ``exp(-x * t) / t**n`` from 1 to infinity.

    The inputs broadcast. The gradient to ``x`` is ``-expn(n - 1, x)``. The order ``n``, a
    non-negative integer, gets no gradient.
    """


_LOG1P_RATIO = [(-1) ** k / (k + 1) for k in range(18)]


def _spence_z(xp, g, z):
    return -g * near_zero(
        xp, z - 1, 0.1, lambda u: polynomial(_LOG1P_RATIO, u), lambda u: xp.log1p(u) / u
    )


@special_function(z=_spence_z)
def spence(z):
    """Dilogarithm: the integral of ``log(t) / (1 - t)`` from 1 to ``z``; nan below 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``log(z) / (1 - z)``, which is -1 at 1. It is
    ``pi**2 / 6`` at 0. Other definitions call ``spence(1 - z)`` the dilogarithm of ``z``.
    """


def _ellipk_slope(xp, m, p):
    # pi/8 * 2F1(3/2, 3/2; 2; m) by Euler's transformation, where p = 1 - m
    return math.pi / 8 * xp.special.hyp2f1(0.5, 0.5, 2.0, m) / p


@special_function(m=lambda xp, g, m: g * _ellipk_slope(xp, m, 1 - m))
def ellipk(m):
    """Complete elliptic integral of the first kind with parameter ``m``; inf at 1.

    Elementwise, ``(...) -> (...)``: the integral of ``1 / sqrt(1 - m * sin(t)**2)`` from 0 to
    ``pi / 2``. It is nan above 1. The gradient is inf at 1, too. Near 1, `ellipkm1` is more
    precise.
    """


@special_function(p=lambda xp, g, p: -g * _ellipk_slope(xp, 1 - p, p))
def ellipkm1(p):
    """``ellipk(1 - p)``, without loss of digits near 0.

    Elementwise, ``(...) -> (...)``; inf at 0, and nan below. The gradient is -inf at 0.
    """


@special_function(x=lambda xp, g, a, b, x: g * (a / b) * xp.special.hyp1f1(a + 1, b + 1, x))
def hyp1f1(a, b, x):
    """Confluent hypergeometric function 1F1; its parameters ``a`` and ``b`` get no gradient.

    The inputs broadcast: the sum of ``poch(a, k) / poch(b, k) * x**k / k!`` over k from 0. The
    gradient to ``x`` is ``a / b * hyp1f1(a + 1, b + 1, x)``.
    """


@special_function(
    z=lambda xp, g, a, b, c, z: g * (a * b / c) * xp.special.hyp2f1(a + 1, b + 1, c + 1, z)
)
def hyp2f1(a, b, c, z):
    """Gauss's hypergeometric function 2F1; its parameters get no gradient, only ``z`` does.

    The inputs broadcast: the sum of ``poch(a, k) * poch(b, k) / poch(c, k) * z**k / k!`` over k
    from 0, and its continuation to other ``z`` up to 1. The gradient to ``z`` is
    ``a * b / c * hyp2f1(a + 1, b + 1, c + 1, z)``.
    """


def _lpmv_x(xp, g, m, v, x, out):
    return g * (v * x * out - (v + m) * xp.special.lpmv(m, v - 1, x)) / (x * x - 1)


@special_function(x=_lpmv_x)
def lpmv(m, v, x):
    """Associated Legendre function of integer order ``m`` and real degree ``v``.

    The inputs broadcast, and ``x`` is from -1 to 1. The gradient to ``x`` is
    ``(v * x * lpmv(m, v, x) - (v + m) * lpmv(m, v - 1, x)) / (x**2 - 1)``, which is nan at -1 and
    1. Order and degree get no gradient.
    """
