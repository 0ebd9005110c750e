"""Kernels of windows, and of maxima of those side by side, have the bits of what NumPy computes."""

from itertools import product
from math import prod
from unittest import mock

import native
import numpy as np
import pytest

from gpugrad.backends import windows
from gpugrad.backends.native import base
from gpugrad.backends.native import windows as library
from gpugrad.backends.numpy import backend

pytestmark = native.needs_library


@pytest.fixture
def names(monkeypatch):
    """A function that returns the names of the kernels that have run."""
    calls = native.watch(monkeypatch, library, "rows")
    return lambda: [args[0] for is_done, args in calls if is_done]


def same(name, *args, **options):
    """What a function gives with kernels, after comparing it with what NumPy gives."""
    found = getattr(windows, name)(backend, *args, **options)
    with mock.patch.dict(vars(backend), windows=None):
        expected = getattr(windows, name)(backend, *args, **options)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()
    return found


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
        x = rng.integers(-3, 4, (*lead, *lengths)).astype(dtype) + 0.5
        go_through(x, size)
    kernels = "tile_maxima", "tile_places", "put_in_tiles"
    assert [names().count(name) for name in kernels] == [21] * 3


@pytest.mark.parametrize("special", [np.nan, -0.0, np.inf, -np.inf])
def test_special_values(names, special):
    """NumPy decides about the larger of 0 and -0, and of a nan and others."""
    x = np.random.default_rng(0).choice(np.array([0, 1, special], "float32"), (3, 4, 9, 11))
    largest, places = go_through(x, (2, 2))
    assert names().count("tile_maxima") == np.isinf(special)
    assert not places[np.isnan(largest)].any()


OTHERS = [{"stride": (2, 1)}, {"padding": 1}, {"padding": ((0, 2), (0, 0))}]
OTHERS += [{"dilation": 2, "stride": 2}, {"size": (2, 1)}, {"size": (4, 4)}, {"size": (2, 2, 2)}]


@pytest.mark.parametrize("options", OTHERS)
def test_other_windows_are_for_numpy(names, options):
    x = np.arange(2.0 * 8**4).reshape(2, 8, 8, 8, 8)
    go_through(x, **{"size": (2, 2), **options})
    assert not names()


def test_other_arrays_are_for_numpy(names):
    x = np.arange(2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    for given in (x.astype("float16"), x, x[:0].astype("float32")):
        go_through(given, (2, 2))
        same("sliding_windows", given, size=(2, 2), padding=1)
    strided = x.astype("float32")[..., ::2]
    same("sliding_windows", strided, size=(2, 2), padding=1)
    same("sliding_windows", np.arange(6.0 * 8**3).reshape(2, 3, 8, 8, 8), size=(2, 2, 2))
    assert not names()
    go_through(strided, (2, 2))
    assert names() == ["put_in_tiles"]  # whose own arrays lie in order


@pytest.mark.parametrize("dtype, kernels", [("int8", ["put_in_tiles"]), ("int32", [])])
def test_places_outside_of_tiles_and_of_other_dtypes(names, dtype, kernels):
    values = np.ones((2, 5, 9), "float32")
    places = np.resize(np.arange(-2, 6), values.shape).astype(dtype)
    out = same("put_in_windows", values, places, shape=(10, 18), size=(2, 2), stride=2)
    assert out.sum() == ((places >= 0) & (places < 4)).sum()
    assert names() == kernels


def test_many_planes_and_threads(names):
    """Pieces of several threads, whose loops may not write beyond their own parts."""
    x = np.random.default_rng(0).standard_normal((64, 40, 15, 13)).astype("float32")
    for _ in range(5):
        go_through(x, (2, 2))
        same("sliding_windows", x, size=(3, 3), padding=1)
    assert names() == ["tile_maxima", "tile_places", "put_in_tiles", "copy_windows"] * 5
    assert x.size > 8 * base._PIECE > prod(x.shape[2:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lengths", [(5,), (40,), (7, 9), (14, 14), (1, 33)])
def test_elements_of_windows(names, lengths, dtype):
    x = np.random.default_rng(0).standard_normal((2, 3, *lengths)).astype(dtype)
    x[0, 0] = -0.0
    x[1, 1] = np.nan
    sizes = [*product((1, 3, 4), repeat=len(lengths))]
    paddings = 2, ((1, 3),) * len(lengths), 0, -1
    for stride, padding, dilation, size in product((1, 2, 3), paddings, (1, 2), sizes):
        around = padding if type(padding) is int else 2
        spans = [(k - 1) * dilation + 1 for k in size]
        if all(span <= m + 2 * around for span, m in zip(spans, lengths, strict=True)):
            options = {"size": size, "stride": stride, "padding": padding, "dilation": dilation}
            same("sliding_windows", x, **options)
    assert names().count("copy_windows") > 40
