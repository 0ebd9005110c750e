"""Incomplete gamma and beta functions, and the distributions based on them.

The derivative of each function in its last argument is a density; for an inverse function, it is
1 over the density. Gradients of inverses to parameters come from implicit differentiation.
"""

import math

from ..elementwise import zero_vjp
from .common import at_least_float32, parameter_slope, special_function


def _implicit(xp, g, name, at, arguments, value, pdf):
    """``g`` times the derivative in a parameter, divided by that in the last argument."""
    return g * parameter_slope(xp, name, at, arguments, value) / pdf(xp, *arguments)


def _gamma_pdf(xp, a, x):
    a, x = at_least_float32(xp, a, x)
    logs = xp.special.xlogy(a - 1, x) - x - xp.special.gammaln(a)
    return xp.where(x == math.inf, 0.0, xp.exp(logs))


@special_function(differences=("a",), x=lambda xp, g, a, x: g * _gamma_pdf(xp, a, x))
def gammainc(a, x):
    """Regularized lower incomplete gamma function."""


@special_function(differences=("a",), x=lambda xp, g, a, x: -g * _gamma_pdf(xp, a, x))
def gammaincc(a, x):
    """Regularized upper incomplete gamma function, ``1 - gammainc(a, x)``."""


@special_function(
    a=lambda xp, g, a, y, out: _implicit(xp, -g, "gammainc", 0, (a, out), y, _gamma_pdf),
    y=lambda xp, g, a, out: g / _gamma_pdf(xp, a, out),
)
def gammaincinv(a, y):
    """Inverse of `gammainc`: the ``x`` with ``gammainc(a, x) = y``."""


@special_function(
    a=lambda xp, g, a, y, out: _implicit(xp, g, "gammaincc", 0, (a, out), y, _gamma_pdf),
    y=lambda xp, g, a, out: -g / _gamma_pdf(xp, a, out),
)
def gammainccinv(a, y):
    """Inverse of `gammaincc`: the ``x`` with ``gammaincc(a, x) = y``."""


@special_function(
    differences=("b",),
    a=lambda xp, g, a, b, x: g * x * _gamma_pdf(xp, b, a * x),
    x=lambda xp, g, a, b, x: g * a * _gamma_pdf(xp, b, a * x),
)
def gdtr(a, b, x):
    """Distribution function of the gamma distribution with rate ``a`` and shape ``b``."""


@special_function(
    differences=("b",),
    a=lambda xp, g, a, b, x: -g * x * _gamma_pdf(xp, b, a * x),
    x=lambda xp, g, a, b, x: -g * a * _gamma_pdf(xp, b, a * x),
)
def gdtrc(a, b, x):
    """Survival function of the gamma distribution with rate ``a`` and shape ``b``."""


def _chi2_pdf(xp, v, x):
    return 0.5 * _gamma_pdf(xp, v / 2, x / 2)


@special_function(differences=("v",), x=lambda xp, g, v, x: g * _chi2_pdf(xp, v, x))
def chdtr(v, x):
    """Distribution function of the chi-square distribution with ``v`` degrees of freedom."""


@special_function(differences=("v",), x=lambda xp, g, v, x: -g * _chi2_pdf(xp, v, x))
def chdtrc(v, x):
    """Survival function of the chi-square distribution with ``v`` degrees of freedom."""


@special_function(
    v=lambda xp, g, v, p, out: _implicit(xp, g, "chdtrc", 0, (v, out), p, _chi2_pdf),
    p=lambda xp, g, v, out: -g / _chi2_pdf(xp, v, out),
)
def chdtri(v, p):
    """Inverse of `chdtrc`: the ``x`` with ``chdtrc(v, x) = p``."""


def _poisson_pdf(xp, k, m):
    k, m = at_least_float32(xp, k, m)
    return _gamma_pdf(xp, xp.floor(k) + 1, m)


@special_function(k=zero_vjp, m=lambda xp, g, k, m: -g * _poisson_pdf(xp, k, m))
def pdtr(k, m):
    """Poisson distribution function: at most ``floor(k)`` events if ``m`` are expected.

    The gradient to ``k`` is 0.
    """


@special_function(k=zero_vjp, m=lambda xp, g, k, m: g * _poisson_pdf(xp, k, m))
def pdtrc(k, m):
    """Poisson survival function: more than ``floor(k)`` events if ``m`` are expected.

    The gradient to ``k`` is 0.
    """


@special_function(y=lambda xp, g, k, out: -g / _poisson_pdf(xp, k, out))
def pdtri(k, y):
    """Inverse of `pdtr`: the ``m`` with ``pdtr(k, m) = y``. The count ``k`` gets no gradient."""


def _beta_pdf(xp, a, b, x):
    a, b, x = at_least_float32(xp, a, b, x)
    logs = xp.special.xlogy(a - 1, x) + xp.special.xlog1py(b - 1, -x)
    return xp.exp(logs - xp.special.betaln(a, b))


@special_function(differences=("a", "b"), x=lambda xp, g, a, b, x: g * _beta_pdf(xp, a, b, x))
def betainc(a, b, x):
    """Regularized incomplete beta function."""


@special_function(differences=("a", "b"), x=lambda xp, g, a, b, x: -g * _beta_pdf(xp, a, b, x))
def betaincc(a, b, x):
    """Complement of the regularized incomplete beta function, ``1 - betainc(a, b, x)``."""


@special_function(
    a=lambda xp, g, a, b, y, out: _implicit(xp, -g, "betainc", 0, (a, b, out), y, _beta_pdf),
    b=lambda xp, g, a, b, y, out: _implicit(xp, -g, "betainc", 1, (a, b, out), y, _beta_pdf),
    y=lambda xp, g, a, b, out: g / _beta_pdf(xp, a, b, out),
)
def betaincinv(a, b, y):
    """Inverse of `betainc`: the ``x`` with ``betainc(a, b, x) = y``."""


def _f_pdf(xp, dfn, dfd, x):
    dfn, dfd, x = at_least_float32(xp, dfn, dfd, x)
    total = dfd + dfn * x
    logs = xp.special.xlogy(dfn / 2 - 1, dfn * x / total)
    logs = logs + xp.special.xlogy(dfd / 2 + 1, dfd / total)
    return dfn / dfd * xp.exp(logs - xp.special.betaln(dfn / 2, dfd / 2))


@special_function(
    differences=("dfn", "dfd"),
    x=lambda xp, g, dfn, dfd, x: g * _f_pdf(xp, dfn, dfd, x),
)
def fdtr(dfn, dfd, x):
    """Distribution function of the F distribution with ``dfn`` and ``dfd`` degrees of freedom."""


@special_function(
    differences=("dfn", "dfd"),
    x=lambda xp, g, dfn, dfd, x: -g * _f_pdf(xp, dfn, dfd, x),
)
def fdtrc(dfn, dfd, x):
    """Survival function of the F distribution with ``dfn`` and ``dfd`` degrees of freedom."""


@special_function(
    dfn=lambda xp, g, dfn, dfd, p, out: _implicit(xp, -g, "fdtr", 0, (dfn, dfd, out), p, _f_pdf),
    dfd=lambda xp, g, dfn, dfd, p, out: _implicit(xp, -g, "fdtr", 1, (dfn, dfd, out), p, _f_pdf),
    p=lambda xp, g, dfn, dfd, out: g / _f_pdf(xp, dfn, dfd, out),
)
def fdtri(dfn, dfd, p):
    """Inverse of `fdtr`: the ``x`` with ``fdtr(dfn, dfd, x) = p``."""


def _t_pdf(xp, df, t):
    df, t = at_least_float32(xp, df, t)
    norm = xp.special.poch(df / 2, 0.5) / xp.sqrt(math.pi * df)
    return norm * xp.exp(-0.5 * (df + 1) * xp.log1p(t * t / df))


@special_function(differences=("df",), t=lambda xp, g, df, t: g * _t_pdf(xp, df, t))
def stdtr(df, t):
    """Distribution function of Student's t distribution with ``df`` degrees of freedom."""


@special_function(
    df=lambda xp, g, df, p, out: _implicit(xp, -g, "stdtr", 0, (df, out), p, _t_pdf),
    p=lambda xp, g, df, out: g / _t_pdf(xp, df, out),
)
def stdtrit(df, p):
    """Inverse of `stdtr`: the ``t`` with ``stdtr(df, t) = p``."""


def _binomial_slope(xp, k, n, p):
    if hasattr(n, "dtype"):
        n = xp.astype(n, p.dtype)
    k, n, p = at_least_float32(xp, k, n, p)
    k = xp.floor(k)
    return _beta_pdf(xp, k + 1, n - k, p)


@special_function(
    integer=("n",), k=zero_vjp, p=lambda xp, g, k, n, p: -g * _binomial_slope(xp, k, n, p)
)
def bdtr(k, n, p):
    """Binomial distribution function: at most ``floor(k)`` successes in ``n`` trials.

    ``p`` is the probability of a success. The gradient to ``k`` is 0; the integers ``n`` get none.
    """


@special_function(
    integer=("n",), k=zero_vjp, p=lambda xp, g, k, n, p: g * _binomial_slope(xp, k, n, p)
)
def bdtrc(k, n, p):
    """Binomial survival function: more than ``floor(k)`` successes in ``n`` trials.

    ``p`` is the probability of a success. The gradient to ``k`` is 0; the integers ``n`` get none.
    """


@special_function(
    integer=("n",), k=zero_vjp, y=lambda xp, g, k, n, out: -g / _binomial_slope(xp, k, n, out)
)
def bdtri(k, n, y):
    """Inverse of `bdtr`: the ``p`` with ``bdtr(k, n, p) = y``.

    The gradient to ``k`` is 0; the integers ``n`` get no gradient.
    """


@special_function(p=lambda xp, g, k, n, p: g * _beta_pdf(xp, n, k + 1, p))
def nbdtr(k, n, p):
    """Negative binomial distribution function: at most ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success. The integer counts ``k`` and ``n`` get no gradient.
    """


@special_function(p=lambda xp, g, k, n, p: -g * _beta_pdf(xp, n, k + 1, p))
def nbdtrc(k, n, p):
    """Negative binomial survival function: more than ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success. The integer counts ``k`` and ``n`` get no gradient.
    """


@special_function(y=lambda xp, g, k, n, out: g / _beta_pdf(xp, n, k + 1, out))
def nbdtri(k, n, y):
    """Inverse of `nbdtr`: the ``p`` with ``nbdtr(k, n, p) = y``. The counts get no gradient."""
