"""SciPy's generic functions, each with arguments for a call.

Generic functions are those that SciPy declares to work on the arrays of any library. This table
has all public ones, and some that SciPy supports for CPU arrays only but that work on Tensors too.
"""

import math
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import scipy
from array_api_compat import array_namespace
from scipy import constants, differentiate, integrate, interpolate, optimize, signal, special, stats
from scipy.cluster import hierarchy
from scipy.optimize import elementwise
from scipy.signal import windows
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
    call: a function to call with the inputs instead of the function itself.
    pick: names of the attributes of the result to compare.
    why: the reason why it has no gradient on Tensors; the test checks that it has none.
    error: if it rejects Tensors, the exception and words of its message.
    static: keyword arguments of the function.
    """

    def __init__(self, name, *inputs, call=None, pick="", why=None, error=None, **static):
        self.name = name
        self.inputs = inputs
        self.call = call
        self.pick = pick.split()
        self.why = why
        self.error = error
        self.static = static

    def __repr__(self):
        return self.name

    def __call__(self, *inputs, **keywords):
        """Call the function; return the arrays in its result."""
        function = self.call or find(self.name)
        result = function(*inputs, **self.static, **keywords)
        return arrays([getattr(result, name) for name in self.pick] if self.pick else result)


def find(name):
    """Return the function of SciPy with this name, in a module or a class."""
    path = ["scipy", *name.split(".")]
    is_class = [part[0].isupper() for part in path]
    depth = is_class.index(True) if True in is_class else len(path) - 1
    found = import_module(".".join(path[:depth]))
    for part in path[depth:]:
        found = getattr(found, part)
    return found


def arrays(result):
    """Return the arrays in a result, in order."""
    if isinstance(result, Rotation):
        return [result.as_quat()]
    if isinstance(result, RigidTransform):
        return [result.as_matrix()]
    if isinstance(result, (tuple, list, Iterator)):
        return [array for part in result for array in arrays(part)]
    return [result]


def cases_of(module, names, *inputs, **keywords):
    return [Case(f"{module}.{name}", *inputs, **keywords) for name in names.split()]


def without_gradient(why, *cases, error=None):
    for case in cases:
        case.why, case.error = why, error
    return cases


ROTATION = "spatial.transform.Rotation"
MOTION = "spatial.transform.RigidTransform"


def rotation_cases(names, *inputs, **static):
    """Return cases for methods of a rotation."""

    def case(name):
        def call(q, *inputs):
            return getattr(Rotation(q), name)(*inputs, **static)

        return Case(f"{ROTATION}.{name}", QUATERNIONS, *inputs, call=call)

    return map(case, names.split())


def rigid_transform_cases(names, *inputs, **static):
    """Return cases for methods of a rigid transform."""

    def case(name):
        def call(t, q, *inputs):
            return getattr(_motion(t, q), name)(*inputs, **static)

        return Case(f"{MOTION}.{name}", TRANSLATIONS, QUATERNIONS, *inputs, call=call)

    return map(case, names.split())


def window_cases(names, parameter, value):
    """Return cases for windows of eight elements, by a parameter."""

    def case(name):
        def call(p):
            return getattr(windows, name)(8, **{parameter: p}, xp=array_namespace(p))

        return Case(f"signal.windows.{name}", np.asarray(value), call=call)

    return map(case, names.split())


def linkage_cases(names, pick=""):
    """Return cases for functions of a tree of clusters."""

    def case(name):
        path = f"cluster.hierarchy.{name}"
        return Case(path, HEIGHTS, call=lambda h: find(path)(_linkage(h)), pick=pick)

    return map(case, names.split())


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


def _constant(x, value):
    return array_namespace(x).full_like(x, value)


def constants_like(x, *values):
    return [_constant(x, float(value)) for value in values]


def _bell(x, p):
    return array_namespace(x).exp(-p * x**2)


def _to_infinity(integrate, p):
    result = integrate(_bell, _constant(p, 1.0), _constant(p, math.inf), args=(p,))
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


def _affine(upper):
    """Return rigid transforms from the upper three rows of their matrices ``(n, 4, 4)``."""
    xp = array_namespace(upper)
    last = xp.zeros_like(upper[:, :1, :])
    last[:, :, 3] = 1.0
    return RigidTransform.from_matrix(xp.concat([upper, last], axis=1))


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
HEIGHTS = np.array([0.5, 0.7, 1.5])

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
    Case("special.multigammaln", UNIT * 4 + 2, call=lambda a: special.multigammaln(a, 3)),
    # stats: descriptive statistics of one sample
    *cases_of("stats", "describe kstat kstatvar kurtosis sem skew variation zscore", POSITIVE),
    *cases_of("stats", "gmean gstd gzscore hmean lmoment iqr median_abs_deviation", POSITIVE),
    *cases_of("stats", "tmean tstd tsem tvar", POSITIVE, limits=(0.6, 2.8)),
    *cases_of("stats", "tmax tmin", POSITIVE),
    *cases_of("stats", "circmean circstd circvar", POSITIVE, high=4.0, low=-1.0, axis=0),
    *cases_of("stats", "differential_entropy mode sigmaclip", LONG),
    *(
        Case(f"stats.{mean.__name__}", POSITIVE, WEIGHTS, call=lambda x, w, f=mean: f(x, weights=w))
        for mean in (stats.gmean, stats.hmean)
    ),
    Case("stats.pmean", POSITIVE, p=3),
    Case("stats.moment", POSITIVE, order=3),
    Case("stats.trim_mean", POSITIVE, proportiontocut=0.1),
    Case("stats.quantile", POSITIVE, np.array([0.2, 0.55])[:, None]),
    Case("stats.quantile", POSITIVE, np.array([0.2, 0.55])[:, None], method="harrell-davis"),
    Case("stats.zmap", X, Y),
    Case("stats.entropy", POSITIVE),
    Case("stats.entropy", POSITIVE, WEIGHTS),
    Case("stats.boxcox_llf", Fixed(0.7), POSITIVE),
    Case(
        "stats.yeojohnson_llf",
        np.asarray(0.7),
        POSITIVE,
        **({"why": FOREIGN, "error": REFUSED} if SCIPY >= (1, 18) else {}),
    ),
    Case("stats.directional_stats", _normal(5, 3), pick="mean_direction mean_resultant_length"),
    # stats: tests
    *cases_of("stats", "alexandergovern bartlett", X, Y, Z, pick="statistic pvalue"),
    *cases_of("stats", "f_oneway levene", X, Y, Z),
    *cases_of("stats", "jarque_bera kurtosistest normaltest skewtest", LONG),
    Case("stats.ttest_1samp", X, np.array([0.1, 0.2])),
    Case("stats.ttest_rel", X, WEIGHTS),
    Case("stats.ttest_ind", X, Y),
    Case("stats.ttest_ind", X, Y, equal_var=False),
    Case(
        "stats.ttest_ind_from_stats",
        *(np.array([[0.3], [1.1], [0.5], [0.9]])),
        call=lambda m1, s1, m2, s2: stats.ttest_ind_from_stats(m1, s1, 9, m2, s2, 12),
    ),
    Case("stats.pearsonr", X, WEIGHTS, pick="statistic pvalue"),
    *cases_of("stats", "chisquare", POSITIVE, WEIGHTS, sum_check=False),
    *cases_of("stats", "power_divergence", POSITIVE, lambda_=0.5),
    Case("stats.epps_singleton_2samp", X, Y),
    Case("stats.combine_pvalues", UNIT),
    Case("stats.combine_pvalues", UNIT, method="stouffer"),
    Case("stats.false_discovery_control", UNIT),
    *without_gradient(
        RANKS,
        *cases_of("stats", "friedmanchisquare kruskal", X, WEIGHTS, POSITIVE),
        Case("stats.fligner", X[:11], WEIGHTS[:11], Z),
        *cases_of("stats", "mood chatterjeexi spearmanrho ansari", X, WEIGHTS),
        *cases_of("stats", "brunnermunzel mannwhitneyu wilcoxon", X, POSITIVE),
        Case("stats.cramervonmises_2samp", LONG, Y[:, 0], pick="statistic pvalue"),
        Case("stats.rankdata", X),
        Case("stats._quantile._xp_searchsorted", np.sort(UNIT), X[:, 0]),
    ),
    *without_gradient(
        FOREIGN,
        Case("stats.cramervonmises", LONG, cdf=special.ndtr, pick="statistic pvalue"),
        Case("stats.ks_1samp", LONG, cdf=special.ndtr, method="asymp", pick="statistic pvalue"),
        error=REFUSED,
    ),
    *without_gradient(
        HOST,
        Case("stats.boxcox_llf", np.asarray(0.7), POSITIVE),
        Case("signal.choose_conv_method", UNIT, UNIT),
        *(
            Case(f"signal.{f.__name__}", np.asarray(0.25), call=lambda w, f=f: f(w, 10.0))
            for f in (signal.iirnotch, signal.iirpeak, signal.iircomb)
        ),
        *(
            Case(f"signal.{f.__name__}", np.asarray(1.5), call=lambda r, f=f: f(3, r))
            for f in (signal.cheb1ap, signal.cheb2ap)
        ),
        Case("signal.windows.tukey", np.asarray(0.5), call=lambda alpha: windows.tukey(8, alpha)),
        error=(RuntimeError, "(float|int): this tensor requires grad"),
    ),
    # stats: resampling
    Case(
        "stats.bootstrap",
        LONG,
        call=lambda x: stats.bootstrap((x,), _mean, n_resamples=30, method="percentile", rng=0),
        pick="standard_error confidence_interval bootstrap_distribution",
    ),
    Case(
        "stats.permutation_test",
        X[:, 0],
        Y[:, 0],
        call=lambda *xs: stats.permutation_test(xs, _difference, n_resamples=30, rng=0),
        pick="statistic null_distribution",
    ),
    Case(
        "stats.monte_carlo_test",
        LONG,
        call=lambda x: stats.monte_carlo_test(x, _normal_like(x), _mean, n_resamples=30),
        pick="statistic",
    ),
    Case(
        "stats.power",
        call=lambda xp: stats.power(
            lambda x, axis: stats.ttest_1samp(x, 0.0, axis=axis).pvalue,
            [_normal_like(xp.zeros(1))],
            [xp.asarray(10)],
            n_resamples=30,
        ),
        pick="power",
        why=NUMBERS,
    ),
    # integrate
    *cases_of("integrate", "trapezoid cumulative_trapezoid", SIGNAL),
    *(
        Case(f"integrate.{f.__name__}", SIGNAL, np.sort(UNIT), call=lambda y, x, f=f: f(y, x=x))
        for f in (integrate.trapezoid, integrate.cumulative_trapezoid, integrate.cumulative_simpson)
    ),
    Case("integrate.romb", _normal(2, 9)),
    Case(
        "integrate.tanhsinh",
        np.asarray(-0.4),
        np.asarray(1.1),
        RATES,
        call=lambda a, b, p: integrate.tanhsinh(_bell, a, b, args=(p,)),
        pick="integral",
    ),
    Case(
        "integrate.cubature",
        np.array([-0.4, 0.1]),
        np.array([1.1, 0.7]),
        RATES,
        call=lambda a, b, p: integrate.cubature(_bells, a, b, args=(p,)),
        pick="estimate",
    ),
    Case(
        "integrate.nsum",
        RATES,
        call=lambda p: integrate.nsum(_bell, _constant(p, 1.0), _constant(p, 9.0), args=(p,)),
        pick="sum",
    ),
    *without_gradient(
        VIEWS,
        *(
            Case(f"integrate.{f.__name__}", RATES, call=lambda p, f=f: _to_infinity(f, p))
            for f in (integrate.tanhsinh, integrate.nsum)
        ),
        error=(ArithmeticError, "status -3"),
    ),
    Case(
        "integrate.qmc_quad",
        np.array([-0.4, 0.1]),
        np.array([1.1, 0.7]),
        np.asarray(0.8),
        call=lambda a, b, p: integrate.qmc_quad(
            lambda x: _bell(x[0, ...] + x[1, ...], p),
            a,
            b,
            n_points=16,
            qrng=stats.qmc.Halton(2, rng=0),
        ),
        pick="integral standard_error",
    ),
    # differentiate, optimize
    Case(
        "differentiate.derivative",
        UNIT[:2],
        RATES,
        call=lambda x, p: differentiate.derivative(_bell, x, args=(p,)),
        pick="df",
    ),
    Case(
        "differentiate.jacobian",
        UNIT[:3],
        call=lambda x: differentiate.jacobian(_curve, x),
        pick="df",
    ),
    Case(
        "differentiate.hessian",
        UNIT[:3],
        call=lambda x: differentiate.hessian(optimize.rosen, x),
        pick="ddf",
    ),
    *cases_of("optimize", "rosen rosen_der rosen_hess", X[:5, 0]),
    Case("optimize.rosen_hess_prod", X[:5, 0], X[5:10, 0]),
    *(
        Case(
            f"optimize.elementwise.{find.__name__}",
            RATES,
            call=lambda p, find=find, f=f, at=at: find(f, *at(p), args=(p,)),
            pick=pick,
        )
        for find, f, at, pick in (
            (elementwise.find_root, _cubic, lambda p: [constants_like(p, 0, 2)], "x"),
            (elementwise.find_minimum, _valley, lambda p: [constants_like(p, 0, 1, 4)], "f_x"),
            (elementwise.bracket_root, _cubic, lambda p: [p * 0.1, p * 0.2], "bracket f_bracket"),
            (elementwise.bracket_minimum, _valley, lambda p: [p * 0.1], "bracket f_bracket"),
        )
    ),
    # fft
    *cases_of(
        "fft", "fft ifft hfft irfft fft2 ifft2 fftn ifftn hfftn irfftn hfft2 irfft2", _complex(3, 4)
    ),
    *cases_of("fft", "rfft ihfft rfft2 rfftn ihfft2 ihfftn fftshift ifftshift", SIGNAL),
    *cases_of("fft", "fht ifht", SIGNAL, dln=0.1, mu=0.5),
    *without_gradient(NUMBERS, *cases_of("fft", "fftfreq rfftfreq", n=6)),
    *without_gradient(
        FOREIGN, *cases_of("fft", "dct dst idct idst dctn dstn idctn idstn", SIGNAL), error=REFUSED
    ),
    # linalg, interpolate, cluster, constants
    Case("linalg.block_diag", X, Y),
    Case("linalg.fiedler", UNIT),
    Case("linalg.orthogonal_procrustes", X, WEIGHTS),
    *without_gradient(
        "reinterprets the memory of an array",
        Case(
            "interpolate.RBFInterpolator",
            X,
            POSITIVE,
            X[:3] + 0.1,
            call=lambda y, d, x: interpolate.RBFInterpolator(y, d)(x),
        ),
        error=(AttributeError, "view"),
    ),
    Case("cluster.vq.whiten", X),
    *linkage_cases("to_mlab_linkage"),
    *linkage_cases("to_tree", pick="dist"),
    *without_gradient(
        WHOLE,
        *linkage_cases("is_valid_linkage is_valid_im is_monotonic num_obs_linkage"),
        Case(
            "cluster.hierarchy.correspond",
            HEIGHTS,
            call=lambda h: hierarchy.correspond(_linkage(h), array_namespace(h).ones(6)),
        ),
        Case("cluster.hierarchy.is_isomorphic", np.array([1, 1, 2]), np.array([2, 2, 1])),
    ),
    *cases_of("constants", "lambda2nu nu2lambda", POSITIVE),
    Case(
        "constants.convert_temperature",
        POSITIVE,
        call=lambda t: constants.convert_temperature(t, "Celsius", "Fahrenheit"),
    ),
    # signal
    Case("signal.abcd_normalize", *(_normal(*s) for s in ((3, 3), (3, 2), (1, 3), (1, 2)))),
    Case("signal.envelope", SIGNAL),
    Case("signal.freqz_zpk", ZEROS, POLES, np.asarray(0.7), worN=5),
    Case("signal.freqs_zpk", ZEROS, POLES, np.asarray(0.7), UNIT),
    Case("signal.freqz", UNIT, np.array([1.0, 0.3]), worN=5),
    Case("signal.freqs", UNIT[:3], UNIT[3:], UNIT),
    Case("signal.freqz_sos", _normal(2, 5), call=lambda x: signal.freqz_sos(_sections(x), worN=5)),
    Case("signal.gauss_spline", X, n=3),
    Case("signal.hilbert", SIGNAL),
    Case("signal.hilbert2", SIGNAL),
    *cases_of("signal", "fftconvolve oaconvolve", SIGNAL, SIGNAL[:, ::2]),
    Case("signal.bilinear_zpk", ZEROS, POLES, np.asarray(0.7), fs=2.0),
    *cases_of("signal", "lp2lp_zpk lp2hp_zpk lp2bp_zpk lp2bs_zpk", ZEROS, POLES, np.asarray(0.7)),
    *cases_of("signal", "lp2lp lp2hp lp2bp lp2bs normalize", UNIT[:3], UNIT[3:]),
    Case("signal.vectorstrength", UNIT, np.asarray(0.4)),
    Case("signal.minimum_phase", UNIT),
    Case("signal.bode", UNIT, call=lambda x: signal.bode((x[:2], x[2:5]), n=5)),
    Case("signal.resample", SIGNAL, num=5, axis=1),
    *without_gradient(
        FOREIGN,
        *cases_of("signal", "iirdesign", np.array([0.3]), np.array([0.5]), gpass=1, gstop=20),
        Case(
            "signal.place_poles",
            _normal(3, 3),
            _normal(3, 2),
            Fixed([-1.0, -2.0, -3.0]),
            pick="gain_matrix",
        ),
        Case("signal.filtfilt", UNIT[:2], np.array([1.0, 0.3]), _normal(12)),
        Case("signal.impulse", UNIT, call=lambda x: signal.impulse((x[:2], x[2:5]), N=5)),
        Case("signal.zpk2tf", ZEROS, POLES, np.asarray(0.7)),
        Case("signal.detrend", SIGNAL),
        error=REFUSED,
    ),
    Case(
        "signal.sosfilt_zi",
        _normal(2, 5),
        call=lambda x: signal.sosfilt_zi(_sections(x)),
        **({"why": FOREIGN, "error": REFUSED} if SCIPY < (1, 18) else {}),
    ),
    Case("signal.firwin", np.array([0.2, 0.5]), call=lambda c: signal.firwin(7, c)),
    *without_gradient(
        NUMBERS,
        *cases_of("signal", "besselap buttap", N=3),
        Case("signal.cheb1ap", N=3, rp=1),
        Case("signal.cheb2ap", N=3, rs=20),
        Case("signal.ellipap", N=3, rp=1, rs=20),
        Case("signal.gammatone", freq=0.2, ftype="iir"),
        *cases_of("signal", "iirnotch iirpeak iircomb", w0=0.25, Q=10),
        Case("signal.savgol_coeffs", window_length=7, polyorder=2),
        *(
            Case(f"{module}.get_window", window=("kaiser", 3.0), Nx=6)
            for module in ("signal", "signal.windows")
        ),
        *cases_of("signal.windows", "barthann bartlett blackman blackmanharris bohman boxcar", M=6),
        *cases_of("signal.windows", "cosine flattop hamming hann lanczos nuttall parzen", M=6),
        *cases_of("signal.windows", "triang tukey", M=6),
    ),
    *window_cases("chebwin", "at", 2.5),
    *window_cases("gaussian", "std", 2.5),
    *window_cases("general_hamming", "alpha", 2.5),
    *window_cases("kaiser kaiser_bessel_derived", "beta", 2.5),
    *window_cases("exponential", "tau", 25.0),
    *window_cases("taylor", "sll", 25.0),
    Case("signal.windows.general_cosine", UNIT, call=lambda a: windows.general_cosine(7, a)),
    Case(
        "signal.windows.general_gaussian",
        np.asarray(1.5),
        np.asarray(2.5),
        call=lambda p, s: windows.general_gaussian(7, p, s, xp=array_namespace(p)),
    ),
    # spatial.transform
    *rotation_cases("as_quat as_matrix as_mrp as_rotvec magnitude inv mean __iter__"),
    *rotation_cases("as_euler", seq="xyz"),
    *rotation_cases("as_euler", seq="ZXZ"),
    *rotation_cases("apply", VECTORS),
    *rotation_cases("__getitem__", indexer=1),
    *rotation_cases("__pow__", n=0.4),
    *rotation_cases("as_davenport", Fixed(np.eye(3)[[0, 1, 0]]), order="extrinsic"),
    Case(f"{ROTATION}.from_quat", QUATERNIONS),
    Case(  # writes into its argument, which must not be a leaf
        f"{ROTATION}.from_matrix",
        _normal(2, 3, 3) + 3 * np.eye(3),
        call=lambda m: Rotation.from_matrix(m * 1.0),
    ),
    *cases_of(ROTATION, "from_rotvec from_mrp", VECTORS),
    Case(f"{ROTATION}.from_euler", VECTORS, call=lambda a: Rotation.from_euler("xyz", a)),
    Case(
        f"{ROTATION}.from_davenport",
        VECTORS,
        Fixed(np.eye(3)),
        call=lambda angles, axes: Rotation.from_davenport(axes, "intrinsic", angles),
    ),
    Case(f"{ROTATION}.align_vectors", _normal(5, 3), _normal(5, 3, seed=1)),
    *(
        Case(f"{ROTATION}.{name}", QUATERNIONS, QUATERNIONS[::-1] + 0.2, call=call)
        for name, call in {
            "concatenate": lambda p, q: Rotation.concatenate([Rotation(p), Rotation(q)]),
            "reduce": lambda p, q: Rotation(p).reduce(Rotation(q), Rotation(p[::-1])),
            "__mul__": lambda p, q: Rotation(p) * Rotation(q),
            "__setitem__": lambda p, q: _assigned(Rotation(p), Rotation(q)),
        }.items()
    ),
    Case(
        f"{ROTATION}.approx_equal",
        QUATERNIONS,
        call=lambda q: Rotation(q).approx_equal(Rotation(2 * q), atol=1e-9),
        why=WHOLE,
    ),
    Case(
        "spatial.transform.Slerp.__call__",
        _normal(3, 4),
        UNIT * 2,
        call=lambda q, t: Slerp([0, 1, 2], Rotation(q))(t),
    ),
    *rigid_transform_cases("as_matrix as_exp_coords as_dual_quat as_components inv mean __iter__"),
    *rigid_transform_cases("apply", VECTORS),
    Case(f"{MOTION}.identity", call=lambda xp: RigidTransform.identity(2), why=NUMBERS),
    *rigid_transform_cases("__pow__", n=0.5),  # SciPy's own implementation for NumPy uses float32
    *rigid_transform_cases("__getitem__", indexer=1),
    Case(f"{MOTION}.from_exp_coords", _normal(2, 6)),
    Case(f"{MOTION}.from_dual_quat", _normal(2, 8)),
    Case(f"{MOTION}.from_translation", TRANSLATIONS),
    Case(f"{MOTION}.from_components", TRANSLATIONS, QUATERNIONS, call=_motion),
    Case(f"{MOTION}.from_matrix", _normal(2, 3, 4) + 3 * np.eye(3, 4), call=_affine),
    Case(
        f"{MOTION}.from_rotation",
        QUATERNIONS,
        call=lambda q: RigidTransform.from_rotation(Rotation(q)),
    ),
    *(
        Case(f"{MOTION}.{name}", TRANSLATIONS, QUATERNIONS, VECTORS, call=call)
        for name, call in {
            "concatenate": lambda t, q, u: RigidTransform.concatenate(
                [_motion(t, q), _motion(u, q)]
            ),
            "__mul__": lambda t, q, u: _motion(t, q) * _motion(u, q),
            "__setitem__": lambda t, q, u: _assigned(_motion(t, q), _motion(u, q)),
        }.items()
    ),
]
