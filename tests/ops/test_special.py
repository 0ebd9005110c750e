"""Special functions: SciPy's own on tensors, derivatives where formulas lose digits, errors.

The tests of the table of ops cover values and gradients of every function on every library.
"""

import importlib.util
import inspect
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy
from cases.special import CASES
from samples import every
from scipy import special as scipy_special

import gpugrad as gg
from gpugrad import special
from gpugrad.autograd import grad
from gpugrad.backends.special import cupy_function, scipy_function
from gpugrad.testing import assert_close

ROOT = Path(__file__).parents[2]

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
    call = getattr(scipy_special, name)
    for sample, checked in every(case.samples[:2]):
        inputs = [
            gg.tensor(x, requires_grad=x.dtype.kind == "f") if isinstance(x, np.ndarray) else x
            for x in sample.arrays()
        ]
        inputs = [*inputs, *sample.static.values()]
        with checked:
            result = call(*inputs)
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


# Derivatives of first, second and third order, computed with mpmath to 40 digits

DERIVATIVES = [
    ("log_ndtr", -5.0, 5.1865039671258421, -0.96730356538288777, 0.0108257645063567),
    ("log_ndtr", -20.0, 20.049753068527851, -0.99753673838494784, 0.00024272657893584202),
    ("log_ndtr", -100.0, 100.00999800099926, -0.99990005995005174, 1.9976029958623432e-6),
    ("log_ndtr", -1e4, 10000.000099999998, -0.9999999900000006, 1.99999976000003e-12),
    ("sinc", 0.0, 0, -(pi**2) / 3, 0),
    ("sinc", 1e-6, -3.2898681336932058e-6, -3.289868133686712, 1.9481818206777596e-5),
    ("sinc", 0.3, -0.90202813013888879, -2.4584852862661743, 5.2474931529243694),
    ("sinc", 0.49, -1.2609810392406716, -1.2613885485274333, 7.0901099582515248),
    ("sinc", 0.51, -1.2847839546321167, -1.118577564697161, 7.1877342355500702),
    ("sinc", 1.0, -1, 2, 3.8696044010893586), ("exprel", 0.0, 1 / 2, 1 / 3, 1 / 4),
    ("exprel", 1e-6, 0.50000033333345833, 0.33333358333343333, 0.25000020000008333),
    ("exprel", 0.29, 0.60804379907151969, 0.41496513752563002, 0.31562784637442078),
    ("exprel", 0.31, 0.61640656866594508, 0.4213289574202827, 0.32076852216557964),
    ("exprel", -5.0, 0.038382892720219488, 0.014005567688270702, 0.0070557512131453276),
    ("j0", 0.0, 0, -1 / 2, 0), ("j1", 0.0, 1 / 2, 0, -3 / 8),
    ("j1", 1e-6, 0.4999999999998125, -3.749999999999479e-7, -0.37499999999984375),
    ("j1", 0.9, 0.3564687469238718, -0.30085365244013772, -0.25573334118742537),
    ("j1", 1.1, 0.2915289322854265, -0.3467531639966039, -0.20202465750613035),
    ("i0", 0.0, 0, 1 / 2, 0), ("i1", 0.0, 1 / 2, 0, 3 / 8),
    ("i1", 1e-6, 0.5000000000001875, 3.7500000000005207e-7, 0.37500000000015625),
    ("i1", 0.9, 0.66062244554983513, 0.37683786441542437, 0.50922167118945232),
    ("i1", 1.1, 0.74662484148185081, 0.48558933168020099, 0.58136098499745167),
    ("spence", 0.5, -1.3862943611198906, 1.2274112777602188, -3.090354888959125),
    ("spence", 0.95, -1.0258658877510107, 0.53531382392715508, -0.74811186285839639),
    ("spence", 1.0, -1, 1 / 2, -2 / 3),
    ("spence", 1.05, -0.97580328338864004, 0.46844662015375358, -0.59727523698914649),
    ("spence", 1.2, -0.91160778396977315, 0.39137225318219901, -0.4415003095997677),
    ("rgamma", -2.0, 2, -3.6911373403938686, -12.260418826470638),
    ("rgamma", -1.0, -1, 0.84556867019693428, 7.3985624185307205),
    ("rgamma", 0.0, 1, 1.1544313298030657, -3.9352684291215233),
    ("rgamma", 0.4, 1.1547341361415263, -0.32218863936153587, -3.093274872224726),
    ("rgamma", 0.6, 1.0345334627690756, -0.84791074469539493, -2.1397778325357054),
    ("ellipk", 0.0, pi / 8, 9 * pi / 64, 75 * pi / 256),
    ("ellipkm1", 1.0, -pi / 8, 9 * pi / 64, -75 * pi / 256),
    ("expit", -40.0, *(4.248354255291589e-18,) * 3), ("expit", inf, 0, 0, 0),
    ("log_expit", -inf, 1, 0, 0), ("log_expit", 0.0, 1 / 2, -1 / 4, 0), ("log_expit", inf, 0, 0, 0),
]  # fmt: skip


def derivatives(function, x, orders):
    y = function(x)
    for _ in range(orders):
        (y,) = grad(y.sum(), [x], create_graph=True)
        yield y


@pytest.mark.parametrize("name", sorted({name for name, *_ in DERIVATIVES}))
def test_derivatives_where_formulas_lose_digits(library, name):
    points, *known = zip(*(row[1:] for row in DERIVATIVES if row[0] == name), strict=True)
    x = library.tensor(np.array(points), requires_grad=True)
    results = derivatives(getattr(special, name), x, 3)
    if library.name == "cupy" and name in ("ellipk", "ellipkm1"):
        with pytest.raises(RuntimeError, match=r"CuPy has no function hyp2f1"):
            next(results)
        return
    for y, expected in zip(results, known, strict=True):
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
    environment = {k: v for k, v in os.environ.items() if k != "SCIPY_ARRAY_API"}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, check=True)
