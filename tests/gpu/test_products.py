"""Matrix products by cuBLAS: right numbers for every memory layout, and no waiting.

On the stand-in for CuPy, test_products_by_cublas.py tests the calls of cuBLAS and the copies.
"""

from itertools import product

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np
import pytest
from cuda_device import on_gpu
from matrices import MATRICES, STACKS, cupy, matrix, small_integers, stack, transposed

import gpugrad as gg
from gpugrad import cuda
from gpugrad.testing import assert_close

pytestmark = [*on_gpu, pytest.mark.usefixtures("bfloat16")]

EPS = {"float64": 2**-52, "float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}


def on_host(x):
    return cupy.asnumpy(x).astype("float64")


def multiplied(x1, x2):
    out = gg.matmul(gg.asarray(x1), gg.asarray(x2)).array
    assert out.dtype == x1.dtype
    return out


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("way1", [*MATRICES, *STACKS])
def test_layouts(way1, dtype):
    if way1 in MATRICES:
        sides = product((matrix,), MATRICES, ((), (3,), (2, 3)), [(4, 2, 3)])
    else:
        sides = product((stack,), STACKS, [()], [(4, 5, 2), (1, 5, 2), (4, 5, 1)])
    for make, way2, batch, (m, k, n) in sides:
        x1, x2 = make(way1, *batch, m, k, dtype=dtype), make(way2, *batch, k, n, dtype=dtype)
        x1, x2 = (x[0] if make is matrix else x for x in (x1, x2))
        found = on_host(multiplied(x1, x2))
        assert np.array_equal(found, on_host(x1) @ on_host(x2)), (way2, batch, m, n)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("shapes", [((300, 1000), (1000, 200)), ((6, 70, 500), (6, 500, 90))])
def test_sums_of_many(shapes, dtype):
    """Sums of 16-bit floats are computed in float32, so the result is as accurate as possible."""
    rng = np.random.default_rng(0)
    x1, x2 = (cupy.asarray(rng.standard_normal(s).astype(dtype)) for s in shapes)
    for a, b in (x1, x2), (transposed(x2), transposed(x1)):
        expected = on_host(a) @ on_host(b)
        # A sum of n products, each about 1, has partial sums up to sqrt(n), each rounded: an error
        # of about eps * n / 3, the largest of many about eps * 2 n.
        near = 4 * shapes[0][-1] * min(EPS[dtype], EPS["float32"])
        error = np.abs(on_host(multiplied(a, b)) - expected)
        assert np.all(error <= EPS[dtype] * np.abs(expected) + near)


def test_vectors_and_nothing():
    vectors = ((5,), (5,)), ((4, 5), (5,)), ((5,), (2, 5, 3)), ((0,), (0, 4))
    for shapes in (*vectors, ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((5, 2, 0), (5, 0, 3))):
        x1, x2 = map(small_integers, shapes)
        assert_close(on_host(multiplied(x1, x2)), on_host(x1) @ on_host(x2), rtol=0)


def test_tf32():
    rng, allowed = np.random.default_rng(0), cuda.tf32_allowed()
    for shape in (512, 512), (4, 256, 256):
        x = cupy.asarray(rng.standard_normal(shape).astype("float32"))
        expected, errors = on_host(x) @ on_host(x), {}
        for allow in True, False:
            cuda.allow_tf32(allow)
            errors[allow] = np.abs(on_host(multiplied(x, x)) - expected).max()
            wide = x.astype("float64")
            assert np.abs(on_host(multiplied(wide, wide)) - expected).max() < 1e-9
        cuda.allow_tf32(allowed)
        assert errors[False] < 1e-3 < errors[True] < 1
