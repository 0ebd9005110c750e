"""What an array API namespace says about itself: dtypes, constants, devices; and shapes."""

import numpy as np
import pytest
from samples import error_test

import gpugrad as gg

FLOATS = gg.float16, gg.float32, gg.float64
COMPLEX = gg.complex64, gg.complex128
DTYPES = [gg.bool, gg.int8, gg.int16, gg.int32, gg.int64]
DTYPES += [gg.uint8, gg.uint16, gg.uint32, gg.uint64, *FLOATS, *COMPLEX]


def test_info():
    for version in None, gg.__array_api_version__:
        assert gg.ones(2).__array_namespace__(api_version=version) is gg
    info = gg.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] is True
    assert info.default_device() == info.devices()[0] == "cpu"
    floating = {"real floating": gg.float32, "complex floating": gg.complex64}
    integral = {"integral": gg.int64, "indexing": gg.int64}
    assert info.default_dtypes(device="cpu") == floating | integral
    assert info.dtypes(kind="real floating") == {"float32": gg.float32, "float64": gg.float64}
    some = info.dtypes(kind=("bool", "unsigned integer"))
    assert {*some} == {"bool", "uint8", "uint16", "uint32", "uint64"}
    assert len(info.dtypes()) == 13
    for call in (info.dtypes, info.default_dtypes):
        with pytest.raises(ValueError, match=r"device 'gpu' is not known"):
            call(device="gpu")


class TestResultType:
    @pytest.mark.parametrize("dtype, pairs", [
        (gg.float32, [(gg.float32, gg.int64), (gg.float16, gg.float32), (gg.uint64, gg.int64)]),
        (gg.float32, [(gg.float32, 1.5), (gg.int8, 1.5), (1, 2.0), (np.float32, "float16")]),
        (gg.float16, [(gg.float16, gg.uint16), (gg.float16, np.float64(1.5))]),
        (gg.float64, [(gg.ones(2), np.ones(2))]), (gg.int8, [(gg.bool, gg.int8), (gg.int8, 1000)]),
        (gg.int16, [(gg.int8, gg.uint8)]), (gg.int64, [(gg.bool, 1)]), (gg.bool, [(gg.bool, True)]),
        (gg.complex64, [(gg.int64, gg.complex64), (gg.int8, 1j)]),
        (gg.complex128, [(gg.float64, gg.complex64), (gg.float64, 1j)]),
    ], ids=str)  # fmt: skip
    def test_policy(self, dtype, pairs):
        for a, b in pairs:
            assert gg.result_type(a, b) == gg.result_type(b, a) == dtype

    @pytest.mark.parametrize("a", DTYPES, ids=str)
    def test_equals_the_dtype_that_ops_give(self, a):
        others = [(b, gg.ones(2, dtype=b)) for b in DTYPES] + [(x, x) for x in (1, 1.5, 1j)]
        for b, operand in others[a == gg.bool :]:  # NumPy adds no bools to bools
            assert (gg.ones(2, dtype=a) + operand).dtype == gg.result_type(a, b), (a, b)


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
def test_finfo(dtype):
    expected = np.finfo(dtype)
    for given in (dtype, gg.ones(2, dtype=dtype), np.ones(2, dtype=dtype)):
        info = gg.finfo(given)
        for name in ("eps", "max", "min", "smallest_normal"):
            assert getattr(info, name) == getattr(expected, name)
            assert type(getattr(info, name)) is float
        assert (info.bits, info.dtype) == (expected.bits, expected.dtype)


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_dtypes_of_other_libraries(library):
    module = pytest.importorskip(library)
    low, high = module.float32, module.float64
    for kind in "real floating", low, gg.float32:
        assert gg.isdtype(low, kind)
    assert not gg.isdtype(low, ("integral", gg.float64))
    ones = module.ones(2, dtype=low)
    for a, b, expected in (low, high, high), (ones, 1.5, low), (gg.asarray(ones), gg.float64, high):
        assert gg.result_type(a, b) == expected
    assert gg.can_cast(gg.float32, high)
    assert (gg.finfo(module.complex64).dtype, gg.iinfo(module.int16).dtype) == (low, module.int16)
    assert gg.iinfo(gg.int8).max == 127


@pytest.mark.parametrize("shapes, result", [
    ((), ()), (((2, 3),), (2, 3)), (((2, 1), (3,)), (2, 3)), (((), (4, 1), (1, 5)), (4, 5)),
    (((1,), (0,)), (0,)), (((None, 1), (3,)), (None, 3)), (((None,), (1,), (5,)), (None,)),
])  # fmt: skip
def test_broadcast_shapes(shapes, result):
    assert gg.broadcast_shapes(*shapes) == gg.broadcast_shapes(*shapes[::-1]) == result


def test_no_imaginary_part_is_dropped_in_silence(library):
    x, z = library.tensor(np.ones(2)), library.tensor(np.array([1 + 2j, 0]))
    for dtype in (gg.float64, gg.int64):
        with pytest.raises(TypeError, match=r"^astype: .* imaginary part; use real\(x\)"):
            gg.astype(z, dtype)
    for value in (z, 1j, z[0]):
        with pytest.raises((TypeError, RuntimeError), match=r"^setitem: "):
            x[:] = value
    z[0] = x[1]
    assert z.tolist() == [1, 0]


def test_astype_takes_a_device():
    x = gg.ones(2)
    assert gg.astype(x, gg.float64, device="cpu").dtype == gg.float64
    assert gg.astype(x, gg.float32, copy=False, device="cpu") is x


test_errors = error_test([
    (lambda: gg.ones(2).__array_namespace__(api_version="1999.12"), ValueError,
     "version '1999.12' is not known; use one of"),
    (lambda: gg.isdtype(gg.float32, "float"), ValueError,
     r"^isdtype: kind 'float' is not known; use .*numeric"),
    *((lambda dtype=dtype: gg.isdtype(dtype, "bool"), TypeError, "dtype|data type")
      for dtype in ("nonsense", None, object())),
    (gg.result_type, TypeError, "^result_type: needs at least one"),
    (lambda: gg.result_type("nonsense"), TypeError, None),
    (lambda: gg.finfo(gg.int8), TypeError, "^finfo: .*not int8; use iinfo"),
    (lambda: gg.broadcast_shapes((2, 3), (4,)), ValueError,
     r"^broadcast_shapes: \(2, 3\), \(4,\) do not"),
])  # fmt: skip
