"""Incomplete gamma and beta functions, and the distributions based on them.

The derivative of each function in its last argument is a density, or minus one; for an inverse
function, it is 1 over that.
"""

import math

from ..elementwise import zero_vjp
from .common import at_least_float32, special_function


def _gamma_pdf(xp, a, x):
    a, x = at_least_float32(xp, a, x)
    logs = xp.special.xlogy(a - 1, x) - x - xp.special.gammaln(a)
    return xp.where(x == math.inf, 0.0, xp.exp(logs))


@special_function(differences=("a",), density=_gamma_pdf)
def gammainc(a, x):
    """Regularized lower incomplete gamma function.

    The integral of ``t**(a - 1) * exp(-t)`` from 0 to ``x``, divided by ``gamma(a)``: the
    probability of at most ``x`` under the gamma distribution of shape ``a``. The inputs broadcast.
    It is nan where ``x`` is negative. The gradient to ``x`` is ``x**(a - 1) * exp(-x) / gamma(a)``;
    that to ``a`` comes from differences.
    """


@special_function(differences=("a",), density=_gamma_pdf, falls=True)
def gammaincc(a, x):
    """Regularized upper incomplete gamma function, ``1 - gammainc(a, x)``.

    The integral of ``t**(a - 1) * exp(-t)`` from ``x`` to infinity, divided by ``gamma(a)``. The
    inputs broadcast. It keeps its digits where it is small, and is nan where ``x`` is negative. The
    gradient to ``x`` is ``-x**(a - 1) * exp(-x) / gamma(a)``; that to ``a`` comes from differences.
    """


@special_function(inverse_of="gammainc", density=_gamma_pdf)
def gammaincinv(a, y):
    """Inverse of `gammainc`: the ``x`` with ``gammainc(a, x) = y``.

    The inputs broadcast; ``y`` is from 0 to 1, and beyond the result is nan. The gradient to ``y``
    is 1 divided by that of `gammainc` to ``x``; that to ``a`` follows from the one of `gammainc` to
    ``a``.
    """


@special_function(inverse_of="gammaincc", density=_gamma_pdf, falls=True)
def gammainccinv(a, y):
    """Inverse of `gammaincc`: the ``x`` with ``gammaincc(a, x) = y``.

    The inputs broadcast; ``y`` is from 0 to 1, and beyond the result is nan. It keeps its digits
    where ``y`` is small. The gradient to ``y`` is 1 divided by that of `gammaincc` to ``x``; that
    to ``a`` follows from the one of `gammaincc` to ``a``.
    """


@special_function(
    differences=("b",),
    a=lambda xp, g, a, b, x: g * x * _gamma_pdf(xp, b, a * x),
    x=lambda xp, g, a, b, x: g * a * _gamma_pdf(xp, b, a * x),
)
def gdtr(a, b, x):
    """Distribution function of the gamma distribution with rate ``a`` and shape ``b``.

    It is ``gammainc(b, a * x)``. The inputs broadcast. The gradients to ``x`` and ``a`` are the
    density of `gammainc` at ``a * x``, times ``a`` and times ``x``; that to ``b`` comes from
    differences.
    """


@special_function(
    differences=("b",),
    a=lambda xp, g, a, b, x: -g * x * _gamma_pdf(xp, b, a * x),
    x=lambda xp, g, a, b, x: -g * a * _gamma_pdf(xp, b, a * x),
)
def gdtrc(a, b, x):
    """Survival function of the gamma distribution with rate ``a`` and shape ``b``.

    It is ``gammaincc(b, a * x)``, which keeps its digits where it is small. The inputs broadcast.
    The gradients to ``x`` and ``a`` are minus those of `gdtr`; that to ``b`` comes from
    differences.
    """


def _chi2_pdf(xp, v, x):
    return 0.5 * _gamma_pdf(xp, v / 2, x / 2)


@special_function(differences=("v",), density=_chi2_pdf)
def chdtr(v, x):
    """Distribution function of the chi-square distribution with ``v`` degrees of freedom.

    The probability of at most ``x``, ``gammainc(v / 2, x / 2)``. The inputs broadcast. The gradient
    to ``x`` is the density; that to ``v`` comes from differences.
    """


@special_function(differences=("v",), density=_chi2_pdf, falls=True)
def chdtrc(v, x):
    """Survival function of the chi-square distribution with ``v`` degrees of freedom.

    The probability of more than ``x``, ``gammaincc(v / 2, x / 2)``, which keeps its digits where it
    is small. The inputs broadcast. The gradient to ``x`` is minus the density; that to ``v`` comes
    from differences.
    """


@special_function(inverse_of="chdtrc", density=_chi2_pdf, falls=True)
def chdtri(v, p):
    """Inverse of `chdtrc`: the ``x`` with ``chdtrc(v, x) = p``.

    Of the survival function, as in SciPy, not of `chdtr`. The inputs broadcast. The gradient to
    ``p`` is minus 1 divided by the density at the result; that to ``v`` follows from the one of
    `chdtrc`.
    """


def _poisson_pdf(xp, k, m):
    k, m = at_least_float32(xp, k, m)
    return _gamma_pdf(xp, xp.floor(k) + 1, m)


@special_function(k=zero_vjp, density=_poisson_pdf, falls=True)
def pdtr(k, m):
    """Poisson distribution function: at most ``floor(k)`` events if ``m`` are expected.

    The inputs broadcast. The gradient to ``m`` is minus the probability of exactly ``floor(k)``
    events, ``m**k * exp(-m) / k!``. The gradient to ``k`` is 0.
    """


@special_function(k=zero_vjp, density=_poisson_pdf)
def pdtrc(k, m):
    """Poisson survival function: more than ``floor(k)`` events if ``m`` are expected.

    The inputs broadcast. The gradient to ``m`` is the probability of exactly ``floor(k)`` events,
    ``m**k * exp(-m) / k!``. The gradient to ``k`` is 0.
    """


@special_function(y=lambda xp, g, k, out: -g / _poisson_pdf(xp, k, out))
def pdtri(k, y):
    """Inverse of `pdtr`: the ``m`` with ``pdtr(k, m) = y``. The count ``k`` gets no gradient.

    The inputs broadcast. The gradient to ``y`` is minus 1 divided by the probability of exactly
    ``floor(k)`` events at the result.
    """


def _beta_pdf(xp, a, b, x):
    a, b, x = at_least_float32(xp, a, b, x)
    logs = xp.special.xlogy(a - 1, x) + xp.special.xlog1py(b - 1, -x)
    return xp.exp(logs - xp.special.betaln(a, b))


@special_function(differences=("a", "b"), density=_beta_pdf)
def betainc(a, b, x):
    """Regularized incomplete beta function.

    The integral of ``t**(a - 1) * (1 - t)**(b - 1)`` from 0 to ``x``, divided by ``beta(a, b)``:
    the probability of at most ``x`` under the beta distribution. The inputs broadcast, and ``x`` is
    from 0 to 1. The gradient to ``x`` is the integrand at ``x`` over ``beta(a, b)``; those to ``a``
    and ``b`` come from differences.
    """


@special_function(differences=("a", "b"), density=_beta_pdf, falls=True)
def betaincc(a, b, x):
    """Complement of the regularized incomplete beta function, ``1 - betainc(a, b, x)``.

    It keeps its digits where it is small. The inputs broadcast, and ``x`` is from 0 to 1. The
    gradient to ``x`` is minus that of `betainc`; those to ``a`` and ``b`` come from differences.
    """


@special_function(inverse_of="betainc", density=_beta_pdf)
def betaincinv(a, b, y):
    """Inverse of `betainc`: the ``x`` with ``betainc(a, b, x) = y``.

    The inputs broadcast, and ``y`` is from 0 to 1. The gradient to ``y`` is 1 divided by that of
    `betainc` to ``x``; those to ``a`` and ``b`` follow from the ones of `betainc`.
    """


def _f_pdf(xp, dfn, dfd, x):
    dfn, dfd, x = at_least_float32(xp, dfn, dfd, x)
    total = dfd + dfn * x
    logs = xp.special.xlogy(dfn / 2 - 1, dfn * x / total)
    logs = logs + xp.special.xlogy(dfd / 2 + 1, dfd / total)
    return dfn / dfd * xp.exp(logs - xp.special.betaln(dfn / 2, dfd / 2))


@special_function(differences=("dfn", "dfd"), density=_f_pdf)
def fdtr(dfn, dfd, x):
    """Distribution function of the F distribution with ``dfn`` and ``dfd`` degrees of freedom.

    The probability of at most ``x``, ``betainc(dfn / 2, dfd / 2, dfn * x / (dfd + dfn * x))``. The
    inputs broadcast. The gradient to ``x`` is the density; those to the degrees of freedom come
    from differences.
    """


@special_function(differences=("dfn", "dfd"), density=_f_pdf, falls=True)
def fdtrc(dfn, dfd, x):
    """Survival function of the F distribution with ``dfn`` and ``dfd`` degrees of freedom.

    The probability of more than ``x``, which keeps its digits where it is small. The inputs
    broadcast. The gradient to ``x`` is minus the density; those to the degrees of freedom come from
    differences.
    """


@special_function(inverse_of="fdtr", density=_f_pdf)
def fdtri(dfn, dfd, p):
    """Inverse of `fdtr`: the ``x`` with ``fdtr(dfn, dfd, x) = p``.

    The inputs broadcast. The gradient to ``p`` is 1 divided by the density at the result; those to
    the degrees of freedom follow from the ones of `fdtr`.
    """


def _t_pdf(xp, df, t):
    df, t = at_least_float32(xp, df, t)
    norm = xp.special.poch(df / 2, 0.5) / xp.sqrt(math.pi * df)
    return norm * xp.exp(-0.5 * (df + 1) * xp.log1p(t * t / df))


@special_function(differences=("df",), density=_t_pdf)
def stdtr(df, t):
    """Distribution function of Student's t distribution with ``df`` degrees of freedom.

    The probability of at most ``t``. The inputs broadcast. The gradient to ``t`` is the density,
    ``gamma((df + 1) / 2) / (gamma(df / 2) * sqrt(pi * df)) * (1 + t**2 / df)**(-(df + 1) / 2)``;
    that to ``df`` comes from differences.
    """


@special_function(inverse_of="stdtr", density=_t_pdf)
def stdtrit(df, p):
    """Inverse of `stdtr`: the ``t`` with ``stdtr(df, t) = p``.

    The inputs broadcast. The gradient to ``p`` is 1 divided by the density at the result; that to
    ``df`` follows from the one of `stdtr`.
    """


def _binomial_pdf(xp, k, n, p):
    if hasattr(n, "dtype"):
        n = xp.astype(n, p.dtype)
    k, n, p = at_least_float32(xp, k, n, p)
    k = xp.floor(k)
    return _beta_pdf(xp, k + 1, n - k, p)


@special_function(integer=("n",), k=zero_vjp, density=_binomial_pdf, falls=True)
def bdtr(k, n, p):
    """Binomial distribution function: at most ``floor(k)`` successes in ``n`` trials.

    ``p`` is the probability of a success, and the inputs broadcast. It is
    ``betaincc(k + 1, n - k, p)`` for an integer k, and the gradient to ``p`` is that of this
    function. The gradient to ``k`` is 0; the integers ``n`` get none.
    """


@special_function(integer=("n",), k=zero_vjp, density=_binomial_pdf)
def bdtrc(k, n, p):
    """Binomial survival function: more than ``floor(k)`` successes in ``n`` trials.

    ``p`` is the probability of a success, and the inputs broadcast. It is
    ``betainc(k + 1, n - k, p)`` for an integer k, and the gradient to ``p`` is that of this
    function. The gradient to ``k`` is 0; the integers ``n`` get none.
    """


@special_function(
    integer=("n",), k=zero_vjp, y=lambda xp, g, k, n, out: -g / _binomial_pdf(xp, k, n, out)
)
def bdtri(k, n, y):
    """Inverse of `bdtr`: the ``p`` with ``bdtr(k, n, p) = y``.

    The inputs broadcast. The gradient to ``y`` is 1 divided by that of `bdtr` to ``p``. The
    gradient to ``k`` is 0; the integers ``n`` get no gradient.
    """


@special_function(p=lambda xp, g, k, n, p: g * _beta_pdf(xp, n, k + 1, p))
def nbdtr(k, n, p):
    """Negative binomial distribution function: at most ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success, and the inputs broadcast. It is ``betainc(n, k + 1, p)``,
    and the gradient to ``p`` is that of this function. The integer counts ``k`` and ``n`` get no
    gradient.
    """


@special_function(p=lambda xp, g, k, n, p: -g * _beta_pdf(xp, n, k + 1, p))
def nbdtrc(k, n, p):
    """Negative binomial survival function: more than ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success, and the inputs broadcast. It is
    ``betaincc(n, k + 1, p)``, and the gradient to ``p`` is that of this function. The integer
    counts ``k`` and ``n`` get no gradient.
    """


@special_function(y=lambda xp, g, k, n, out: g / _beta_pdf(xp, n, k + 1, out))
def nbdtri(k, n, y):
    """Inverse of `nbdtr`: the ``p`` with ``nbdtr(k, n, p) = y``. The counts get no gradient.

    The inputs broadcast. The gradient to ``y`` is 1 divided by that of `nbdtr` to ``p`` at the
    result.
    """
