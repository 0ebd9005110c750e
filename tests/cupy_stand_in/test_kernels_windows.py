"""Windows by CUDA kernels on the stand-in for CuPy equal those of NumPy."""

import cupy
import numpy as np
import pytest
from definitions import agree, launched

from gpugrad.backends.cupy import xp
from gpugrad.backends.numpy import backend as numpy

# The shape of an array, and windows over its last axes.
WINDOWS = [
    ((2, 3, 7), {"size": (3,)}),
    ((2, 3, 7), {"size": (2,), "stride": 2, "padding": 1, "dilation": 3}),
    ((2, 3, 7, 6), {"size": (3, 3), "padding": 1}),
    ((2, 3, 7, 6), {"size": (2, 3), "stride": (2, 1), "padding": ((1, 0), (2, 2))}),
    ((9, 8), {"size": (3, 2), "stride": 3, "dilation": 2}),
    ((2, 9, 8), {"size": (2, 2), "padding": (-1, 0)}),
    ((2, 1, 40, 41), {"size": (1, 1)}),
    ((2, 5, 4, 6), {"size": (2, 3, 2), "stride": (1, 2, 2), "padding": 1}),
    ((1, 12, 12), {"size": (12, 12), "padding": 6}),
]


def drawn(*shape, dtype, seed=0):
    # Few different numbers, so that several elements of a window are the largest.
    return (np.random.default_rng((seed, *shape)).integers(-9, 9, shape) / 4).astype(dtype)


def both(name, arrays, dtype, **options):
    """The result on the device, compared with that on the host; in one launch."""
    given = [x if x.dtype.kind in "iu" else x.astype("float64") for x in arrays]
    expected = getattr(numpy.xp, name)(*given, **options)
    got, launches = launched(getattr(xp, name), *map(cupy.asarray, arrays), **options)
    assert len(launches) == 1
    if name.startswith("find"):
        dtype = np.dtype("int32" if got.itemsize == 4 else "int8")
    agree(got, expected, dtype)
    return got.get()


@pytest.mark.parametrize("shape, options", WINDOWS, ids=str)
def test_windows(shape, options, dtype):
    x = drawn(*shape, dtype=dtype)
    elements = both("sliding_windows", [x], dtype, **options)
    given = options | {"shape": shape[len(shape) - len(options["size"]) :]}
    both("add_windows", [elements], dtype, **{k: v for k, v in given.items() if k != "size"})
    both("sum_windows", [x], dtype, **options, scale=0.25)
    taps = both("find_in_windows", [x, both("max_pool", [x], dtype, **options)], dtype, **options)
    both("take_from_windows", [x, taps], dtype, **options)
    both("put_in_windows", [drawn(*taps.shape, dtype=dtype, seed=1), taps], dtype, **given)


def test_values_that_are_not_finite():
    x = np.array([[1, np.nan, 2, -np.inf, -np.inf, np.inf, 3]], "float32")
    options = {"size": (2,), "padding": 1}
    largest = numpy.xp.max_pool(x, **options)
    for name, arrays in (("max_pool", [x]), ("find_in_windows", [x, largest])):
        got = getattr(xp, name)(*map(cupy.asarray, arrays), **options).get()
        np.testing.assert_array_equal(got, getattr(numpy.xp, name)(*arrays, **options))


@pytest.mark.parametrize("kind", ["int32", "four axes", "not contiguous"])
def test_other_arrays(kind):
    x = np.arange(360, dtype="int32" if kind == "int32" else "float32").reshape(3, 4, 5, 6)
    x = x[:, :, ::2] if kind == "not contiguous" else x
    options = {"size": (2,) * (4 if kind == "four axes" else 2), "padding": 1}
    for name in ("sliding_windows", "sum_windows", "max_pool"):
        got = getattr(xp, name)(cupy.asarray(x), **options)
        np.testing.assert_array_equal(got.get(), getattr(numpy.xp, name)(x, **options))
    taps = numpy.xp.find_in_windows(x, numpy.xp.max_pool(x, **options), **options).astype("uint8")
    got = xp.take_from_windows(cupy.asarray(x), cupy.asarray(taps), **options)
    np.testing.assert_array_equal(got.get(), numpy.xp.max_pool(x, **options) * (got.get() != 0))
