"""Special functions, under SciPy's names and with its arguments.

All are elementwise, broadcast their inputs, and are of real numbers. On NumPy and
on the CPU arrays of other libraries the values are SciPy's, on CuPy those of
`cupyx.scipy.special`, on PyTorch its own where it has them.

Gradients are closed formulas, of every order, except to parameters whose derivative
has none: the shape of an incomplete gamma or beta function, the degrees of freedom of
distributions made of them, the exponent of zeta. These come from differences of eighth
order, and are off by about 1e-12 (in float32 1e-5) of the function's value per relative
change of the parameter; each further order loses one or two digits. Where there is neither
(the order of a Bessel function, counts), a gradient is a TypeError that says so.
"""

import math

from ..autograd.operation import composite, elementwise, op
from ..batched import aligned, shifted
from . import neural, reductions
from .elementwise import no_slope, where
from .manipulation import expand_dims, squeeze

SQRT_PI = math.sqrt(math.pi)
SQRT_TAU = math.sqrt(2 * math.pi)
DEGREE = math.pi / 180


def _filled(xp, *values):
    """The values, at least one of them an array, with numbers made arrays like it."""
    like = next(v for v in values if hasattr(v, "dtype"))
    return [v if hasattr(v, "dtype") else xp.full_like(like, v) for v in values]


def _arrays(xp, *values):
    """The same for formulas that lose digits: float16 becomes float32."""
    arrays = _filled(xp, *values)
    if xp.finfo(arrays[0].dtype).bits > 16:
        return arrays
    return [xp.astype(a, xp.float32) for a in arrays]


def _polynomial(coefficients, x):
    """Of two or more coefficients, lowest order first."""
    *lower, total = coefficients
    for c in reversed(lower):
        total = total * x + c
    return total


def _near_zero(xp, x, radius, series, formula):
    """``formula(x)``, or near 0, where that cancels, ``series(x)``; so are its derivatives.

    Near 0 ``formula`` gets a 1 instead and its result is not used.
    """
    near = xp.abs(x) < radius
    return xp.where(near, series(xp.where(near, x, 0.0)), formula(xp.where(near, 1.0, x)))


# The error function and the normal distribution


@elementwise
def erf(xp, x):
    """Error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to ``x``."""
    return xp.special.erf(x)


erf.vjp(x=lambda xp, g, x: g * (2 / SQRT_PI * xp.exp(-x * x)))


@elementwise
def erfc(xp, x):
    """Complementary error function, ``1 - erf(x)`` without its loss of digits."""
    return xp.special.erfc(x)


erfc.vjp(x=lambda xp, g, x: g * (-2 / SQRT_PI * xp.exp(-x * x)))


@elementwise
def erfcx(xp, x):
    """Scaled complementary error function, ``exp(x**2) * erfc(x)``."""
    return xp.special.erfcx(x)


# 1 - sqrt(pi) * x * erfcx(x) ~ s/2 - 3/4 s**2 + 15/8 s**3 - ... with s = 1 / x**2, here of
# 100 s, since float16 does not hold the later coefficients.
_TAIL = [0.0] + [-math.prod(range(1, 2 * k, 2)) * (-0.005) ** k for k in range(1, 14)]


def _erfcx_x(xp, g, x, out):
    # The difference cancels in the far tail, where log_ndtr has its second derivative from.
    far = x > 10
    tail = _polynomial(_TAIL, (10 / xp.where(far, x, math.inf)) ** 2)
    return g * xp.where(far, -2 / SQRT_PI * tail, 2 * x * out - 2 / SQRT_PI)


erfcx.vjp(x=_erfcx_x)


@elementwise
def erfinv(xp, x):
    """Inverse of `erf`; at -1 and 1 it and its slope are infinite."""
    return xp.special.erfinv(x)


erfinv.vjp(x=lambda xp, g, out: g * (SQRT_PI / 2 * xp.exp(out * out)))


@elementwise
def erfcinv(xp, x):
    """Inverse of `erfc`; at 0 and 2 it and its slope are infinite."""
    return xp.special.erfcinv(x)


erfcinv.vjp(x=lambda xp, g, out: g * (-SQRT_PI / 2 * xp.exp(out * out)))


@elementwise
def ndtr(xp, x):
    """Distribution function of the standard normal distribution."""
    return xp.special.ndtr(x)


ndtr.vjp(x=lambda xp, g, x: g * (xp.exp(-0.5 * (x * x)) / SQRT_TAU))


@elementwise
def ndtri(xp, y):
    """Inverse of `ndtr`, the normal quantile; at 0 and 1 it and its slope are infinite."""
    return xp.special.ndtri(y)


ndtri.vjp(y=lambda xp, g, out: g * (SQRT_TAU * xp.exp(0.5 * (out * out))))


@elementwise
def log_ndtr(xp, x):
    """Logarithm of `ndtr`; it and its derivatives keep their digits far in the tail."""
    return xp.special.log_ndtr(x)


def _log_ndtr_x(xp, g, x):
    # The density over ndtr(x), without the 0 / 0 of the tail.
    return g * (math.sqrt(2 / math.pi) / xp.special.erfcx(-math.sqrt(0.5) * x))


log_ndtr.vjp(x=_log_ndtr_x)


# Logistic functions, entropies, robust losses


@elementwise
def expit(xp, x):
    """Logistic function ``1 / (1 + exp(-x))``, the same as `gpugrad.sigmoid`."""
    return neural.logistic(xp, x)


expit.vjp(x=lambda xp, g, out: g * (out * (1 - out)))


@elementwise
def logit(xp, x):
    """Inverse of `expit`, ``log(x / (1 - x))``; at 0 and 1 it and its slope are infinite."""
    return xp.special.logit(x)


logit.vjp(x=lambda xp, g, x: g / (x * (1 - x)))


@elementwise
def log_expit(xp, x):
    """Logarithm of `expit`, without overflow."""
    if xp.isdtype(x.dtype, "complex floating"):
        raise TypeError("x must be real; its logarithm would be on one of many branches")
    # SciPy's takes 3 to 30 times as long.
    return xp.minimum(x, 0) - xp.log1p(xp.exp(-xp.abs(x)))


log_expit.vjp(x=lambda xp, g, x: g * xp.special.expit(-x))


@elementwise
def entr(xp, x):
    """Entropy ``-x * log(x)``: 0 at 0, where its slope is infinite, and -inf below."""
    return xp.special.entr(x)


entr.vjp(x=lambda xp, g, x: -g * (1 + xp.log(x)))


@elementwise(discards=True)
def xlogy(xp, x, y):
    """``x * log(y)``, but 0 where ``x`` is 0, unless ``y`` is nan.

    There the gradient to ``y`` is 0, and that to ``x`` is 0 unless ``y`` is positive.
    """
    return xp.special.xlogy(x, y)


def _xlogy_y(xp, g, x, y):
    (x, y) = _arrays(xp, x, y)
    return xp.unpoison(g * x / xp.where(x == 0, 1.0, y), g)


xlogy.vjp(
    x=lambda xp, g, x, y: xp.where((x == 0) & (y <= 0), 0.0, xp.special.xlogy(g, y)),
    y=_xlogy_y,
)


@elementwise(discards=True)
def xlog1py(xp, x, y):
    """``x * log1p(y)``, but 0 where ``x`` is 0, unless ``y`` is nan.

    There the gradient to ``y`` is 0, and that to ``x`` is 0 unless ``y`` is above -1.
    """
    return xp.special.xlog1py(x, y)


xlog1py.vjp(
    x=lambda xp, g, x, y: xp.where((x == 0) & (y <= -1), 0.0, xp.special.xlog1py(g, y)),
    y=lambda xp, g, x, y: _xlogy_y(xp, g, x, 1 + y),
)


@elementwise(discards=True)
def rel_entr(xp, x, y):
    """Relative entropy ``x * log(x / y)``: 0 where ``x`` is 0, inf where either is negative.

    Where ``x`` is 0 the gradient to ``y`` is 0; where both are, that to ``x`` is 1.
    """
    return xp.special.rel_entr(x, y)


def _log_ratio(xp, x, y):
    x, y = _arrays(xp, x, y)
    return xp.log(xp.where((x == 0) & (y == 0), 1.0, x / y))


rel_entr.vjp(
    x=lambda xp, g, x, y: xp.unpoison(g * (1 + _log_ratio(xp, x, y)), g),
    y=lambda xp, g, x, y: -_xlogy_y(xp, g, x, y),
)


@elementwise(discards=True)
def kl_div(xp, x, y):
    """Terms of the Kullback-Leibler divergence, ``rel_entr(x, y) - x + y``.

    Where ``x`` is 0 the gradient to ``y`` is 1; where both are, that to ``x`` is 0.
    """
    return xp.special.kl_div(x, y)


kl_div.vjp(
    x=lambda xp, g, x, y: xp.unpoison(g * _log_ratio(xp, x, y), g),
    y=lambda xp, g, x, y: g - _xlogy_y(xp, g, x, y),
)


@elementwise
def huber(xp, delta, r):
    """Huber's loss: ``r**2 / 2`` up to ``abs(r) = delta``, from there on a line.

    It is inf where ``delta`` is negative. At the joint second derivatives are the line's.
    """
    return xp.special.huber(delta, r)


def _huber_delta(xp, g, delta, r):
    delta, r = _arrays(xp, delta, r)
    size = xp.abs(r)
    return xp.where(size < delta, 0.0, g * (size - delta))


def _huber_r(xp, g, delta, r):
    delta, r = _arrays(xp, delta, r)
    return g * xp.where(xp.abs(r) < delta, r, delta * xp.sign(r))


huber.vjp(delta=_huber_delta, r=_huber_r)


@elementwise
def pseudo_huber(xp, delta, r):
    """Smooth form of Huber's loss, ``delta**2 * (sqrt(1 + (r / delta)**2) - 1)``."""
    return xp.special.pseudo_huber(delta, r)


def _pseudo_huber_delta(xp, g, delta, r):
    u = (r / delta) ** 2
    root = xp.sqrt(1 + u)
    return g * delta * (u / (1 + root)) ** 2 / root


pseudo_huber.vjp(
    delta=_pseudo_huber_delta,
    r=lambda xp, g, delta, r: g * r / xp.sqrt(1 + (r / delta) ** 2),
)


# Powers and their relatives


@elementwise
def exp2(xp, x):
    """``2 ** x``."""
    return xp.special.exp2(x)


exp2.vjp(x=lambda xp, g, out: g * (math.log(2) * out))


@elementwise
def exp10(xp, x):
    """``10 ** x``."""
    return xp.special.exp10(x)


exp10.vjp(x=lambda xp, g, out: g * (math.log(10) * out))


@elementwise
def cbrt(xp, x):
    """Real cube root; its slope at 0 is infinite."""
    return xp.special.cbrt(x)


cbrt.vjp(x=lambda xp, g, out: g / (3 * out * out))


@elementwise
def exprel(xp, x):
    """``(exp(x) - 1) / x``, which is 1 at 0."""
    return xp.special.exprel(x)


_EXPREL_SLOPE = [1 / (math.factorial(k) * (k + 2)) for k in range(14)]


def _exprel_slope(xp, x, out):
    return _near_zero(
        xp,
        x,
        0.3,
        lambda x: _polynomial(_EXPREL_SLOPE, x),
        lambda x: (xp.exp(x) - out) / x,
    )


exprel.vjp(x=lambda xp, g, x, out: g * _exprel_slope(xp, x, out))


@elementwise
def boxcox(xp, x, lmbda):
    """Box-Cox transform ``(x**lmbda - 1) / lmbda``, or ``log(x)`` where ``lmbda`` is 0."""
    return xp.special.boxcox(x, lmbda)


@elementwise
def boxcox1p(xp, x, lmbda):
    """`boxcox` of ``1 + x``, without its loss of digits near 0."""
    return xp.special.boxcox1p(x, lmbda)


def _boxcox_lmbda(xp, g, log, x, lmbda, out):
    x, lmbda = _arrays(xp, x, lmbda)
    log_x = log(x)
    # (x**lmbda * log(x) - out) / lmbda, or near 0 log(x)**2 * exprel'(lmbda * log(x))
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


boxcox.vjp(
    x=lambda xp, g, x, lmbda: g * x ** (lmbda - 1),
    lmbda=lambda xp, g, x, lmbda, out: _boxcox_lmbda(xp, g, xp.log, x, lmbda, out),
)
boxcox1p.vjp(
    x=lambda xp, g, x, lmbda: g * (1 + x) ** (lmbda - 1),
    lmbda=lambda xp, g, x, lmbda, out: _boxcox_lmbda(xp, g, xp.log1p, x, lmbda, out),
)


@elementwise
def inv_boxcox(xp, y, lmbda):
    """Inverse of `boxcox`: ``(1 + lmbda * y) ** (1 / lmbda)``, or ``exp(y)`` where that is 0."""
    return xp.special.inv_boxcox(y, lmbda)


@elementwise
def inv_boxcox1p(xp, y, lmbda):
    """Inverse of `boxcox1p`: ``inv_boxcox(y, lmbda) - 1`` without its loss of digits near 0."""
    return xp.special.inv_boxcox1p(y, lmbda)


_LOG1P_RATIO_SLOPE = [(-1) ** (k + 1) * (k + 1) / (k + 2) for k in range(18)]


def _inv_boxcox_lmbda(xp, g, y, lmbda, power):
    # power = exp(y * f(lmbda * y)) with f(u) = log1p(u) / u
    slope = _near_zero(
        xp,
        lmbda * y,
        0.1,
        lambda u: _polynomial(_LOG1P_RATIO_SLOPE, u),
        lambda u: (1 / (1 + u) - xp.log1p(u) / u) / u,
    )
    return g * power * (y * y * slope)


inv_boxcox.vjp(
    y=lambda xp, g, y, lmbda, out: g * out / (1 + lmbda * y),
    lmbda=lambda xp, g, y, lmbda, out: _inv_boxcox_lmbda(xp, g, y, lmbda, out),
)
inv_boxcox1p.vjp(
    y=lambda xp, g, y, lmbda, out: g * (1 + out) / (1 + lmbda * y),
    lmbda=lambda xp, g, y, lmbda, out: _inv_boxcox_lmbda(xp, g, y, lmbda, 1 + out),
)


# The gamma function and its relatives


@elementwise
def gamma(xp, x):
    """Gamma function; at its poles, 0 and the negative integers, the gradient is nan."""
    return xp.special.gamma(x)


gamma.vjp(x=lambda xp, g, x, out: g * (out * xp.special.psi(x)))


@elementwise
def gammaln(xp, x):
    """Logarithm of the absolute value of the gamma function."""
    return xp.special.gammaln(x)


gammaln.vjp(x=lambda xp, g, x: g * xp.special.psi(x))


@elementwise
def loggamma(xp, x):
    """Logarithm of the gamma function; nan where ``x`` is negative."""
    return xp.special.loggamma(x)


loggamma.vjp(x=lambda xp, g, x: g * xp.special.psi(xp.where(x < 0, math.nan, x)))


@elementwise
def gammasgn(xp, x):
    """Sign of the gamma function. Its gradient is 0 everywhere."""
    return xp.special.gammasgn(x)


gammasgn.vjp(x=no_slope)


@elementwise
def rgamma(xp, x):
    """Reciprocal of the gamma function; it has no pole."""
    return xp.special.rgamma(x)


def _rgamma_x(xp, g, x, out):
    # On the left psi has poles: there by reflection, 1 / gamma(x) = sin(pi x) gamma(1 - x) / pi.
    left = x < 0.5
    x, y = xp.where(left, 1.0, x), xp.where(left, x, 0.0)
    sine = xp.sin(math.pi * y) / math.pi
    reflected = xp.special.gamma(1 - y) * (xp.cos(math.pi * y) - sine * xp.special.psi(1 - y))
    return g * xp.where(left, reflected, -out * xp.special.psi(x))


rgamma.vjp(x=_rgamma_x)


@elementwise
def psi(xp, x):
    """Digamma function, the derivative of `gammaln`; `digamma` is the same."""
    return xp.special.psi(x)


psi.vjp(x=lambda xp, g, x: g * xp.special.zeta(2.0, x))
digamma = psi


@elementwise
def polygamma(xp, n, x):
    """Derivative of `psi` of the order ``n``, of integers, which gets no gradient."""
    return xp.special.polygamma(n, x)


polygamma.vjp(x=lambda xp, g, n, x: g * xp.special.polygamma(n + 1, x))


@elementwise
def zeta(xp, x, q=None):
    """Hurwitz's zeta function, the sum of ``(k + q) ** -x`` over k from 0; Riemann's without ``q``.

    The gradient to the exponent ``x`` comes from differences; it is nan where the result is
    not positive or ``x`` not above 1.
    """
    return 1 + xp.special.zetac(x) if q is None else xp.special.zeta(x, q)


@elementwise
def zetac(xp, x):
    """Riemann's zeta function less 1; its gradient as that of `zeta`."""
    return xp.special.zetac(x)


def _near_pole(x, q=None):
    return (4 / (x - 1)) ** 2


def _zeta_x(xp, g, x, q, out):
    if q is None:
        return _zetac_x(xp, g, x, out - 1)
    slope = _slope(xp, "zeta", 0, (x, q), out, _near_pole)
    return g * xp.where((x > 1) & (out > 0), slope, math.nan)


def _zetac_x(xp, g, x, out):
    return g * xp.where(x > 1, _slope(xp, "zetac", 0, (x,), out, _near_pole), math.nan)


zeta.vjp(x=_zeta_x, q=lambda xp, g, x, q: g * -x * xp.special.zeta(x + 1, q))
zetac.vjp(x=_zetac_x)


@elementwise
def multigammaln(xp, a, /, d):
    """Logarithm of the multivariate gamma function of dimension ``d``, an int from 1.

    nan unless ``a > (d - 1) / 2``.
    """
    total = xp.special.gammaln(a) + 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(1, d):
        total = total + xp.special.gammaln(a - j / 2)
    return xp.where(a > (d - 1) / 2, total, math.nan)


def _multigammaln_a(xp, g, a, d):
    total = xp.special.psi(a)
    for j in range(1, d):
        total = total + xp.special.psi(a - j / 2)
    return g * xp.where(a > (d - 1) / 2, total, math.nan)


multigammaln.vjp(a=_multigammaln_a)


@elementwise
def beta(xp, a, b):
    """Beta function ``gamma(a) * gamma(b) / gamma(a + b)``."""
    return xp.special.beta(a, b)


@elementwise
def betaln(xp, a, b):
    """Logarithm of the absolute value of the beta function."""
    return xp.special.betaln(a, b)


def _betaln_slope(xp, a, b):
    return xp.special.psi(a) - xp.special.psi(a + b)


beta.vjp(
    a=lambda xp, g, a, b, out: g * (out * _betaln_slope(xp, a, b)),
    b=lambda xp, g, a, b, out: g * (out * _betaln_slope(xp, b, a)),
)
betaln.vjp(
    a=lambda xp, g, a, b: g * _betaln_slope(xp, a, b),
    b=lambda xp, g, a, b: g * _betaln_slope(xp, b, a),
)


@elementwise
def poch(xp, z, m):
    """Pochhammer's symbol, the rising factorial ``gamma(z + m) / gamma(z)``."""
    return xp.special.poch(z, m)


poch.vjp(
    z=lambda xp, g, z, m, out: g * (out * (xp.special.psi(z + m) - xp.special.psi(z))),
    m=lambda xp, g, z, m, out: g * (out * xp.special.psi(z + m)),
)


@elementwise
def binom(xp, n, k):
    """Binomial coefficient of real numbers, ``gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1))``.

    Where one of these has a pole, as where ``k`` is an integer above ``n``, a gradient is nan.
    """
    return xp.special.binom(n, k)


def _binom_n(xp, g, n, k, out):
    return g * (out * (xp.special.psi(n + 1) - xp.special.psi(n - k + 1)))


def _binom_k(xp, g, n, k, out):
    return g * (out * (xp.special.psi(n - k + 1) - xp.special.psi(k + 1)))


binom.vjp(n=_binom_n, k=_binom_k)


# Incomplete gamma and beta functions, and the distributions made of them. The slope of each in
# its last argument is a density; that of an inverse is 1 over it, and of an inverse in a
# parameter follows by implicit differentiation.


def _gamma_density(xp, a, x):
    a, x = _arrays(xp, a, x)
    logs = xp.special.xlogy(a - 1, x) - x - xp.special.gammaln(a)
    return xp.where(x == math.inf, 0.0, xp.exp(logs))


def _beta_density(xp, a, b, x):
    a, b, x = _arrays(xp, a, b, x)
    logs = xp.special.xlogy(a - 1, x) + xp.special.xlog1py(b - 1, -x)
    return xp.exp(logs - xp.special.betaln(a, b))


def _f_density(xp, dfn, dfd, x):
    dfn, dfd, x = _arrays(xp, dfn, dfd, x)
    total = dfd + dfn * x
    logs = xp.special.xlogy(dfn / 2 - 1, dfn * x / total)
    logs = logs + xp.special.xlogy(dfd / 2 + 1, dfd / total)
    return dfn / dfd * xp.exp(logs - xp.special.betaln(dfn / 2, dfd / 2))


def _t_density(xp, df, t):
    df, t = _arrays(xp, df, t)
    norm = xp.special.poch(df / 2, 0.5) / xp.sqrt(math.pi * df)
    return norm * xp.exp(-0.5 * (df + 1) * xp.log1p(t * t / df))


def _slope(xp, name, at, arguments, out, concentration=None):
    """The derivative of a positive ``out = xp.special.name(*arguments)`` to one of these by
    differences: to that of index ``at``, a positive parameter.

    Logarithms of the function in that of the parameter are smooth also where it is tiny.
    The width on which they vary is 1, or the inverse root of a distribution's
    ``concentration(*arguments)``; the step is 0.05 of it.
    """
    arguments = _arrays(xp, *arguments)
    function, parameter = getattr(xp.special, name), arguments[at]
    tiny = float(xp.finfo(parameter.dtype).smallest_normal)

    def logarithm(factor):
        arguments[at] = parameter * factor
        return xp.log(xp.maximum(function(*arguments), tiny))

    step = xp.ones_like(parameter)
    if concentration is not None:
        # A power of 2, so that it is constant to a further derivative.
        step = 2.0 ** -xp.ceil(0.5 * xp.log2(1 + concentration(*arguments)))
    step = 0.05 * step
    total = 0.0
    for k, weight in enumerate((4 / 5, -1 / 5, 4 / 105, -1 / 280), 1):
        total = total + weight * (logarithm(xp.exp(k * step)) - logarithm(xp.exp(-k * step)))
    return out * total / (step * parameter)


def _of_gamma(a, x):
    return a


def _of_chi2(v, x):
    return v / 2


def _of_gamma_rate(a, b, x):
    return b


def _of_beta(a, b, x):
    return a * b / (a + b)


def _of_f(dfn, dfd, x):
    return _of_beta(dfn / 2, dfd / 2, x)


@elementwise
def gammainc(xp, a, x):
    """Regularized lower incomplete gamma function."""
    return xp.special.gammainc(a, x)


@elementwise
def gammaincc(xp, a, x):
    """Regularized upper incomplete gamma function, ``1 - gammainc(a, x)``."""
    return xp.special.gammaincc(a, x)


@elementwise
def gammaincinv(xp, a, y):
    """Inverse of `gammainc`: the ``x`` with ``gammainc(a, x) = y``."""
    return xp.special.gammaincinv(a, y)


@elementwise
def gammainccinv(xp, a, y):
    """Inverse of `gammaincc`: the ``x`` with ``gammaincc(a, x) = y``."""
    return xp.special.gammainccinv(a, y)


def _gammaincinv_a(xp, g, a, y, out):
    slope = _slope(xp, "gammainc", 0, (a, out), y, _of_gamma)
    return -g * slope / _gamma_density(xp, a, out)


def _gammainccinv_a(xp, g, a, y, out):
    slope = _slope(xp, "gammaincc", 0, (a, out), y, _of_gamma)
    return g * slope / _gamma_density(xp, a, out)


gammainc.vjp(
    a=lambda xp, g, a, x, out: g * _slope(xp, "gammainc", 0, (a, x), out, _of_gamma),
    x=lambda xp, g, a, x: g * _gamma_density(xp, a, x),
)
gammaincc.vjp(
    a=lambda xp, g, a, x, out: g * _slope(xp, "gammaincc", 0, (a, x), out, _of_gamma),
    x=lambda xp, g, a, x: -g * _gamma_density(xp, a, x),
)
gammaincinv.vjp(a=_gammaincinv_a, y=lambda xp, g, a, out: g / _gamma_density(xp, a, out))
gammainccinv.vjp(a=_gammainccinv_a, y=lambda xp, g, a, out: -g / _gamma_density(xp, a, out))


@elementwise
def betainc(xp, a, b, x):
    """Regularized incomplete beta function."""
    return xp.special.betainc(a, b, x)


@elementwise
def betaincc(xp, a, b, x):
    """Complement of the regularized incomplete beta function, ``1 - betainc(a, b, x)``."""
    return xp.special.betaincc(a, b, x)


@elementwise
def betaincinv(xp, a, b, y):
    """Inverse of `betainc`: the ``x`` with ``betainc(a, b, x) = y``."""
    return xp.special.betaincinv(a, b, y)


def _betaincinv_parameter(xp, g, at, a, b, y, out):
    slope = _slope(xp, "betainc", at, (a, b, out), y, _of_beta)
    return -g * slope / _beta_density(xp, a, b, out)


betainc.vjp(
    a=lambda xp, g, a, b, x, out: g * _slope(xp, "betainc", 0, (a, b, x), out, _of_beta),
    b=lambda xp, g, a, b, x, out: g * _slope(xp, "betainc", 1, (a, b, x), out, _of_beta),
    x=lambda xp, g, a, b, x: g * _beta_density(xp, a, b, x),
)
betaincc.vjp(
    a=lambda xp, g, a, b, x, out: g * _slope(xp, "betaincc", 0, (a, b, x), out, _of_beta),
    b=lambda xp, g, a, b, x, out: g * _slope(xp, "betaincc", 1, (a, b, x), out, _of_beta),
    x=lambda xp, g, a, b, x: -g * _beta_density(xp, a, b, x),
)
betaincinv.vjp(
    a=lambda xp, g, a, b, y, out: _betaincinv_parameter(xp, g, 0, a, b, y, out),
    b=lambda xp, g, a, b, y, out: _betaincinv_parameter(xp, g, 1, a, b, y, out),
    y=lambda xp, g, a, b, out: g / _beta_density(xp, a, b, out),
)


@elementwise
def gdtr(xp, a, b, x):
    """Distribution function of the gamma distribution of rate ``a`` and shape ``b``."""
    return xp.special.gdtr(a, b, x)


@elementwise
def gdtrc(xp, a, b, x):
    """Survival function of the gamma distribution of rate ``a`` and shape ``b``."""
    return xp.special.gdtrc(a, b, x)


gdtr.vjp(
    a=lambda xp, g, a, b, x: g * x * _gamma_density(xp, b, a * x),
    b=lambda xp, g, a, b, x, out: g * _slope(xp, "gdtr", 1, (a, b, x), out, _of_gamma_rate),
    x=lambda xp, g, a, b, x: g * a * _gamma_density(xp, b, a * x),
)
gdtrc.vjp(
    a=lambda xp, g, a, b, x: -g * x * _gamma_density(xp, b, a * x),
    b=lambda xp, g, a, b, x, out: g * _slope(xp, "gdtrc", 1, (a, b, x), out, _of_gamma_rate),
    x=lambda xp, g, a, b, x: -g * a * _gamma_density(xp, b, a * x),
)


@elementwise
def chdtr(xp, v, x):
    """Distribution function of the chi-square distribution of ``v`` degrees of freedom."""
    return xp.special.chdtr(v, x)


@elementwise
def chdtrc(xp, v, x):
    """Survival function of the chi-square distribution of ``v`` degrees of freedom."""
    return xp.special.chdtrc(v, x)


@elementwise
def chdtri(xp, v, p):
    """Inverse of `chdtrc`: the ``x`` with ``chdtrc(v, x) = p``."""
    return xp.special.chdtri(v, p)


def _chi2_density(xp, v, x):
    return 0.5 * _gamma_density(xp, v / 2, x / 2)


def _chdtri_v(xp, g, v, p, out):
    return g * _slope(xp, "chdtrc", 0, (v, out), p, _of_chi2) / _chi2_density(xp, v, out)


chdtr.vjp(
    v=lambda xp, g, v, x, out: g * _slope(xp, "chdtr", 0, (v, x), out, _of_chi2),
    x=lambda xp, g, v, x: g * _chi2_density(xp, v, x),
)
chdtrc.vjp(
    v=lambda xp, g, v, x, out: g * _slope(xp, "chdtrc", 0, (v, x), out, _of_chi2),
    x=lambda xp, g, v, x: -g * _chi2_density(xp, v, x),
)
chdtri.vjp(v=_chdtri_v, p=lambda xp, g, v, out: -g / _chi2_density(xp, v, out))


@elementwise
def fdtr(xp, dfn, dfd, x):
    """Distribution function of the F distribution of ``dfn`` and ``dfd`` degrees of freedom."""
    return xp.special.fdtr(dfn, dfd, x)


@elementwise
def fdtrc(xp, dfn, dfd, x):
    """Survival function of the F distribution of ``dfn`` and ``dfd`` degrees of freedom."""
    return xp.special.fdtrc(dfn, dfd, x)


@elementwise
def fdtri(xp, dfn, dfd, p):
    """Inverse of `fdtr`: the ``x`` with ``fdtr(dfn, dfd, x) = p``."""
    return xp.special.fdtri(dfn, dfd, p)


def _fdtri_parameter(xp, g, at, dfn, dfd, p, out):
    slope = _slope(xp, "fdtr", at, (dfn, dfd, out), p, _of_f)
    return -g * slope / _f_density(xp, dfn, dfd, out)


fdtr.vjp(
    dfn=lambda xp, g, dfn, dfd, x, out: g * _slope(xp, "fdtr", 0, (dfn, dfd, x), out, _of_f),
    dfd=lambda xp, g, dfn, dfd, x, out: g * _slope(xp, "fdtr", 1, (dfn, dfd, x), out, _of_f),
    x=lambda xp, g, dfn, dfd, x: g * _f_density(xp, dfn, dfd, x),
)
fdtrc.vjp(
    dfn=lambda xp, g, dfn, dfd, x, out: g * _slope(xp, "fdtrc", 0, (dfn, dfd, x), out, _of_f),
    dfd=lambda xp, g, dfn, dfd, x, out: g * _slope(xp, "fdtrc", 1, (dfn, dfd, x), out, _of_f),
    x=lambda xp, g, dfn, dfd, x: -g * _f_density(xp, dfn, dfd, x),
)
fdtri.vjp(
    dfn=lambda xp, g, dfn, dfd, p, out: _fdtri_parameter(xp, g, 0, dfn, dfd, p, out),
    dfd=lambda xp, g, dfn, dfd, p, out: _fdtri_parameter(xp, g, 1, dfn, dfd, p, out),
    p=lambda xp, g, dfn, dfd, out: g / _f_density(xp, dfn, dfd, out),
)


@elementwise
def stdtr(xp, df, t):
    """Distribution function of Student's t distribution of ``df`` degrees of freedom."""
    return xp.special.stdtr(df, t)


@elementwise
def stdtrit(xp, df, p):
    """Inverse of `stdtr`: the ``t`` with ``stdtr(df, t) = p``."""
    return xp.special.stdtrit(df, p)


def _stdtrit_df(xp, g, df, p, out):
    return -g * _slope(xp, "stdtr", 0, (df, out), p) / _t_density(xp, df, out)


stdtr.vjp(
    df=lambda xp, g, df, t, out: g * _slope(xp, "stdtr", 0, (df, t), out),
    t=lambda xp, g, df, t: g * _t_density(xp, df, t),
)
stdtrit.vjp(df=_stdtrit_df, p=lambda xp, g, df, out: g / _t_density(xp, df, out))


@elementwise(integer=("n",))
def bdtr(xp, k, n, p):
    """Binomial distribution function: at most ``floor(k)`` of ``n`` trials of probability ``p``.

    The gradient to ``k`` is 0; to ``n``, of integers, there is none.
    """
    return xp.special.bdtr(k, n, p)


@elementwise(integer=("n",))
def bdtrc(xp, k, n, p):
    """Binomial survival function: more than ``floor(k)`` of ``n`` trials of probability ``p``.

    The gradient to ``k`` is 0; to ``n``, of integers, there is none.
    """
    return xp.special.bdtrc(k, n, p)


@elementwise(integer=("n",))
def bdtri(xp, k, n, y):
    """Inverse of `bdtr`: the ``p`` with ``bdtr(k, n, p) = y``. It differs in ``y`` alone."""
    return xp.special.bdtri(k, n, y)


def _binomial_density(xp, k, n, p):
    if hasattr(n, "dtype"):
        n = xp.astype(n, p.dtype)
    k, n, p = _arrays(xp, k, n, p)
    k = xp.floor(k)
    return _beta_density(xp, k + 1, n - k, p)


bdtr.vjp(k=no_slope, p=lambda xp, g, k, n, p: -g * _binomial_density(xp, k, n, p))
bdtrc.vjp(k=no_slope, p=lambda xp, g, k, n, p: g * _binomial_density(xp, k, n, p))
bdtri.vjp(k=no_slope, y=lambda xp, g, k, n, out: -g / _binomial_density(xp, k, n, out))


@elementwise
def nbdtr(xp, k, n, p):
    """Negative binomial distribution function: at most ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success; the counts, of integers, get no gradient.
    """
    return xp.special.nbdtr(k, n, p)


@elementwise
def nbdtrc(xp, k, n, p):
    """Negative binomial survival function: more than ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success; the counts, of integers, get no gradient.
    """
    return xp.special.nbdtrc(k, n, p)


@elementwise
def nbdtri(xp, k, n, y):
    """Inverse of `nbdtr`: the ``p`` with ``nbdtr(k, n, p) = y``; counts get no gradient."""
    return xp.special.nbdtri(k, n, y)


nbdtr.vjp(p=lambda xp, g, k, n, p: g * _beta_density(xp, n, k + 1, p))
nbdtrc.vjp(p=lambda xp, g, k, n, p: -g * _beta_density(xp, n, k + 1, p))
nbdtri.vjp(y=lambda xp, g, k, n, out: g / _beta_density(xp, n, k + 1, out))


@elementwise
def pdtr(xp, k, m):
    """Poisson distribution function: at most ``floor(k)`` events where ``m`` are expected.

    The gradient to ``k`` is 0.
    """
    return xp.special.pdtr(k, m)


@elementwise
def pdtrc(xp, k, m):
    """Poisson survival function: more than ``floor(k)`` events where ``m`` are expected.

    The gradient to ``k`` is 0.
    """
    return xp.special.pdtrc(k, m)


@elementwise
def pdtri(xp, k, y):
    """Inverse of `pdtr`: the ``m`` with ``pdtr(k, m) = y``. Counts ``k`` get no gradient."""
    return xp.special.pdtri(k, y)


def _poisson_density(xp, k, m):
    k, m = _arrays(xp, k, m)
    return _gamma_density(xp, xp.floor(k) + 1, m)


pdtr.vjp(k=no_slope, m=lambda xp, g, k, m: -g * _poisson_density(xp, k, m))
pdtrc.vjp(k=no_slope, m=lambda xp, g, k, m: g * _poisson_density(xp, k, m))
pdtri.vjp(y=lambda xp, g, k, out: -g / _poisson_density(xp, k, out))


# Bessel functions


def _ratio(xp, x, out, coefficients, scale=None):
    """``out / x`` of an odd function, given the series of that in ``x**2`` over ``scale(x)``.

    1 / x turns small errors of the function into large ones of the ratio's derivatives.
    """

    def series(x):
        total = _polynomial(coefficients, x * x)
        return total if scale is None else scale(x) * total

    return _near_zero(xp, x, 1.0, series, lambda x: out / x)


_J1 = [(-1) ** k / (2 * 4**k * math.factorial(k) * math.factorial(k + 1)) for k in range(11)]
_I1 = [abs(c) for c in _J1]


@elementwise
def j0(xp, x):
    """Bessel function of the first kind of order 0."""
    return xp.special.j0(x)


@elementwise
def j1(xp, x):
    """Bessel function of the first kind of order 1."""
    return xp.special.j1(x)


@elementwise
def y0(xp, x):
    """Bessel function of the second kind of order 0; -inf at 0, nan below."""
    return xp.special.y0(x)


@elementwise
def y1(xp, x):
    """Bessel function of the second kind of order 1; -inf at 0, nan below."""
    return xp.special.y1(x)


@elementwise
def yn(xp, n, x):
    """Bessel function of the second kind of the integer order ``n``, which gets no gradient."""
    return xp.special.yn(n, x)


def _j1_x(xp, g, x, out):
    return g * (xp.special.j0(x) - _ratio(xp, x, out, _J1))


j0.vjp(x=lambda xp, g, x: -g * xp.special.j1(x))
j1.vjp(x=_j1_x)
y0.vjp(x=lambda xp, g, x: -g * xp.special.y1(x))
y1.vjp(x=lambda xp, g, x, out: g * (xp.special.y0(x) - out / x))
yn.vjp(x=lambda xp, g, n, x, out: g * (xp.special.yn(n - 1, x) - n * out / x))


@elementwise
def i0(xp, x):
    """Modified Bessel function of the first kind of order 0."""
    return xp.special.i0(x)


@elementwise
def i0e(xp, x):
    """`i0` scaled by ``exp(-abs(x))``; the gradient at 0, a kink, is 0."""
    return xp.special.i0e(x)


@elementwise
def i1(xp, x):
    """Modified Bessel function of the first kind of order 1."""
    return xp.special.i1(x)


@elementwise
def i1e(xp, x):
    """`i1` scaled by ``exp(-abs(x))``."""
    return xp.special.i1e(x)


def _i1_x(xp, g, x, out):
    return g * (xp.special.i0(x) - _ratio(xp, x, out, _I1))


def _i1e_x(xp, g, x, out):
    ratio = _ratio(xp, x, out, _I1, lambda x: xp.exp(-xp.abs(x)))
    return g * (xp.special.i0e(x) - xp.sign(x) * out - ratio)


i0.vjp(x=lambda xp, g, x: g * xp.special.i1(x))
i0e.vjp(x=lambda xp, g, x, out: g * (xp.special.i1e(x) - xp.sign(x) * out))
i1.vjp(x=_i1_x)
i1e.vjp(x=_i1e_x)


@elementwise
def k0(xp, x):
    """Modified Bessel function of the second kind of order 0; inf at 0, nan below."""
    return xp.special.k0(x)


@elementwise
def k0e(xp, x):
    """`k0` scaled by ``exp(x)``."""
    return xp.special.k0e(x)


@elementwise
def k1(xp, x):
    """Modified Bessel function of the second kind of order 1; inf at 0, nan below."""
    return xp.special.k1(x)


@elementwise
def k1e(xp, x):
    """`k1` scaled by ``exp(x)``."""
    return xp.special.k1e(x)


k0.vjp(x=lambda xp, g, x: -g * xp.special.k1(x))
k0e.vjp(x=lambda xp, g, x, out: g * (out - xp.special.k1e(x)))
k1.vjp(x=lambda xp, g, x, out: -g * (xp.special.k0(x) + out / x))
k1e.vjp(x=lambda xp, g, x, out: g * (out - xp.special.k0e(x) - out / x))


# Exponential integrals, elliptic integrals, hypergeometric and Legendre functions


@elementwise
def exp1(xp, x):
    """Exponential integral of ``exp(-t) / t`` from ``x`` to infinity; nan below 0."""
    return xp.special.exp1(x)


exp1.vjp(x=lambda xp, g, x: -g * xp.exp(-x) / x)


@elementwise
def expi(xp, x):
    """Exponential integral of ``exp(t) / t`` from minus infinity to ``x``; -inf at 0."""
    return xp.special.expi(x)


expi.vjp(x=lambda xp, g, x: g * xp.exp(x) / x)


@elementwise
def expn(xp, n, x):
    """Exponential integral of ``exp(-x * t) / t**n`` from 1 to infinity.

    Its order ``n``, of integers from 0, gets no gradient.
    """
    return xp.special.expn(n, x)


def _expn_x(xp, g, n, x):
    (n, x) = _arrays(xp, n, x)
    # That of order -1, which SciPy has not, is exp(-x) * (1 + 1 / x) / x.
    below = xp.special.expn(xp.where(n < 1, 0.0, n - 1), x)
    return -g * xp.where(n < 1, below * (1 + 1 / x), below)


expn.vjp(x=_expn_x)


@elementwise
def spence(xp, z):
    """Dilogarithm: the integral of ``log(t) / (1 - t)`` from 1 to ``z``; nan below 0."""
    return xp.special.spence(z)


_LOG1P_RATIO = [(-1) ** k / (k + 1) for k in range(18)]


def _spence_z(xp, g, z):
    return -g * _near_zero(
        xp,
        z - 1,
        0.1,
        lambda u: _polynomial(_LOG1P_RATIO, u),
        lambda u: xp.log1p(u) / u,
    )


spence.vjp(z=_spence_z)


@elementwise
def ellipk(xp, m):
    """Complete elliptic integral of the first kind of the parameter ``m``, inf at 1."""
    return xp.special.ellipk(m)


@elementwise
def ellipkm1(xp, p):
    """`ellipk` of ``1 - p``, without its loss of digits near 0."""
    return xp.special.ellipkm1(p)


def _ellipk_slope(xp, m, p):
    # Euler's transformation of pi/8 * 2F1(3/2, 3/2; 2; m), for p = 1 - m
    return math.pi / 8 * xp.special.hyp2f1(0.5, 0.5, 2.0, m) / p


ellipk.vjp(m=lambda xp, g, m: g * _ellipk_slope(xp, m, 1 - m))
ellipkm1.vjp(p=lambda xp, g, p: -g * _ellipk_slope(xp, 1 - p, p))


@elementwise
def hyp1f1(xp, a, b, x):
    """Confluent hypergeometric function 1F1; its parameters ``a`` and ``b`` get no gradient."""
    return xp.special.hyp1f1(a, b, x)


hyp1f1.vjp(x=lambda xp, g, a, b, x: g * (a / b) * xp.special.hyp1f1(a + 1, b + 1, x))


@elementwise
def hyp2f1(xp, a, b, c, z):
    """Gauss's hypergeometric function 2F1; its parameters get no gradient, only ``z`` does."""
    return xp.special.hyp2f1(a, b, c, z)


def _hyp2f1_z(xp, g, a, b, c, z):
    return g * (a * b / c) * xp.special.hyp2f1(a + 1, b + 1, c + 1, z)


hyp2f1.vjp(z=_hyp2f1_z)


@elementwise
def lpmv(xp, m, v, x):
    """Associated Legendre function of integer order ``m`` and real degree ``v``.

    These get no gradient. At -1 and 1 that to ``x`` is nan.
    """
    return xp.special.lpmv(m, v, x)


def _lpmv_x(xp, g, m, v, x, out):
    return g * (v * x * out - (v + m) * xp.special.lpmv(m, v - 1, x)) / (x * x - 1)


lpmv.vjp(x=_lpmv_x)


# Trigonometry, of degrees and of small differences


@elementwise
def sindg(xp, x):
    """Sine of degrees."""
    return xp.special.sindg(x)


@elementwise
def cosdg(xp, x):
    """Cosine of degrees."""
    return xp.special.cosdg(x)


@elementwise
def tandg(xp, x):
    """Tangent of degrees."""
    return xp.special.tandg(x)


@elementwise
def cotdg(xp, x):
    """Cotangent of degrees."""
    return xp.special.cotdg(x)


sindg.vjp(x=lambda xp, g, x: g * (DEGREE * xp.special.cosdg(x)))
cosdg.vjp(x=lambda xp, g, x: g * (-DEGREE * xp.special.sindg(x)))
tandg.vjp(x=lambda xp, g, out: g * (DEGREE * (1 + out * out)))
cotdg.vjp(x=lambda xp, g, out: g * (-DEGREE * (1 + out * out)))


@elementwise
def radian(xp, d, m, s):
    """The radians of ``d`` degrees, ``m`` minutes and ``s`` seconds."""
    return xp.special.radian(d, m, s)


radian.vjp(
    d=lambda xp, g: g * DEGREE,
    m=lambda xp, g: g * (DEGREE / 60),
    s=lambda xp, g: g * (DEGREE / 3600),
)


@elementwise
def cosm1(xp, x):
    """``cos(x) - 1`` without its loss of digits near 0."""
    return xp.special.cosm1(x)


cosm1.vjp(x=lambda xp, g, x: -g * xp.sin(x))


@elementwise
def sinc(xp, x):
    """``sin(pi * x) / (pi * x)``, which is 1 at 0."""
    return xp.special.sinc(x)


_SINC_SLOPE = [
    (-1) ** (k + 1) * math.pi ** (2 * k + 2) * (2 * k + 2) / math.factorial(2 * k + 3)
    for k in range(13)
]


def _sinc_x(xp, g, x, out):
    return g * _near_zero(
        xp,
        x,
        0.5,
        lambda x: x * _polynomial(_SINC_SLOPE, x * x),
        lambda x: (xp.cos(math.pi * x) - out) / x,
    )


sinc.vjp(x=_sinc_x)


# Functions of whole axes: the library's own, with SciPy's arguments


@composite
def softmax(x, axis=None):
    """`gpugrad.softmax`, over all elements by default: ``exp(x) / sum(exp(x))``."""
    return neural.softmax(x, axis)


@composite
def log_softmax(x, axis=None):
    """`gpugrad.log_softmax`, over all elements by default: ``log(softmax(x))``."""
    return neural.log_softmax(x, axis)


@op
def _logsumexp(xp, a, b, /, axis):
    """``log(abs(total))`` and ``sign(total)`` of ``total = sum(b * exp(a))``, with axes kept."""
    a, b = xp.broadcast_arrays(*_filled(xp, a, b))
    used = xp.where(b == 0, -math.inf, a)
    top = xp.max(used, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0.0)
    total = xp.sum(b * xp.exp(used - top), axis=axis, keepdims=True)
    return xp.log(xp.abs(total)) + top, xp.sign(total)


def _logsumexp_b(xp, g, a, b, out):
    a, _ = xp.broadcast_arrays(*_filled(xp, a, b))
    log, sign = out
    return g[0] * sign * xp.exp(xp.where(a == log, 0.0, a - log))  # inf - inf would be nan


def _logsumexp_a(xp, g, a, b, out):
    a, b = _filled(xp, a, b)
    return xp.where(b == 0, 0.0, b * _logsumexp_b(xp, g, a, b, out))


_logsumexp.vjp(a=_logsumexp_a, b=_logsumexp_b)


def _logsumexp_of_batch(call, batched, a, b, axis):
    a, b = aligned(batched, (a, b))
    ndim = max(x.ndim for x, is_batched in zip((a, b), batched, strict=True) if is_batched) - 1
    if not ndim:  # as one of an axis of length 1
        operands = [
            expand_dims(x, 1) if is_batched else x
            for x, is_batched in zip((a, b), batched, strict=True)
        ]
        return tuple([squeeze(y, 1) for y in call(*operands, 1)])
    return call(a, b, shifted(call.op, axis, ndim))


_logsumexp.vmap(_logsumexp_of_batch)


@composite
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    """``log(sum(b * exp(a)))`` without overflow; the weights ``b`` are 1 by default.

    axis: None (all axes), an int or a tuple.
    b: broadcasts with ``a``; where it is 0, that may be inf.
    return_sign: return the logarithm of the sum's absolute value, and its sign;
        else the logarithm of a negative sum is nan.
    """
    if b is None and not return_sign:
        return reductions.logsumexp(a, axis, keepdims=keepdims)
    log, sign = _logsumexp(a, 1.0 if b is None else b, axis)
    if not keepdims:
        axes = tuple(range(log.ndim)) if axis is None else axis
        log, sign = squeeze(log, axes), squeeze(sign, axes)
    return (log, sign) if return_sign else where(sign < 0, math.nan, log)
