"""Windows and convolution in C have the bits of what NumPy computes."""

from itertools import product
from math import prod
from unittest import mock

import native
import numpy as np
import pytest

from gpugrad.backends import windows
from gpugrad.backends.native import base
from gpugrad.backends.native import windows as library
from gpugrad.backends.numpy import backend, threads

pytestmark = native.needs_library


@pytest.fixture
def names(monkeypatch):
    """A function that returns the names of the kernels that have run."""
    calls = native.watch(monkeypatch, library, "rows")
    return lambda: [args[0] for is_done, args in calls if is_done]


def same(name, *args, **options):
    """What a function gives with the library, after comparing it with what NumPy gives."""
    found = getattr(windows, name)(backend, *args, **options)
    with mock.patch.dict(vars(backend), windows=None, convolutions=None):
        expected = getattr(windows, name)(backend, *args, **options)
    native.assert_same(found, expected)
    assert "convolution" in name or found.tobytes() == expected.tobytes()  # of nan, too
    return found


def geometries(lengths, sizes, strides, paddings):
    """Parameters of windows that are not longer than the array."""
    paddings = *paddings, ((1, 2),) * len(lengths)
    sizes = product(sizes, repeat=len(lengths))
    for size, stride, padding, dilation in product(sizes, strides, paddings, (1, 2)):
        around = padding if type(padding) is int else 1.5
        spans = [(k - 1) * dilation + 1 for k in size]
        if all(span <= m + 2 * around for span, m in zip(spans, lengths, strict=True)):
            yield size, {"stride": stride, "padding": padding, "dilation": dilation}


def go_through(x, size, **options):
    """Maxima, where they are, and cotangents put there; returns the first two."""
    options = {"size": size, "stride": size, **options}
    largest = same("max_pool", x, **options)
    places = same("find_in_windows", x, largest, **options)
    shape, g = x.shape[x.ndim - len(size) :], -np.arange(1, largest.size + 1, dtype=x.dtype)
    same("put_in_windows", g.reshape(largest.shape), places, shape=shape, **options)
    return largest, places


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(2,), (3,), *product((1, 2, 3), (2, 3))])
def test_every_length(names, size, dtype):
    """Rows of 1 to 20 tiles, with elements left over, and equal ones in a tile."""
    rng = np.random.default_rng(0)
    for lead, columns, left in [((2, 3), n, n % size[-1]) for n in range(1, 21)] + [((), 8, 1)]:
        lengths = *[k * 3 + left % k for k in size[:-1]], columns * size[-1] + left
        go_through(rng.integers(-3, 4, (*lead, *lengths)).astype(dtype) + 0.5, size)
    kernels = "tile_maxima", "tile_places", "put_in_tiles"
    assert [names().count(name) for name in kernels] == [21] * 3


@pytest.mark.parametrize("special", [np.nan, -0.0, np.inf, -np.inf])
def test_special_values(names, special):
    """NumPy decides about the larger of 0 and -0, and of a nan and others."""
    x = np.random.default_rng(0).choice(np.array([0, 1, special], "float32"), (3, 4, 9, 11))
    largest, places = go_through(x, (2, 2))
    assert names().count("tile_maxima") == np.isinf(special)
    tiles = x[:, :, :8, :10].reshape(3, 4, 4, 2, 5, 2).swapaxes(3, 4).reshape(*largest.shape, 4)
    np.testing.assert_array_equal(np.take_along_axis(tiles, places[..., None], -1)[..., 0], largest)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lengths", [(5,), (19,), (7, 9), (1, 20)])
def test_windows_that_overlap_or_have_gaps(names, lengths, dtype):
    x = np.random.default_rng(0).choice(np.array([-3, 1, 2, np.nan, -0.0], dtype), (2, 3, *lengths))
    with np.errstate(invalid="ignore"):
        for size, geometry in geometries(lengths, (1, 3, 4), (1, 2, 3), (2, 0, -1)):
            go_through(x, size, **geometry)
    counts = [names().count(name) for name in ("window_places", "put_in_windows", "tile_maxima")]
    assert counts[1] >= counts[0] > 40 > counts[2]


@pytest.mark.parametrize("size", [(2, 2, 2), (12, 12)])
def test_other_windows_are_for_numpy(names, size):
    go_through(np.arange(2.0 * 12**4).reshape(2, 12, 12, 12, 12), size, stride=1)
    assert not names()


def test_other_arrays_are_for_numpy(names):
    x = np.arange(2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    for given in (x.astype("float16"), x, x[:0].astype("float32")):
        go_through(given, (2, 2))
        same("sliding_windows", given, size=(2, 2), padding=1)
    strided = x.astype("float32")[..., ::2]
    same("sliding_windows", strided, size=(2, 2), padding=1)
    same("sliding_windows", np.arange(6.0 * 5**4).reshape(6, 5, 5, 5, 5), size=(2, 2, 2, 2))
    same("sliding_windows", native.misaligned(x.astype("float32")), size=(2, 2))
    assert not names()
    go_through(strided, (2, 2))
    assert names() == ["put_in_tiles"]  # whose own arrays lie in order


@pytest.mark.parametrize("dtype, kernels", [("int8", ["put_in_tiles"]), ("int32", [])])
def test_places_outside_of_tiles_and_of_other_dtypes(names, dtype, kernels):
    values = np.ones((2, 5, 9), "float32")
    places = np.resize(np.arange(-2, 6), values.shape).astype(dtype)
    out = same("put_in_windows", values, places, shape=(10, 18), size=(2, 2), stride=2)
    assert (out.sum(), names()) == (((places >= 0) & (places < 4)).sum(), kernels)


def test_many_planes_and_threads(names):
    """Pieces of several threads, whose loops may not write beyond their own parts."""
    x = np.random.default_rng(0).standard_normal((64, 40, 15, 13)).astype("float32")
    for _ in range(5):
        go_through(x, (2, 2))
        same("sliding_windows", x, size=(3, 3), padding=1)
    assert names() == ["tile_maxima", "tile_places", "put_in_tiles", "copy_windows"] * 5
    assert x.size > 8 * base._PIECE > prod(x.shape[2:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lengths", [(5,), (40,), (7, 9), (14, 14), (1, 33), (4, 5, 12)])
def test_elements_of_windows(names, lengths, dtype):
    x = np.random.default_rng(0).standard_normal((2, 3, *lengths)).astype(dtype)
    x[0, 0] = -0.0
    x[1, 1] = np.nan
    for size, geometry in geometries(lengths, (1, 3, 4), (1, 2, 3), (2, 0, -1)):
        same("sliding_windows", x, size=size, **geometry)
    assert names().count("copy_windows") > 40


@pytest.fixture
def are_done(monkeypatch):
    """A function that returns for each convolution whether the library has computed it."""
    calls = native.watch(monkeypatch, library, "_convolve")
    return lambda: [out is not None for out, _ in calls]


def compare(x, weight, bias, **options):
    """Compare a convolution and both of its gradients with those of NumPy."""
    out = same("convolution", x, weight, bias, **options)
    g = np.random.default_rng(1).standard_normal(out.shape).astype(x.dtype)
    same("convolution_weight", g, x, shape=weight.shape[2:], **options)
    same("convolution_input", g, weight, shape=x.shape[2:], **options)


def operands(n, channels, filters, lengths, size, groups=1, dtype="float32"):
    rng = np.random.default_rng(0)
    shapes = (n, channels, *lengths), (filters, channels // groups, *size), (filters,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("filters, groups", [(6, 1), (6, 2), (4, 4)])
@pytest.mark.parametrize("lengths", [(9,), (30,), (7, 9), (14, 14), (1, 12), (12, 1), (5, 70)])
def test_every_geometry(are_done, lengths, filters, groups, dtype):
    for size, geometry in geometries(lengths, (1, 3), (1, 2), (0, 1)):
        compare(*operands(3, 4, filters, lengths, size, groups, dtype), groups=groups, **geometry)
    assert all(are_done())
    assert len(are_done()) > 20


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("filters, groups", [(8, 1), (16, 16)])
@pytest.mark.parametrize("n, lengths", [
    (40, (15, 13)), (2, (130, 131)), (2, (17_000,)), (2, (25, 24, 23)), (9, (7, 5, 6)),
])  # fmt: skip
def test_many_blocks(are_done, n, lengths, filters, groups, has_bias):
    """Of several images, of rows of windows of one image, and of windows of a long signal."""
    x, weight, bias = operands(n, 16, filters, lengths, (3,) * len(lengths), groups)
    compare(x, weight, bias if has_bias else None, padding=1, groups=groups)
    assert are_done() == [len(lengths) < 3 or groups == 1] * 3


def test_long_work_is_several_calls(monkeypatch):
    """So that Ctrl-C can end it."""
    monkeypatch.setattr(threads, "_LONG", 1000)
    calls = native.watch(monkeypatch, threads, "run_kernel")
    compare(*operands(40, 16, 8, (15, 13), (3, 3)), padding=1)
    assert len(calls) > 3


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0])
@pytest.mark.parametrize("groups", [1, 4])
def test_special_values_in_convolution(special, groups):
    x, weight, bias = operands(2, 4, 4, (6, 7), (3, 3), groups)
    x[0, 1, 2, 3] = weight[1, -1, 0, 0] = bias[2] = special
    x[1] = -0.0
    compare(x, weight, bias, padding=1, groups=groups)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_channel_one_window_one_filter(dtype):
    """Products with one term, one row or one column."""
    for n, *given in product((3, 20), (1, 3), (1, 2), ((3, 3), (5, 4)), ((1, 1), (3, 3))):
        compare(*operands(n, *given, dtype=dtype))


def test_convolution_of_other_arrays(are_done):
    x, weight, bias = operands(4, 4, 6, (9, 8), (3, 3))
    compare(x[::2, :, ::-1], weight[..., ::-1], bias[::-1])
    compare(*map(native.misaligned, (x, weight, bias)))
    assert are_done() == [True] * 6
    compare(*[a.astype("float16") for a in (x, weight, bias)])
    compare(x[:0], weight, bias)
    compare(*operands(2, 2, 2, (4, 4, 4, 4), (2, 2, 2, 2)))
    assert not any(are_done()[6:])


def test_errors_are_reported_as_by_numpy():
    x, weight, bias = operands(2, 3, 4, (6, 7), (3, 3))
    x[:] = 3e38
    native.check_errors(lambda: windows.convolution(backend, x, weight, bias), "overflow|invalid")
