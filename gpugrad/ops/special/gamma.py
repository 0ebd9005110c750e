"""The gamma, beta and zeta functions and their relatives."""

import math

from ...autograd.operation import elementwise
from ..elementwise import zero_vjp
from .common import parameter_slope, special_function


@special_function(x=lambda xp, g, x, out: g * (out * xp.special.psi(x)))
def gamma(x):
    """Gamma function; infinite at 0, as is its gradient, and nan at the negative integers.

    Elementwise, ``(...) -> (...)``: the integral of ``t**(x - 1) * exp(-t)`` from 0 to infinity,
    where ``x`` is positive. It is ``(n - 1)!`` at an integer n. The gradient is
    ``gamma(x) * psi(x)``. Where it overflows, `gammaln` does not.
    """


@special_function(x=lambda xp, g, x: g * xp.special.psi(x))
def gammaln(x):
    """Logarithm of the absolute value of the gamma function.

    Elementwise, ``(...) -> (...)``, with the gradient ``psi(x)``. It is inf at 0 and the negative
    integers.
    """


@special_function(x=lambda xp, g, x: g * xp.special.psi(xp.where(x < 0, math.nan, x)))
def loggamma(x):
    """Logarithm of the gamma function; nan where ``x`` is negative.

    Elementwise, ``(...) -> (...)``, with the gradient ``psi(x)``. It is inf at 0. `gammaln` takes
    negative numbers, too.
    """


@special_function(x=zero_vjp)
def gammasgn(x):
    """Sign of the gamma function. Its gradient is 0 everywhere.

    Elementwise, ``(...) -> (...)``: 1 where ``x`` is positive, 1 or -1 between negative integers,
    and nan at these. ``gammasgn(x) * exp(gammaln(x))`` is ``gamma(x)``.
    """


def _rgamma_x(xp, g, x, out):
    # Left of 0.5, psi has poles; use the reflection 1 / gamma(x) = sin(pi x) gamma(1 - x) / pi.
    left = x < 0.5
    x, y = xp.where(left, 1.0, x), xp.where(left, x, 0.0)
    sine = xp.sin(math.pi * y) / math.pi
    reflected = xp.special.gamma(1 - y) * (xp.cos(math.pi * y) - sine * xp.special.psi(1 - y))
    return g * xp.where(left, reflected, -out * xp.special.psi(x))


@special_function(x=_rgamma_x)
def rgamma(x):
    """Reciprocal of the gamma function, which has no poles.

    Elementwise, ``(...) -> (...)``, with the gradient ``-psi(x) / gamma(x)``. At 0 and the negative
    integers, the poles of `gamma`, it is 0, and its gradient is finite.
    """


@special_function(x=lambda xp, g, x: g * xp.special.zeta(2.0, x))
def psi(x):
    """Digamma function, the derivative of `gammaln`; also named `digamma`.

    Elementwise, ``(...) -> (...)``, with the gradient ``polygamma(1, x)``. It is -inf at 0 and nan
    at the negative integers.
    """


digamma = psi


@special_function(x=lambda xp, g, n, x: g * xp.special.polygamma(n + 1, x))
def polygamma(n, x):
    """The ``n``-th derivative of `psi`; the integer order ``n`` gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is ``polygamma(n + 1, x)``. For
    ``n = 0`` it is `psi`.
    """


@elementwise
def multigammaln(xp, a, /, d):
    """Logarithm of the multivariate gamma function of dimension ``d``, a positive int.

    Elementwise, ``(...) -> (...)``. It is nan unless ``a > (d - 1) / 2``. The gradient is the sum
    of ``psi(a - j / 2)`` for j from 0 to d - 1.
    """
    return _with_values_below(xp, 0.25 * d * (d - 1) * math.log(math.pi), xp.special.gammaln, a, d)


def _with_values_below(xp, total, function, a, d):
    """``total`` and the values of a function at ``a``, ``a - 1/2``, ..., ``d`` in all."""
    for j in range(d):
        total = total + function(a - j / 2)
    return xp.where(a > (d - 1) / 2, total, math.nan)


multigammaln.vjp(a=lambda xp, g, a, d: g * _with_values_below(xp, 0.0, xp.special.psi, a, d))


def _betaln_slope(xp, a, b):
    return xp.special.psi(a) - xp.special.psi(a + b)


@special_function(
    a=lambda xp, g, a, b, out: g * (out * _betaln_slope(xp, a, b)),
    b=lambda xp, g, a, b, out: g * (out * _betaln_slope(xp, b, a)),
)
def beta(a, b):
    """Beta function ``gamma(a) * gamma(b) / gamma(a + b)``.

    The inputs broadcast. The gradients are ``beta(a, b) * (psi(a) - psi(a + b))`` to ``a``, and the
    same with ``b`` in place of ``a``. Where it underflows, `betaln` does not.
    """


@special_function(
    a=lambda xp, g, a, b: g * _betaln_slope(xp, a, b),
    b=lambda xp, g, a, b: g * _betaln_slope(xp, b, a),
)
def betaln(a, b):
    """Logarithm of the absolute value of the beta function.

    The inputs broadcast. It is ``gammaln(a) + gammaln(b) - gammaln(a + b)``, without loss of
    digits. The gradients are ``psi(a) - psi(a + b)`` and ``psi(b) - psi(a + b)``.
    """


@special_function(
    z=lambda xp, g, z, m, out: g * (out * (xp.special.psi(z + m) - xp.special.psi(z))),
    m=lambda xp, g, z, m, out: g * (out * xp.special.psi(z + m)),
)
def poch(z, m):
    """Pochhammer's symbol, the rising factorial ``gamma(z + m) / gamma(z)``.

    The inputs broadcast. For an integer ``m`` it is the product
    ``z * (z + 1) * ... * (z + m - 1)``. The gradients are ``poch(z, m) * (psi(z + m) - psi(z))`` to
    ``z`` and ``poch(z, m) * psi(z + m)`` to ``m``.
    """


@special_function(
    n=lambda xp, g, n, k, out: g * (out * (xp.special.psi(n + 1) - xp.special.psi(n - k + 1))),
    k=lambda xp, g, n, k, out: g * (out * (xp.special.psi(n - k + 1) - xp.special.psi(k + 1))),
)
def binom(n, k):
    """Binomial coefficient of real numbers, ``gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1))``.

    The inputs broadcast. The gradients are ``binom(n, k) * (psi(n + 1) - psi(n - k + 1))`` to ``n``
    and ``binom(n, k) * (psi(n - k + 1) - psi(k + 1))`` to ``k``. A gradient is nan where one of
    these has a pole, such as where ``n - k`` is a negative integer.
    """


def _zetac_x(xp, g, x, out):
    return g * xp.where(x > 1, parameter_slope(xp, "zetac", 0, (x,), out), math.nan)


@special_function(x=_zetac_x)
def zetac(x):
    """Riemann's zeta function minus 1; its gradient is that of `zeta`.

    Elementwise, ``(...) -> (...)``: where ``x`` is above 1, the sum of ``k ** -x`` over k from 2,
    which keeps its digits where ``x`` is large. Elsewhere the gradient is nan.
    """


@elementwise
def zeta(xp, x, q=None):
    """Hurwitz's zeta function, the sum of ``(k + q) ** -x`` over k >= 0; without ``q``, Riemann's.

    The inputs broadcast. The gradient to ``q`` is ``-x * zeta(x + 1, q)``. The gradient to the
    exponent ``x`` comes from differences; it is nan unless the result is positive and ``x`` is
    above 1.
    """
    return 1 + xp.special.zetac(x) if q is None else xp.special.zeta(x, q)


def _zeta_x(xp, g, x, q, out):
    if q is None:
        return _zetac_x(xp, g, x, out - 1)
    slope = parameter_slope(xp, "zeta", 0, (x, q), out)
    return g * xp.where((x > 1) & (out > 0), slope, math.nan)


zeta.vjp(x=_zeta_x, q=lambda xp, g, x, q: g * -x * xp.special.zeta(x + 1, q))
