"""Functions that create tensors: what they accept, copy and share, and the dtypes they give."""

import array
import decimal
import math
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from samples import error_test, stable_repr

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.testing import gradcheck

FUNCTIONS = {
    "tensor": lambda **k: gg.tensor([1.0, 2.0], **k),
    "asarray": lambda **k: gg.asarray([1.0, 2.0], **k),
    **{f: lambda f=f, **k: getattr(gg, f)((2,), **k) for f in ("zeros", "empty", "ones")},
    **{f: lambda f=f, **k: getattr(gg, f)(gg.ones(2), **k)
       for f in ("zeros_like", "empty_like", "ones_like")},
    "full": lambda **k: gg.full((2,), 1.5, **k),
    "full_like": lambda **k: gg.full_like(gg.ones(2), 3, **k),
    "arange": lambda **k: gg.arange(0.0, 2.0, **k),
    "linspace": lambda **k: gg.linspace(0, 1, 2, **k),
    "eye": lambda **k: gg.eye(2, **k)[0].detach().requires_grad_(k.get("requires_grad", False)),
}  # fmt: skip
RANDOM = {f: lambda f=f, **k: getattr(gg.random, f)((2,), **k) for f in ("uniform", "normal")}


@pytest.mark.parametrize("function", (FUNCTIONS | RANDOM).values(), ids=FUNCTIONS | RANDOM)
def test_every_function(function):
    x = function()
    assert type(x) is gg.Tensor
    assert (x.shape, x.dtype, x.device, x.requires_grad) == ((2,), gg.float32, "cpu", False)
    assert x.array.flags.writeable
    for dtype in gg.float16, gg.float64, "float64", np.float64, float:
        assert function(dtype=dtype).dtype == np.dtype(dtype)
    x = function(requires_grad=True)
    assert x.is_leaf
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_errors_of_every_function(function):
    for dtype in (object, str, "nonsense", "datetime64[s]"):
        with pytest.raises(TypeError, match=r"^\w+: "):
            function(dtype=dtype)
    assert function(device="cpu").device == "cpu"
    for device in ("gpu", "cpu:1", "cuda:", "cuda:x", "CUDA", "", 0):
        with pytest.raises(ValueError, match=r"^\w+: device .* is not known; use 'cpu', 'cuda'"):
            function(device=device)


class TestTensor:
    @pytest.mark.parametrize("dtype, given", [
        (gg.bool, [True, [True, False], np.bool(True)]),
        (gg.int64, [1, [1, 2], [True, 2], [[1, 2], [3, 4]], range(3), memoryview(b"ab"),
                    [np.bool(True), 2]]),
        (gg.float32, [1.5, [], [1, 2.5], (1.0, (2.0)), array.array("d", [1.0, 2.0]),
                      [np.int8(1), 2.5], [np.float32(1.5), np.float16(2)]]),
        (gg.float64, [np.float64(1.5), [[1.5, 2], (1, np.float64(2))], np.array([1.0]),
                      [np.array([1.0, 2.0]), np.array([3.0, 4.0])], np.array(1.0)]),
        (gg.complex64, [1j]), (gg.complex128, [[np.float64(1.5), 1j]]), (gg.int32, [np.int32(1)]),
        (gg.int8, [[np.int8(1), 2], np.array([1], "int8")]),
        (gg.float16, [np.array([1], "float16")]),
    ], ids=stable_repr)  # fmt: skip
    def test_dtypes_and_values(self, dtype, given):
        for function, data in product((gg.tensor, gg.asarray), given):
            x = function(data)
            assert x.dtype == dtype
            assert_array_equal(x.numpy(), np.asarray(data))

    def test_numpys_scalars_keep_their_digits_but_are_weak_in_operators(self):
        tenth = np.float64(0.1)
        for x in (gg.tensor(tenth), gg.asarray([tenth])[0], gg.full((2,), tenth)[0]):
            assert x.item() == 0.1
        assert (gg.ones(2) * tenth).dtype == gg.asarray([gg.ones(()), tenth]).dtype == gg.float32

    def test_copies(self):
        a = np.ones(3)
        for x in map(gg.tensor, (a, gg.asarray(a), memoryview(a), a[::-1])):
            assert not np.shares_memory(x.array, a)
            assert x.array.flags.c_contiguous

    def test_a_tensor_of_a_tensor_is_a_new_leaf(self):
        x = gg.ones(2, requires_grad=True)
        y = gg.tensor(x * 2)
        assert (y.requires_grad, y.tolist()) == (False, [2, 2])
        assert gg.tensor(x, requires_grad=True).is_leaf

    @pytest.mark.parametrize("function", [gg.tensor, gg.asarray])
    @pytest.mark.parametrize("data", [
        *("abc", b"abc", None, {1, 2}, {"a": 1}, object(), decimal.Decimal(1)),
        *(["1.5"], [1, None], [object()], (x for x in (1, 2))),
        *(np.array(["a"]), np.array([object()]), np.array(["2020-01-01"], "datetime64[D]")),
    ], ids=stable_repr)  # fmt: skip
    @pytest.mark.parametrize("dtype", [None, gg.float32], ids=repr)
    def test_not_numbers(self, function, data, dtype):
        with pytest.raises(TypeError, match=r"^(tensor|asarray): "):
            function(data, dtype=dtype)

    @pytest.mark.parametrize("function", [gg.tensor, gg.asarray, gg.zeros_like, gg.exp])
    def test_masked_arrays(self, function):
        masked = np.ma.masked_less([1.0, -1.0], 0)
        with pytest.raises(TypeError, match=r"^\w+: a masked array .*\.filled\(value\)"):
            function(masked)
        assert function(masked.filled(0)).shape == (2,)


class TestAsarray:
    def test_shares(self):
        a = np.ones(3)
        assert gg.asarray(a).array is a
        for data, copy in (a[::-1], None), (a, False), (a, True):
            assert np.shares_memory(gg.asarray(data, copy=copy).array, a) is (copy is not True)
        x = gg.asarray(a, requires_grad=True)
        y = gg.asarray(x, copy=True)
        assert gg.asarray(x) is x
        assert not np.shares_memory(y.array, a)
        assert grad(y.sum(), x)[0].tolist() == [1, 1, 1]
        for data, dtype in (a, gg.float32), (x, gg.float32), ([1.0], None):
            with pytest.raises(ValueError, match=r"asarray: .*copy"):
                gg.asarray(data, dtype=dtype, copy=False)

    def test_objects_of_other_classes(self):
        class Capsule:
            def __dlpack__(self, **options):
                return a.__dlpack__(**options)

            def __dlpack_device__(self):
                return a.__dlpack_device__()

        class Image:
            def __array__(self, dtype=None, copy=None):
                return np.array([[1, 2]], dtype=np.uint8)

        a = np.array([1.0, 2.0])
        x = gg.asarray(Capsule())
        assert np.shares_memory(x.array, a)
        assert x.dtype == gg.float64
        assert not np.shares_memory(gg.tensor(Capsule()).array, a)
        assert gg.asarray(Image()).dtype == gg.uint8

    @pytest.mark.parametrize("name", ["array_api_strict", "torch"])
    def test_other_libraries(self, name):
        a = pytest.importorskip(name).asarray([1.0, 2.0])
        x = gg.asarray(a, requires_grad=True)
        assert np.shares_memory(x.detach().numpy(), np.asarray(a))
        assert not np.shares_memory(gg.tensor(a).numpy(), np.asarray(a))
        (g,) = grad((x * x).sum(), x)
        assert type(g.array) is type(a)
        assert g.tolist() == [2, 4]


class TestNestedTensors:
    def test_gradients(self):
        x, rows = gg.tensor(2.0, requires_grad=True), gg.tensor([1.0, 2.0], requires_grad=True)
        y = gg.asarray([[x, 1], (x * x, 3.5), rows])
        assert (y.tolist(), y.dtype) == ([[2, 1], [4, 3.5], [1, 2]], gg.float32)
        found = grad(y, [x, rows], gg.tensor([[1.0, 2], [3, 4], [5, 6]]))
        assert [g.tolist() for g in found] == [1 + 3 * 4, [5, 6]]

    @pytest.mark.parametrize("data, dtype", [
        ([gg.tensor(1.0, dtype=gg.float16), 2.5], gg.float16), ([gg.tensor(1), True], gg.int64),
        ([gg.tensor(1.0, dtype=gg.float64), 2], gg.float64), ([gg.tensor(1), 2.5], gg.float32),
        ([gg.tensor(1), gg.tensor(2.0)], gg.float32), ([gg.tensor(1.0), 2j], gg.complex64),
        ([gg.tensor([1.0]), np.array([2.0])], gg.float64),
    ], ids=repr)  # fmt: skip
    def test_dtypes(self, data, dtype):
        for function in (gg.tensor, gg.asarray):
            assert function(data, device="cpu").dtype == dtype
            assert function(data, dtype=gg.complex128).dtype == gg.complex128


class TestFromDlpack:
    @pytest.mark.parametrize("name", ["numpy", "array_api_strict", "torch"])
    def test_shares(self, name):
        a = pytest.importorskip(name).asarray([1.0, 2.0])
        x = gg.from_dlpack(a, requires_grad=True)
        assert type(x.array) is np.ndarray
        a[0] = 5
        copied = gg.from_dlpack(a, device="cpu", copy=True)
        a[0] = 6
        found = [t.tolist() for t in (x, copied, gg.from_dlpack(a, copy=False))]
        assert found == [[6, 2], [5, 2], [6, 2]]

    def test_a_tensor_keeps_its_graph(self):
        x = gg.ones(2, requires_grad=True)
        assert grad(gg.from_dlpack(x * 2, copy=True).sum(), x)[0].tolist() == [2, 2]


class TestOtherFunctions:
    def test_shapes(self):
        three = np.int64(3)
        for shape in (3, [3], three, (three,), [three], np.array([3]), gg.tensor(3)):
            x = gg.zeros(shape)
            assert x.shape == (3,)
            assert type(x.shape[0]) is int
        assert (gg.ones(()).shape, gg.full((2, 0), 1).shape) == ((), (2, 0))
        assert gg.eye(three, np.int8(2)).shape == (3, 2)
        assert gg.broadcast_to(x, (np.int32(2), three)).shape == (2, 3)
        for shape in (-1, "ab", 1.5, (1, -2)):
            with pytest.raises((ValueError, TypeError), match=r"^zeros: "):
                gg.zeros(shape)
        for shape in (2.5, "ab", (1, 2.5), None):
            with pytest.raises(TypeError, match=r"^full: shape must be an int or a tuple of ints"):
                gg.full(shape, 1.0)

    def test_full_of_a_tensor(self):
        value, like = gg.tensor(1.5, requires_grad=True), gg.zeros(3, dtype=gg.float64)
        for x, dtype in ((gg.full(3, value), gg.float32), (gg.full_like(like, value), gg.float64)):
            assert (x.tolist(), x.dtype) == ([1.5] * 3, dtype)
            assert grad(x.sum(), value)[0].item() == 3
            assert x.array.flags.writeable
        assert gg.full(2, gg.tensor(1), dtype=gg.int32).dtype == gg.int32

    def test_arange(self):
        for args, values, dtype in (
            ((3,), [0, 1, 2], gg.int64), ((3.0,), [0, 1, 2], gg.float32),
            ((1, 2, 0.5), [1, 1.5], gg.float32), ((5, 0, -2), [5, 3, 1], gg.int64),
        ):  # fmt: skip
            assert (gg.arange(*args).tolist(), gg.arange(*args).dtype) == (values, dtype)

    def test_linspace_between_tensors(self):
        start, stop = (gg.tensor(np.array(x), requires_grad=True) for x in ([1.0, 2.0], 4.0))
        for case in ({"num": 3}, {"num": 4, "endpoint": False}, {"num": 1}, {"num": 0}):
            x, expected = gg.linspace(start, stop, **case), np.linspace([1.0, 2.0], 4.0, **case)
            assert x.dtype == gg.float64
            np.testing.assert_allclose(x.detach().numpy(), expected, rtol=1e-15)
        gradcheck(lambda a, b: gg.linspace(a, b, 3), (start, stop))
        assert gg.linspace(gg.tensor(0.0), 1, 3).dtype == gg.float32
        for zero in gg.tensor(0.0), 0:
            x = gg.linspace(zero, 1j, 3)
            assert (x.tolist(), x.dtype) == ([0, 0.5j, 1j], gg.complex64)
        assert gg.full(2, 1j).dtype == gg.complex64

    def test_large_integers_keep_their_digits(self):
        large = [2**63 + 1, 1]
        assert gg.asarray(large, dtype=gg.uint64).tolist() == large
        assert gg.asarray([1.5, 2.0], dtype=gg.uint64).tolist() == [1, 2]


X = gg.ones((), requires_grad=True)


test_errors = error_test([
    *((lambda f=f: f([[1, 2], [3]]), ValueError, r"^\w+: .*inhomogeneous shape")
      for f in (gg.tensor, gg.asarray)),
    (lambda: gg.tensor([2**70]), TypeError, "ints of more than 64 bits"),
    (lambda: gg.tensor([2**63 + 1, 1], dtype=gg.int64), OverflowError, r"^tensor: "),
    (lambda: gg.zeros((math.isqrt(2**62),) * 3), (ValueError, MemoryError), None),
    (lambda: gg.asarray([X, [X]]), ValueError, r"^asarray: .*\(1,\)"),
    (lambda: gg.asarray([X], copy=False), ValueError, r"^asarray: .*copy is False"),
    (lambda: gg.asarray([X, "a"]), TypeError, r"^asarray: .*str"),
    (lambda: gg.from_dlpack([1.0]), AttributeError, "__dlpack"),
    (lambda: gg.full(2, "a"), TypeError, "must be numbers"),
    (lambda: gg.full(2, gg.ones(2)), ValueError,
     r"^full: fill_value must be .* not of shape \(2,\)"),
    *((lambda step=step: gg.arange(0, 1, step), ValueError, r"^arange: step must not be 0")
      for step in (0, 0.0)),
    *((lambda data=data, dtype=dtype: gg.tensor(data, dtype=dtype), OverflowError, "^tensor: ")
      for data, dtype in ((2**63, None), ([2**64 - 1], None), ([[3, 300]], "uint8"), (-1, gg.uint8),
                          (2**40, gg.int32))),
    *((lambda data=data: gg.asarray(data, dtype=gg.float32), TypeError,
       r"^asarray: complex.* to float32 .*real\(x\)") for data in (np.array([1j]), [1j])),
])  # fmt: skip
