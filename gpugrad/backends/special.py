"""Special functions on raw arrays: what ``xp.special`` holds, for each kind of library."""

import math

import numpy as np


class Functions:
    """A namespace of functions that ``find(name)`` makes when they are first used."""

    def __init__(self, find):
        self._find = find

    def __getattr__(self, name):
        function = self._find(name)
        setattr(self, name, function)
        return function


def of_scipy(name):
    """SciPy's function; RuntimeError that says so if SciPy is not installed."""
    if name == "exp2":  # NumPy's vectorises, and takes a fiftieth of the time
        return np.exp2
    try:
        from scipy import special
    except ModuleNotFoundError as error:
        function = _without_scipy(name)
        if function is None:
            raise RuntimeError("it needs SciPy; pip install scipy") from error
    else:
        function = getattr(special, name)
        # Told to take the arrays of any library, SciPy wraps its ufuncs.
        function = getattr(function, "__wrapped__", function)
        if name in ("bdtr", "bdtrc", "bdtri"):
            return _keeping_dtype(_of_trials(function))
    return _keeping_dtype(function)


def _of_trials(function):
    # Beside float32 SciPy would take a Python int for a number of trials that is not integer.
    return lambda k, n, p: function(k, np.int64(n) if type(n) is int else n, p)


def _without_scipy(name):
    if name in ("erf", "erfc"):
        return np.vectorize(getattr(math, name), otypes=[float])
    return getattr(np, name, None)  # exp2, sinc, ...


def of_cupy(name):
    """CuPy's function, or one made of its others; RuntimeError that names it if there is none."""
    import cupy
    from cupyx.scipy import special

    def betaincc(a, b, x):
        return special.betainc(b, a, 1 - x)

    def stdtr(df, t):
        tail = special.betainc(df / 2, 0.5, df / (t * t + df)) / 2
        return cupy.where(t < 0, tail, 1 - tail)

    def stdtrit(df, p):
        # By t * t / (df + t * t), near its middle, or there and in the tails by 1 less that.
        tail = 2 * cupy.minimum(p, 1 - p)
        inner = special.betaincinv(0.5, df / 2, 1 - tail)
        outer = special.betaincinv(df / 2, 0.5, tail)
        ratio = cupy.where(tail > 0.5, inner / (1 - inner), (1 - outer) / outer)
        return cupy.copysign(cupy.sqrt(df * ratio), p - 0.5)

    def spence(z):
        # Cephes: reduced to [1/2, 3/2] by reflections, in which it is a ratio of polynomials.
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

    made = {"betaincc": betaincc, "spence": spence, "stdtr": stdtr, "stdtrit": stdtrit}
    function = getattr(special, name, None) or made.get(name)
    if function is None:
        raise RuntimeError(
            f"CuPy has no function {name}, which this needs; "
            f"move the inputs to the CPU with .to('cpu')"
        )
    return _keeping_dtype(function)


# Of Cephes's spence, from the highest power.
_SPENCE_ABOVE = (
    4.65128586073990045278e-5,
    7.31589045238094711071e-3,
    1.33847639578309018650e-1,
    8.79691311754530315341e-1,
    2.71149851196553469920e0,
    4.25697156008121755724e0,
    3.29771340985225106936e0,
    1.00000000000000000126e0,
)
_SPENCE_BELOW = (
    6.90990488912553276999e-4,
    2.54043763932544379113e-2,
    2.82974860602568089943e-1,
    1.41172597751831069617e0,
    3.63800533345137075418e0,
    5.03278880143316990390e0,
    3.54771340985225096217e0,
    9.99999999999999998740e-1,
)


def _horner(coefficients, x):
    value = coefficients[0]
    for c in coefficients[1:]:
        value = value * x + c
    return value


def _keeping_dtype(function):
    """The function with a result of its floating inputs' dtype: of float16 they have none."""

    def call(*args):
        out = function(*args)
        for a in args:
            if getattr(a, "dtype", None) is out.dtype:
                return out
        floating = [a.dtype for a in args if hasattr(a, "dtype") and a.dtype.kind in "fc"]
        return out.astype(np.result_type(*floating), copy=False) if floating else out

    return call


def of_host(backend, on_numpy, name):
    """For a generic library's CPU arrays the function on NumPy's, which it hands them to."""
    function = getattr(on_numpy, name)

    def call(*args):
        like = next(a for a in args if type(a) in backend.array_types)
        if like.__dlpack_device__()[0] != 1:  # kDLCPU in DLPack's header
            raise RuntimeError(
                f"{backend.name} has no function {name}, which this needs, and SciPy's takes CPU "
                f"arrays; move the inputs there with .to('cpu')"
            )
        device = one_device(backend, args)
        given = [backend.to_numpy(a) if type(a) in backend.array_types else a for a in args]
        out = function(*given)
        if not any(hasattr(a, "dtype") and a.dtype.kind == "f" for a in given):
            out = np.asarray(out, np.float32)  # of integers: not every device has float64
        return backend.asarray(out, device=device)

    return call


def one_device(backend, args):
    """The device of the arrays among the arguments; the call layer rewords the error."""
    devices = {backend.device(a) for a in args if type(a) in backend.array_types}
    if len(devices) > 1:
        raise ValueError(f"inputs are on different devices, {' and '.join(sorted(devices))}")
    return devices.pop()
