"""Every op in the table on every array library: values, gradients, dtypes, memory."""

import collections
import math
import time
import timeit
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, product
from operator import attrgetter

import numpy as np
import pytest
from cases import CASES, LAYOUTS, Sample, values
from samples import every

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.autograd.operation import Op, composites
from gpugrad.testing import assert_close, gradcheck, gradgradcheck

BY_NAME = {case.op: case for case in CASES}
DTYPES = ["float64", "float32", "float16", "complex128", "complex64"]
DOUBLE = ["float64", "complex128"]
NEAR = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "complex128": 1e-12, "complex64": 1e-5}


def each_case(*, differentiable=None, kinks=None):
    """Parametrize a test with the cases that have such samples."""
    chosen = [
        case
        for case in CASES
        if differentiable in (None, case.differentiable)
        and any(kinks in (None, s.gradients is not None) for s in case.samples)
    ]
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.op)


def samples(case, library, dtype="float64", *, mixed=True, kinks=True):
    """Yield the samples that the library can do; none in a complex dtype if the op takes none."""
    is_complex = dtype.startswith("complex")
    for sample in case.samples if case.complex or not is_complex else ():
        if (sample.mixed and (is_complex or not mixed)) or library.name in sample.beyond:
            continue
        if sample.gradients and (is_complex or not kinks):
            continue
        if all(library.has(x.dtype) for x in sample.arrays(dtype) if hasattr(x, "dtype")):
            yield sample


def with_dtypes(dtypes, case, library, **which):
    """Yield every sample in each of the dtypes that the case and the library can do."""
    for dtype in dtypes:
        yield from ((dtype, sample) for sample in samples(case, library, dtype, **which))


def few_of_each_dtype(dtypes, case, library):
    """Yield a few samples in each dtype: for NumPy six, and all in float32; for others three."""
    for dtype in dtypes:
        found = [*samples(case, library, dtype)]
        most = 3 if library.name != "numpy" else 6 if dtype != "float32" else len(found)
        last = {max(k * len(found) // most, 1) - 1 for k in range(1, most + 1)}  # of equal parts
        yield from ((dtype, found[i]) for i in sorted(last) if found)


class Call:
    """One call of an op, with a sample's inputs as tensors of a library.

    tensors: the inputs. Floating arrays become leaves that require grad; if ``wanted`` is
        given, only the input at that position does.
    outputs: the results as a list; gradients start from the floating ones.
    """

    def __init__(self, case, sample, library, dtype="float64", wanted=None):
        self.library, self.given, self.tensors = library, sample.arrays(dtype), []
        for i, (x, spec) in enumerate(zip(self.given, sample.inputs, strict=True)):
            if isinstance(x, np.ndarray):
                floating = x.dtype.kind in "fcV" and case.differentiable  # bfloat16 is of kind V
                x = library.tensor(x, spec.layout, requires_grad=floating and wanted in (None, i))
            self.tensors.append(x)
        self.static = {name: library.raw(value) for name, value in sample.static.items()}
        self.leaves = [x for x in self.tensors if getattr(x, "requires_grad", False)]
        self.function = lambda *inputs: case(inputs, self.static)
        with quiet():
            self.outputs = several(self.function(*self.tensors))
        self.recorded = [y for y in self.outputs if y.requires_grad]

    def cotangents(self):
        """Return a random cotangent for each recorded output."""
        outputs = enumerate(self.outputs)
        return [random_like(self.library, y, (0, i)) for i, y in outputs if y.requires_grad]

    def gradients(self, cotangents, **options):
        with quiet():
            return grad(self.recorded, self.leaves, cotangents, **options)


def several(results):
    return list(results) if isinstance(results, tuple) else [results]


def random_like(library, x, seed):
    """Return a random tensor with the shape and dtype of ``x``.

    seed: an int or several, or a generator.
    """
    rng, dtype = np.random.default_rng(seed), library.dtype(x.dtype)
    values = np.asarray(rng.standard_normal(x.shape))
    if "complex" in dtype:
        values = values + 1j * rng.standard_normal(x.shape)
    return library.tensor(values.astype(dtype))


@contextmanager
def quiet():
    """Ignore NumPy's warnings about infinities and nans, which are correct results here."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        yield


def reference(case, sample, dtype="float64"):
    """Return the outputs of the reference as NumPy arrays."""
    with quiet():
        outputs = several(case.through(np, case.reference, *sample.arrays(dtype), **sample.static))
    return [np.asarray(y) for y in outputs]


def expected_dtype(sample, given, out, dtype):
    """Return the dtype that gpugrad should give an output whose reference is ``out``."""
    if out.dtype.kind not in "fc":
        return out.dtype.name
    if sample.static.get("dtype") is not None:
        return np.dtype(sample.static["dtype"]).name
    floating = [x.dtype for x in given if isinstance(x, np.ndarray) and x.dtype.kind in "fc"]
    real = np.result_type(*floating, "float16") if floating else np.dtype("float32")
    if out.dtype.kind == "c":
        return np.result_type(real, "complex64").name
    return real.type(0).real.dtype.name


def test_the_table_has_every_op():
    assert set(BY_NAME) >= set(Op.registry) | set(composites)
    assert all(callable(case.function) for case in CASES)
    assert len(BY_NAME) == len(CASES)


def test_relative_tolerances_of_cases():
    expected, small = np.array([[[1e3, 1e-3]], [[1.0, 1e-3]]]), ((0, 0, 1), (1, 0, 1))
    for relative_to, agree in ("element", ()), ("matrix", small[:1]), ("array", small):
        case = replace(BY_NAME["matmul"], relative_to=relative_to)
        for place in small:
            actual = expected.copy()
            actual[place] += 1e-4
            with nullcontext() if place in agree else pytest.raises(AssertionError, match="worst"):
                case.assert_close(actual, expected, rtol=1e-6, atol=1e-9)


def test_every_op_is_documented_and_public():
    for name, checked in every(Op.registry | composites):
        with checked:
            call = attrgetter(name)(gg)
            assert call.__doc__
            assert call is composites[name] if name in composites else call.op is Op.registry[name]


@each_case()
def test_forward(case, library):
    for (dtype, sample), checked in every(with_dtypes(DTYPES, case, library)):
        with checked:
            call = Call(case, sample, library, dtype)
            expected = reference(case, sample, dtype)
            assert len(call.outputs) == len(expected)
            for y, e in zip(call.outputs, expected, strict=True):
                name = expected_dtype(sample, call.given, e, dtype)
                if name == "float64" and sample.mixed and dtype != "float64":
                    name = library.dtype(y.dtype)
                assert library.dtype(y.dtype) == name
                assert type(y.array) is type(library.array(e))
                near = precision(call.given, name)
                case.assert_close(library.values(y), e, rtol=near, atol=near)


def precision(given, name):
    """Return the lowest precision of floating inputs and an output; 0 for other outputs."""
    names = [name, *(x.dtype.name for x in given if isinstance(x, np.ndarray))]
    return max(NEAR.get(n, 0) for n in names)


@each_case(differentiable=True)
def test_gradients(case, library):
    check_by_differences(gradcheck, case, library)


@pytest.mark.slow
@each_case(differentiable=True)
def test_second_gradients(case, library):
    check_by_differences(gradgradcheck, case, library)


def check_by_differences(check, case, library):
    """Compare derivatives with differences for samples that have double precision.

    All of them for NumPy, a few for other libraries, which run the same rules.
    """
    found = collections.Counter()
    most = {"numpy": math.inf}.get(library.name, 3 if check is gradcheck else 1)
    for (dtype, sample), checked in every(with_dtypes(DOUBLE, case, library, kinks=False)):
        if not sample.double or found[dtype] == most:
            continue
        if check is gradgradcheck and sample.specs and sample.specs[0].layout in LAYOUTS[1:]:
            continue  # each op that a rule calls is tested with every layout
        with checked:
            call = Call(case, sample, library, dtype)
            if not call.recorded:
                continue
            found[dtype] += 1
            with quiet():
                check(call.function, call.tensors)
    if not all(library.name in sample.beyond for sample in case.samples):
        assert found.keys() == set(DOUBLE if case.complex else ["float64"])


@each_case(differentiable=True, kinks=True)
def test_gradients_at_kinks(case, library):
    for sample, checked in every([s for s in samples(case, library) if s.gradients is not None]):
        with checked:
            call = Call(case, sample, library)
            gradients = call.gradients([gg.ones_like(y) for y in call.recorded])
            for g, expected in zip(gradients, sample.gradients, strict=True):
                assert_close(library.values(g), expected, rtol=1e-12)


@each_case(differentiable=True)
def test_gradients_in_low_precision(case, library):
    for sample, checked in every(samples(case, library, "float32", mixed=False, kinks=False)):
        with checked:
            low = Call(case, sample, library, "float32")
            if not low.recorded:
                continue
            high = Call(case, sample, library, "float64")
            for a, b in zip(*[one.gradients(one.cotangents()) for one in (low, high)], strict=True):
                case.assert_close(library.values(a), library.values(b), rtol=1e-4, atol=1e-4)


def shared(a, b):
    """Return whether two tensors share memory."""
    a, b = a.array, b.array
    if type(a).__module__.startswith("array_api_strict"):
        a, b = np.asarray(a), np.asarray(b)  # the arrays behind them
    if isinstance(a, np.ndarray):
        return np.shares_memory(a, b)
    if hasattr(a, "untyped_storage"):
        return a.numel() and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    return a.size and a.data.mem.ptr == b.data.mem.ptr


@each_case()
def test_calls_and_gradients_leave_arrays_alone(case, library):
    """Inputs keep their values; gradients have their dtypes, share no memory, and are the same
    with ``create_graph``, with ``backward`` and for one input alone."""
    chosen = with_dtypes(DTYPES[:1], case, library)
    others = few_of_each_dtype(DTYPES[1:], case, library)
    for (dtype, sample), checked in every(chain(chosen, others)):
        with checked:
            call = Call(case, sample, library, dtype)
            if call.recorded:
                check_gradients(case, sample, call, dtype)
            for x, given in zip(call.tensors, call.given, strict=True):
                if isinstance(x, gg.Tensor):
                    assert library.values(x).tobytes() == given.tobytes()


def check_gradients(case, sample, call, dtype):
    values, cotangents = call.library.values, call.cotangents()
    gradients = call.gradients(cotangents, retain_graph=True)
    recorded = call.gradients(cotangents, create_graph=True)
    for g, x in zip([*gradients, *recorded], call.leaves * 2, strict=True):
        assert (g.dtype, g.shape) == (x.dtype, x.shape)
        assert type(g.array) is type(x.array)
    if dtype not in DOUBLE:
        return
    for a, b in zip(gradients, recorded, strict=True):
        case.assert_close(values(a), values(b), rtol=1e-6)
    if dtype != "float64":
        return
    if len(call.leaves) > 1:
        wanted = [i for i, x in enumerate(call.tensors) if getattr(x, "requires_grad", False)]
        for i, expected in zip(wanted, gradients, strict=True):
            alone = Call(case, sample, call.library, wanted=i)
            (g,) = alone.gradients(alone.cotangents())
            case.assert_close(values(g), values(expected))
    if not sample.mixed:
        check_memory(call, cotangents, gradients)


def check_memory(call, cotangents, gradients):
    with quiet():
        for y, g in zip(call.recorded, cotangents, strict=True):
            y.backward(g, retain_graph=True)
    gradients = [*gradients, *(x.grad for x in call.leaves)]
    inputs = [x for x in call.tensors if isinstance(x, gg.Tensor)]
    for i, g in enumerate(gradients):
        assert not any(shared(g, x) for x in (*inputs, *call.outputs, *cotangents, *gradients[:i]))


@each_case(differentiable=False)
def test_ops_without_gradients_record_nothing(case, library):
    for sample, checked in every(samples(case, library)):
        with checked:
            call = Call(case, sample, library)
            for x in call.tensors:
                if isinstance(x, gg.Tensor) and "float" in str(x.dtype):
                    x.requires_grad_()
            for y in several(call.function(*call.tensors)):
                assert (y.requires_grad, y.is_leaf) == (False, True)


def test_large_values_do_not_overflow(library):
    for dtype in ("float64", "float32"):
        x = library.tensor(np.array([[1e4, 1e4 - 1, -1e4]], dtype), requires_grad=True)
        near, loss = math.log1p(math.exp(-1)), gg.cross_entropy(x, library.tensor([2]))
        p, log_p, largest = map(library.values, (gg.softmax(x), gg.log_softmax(x), gg.logsumexp(x)))
        assert_close(p, [[1 / (1 + math.exp(-1)), 1 / (1 + math.e), 0]], atol=1e-6)
        assert_close(log_p, [[-near, -1 - near, -2e4 - near]], rtol=1e-5)
        assert_close(largest, 1e4 + near, rtol=1e-6)
        assert_close(loss.item(), 2e4 + near, rtol=1e-6)
        loss.backward()
        assert_close(library.values(x.grad), [[0.7310586, 0.2689414, -1]], atol=1e-6)


def test_sigmoid_keeps_its_precision_far_from_zero(library):
    x = library.tensor(np.array([-80.0, -40.0, -10.0, 0.0, 200.0, -200.0], "float32"))
    expected = [math.exp(-80), math.exp(-40), 1 / (1 + math.exp(10)), 0.5, 1, 0]
    assert_close(library.values(gg.sigmoid(x)), expected, rtol=1e-5, atol=1e-40)


def test_float16_products_are_rounded_once():
    x = np.exp(np.random.default_rng(0).normal(0, 0.01, 100_000)).astype("float16")
    assert_close(gg.prod(gg.asarray(x)), np.prod(x.astype("float64")).astype("float16"), rtol=2e-3)


LONG = [((20011,), 0), ((7, 1003), 1), ((3, 20, 320), -1), ((300, 40), 0), ((3, 50, 300), 1)]


@pytest.mark.parametrize("shape, axis", LONG, ids=str)
@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("layout", ["contiguous", "reversed"])
def test_reductions_of_long_arrays(library, shape, axis, infinite, layout):
    a = 1 + 1e-2 * np.random.default_rng(0).standard_normal(shape)
    if infinite:
        a.reshape(-1)[a.size // 2] = np.inf
        a.reshape(-1)[a.size // 2 + 20] = -np.inf
    x = library.tensor(a, layout)
    with quiet():
        results = {
            "sum": (gg.sum(x, axis=axis), np.sum(a, axis)),
            "prod": (gg.prod(x), np.prod(a)),
            "var": (gg.var(x), np.var(a)),
            "var by axis": (gg.var(x, axis=axis, correction=1), np.var(a, axis, ddof=1)),
            "cumulative_sum": (gg.cumulative_sum(x, axis=axis), np.cumsum(a, axis)),
            "cumulative_prod": (gg.cumulative_prod(x, axis=axis), np.cumprod(a, axis)),
        }
    for name, checked in every(results):
        with checked:
            y, expected = results[name]
            assert_close(library.values(y), expected, rtol=1e-9)


def test_where_of_two_scalars_has_the_default_dtype(library):
    mask = library.tensor([True, False])
    dtypes = {(1.0, 0.5): "float32", (1, 2.5): "float32", (3, 0): "int64", (True, False): "bool"}
    for (x1, x2), dtype in dtypes.items():
        y = gg.where(mask, x1, x2)
        assert (library.dtype(y.dtype), y.tolist()) == (dtype, [x1, x2])


@pytest.mark.parametrize("number", [-1, 256])
def test_where_of_a_number_that_does_not_fit(library, number):
    mask = library.tensor(np.array([True, False]))
    for operands in (number, mask.astype("uint8")), (mask.astype("uint8"), number):
        with pytest.raises(ValueError, match=f"^where: Python integer {number} out of bounds for"):
            gg.where(mask, *operands)
    assert gg.where(mask, 255, mask.astype("uint8")).tolist() == [255, 0]


# Errors name the op and its operands. An error of the array library keeps its class.

MISFIT = (ValueError, IndexError, RuntimeError)
x23, x45, x3, x4 = map(np.zeros, ((2, 3), (4, 5), 3, 4))
labels = np.array([0, 2, 1])
REDUCTIONS = "sum mean prod max min var std any all count_nonzero logsumexp argmax argmin".split()


@pytest.mark.parametrize("name, inputs, static, kind, words", [
    ("add", (x23, x45), {}, MISFIT, r"\(2, 3\).*\(4, 5\)"),
    # The same words in every array library.
    ("matmul", (x23, x45), {}, ValueError,
     r"x1 \(2, 3\) and x2 \(4, 5\) do not align: 3 != 4; given .*\(2, 3\).*\(4, 5\)"),
    ("matmul", (x3, x4), {}, ValueError, r"x1 \(3,\) and x2 \(4,\) do not align: 3 != 4; given"),
    ("matmul", (np.array(2.0), x23), {}, ValueError,
     r"an operand without axes is not a matrix; use multiply; given .*\(\).*\(2, 3\)"),
    ("matmul", (np.zeros((2, 2, 3)), np.zeros((3, 3, 4))), {}, ValueError,
     "the leading axes of .* do not broadcast: 2"),
    ("vecdot", (x23, np.zeros((2, 4))), {}, ValueError,
     r"x1 \(2, 3\) and .* do not align along axis -1: 3 != 4; given"),
    ("tensordot", (x23, x45), {"axes": 1}, ValueError,
     r"x1 \(2, 3\) and .* do not align along axes 1 and 0: 3 != 4"),
    ("tensordot", (x23, x45), {"axes": 3}, ValueError, "axes 3 is not from 0 to 2; given"),
    ("concat", (x23, x45), {}, MISFIT, r"\(2, 3\).*\(4, 5\)"),
    ("reshape", (x23,), {"shape": (4,)}, MISFIT, r"\(2, 3\)"),
    ("squeeze", (x23,), {"axis": 0}, MISFIT, r"\(2, 3\)"),
    ("sum", (x23,), {"axis": 2}, MISFIT, "2"),
    ("max", (np.zeros((0, 3)),), {"axis": 0}, MISFIT, r"\(0, 3\)"),
    ("getitem", (x23,), {"key": (5, 0)}, IndexError, r"\(2, 3\)"),
    ("linear", (x23, x45), {}, ValueError, "in_features"),
    ("linear", (x23, np.zeros((4, 3)), x3), {}, ValueError, "bias"),
    ("mse", (x23, np.zeros((2, 1))), {}, ValueError, r"\(2, 3\) and \(2, 1\)"),
    ("mse", (x23, x23), {"reduction": "max"}, ValueError, "'max'"),
    ("cross_entropy", (x23, labels), {}, ValueError, r"\(2, 3\).*\(3,\)"),
    ("cross_entropy", (x23, x23), {}, ValueError, "labels"),
    ("cross_entropy", (x23, np.zeros(2)), {}, TypeError, "integer"),
    ("cross_entropy", (np.zeros((3, 2)), labels), {}, IndexError, "0 to 1.*0 to 2"),
    ("cross_entropy", (np.zeros((3, 3)), labels - 1), {}, IndexError, "0 to 2.*-1 to 1"),
    ("one_hot", (labels,), {"n": 2}, IndexError, "from 0 to 1"),
    ("one_hot", (np.zeros(2),), {"n": 2}, TypeError, "integers"),
    ("where", (x3, x3, x3), {}, TypeError, "bool"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_errors(library, name, inputs, static, kind, words):
    sample = Sample(tuple(values(x) for x in inputs), static)
    expected = pytest.raises(kind, match=f"^{name}: .*{words}")
    if library.name == "cupy" and kind is IndexError and name in ("cross_entropy", "one_hot"):
        expected = nullcontext()  # on a GPU the host would have to wait to check labels
    with expected:
        Call(BY_NAME[name], sample, library)


def test_axes_of_a_0d_array(library):
    x = library.tensor(np.float32(1))
    for (name, axis, keepdims), checked in every(product(REDUCTIONS, (0, -1), (False, True))):
        message = f"^{name}: axis {axis} is out of bounds for array of dimension 0; given"
        with checked, pytest.raises(IndexError, match=message):
            getattr(gg, name)(x, axis=axis, keepdims=keepdims)
    for name, checked in every(REDUCTIONS[:-2]):
        with checked:
            getattr(gg, name)(x, axis=())


@pytest.mark.parametrize("name", "all any logsumexp max mean min sum var".split())
def test_several_axes_are_a_tuple(name):
    x, function = gg.ones((2, 3), dtype=gg.bool), getattr(gg, name)
    x = x if name in ("all", "any") else gg.astype(x, gg.float32)
    assert function(x, axis=(0, 1)).shape == ()
    with pytest.raises(TypeError, match=rf"^{name}: axis must be .* tuple .* list \[0, 1\]; given"):
        function(x, axis=[0, 1])


@pytest.mark.parametrize("name, args", [
    ("quantile", (0.5,)), ("chunk", (2,)), ("topk", (1,)), ("roll", (1,)), ("diff", ()),
    ("fft.rfft", ()), ("linalg.cross", (gg.ones((2, 3)),)), ("cumulative_sum", ()),
    ("take_along_axis", (gg.ones((2, 3), dtype="int64"),)),
])  # fmt: skip
def test_an_axis_that_there_is_not(name, args):
    more = {"include_initial": True} if name == "cumulative_sum" else {}
    with pytest.raises(IndexError, match=rf"^{name}: axis 2 is out of (range|bounds) for .* ?2"):
        attrgetter(name)(gg)(gg.ones((2, 3)), *args, axis=2, **more)
    with pytest.raises(IndexError, match="axis 0 is out of range for 0 axes"):
        gg.cumulative_sum(gg.tensor(1.0), axis=0, include_initial=True)


x6 = gg.tensor([1, 0, 2, 3, 5, 4])


@pytest.mark.parametrize("call, words", [
    (lambda: gg.take_along_axis(x6, x6, axis=1), "axis 1 is out of bounds for .* 1"),
    (lambda: gg.take_along_axis(x6, x6 > 0, axis=0), "indices must be integers, not bool"),
    (lambda: gg.repeat(x6, 1.5), "repeat: 'float' object cannot be .* an integer"),
    (lambda: gg.bincount(x6, minlength=-1), "minlength must be an int of at least 0"),
    (lambda: gg.tensordot(x6, x6, axes=-1), "tensordot: axes must be an int of at least 0"),
    (lambda: x6.swapaxes(0, 1), "swapaxes: axis 1 is out of range for 1 axes"),
    (lambda: x6.transpose((1,)), "transpose: axis 1 is out of range for 1 axes"),
    (lambda: gg.fft.fftn(x6, axes=(2,)), r"fft.fftn: axis \(2,\) is out of range for 1 axes"),
    (lambda: gg.fft.fftshift(x6, axes=2), "fftshift: axis 2 is out of range for 1 axes"),
])  # fmt: skip
def test_arguments_that_mean_nothing(call, words):
    with pytest.raises((IndexError, TypeError, ValueError), match=words):
        call()


def test_products_of_many_numbers_whose_partial_products_overflow():
    x = gg.tensor([1e200, 1e-200] * 4096, dtype="float64")
    assert (gg.prod(x).item(), gg.prod(x, keepdims=True).tolist()) == (1, [1])


def test_quantiles_for_numbers_out_of_range_in_an_array_are_nan():
    for method in ("linear", "lower", "nearest"):
        found = gg.quantile(gg.tensor([1.0, 2.0]), gg.tensor([1.5, np.nan, 1]), method=method)
        np.testing.assert_array_equal(found, [np.nan, np.nan, 2])


def test_axes_may_be_integers_of_other_libraries():
    x = gg.ones((2, 3), requires_grad=True)
    gg.sum(x, axis=np.int64(-1)).sum().backward()
    gg.max(x, axis=(np.int8(0), np.int64(1))).backward()
    assert_close(x.grad, np.full((2, 3), 1 + 1 / 6), rtol=1e-6)


def test_powers_of_many_numbers_are_those_of_few():
    rng = np.random.default_rng(0)
    for dtype, wide in (("float32", np.float64), ("float64", np.longdouble)):
        info = np.finfo(dtype)
        ends = [0, -0.0, np.inf, -np.inf, np.nan, info.tiny, info.smallest_subnormal, info.max, 1]
        some = np.array([*ends, *rng.uniform(-3, 3, 60), *np.exp2(rng.uniform(-99, 99, 60))], dtype)
        some = np.concatenate([some, -some])
        for bases in (some, some[~(some < 0)]):  # roots of negative numbers are nan
            many = gg.tensor(np.tile(bases, 9000 // bases.size + 1))
            for n in (-4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.0, 3, 3.0, 4, 5.0, 6, 2.5):
                with np.errstate(all="ignore"):
                    few, exact = bases**n, bases.astype(wide) ** wide(n)
                    found = (many**n).numpy()[: bases.size]
                    power = gg.compile(lambda x: x**n)  # noqa: B023
                    compiled = [power(many) for _ in range(3)][-1].numpy()[: bases.size]
                    assert power._programs
                finite = np.isfinite(few)
                alike = [np.where(finite, np.copysign(1, x), x) for x in (found, few)]
                np.testing.assert_array_equal(*alike, err_msg=str(n))
                np.testing.assert_array_equal(compiled, found, err_msg=str(n))
                with np.errstate(over="ignore"):
                    unit = np.spacing(np.abs(few[finite]))
                assert np.abs((found[finite] - exact[finite]) / unit).max() < 2, n


def test_powers_of_many_numbers_of_other_dtypes_are_numpys():
    for dtype, n in product(("int8", "int64", "uint8", "float16", "complex64"), (2, 3, 4, 5)):
        x = np.arange(-500, 500).astype(dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal((gg.tensor(x) ** n).numpy(), x**n)


def test_powers_of_many_negative_numbers_are_fast():
    x = gg.tensor(np.linspace(-2, -1, 1 << 16, dtype="float32"))

    def seconds(function):
        return min(timeit.repeat(function, timer=time.process_time, repeat=5, number=1))

    for call in (lambda: x**3, lambda: gg.numpy.power(x, 3), lambda: np.power(x, 4)):
        assert seconds(call) < 40 * seconds(lambda: x * x)


def test_derivatives_of_logaddexp_of_equal_large_and_distant_numbers():
    def slope_and_hessian(x, dtype="float32"):
        slope = gg.grad(lambda x: gg.logaddexp(x[0], x[1]))
        return [f(gg.tensor(x, dtype=dtype)) for f in (slope, gg.jacobian(slope, mode="forward"))]

    for x in ([0.0, 1000.0], [-np.inf, 1.0]):
        slope, hessian = slope_and_hessian(x)
        assert (slope.tolist(), hessian.numpy().any()) == ([0.0, 1.0], False)
    _, hessian = slope_and_hessian([0.0, 12.0], "float16")
    assert np.isfinite(hessian.numpy()).all()
    for x in (3.0, 1e6, 1e7):
        slope, hessian = slope_and_hessian([x, x])
        assert (slope.tolist(), hessian.tolist()) == ([0.5, 0.5], [[0.25, -0.25], [-0.25, 0.25]])
    third = gg.grad(gg.grad(gg.grad(lambda x: gg.logaddexp(x, 1.0))))
    assert third(gg.tensor(1.0, dtype="float64")).item() == 0.0
