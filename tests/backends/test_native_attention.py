"""Attention in C has the bits of what NumPy computes block by block."""

from itertools import product
from unittest import mock

import native
import numpy as np
import pytest

import gpugrad as gg
from gpugrad.backends.numpy import threads
from gpugrad.kernels.numpy import attention as twin

pytestmark = native.needs_library
LENGTHS = [(1, 1), (7, 5), (5, 9), (1, 130), (64, 64), (150, 40), (40, 150)]


@pytest.fixture
def calls(monkeypatch):
    return native.watch(monkeypatch, twin._Attention, "_done_by_library")


def results(arrays, g, mask=None, **static):
    """The result and the cotangents of query, key, value and a mask of numbers."""
    inputs = [gg.asarray(x).requires_grad_() for x in arrays]
    if mask is not None:
        inputs.append(gg.asarray(mask))
        inputs[-1].requires_grad_(mask.dtype != bool)
    out = gg.attention(*inputs, **static)
    out.backward(gg.asarray(g))
    return [out.array, *[x.grad.array for x in inputs if x.requires_grad]]


def compare(shapes_or_arrays, dtype="float32", **static):
    """Compare the results with those of NumPy, for query, key, value and the cotangent."""
    *arrays, g = shapes_or_arrays
    if isinstance(g, tuple):
        rng = np.random.default_rng(0)
        *arrays, g = [rng.standard_normal(shape).astype(dtype) for shape in shapes_or_arrays]
    found = results(arrays, g, **static)
    with mock.patch.object(twin, "function_of", return_value=None):
        native.assert_same(found, results(arrays, g, **static))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dropout_p", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("lead, of_keys", [*[(x, x) for x in ((), (3,), (9, 4))], ((9, 4), ())])
def test_bits(calls, lead, of_keys, dropout_p, is_causal, dtype):
    for n, m in LENGTHS:
        shapes = (*lead, n, 8), (*of_keys, m, 8), (*of_keys, m, 5), (*lead, n, 5)
        compare(shapes, dtype, is_causal=is_causal, dropout_p=dropout_p, dropout_key=(1, 2**64 - n))
        assert [done for done, _ in calls] == [True, True, False, False]
        calls.clear()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_one_query_one_key_one_feature(is_causal, dtype):
    """Products with one term, one row or one column."""
    for lead, n, m, d, e in product(((), (3, 5)), (1, 3), (1, 9), (1, 4), (1, 3)):
        shapes = (*lead, n, d), (*lead, m, d), (*lead, m, e), (*lead, n, e)
        compare(shapes, dtype, is_causal=is_causal)


def test_cotangents_in_other_orders():
    rng = np.random.default_rng(0)
    query, key, value, g = [rng.standard_normal((3, n, 4)) for n in (70, 1, 1, 70)]
    compare([query, key, value, np.asfortranarray(g)])


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30])
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("is_causal", [False, True])
def test_special_values(special, place, is_causal):
    """Also of keys that a query must not use: there nan and infinities become nan."""
    for row, p in ((0, 0.0), (3, 0.5), (-1, 0.0)):
        arrays = [*np.random.default_rng(0).standard_normal((4, 2, 9, 4), "float32")]
        arrays[place][..., row, 1] = special
        compare(arrays, is_causal=is_causal, dropout_p=p)


@pytest.mark.parametrize("is_causal", [False, True])
def test_several_blocks_of_queries(calls, is_causal):
    compare([(2, 700, 8)] * 4, is_causal=is_causal, dropout_p=0.1)
    assert [done for done, _ in calls] == [True, True, False, False]


def test_long_work_is_several_calls(monkeypatch):
    """So that Ctrl-C can end it."""
    monkeypatch.setattr(threads, "_LONG", 1000)
    calls = native.watch(monkeypatch, threads, "run_kernel")
    compare([(30, 20, 8)] * 4)
    assert len(calls) > 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["bools", "numbers", "nan"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_masks(calls, is_causal, kind, dtype):
    """Also those that leave a query without keys."""
    rng = np.random.default_rng(0)
    mask = rng.random((70, 70)) < 0.7
    mask[3] = mask[0] = False
    if kind != "bools":
        mask = np.where(mask, rng.standard_normal(mask.shape), -np.inf).astype(dtype)
    if kind == "nan":
        mask[5, 6] = np.nan
    mask = native.misaligned(mask)
    compare([(3, 2, 70, 8)] * 4, dtype, mask=mask, is_causal=is_causal)
    done = [True, True, False, False] if kind == "bools" else [True, False]
    assert [found for found, _ in calls] == done


def test_errors_are_reported_as_by_numpy():
    x = gg.full((1, 3, 4), np.inf, dtype=gg.float32)
    native.check_errors(lambda: gg.attention(x, -x, x), "invalid value")
