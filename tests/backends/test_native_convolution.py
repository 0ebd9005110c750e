"""Convolution in C has the bits of what NumPy computes block by block."""

from functools import partial
from itertools import product

import native
import numpy as np
import pytest

from gpugrad.backends import windows
from gpugrad.backends.native import windows as library
from gpugrad.backends.numpy import backend, threads

pytestmark = native.needs_library


@pytest.fixture
def calls(monkeypatch):
    return native.watch(monkeypatch, library, "_convolve")


def compare(x, weight, bias, **options):
    """Compare a convolution and both of its gradients with those of NumPy."""

    def same(name, *args, **more):
        call = partial(getattr(windows, name), backend, *args, **options, **more)
        return native.same_without(library, call)

    g = np.random.default_rng(1).standard_normal(same("convolution", x, weight, bias).shape)
    g = g.astype(x.dtype)
    same("convolution_weight", g, x, shape=weight.shape[2:])
    same("convolution_input", g, weight, shape=x.shape[2:])


def operands(n, channels, filters, lengths, size, groups=1, dtype="float32"):
    rng = np.random.default_rng(0)
    shapes = (n, channels, *lengths), (filters, channels // groups, *size), (filters,)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("lengths", [(9,), (30,), (7, 9), (14, 14), (1, 12)])
def test_every_geometry(calls, lengths, groups, dtype):
    sizes = [*product((1, 3), repeat=len(lengths))]
    paddings = 0, 1, ((1, 2),) * len(lengths)
    for stride, padding, dilation, size in product((1, 2), paddings, (1, 2), sizes):
        arrays = operands(3, 4, 6, lengths, size, groups, dtype)
        geometry = {"stride": stride, "padding": padding, "dilation": dilation}
        spans = [(k - 1) * dilation + 1 for k in size]
        around = padding if type(padding) is int else 1.5
        if all(span <= m + 2 * around for span, m in zip(spans, lengths, strict=True)):
            compare(*arrays, groups=groups, **geometry)
    done = [out for out, _ in calls if out is not None]
    assert len(done) >= len(calls) / 2 > 20


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("n, lengths", [(40, (15, 13)), (2, (130, 131))])
def test_many_blocks(calls, n, lengths, has_bias):
    """Of several images, and of rows of windows of one image."""
    x, weight, bias = operands(n, 16, 8, lengths, (3, 3))
    compare(x, weight, bias if has_bias else None, padding=1)
    assert [out is None for out, _ in calls] == [False, True] * 3


def test_long_work_is_several_calls(monkeypatch):
    """So that Ctrl-C can end it."""
    monkeypatch.setattr(threads, "_LONG", 1000)
    calls = native.watch(monkeypatch, threads, "run_kernel")
    compare(*operands(40, 16, 8, (15, 13), (3, 3)), padding=1)
    assert len(calls) > 3


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0])
def test_special_values(special):
    x, weight, bias = operands(2, 3, 4, (6, 7), (3, 3))
    x[0, 1, 2, 3] = weight[1, 2, 0, 0] = bias[2] = special
    x[1] = -0.0
    compare(x, weight, bias, padding=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_channel_one_window_one_filter(dtype):
    """Products with one term, one row or one column."""
    numbers = product((1, 3), (1, 2), ((3, 3), (5, 4)), ((1, 1), (3, 3)))
    for channels, filters, lengths, size in numbers:
        compare(*operands(3, channels, filters, lengths, size, dtype=dtype))


def test_other_arrays(calls):
    x, weight, bias = operands(4, 4, 6, (9, 8), (3, 3))
    compare(x[::2, :, ::-1], weight[..., ::-1], bias[::-1])
    assert [out is None for out, _ in calls] == [False, True] * 3
    calls.clear()
    compare(*[a.astype("float16") for a in (x, weight, bias)])
    compare(x[:0], weight, bias)
    compare(*operands(2, 2, 2, (4, 4, 4), (2, 2, 2)))
    assert all(out is None for out, _ in calls)


def test_errors_are_reported_as_by_numpy():
    x, weight, bias = operands(2, 3, 4, (6, 7), (3, 3))
    x[:] = 3e38
    native.check_errors(lambda: windows.convolution(backend, x, weight, bias), "overflow|invalid")
