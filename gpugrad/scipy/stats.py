"""Probability distributions, with SciPy's names, parameters and values.

Each has ``pdf`` or, if it is discrete, ``pmf``; ``cdf``, and ``sf``, which is 1 - cdf; the
logarithms of these, such as ``logpdf``; ``ppf`` and ``isf``, the inverses of ``cdf`` and ``sf``;
and ``rvs``, which draws. All except ``rvs`` take the points first, then the distribution's shape
parameters, then ``loc`` and, if it is continuous, ``scale``, by position or by name, and broadcast
them:

    gamma.logpdf(x, a, loc=0, scale=1) is gamma(a, loc, scale).logpdf(x)

Results have the derivatives of the ops in `gpugrad.special` that they are made of, by the points
and by all parameters. They are nan where SciPy's are (for a scale of 0, a probability above 1).
Outside the support a density is 0, with gradient 0. Logarithms of densities are computed without
the density, and are finite where that underflows.

The formulas are those of N. L. Johnson, S. Kotz and N. Balakrishnan, "Continuous Univariate
Distributions" (1994, 1995), and N. L. Johnson, A. W. Kemp and S. Kotz, "Univariate Discrete
Distributions" (2005), in SciPy's parameters.
"""

import math
from functools import partial, reduce
from inspect import Parameter, Signature
from operator import and_
from typing import Any

from .. import linalg, special
from .._arguments import require
from .._creation import create
from .._foreign_names import explain_names
from .._limits import finfo
from .._tensor import Tensor
from ..autograd.mode import no_grad
from ..ops.manipulation import broadcast_shapes
from ..random import Generator, default_generator
from ._tensors import floating, ops
from .linalg import solve_triangular

__all__ = """
    bernoulli beta binom chi2 dirichlet expon gamma laplace logistic lognorm multivariate_normal
    norm poisson t
""".split()
explain_names(__name__)

LOG_2 = math.log(2)
LOG_2_PI = math.log(2 * math.pi)


class _Frozen:
    """A distribution with its parameters."""

    def __init__(self, distribution, args, keywords):
        self._distribution, self._args, self._keywords = distribution, args, keywords

    def __getattr__(self, name):
        method = getattr(self._distribution, name)
        return lambda *points: method(*points, *self._args, **self._keywords)

    def rvs(self, size: Any = None, random_state: Any = None) -> Tensor:
        """Random numbers; see the distribution's ``rvs``."""
        drawn = {"size": size, "random_state": random_state}
        return self._distribution.rvs(*self._args, **self._keywords, **drawn)


def _uniform(shape, like, random_state):
    """Random numbers above 0 and below 1, in the dtype and on the device of ``like``."""
    if random_state is None:
        random_state = default_generator(like.device)
    elif not isinstance(random_state, Generator):
        if not hasattr(random_state, "__index__"):
            raise TypeError(
                f"random_state must be a gpugrad.random.Generator, or a seed, not {random_state!r}"
            )
        random_state = Generator(random_state, like.device)
    u = random_state.uniform(shape, dtype=like.dtype)
    return ops.maximum(u, float(finfo(like.dtype).eps) / 4)


def _shape(size):
    return () if size is None else tuple(size) if isinstance(size, (tuple, list)) else (size,)


_parameter = partial(Parameter, kind=Parameter.POSITIONAL_OR_KEYWORD)


class _Distribution:
    """What continuous and discrete distributions share.

    name, doc: its name and docstring.
    shapes: the names of the shape parameters.
    lower, upper: the ends of the support.
    functions: those of the standard form, in which ``loc`` is 0 and ``scale`` 1, by the names of
        the methods. They take points inside the support, and the shape parameters. Besides,
        ``valid`` tells where these are valid, by default where they are positive; and ``last``
        gives an upper end that depends on them.
    """

    parameters: tuple[Parameter, ...] = _parameter("loc", default=0), _parameter("scale", default=1)
    inside = 0.5  # a point inside every support

    def __init__(
        self,
        name: str,
        doc: str,
        shapes: str = "",
        lower: float = -math.inf,
        upper: float = math.inf,
        **functions: Any,
    ) -> None:
        self._name, self.shapes = name, tuple(shapes.split())
        self.__doc__ = f"{doc}\n\n    {type(self).__doc__ or ''}"
        self.lower, self.upper = lower, upper
        self._signature = Signature([*map(_parameter, self.shapes), *self.parameters])
        cdf, sf = functions["cdf"], functions["sf"]
        self._of = {
            "logcdf": lambda x, *shapes: _log_of_probability(cdf(x, *shapes), sf(x, *shapes)),
            "logsf": lambda x, *shapes: _log_of_probability(sf(x, *shapes), cdf(x, *shapes)),
            "valid": lambda *shapes: reduce(and_, [shape > 0 for shape in shapes], True),
            "last": lambda *shapes: upper,
        } | functions

    def __call__(self, *args: Any, **keywords: Any) -> _Frozen:
        self._bind(args, keywords)
        return _Frozen(self, args, keywords)

    def __repr__(self) -> str:
        return f"<distribution {self._name}>"

    def _bind(self, args, keywords):
        """The shape parameters, the location and the scale."""
        try:
            given = self._signature.bind(*args, **keywords).arguments
        except TypeError as error:
            raise TypeError(
                f"{self._name}: its parameters, after the points, are {self._signature}: {error}"
            ) from None
        return [given[name] for name in self.shapes], given.get("loc", 0), given.get("scale", 1)

    def _read(self, x, args, keywords):
        """Points, shapes, location and scale as tensors, and where the parameters are valid."""
        shapes, loc, scale = self._bind(args, keywords)
        x, loc, scale, *shapes = floating(x, loc, scale, *shapes)
        return x, shapes, loc, scale, self._of["valid"](*shapes) & (scale > 0)

    def _standard(self, x, args, keywords):
        """Points in standard form, shapes, scale, and where points and parameters are valid."""
        x, shapes, loc, scale, valid = self._read(x, args, keywords)
        y = (x - loc) / scale
        return y, shapes, scale, valid & (y == y)

    def _distributed(self, name, x, args, keywords, below, above):
        """`cdf`, `sf` or a logarithm of one; below and above the support, these numbers.

        Points outside are replaced by one inside, so that they have no infinite slopes.
        """
        y, shapes, _, valid = self._standard(x, args, keywords)
        y, upper = self._point(y), self._of["last"](*shapes)
        inside = (y > self.lower) & (y < upper)
        result = self._of[name](ops.where(inside, y, self.inside), *shapes)
        result = ops.where(inside, result, ops.where(y < upper, below, above))
        return ops.where(valid, result, math.nan)

    def _point(self, y):
        return y

    def cdf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The probability of at most ``x``."""
        return self._distributed("cdf", x, args, keywords, 0.0, 1.0)

    def sf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The probability of more than ``x``, with all its digits where it is small."""
        return self._distributed("sf", x, args, keywords, 1.0, 0.0)

    def logcdf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The logarithm of `cdf`."""
        return self._distributed("logcdf", x, args, keywords, -math.inf, 0.0)

    def logsf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The logarithm of `sf`."""
        return self._distributed("logsf", x, args, keywords, 0.0, -math.inf)

    def _quantile(self, name, q, args, keywords):
        q, shapes, loc, scale, valid = self._read(q, args, keywords)
        valid = valid & (q >= 0) & (q <= 1)
        found = self._of[name](ops.where(valid, q, 0.5), *shapes)
        return ops.where(valid, found * scale + loc, math.nan)

    def ppf(self, q: Any, *args: Any, **keywords: Any) -> Tensor:
        """The inverse of `cdf`: the quantile of probability ``q``."""
        return self._quantile("ppf", q, args, keywords)

    def isf(self, q: Any, *args: Any, **keywords: Any) -> Tensor:
        """The inverse of `sf`."""
        return self._quantile("isf", q, args, keywords)

    def rvs(
        self, *args: Any, size: Any = None, random_state: Any = None, **keywords: Any
    ) -> Tensor:
        """Random numbers: quantiles of uniform ones, so that they have gradients by parameters.

        Those of discrete distributions are floating too, and where SciPy raises an error, for
        invalid parameters, they are nan.

        size: the shape, which may also stand behind the last parameter; by default that of the
            parameters together.
        random_state: a `gpugrad.random.Generator`, or a seed; by default the default generator of
            the parameters' device.
        """
        if len(args) == len(self._signature.parameters) + 1 and size is None:
            *args, size = args  # type: ignore[assignment]
        _, shapes, loc, scale, _ = self._read(0.5, args, keywords)
        common = broadcast_shapes(loc.shape, scale.shape, *[x.shape for x in shapes])
        shape = common if size is None else _shape(size)
        pairs = zip(reversed(common), reversed(shape), strict=False)
        fits = len(common) <= len(shape) and all(n in (1, m) for n, m in pairs)
        what = f"{self._name}.rvs: size must be a shape to which the parameters broadcast"
        require(fits, what, shape)
        return self.ppf(_uniform(shape, loc, random_state), *args, **keywords)


def _log_of_probability(p, complement):
    """``log(p)``, by way of ``complement = 1 - p`` where that has more digits."""
    small = p < 0.5
    return ops.where(
        small, ops.log(ops.where(small, p, 0.5)), ops.log1p(-ops.where(small, 0.5, complement))
    )


class _Continuous(_Distribution):
    """With ``loc`` and ``scale`` it is the distribution of ``scale * x + loc``.

    Its methods ``pdf``, ``logpdf``, ``cdf``, ``sf``, ``logcdf`` and ``logsf`` take points, and
    ``ppf`` and ``isf`` probabilities, then the parameters, all of which broadcast; ``rvs`` takes
    the parameters, ``size`` and ``random_state``. All results have gradients by the points and by
    all parameters. Outside the support a density is 0, with gradient 0. For parameters that are
    not valid, such as a ``scale`` that is not positive, they are nan.
    """

    def logpdf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The logarithm of the density at ``x``."""
        y, shapes, scale, valid = self._standard(x, args, keywords)
        inside = (y >= self.lower) & (y <= self.upper)
        result = self._of["logpdf"](ops.where(inside, y, 0.5), *shapes)
        result = ops.where(inside, result - ops.log(scale), -math.inf)
        return ops.where(valid, result, math.nan)

    def pdf(self, x: Any, *args: Any, **keywords: Any) -> Tensor:
        """The density at ``x``."""
        return ops.exp(self.logpdf(x, *args, **keywords))


def _symmetric(name, doc, shapes="", *, cdf, ppf, **functions):
    """A distribution whose density is even."""
    functions["sf"] = lambda x, *shapes: cdf(-x, *shapes)
    functions["isf"] = lambda q, *shapes: -ppf(q, *shapes)
    if logcdf := functions.get("logcdf"):
        functions["logsf"] = lambda x, *shapes: logcdf(-x, *shapes)
    return _Continuous(name, doc, shapes, cdf=cdf, ppf=ppf, **functions)


norm = _symmetric(
    "norm", "The normal distribution, ``exp(-x**2 / 2) / sqrt(2 * pi)``.",
    logpdf=lambda x: -x * x / 2 - LOG_2_PI / 2,
    cdf=special.ndtr, logcdf=special.log_ndtr, ppf=special.ndtri,
)  # fmt: skip


def _t_logpdf(x, df):
    # The ratio of gamma functions keeps its digits where df is large.
    factor = ops.log(special.poch(df / 2, 0.5)) - ops.log(math.pi * df) / 2
    return factor - (df + 1) / 2 * ops.log1p(x * x / df)


def _t_ppf(q, df):
    inside = (q > 0) & (q < 1)
    result = special.stdtrit(df, ops.where(inside, q, 0.5))
    return ops.where(inside, result, ops.where(q > 0, math.inf, -math.inf))


t = _symmetric(
    "t", "Student's t distribution with ``df`` degrees of freedom, "
    "``(1 + x**2 / df)**(-(df + 1) / 2) / (sqrt(df) * beta(df / 2, 1 / 2))``.", "df",
    logpdf=_t_logpdf, cdf=lambda x, df: special.stdtr(df, x), ppf=_t_ppf,
)  # fmt: skip


def _laplace_cdf(x):
    tail = ops.exp(-ops.abs(x)) / 2
    return ops.where(x > 0, 1 - tail, tail)


def _laplace_ppf(q):
    upper = q > 0.5
    tail = ops.log(2 * ops.where(upper, 1 - q, q))
    return ops.where(upper, -tail, tail)


laplace = _symmetric(
    "laplace", "The Laplace distribution, ``exp(-abs(x)) / 2``.",
    logpdf=lambda x: -ops.abs(x) - LOG_2,
    cdf=_laplace_cdf,
    logcdf=lambda x: ops.where(x > 0, ops.log1p(-ops.exp(-ops.abs(x)) / 2), x - LOG_2),
    ppf=_laplace_ppf,
)  # fmt: skip
logistic = _symmetric(
    "logistic", "The logistic distribution, ``exp(-x) / (1 + exp(-x))**2``.",
    logpdf=lambda x: special.log_expit(x) + special.log_expit(-x),
    cdf=special.expit, logcdf=special.log_expit, ppf=special.logit,
)  # fmt: skip
gamma = _Continuous(
    "gamma", "The gamma distribution, ``x**(a - 1) * exp(-x) / gamma(a)``.", "a", 0.0,
    logpdf=lambda x, a: special.xlogy(a - 1, x) - x - special.gammaln(a),
    cdf=lambda x, a: special.gammainc(a, x),
    sf=lambda x, a: special.gammaincc(a, x),
    ppf=lambda q, a: special.gammaincinv(a, q),
    isf=lambda q, a: special.gammainccinv(a, q),
)  # fmt: skip
chi2 = _Continuous(
    "chi2", "The chi-square distribution: that of twice a `gamma` of shape ``df / 2``.", "df", 0.0,
    logpdf=lambda x, df: (
        special.xlogy(df / 2 - 1, x) - (x + df * LOG_2) / 2 - special.gammaln(df / 2)
    ),
    cdf=lambda x, df: special.chdtr(df, x),
    sf=lambda x, df: special.chdtrc(df, x),
    ppf=lambda q, df: 2 * special.gammaincinv(df / 2, q),
    isf=lambda q, df: special.chdtri(df, q),
)  # fmt: skip
beta = _Continuous(
    "beta", "The beta distribution, ``x**(a - 1) * (1 - x)**(b - 1) / beta(a, b)`` from 0 to 1.",
    "a b", 0.0, 1.0,
    logpdf=lambda x, a, b: (
        special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)
    ),
    cdf=lambda x, a, b: special.betainc(a, b, x),
    sf=lambda x, a, b: special.betaincc(a, b, x),
    ppf=lambda q, a, b: special.betaincinv(a, b, q),
    isf=lambda q, a, b: 1 - special.betaincinv(b, a, q),
)  # fmt: skip
expon = _Continuous(
    "expon", "The exponential distribution, ``exp(-x)`` for positive ``x``.", "", 0.0,
    logpdf=lambda x: -x,
    cdf=lambda x: -ops.expm1(-x), ppf=lambda q: -ops.log1p(-q),
    sf=lambda x: ops.exp(-x), logsf=lambda x: -x, isf=lambda q: -ops.log(q),
)  # fmt: skip


def _lognorm_logpdf(x, s):
    positive = x > 0
    logs = ops.log(ops.where(positive, x, 1.0))
    density = -((logs / s) ** 2) / 2 - logs - ops.log(s) - LOG_2_PI / 2
    return ops.where(positive, density, -math.inf)


lognorm = _Continuous(
    "lognorm", "The distribution of ``exp(s * z)`` for a standard normal ``z``.", "s", 0.0,
    logpdf=_lognorm_logpdf,
    cdf=lambda x, s: special.ndtr(ops.log(x) / s),
    sf=lambda x, s: special.ndtr(-ops.log(x) / s),
    logcdf=lambda x, s: special.log_ndtr(ops.log(x) / s),
    logsf=lambda x, s: special.log_ndtr(-ops.log(x) / s),
    ppf=lambda q, s: ops.exp(s * special.ndtri(q)),
    isf=lambda q, s: ops.exp(-s * special.ndtri(q)),
)  # fmt: skip


class _Discrete(_Distribution):
    """With ``loc`` it is the distribution of ``k + loc``.

    Its methods ``pmf``, ``logpmf``, ``cdf``, ``sf``, ``logcdf`` and ``logsf`` take points, and
    ``ppf`` and ``isf`` probabilities, then the parameters, all of which broadcast; ``rvs`` takes
    the parameters, ``size`` and ``random_state``. Probabilities have gradients by the parameters.
    Quantiles are step functions, and so is the distribution function of the points; their
    gradients are 0. For parameters that are not valid, results are nan.
    """

    # Besides the functions of other distributions, ``bound`` gives a count at which the
    # distribution function is 1, up to rounding.

    parameters = (_parameter("loc", default=0),)
    inside = 0.0

    def __init__(self, name: str, doc: str, shapes: str, **functions: Any) -> None:
        functions["ppf"] = lambda q, *shapes: self._search("cdf", q, shapes, 1)
        functions["isf"] = lambda q, *shapes: self._search("sf", q, shapes, -1)
        # The lower end is between counts, so that 0 is inside the support.
        super().__init__(name, doc, shapes, -0.5, **functions)

    def logpmf(self, k: Any, *args: Any, **keywords: Any) -> Tensor:
        """The logarithm of the probability of ``k``; -inf where that is no count."""
        y, shapes, _, valid = self._standard(k, args, keywords)
        inside = (y == ops.floor(y)) & (y >= 0) & (y <= self._of["last"](*shapes))
        result = self._of["logpmf"](ops.where(inside, y, 0.0), *shapes)
        return ops.where(valid, ops.where(inside, result, -math.inf), math.nan)

    def pmf(self, k: Any, *args: Any, **keywords: Any) -> Tensor:
        """The probability of ``k``; 0 where that is no count."""
        return ops.exp(self.logpmf(k, *args, **keywords))

    def _point(self, y):
        return ops.floor(y)

    def _search(self, name, q, shapes, sign):
        """The smallest count, or -1, at which a function has reached ``q``, found by bisection.

        sign: 1 for `cdf`, which rises with the count; -1 for `sf`, which falls.
        """
        last = self._of["last"](*shapes)
        start, end = (0.0, 1.0) if sign > 0 else (1.0, 0.0)

        def reaches(k):
            inside = (k >= 0) & (k < last)
            found = self._of[name](ops.where(inside, k, 0.0), *shapes)
            found = ops.where(inside, found, ops.where(k < 0, start, end))
            return sign * found >= sign * q

        with no_grad():
            high = ops.maximum(self._of["bound"](*shapes), q * 0.0)
            low = high * 0.0 - 1.0
            for _ in range(_HALVINGS):
                middle = ops.floor((low + high) / 2)
                enough = reaches(middle)
                low, high = ops.where(enough, low, middle), ops.where(enough, middle, high)
            return ops.where(q == end, last, ops.where(reaches(low), low, high))


_HALVINGS = 48  # float32 and float64 count no further than 2**24 and 2**53

poisson = _Discrete(
    "poisson", "The Poisson distribution of mean ``mu``, ``mu**k * exp(-mu) / k!``.", "mu",
    valid=lambda mu: mu >= 0,
    logpmf=lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu,
    cdf=special.pdtr, sf=special.pdtrc,
    bound=lambda mu: ops.ceil(mu + 40 * ops.sqrt(mu) + 200),
)  # fmt: skip


def _binom_logpmf(k, n, p):
    n = n.detach()
    ways = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return ways + special.xlogy(k, p) + special.xlog1py(n - k, -p)


def _by_beta(function):
    """The incomplete beta function of ``p``, since k successes are as many as n - k failures."""

    return lambda k, n, p: function(k.detach() + 1, ops.maximum((n - k).detach(), 1.0), p)


binom = _Discrete(
    "binom",
    "The number of successes in ``n`` trials of probability ``p``; ``n`` gets no gradient.", "n p",
    valid=lambda n, p: (n >= 0) & (n == ops.floor(n)) & (p >= 0) & (p <= 1),
    last=lambda n, p: n.detach(),
    logpmf=_binom_logpmf, cdf=_by_beta(special.betaincc), sf=_by_beta(special.betainc),
    bound=lambda n, p: n + 0 * p,
)  # fmt: skip
bernoulli = _Discrete(
    "bernoulli", "One trial of probability ``p``: 1 for a success, 0 for a failure.", "p",
    valid=lambda p: (p >= 0) & (p <= 1),
    last=lambda p: 1.0, bound=lambda p: 0 * p + 1,
    logpmf=lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - k, -p),
    cdf=lambda k, p: 1 - p + 0 * k, sf=lambda k, p: p + 0 * k,
)  # fmt: skip


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
        x = ops.moveaxis(x, 0, -1)
        inside = ops.all(x >= 0, axis=-1)
        norm = ops.sum(special.gammaln(alpha)) - special.gammaln(ops.sum(alpha))
        given = x.shape[-1]
        logs = ops.sum(special.xlogy(alpha[:given] - 1, x), axis=-1)
        if given < alpha.size:
            logs = logs + special.xlog1py(alpha[-1] - 1, -ops.sum(x, axis=-1))
        return ops.where(inside, logs - norm, -math.inf)

    def pdf(self, x: Any, alpha: Any) -> Tensor:
        """The density at ``x``."""
        return ops.exp(self.logpdf(x, alpha))

    def rvs(self, alpha: Any, size: Any = None, random_state: Any = None) -> Tensor:
        """Random points ``(*size, k)``; without a size, SciPy's ``(1, k)``."""
        (alpha,) = floating(alpha)
        shape = (*_shape(1 if size is None else size), *alpha.shape)
        # By logarithms, since gamma numbers of a small alpha underflow (Marsaglia, Tsang 2000).
        u, v = _uniform((2, *shape), alpha, random_state)
        return special.softmax(ops.log(gamma.ppf(u, alpha + 1)) + ops.log(v) / alpha, axis=-1)


class _MultivariateNormal:
    """The multivariate normal distribution.

    mean: ``(d,)``; by default 0.
    cov: symmetric ``(d, d)``, or its diagonal ``(d,)``, or a number times the identity.
    allow_singular: whether the matrix may be singular. Then the density is that on the subspace
        of its range, by the pseudo-inverse, and 0 outside it; the rank is constant for gradients.

    Otherwise a matrix that is not positive definite raises an error.
    """

    def __call__(self, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> _Frozen:
        return _Frozen(self, (mean, cov), {"allow_singular": allow_singular})

    def __repr__(self) -> str:
        return "<distribution multivariate_normal>"

    def logpdf(
        self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False
    ) -> Tensor:
        """The logarithm of the density at the points ``x (..., d)``, or ``(...)`` if d is 1."""
        x, mean, cov = floating(x, 0 if mean is None else mean, cov)
        d, matrix = _covariance(mean, cov)
        x = ops.expand_dims(x, -1) if d == 1 and x.shape[-1:] != (1,) else x
        if x.shape[-1:] != (d,) or mean.shape not in ((), (1,), (d,)):
            raise ValueError(
                f"multivariate_normal: x {x.shape} must be (..., {d}) for mean {mean.shape} and "
                f"cov {cov.shape}"
            )
        log_det, rank, white = _whitened(x - mean, matrix, allow_singular)
        return -(rank * LOG_2_PI + log_det + white) / 2

    def pdf(self, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Tensor:
        """The density at the points ``x``."""
        return ops.exp(self.logpdf(x, mean, cov, allow_singular))

    def rvs(
        self,
        mean: Any = None,
        cov: Any = 1,
        size: Any = None,
        random_state: Any = None,
        *,
        allow_singular: bool = False,
    ) -> Tensor:
        """Random points ``(*size, d)`` by the Cholesky factor; axes of length 1 are left out.

        For a matrix that may be singular it is by the eigenvectors instead.
        """
        mean, cov = floating(0 if mean is None else mean, cov)
        d, matrix = _covariance(mean, cov)
        z = special.ndtri(_uniform((*_shape(size), d), cov, random_state))
        if allow_singular:
            values, vectors = linalg.eigh(matrix)
            used = values > 0
            root = vectors * ops.where(used, ops.sqrt(ops.where(used, values, 1.0)), 0.0)
        else:
            root = linalg.cholesky(matrix)
        points = mean + z @ ops.matrix_transpose(root)
        return points.reshape([n for n in points.shape if n != 1])

    def entropy(self, mean: Any = None, cov: Any = 1, *, allow_singular: bool = False) -> Tensor:
        """The differential entropy."""
        d, matrix = _covariance(*floating(0 if mean is None else mean, cov))
        log_det, rank, _ = _whitened(create("zeros", d, like=matrix), matrix, allow_singular)
        return (rank * (LOG_2_PI + 1) + log_det) / 2


def _covariance(mean, cov):
    """The dimension, and the covariance matrix, for which a number or the diagonal may be given."""
    d = max(mean.size, cov.shape[0] if cov.ndim else 1)
    if cov.ndim < 2:
        return d, ops.broadcast_to(cov, (d,)) * create("eye", d, like=cov)
    require(cov.shape == (d, d), f"multivariate_normal: cov must be ({d}, {d})", cov.shape)
    return d, cov


def _whitened(deviation, cov, allow_singular):
    """Logarithm of the determinant, rank, and squared Mahalanobis distances ``(...)``."""
    if not allow_singular:
        lower = linalg.cholesky(cov)
        flat = deviation.reshape(-1, cov.shape[0])
        white = solve_triangular(lower, ops.matrix_transpose(flat), lower=True)
        distances = ops.sum(white * white, axis=0).reshape(deviation.shape[:-1])
        return 2 * ops.sum(ops.log(linalg.diagonal(lower))), cov.shape[0], distances
    eigenvalues = linalg.eigvalsh(cov)
    rtol = 1e6 * float(finfo(cov.dtype).eps)
    largest = ops.max(ops.abs(eigenvalues.detach()))
    used = eigenvalues > rtol * largest
    log_det = ops.sum(ops.log(ops.where(used, eigenvalues, 1.0)))
    whitened = deviation @ linalg.pinv(cov, rtol=rtol)
    outside = ops.max(ops.abs(deviation - whitened @ cov), axis=-1) > rtol * largest
    distances = ops.where(outside, math.inf, ops.sum(whitened * deviation, axis=-1))
    return log_det, ops.sum(used.astype(cov.dtype)), distances


dirichlet = _Dirichlet()
multivariate_normal = _MultivariateNormal()
