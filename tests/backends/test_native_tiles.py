"""Kernels of windows, and of maxima of those side by side, have the bits of what NumPy computes."""

import itertools
from math import prod

import numpy as np
import pytest

from gpugrad.backends import windows
from gpugrad.backends.native import base, tiles
from gpugrad.backends.numpy import backend

pytestmark = pytest.mark.skipif(not base.is_expected(), reason="there is no compiler")
NAMES = ["tile_maxima", "tile_places", "put_in_tiles"]


@pytest.fixture(autouse=True)
def library():
    base.wait()
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def names(monkeypatch):
    """The names of the kernels that have run."""
    found, rows = [], tiles.rows

    def noted(name, *args, **options):
        is_done = rows(name, *args, **options)
        found.extend([name] * is_done)
        return is_done

    monkeypatch.setattr(tiles, "rows", noted)
    return found


def same(monkeypatch, name, *args, **options):
    """What a function gives with kernels, after comparing it with what NumPy gives."""
    found = getattr(windows, name)(backend, *args, **options)
    with monkeypatch.context() as patch:
        patch.setitem(vars(backend), "windows", None)
        expected = getattr(windows, name)(backend, *args, **options)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()
    return found


def go_through(monkeypatch, x, size, **options):
    """Maxima, where they are, and cotangents put there; returns the first two."""
    options = {"size": size, "stride": size, **options}
    largest = same(monkeypatch, "max_pool", x, **options)
    places = same(monkeypatch, "find_in_windows", x, largest, **options)
    shape, g = x.shape[x.ndim - len(size) :], -np.arange(1, largest.size + 1, dtype=x.dtype)
    same(monkeypatch, "put_in_windows", g.reshape(largest.shape), places, shape=shape, **options)
    return largest, places


SIZES = [(2,), (3,), *itertools.product((1, 2, 3), (2, 3))]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_every_length(monkeypatch, names, size, dtype):
    """Rows of 1 to 20 tiles, with elements left over, and equal ones in a tile."""
    rng = np.random.default_rng(0)
    for lead, columns, left in [((2, 3), n, n % size[-1]) for n in range(1, 21)] + [((), 8, 1)]:
        lengths = *[k * 3 + left % k for k in size[:-1]], columns * size[-1] + left
        x = rng.integers(-3, 4, (*lead, *lengths)).astype(dtype) + 0.5
        go_through(monkeypatch, x, size)
    assert [names.count(name) for name in NAMES] == [21] * 3


@pytest.mark.parametrize("special", [np.nan, -0.0, np.inf, -np.inf])
def test_special_values(monkeypatch, names, special):
    """NumPy decides about the larger of 0 and -0, and of a nan and others."""
    x = np.random.default_rng(0).choice(np.array([0, 1, special], "float32"), (3, 4, 9, 11))
    largest, places = go_through(monkeypatch, x, (2, 2))
    assert names.count("tile_maxima") == np.isinf(special)
    assert not places[np.isnan(largest)].any()


@pytest.mark.parametrize(
    "options, size",
    [
        ({"stride": (2, 1)}, (2, 2)),
        ({"padding": 1}, (2, 2)),
        ({"padding": ((0, 2), (0, 0))}, (2, 2)),
        ({"dilation": 2, "stride": 2}, (2, 2)),
        ({}, (2, 1)),
        ({}, (4, 4)),
        ({}, (2, 2, 2)),
    ],
)
def test_other_windows_are_for_numpy(monkeypatch, names, options, size):
    x = np.arange(2.0 * 8**4).reshape(2, 8, 8, 8, 8)
    go_through(monkeypatch, x, size, **options)
    assert not names


def test_other_arrays_are_for_numpy(monkeypatch, names):
    x = np.arange(2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    for given in (x.astype("float16"), x, x[:0].astype("float32")):
        go_through(monkeypatch, given, (2, 2))
    assert not names
    go_through(monkeypatch, x.astype("float32")[..., ::2], (2, 2))
    assert names == ["put_in_tiles"]  # whose own arrays lie in order


def test_places_outside_of_tiles_and_of_other_dtypes(monkeypatch, names):
    values = np.ones((2, 5, 9), "float32")
    places = np.resize(np.arange(-2, 6), values.shape)
    options = {"shape": (10, 18), "size": (2, 2), "stride": 2}
    for dtype, count in (("int8", 1), ("int32", 0)):
        out = same(monkeypatch, "put_in_windows", values, places.astype(dtype), **options)
        assert out.sum() == ((places >= 0) & (places < 4)).sum()
        assert len(names) == count
        names.clear()


def test_many_planes_and_threads(monkeypatch, names):
    """Pieces of several threads, whose loops may not write beyond their own parts."""
    x = np.random.default_rng(0).standard_normal((64, 40, 15, 13)).astype("float32")
    for _ in range(5):
        go_through(monkeypatch, x, (2, 2))
    assert len(names) == 15
    assert x.size > 8 * base._PIECE > prod(x.shape[2:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lengths", [(5,), (40,), (7, 9), (14, 14), (1, 33)])
def test_elements_of_windows(monkeypatch, names, lengths, dtype):
    x = np.random.default_rng(0).standard_normal((2, 3, *lengths)).astype(dtype)
    x[0, 0] = -0.0
    x[1, 1] = np.nan
    sizes = [*itertools.product((1, 3, 4), repeat=len(lengths))]
    paddings = 2, ((1, 3),) * len(lengths), 0, -1
    for stride, padding, dilation, size in itertools.product((1, 2, 3), paddings, (1, 2), sizes):
        around = padding if type(padding) is int else 2
        spans = [(k - 1) * dilation + 1 for k in size]
        if all(span <= m + 2 * around for span, m in zip(spans, lengths, strict=True)):
            options = {"size": size, "stride": stride, "padding": padding, "dilation": dilation}
            same(monkeypatch, "sliding_windows", x, **options)
    assert names.count("copy_windows") > 40


def test_elements_of_windows_that_are_for_numpy(monkeypatch, names):
    x = np.arange(2.0 * 3 * 8 * 8 * 8).reshape(2, 3, 8, 8, 8)
    same(monkeypatch, "sliding_windows", x, size=(2, 2, 2))
    for given in (x.astype("float16"), x[..., ::2], x[:0]):
        same(monkeypatch, "sliding_windows", given, size=(2, 2), padding=1)
    assert not names


def test_windows_of_many_planes(monkeypatch, names):
    x = np.random.default_rng(0).standard_normal((64, 40, 15, 13)).astype("float32")
    for _ in range(5):
        same(monkeypatch, "sliding_windows", x, size=(3, 3), padding=1)
    assert names == ["copy_windows"] * 5
