"""Special functions: SciPy's own on tensors, derivatives where formulas lose digits, errors.

The tests of the table of ops cover values and gradients of every function on every library.
"""

import importlib.util
import inspect
import pickle
import sys
from functools import partial

import numpy as np
import pytest
import scipy
from cases.special import CASES
from samples import every
from scipy import special as scipy_special
from stand_in import run

import gpugrad as gg
from gpugrad import special
from gpugrad.autograd import grad
from gpugrad.backends.special import cupy_function, scipy_function
from gpugrad.testing import assert_close

inf, pi = np.inf, np.pi
CASE_OF = {case.op.removeprefix("special."): case for case in CASES}


def functions_that_scipy_looks_up():
    """Return the functions that SciPy 1.17 and later look up in an array's namespace."""
    from scipy.special import _support_alternative_backends as dispatch

    if tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 17):
        return []
    return sorted({*dispatch.__all__} - {"digamma"})


@pytest.mark.parametrize("name", functions_that_scipy_looks_up())
def test_scipys_functions_keep_the_graph_of_tensors(name):
    case = CASE_OF[name]
    for sample, checked in every(case.samples[:2]):
        inputs = [
            gg.tensor(x, requires_grad=x.dtype.kind == "f") if isinstance(x, np.ndarray) else x
            for x in sample.arrays()
        ]
        inputs = [*inputs, *sample.static.values()]
        with checked:
            result = getattr(scipy_special, name)(*inputs)
            assert isinstance(result, gg.Tensor)
            assert result.requires_grad
            assert_close(result.detach(), case.reference(*sample.arrays(), **sample.static))


def test_digamma_is_psi():
    assert special.digamma is special.psi


def test_functions_defined_in_one_statement_are_ordinary_ones():
    function = special.gammainc
    assert (function.__name__, str(inspect.signature(function))) == ("gammainc", "(a, x)")
    assert function.__module__ == "gpugrad.ops.special.distributions"
    assert function.__doc__.startswith("Regularized lower incomplete gamma function")
    assert pickle.loads(pickle.dumps(function)) is function


def test_the_tail_of_erfcx_has_a_slope_in_float16():
    x = gg.asarray(np.array([20.0, 100.0], np.float16), requires_grad=True)
    (g,) = grad(special.erfcx(x).sum(), x)
    assert_close(g, np.array([-1.405e-3, -5.641e-5], np.float16), rtol=1e-2)


# Functions in mpmath, and where derivatives of first, second and third order are compared

ORACLES = {
    "log_ndtr": (lambda mp, x: mp.log(mp.ncdf(x)), [-5.0, -20.0, -100.0, -1e4]),
    "sinc": (lambda mp, x: mp.sincpi(x), [0.0, 1e-6, 0.3, 0.49, 0.51, 1.0]),
    "exprel": (lambda mp, x: mp.expm1(x) / x if x else 1, [0.0, 1e-6, 0.29, 0.31, -5.0]),
    "j0": (lambda mp, x: mp.j0(x), [0.0]), "j1": (lambda mp, x: mp.j1(x), [0.0, 1e-6, 0.9, 1.1]),
    "i0": (lambda mp, x: mp.besseli(0, x), [0.0]),
    "i1": (lambda mp, x: mp.besseli(1, x), [0.0, 1e-6, 0.9, 1.1]),
    "spence": (lambda mp, x: mp.re(mp.polylog(2, 1 - x)), [0.5, 0.95, 1.0, 1.05, 1.2]),
    "rgamma": (lambda mp, x: mp.rgamma(x), [-2.0, -1.0, 0.0, 0.4, 0.6]),
    "ellipk": (lambda mp, x: mp.ellipk(x), [0.0]),
    "ellipkm1": (lambda mp, x: mp.ellipk(1 - x), [1.0]),
    "expit": (lambda mp, x: 1 / (1 + mp.exp(-x)), [-40.0, inf]),
    "log_expit": (lambda mp, x: -mp.log1p(mp.exp(-x)), [-inf, 0.0, inf]),
}  # fmt: skip


def derivatives(function, x, orders):
    y = function(x)
    for _ in range(orders):
        (y,) = grad(y.sum(), [x], create_graph=True)
        yield y


@pytest.mark.parametrize("name", ORACLES)
def test_derivatives_where_formulas_lose_digits(library, name):
    mp, (function, points) = pytest.importorskip("mpmath").mp, ORACLES[name]
    x = library.tensor(np.array(points), requires_grad=True)
    results = derivatives(getattr(special, name), x, 3)
    if library.name == "cupy" and name in ("ellipk", "ellipkm1"):
        with pytest.raises(RuntimeError, match=r"CuPy has no function hyp2f1"):
            next(results)
        return
    for order, y in enumerate(results, 1):
        with mp.workdps(40):
            at = np.clip(points, -1e4, 1e4)
            expected = [float(mp.diff(partial(function, mp), float(x), order)) for x in at]
        assert_close(library.values(y), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name, at, inputs, expected", [
    ("gammainc", 0, (0.1, 0.5), (-0.60909197721112181, -0.40172650209212088)),
    ("gammainc", 0, (3.0, 2.5), (-0.24711735748326824, 0.048672459662824085)),
    ("gammainc", 0, (1000.0, 900.0), (-6.2457090358415652e-5, 6.5810647958908825e-6)),
    ("gammaincc", 0, (2.5, 40.0), (2.5267860704828765e-15, 7.197186330457072e-15)),
    ("gammaincc", 0, (100.0, 110.0), (0.023808656854890386, 0.0022709019620905545)),
    ("betainc", 0, (0.5, 0.5, 0.25), (-0.64613189443890103, 1.4621636149762013)),
    ("betainc", 1, (50.0, 80.0, 0.5), (0.00093387133260374098, -0.0002012068745461049)),
    ("betainc", 0, (300.0, 2.0, 0.875), (-2.0080284025961524e-17, 2.6145278553585041e-18)),
    ("stdtr", 0, (3.0, -2.0), (-0.015255481525655007, 0.0095344259669341942)),
    ("stdtr", 0, (10.0, -40.0), (-2.3846574430489459e-12, 5.0478161387262972e-12)),
    ("stdtr", 0, (100.0, 1.5), (1.5721323230354783e-5, -3.1378194040239262e-7)),
    ("zeta", 0, (1.5,), (-3.9322397374311015, 15.989556371225687)),
    ("zeta", 0, (4.0, 2.5), (-0.040583237772083619, 0.047736303251158915)),
])  # fmt: skip
def test_derivatives_with_respect_to_parameters_by_differences(name, at, inputs, expected):
    tensors = [gg.tensor(x, dtype="float64") for x in inputs]
    tensors[at].requires_grad_()
    results = derivatives(lambda _: getattr(special, name)(*tensors), tensors[at], 2)
    for y, e, rtol in zip(results, expected, (1e-10, 1e-8), strict=True):
        assert_close(y.detach(), e, rtol=rtol, atol=0)


def test_an_empty_tail_has_no_slope():
    df = gg.tensor([1e6, 1e4], dtype="float64", requires_grad=True)
    special.stdtr(df, -1000.0).sum().backward()
    assert df.grad.tolist() == [0, 0]


def test_terms_multiplied_by_zero_do_not_make_the_gradient_nan():
    x = gg.tensor([0.0, 4.0], requires_grad=True)
    special.xlogy(gg.tensor([0.0, 1.0]), gg.sqrt(x)).sum().backward()
    assert x.grad.tolist() == [0, 0.125]


# Errors


@pytest.mark.parametrize("name, inputs, target", [
    ("yn", (2.0, 1.5), "n"), ("polygamma", (2.0, 1.5), "n"), ("hyp1f1", (1.0, 2.0, 0.5), "a, b"),
    ("lpmv", (0.0, 2.0, 0.5), "m, v"),
])  # fmt: skip
def test_errors_about_missing_gradients(name, inputs, target):
    inputs = [gg.tensor(x, requires_grad=True) for x in inputs]
    with pytest.raises(TypeError, match=rf"special\.{name}: it has no VJP for {target}, .*detach"):
        getattr(special, name)(*inputs)


def test_without_scipy(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(RuntimeError, match="pip install scipy"):
        scipy_function("gammaln")
    x = np.array([0.5, -2.0], "float32")
    for name in ("erf", "erfc", "sinc", "exp2"):
        result = scipy_function(name)(x)
        assert result.dtype == x.dtype
        assert_close(result, getattr(scipy_special, name)(x), rtol=1e-6)


@pytest.mark.skipif(not importlib.util.find_spec("cupy"), reason="CuPy is not installed")
def test_names_of_cupy():
    lacking = {"hyp1f1", "hyp2f1"}
    for name in set(CASE_OF) - lacking:
        assert callable(cupy_function(name))
    for name in lacking:
        with pytest.raises(RuntimeError, match=f"CuPy has no function {name}"):
            cupy_function(name)


def test_scipys_own_ufuncs_keep_the_graph():
    """SciPy's functions are ufuncs if ``SCIPY_ARRAY_API`` is not set."""
    code = """
import gpugrad as gg, numpy, scipy.special
x = gg.tensor([1.5], dtype=gg.float64, requires_grad=True)
for name in "psi digamma gammaln expit ndtr".split():
    function = getattr(scipy.special, name)
    assert isinstance(function, numpy.ufunc), name
    y = function(x)
    assert y.requires_grad, name
    assert y.item() == getattr(gg.special, name)(x).item(), name
"""
    done = run("-c", code, SCIPY_ARRAY_API="")
    assert not done.returncode, done.stderr
