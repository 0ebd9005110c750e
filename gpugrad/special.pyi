# Written by tests/write_stubs.py.

from typing import Literal, overload

from ._tensor import Tensor as Tensor
from ._typing import Array

def bdtr(k: Array | complex, n: Array | complex, p: Array | complex) -> Tensor:
    """Binomial distribution function: at most ``floor(k)`` successes in ``n`` trials.

    ``p`` is the probability of a success. The gradient to ``k`` is 0; the integers ``n`` get none.
    """

def bdtrc(k: Array | complex, n: Array | complex, p: Array | complex) -> Tensor:
    """Binomial survival function: more than ``floor(k)`` successes in ``n`` trials.

    ``p`` is the probability of a success. The gradient to ``k`` is 0; the integers ``n`` get none.
    """

def bdtri(k: Array | complex, n: Array | complex, y: Array | complex) -> Tensor:
    """Inverse of `bdtr`: the ``p`` with ``bdtr(k, n, p) = y``.

    The gradient to ``k`` is 0; the integers ``n`` get no gradient.
    """

def beta(a: Array | complex, b: Array | complex, /) -> Tensor:
    """Beta function ``gamma(a) * gamma(b) / gamma(a + b)``."""

def betainc(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Regularized incomplete beta function."""

def betaincc(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Complement of the regularized incomplete beta function, ``1 - betainc(a, b, x)``."""

def betaincinv(a: Array | complex, b: Array | complex, y: Array | complex) -> Tensor:
    """Inverse of `betainc`: the ``x`` with ``betainc(a, b, x) = y``."""

def betaln(a: Array | complex, b: Array | complex, /) -> Tensor:
    """Logarithm of the absolute value of the beta function."""

def binom(n: Array | complex, k: Array | complex, /) -> Tensor:
    """Binomial coefficient of real numbers, ``gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1))``.

    A gradient is nan where one of these has a pole, such as where ``n - k`` is a negative integer.
    """

def boxcox(x: Array | complex, lmbda: Array | complex, /) -> Tensor:
    """Box-Cox transform ``(x**lmbda - 1) / lmbda``, or ``log(x)`` where ``lmbda`` is 0."""

def boxcox1p(x: Array | complex, lmbda: Array | complex, /) -> Tensor:
    """``boxcox(1 + x, lmbda)``, without loss of digits near 0."""

def cbrt(x: Array, /) -> Tensor:
    """Real cube root; its slope at 0 is infinite."""

def chdtr(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Distribution function of the chi-square distribution with ``v`` degrees of freedom."""

def chdtrc(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Survival function of the chi-square distribution with ``v`` degrees of freedom."""

def chdtri(v: Array | complex, p: Array | complex, /) -> Tensor:
    """Inverse of `chdtrc`: the ``x`` with ``chdtrc(v, x) = p``."""

def cosdg(x: Array, /) -> Tensor:
    """Cosine of an angle in degrees."""

def cosm1(x: Array, /) -> Tensor:
    """``cos(x) - 1``, without loss of digits near 0."""

def cotdg(x: Array, /) -> Tensor:
    """Cotangent of an angle in degrees."""

def digamma(x: Array, /) -> Tensor:
    """Digamma function, the derivative of `gammaln`; also named `digamma`."""

def ellipk(m: Array, /) -> Tensor:
    """Complete elliptic integral of the first kind with parameter ``m``; inf at 1."""

def ellipkm1(p: Array, /) -> Tensor:
    """``ellipk(1 - p)``, without loss of digits near 0."""

def entr(x: Array, /) -> Tensor:
    """Entropy ``-x * log(x)``: 0 at 0, where its slope is infinite, and -inf below."""

def erf(x: Array, /) -> Tensor:
    """Error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to ``x``."""

def erfc(x: Array, /) -> Tensor:
    """Complementary error function, ``1 - erf(x)`` without loss of digits."""

def erfcinv(x: Array, /) -> Tensor:
    """Inverse of `erfc`; value and slope are infinite at 0 and 2."""

def erfcx(x: Array, /) -> Tensor:
    """Scaled complementary error function, ``exp(x**2) * erfc(x)``."""

def erfinv(x: Array, /) -> Tensor:
    """Inverse of `erf`; value and slope are infinite at -1 and 1."""

def exp1(x: Array, /) -> Tensor:
    """Exponential integral: the integral of ``exp(-t) / t`` from ``x`` to infinity; nan below 0."""

def exp10(x: Array, /) -> Tensor:
    """``10 ** x``."""

def exp2(x: Array, /) -> Tensor:
    """``2 ** x``."""

def expi(x: Array, /) -> Tensor:
    """Exponential integral: the integral of ``exp(t) / t`` from -inf to ``x``; -inf at 0."""

def expit(x: Array, /) -> Tensor:
    """Logistic function ``1 / (1 + exp(-x))``, the same as `gpugrad.sigmoid`."""

def expn(n: Array | complex, x: Array | complex, /) -> Tensor:
    """Exponential integral: the integral of ``exp(-x * t) / t**n`` from 1 to infinity.

    The order ``n``, a non-negative integer, gets no gradient.
    """

def exprel(x: Array, /) -> Tensor:
    """``(exp(x) - 1) / x``, which is 1 at 0."""

def fdtr(dfn: Array | complex, dfd: Array | complex, x: Array | complex) -> Tensor:
    """Distribution function of the F distribution with ``dfn`` and ``dfd`` degrees of freedom."""

def fdtrc(dfn: Array | complex, dfd: Array | complex, x: Array | complex) -> Tensor:
    """Survival function of the F distribution with ``dfn`` and ``dfd`` degrees of freedom."""

def fdtri(dfn: Array | complex, dfd: Array | complex, p: Array | complex) -> Tensor:
    """Inverse of `fdtr`: the ``x`` with ``fdtr(dfn, dfd, x) = p``."""

def gamma(x: Array, /) -> Tensor:
    """Gamma function; at its poles, 0 and the negative integers, the gradient is nan."""

def gammainc(a: Array | complex, x: Array | complex, /) -> Tensor:
    """Regularized lower incomplete gamma function."""

def gammaincc(a: Array | complex, x: Array | complex, /) -> Tensor:
    """Regularized upper incomplete gamma function, ``1 - gammainc(a, x)``."""

def gammainccinv(a: Array | complex, y: Array | complex, /) -> Tensor:
    """Inverse of `gammaincc`: the ``x`` with ``gammaincc(a, x) = y``."""

def gammaincinv(a: Array | complex, y: Array | complex, /) -> Tensor:
    """Inverse of `gammainc`: the ``x`` with ``gammainc(a, x) = y``."""

def gammaln(x: Array, /) -> Tensor:
    """Logarithm of the absolute value of the gamma function."""

def gammasgn(x: Array, /) -> Tensor:
    """Sign of the gamma function. Its gradient is 0 everywhere."""

def gdtr(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Distribution function of the gamma distribution with rate ``a`` and shape ``b``."""

def gdtrc(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Survival function of the gamma distribution with rate ``a`` and shape ``b``."""

def huber(delta: Array | complex, r: Array | complex, /) -> Tensor:
    """Huber's loss: ``r**2 / 2`` up to ``abs(r) = delta``, and linear beyond.

    It is inf where ``delta`` is negative. Where the two pieces meet, second derivatives are those
    of the linear piece.
    """

def hyp1f1(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Confluent hypergeometric function 1F1; its parameters ``a`` and ``b`` get no gradient."""

def hyp2f1(
    a: Array | complex, b: Array | complex, c: Array | complex, z: Array | complex
) -> Tensor:
    """Gauss's hypergeometric function 2F1; its parameters get no gradient, only ``z`` does."""

def i0(x: Array, /) -> Tensor:
    """Modified Bessel function of the first kind of order 0."""

def i0e(x: Array, /) -> Tensor:
    """`i0` scaled by ``exp(-abs(x))``; the gradient at 0, a kink, is 0."""

def i1(x: Array, /) -> Tensor:
    """Modified Bessel function of the first kind of order 1."""

def i1e(x: Array, /) -> Tensor:
    """`i1` scaled by ``exp(-abs(x))``."""

def inv_boxcox(y: Array | complex, lmbda: Array | complex, /) -> Tensor:
    """Inverse of `boxcox`: ``(1 + lmbda * y)**(1 / lmbda)``, or ``exp(y)`` where ``lmbda`` is 0."""

def inv_boxcox1p(y: Array | complex, lmbda: Array | complex, /) -> Tensor:
    """Inverse of `boxcox1p`: ``inv_boxcox(y, lmbda) - 1``, without loss of digits near 0."""

def iv(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Modified Bessel function of the first kind of real order ``v``, which gets no gradient."""

def ive(v: Array | complex, x: Array | complex, /) -> Tensor:
    """`iv` scaled by ``exp(-abs(x))``; the order gets no gradient."""

def j0(x: Array, /) -> Tensor:
    """Bessel function of the first kind of order 0."""

def j1(x: Array, /) -> Tensor:
    """Bessel function of the first kind of order 1."""

def jv(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Bessel function of the first kind of real order ``v``, which gets no gradient."""

def k0(x: Array, /) -> Tensor:
    """Modified Bessel function of the second kind of order 0; inf at 0, nan below."""

def k0e(x: Array, /) -> Tensor:
    """`k0` scaled by ``exp(x)``."""

def k1(x: Array, /) -> Tensor:
    """Modified Bessel function of the second kind of order 1; inf at 0, nan below."""

def k1e(x: Array, /) -> Tensor:
    """`k1` scaled by ``exp(x)``."""

def kl_div(x: Array | complex, y: Array | complex, /) -> Tensor:
    """Terms of the Kullback-Leibler divergence, ``rel_entr(x, y) - x + y``.

    Where ``x`` is 0, the gradient to ``y`` is 1; where both are 0, the gradient to ``x`` is 0.
    """

def kv(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Modified Bessel function of the second kind of real order ``v``, which gets no gradient."""

def kve(v: Array | complex, x: Array | complex, /) -> Tensor:
    """`kv` scaled by ``exp(x)``; the order gets no gradient."""

def log_expit(x: Array, /) -> Tensor:
    """Logarithm of `expit`, without overflow."""

def log_ndtr(x: Array, /) -> Tensor:
    """Logarithm of `ndtr`; value and derivatives keep their digits far into the tail."""

def log_softmax(x: Array, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """``log(softmax(x))``, as `gpugrad.log_softmax`, but by default over all elements."""

def loggamma(x: Array, /) -> Tensor:
    """Logarithm of the gamma function; nan where ``x`` is negative."""

def logit(x: Array, /) -> Tensor:
    """Inverse of `expit`, ``log(x / (1 - x))``; value and slope are infinite at 0 and 1."""

@overload
def logsumexp(
    a: Array,
    axis: int | tuple[int, ...] | None = None,
    b: Array | complex | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
) -> Tensor:
    """``log(sum(b * exp(a)))`` without overflow; the weights ``b`` are 1 by default.

    axis: None (all axes), an int or a tuple.
    b: broadcasts with ``a``; where ``b`` is 0, ``a`` may be inf.
    return_sign: whether to return the logarithm of the sum's absolute value, and the sum's sign.
        Otherwise the logarithm of a negative sum is nan.
    """

@overload
def logsumexp(
    a: Array,
    axis: int | tuple[int, ...] | None = None,
    b: Array | complex | None = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
) -> tuple[Tensor, Tensor]:
    """``log(sum(b * exp(a)))`` without overflow; the weights ``b`` are 1 by default.

    axis: None (all axes), an int or a tuple.
    b: broadcasts with ``a``; where ``b`` is 0, ``a`` may be inf.
    return_sign: whether to return the logarithm of the sum's absolute value, and the sum's sign.
        Otherwise the logarithm of a negative sum is nan.
    """

def lpmv(m: Array | complex, v: Array | complex, x: Array | complex) -> Tensor:
    """Associated Legendre function of integer order ``m`` and real degree ``v``.

    Order and degree get no gradient. The gradient to ``x`` is nan at -1 and 1.
    """

def multigammaln(a: Array, /, d: int) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension ``d``, a positive int.

    It is nan unless ``a > (d - 1) / 2``.
    """

def nbdtr(k: Array | complex, n: Array | complex, p: Array | complex) -> Tensor:
    """Negative binomial distribution function: at most ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success. The integer counts ``k`` and ``n`` get no gradient.
    """

def nbdtrc(k: Array | complex, n: Array | complex, p: Array | complex) -> Tensor:
    """Negative binomial survival function: more than ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success. The integer counts ``k`` and ``n`` get no gradient.
    """

def nbdtri(k: Array | complex, n: Array | complex, y: Array | complex) -> Tensor:
    """Inverse of `nbdtr`: the ``p`` with ``nbdtr(k, n, p) = y``. The counts get no gradient."""

def ndtr(x: Array, /) -> Tensor:
    """Distribution function of the standard normal distribution."""

def ndtri(y: Array, /) -> Tensor:
    """Inverse of `ndtr`, the normal quantile; value and slope are infinite at 0 and 1."""

def pdtr(k: Array | complex, m: Array | complex, /) -> Tensor:
    """Poisson distribution function: at most ``floor(k)`` events if ``m`` are expected.

    The gradient to ``k`` is 0.
    """

def pdtrc(k: Array | complex, m: Array | complex, /) -> Tensor:
    """Poisson survival function: more than ``floor(k)`` events if ``m`` are expected.

    The gradient to ``k`` is 0.
    """

def pdtri(k: Array | complex, y: Array | complex, /) -> Tensor:
    """Inverse of `pdtr`: the ``m`` with ``pdtr(k, m) = y``. The count ``k`` gets no gradient."""

def poch(z: Array | complex, m: Array | complex, /) -> Tensor:
    """Pochhammer's symbol, the rising factorial ``gamma(z + m) / gamma(z)``."""

def polygamma(n: Array | complex, x: Array | complex, /) -> Tensor:
    """The ``n``-th derivative of `psi`; the integer order ``n`` gets no gradient."""

def pseudo_huber(delta: Array | complex, r: Array | complex, /) -> Tensor:
    """Smooth form of Huber's loss, ``delta**2 * (sqrt(1 + (r / delta)**2) - 1)``."""

def psi(x: Array, /) -> Tensor:
    """Digamma function, the derivative of `gammaln`; also named `digamma`."""

def radian(d: Array | complex, m: Array | complex, s: Array | complex) -> Tensor:
    """The angle of ``d`` degrees, ``m`` minutes and ``s`` seconds, in radians."""

def rel_entr(x: Array | complex, y: Array | complex, /) -> Tensor:
    """Relative entropy ``x * log(x / y)``: 0 where ``x`` is 0, inf where either is negative.

    Where ``x`` is 0, the gradient to ``y`` is 0; where both are 0, the gradient to ``x`` is 1.
    """

def rgamma(x: Array, /) -> Tensor:
    """Reciprocal of the gamma function, which has no poles."""

def sinc(x: Array, /) -> Tensor:
    """``sin(pi * x) / (pi * x)``, which is 1 at 0."""

def sindg(x: Array, /) -> Tensor:
    """Sine of an angle in degrees."""

def softmax(x: Array, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """``exp(x) / sum(exp(x))``, as `gpugrad.softmax`, but by default over all elements."""

def spence(z: Array, /) -> Tensor:
    """Dilogarithm: the integral of ``log(t) / (1 - t)`` from 1 to ``z``; nan below 0."""

def stdtr(df: Array | complex, t: Array | complex, /) -> Tensor:
    """Distribution function of Student's t distribution with ``df`` degrees of freedom."""

def stdtrit(df: Array | complex, p: Array | complex, /) -> Tensor:
    """Inverse of `stdtr`: the ``t`` with ``stdtr(df, t) = p``."""

def tandg(x: Array, /) -> Tensor:
    """Tangent of an angle in degrees."""

def xlog1py(x: Array | complex, y: Array | complex, /) -> Tensor:
    """``x * log1p(y)``, but 0 where ``x`` is 0, unless ``y`` is nan.

    Where ``x`` is 0, the gradient to ``y`` is 0, and that to ``x`` is 0 unless ``y`` is above -1.
    """

def xlogy(x: Array | complex, y: Array | complex, /) -> Tensor:
    """``x * log(y)``, but 0 where ``x`` is 0, unless ``y`` is nan.

    Where ``x`` is 0, the gradient to ``y`` is 0, and that to ``x`` is 0 unless ``y`` is positive.
    """

def y0(x: Array, /) -> Tensor:
    """Bessel function of the second kind of order 0; -inf at 0, nan below."""

def y1(x: Array, /) -> Tensor:
    """Bessel function of the second kind of order 1; -inf at 0, nan below."""

def yn(n: Array | complex, x: Array | complex, /) -> Tensor:
    """Bessel function of the second kind of integer order ``n``, which gets no gradient."""

def yv(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Bessel function of the second kind of real order ``v``, which gets no gradient."""

def zeta(x: Array | complex, q: Array | complex | None = None) -> Tensor:
    """Hurwitz's zeta function, the sum of ``(k + q) ** -x`` over k >= 0; without ``q``, Riemann's.

    The gradient to the exponent ``x`` comes from differences; it is nan unless the result is
    positive and ``x`` is above 1.
    """

def zetac(x: Array, /) -> Tensor:
    """Riemann's zeta function minus 1; its gradient is that of `zeta`."""
