"""`gpugrad.numpy`: every public name of NumPy, and the values and derivatives of its functions."""

from itertools import groupby
from operator import attrgetter
from types import ModuleType

import numpy as np
import pytest
from libraries import each_library
from numpy.testing import assert_allclose, assert_array_equal
from numpy_calls import BOTH, CONSTANTS, ONLY_OURS, SINCE, A, evaluate, function_of, lines
from samples import every

import gpugrad as gg
import gpugrad.numpy as gnp
from gpugrad.numpy._creation import MAKERS, ON_DEVICES
from gpugrad.numpy._protocols import QUESTIONS
from gpugrad.numpy._table import FUNCTIONS, name_of
from gpugrad.testing import gradcheck, gradgradcheck

SPACES = {"": np, "linalg.": np.linalg, "fft.": np.fft}


def in_this_numpy(line):
    is_old = np.lib.NumpyVersion(np.__version__) < SINCE.get(line, "0.0.0")
    return not is_old and is_in_numpy(function_of(line))


def is_in_numpy(name):
    space, _, own = name.rpartition(".")
    return hasattr(attrgetter(space)(np) if space else np, own)


ALL = [line for line in lines(ONLY_OURS + BOTH) if in_this_numpy(line)]
BY_FUNCTION = {name: [*group] for name, group in groupby(sorted(ALL, key=function_of), function_of)}
# Results that depend on no value of x.
CONSTANT_RESULTS = ("empty_like", "full_like", "ones_like", "zeros_like")
CONSTANT_LINES = ("np.piecewise(x, [x < 0.4], [2.0])",)
# Compared and rounded at the values themselves, and next to them.
SMOOTH_AT = A + np.array([[0.013, 0.027, -0.031], [0.017, -0.023, 0.029]])

# What a library refuses.
BEYOND = {("array_api_strict", name) for name in ("intersect1d", "isin", "setdiff1d", "setxor1d")}

# Functions whose shapes, or branches, depend on values, which vmap does not have.
BY_VALUES = """
    intersect1d real_if_close setdiff1d setxor1d trim_zeros union1d unique linalg.lstsq
""".split()

# Why functions of NumPy that are handed over by its protocols, or are ufuncs, refuse Tensors.
REFUSED = {
    "in place": "copyto fill_diagonal place put put_along_axis putmask",
    "writes files": "save savetxt savez savez_compressed", "roots": "poly polydiv roots",
    "dates": "busday_count busday_offset datetime_as_string is_busday isnat",
    "integers only": "bitwise_count gcd lcm", "parts of floating-point numbers": "frexp spacing",
    "complex numbers have no order": "sort_complex",
}  # fmt: skip


class TestNames:
    def test_every_name_of_numpy_is_there(self):
        for prefix, module in SPACES.items():
            for name in module.__all__:
                if name in ("f2py", "test", "testing", "typing", "core", "lib"):
                    continue
                space = getattr(gnp, prefix.strip(".")) if prefix else gnp
                assert name in dir(space)
                own, theirs = getattr(space, name), getattr(module, name)
                if f"{prefix}{name}" in (*MAKERS, *ON_DEVICES, "r_", "c_", *SPACES):
                    continue
                if name_of(theirs) in FUNCTIONS:
                    assert (own.__name__, own.__doc__) == (theirs.__name__, theirs.__doc__)
                elif not isinstance(theirs, ModuleType):
                    assert own is theirs or own != own  # nan

    def test_every_function_of_tensors_is_differentiable_constant_or_refused(self):
        refused = {name for names in REFUSED.values() for name in names.split()}
        tested = {name_of(getattr(np, name, None)) for name in BY_FUNCTION} | BY_FUNCTION.keys()
        tested.add("allclose")
        for prefix, module in SPACES.items():
            for name in module.__all__:
                theirs = getattr(module, name)
                # NumPy has removed in1d, which is `isin`.
                if name == "in1d" or not isinstance(theirs, (np.ufunc, type(np.sum))):
                    continue
                key = name_of(theirs)
                kinds = [key in FUNCTIONS, key in QUESTIONS, name in refused, key in MAKERS]
                assert sum(kinds) == 1, f"{prefix}{name}"
                assert key in tested or key not in FUNCTIONS, f"{key} has no test"
        assert not refused - {*np.__all__}
        newest = "cumulative_prod cumulative_sum matvec unstack vecmat".split()
        assert [*filter(is_in_numpy, FUNCTIONS.keys() - newest)] == [*(FUNCTIONS.keys() - newest)]

    def test_names_that_numpy_lacks(self):
        for module, name in ((gnp, "sinn"), (gnp.linalg, "dett"), (gnp.random, "rnd")):
            with pytest.raises(AttributeError, match=f"{module.__name__} has no .*'{name}'"):
                getattr(module, name)


# What NumPy does with other dtypes and shapes, by the values of x.
OTHERS = {
    ((3, 0, -2), (7, 5, 0)): """
np.sum(x, axis=0, initial=2.0); np.prod(x, initial=2); np.nansum(x, axis=0); np.nanprod(x)
np.nanmean(x, axis=1); np.nancumsum(x); np.nanmedian(x, axis=0); np.argwhere(x)
np.nanmax(x, axis=1); np.nanmin(x); np.bincount(np.array([0, 1, 1]), x[0, :]); np.fmod(x, 4)
np.fmod(-x, 4); np.round(x, 1); np.round(x * 13, -1); np.modf(x); np.divmod(x, [2, 3, 4])
np.linalg.matrix_transpose(x); np.logical_and(x, [True, False, 2]); np.logical_or(x, 0)
np.logical_xor(x, x[0, :]); np.logical_not(x); np.trim_zeros(x[0, :]); np.trim_zeros(x * 0)
np.delete([5, 6, 7], x[0, :] > 0); np.diff(x > 0, n=2); np.diff(x > 0, axis=0, prepend=True)
np.linalg.cond(np.stack([x[:, :2], x[:, :2] * 0]), 1)
np.linalg.matrix_power(x[:, :2], -1); np.resize(x[:0, :], (2, 3)); np.vander(x[1].astype("uint8"))
""",
    (np.inf, -np.inf, -2.0, 0.0, -0.0, np.nan): """
np.geomspace(x[2], 4.0, 3); np.modf(x); np.signbit(np.modf(x)[0])
np.fmod(x, 2.0); np.signbit(np.fmod(x[2:], 2.0))
""",
    (1 + 2j, -3j, 2 - 1j, complex(np.nan, np.inf)): """
np.nanvar(x[:3]); np.var(x, where=[True, True, False, False]); np.nan_to_num(x, posinf=3.0)
np.logical_not(x - x[0])
""",
    ((), ()): """
np.max(x, initial=2.0); np.min(x, axis=1, initial=2.0); np.median(x, axis=1); np.median(x, axis=0)
np.median(x, axis=(0, 1), keepdims=True); np.sum(x, axis=1); np.cov(x)
""",
}


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::RuntimeWarning", "ignore:divide by zero"
)
class TestValues:
    @pytest.mark.parametrize("name", BY_FUNCTION)
    def test_values_dtypes_and_graphs(self, name):
        for line, checked in every(BY_FUNCTION[name]):
            with checked:
                expected = [np.asarray(y) for y in evaluate(line, np, A)]
                for namespace in (gnp,) if line in lines(ONLY_OURS) else (gnp, np):
                    results = evaluate(line, namespace, gg.tensor(A, requires_grad=True))
                    for result, y in zip(results, expected, strict=True):
                        assert type(result) is gg.Tensor
                        assert result.dtype == y.dtype
                        assert_allclose(result.detach().numpy(), y, rtol=1e-6, atol=1e-10)
                    is_constant = name in CONSTANT_RESULTS or line in CONSTANT_LINES
                    floating = expected[0].dtype.kind in "fc" and not is_constant
                    assert results[0].requires_grad == floating

    @pytest.mark.parametrize("values", OTHERS)
    def test_integers_complex_numbers_and_empty_arrays(self, values):
        values, text = np.array(values), OTHERS[values]
        for line in filter(in_this_numpy, lines(text)):
            found = evaluate(line, gnp, gg.asarray(values))
            for result, y in zip(found, evaluate(line, np, values), strict=True):
                assert_array_equal(result.numpy(), y, strict=True, err_msg=line)

    @pytest.mark.parametrize("name", sorted(QUESTIONS))
    def test_constants(self, name):
        calls = {
            "can_cast": "x.dtype, np.float32", "einsum_path": "'ij,jk->ik', x, x.T",
            "ix_": "x[0] > 0.3, [0, 1]", "digitize": "x, x[0][:1]", "histogram": "x, 4",
            "histogram2d": "x[0], x[1], 2", "histogramdd": "x, 2", "packbits": "x > 0.4",
            "unpackbits": "(x * 100).astype('uint8')", "argpartition": "x, 1",
            "ravel_multi_index": "(x > 0.4).astype('int64'), (2, 2)",
            "unravel_index": "(x > 0.4).astype('int64'), (2, 2)", "diag_indices_from": "x[:, :2]",
            "array_equal": "x, x", "array_equiv": "x, x", "may_share_memory": "x, x",
            "shares_memory": "x, x",
        }  # fmt: skip
        line = f"np.{name}({calls.get(name, 'x')})"
        expected = evaluate(line, np, A)
        found = evaluate(line, gnp, gg.tensor(A, requires_grad=True))
        for result, y in zip(found, expected, strict=True):
            assert not getattr(result, "requires_grad", False)
            if name != "array_repr":
                assert np.all(np.asarray(result) == np.asarray(y))

    def test_dtypes_of_single_precision(self):
        x, values = gg.tensor(A, dtype=gg.float32), A.astype("float32")
        for line in lines("""np.fmax(x, 0.5); np.fmin(2, x); np.heaviside(x, 0.5); np.fmod(x, 0.3)
            np.logaddexp2(x, 1.0); np.mean(x); np.var(x); np.median(x); np.cov(x); np.kron(x, x)
            np.linspace(x[0, :], 1.0, 3); np.interp(x, [0.0, 1.0], [2.0, 3.0]); np.sinc(x)
            np.where(x > 0.5, x, 0.0); np.pad(x, 1, constant_values=2.0); np.unwrap(x)
            np.average(x, weights=x); np.gradient(x, 0.5)[0]; np.fft.rfft(x); np.nanvar(x)
            np.clip(x, 0.1, 0.5); np.select([x > 0.5], [x], 0.0); np.trapezoid(x, dx=0.5)
            """):
            expected = np.asarray(evaluate(line, np, values)[0])
            assert evaluate(line, gnp, x)[0].dtype == expected.dtype, line

    def test_gradients_at_zero(self):
        lines = {"np.fmod(x, 2.0)": 1.0, "np.nanstd(x)": 0.0, "np.std(x, where=A > 0.5)": 0.0}
        lines |= {"np.modf(x)": 1.0, "np.fmax(x + np.nan, x + np.nan)": 1.0}
        for line, expected in lines.items():
            gradient = gg.grad(lambda x, line=line: gg.sum(evaluate(line, gnp, x)[0]))(A * 0)
            assert_array_equal(gradient.numpy(), np.full_like(A, expected), err_msg=line)

    def test_allclose(self):
        x = gg.tensor(A, requires_grad=True)
        for namespace in (np, gnp):
            assert namespace.allclose(x, A + 1e-9) is True
            assert namespace.allclose(A, x + 1) is False

    @pytest.mark.parametrize("line", [
        "np.append(x, x, axis=2)", "np.cumsum(x, axis=-3)", "np.delete(x, 0, axis=2)",
        "np.insert(x, 0, 1.0, axis=-3)", "np.nanquantile(x, 1.5)", "np.outer(x)",
        "np.sort(x, axis=2)", "np.take(x, [0], axis=2)",
        "np.take_along_axis(x, A.astype(int), axis=2)", "np.apply_along_axis(np.sum, 3, x[0])",
        "np.block((x, x))", "np.block([[x], x])", "np.choose([[-1, 0, 0]], [x, x])",
        "np.clip(x, 0.1, 0.2, max=0.3)", "np.linalg.lstsq(x, x[None, ...])",
        "np.resize(x, (-1, 2))", "np.rollaxis(x, 7)", "np.std(x, ddof=1, correction=0)",
    ])  # fmt: skip
    def test_what_numpy_refuses_is_refused(self, line):
        for x in (A, gg.tensor(A)):
            with pytest.raises((IndexError, TypeError, ValueError)):
                evaluate(line, gnp, x)

    def test_a_side_that_trim_zeros_does_not_know(self):  # which older versions of NumPy accept
        with pytest.raises(ValueError, match="trim must be"):
            gnp.trim_zeros(gg.tensor(A[0]), "x")

    def test_a_slice_without_numbers_has_no_median(self):
        x = gg.tensor([[np.nan, np.nan], [2.0, np.nan]], requires_grad=True)
        median = gnp.nanmedian(x, axis=1)
        assert_array_equal(median.detach().numpy(), [np.nan, 2.0])
        median[1].backward()
        assert_array_equal(x.grad.numpy(), [[0.0, 0.0], [1.0, 0.0]])

    def test_constants_are_numpys_arrays(self):
        for value in (gnp.zeros(3), gnp.array([1, 2]), gnp.sin(A), gnp.pad(A, 1), gnp.r_[A, A]):
            assert type(value) is np.ndarray
        assert (gnp.arange(3) / 10).dtype == np.float64
        assert type(gnp.sum(A)) is np.float64
        assert type(gnp.asanyarray(np.ma.array(A))) is np.ma.MaskedArray
        assert gnp.ascontiguousarray(A.T).flags.c_contiguous
        for x in (2.0, gg.tensor(2.0)):
            assert gnp.ascontiguousarray(x).shape == (1,)
        assert gnp.vectorize(otypes=[float])(abs)([-1, 2]).dtype == np.float64

    def test_constants_on_a_device(self):
        like = gg.tensor(A)
        for x in (
            *(gnp.zeros(3, device="cpu"), gnp.array([1.0, 2.0], device="cpu")),
            gnp.asanyarray([1.0, 2.0], device="cpu"),
            *(gnp.linspace(0, 1, 3, device="cpu"), gnp.eye(2, like=like), np.ones(3, like=like)),
        ):
            assert (type(x), x.dtype) == (gg.Tensor, gg.float64)
        assert gnp.arange(3, device="cpu").dtype == gg.int64

    def test_what_would_be_silently_wrong_is_refused(self):
        x = gg.tensor(A, requires_grad=True)
        for call, words in (
            (lambda: gnp.r_["0,2", x], "r_: takes no strings"),
            (lambda: np.histogram(A, weights=x), "weights"),
            (lambda: gnp.vectorize(abs)(x), "vectorize: abs would get single numbers"),
            (lambda: gnp.nan_to_num(x, copy=False), "does not write in place"),
            (lambda: gnp.unique(x * np.nan, return_counts=True), "if some values are nan"),
            (lambda: gnp.nanquantile(x, 0.5, method="hazen"), "method is 'linear', not 'hazen'"),
            (lambda: gnp.pad(x, 1, "mean"), "the mode is one of .*, not 'mean';"),
            (lambda: gnp.pad(x, 1, "reflect", reflect_type="odd"), "with reflect_type=.odd.;"),
        ):
            with pytest.raises(TypeError, match=words):
                call()
        with pytest.raises(IndexError):
            gnp.choose([[2, 0, 0]], [x, x])
        for line, words in (
            ("np.linalg.lstsq(x[None], x)", r"lstsq: takes \(m, n\)"),
            ("np.apply_along_axis(np.sum, 0, x[:, :0])", "apply_along_axis: the other axes"),
            ("np.block([x, [x]])", "block: takes lists, all nested equally deep"),
        ):
            with pytest.raises(ValueError, match=words):
                evaluate(line, gnp, x)
        with pytest.raises(np.linalg.LinAlgError, match="1-dimensional"):
            gnp.linalg.cond(x[0], 1)
        assert_array_equal(gnp.vectorize(abs)([-1, 2]), [1, 2])


METHODS = """
x.ravel(); x.flatten(); x.squeeze(); x[:1, :].squeeze(); x[:1, :].squeeze(0)
x[None, ...].transpose(); x[None, ...].transpose(2, 0, 1); x[None, ...].transpose((2, 0, 1))
x.transpose(1, 0); x.swapaxes(0, 1); x[None, ...].swapaxes(0, -1); x.dot(A.T); x[0, :].dot(A[1, :])
x.cumsum(); x.cumsum(1); x.cumsum(axis=0); x.cumprod(); x.cumprod(axis=-1); x.copy(); x.diagonal()
x.diagonal(1); x[None, ...].diagonal(-1, 2, 0); x.trace(); x[None, ...].trace(1, axis1=1, axis2=2)
x.take([3, 0, 3]); x.take([[1, 0], [0, 0]], 1); x.take([-1, 0], axis=0); x.take(1); x.take((0, 1))
x.take(()); x.take(1, axis=-1); x[:, (0,)]; x[(1, 0), (0, 2)]; x[(0, 1), ...]; x.repeat(2)
x.repeat(2, axis=1); x.repeat(x.argmax(1), axis=0); x[x.nonzero()]
"""


class TestMethods:
    def test_they_are_numpys(self):
        for line, checked in every(lines(METHODS)):
            with checked:
                (result,) = evaluate(line, np, gg.tensor(A, requires_grad=True))
                assert_allclose(result.detach().numpy(), evaluate(line, np, A)[0], rtol=1e-12)
                assert result.requires_grad

    def test_where_numpy_and_pytorch_differ(self):
        x = gg.tensor(A)
        for call in (lambda: x.transpose(0, 1), lambda: x[None].transpose(0, 2)):
            with pytest.raises(ValueError, match=r"write x\.swapaxes\(a, b\)"):
                call()
        with pytest.raises(ValueError, match="dot: takes vectors and matrices"):
            x.dot(2.0)


@pytest.mark.slow
class TestDerivatives:
    def test_first_and_second_derivatives(self):
        for line, checked in every(ALL):
            x = gg.tensor(SMOOTH_AT, requires_grad=True)
            if "float32" not in line and number(line, x) is not None:
                with checked:
                    gradcheck(lambda x, line=line: number(line, x), x)
                    gradgradcheck(lambda x, line=line: number(line, x), x)

    def test_a_wrong_gradient_would_be_found(self):
        x = gg.tensor(SMOOTH_AT, requires_grad=True)
        with pytest.raises(AssertionError):
            gradcheck(lambda x: number("np.sum(x.detach() * x)", x), x)

    @pytest.mark.parametrize("library", each_library(lambda library: library.name != "numpy"))
    def test_other_libraries(self, library):
        constants = {name: library.tensor(value) for name, value in CONSTANTS.items()}
        for line, checked in every(ALL):
            x, y = (gg.tensor(SMOOTH_AT), library.tensor(SMOOTH_AT))
            expected = number(line, x.requires_grad_())
            if expected is None or "float32" in line or (library.name, function_of(line)) in BEYOND:
                continue
            with checked:
                found = number(line, y.requires_grad_(), **constants)
                expected.backward()
                found.backward()
                assert type(y.grad.array) is type(y.array)
                assert_allclose(library.values(found), expected.detach().numpy(), rtol=1e-9)
                assert_allclose(library.values(y.grad), x.grad.numpy(), rtol=1e-7, atol=1e-9)

    def test_vmap(self):
        rows = np.stack([SMOOTH_AT, SMOOTH_AT * 1.05])
        for line, checked in every(ALL):
            is_by_value = function_of(line) in BY_VALUES
            if is_by_value or number(line, gg.tensor(A, requires_grad=True)) is None:
                continue
            with checked:
                gradient = gg.grad(lambda x, line=line: number(line, x))
                expected = [gradient(row).numpy() for row in rows]
                assert_allclose(gg.vmap(gradient)(rows).numpy(), expected, rtol=1e-6, atol=1e-8)


def number(line, x, **constants):
    """Return one number that depends on all floating results of a line; None if there are none."""
    terms = []
    for k, result in enumerate(evaluate(line, gnp, x, **constants)):
        if isinstance(result, gg.Tensor) and result.requires_grad:
            is_complex = gg.isdtype(result.dtype, "complex floating")
            for part in (gg.real, gg.imag) if is_complex else (lambda y: y,):
                terms.append(gg.sum(gg.sin(part(result) * (1.3 + k / 10))))
    return sum(terms[1:], terms[0]) if terms else None


def test_nan_quantiles_of_infinities_and_of_many_numbers():
    for values, expected in (
        ([1.0, 2.0, np.inf], [1, 2, np.inf]), ([1.0, np.nan, np.inf, 3.0], [1, 3, np.inf]),
        ([-np.inf, 1.0, 2.0], [-np.inf, 1, 2]),
    ):  # fmt: skip
        assert [gnp.nanquantile(gg.tensor(values), q).item() for q in (0.0, 0.5, 1.0)] == expected
    many = np.random.default_rng(0).standard_normal(70_000).astype("float16")
    expected = np.quantile(many.astype("float64"), 0.3)
    assert_allclose(gnp.nanquantile(gg.asarray(many), 0.3).array, expected, rtol=1e-3)
    empty = gg.zeros((0, 3))
    assert np.isnan(gnp.nanmedian(empty, axis=0).array).all()
    assert gnp.nanmedian(empty, axis=1).shape == (0,)


def test_axes_of_sliding_windows():
    x = np.arange(60.0).reshape(3, 4, 5)
    windows, own = np.lib.stride_tricks.sliding_window_view, gnp.lib.stride_tricks
    for size, axis in ((2, 1), ((2, 2), (1, 2)), ((2, 3, 2), (-1, 0, 1)), ((), ())):
        found = own.sliding_window_view(gg.tensor(x), size, axis)
        assert_array_equal(found.numpy(), windows(x, size, axis))
    for axis in (5, -4):
        with pytest.raises(np.exceptions.AxisError):
            own.sliding_window_view(gg.tensor(x), 2, axis)
    with pytest.raises(ValueError, match="must be at least 1"):
        own.sliding_window_view(gg.tensor(x), 0, 1)
