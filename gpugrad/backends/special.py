"""Special functions of raw arrays: the contents of ``xp.special`` for NumPy and CuPy."""

import math

import numpy as np


class LazyFunctions:
    """A namespace whose functions ``find(name)`` returns when they are first used."""

    def __init__(self, find):
        self._find = find

    def __getattr__(self, name):
        function = self._find(name)
        setattr(self, name, function)
        return function


def scipy_function(name):
    """SciPy's function; RuntimeError with the remedy if SciPy is not installed."""
    if name == "exp2":  # NumPy's is vectorised and takes a fiftieth of the time
        return np.exp2
    try:
        from scipy import special
    except ModuleNotFoundError as error:
        function = getattr(np, name, None)  # exp2, sinc, ...
        if name in ("erf", "erfc"):
            function = np.vectorize(getattr(math, name), otypes=[float])
        if function is None:
            raise RuntimeError("this needs SciPy; pip install scipy") from error
    else:
        function = getattr(special, name)
        # With SCIPY_ARRAY_API set, SciPy wraps its ufuncs.
        function = getattr(function, "__wrapped__", function)
        if name in ("bdtr", "bdtrc", "bdtri"):
            return _keep_dtype(_with_integer_trials(function))
        if isinstance(function, np.ufunc) and function.nout == 1:
            from .numpy.large import divided_ufunc  # here, since it imports this package

            function = divided_ufunc(function)
    return _keep_dtype(function)


def _with_integer_trials(function):
    # Beside float32 arrays, SciPy would take a Python int for a floating number of trials.
    return lambda k, n, p: function(k, np.int64(n) if type(n) is int else n, p)


def cupy_function(name):
    """CuPy's function, or one composed of others; RuntimeError that names it if there is none."""
    import cupy
    from cupyx.scipy import special

    def betaincc(a, b, x):
        return special.betainc(b, a, 1 - x)

    def stdtr(df, t):
        tail = special.betainc(df / 2, 0.5, df / (t * t + df)) / 2
        if isinstance(t, cupy.ndarray):
            return cupy.where(t < 0, tail, 1 - tail)
        return tail if t < 0 else 1 - tail

    def polygamma(n, x):
        if isinstance(n, cupy.ndarray):
            return special.polygamma(n, x)
        # CuPy's takes no number for n.
        if n == 0:
            return special.psi(x)
        return (-1) ** (n + 1) * math.gamma(n + 1) * special.zeta(n + 1, x)

    def yn(n, x):
        # CUDA's is nan for negative orders.
        sign = 1 - 2 * ((n < 0) & (n % 2 == 1))
        return sign * special.yn(abs(n), x)

    def stdtrit(df, p):
        # inner is t * t / (df + t * t). In the tails it is close to 1 and outer, 1 - inner, keeps
        # the digits. The ratio is t * t / df.
        tail = 2 * cupy.minimum(p, 1 - p)
        inner = special.betaincinv(0.5, df / 2, 1 - tail)
        outer = special.betaincinv(df / 2, 0.5, tail)
        ratio = cupy.where(tail > 0.5, inner / (1 - inner), (1 - outer) / outer)
        return cupy.copysign(cupy.sqrt(df * ratio), p - 0.5)

    def spence(z):
        # As in Cephes: reflections reduce z to [1/2, 3/2], where a rational function approximates.
        z = z.astype(np.result_type(z, np.float32), copy=False)
        inverted = z > 1.5
        x = cupy.where(inverted, 1 / z, z)
        mirrored = x < 0.5
        w = cupy.where(mirrored, -x, cupy.where(inverted & (z <= 2), 1 / z, x) - 1)
        value = -w * _horner(_SPENCE_ABOVE, w) / _horner(_SPENCE_BELOW, w)
        log = cupy.log(cupy.where(z > 0, x, 1))
        value = cupy.where(mirrored, math.pi**2 / 6 - log * cupy.log1p(-x) - value, value)
        value = cupy.where(inverted, -log * log / 2 - value, value)
        return cupy.where(z < 0, math.nan, value)

    composed = {f.__name__: f for f in (betaincc, polygamma, spence, stdtr, stdtrit, yn)}
    if (function := composed.get(name) or getattr(special, name, None)) is None:
        remedy = "move the inputs to the CPU with .to('cpu')"
        raise RuntimeError(f"CuPy has no function {name}, which this needs; {remedy}")
    return _keep_dtype(function)


# Coefficients of spence in Cephes, from the highest power down.
_SPENCE_ABOVE = (
    4.65128586073990045278e-5, 7.31589045238094711071e-3, 1.33847639578309018650e-1,
    8.79691311754530315341e-1, 2.71149851196553469920e0, 4.25697156008121755724e0,
    3.29771340985225106936e0, 1.00000000000000000126e0,
)  # fmt: skip
_SPENCE_BELOW = (
    6.90990488912553276999e-4, 2.54043763932544379113e-2, 2.82974860602568089943e-1,
    1.41172597751831069617e0, 3.63800533345137075418e0, 5.03278880143316990390e0,
    3.54771340985225096217e0, 9.99999999999999998740e-1,
)  # fmt: skip


def _horner(coefficients, x):
    value = coefficients[0]
    for c in coefficients[1:]:
        value = value * x + c
    return value


def _keep_dtype(function):
    """Make a function return its inputs' floating dtype; SciPy and CuPy have none for float16."""

    def call(*args):
        out = function(*args)
        for a in args:
            if getattr(a, "dtype", None) is out.dtype:
                return out
        floating = [a.dtype for a in args if hasattr(a, "dtype") and a.dtype.kind in "fc"]
        return out.astype(np.result_type(*floating), copy=False) if floating else out

    return call
