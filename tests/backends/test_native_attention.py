"""Attention in C has the bits of what NumPy computes block by block."""

import warnings
from itertools import product

import numpy as np
import pytest
from test_native_tiles import library  # noqa: F401, a fixture

import gpugrad as gg
from gpugrad.backends.native import base
from gpugrad.backends.numpy import threads
from gpugrad.kernels.numpy import attention as twin

pytestmark = pytest.mark.skipif(not base.is_expected(), reason="there is no compiler")
LENGTHS = [(1, 1), (7, 5), (5, 9), (1, 130), (64, 64), (150, 40), (40, 150)]


@pytest.fixture
def done(monkeypatch):
    """Whether the library computed, for each call and each backward."""
    found, by_library = [], twin._Attention._done_by_library

    def noted(self, **given):
        found.append(by_library(self, **given))
        return found[-1]

    monkeypatch.setattr(twin._Attention, "_done_by_library", noted)
    return found


def results(arrays, g, mask=None, **static):
    """The result and the cotangents of query, key, value and a mask of numbers."""
    inputs = [gg.asarray(x).requires_grad_() for x in arrays]
    if mask is not None:
        inputs.append(gg.asarray(mask))
        inputs[-1].requires_grad_(mask.dtype != bool)
    out = gg.attention(*inputs, **static)
    out.backward(gg.asarray(g))
    return [out.array, *[x.grad.array for x in inputs if x.requires_grad]]


def assert_same(monkeypatch, arrays, g, **static):
    found = results(arrays, g, **static)
    with monkeypatch.context() as patch:
        patch.setattr(twin, "base", lambda: None)
        expected = results(arrays, g, **static)
    for x, y in zip(found, expected, strict=True):
        assert np.array_equal(np.isnan(x), np.isnan(y))
        assert x[~np.isnan(x)].tobytes() == y[~np.isnan(y)].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dropout_p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("lead", [(), (3,), (9, 4)])
def test_bits(monkeypatch, done, lead, dropout_p, is_causal, dtype):
    rng = np.random.default_rng(0)
    for n, m in LENGTHS:
        shapes = [(*lead, n, 8), (*lead, m, 8), (*lead, m, 5), (*lead, n, 5)]
        *arrays, g = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
        key = 1, 2**64 - n
        static = {"is_causal": is_causal, "dropout_p": dropout_p, "dropout_key": key}
        assert_same(monkeypatch, arrays, g, **static)
        assert done == [True, True, False, False]
        done.clear()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_one_query_one_key_one_feature(monkeypatch, is_causal, dtype):
    """Products with one term, one row or one column."""
    rng = np.random.default_rng(0)
    for lead, n, m, d, e in product(((), (3, 5)), (1, 3), (1, 9), (1, 4), (1, 3)):
        shapes = [(*lead, n, d), (*lead, m, d), (*lead, m, e), (*lead, n, e)]
        *arrays, g = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
        assert_same(monkeypatch, arrays, g, is_causal=is_causal)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30])
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("is_causal", [False, True])
def test_special_values(monkeypatch, special, place, is_causal):
    """Also of keys that a query must not use: there nan and infinities become nan."""
    for row, p in ((0, 0.0), (3, 0.5), (-1, 0.0)):
        arrays = [
            x.copy() for x in np.random.default_rng(0).standard_normal((3, 2, 9, 4), "float32")
        ]
        arrays[place][..., row, 1] = special
        assert_same(
            monkeypatch, arrays, np.ones((2, 9, 4), "float32"), is_causal=is_causal, dropout_p=p
        )


def test_several_blocks_of_queries(monkeypatch, done):
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((4, 2, 700, 8), "float32")
    for is_causal in (False, True):
        assert_same(monkeypatch, arrays[:3], arrays[3], is_causal=is_causal, dropout_p=0.1)
    assert done == [True, True, False, False] * 2


def test_long_work_is_several_calls(monkeypatch):
    """So that Ctrl-C can end it."""
    calls, run = [], threads.run_kernel
    monkeypatch.setattr(threads, "_LONG", 1000)
    monkeypatch.setattr(threads, "run_kernel", lambda *args: calls.append(args) or run(*args))
    arrays = np.random.default_rng(0).standard_normal((4, 30, 20, 8), "float32")
    assert_same(monkeypatch, arrays[:3], arrays[3])
    assert len(calls) > 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["bools", "numbers", "nan"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_masks(monkeypatch, done, is_causal, kind, dtype):
    """Also those that leave a query without keys."""
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((4, 3, 2, 70, 8)).astype(dtype)
    mask = rng.random((70, 70)) < 0.7
    mask[3] = mask[0] = False
    if kind != "bools":
        mask = np.where(mask, rng.standard_normal(mask.shape), -np.inf).astype(dtype)
    if kind == "nan":
        mask[5, 6] = np.nan
    assert_same(monkeypatch, arrays[:3], arrays[3], mask=mask, is_causal=is_causal)
    assert done == ([True, True, False, False] if kind == "bools" else [True, False])


def test_numpy_warns_of_the_same(monkeypatch):
    x = np.full((1, 3, 4), np.inf, "float32")
    inputs = [*map(gg.asarray, (x, -x, x))]
    with np.errstate(all="warn"), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        gg.attention(*inputs)
    assert any("invalid value" in str(w.message) for w in found)
