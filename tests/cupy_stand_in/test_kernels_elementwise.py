"""Elementwise kernels on the stand-in for CuPy."""

import cupy
import numpy as np
import pytest

from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels import loader, zero_discarded_nans


@pytest.mark.parametrize("n", [0, 1, 7, 8, 1000, 1025])
@pytest.mark.parametrize("dtype", [*loader.TYPES, "complex64"])
def test_zero_discarded_nans(dtype, n):
    has_kernel = dtype in loader.TYPES
    dtype = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    rng = np.random.default_rng(0)
    c, g = (rng.standard_normal(n).astype(dtype) for _ in range(2))
    c[::3] = np.nan
    c[1::7] = -np.inf
    g[::2] = 0
    expected = np.where(np.isnan(c) & (g == 0), np.zeros((), dtype), c)
    for start in (0, 1):  # aligned to 16 bytes, or to no more than an element
        given = cupy.asarray(c)[start:], cupy.asarray(g)[start:]
        assert (zero_discarded_nans(*given) is not NotImplemented) == has_kernel
        out = xp.zero_discarded_nans(*given)
        assert out.dtype == c.dtype
        assert np.array_equal(out.get(), expected[start:], equal_nan=True)
    backwards = xp.zero_discarded_nans(cupy.asarray(c)[::-1], cupy.asarray(g)[::-1])
    assert np.array_equal(backwards.get()[::-1], expected, equal_nan=True)


def test_zero_discarded_nans_broadcasts():
    c = cupy.asarray(np.array([[np.nan, 1], [2, np.nan]]))
    out = xp.zero_discarded_nans(c, cupy.zeros((1, 2)))
    assert out.get().tolist() == [[0, 1], [2, 0]]
