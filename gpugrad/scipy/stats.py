"""Probability distributions, with SciPy's names, parameters and values.

Each has ``pdf`` or, if it is discrete, ``pmf``; ``cdf``, and ``sf``, which is 1 - cdf; the
logarithms of these, such as ``logpdf``; and ``ppf`` and ``isf``, the inverses of ``cdf`` and
``sf``. All take the points first, then the distribution's shape parameters, then ``loc`` and, if it
is continuous, ``scale``, by position or by name, and broadcast them:

    gamma.logpdf(x, a, loc=0, scale=1) is gamma(a, loc, scale).logpdf(x)

Results have the derivatives of the ops in `gpugrad.special` that they are made of, by the points
and by all parameters. Where SciPy's are nan (a scale of 0, a probability above 1) so are these;
outside the support a density is 0, with gradient 0. Logarithms of densities are computed without
the density, and are finite where that underflows.

The formulas are those of N. L. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate
Distributions" (1994, 1995), and N. L. Johnson, A. W. Kemp and S. Kotz, "Univariate Discrete
Distributions" (2005), in SciPy's parameters.
"""

import math
from typing import Any

from .. import linalg, special
from .._foreign_names import answer
from .._limits import finfo
from .._tensor import Tensor
from ..autograd.mode import no_grad
from ..ops.elementwise import abs as absolute
from ..ops.elementwise import ceil, floor, maximum, sqrt, where
from ..ops.linalg import diagonal
from ..ops.manipulation import broadcast_to, expand_dims, moveaxis
from ..ops.products import matrix_transpose
from ..ops.reductions import all as all_of
from ..ops.reductions import max as max_of
from ..ops.reductions import sum as sum_of
from ..ops.transcendental import exp, expm1, log, log1p
from ._tensors import create, floating
from .linalg import solve_triangular

__all__ = """
    bernoulli beta binom chi2 dirichlet expon gamma laplace logistic lognorm multivariate_normal
    norm poisson t
""".split()
__dir__ = __all__.copy
__getattr__ = answer(__name__)

LOG_2 = math.log(2)
LOG_2_PI = math.log(2 * math.pi)


class _Frozen:
    """A distribution with its parameters."""

    def __init__(self, distribution, args, keywords):
        self._distribution, self._args, self._keywords = distribution, args, keywords

    def __getattr__(self, name):
        method = getattr(self._distribution, name)
        return lambda *points: method(*points, *self._args, **self._keywords)


class _Distribution:
    """What continuous and discrete distributions share.

    A subclass defines the functions of the standard form, in which ``loc`` is 0 and ``scale`` 1.

    shapes: the names of the shape parameters.
    lower, upper: the ends of the support.
    """

    shapes: tuple[str, ...] = ()
    lower = -math.inf
    upper = math.inf
    parameters: tuple[str, ...] = ("loc", "scale")

    def __call__(self, *args: Any, **keywords: Any) -> _Frozen:
        self._bind(args, keywords)
        return _Frozen(self, args, keywords)

    def __repr__(self) -> str:
        return f"<distribution {self._name}>"

    @property
    def _name(self):
        return type(self).__name__.strip("_").lower()

    def _bind(self, args, keywords):
        """The shape parameters, the location and the scale."""
        names = (*self.shapes, *self.parameters)
        given = dict(zip(names, args, strict=False)) | keywords
        missing = [name for name in self.shapes if name not in given]
        twice = [name for name in names[: len(args)] if name in keywords]
        unknown = [name for name in keywords if name not in names]
        if len(args) > len(names) or missing or twice or unknown:
            shown = ", ".join([*self.shapes, "loc=0", "scale=1"][: len(names)])
            raise TypeError(
                f"{self._name}: its parameters, after the points, are ({shown}), but "
                f"{len(args)} are given by position and {sorted(keywords)} by name"
            )
        shapes = [given[name] for name in self.shapes]
        return shapes, given.get("loc", 0), given.get("scale", 1)

    def _read(self, x, args, keywords):
        """Points, shapes, location and scale as tensors, and where the parameters are valid."""
        shapes, loc, scale = self._bind(args, keywords)
        x, loc, scale, *shapes = floating(x, loc, scale, *shapes)
        return x, shapes, loc, scale, self._valid(*shapes) & (scale > 0)

    def _valid(self, *shapes):
        """Where the shape parameters are valid; by default where they are positive."""
        valid = True
        for shape in shapes:
            valid = valid & (shape > 0)
        return valid

    def _standard(self, x, args, keywords):
        """Points in standard form, shape parameters, and where points and parameters are valid.

        Points outside the support are replaced by 1/2, so that they have no infinite slopes.
        """
        x, shapes, loc, scale, valid = self._read(x, args, keywords)
        y = (x - loc) / scale
        return y, shapes, scale, valid & (y == y)

    def _distributed(self, function, x, args, keywords, below, above):
        """A function of the distribution function, which has known values outside the support."""
        y, shapes, _, valid = self._standard(x, args, keywords)
        y = self._point(y)
        upper = self._upper(*shapes)
        inside = (y > self.lower) & (y < upper)
        result = function(where(inside, y, self._inside(*shapes)), *shapes)
        result = where(inside, result, where(y < upper, below, above))
        return where(valid, result, math.nan)

    def _point(self, y):
        return y

    def _upper(self, *shapes):
        return self.upper

    def _inside(self, *shapes):
        return 0.5

    def cdf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The probability of at most ``x``."""
        return self._distributed(self._cdf, x, args, keywords, 0.0, 1.0)

    def sf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The probability of more than ``x``, with all its digits where it is small."""
        return self._distributed(self._sf, x, args, keywords, 1.0, 0.0)

    def logcdf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The logarithm of `cdf`."""
        return self._distributed(self._logcdf, x, args, keywords, -math.inf, 0.0)

    def logsf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The logarithm of `sf`."""
        return self._distributed(self._logsf, x, args, keywords, 0.0, -math.inf)

    def _quantile(self, function, q, args, keywords):
        q, shapes, loc, scale, valid = self._read(q, args, keywords)
        valid = valid & (q >= 0) & (q <= 1)
        return where(valid, function(where(valid, q, 0.5), *shapes) * scale + loc, math.nan)

    def ppf(self, q: Any, *args: Any, **keywords: Any) -> Tensor:
        """The inverse of `cdf`: the quantile of probability ``q``."""
        return self._quantile(self._ppf, q, args, keywords)

    def isf(self, q: Any, *args: Any, **keywords: Any) -> Tensor:
        """The inverse of `sf`."""
        return self._quantile(self._isf, q, args, keywords)

    def _cdf(self, x, *shapes):
        raise NotImplementedError

    def _sf(self, x, *shapes):
        raise NotImplementedError

    def _ppf(self, q, *shapes):
        raise NotImplementedError

    def _isf(self, q, *shapes):
        raise NotImplementedError

    def _logcdf(self, x, *shapes):
        return _log_of_probability(self._cdf(x, *shapes), self._sf(x, *shapes))

    def _logsf(self, x, *shapes):
        return _log_of_probability(self._sf(x, *shapes), self._cdf(x, *shapes))


def _log_of_probability(p, complement):
    """``log(p)``, by way of ``complement = 1 - p`` where that has more digits."""
    small = p < 0.5
    return where(small, log(where(small, p, 0.5)), log1p(-where(small, 0.5, complement)))


class _Continuous(_Distribution):
    def logpdf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The logarithm of the density at ``x``."""
        y, shapes, scale, valid = self._standard(x, args, keywords)
        inside = (y >= self.lower) & (y <= self.upper)
        result = self._logpdf(where(inside, y, 0.5), *shapes)
        result = where(inside, result - log(scale), -math.inf)
        return where(valid, result, math.nan)

    def pdf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The density at ``x``."""
        return exp(self.logpdf(x, *args, **keywords))

    def _logpdf(self, x, *shapes):
        raise NotImplementedError


class _Symmetric(_Continuous):
    """A distribution whose density is even."""

    def _sf(self, x, *shapes):
        return self._cdf(-x, *shapes)

    def _logsf(self, x, *shapes):
        return self._logcdf(-x, *shapes)

    def _isf(self, q, *shapes):
        return -self._ppf(q, *shapes)


class _Norm(_Symmetric):
    """The normal distribution."""

    def _logpdf(self, x):
        return -x * x / 2 - LOG_2_PI / 2

    def _cdf(self, x):
        return special.ndtr(x)

    def _logcdf(self, x):
        return special.log_ndtr(x)

    def _ppf(self, q):
        return special.ndtri(q)


class _T(_Symmetric):
    """Student's t distribution with ``df`` degrees of freedom."""

    shapes = ("df",)

    def _logpdf(self, x, df):
        # The ratio of gamma functions keeps its digits where df is large.
        norm = log(special.poch(df / 2, 0.5)) - log(math.pi * df) / 2
        return norm - (df + 1) / 2 * log1p(x * x / df)

    def _cdf(self, x, df):
        return special.stdtr(df, x)

    def _ppf(self, q, df):
        inside = (q > 0) & (q < 1)
        result = special.stdtrit(df, where(inside, q, 0.5))
        return where(inside, result, where(q > 0, math.inf, -math.inf))


class _Laplace(_Symmetric):
    """The Laplace distribution, ``exp(-abs(x)) / 2``."""

    def _logpdf(self, x):
        return -absolute(x) - LOG_2

    def _cdf(self, x):
        tail = exp(-absolute(x)) / 2
        return where(x > 0, 1 - tail, tail)

    def _logcdf(self, x):
        return where(x > 0, log1p(-exp(-absolute(x)) / 2), x - LOG_2)

    def _ppf(self, q):
        upper = q > 0.5
        tail = log(2 * where(upper, 1 - q, q))
        return where(upper, -tail, tail)


class _Logistic(_Symmetric):
    """The logistic distribution."""

    def _logpdf(self, x):
        return special.log_expit(x) + special.log_expit(-x)

    def _cdf(self, x):
        return special.expit(x)

    def _logcdf(self, x):
        return special.log_expit(x)

    def _ppf(self, q):
        return special.logit(q)


class _Gamma(_Continuous):
    """The gamma distribution with shape ``a``."""

    shapes = ("a",)
    lower = 0.0

    def _logpdf(self, x, a):
        return special.xlogy(a - 1, x) - x - special.gammaln(a)

    def _cdf(self, x, a):
        return special.gammainc(a, x)

    def _sf(self, x, a):
        return special.gammaincc(a, x)

    def _ppf(self, q, a):
        return special.gammaincinv(a, q)

    def _isf(self, q, a):
        return special.gammainccinv(a, q)


class _Chi2(_Continuous):
    """The chi-square distribution with ``df`` degrees of freedom."""

    shapes = ("df",)
    lower = 0.0

    def _logpdf(self, x, df):
        half = df / 2
        return special.xlogy(half - 1, x) - x / 2 - special.gammaln(half) - half * LOG_2

    def _cdf(self, x, df):
        return special.chdtr(df, x)

    def _sf(self, x, df):
        return special.chdtrc(df, x)

    def _ppf(self, q, df):
        return 2 * special.gammaincinv(df / 2, q)

    def _isf(self, q, df):
        return special.chdtri(df, q)


class _Beta(_Continuous):
    """The beta distribution with shapes ``a`` and ``b``, between 0 and 1."""

    shapes = ("a", "b")
    lower, upper = 0.0, 1.0

    def _logpdf(self, x, a, b):
        logs = special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x)
        return logs - special.betaln(a, b)

    def _cdf(self, x, a, b):
        return special.betainc(a, b, x)

    def _sf(self, x, a, b):
        return special.betaincc(a, b, x)

    def _ppf(self, q, a, b):
        return special.betaincinv(a, b, q)

    def _isf(self, q, a, b):
        return 1 - special.betaincinv(b, a, q)


class _Expon(_Continuous):
    """The exponential distribution, ``exp(-x)`` for positive ``x``."""

    lower = 0.0

    def _logpdf(self, x):
        return -x

    def _cdf(self, x):
        return -expm1(-x)

    def _sf(self, x):
        return exp(-x)

    def _logsf(self, x):
        return -x

    def _ppf(self, q):
        return -log1p(-q)

    def _isf(self, q):
        return -log(q)


class _LogNorm(_Continuous):
    """The distribution of ``exp(s * z)`` for a standard normal ``z``."""

    shapes = ("s",)
    lower = 0.0

    def _logpdf(self, x, s):
        positive = x > 0
        logs = log(where(positive, x, 1.0))
        density = -((logs / s) ** 2) / 2 - logs - log(s) - LOG_2_PI / 2
        return where(positive, density, -math.inf)

    def _cdf(self, x, s):
        return special.ndtr(log(x) / s)

    def _sf(self, x, s):
        return special.ndtr(-log(x) / s)

    def _logcdf(self, x, s):
        return special.log_ndtr(log(x) / s)

    def _logsf(self, x, s):
        return special.log_ndtr(-log(x) / s)

    def _ppf(self, q, s):
        return exp(s * special.ndtri(q))

    def _isf(self, q, s):
        return exp(-s * special.ndtri(q))


class _Discrete(_Distribution):
    """A distribution of counts.

    Quantiles are step functions, and so is the distribution function of the points; their gradients
    are 0.
    """

    parameters = ("loc",)
    lower = -0.5  # between counts, so that 0 is inside

    def logpmf(self, k: Any, *args: Any, **keywords: Any) -> Tensor:
        """The logarithm of the probability of ``k``; -inf where that is no count."""
        y, shapes, _, valid = self._standard(k, args, keywords)
        inside = (y == floor(y)) & (y >= 0) & (y <= self._last(*shapes))
        result = self._logpmf(where(inside, y, 0.0), *shapes)
        return where(valid, where(inside, result, -math.inf), math.nan)

    def pmf(self, k: Any, *args: Any, **keywords: Any) -> Tensor:
        """The probability of ``k``; 0 where that is no count."""
        return exp(self.logpmf(k, *args, **keywords))

    def _point(self, y):
        return floor(y)

    def _inside(self, *shapes):
        return 0.0

    def _last(self, *shapes):
        """The largest count."""
        return math.inf

    def _upper(self, *shapes):
        return self._last(*shapes)

    def _ppf(self, q, *shapes):
        return self._search(lambda k: self._cdf_of_any(k, *shapes) >= q, q == 1, q, shapes)

    def _isf(self, q, *shapes):
        return self._search(lambda k: self._sf_of_any(k, *shapes) <= q, q == 0, q, shapes)

    def _cdf_of_any(self, k, *shapes):
        inside = (k >= 0) & (k < self._last(*shapes))
        return where(inside, self._cdf(where(inside, k, 0.0), *shapes), where(k < 0, 0.0, 1.0))

    def _sf_of_any(self, k, *shapes):
        inside = (k >= 0) & (k < self._last(*shapes))
        return where(inside, self._sf(where(inside, k, 0.0), *shapes), where(k < 0, 1.0, 0.0))

    def _search(self, is_enough, at_end, q, shapes):
        """The smallest count that is enough, by bisection; -1 where even -1 is."""
        with no_grad():
            high = maximum(self._bound(*shapes), q * 0.0)
            low = high * 0.0 - 1.0
            for _ in range(_HALVINGS):
                middle = floor((low + high) / 2)
                enough = is_enough(middle)
                low, high = where(enough, low, middle), where(enough, middle, high)
            return where(at_end, self._last(*shapes), where(is_enough(low), low, high))

    def _logpmf(self, k, *shapes):
        raise NotImplementedError

    def _bound(self, *shapes):
        """A count at which the distribution function is 1, up to rounding."""
        raise NotImplementedError


_HALVINGS = 48  # float32 and float64 count no further than 2**24 and 2**53


class _Poisson(_Discrete):
    """The Poisson distribution of mean ``mu``."""

    shapes = ("mu",)

    def _valid(self, mu):
        return mu >= 0

    def _logpmf(self, k, mu):
        return special.xlogy(k, mu) - special.gammaln(k + 1) - mu

    def _cdf(self, k, mu):
        return special.pdtr(k, mu)

    def _sf(self, k, mu):
        return special.pdtrc(k, mu)

    def _bound(self, mu):
        return ceil(mu + 40 * sqrt(mu) + 200)


class _Binom(_Discrete):
    """The number of successes in ``n`` trials of probability ``p``; ``n`` gets no gradient."""

    shapes: tuple[str, ...] = ("n", "p")

    def _valid(self, n, p):
        return (n >= 0) & (n == floor(n)) & (p >= 0) & (p <= 1)

    def _last(self, n, p):
        return n.detach()

    def _logpmf(self, k, n, p):
        n = n.detach()
        ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        return ways + special.xlogy(k, p) + special.xlog1py(n - k, -p)

    # By the incomplete beta function, since k successes are as many as n - k failures.

    def _cdf(self, k, n, p):
        n, k = n.detach(), k.detach()
        return special.betaincc(k + 1, maximum(n - k, 1.0), p)

    def _sf(self, k, n, p):
        n, k = n.detach(), k.detach()
        return special.betainc(k + 1, maximum(n - k, 1.0), p)

    def _bound(self, n, p):
        return n + 0 * p


class _Bernoulli(_Binom):
    """One trial of probability ``p``: 1 for a success, 0 for a failure."""

    shapes: tuple[str, ...] = ("p",)

    def _valid(self, p):
        return (p >= 0) & (p <= 1)

    def _last(self, p):
        return 1.0

    def _logpmf(self, k, p):
        return special.xlogy(k, p) + special.xlog1py(1 - k, -p)

    def _cdf(self, k, p):
        return 1 - p + 0 * k

    def _sf(self, k, p):
        return p + 0 * k

    def _bound(self, p):
        return 0 * p + 1


class _Dirichlet:
    """The Dirichlet distribution on the simplex.

    x: ``(k, ...)``, points along the first axis, whose elements sum to 1, or ``(k - 1, ...)``
        without the last; unlike SciPy's, it is not checked that they do.
    alpha: ``(k,)``, positive.
    """

    def __call__(self, alpha: Any) -> _Frozen:
        return _Frozen(self, (alpha,), {})

    def __repr__(self) -> str:
        return "<distribution dirichlet>"

    def logpdf(self, x: Any, alpha: Any) -> Tensor:
        """The logarithm of the density at ``x``; -inf where an element is negative."""
        x, alpha = floating(x, alpha)
        if alpha.ndim != 1 or not x.ndim or x.shape[0] not in (alpha.size, alpha.size - 1):
            raise ValueError(
                f"dirichlet: x must be ({alpha.size}, ...), points along the first axis, for "
                f"alpha {alpha.shape}, not {x.shape}; alpha must have 1 axis"
            )
        x = moveaxis(x, 0, -1)
        inside = all_of(x >= 0, axis=-1)
        norm = sum_of(special.gammaln(alpha)) - special.gammaln(sum_of(alpha))
        given = x.shape[-1]
        logs = sum_of(special.xlogy(alpha[:given] - 1, x), axis=-1)
        if given < alpha.size:
            logs = logs + special.xlog1py(alpha[-1] - 1, -sum_of(x, axis=-1))
        return where(inside, logs - norm, -math.inf)

    def pdf(self, x: Any, alpha: Any) -> Tensor:
        """The density at ``x``."""
        return exp(self.logpdf(x, alpha))


class _MultivariateNormal:
    """The multivariate normal distribution.

    mean: ``(d,)``; by default 0.
    cov: symmetric ``(d, d)``, or its diagonal ``(d,)``, or a number times the identity.
    allow_singular: whether the matrix may be singular. Then the density is that on the subspace
        of its range, by the pseudo-inverse, and 0 outside it; the rank is constant for gradients.

    Otherwise a matrix that is not positive definite raises an error.
    """

    def __call__(self, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> _Frozen:
        return _Frozen(self, (mean, cov, allow_singular), {})

    def __repr__(self) -> str:
        return "<distribution multivariate_normal>"

    def logpdf(
        self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False
    ) -> Tensor:
        """The logarithm of the density at the points ``x (..., d)``, or ``(...)`` if d is 1."""
        x, mean, cov = floating(x, 0 if mean is None else mean, cov)
        d = max(mean.size, cov.shape[0] if cov.ndim else 1)
        x = expand_dims(x, -1) if d == 1 and x.shape[-1:] != (1,) else x
        if x.shape[-1:] != (d,) or mean.shape not in ((), (1,), (d,)):
            raise ValueError(
                f"multivariate_normal: x {x.shape} must be (..., {d}) for mean {mean.shape} and "
                f"cov {cov.shape}"
            )
        log_det, rank, white = _whitened(x - mean, _square(cov, d), allow_singular)
        return -(rank * LOG_2_PI + log_det + white) / 2

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Tensor:
        """The density at the points ``x``."""
        return exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: Any = None, cov: Any = 1) -> Tensor:
        """The differential entropy."""
        mean, cov = floating(0 if mean is None else mean, cov)
        d = max(mean.size, cov.shape[0] if cov.ndim else 1)
        lower = linalg.cholesky(_square(cov, d))
        return d * (LOG_2_PI + 1) / 2 + sum_of(log(diagonal(lower)))


def _square(cov, d):
    """A covariance matrix from a number, a diagonal or a matrix."""
    if cov.ndim < 2:
        return broadcast_to(cov, (d,)) * create("eye", d, like=cov)
    if cov.shape != (d, d):
        raise ValueError(f"multivariate_normal: cov must be ({d}, {d}), not {cov.shape}")
    return cov


def _whitened(deviation, cov, allow_singular):
    """Logarithm of the determinant, rank, and squared Mahalanobis distances ``(...)``."""
    if not allow_singular:
        lower = linalg.cholesky(cov)
        flat = deviation.reshape(-1, cov.shape[0])
        white = solve_triangular(lower, matrix_transpose(flat), lower=True)
        distances = sum_of(white * white, axis=0).reshape(deviation.shape[:-1])
        return 2 * sum_of(log(diagonal(lower))), cov.shape[0], distances
    eigenvalues = linalg.eigvalsh(cov)
    rtol = 1e6 * float(finfo(cov.dtype).eps)
    largest = max_of(absolute(eigenvalues.detach()))
    used = eigenvalues > rtol * largest
    log_det = sum_of(log(where(used, eigenvalues, 1.0)))
    whitened = deviation @ linalg.pinv(cov, rtol=rtol)
    outside = max_of(absolute(deviation - whitened @ cov), axis=-1) > rtol * largest
    distances = where(outside, math.inf, sum_of(whitened * deviation, axis=-1))
    return log_det, sum_of(used.astype(cov.dtype)), distances


bernoulli = _Bernoulli()
beta = _Beta()
binom = _Binom()
chi2 = _Chi2()
dirichlet = _Dirichlet()
expon = _Expon()
gamma = _Gamma()
laplace = _Laplace()
logistic = _Logistic()
lognorm = _LogNorm()
multivariate_normal = _MultivariateNormal()
norm = _Norm()
poisson = _Poisson()
t = _T()
