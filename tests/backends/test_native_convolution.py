"""Convolution in C has the bits of what NumPy computes block by block."""

import itertools

import numpy as np
import pytest
from test_native_tiles import library  # noqa: F401, a fixture

from gpugrad.backends import windows
from gpugrad.backends.native import base, convolution
from gpugrad.backends.numpy import backend, threads

pytestmark = pytest.mark.skipif(not base.is_expected(), reason="there is no compiler")


@pytest.fixture
def done(monkeypatch):
    """Whether the library has computed, for each call."""
    found, run = [], convolution._run

    def noted(*args):
        out = run(*args)
        found.append(out is not None)
        return out

    monkeypatch.setattr(convolution, "_run", noted)
    return found


def assert_same(monkeypatch, name, *args, **options):
    found = getattr(windows, name)(backend, *args, **options)
    with monkeypatch.context() as patch:
        patch.setattr(convolution, "base", lambda: None)
        expected = getattr(windows, name)(backend, *args, **options)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    is_nan = np.isnan(expected)
    assert np.array_equal(np.isnan(found), is_nan)
    assert found[~is_nan].tobytes() == expected[~is_nan].tobytes()
    return found


def go_through(monkeypatch, x, weight, bias, **options):
    """A convolution and both of its gradients."""
    rng = np.random.default_rng(1)
    out = assert_same(monkeypatch, "convolution", x, weight, bias, **options)
    g = rng.standard_normal(out.shape).astype(x.dtype)
    shape = {"shape": weight.shape[2:]}
    assert_same(monkeypatch, "convolution_weight", g, x, **shape, **options)
    assert_same(monkeypatch, "convolution_input", g, weight, shape=x.shape[2:], **options)


def operands(n, channels, filters, lengths, size, groups, dtype):
    rng = np.random.default_rng(0)
    shapes = (n, channels, *lengths), (filters, channels // groups, *size), (filters,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("lengths", [(9,), (30,), (7, 9), (14, 14), (1, 12)])
def test_every_geometry(monkeypatch, done, lengths, groups, dtype):
    sizes = [*itertools.product((1, 3), repeat=len(lengths))]
    paddings = 0, 1, ((1, 2),) * len(lengths)
    for stride, padding, dilation, size in itertools.product((1, 2), paddings, (1, 2), sizes):
        arrays = operands(3, 4, 6, lengths, size, groups, dtype)
        geometry = {"stride": stride, "padding": padding, "dilation": dilation}
        spans = [(k - 1) * dilation + 1 for k in size]
        around = padding if type(padding) is int else 1.5
        if all(span <= m + 2 * around for span, m in zip(spans, lengths, strict=True)):
            go_through(monkeypatch, *arrays, groups=groups, **geometry)
    assert sum(done) >= len(done) / 2 > 20


@pytest.mark.parametrize("bias", [True, False])
def test_many_blocks(monkeypatch, done, bias):
    """Of several images, and of rows of windows of one image."""
    for n, lengths in ((40, (15, 13)), (2, (130, 131))):
        x, weight, b = operands(n, 16, 8, lengths, (3, 3), 1, "float32")
        go_through(monkeypatch, x, weight, b if bias else None, padding=1)
    assert done.count(True) == 6


def test_long_work_is_several_calls(monkeypatch):
    """So that Ctrl-C can end it."""
    calls, run = [], threads.run_kernel
    monkeypatch.setattr(threads, "_LONG", 1000)
    monkeypatch.setattr(threads, "run_kernel", lambda *args: calls.append(args) or run(*args))
    go_through(monkeypatch, *operands(40, 16, 8, (15, 13), (3, 3), 1, "float32"), padding=1)
    assert len(calls) > 3


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0])
def test_special_values(monkeypatch, special):
    x, weight, bias = operands(2, 3, 4, (6, 7), (3, 3), 1, "float32")
    x[0, 1, 2, 3] = weight[1, 2, 0, 0] = bias[2] = special
    x[1] = -0.0
    go_through(monkeypatch, x, weight, bias, padding=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_channel_one_window_one_filter(monkeypatch, dtype):
    """Products with one term, one row or one column."""
    numbers = itertools.product((1, 3), (1, 2), ((3, 3), (5, 4)), (1, 3))
    for channels, filters, lengths, size in numbers:
        arrays = operands(3, channels, filters, lengths, (size, size), 1, dtype)
        go_through(monkeypatch, *arrays)


def test_other_arrays(monkeypatch, done):
    x, weight, bias = operands(4, 4, 6, (9, 8), (3, 3), 1, "float32")
    go_through(monkeypatch, x[::2, :, ::-1], weight[..., ::-1], bias[::-1])
    assert all(done[::2])
    done.clear()
    go_through(monkeypatch, *[a.astype("float16") for a in (x, weight, bias)])
    go_through(monkeypatch, x[:0], weight, bias)
    go_through(monkeypatch, *operands(2, 2, 2, (4, 4, 4), (2, 2, 2), 1, "float32"))
    assert not any(done)


def test_numpy_warns_of_the_same(monkeypatch):
    x, weight, bias = operands(2, 3, 4, (6, 7), (3, 3), 1, "float32")
    x[:] = 3e38
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        windows.convolution(backend, x, weight, bias)
