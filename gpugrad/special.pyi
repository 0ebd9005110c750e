# Written by tests/write_stubs.py.

from typing import Literal, overload

from ._tensor import Tensor as Tensor
from ._typing import Array

def bdtr(k: Array | complex, n: Array | complex, p: Array | complex) -> Tensor:
    """Binomial distribution function: at most ``floor(k)`` successes in ``n`` trials.

    ``p`` is the probability of a success, and the inputs broadcast. It is
    ``betaincc(k + 1, n - k, p)`` for an integer k, and the gradient to ``p`` is that of this
    function. The gradient to ``k`` is 0; the integers ``n`` get none.
    """

def bdtrc(k: Array | complex, n: Array | complex, p: Array | complex) -> Tensor:
    """Binomial survival function: more than ``floor(k)`` successes in ``n`` trials.

    ``p`` is the probability of a success, and the inputs broadcast. It is
    ``betainc(k + 1, n - k, p)`` for an integer k, and the gradient to ``p`` is that of this
    function. The gradient to ``k`` is 0; the integers ``n`` get none.
    """

def bdtri(k: Array | complex, n: Array | complex, y: Array | complex) -> Tensor:
    """Inverse of `bdtr`: the ``p`` with ``bdtr(k, n, p) = y``.

    The inputs broadcast. The gradient to ``y`` is 1 divided by that of `bdtr` to ``p``. The
    gradient to ``k`` is 0; the integers ``n`` get no gradient.
    """

def beta(a: Array | complex, b: Array | complex, /) -> Tensor:
    """Beta function ``gamma(a) * gamma(b) / gamma(a + b)``.

    The inputs broadcast. The gradients are ``beta(a, b) * (psi(a) - psi(a + b))`` to ``a``, and the
    same with ``b`` in place of ``a``. Where it underflows, `betaln` does not.
    """

def betainc(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Regularized incomplete beta function.

    The integral of ``t**(a - 1) * (1 - t)**(b - 1)`` from 0 to ``x``, divided by ``beta(a, b)``:
    the probability of at most ``x`` under the beta distribution. The inputs broadcast, and ``x`` is
    from 0 to 1. The gradient to ``x`` is the integrand at ``x`` over ``beta(a, b)``; those to ``a``
    and ``b`` come from differences.
    """

def betaincc(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Complement of the regularized incomplete beta function, ``1 - betainc(a, b, x)``.

    It keeps its digits where it is small. The inputs broadcast, and ``x`` is from 0 to 1. The
    gradient to ``x`` is minus that of `betainc`; those to ``a`` and ``b`` come from differences.
    """

def betaincinv(a: Array | complex, b: Array | complex, y: Array | complex) -> Tensor:
    """Inverse of `betainc`: the ``x`` with ``betainc(a, b, x) = y``.

    The inputs broadcast, and ``y`` is from 0 to 1. The gradient to ``y`` is 1 divided by that of
    `betainc` to ``x``; those to ``a`` and ``b`` follow from the ones of `betainc`.
    """

def betaln(a: Array | complex, b: Array | complex, /) -> Tensor:
    """Logarithm of the absolute value of the beta function.

    The inputs broadcast. It is ``gammaln(a) + gammaln(b) - gammaln(a + b)``, without loss of
    digits. The gradients are ``psi(a) - psi(a + b)`` and ``psi(b) - psi(a + b)``.
    """

def binom(n: Array | complex, k: Array | complex, /) -> Tensor:
    """Binomial coefficient of real numbers, ``gamma(n + 1) / (gamma(k + 1) gamma(n - k + 1))``.

    The inputs broadcast. The gradients are ``binom(n, k) * (psi(n + 1) - psi(n - k + 1))`` to ``n``
    and ``binom(n, k) * (psi(n - k + 1) - psi(k + 1))`` to ``k``. A gradient is nan where one of
    these has a pole, such as where ``n - k`` is a negative integer.
    """

def boxcox(x: Array | complex, lmbda: Array | complex, /) -> Tensor:
    """Box-Cox transform ``(x**lmbda - 1) / lmbda``, or ``log(x)`` where ``lmbda`` is 0.

    The inputs broadcast. The gradients are ``x**(lmbda - 1)`` to ``x`` and
    ``(x**lmbda * log(x) - boxcox(x, lmbda)) / lmbda`` to ``lmbda``, which is ``log(x)**2 / 2`` at
    0. It is nan where ``x`` is negative.
    """

def boxcox1p(x: Array | complex, lmbda: Array | complex, /) -> Tensor:
    """``boxcox(1 + x, lmbda)``, without loss of digits near 0.

    The inputs broadcast. The gradient to ``x`` is ``(1 + x)**(lmbda - 1)``, and that to ``lmbda``
    the one of `boxcox` at ``1 + x``. It is nan where ``x`` is below -1.
    """

def cbrt(x: Array, /) -> Tensor:
    """Real cube root; its slope at 0 is infinite.

    Elementwise, ``(...) -> (...)``, with the gradient ``1 / (3 * cbrt(x)**2)``. The root of a
    negative number is negative.
    """

def chdtr(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Distribution function of the chi-square distribution with ``v`` degrees of freedom.

    The probability of at most ``x``, ``gammainc(v / 2, x / 2)``. The inputs broadcast. The gradient
    to ``x`` is the density; that to ``v`` comes from differences.
    """

def chdtrc(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Survival function of the chi-square distribution with ``v`` degrees of freedom.

    The probability of more than ``x``, ``gammaincc(v / 2, x / 2)``, which keeps its digits where it
    is small. The inputs broadcast. The gradient to ``x`` is minus the density; that to ``v`` comes
    from differences.
    """

def chdtri(v: Array | complex, p: Array | complex, /) -> Tensor:
    """Inverse of `chdtrc`: the ``x`` with ``chdtrc(v, x) = p``.

    Of the survival function, as in SciPy, not of `chdtr`. The inputs broadcast. The gradient to
    ``p`` is minus 1 divided by the density at the result; that to ``v`` follows from the one of
    `chdtrc`.
    """

def cosdg(x: Array, /) -> Tensor:
    """Cosine of an angle in degrees.

    Elementwise, ``(...) -> (...)``, exact at multiples of 90 degrees. The gradient is
    ``-sindg(x) * pi / 180``.
    """

def cosm1(x: Array, /) -> Tensor:
    """``cos(x) - 1``, without loss of digits near 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``-sin(x)``.
    """

def cotdg(x: Array, /) -> Tensor:
    """Cotangent of an angle in degrees.

    Elementwise, ``(...) -> (...)``; inf at 0. The gradient is ``-(1 + cotdg(x)**2) * pi / 180``.
    """

def digamma(x: Array, /) -> Tensor:
    """Digamma function, the derivative of `gammaln`; also named `digamma`.

    Elementwise, ``(...) -> (...)``, with the gradient ``polygamma(1, x)``. It is -inf at 0 and nan
    at the negative integers.
    """

def ellipk(m: Array, /) -> Tensor:
    """Complete elliptic integral of the first kind with parameter ``m``; inf at 1.

    Elementwise, ``(...) -> (...)``: the integral of ``1 / sqrt(1 - m * sin(t)**2)`` from 0 to
    ``pi / 2``. It is nan above 1. The gradient is inf at 1, too. Near 1, `ellipkm1` is more
    precise.
    """

def ellipkm1(p: Array, /) -> Tensor:
    """``ellipk(1 - p)``, without loss of digits near 0.

    Elementwise, ``(...) -> (...)``; inf at 0, and nan below. The gradient is -inf at 0.
    """

def entr(x: Array, /) -> Tensor:
    """Entropy ``-x * log(x)``: 0 at 0, where its slope is infinite, and -inf below.

    Elementwise, ``(...) -> (...)``, with the gradient ``-1 - log(x)``. The sum over the
    probabilities of a distribution is its entropy.
    """

def erf(x: Array, /) -> Tensor:
    """Error function: ``2 / sqrt(pi)`` times the integral of ``exp(-t**2)`` from 0 to ``x``.

    Elementwise, ``(...) -> (...)``, with the gradient ``2 / sqrt(pi) * exp(-x**2)``. It rises from
    -1 to 1.
    """

def erfc(x: Array, /) -> Tensor:
    """Complementary error function, ``1 - erf(x)`` without loss of digits.

    Elementwise, ``(...) -> (...)``, with the gradient ``-2 / sqrt(pi) * exp(-x**2)``. It falls from
    2 to 0.
    """

def erfcinv(x: Array, /) -> Tensor:
    """Inverse of `erfc`; value and slope are infinite at 0 and 2.

    Elementwise, ``(...) -> (...)``, for ``x`` from 0 to 2; nan beyond. The gradient is
    ``-sqrt(pi) / 2 * exp(erfcinv(x)**2)``.
    """

def erfcx(x: Array, /) -> Tensor:
    """Scaled complementary error function, ``exp(x**2) * erfc(x)``.

    Elementwise, ``(...) -> (...)``, with the gradient ``2 * x * erfcx(x) - 2 / sqrt(pi)``. It does
    not underflow where ``x`` is large, as `erfc` does.
    """

def erfinv(x: Array, /) -> Tensor:
    """Inverse of `erf`; value and slope are infinite at -1 and 1.

    Elementwise, ``(...) -> (...)``, for ``x`` from -1 to 1; nan beyond. The gradient is
    ``sqrt(pi) / 2 * exp(erfinv(x)**2)``.
    """

def exp1(x: Array, /) -> Tensor:
    """Exponential integral: the integral of ``exp(-t) / t`` from ``x`` to infinity; nan below 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``-exp(-x) / x``. It is inf at 0.
    """

def exp10(x: Array, /) -> Tensor:
    """``10 ** x``.

    Elementwise, ``(...) -> (...)``, with the gradient ``log(10) * 10**x``.
    """

def exp2(x: Array, /) -> Tensor:
    """``2 ** x``.

    Elementwise, ``(...) -> (...)``, with the gradient ``log(2) * 2**x``.
    """

def expi(x: Array, /) -> Tensor:
    """Exponential integral: the integral of ``exp(t) / t`` from -inf to ``x``; -inf at 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``exp(x) / x``. It is ``-exp1(-x)`` where
    ``x`` is negative.
    """

def expit(x: Array, /) -> Tensor:
    """Logistic function ``1 / (1 + exp(-x))``, the same as `gpugrad.sigmoid`.

    Elementwise, ``(...) -> (...)``, without overflow. The gradient is
    ``expit(x) * (1 - expit(x))``.
    """

def expn(n: Array | complex, x: Array | complex, /) -> Tensor:
    """Exponential integral: the integral of ``exp(-x * t) / t**n`` from 1 to infinity.

    The inputs broadcast. The gradient to ``x`` is ``-expn(n - 1, x)``. The order ``n``, a
    non-negative integer, gets no gradient.
    """

def exprel(x: Array, /) -> Tensor:
    """``(exp(x) - 1) / x``, which is 1 at 0.

    Elementwise, ``(...) -> (...)``, without loss of digits near 0. The gradient is
    ``(exp(x) - exprel(x)) / x``, which is 1/2 at 0.
    """

def fdtr(dfn: Array | complex, dfd: Array | complex, x: Array | complex) -> Tensor:
    """Distribution function of the F distribution with ``dfn`` and ``dfd`` degrees of freedom.

    The probability of at most ``x``, ``betainc(dfn / 2, dfd / 2, dfn * x / (dfd + dfn * x))``. The
    inputs broadcast. The gradient to ``x`` is the density; those to the degrees of freedom come
    from differences.
    """

def fdtrc(dfn: Array | complex, dfd: Array | complex, x: Array | complex) -> Tensor:
    """Survival function of the F distribution with ``dfn`` and ``dfd`` degrees of freedom.

    The probability of more than ``x``, which keeps its digits where it is small. The inputs
    broadcast. The gradient to ``x`` is minus the density; those to the degrees of freedom come from
    differences.
    """

def fdtri(dfn: Array | complex, dfd: Array | complex, p: Array | complex) -> Tensor:
    """Inverse of `fdtr`: the ``x`` with ``fdtr(dfn, dfd, x) = p``.

    The inputs broadcast. The gradient to ``p`` is 1 divided by the density at the result; those to
    the degrees of freedom follow from the ones of `fdtr`.
    """

def gamma(x: Array, /) -> Tensor:
    """Gamma function; infinite at 0, as is its gradient, and nan at the negative integers.

    Elementwise, ``(...) -> (...)``: the integral of ``t**(x - 1) * exp(-t)`` from 0 to infinity,
    where ``x`` is positive. It is ``(n - 1)!`` at an integer n. The gradient is
    ``gamma(x) * psi(x)``. Where it overflows, `gammaln` does not.
    """

def gammainc(a: Array | complex, x: Array | complex, /) -> Tensor:
    """Regularized lower incomplete gamma function.

    The integral of ``t**(a - 1) * exp(-t)`` from 0 to ``x``, divided by ``gamma(a)``: the
    probability of at most ``x`` under the gamma distribution of shape ``a``. The inputs broadcast.
    It is nan where ``x`` is negative. The gradient to ``x`` is ``x**(a - 1) * exp(-x) / gamma(a)``;
    that to ``a`` comes from differences.
    """

def gammaincc(a: Array | complex, x: Array | complex, /) -> Tensor:
    """Regularized upper incomplete gamma function, ``1 - gammainc(a, x)``.

    The integral of ``t**(a - 1) * exp(-t)`` from ``x`` to infinity, divided by ``gamma(a)``. The
    inputs broadcast. It keeps its digits where it is small, and is nan where ``x`` is negative. The
    gradient to ``x`` is ``-x**(a - 1) * exp(-x) / gamma(a)``; that to ``a`` comes from differences.
    """

def gammainccinv(a: Array | complex, y: Array | complex, /) -> Tensor:
    """Inverse of `gammaincc`: the ``x`` with ``gammaincc(a, x) = y``.

    The inputs broadcast; ``y`` is from 0 to 1, and beyond the result is nan. It keeps its digits
    where ``y`` is small. The gradient to ``y`` is 1 divided by that of `gammaincc` to ``x``; that
    to ``a`` follows from the one of `gammaincc` to ``a``.
    """

def gammaincinv(a: Array | complex, y: Array | complex, /) -> Tensor:
    """Inverse of `gammainc`: the ``x`` with ``gammainc(a, x) = y``.

    The inputs broadcast; ``y`` is from 0 to 1, and beyond the result is nan. The gradient to ``y``
    is 1 divided by that of `gammainc` to ``x``; that to ``a`` follows from the one of `gammainc` to
    ``a``.
    """

def gammaln(x: Array, /) -> Tensor:
    """Logarithm of the absolute value of the gamma function.

    Elementwise, ``(...) -> (...)``, with the gradient ``psi(x)``. It is inf at 0 and the negative
    integers.
    """

def gammasgn(x: Array, /) -> Tensor:
    """Sign of the gamma function. Its gradient is 0 everywhere.

    Elementwise, ``(...) -> (...)``: 1 where ``x`` is positive, 1 or -1 between negative integers,
    and nan at these. ``gammasgn(x) * exp(gammaln(x))`` is ``gamma(x)``.
    """

def gdtr(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Distribution function of the gamma distribution with rate ``a`` and shape ``b``.

    It is ``gammainc(b, a * x)``. The inputs broadcast. The gradients to ``x`` and ``a`` are the
    density of `gammainc` at ``a * x``, times ``a`` and times ``x``; that to ``b`` comes from
    differences.
    """

def gdtrc(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Survival function of the gamma distribution with rate ``a`` and shape ``b``.

    It is ``gammaincc(b, a * x)``, which keeps its digits where it is small. The inputs broadcast.
    The gradients to ``x`` and ``a`` are minus those of `gdtr`; that to ``b`` comes from
    differences.
    """

def huber(delta: Array | complex, r: Array | complex, /) -> Tensor:
    """Huber's loss: ``r**2 / 2`` up to ``abs(r) = delta``, and linear beyond.

    The inputs broadcast. The gradient to ``r`` is ``r``, limited to ``[-delta, delta]``, and that
    to ``delta`` is ``max(abs(r) - delta, 0)``. The loss is inf where ``delta`` is negative. Where
    the two pieces meet, second derivatives are those of the linear piece.
    """

def hyp1f1(a: Array | complex, b: Array | complex, x: Array | complex) -> Tensor:
    """Confluent hypergeometric function 1F1; its parameters ``a`` and ``b`` get no gradient.

    The inputs broadcast: the sum of ``poch(a, k) / poch(b, k) * x**k / k!`` over k from 0. The
    gradient to ``x`` is ``a / b * hyp1f1(a + 1, b + 1, x)``.
    """

def hyp2f1(
    a: Array | complex, b: Array | complex, c: Array | complex, z: Array | complex
) -> Tensor:
    """Gauss's hypergeometric function 2F1; its parameters get no gradient, only ``z`` does.

    The inputs broadcast: the sum of ``poch(a, k) * poch(b, k) / poch(c, k) * z**k / k!`` over k
    from 0, and its continuation to other ``z`` up to 1. The gradient to ``z`` is
    ``a * b / c * hyp2f1(a + 1, b + 1, c + 1, z)``.
    """

def i0(x: Array, /) -> Tensor:
    """Modified Bessel function of the first kind of order 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``i1(x)``. It grows as
    ``exp(x) / sqrt(2 * pi * x)``; where it overflows, `i0e` does not.
    """

def i0e(x: Array, /) -> Tensor:
    """`i0` scaled by ``exp(-abs(x))``; the gradient at 0, a kink, is 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``i1e(x) - sign(x) * i0e(x)``.
    """

def i1(x: Array, /) -> Tensor:
    """Modified Bessel function of the first kind of order 1.

    Elementwise, ``(...) -> (...)``, with the gradient ``i0(x) - i1(x) / x``, which is 1/2 at 0.
    Where it overflows, `i1e` does not.
    """

def i1e(x: Array, /) -> Tensor:
    """`i1` scaled by ``exp(-abs(x))``.

    Elementwise, ``(...) -> (...)``, with the gradient ``i0e(x) - (sign(x) + 1 / x) * i1e(x)``,
    which is 1/2 at 0.
    """

def inv_boxcox(y: Array | complex, lmbda: Array | complex, /) -> Tensor:
    """Inverse of `boxcox`: ``(1 + lmbda * y)**(1 / lmbda)``, or ``exp(y)`` where ``lmbda`` is 0.

    The inputs broadcast. The gradient to ``y`` is the result divided by ``1 + lmbda * y``. The
    result is nan where this is negative.
    """

def inv_boxcox1p(y: Array | complex, lmbda: Array | complex, /) -> Tensor:
    """Inverse of `boxcox1p`: ``inv_boxcox(y, lmbda) - 1``, without loss of digits near 0.

    The inputs broadcast. The gradients are those of `inv_boxcox`, whose result is greater by 1.
    """

def iv(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Modified Bessel function of the first kind of real order ``v``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``(iv(v - 1, x) + iv(v + 1, x)) / 2``. For orders that are not integers, it is nan where ``x``
    is negative. Where it overflows, `ive` does not.
    """

def ive(v: Array | complex, x: Array | complex, /) -> Tensor:
    """`iv` scaled by ``exp(-abs(x))``; the order gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``(ive(v - 1, x) + ive(v + 1, x)) / 2 - sign(x) * ive(v, x)``.
    """

def j0(x: Array, /) -> Tensor:
    """Bessel function of the first kind of order 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``-j1(x)``. It solves Bessel's equation
    ``x**2 * y'' + x * y' + x**2 * y = 0`` and is 1 at 0.
    """

def j1(x: Array, /) -> Tensor:
    """Bessel function of the first kind of order 1.

    Elementwise, ``(...) -> (...)``, with the gradient ``j0(x) - j1(x) / x``, which is 1/2 at 0. It
    is the solution of ``x**2 * y'' + x * y' + (x**2 - 1) * y = 0`` that is finite at 0.
    """

def jv(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Bessel function of the first kind of real order ``v``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``(jv(v - 1, x) - jv(v + 1, x)) / 2``. For orders that are not integers, it is nan where ``x``
    is negative.
    """

def k0(x: Array, /) -> Tensor:
    """Modified Bessel function of the second kind of order 0; inf at 0, nan below.

    Elementwise, ``(...) -> (...)``, with the gradient ``-k1(x)``, which is -inf at 0. Where it
    underflows, `k0e` does not.
    """

def k0e(x: Array, /) -> Tensor:
    """`k0` scaled by ``exp(x)``.

    Elementwise, ``(...) -> (...)``, with the gradient ``k0e(x) - k1e(x)``. It is inf at 0 and nan
    below; the gradient is nan at 0.
    """

def k1(x: Array, /) -> Tensor:
    """Modified Bessel function of the second kind of order 1; inf at 0, nan below.

    Elementwise, ``(...) -> (...)``, with the gradient ``-k0(x) - k1(x) / x``, which is -inf at 0.
    Where it underflows, `k1e` does not.
    """

def k1e(x: Array, /) -> Tensor:
    """`k1` scaled by ``exp(x)``.

    Elementwise, ``(...) -> (...)``, with the gradient ``k1e(x) - k0e(x) - k1e(x) / x``. It is inf
    at 0 and nan below; the gradient is nan at 0.
    """

def kl_div(x: Array | complex, y: Array | complex, /) -> Tensor:
    """Terms of the Kullback-Leibler divergence, ``rel_entr(x, y) - x + y``.

    The inputs broadcast. The gradients are ``log(x / y)`` to ``x`` and ``1 - x / y`` to ``y``.
    Where ``x`` is 0, the gradient to ``y`` is 1; where both are 0, the gradient to ``x`` is 0.
    """

def kv(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Modified Bessel function of the second kind of real order ``v``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``-(kv(v - 1, x) + kv(v + 1, x)) / 2``. The value is inf at 0 and nan below. Where it
    underflows, `kve` does not.
    """

def kve(v: Array | complex, x: Array | complex, /) -> Tensor:
    """`kv` scaled by ``exp(x)``; the order gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``kve(v, x) - (kve(v - 1, x) + kve(v + 1, x)) / 2``. The value is inf at 0 and nan below.
    """

def log_expit(x: Array, /) -> Tensor:
    """Logarithm of `expit`, without overflow.

    Elementwise, ``(...) -> (...)``: ``-log(1 + exp(-x))``. The gradient is ``1 - expit(x)``. Raises
    TypeError for complex numbers.
    """

def log_ndtr(x: Array, /) -> Tensor:
    """Logarithm of `ndtr`; value and derivatives keep their digits far into the tail.

    Elementwise, ``(...) -> (...)``, with the gradient
    ``exp(-x**2 / 2) / (sqrt(2 * pi) * ndtr(x))``.
    """

def log_softmax(x: Array, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """``log(softmax(x))``, as `gpugrad.log_softmax`, but by default over all elements.

    ``(...) -> (...)``, without overflow and without loss of digits. ``axis`` is an int, a tuple or
    None for all axes.
    """

def loggamma(x: Array, /) -> Tensor:
    """Logarithm of the gamma function; nan where ``x`` is negative.

    Elementwise, ``(...) -> (...)``, with the gradient ``psi(x)``. It is inf at 0. `gammaln` takes
    negative numbers, too.
    """

def logit(x: Array, /) -> Tensor:
    """Inverse of `expit`, ``log(x / (1 - x))``; value and slope are infinite at 0 and 1.

    Elementwise, ``(...) -> (...)``, for ``x`` from 0 to 1; nan beyond. The gradient is
    ``1 / (x * (1 - x))``.
    """

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

    The inputs broadcast, and ``x`` is from -1 to 1. The gradient to ``x`` is
    ``(v * x * lpmv(m, v, x) - (v + m) * lpmv(m, v - 1, x)) / (x**2 - 1)``, which is nan at -1 and
    1. Order and degree get no gradient.
    """

def multigammaln(a: Array, /, d: int) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension ``d``, a positive int.

    Elementwise, ``(...) -> (...)``. It is nan unless ``a > (d - 1) / 2``. The gradient is the sum
    of ``psi(a - j / 2)`` for j from 0 to d - 1.
    """

def nbdtr(k: Array | complex, n: Array | complex, p: Array | complex) -> Tensor:
    """Negative binomial distribution function: at most ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success, and the inputs broadcast. It is ``betainc(n, k + 1, p)``,
    and the gradient to ``p`` is that of this function. The integer counts ``k`` and ``n`` get no
    gradient.
    """

def nbdtrc(k: Array | complex, n: Array | complex, p: Array | complex) -> Tensor:
    """Negative binomial survival function: more than ``k`` failures before ``n`` successes.

    ``p`` is the probability of a success, and the inputs broadcast. It is
    ``betaincc(n, k + 1, p)``, and the gradient to ``p`` is that of this function. The integer
    counts ``k`` and ``n`` get no gradient.
    """

def nbdtri(k: Array | complex, n: Array | complex, y: Array | complex) -> Tensor:
    """Inverse of `nbdtr`: the ``p`` with ``nbdtr(k, n, p) = y``. The counts get no gradient.

    The inputs broadcast. The gradient to ``y`` is 1 divided by that of `nbdtr` to ``p`` at the
    result.
    """

def ndtr(x: Array, /) -> Tensor:
    """Distribution function of the standard normal distribution.

    The probability of at most ``x``, ``(1 + erf(x / sqrt(2))) / 2``. Elementwise,
    ``(...) -> (...)``, with the density ``exp(-x**2 / 2) / sqrt(2 * pi)`` as gradient.
    """

def ndtri(y: Array, /) -> Tensor:
    """Inverse of `ndtr`, the normal quantile; value and slope are infinite at 0 and 1.

    Elementwise, ``(...) -> (...)``, for ``y`` from 0 to 1; nan beyond. The gradient is
    ``sqrt(2 * pi) * exp(ndtri(y)**2 / 2)``.
    """

def pdtr(k: Array | complex, m: Array | complex, /) -> Tensor:
    """Poisson distribution function: at most ``floor(k)`` events if ``m`` are expected.

    The inputs broadcast. The gradient to ``m`` is minus the probability of exactly ``floor(k)``
    events, ``m**k * exp(-m) / k!``. The gradient to ``k`` is 0.
    """

def pdtrc(k: Array | complex, m: Array | complex, /) -> Tensor:
    """Poisson survival function: more than ``floor(k)`` events if ``m`` are expected.

    The inputs broadcast. The gradient to ``m`` is the probability of exactly ``floor(k)`` events,
    ``m**k * exp(-m) / k!``. The gradient to ``k`` is 0.
    """

def pdtri(k: Array | complex, y: Array | complex, /) -> Tensor:
    """Inverse of `pdtr`: the ``m`` with ``pdtr(k, m) = y``. The count ``k`` gets no gradient.

    The inputs broadcast. The gradient to ``y`` is minus 1 divided by the probability of exactly
    ``floor(k)`` events at the result.
    """

def poch(z: Array | complex, m: Array | complex, /) -> Tensor:
    """Pochhammer's symbol, the rising factorial ``gamma(z + m) / gamma(z)``.

    The inputs broadcast. For an integer ``m`` it is the product
    ``z * (z + 1) * ... * (z + m - 1)``. The gradients are ``poch(z, m) * (psi(z + m) - psi(z))`` to
    ``z`` and ``poch(z, m) * psi(z + m)`` to ``m``.
    """

def polygamma(n: Array | complex, x: Array | complex, /) -> Tensor:
    """The ``n``-th derivative of `psi`; the integer order ``n`` gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is ``polygamma(n + 1, x)``. For
    ``n = 0`` it is `psi`.
    """

def pseudo_huber(delta: Array | complex, r: Array | complex, /) -> Tensor:
    """Smooth form of Huber's loss, ``delta**2 * (sqrt(1 + (r / delta)**2) - 1)``.

    The inputs broadcast. It is about ``r**2 / 2`` where ``r`` is small, and grows with the slope
    ``delta`` where it is large. The gradient to ``r`` is ``r / sqrt(1 + (r / delta)**2)``, and
    ``delta`` has one, too.
    """

def psi(x: Array, /) -> Tensor:
    """Digamma function, the derivative of `gammaln`; also named `digamma`.

    Elementwise, ``(...) -> (...)``, with the gradient ``polygamma(1, x)``. It is -inf at 0 and nan
    at the negative integers.
    """

def radian(d: Array | complex, m: Array | complex, s: Array | complex) -> Tensor:
    """The angle of ``d`` degrees, ``m`` minutes and ``s`` seconds, in radians.

    The inputs broadcast: ``(d + m / 60 + s / 3600) * pi / 180``. All three have gradients, which
    are these factors.
    """

def rel_entr(x: Array | complex, y: Array | complex, /) -> Tensor:
    """Relative entropy ``x * log(x / y)``: 0 where ``x`` is 0, inf where either is negative.

    The inputs broadcast. The gradients are ``1 + log(x / y)`` to ``x`` and ``-x / y`` to ``y``.
    Where ``x`` is 0, the gradient to ``y`` is 0; where both are 0, the gradient to ``x`` is 1.
    """

def rgamma(x: Array, /) -> Tensor:
    """Reciprocal of the gamma function, which has no poles.

    Elementwise, ``(...) -> (...)``, with the gradient ``-psi(x) / gamma(x)``. At 0 and the negative
    integers, the poles of `gamma`, it is 0, and its gradient is finite.
    """

def sinc(x: Array, /) -> Tensor:
    """``sin(pi * x) / (pi * x)``, which is 1 at 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``(cos(pi * x) - sinc(x)) / x``, which is 0
    at 0.
    """

def sindg(x: Array, /) -> Tensor:
    """Sine of an angle in degrees.

    Elementwise, ``(...) -> (...)``, exact at multiples of 90 degrees. The gradient is
    ``cosdg(x) * pi / 180``.
    """

def softmax(x: Array, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """``exp(x) / sum(exp(x))``, as `gpugrad.softmax`, but by default over all elements.

    ``(...) -> (...)``, without overflow. The results are positive and add up to 1 along ``axis``,
    an int, a tuple or None for all axes.
    """

def spence(z: Array, /) -> Tensor:
    """Dilogarithm: the integral of ``log(t) / (1 - t)`` from 1 to ``z``; nan below 0.

    Elementwise, ``(...) -> (...)``, with the gradient ``log(z) / (1 - z)``, which is -1 at 1. It is
    ``pi**2 / 6`` at 0. Other definitions call ``spence(1 - z)`` the dilogarithm of ``z``.
    """

def stdtr(df: Array | complex, t: Array | complex, /) -> Tensor:
    """Distribution function of Student's t distribution with ``df`` degrees of freedom.

    The probability of at most ``t``. The inputs broadcast. The gradient to ``t`` is the density,
    ``gamma((df + 1) / 2) / (gamma(df / 2) * sqrt(pi * df)) * (1 + t**2 / df)**(-(df + 1) / 2)``;
    that to ``df`` comes from differences.
    """

def stdtrit(df: Array | complex, p: Array | complex, /) -> Tensor:
    """Inverse of `stdtr`: the ``t`` with ``stdtr(df, t) = p``.

    The inputs broadcast. The gradient to ``p`` is 1 divided by the density at the result; that to
    ``df`` follows from the one of `stdtr`.
    """

def tandg(x: Array, /) -> Tensor:
    """Tangent of an angle in degrees.

    Elementwise, ``(...) -> (...)``; inf at 90 degrees. The gradient is
    ``(1 + tandg(x)**2) * pi / 180``.
    """

def xlog1py(x: Array | complex, y: Array | complex, /) -> Tensor:
    """``x * log1p(y)``, but 0 where ``x`` is 0, unless ``y`` is nan.

    The inputs broadcast. The gradients are ``log1p(y)`` to ``x`` and ``x / (1 + y)`` to ``y``.
    Where ``x`` is 0, the gradient to ``y`` is 0, and that to ``x`` is 0 unless ``y`` is above -1.
    """

def xlogy(x: Array | complex, y: Array | complex, /) -> Tensor:
    """``x * log(y)``, but 0 where ``x`` is 0, unless ``y`` is nan.

    The inputs broadcast. The gradients are ``log(y)`` to ``x`` and ``x / y`` to ``y``. Where ``x``
    is 0, the gradient to ``y`` is 0, and that to ``x`` is 0 unless ``y`` is positive.
    """

def y0(x: Array, /) -> Tensor:
    """Bessel function of the second kind of order 0; -inf at 0, nan below.

    Elementwise, ``(...) -> (...)``, with the gradient ``-y1(x)``, which is inf at 0. It is the
    solution of Bessel's equation that is infinite at 0; `j0` is the one that is finite.
    """

def y1(x: Array, /) -> Tensor:
    """Bessel function of the second kind of order 1; -inf at 0, nan below.

    Elementwise, ``(...) -> (...)``, with the gradient ``y0(x) - y1(x) / x``, which is nan at 0. It
    is the solution of Bessel's equation that is infinite at 0; `j1` is the one that is finite.
    """

def yn(n: Array | complex, x: Array | complex, /) -> Tensor:
    """Bessel function of the second kind of integer order ``n``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is ``yn(n - 1, x) - n / x * yn(n, x)``.
    At 0 the value is -inf, and below it is nan. `yv` takes any real order.
    """

def yv(v: Array | complex, x: Array | complex, /) -> Tensor:
    """Bessel function of the second kind of real order ``v``, which gets no gradient.

    Elementwise; the inputs broadcast. The gradient to ``x`` is
    ``(yv(v - 1, x) - yv(v + 1, x)) / 2``. The value is nan where ``x`` is negative.
    """

def zeta(x: Array | complex, q: Array | complex | None = None) -> Tensor:
    """Hurwitz's zeta function, the sum of ``(k + q) ** -x`` over k >= 0; without ``q``, Riemann's.

    The inputs broadcast. The gradient to ``q`` is ``-x * zeta(x + 1, q)``. The gradient to the
    exponent ``x`` comes from differences; it is nan unless the result is positive and ``x`` is
    above 1.
    """

def zetac(x: Array, /) -> Tensor:
    """Riemann's zeta function minus 1; its gradient is that of `zeta`.

    Elementwise, ``(...) -> (...)``: where ``x`` is above 1, the sum of ``k ** -x`` over k from 2,
    which keeps its digits where ``x`` is large. Elsewhere the gradient is nan.
    """
