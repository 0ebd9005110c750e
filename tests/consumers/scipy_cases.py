"""SciPy's generic functions, each with arguments for a call.

Generic functions are those that SciPy declares to work on the arrays of any library. This table
has all public ones of SciPy 1.17, and some that SciPy supports for CPU arrays only but that work on
Tensors too.
"""

import math
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from operator import attrgetter

import numpy as np
import scipy
from array_api_compat import array_namespace
from scipy import optimize, stats
from scipy.spatial.transform import RigidTransform, Rotation, Slerp

SCIPY = tuple(map(int, scipy.__version__.split(".")[:2]))


class Fixed:
    """An array argument that is not differentiated with respect to."""

    def __init__(self, values):
        self.values = np.asarray(values)


class Case:
    """A function of SciPy and arguments for it.

    name: the function's path below ``scipy.``; several cases may have the same name.
    inputs: arrays. Derivatives are taken with respect to the floating and complex ones.
    call: a function that calls the function, its first argument, with the inputs.
    pick: names of the attributes of the result to compare.
    why: the reason why it has no gradient on Tensors; the test checks that it has none.
    error: if it rejects Tensors, the exception and words of its message.
    static: keyword arguments of the function.
    """

    def __init__(self, name, *inputs, call=None, pick="", why=None, error=None, **static):
        self.name, self.inputs, self.call, self.static = name, inputs, call, static
        self.pick, self.why, self.error = pick.split(), why, error

    def __repr__(self):
        return self.name

    def __call__(self, *inputs, **keywords):
        """Call the function; return the arrays in its result."""
        function = find(self.name)
        call = partial(self.call, function) if self.call else function
        result = call(*inputs, **self.static, **keywords)
        return arrays([getattr(result, name) for name in self.pick] if self.pick else result)


def find(name):
    """Return the function of SciPy with this name, in a module or a class."""
    path = ["scipy", *name.split(".")]
    is_class = [part[0].isupper() for part in path]
    depth = is_class.index(True) if True in is_class else len(path) - 1
    return attrgetter(".".join(path[depth:]))(import_module(".".join(path[:depth])))


def arrays(result):
    """Return the arrays in a result, in order."""
    if isinstance(result, (Rotation, RigidTransform)):
        return [result.as_quat() if isinstance(result, Rotation) else result.as_matrix()]
    if isinstance(result, (tuple, list, Iterator)):
        return [array for part in result for array in arrays(part)]
    return [result]


def cases_of(module, names, *inputs, **keywords):
    return [Case(f"{module}.{name}", *inputs, **keywords) for name in names.split()]


def without_gradient(why, *cases, error=None):
    for case in cases:
        case.why, case.error = why, error
    return cases


def refused(is_so):
    """Return what a case says of a function that rejects Tensors in some releases of SciPy."""
    return {"why": FOREIGN, "error": REFUSED} if is_so else {}


# Ways to call a function


def _of_rotation(method, q, *inputs, **static):
    return method(Rotation(q), *inputs, **static)


def _of_motion(method, t, q, *inputs, **static):
    return method(_motion(t, q), *inputs, **static)


def _of_linkage(function, heights):
    return function(_linkage(heights))


def _window(window, value, *, parameter):
    """Return a window of eight elements, by a parameter."""
    return window(8, **{parameter: value}, xp=array_namespace(value))


def _power(power, xp):
    """Return the power of a t-test with ten values."""

    def pvalue(x, axis):
        return stats.ttest_1samp(x, 0.0, axis=axis).pvalue

    return power(pvalue, [_normal_like(xp.zeros(1))], [xp.asarray(10)], n_resamples=30)


def _quasi_random(quad, lower, upper, p):
    """Return an integral over a rectangle by a low-discrepancy sequence."""

    def bell(x):
        return _bell(x[0, ...] + x[1, ...], p)

    return quad(bell, lower, upper, n_points=16, qrng=stats.qmc.Halton(2, rng=0))


# Arguments of the functions


def _normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def _uniform(*shape, low=0.1, high=0.9, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape)


def _complex(*shape):
    return _normal(*shape) + 1j * _normal(*shape, seed=1)


def _mean(x, axis):
    return array_namespace(x).mean(x, axis=axis)


def _difference(x, y, axis):
    return _mean(x, axis) - _mean(y, axis)


def _normal_like(x):
    """Return a function that makes random arrays of the same library as ``x``."""
    rng = np.random.default_rng(0)
    return lambda size: array_namespace(x).asarray(rng.normal(size=size))


def _ends(p, *values):
    """Return limits of an integral or a search, each as an array like ``p``."""
    return [array_namespace(p).full_like(p, float(value)) for value in values]


def _bell(x, p):
    return array_namespace(x).exp(-p * x**2)


def _of_bell(function, *limits_and_rates):
    *limits, rates = limits_and_rates
    return function(_bell, *limits, args=(rates,))


def _to_infinity(integrate, p):
    result = _of_bell(integrate, *_ends(p, 1, math.inf), p)
    if not all(result.success):
        raise ArithmeticError(f"status {int(result.status[0])}")
    return next(iter(result.values()))


def _bells(x, p):
    """Return one value per point and rate, for ``cubature``; points ``(n, 2)``."""
    return _bell(x[:, :1] + x[:, 1:] / 2, p[None, :])


def _curve(x):
    """Map three numbers to two, for ``jacobian``."""
    xp = array_namespace(x)
    return xp.stack([xp.sin(x[0, ...] * x[1, ...]), x[2, ...] ** 3 - x[0, ...]])


def _cubic(x, p):
    return x**3 + x - p


def _valley(x, p):
    return (x**2 - p) ** 2 + x / 10


def _motion(translation, quaternion):
    return RigidTransform.from_components(translation, Rotation(quaternion))


def _affine(from_matrix, upper):
    """Return rigid transforms from the upper three rows of their matrices ``(n, 4, 4)``."""
    xp = array_namespace(upper)
    last = xp.zeros_like(upper[:, :1, :])
    last[:, :, 3] = 1.0
    return from_matrix(xp.concat([upper, last], axis=1))


def _sections(x):
    """Return second-order sections of a filter, whose fourth coefficient must be 1."""
    xp = array_namespace(x)
    return xp.concat([x[:, :3], xp.ones_like(x[:, :1]), x[:, 3:]], axis=1)


def _linkage(heights):
    """Return a tree of four points, which joins two pairs and then both pairs."""
    z = array_namespace(heights).asarray([[0.0, 1, 0, 2], [2, 3, 0, 2], [4, 5, 0, 4]])
    z = array_namespace(heights).astype(z, heights.dtype)
    z[:, 2] = heights
    return z


def _assigned(target, value):
    target[0] = value[1]
    return target


X = _normal(12, 2)
Y = _normal(10, 2, seed=1) + 0.3
Z = _normal(11, 2, seed=2) - 0.2
LONG = _normal(24, seed=3)
POSITIVE = _uniform(12, 2, low=0.5, high=3.0)
WEIGHTS = _uniform(12, 2, seed=5)
UNIT = _uniform(8)
RATES = np.array([0.6, 1.3])
SIGNAL = _normal(3, 8)
QUATERNIONS = _normal(2, 4)
VECTORS = _normal(2, 3, seed=1)
TRANSLATIONS = _normal(2, 3, seed=2)
POLES = np.array([-0.3 + 0.4j, -0.2 - 0.7j, -0.5 + 0.1j])
ZEROS = np.array([0.2 + 0.6j, 0.2 - 0.6j])
LIMITS = np.array([[-0.4, 0.1], [1.1, 0.7]])  # two lower ones, two upper ones
HEIGHTS = np.array([0.5, 0.7, 1.5])

ROTATION = "spatial.transform.Rotation"
MOTION = "spatial.transform.RigidTransform"

RANKS = "depends on the order of the values only"
WHOLE = "gives integers or bools"
NUMBERS = "is given plain numbers"
VIEWS = "with an infinite limit writes through a view, but Tensors are values"
HOST = "reads the value of a parameter as a Python number"
FOREIGN = "converts what it is given to NumPy's arrays"
REFUSED = ((RuntimeError, TypeError), "requires grad|without gradient")

CASES = [
    # special; tests/ops/test_special.py has those that SciPy looks up in the namespace
    *cases_of("special", "log_softmax logsumexp softmax", X),
    Case("special.multigammaln", UNIT * 4 + 2, d=3),
    # stats: descriptive statistics of one sample
    *cases_of("stats", "describe kstat kstatvar kurtosis sem skew variation zscore gmean gstd"
              " gzscore hmean lmoment iqr median_abs_deviation entropy", POSITIVE),
    *cases_of("stats", "tmean tstd tsem tvar", POSITIVE, limits=(0.6, 2.8)),
    *cases_of("stats", "tmax tmin", POSITIVE),
    *cases_of("stats", "circmean circstd circvar", POSITIVE, high=4.0, low=-1.0, axis=0),
    *cases_of("stats", "differential_entropy mode sigmaclip", LONG),
    *cases_of("stats", "gmean hmean", POSITIVE, WEIGHTS, call=lambda f, x, w: f(x, weights=w)),
    Case("stats.pmean", POSITIVE, p=3), Case("stats.moment", POSITIVE, order=3),
    Case("stats.trim_mean", POSITIVE, proportiontocut=0.1),
    Case("stats.quantile", POSITIVE, np.array([0.2, 0.55])[:, None]),
    Case("stats.quantile", POSITIVE, np.array([0.2, 0.55])[:, None], method="harrell-davis"),
    Case("stats.zmap", X, Y), Case("stats.entropy", POSITIVE, WEIGHTS),
    Case("stats.boxcox_llf", Fixed(0.7), POSITIVE),
    Case("stats.yeojohnson_llf", np.asarray(0.7), POSITIVE, **refused(SCIPY >= (1, 18))),
    Case("stats.directional_stats", _normal(5, 3), pick="mean_direction mean_resultant_length"),
    # stats: tests
    *cases_of("stats", "alexandergovern bartlett", X, Y, Z, pick="statistic pvalue"),
    *cases_of("stats", "f_oneway levene", X, Y, Z),
    *cases_of("stats", "jarque_bera kurtosistest normaltest skewtest", LONG),
    Case("stats.ttest_1samp", X, np.array([0.1, 0.2])), Case("stats.ttest_rel", X, WEIGHTS),
    Case("stats.ttest_ind", X, Y), Case("stats.ttest_ind", X, Y, equal_var=False),
    Case("stats.ttest_ind_from_stats", *np.array([[0.3], [1.1], [0.5], [0.9]]),
         call=lambda test, m1, s1, m2, s2: test(m1, s1, 9, m2, s2, 12)),
    Case("stats.pearsonr", X, WEIGHTS, pick="statistic pvalue"),
    *cases_of("stats", "chisquare", POSITIVE, WEIGHTS, sum_check=False),
    *cases_of("stats", "power_divergence", POSITIVE, lambda_=0.5),
    Case("stats.epps_singleton_2samp", X, Y),
    *cases_of("stats", "combine_pvalues false_discovery_control", UNIT),
    Case("stats.combine_pvalues", UNIT, method="stouffer"),
    *without_gradient(
        RANKS, *cases_of("stats", "friedmanchisquare kruskal", X, WEIGHTS, POSITIVE),
        Case("stats.fligner", X[:11], WEIGHTS[:11], Z),
        *cases_of("stats", "mood chatterjeexi spearmanrho ansari", X, WEIGHTS),
        *cases_of("stats", "brunnermunzel mannwhitneyu wilcoxon", X, POSITIVE),
        Case("stats.cramervonmises_2samp", LONG, Y[:, 0], pick="statistic pvalue"),
        Case("stats.rankdata", X), Case("stats._quantile._xp_searchsorted", np.sort(UNIT), X[:, 0]),
    ),
    *without_gradient(
        HOST, Case("stats.boxcox_llf", np.asarray(0.7), POSITIVE),
        Case("signal.choose_conv_method", UNIT, UNIT),
        *cases_of("signal", "iirnotch iirpeak iircomb", np.asarray(0.25), Q=10.0),
        *cases_of("signal", "cheb1ap cheb2ap", np.asarray(1.5), call=lambda f, r: f(3, r)),
        Case("signal.windows.tukey", np.asarray(0.5), call=lambda f, alpha: f(8, alpha)),
        error=(RuntimeError, "(float|int): this tensor requires grad"),
    ),
    # stats: resampling
    Case("stats.bootstrap", LONG, pick="standard_error confidence_interval bootstrap_distribution",
         call=lambda f, x: f((x,), _mean, n_resamples=30, method="percentile", rng=0)),
    Case("stats.permutation_test", X[:, 0], Y[:, 0], pick="statistic null_distribution",
         call=lambda f, *xs: f(xs, _difference, n_resamples=30, rng=0)),
    Case("stats.monte_carlo_test", LONG, pick="statistic",
         call=lambda f, x: f(x, _normal_like(x), _mean, n_resamples=30)),
    Case("stats.power", pick="power", why=NUMBERS, call=_power),
    # integrate
    *cases_of("integrate", "trapezoid cumulative_trapezoid", SIGNAL),
    *cases_of("integrate", "trapezoid cumulative_trapezoid cumulative_simpson",
              SIGNAL, np.sort(UNIT), call=lambda f, y, x: f(y, x=x)),
    Case("integrate.romb", _normal(2, 9)),
    Case("integrate.tanhsinh", np.asarray(-0.4), np.asarray(1.1), RATES, call=_of_bell,
         pick="integral"),
    Case("integrate.cubature", *LIMITS, RATES, pick="estimate",
         call=lambda f, a, b, p: f(_bells, a, b, args=(p,))),
    Case("integrate.nsum", RATES, call=lambda f, p: _of_bell(f, *_ends(p, 1, 9), p), pick="sum"),
    *without_gradient(
        VIEWS, *cases_of("integrate", "tanhsinh nsum", RATES, call=_to_infinity),
        error=(ArithmeticError, "status -3"),
    ),
    Case("integrate.qmc_quad", *LIMITS, np.asarray(0.8), call=_quasi_random,
         pick="integral standard_error"),
    # differentiate, optimize
    Case("differentiate.derivative", UNIT[:2], RATES, call=_of_bell, pick="df"),
    Case("differentiate.jacobian", UNIT[:3], call=lambda f, x: f(_curve, x), pick="df"),
    Case("differentiate.hessian", UNIT[:3], call=lambda f, x: f(optimize.rosen, x), pick="ddf"),
    *cases_of("optimize", "rosen rosen_der rosen_hess", X[:5, 0]),
    Case("optimize.rosen_hess_prod", X[:5, 0], X[5:10, 0]),
    *(
        Case(f"optimize.elementwise.{name}", RATES, pick=pick,
             call=lambda find, p, f=f, at=at: find(f, *at(p), args=(p,)))
        for name, f, at, pick in (
            ("find_root", _cubic, lambda p: [_ends(p, 0, 2)], "x"),
            ("find_minimum", _valley, lambda p: [_ends(p, 0, 1, 4)], "f_x"),
            ("bracket_root", _cubic, lambda p: [p * 0.1, p * 0.2], "bracket f_bracket"),
            ("bracket_minimum", _valley, lambda p: [p * 0.1], "bracket f_bracket"),
        )
    ),
    # fft
    *cases_of("fft", "fft ifft hfft irfft fft2 ifft2 fftn ifftn hfftn irfftn hfft2 irfft2",
              _complex(3, 4)),
    *cases_of("fft", "rfft ihfft rfft2 rfftn ihfft2 ihfftn fftshift ifftshift", SIGNAL),
    *cases_of("fft", "fht ifht", SIGNAL, dln=0.1, mu=0.5),
    *without_gradient(NUMBERS, *cases_of("fft", "fftfreq rfftfreq", n=6)),
    # linalg, interpolate, cluster, constants
    Case("linalg.block_diag", X, Y), Case("linalg.fiedler", UNIT),
    Case("linalg.orthogonal_procrustes", X, WEIGHTS),
    *without_gradient(
        "reinterprets the memory of an array",
        Case("interpolate.RBFInterpolator", X, POSITIVE, X[:3] + 0.1,
             call=lambda interpolator, y, d, x: interpolator(y, d)(x)),
        error=(AttributeError, "view"),
    ),
    Case("cluster.vq.whiten", X),
    Case("cluster.hierarchy.to_mlab_linkage", HEIGHTS, call=_of_linkage),
    Case("cluster.hierarchy.to_tree", HEIGHTS, call=_of_linkage, pick="dist"),
    *without_gradient(
        WHOLE,
        *cases_of("cluster.hierarchy", "is_valid_linkage is_valid_im is_monotonic num_obs_linkage",
                  HEIGHTS, call=_of_linkage),
        Case("cluster.hierarchy.correspond", HEIGHTS,
             call=lambda f, h: f(_linkage(h), array_namespace(h).ones(6))),
        Case("cluster.hierarchy.is_isomorphic", np.array([1, 1, 2]), np.array([2, 2, 1])),
    ),
    *cases_of("constants", "lambda2nu nu2lambda", POSITIVE),
    Case("constants.convert_temperature", POSITIVE, old_scale="Celsius", new_scale="Fahrenheit"),
    # signal
    Case("signal.abcd_normalize", *(_normal(*s) for s in ((3, 3), (3, 2), (1, 3), (1, 2)))),
    Case("signal.freqz_zpk", ZEROS, POLES, np.asarray(0.7), worN=5),
    Case("signal.freqs_zpk", ZEROS, POLES, np.asarray(0.7), UNIT),
    Case("signal.freqz", UNIT, np.array([1.0, 0.3]), worN=5),
    Case("signal.freqs", UNIT[:3], UNIT[3:], UNIT),
    Case("signal.freqz_sos", _normal(2, 5), call=lambda f, x: f(_sections(x), worN=5)),
    Case("signal.gauss_spline", X, n=3), *cases_of("signal", "hilbert hilbert2 envelope", SIGNAL),
    *cases_of("signal", "fftconvolve oaconvolve", SIGNAL, SIGNAL[:, ::2]),
    Case("signal.bilinear_zpk", ZEROS, POLES, np.asarray(0.7), fs=2.0),
    *cases_of("signal", "lp2lp_zpk lp2hp_zpk lp2bp_zpk lp2bs_zpk", ZEROS, POLES, np.asarray(0.7)),
    *cases_of("signal", "lp2lp lp2hp lp2bp lp2bs normalize", UNIT[:3], UNIT[3:]),
    Case("signal.vectorstrength", UNIT, np.asarray(0.4)), Case("signal.minimum_phase", UNIT),
    Case("signal.bode", UNIT, call=lambda f, x: f((x[:2], x[2:5]), n=5)),
    Case("signal.resample", SIGNAL, num=5, axis=1),
    *without_gradient(
        FOREIGN,
        *cases_of("signal", "iirdesign", np.array([0.3]), np.array([0.5]), gpass=1, gstop=20),
        Case("signal.place_poles", _normal(3, 3), _normal(3, 2), Fixed([-1.0, -2.0, -3.0]),
             pick="gain_matrix"),
        Case("signal.filtfilt", UNIT[:2], np.array([1.0, 0.3]), _normal(12)),
        Case("signal.impulse", UNIT, call=lambda f, x: f((x[:2], x[2:5]), N=5)), error=REFUSED,
    ),
    Case("signal.sosfilt_zi", _normal(2, 5), call=lambda f, x: f(_sections(x)),
         **refused(SCIPY < (1, 18))),
    Case("signal.firwin", np.array([0.2, 0.5]), call=lambda f, c: f(7, c)),
    *without_gradient(
        NUMBERS, *cases_of("signal", "besselap buttap", N=3),
        Case("signal.cheb1ap", N=3, rp=1), Case("signal.cheb2ap", N=3, rs=20),
        Case("signal.ellipap", N=3, rp=1, rs=20), Case("signal.gammatone", freq=0.2, ftype="iir"),
        *cases_of("signal", "iirnotch iirpeak iircomb", w0=0.25, Q=10),
        Case("signal.savgol_coeffs", window_length=7, polyorder=2),
        *cases_of("signal", "get_window windows.get_window", window=("kaiser", 3.0), Nx=6),
        *cases_of("signal.windows", "barthann bartlett blackman blackmanharris bohman boxcar cosine"
                  " flattop hamming hann lanczos nuttall parzen triang tukey", M=6),
    ),
    *(
        Case(f"signal.windows.{name}", np.asarray(value), call=_window, parameter=parameter)
        for name, parameter, value in (
            ("chebwin", "at", 2.5), ("gaussian", "std", 2.5), ("general_hamming", "alpha", 2.5),
            ("kaiser", "beta", 2.5), ("kaiser_bessel_derived", "beta", 2.5),
            ("exponential", "tau", 25.0), ("taylor", "sll", 25.0),
        )
    ),
    Case("signal.windows.general_cosine", UNIT, call=lambda f, a: f(7, a)),
    Case("signal.windows.general_gaussian", np.asarray(1.5), np.asarray(2.5),
         call=lambda f, p, s: f(7, p, s, xp=array_namespace(p))),
    # spatial.transform
    *cases_of(ROTATION, "as_quat as_matrix as_mrp as_rotvec magnitude inv mean __iter__",
              QUATERNIONS, call=_of_rotation),
    *(Case(f"{ROTATION}.as_euler", QUATERNIONS, call=_of_rotation, seq=x) for x in ("xyz", "ZXZ")),
    Case(f"{ROTATION}.apply", QUATERNIONS, VECTORS, call=_of_rotation),
    Case(f"{ROTATION}.__getitem__", QUATERNIONS, call=_of_rotation, indexer=1),
    Case(f"{ROTATION}.__pow__", QUATERNIONS, call=_of_rotation, n=0.4),
    Case(f"{ROTATION}.as_davenport", QUATERNIONS, Fixed(np.eye(3)[[0, 1, 0]]), call=_of_rotation,
         order="extrinsic"),
    Case(f"{ROTATION}.from_quat", QUATERNIONS),
    # Writes into its argument, which must not be a leaf.
    Case(f"{ROTATION}.from_matrix", _normal(2, 3, 3) + 3 * np.eye(3), call=lambda f, m: f(m * 1.0)),
    *cases_of(ROTATION, "from_rotvec from_mrp", VECTORS),
    Case(f"{ROTATION}.from_euler", VECTORS, call=lambda f, angles: f("xyz", angles)),
    Case(f"{ROTATION}.from_davenport", VECTORS, Fixed(np.eye(3)),
         call=lambda f, angles, axes: f(axes, "intrinsic", angles)),
    Case(f"{ROTATION}.align_vectors", _normal(5, 3), _normal(5, 3, seed=1)),
    *(
        Case(f"{ROTATION}.{name}", QUATERNIONS, QUATERNIONS[::-1] + 0.2, call=call)
        for name, call in {
            "concatenate": lambda f, p, q: f([Rotation(p), Rotation(q)]),
            "reduce": lambda f, p, q: f(Rotation(p), Rotation(q), Rotation(p[::-1])),
            "__mul__": lambda f, p, q: f(Rotation(p), Rotation(q)),
            "__setitem__": lambda f, p, q: _assigned(Rotation(p), Rotation(q)),
        }.items()
    ),
    Case(f"{ROTATION}.approx_equal", QUATERNIONS, why=WHOLE,
         call=lambda f, q: f(Rotation(q), Rotation(2 * q), atol=1e-9)),
    Case("spatial.transform.Slerp.__call__", _normal(3, 4), UNIT * 2,
         call=lambda f, q, t: f(Slerp([0, 1, 2], Rotation(q)), t)),
    *cases_of(MOTION, "as_matrix as_exp_coords as_dual_quat as_components inv mean __iter__",
              TRANSLATIONS, QUATERNIONS, call=_of_motion),
    Case(f"{MOTION}.apply", TRANSLATIONS, QUATERNIONS, VECTORS, call=_of_motion),
    Case(f"{MOTION}.identity", call=lambda f, xp: f(2), why=NUMBERS),
    # SciPy's own implementation for NumPy uses float32.
    Case(f"{MOTION}.__pow__", TRANSLATIONS, QUATERNIONS, call=_of_motion, n=0.5),
    Case(f"{MOTION}.__getitem__", TRANSLATIONS, QUATERNIONS, call=_of_motion, indexer=1),
    Case(f"{MOTION}.from_exp_coords", _normal(2, 6)),
    Case(f"{MOTION}.from_dual_quat", _normal(2, 8)),
    Case(f"{MOTION}.from_translation", TRANSLATIONS),
    Case(f"{MOTION}.from_components", TRANSLATIONS, QUATERNIONS,
         call=lambda f, t, q: f(t, Rotation(q))),
    Case(f"{MOTION}.from_matrix", _normal(2, 3, 4) + 3 * np.eye(3, 4), call=_affine),
    Case(f"{MOTION}.from_rotation", QUATERNIONS, call=lambda f, q: f(Rotation(q))),
    *(
        Case(f"{MOTION}.{name}", TRANSLATIONS, QUATERNIONS, VECTORS, call=call)
        for name, call in {
            "concatenate": lambda f, t, q, u: f([_motion(t, q), _motion(u, q)]),
            "__mul__": lambda f, t, q, u: f(_motion(t, q), _motion(u, q)),
            "__setitem__": lambda f, t, q, u: _assigned(_motion(t, q), _motion(u, q)),
        }.items()
    ),
]  # fmt: skip
