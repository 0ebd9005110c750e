"""Reductions over leading axes on the stand-in for CuPy."""

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels import loader
from gpugrad.backends.cupy.kernels.reductions import shape_without

NEAR = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
# Shapes with the axes that are reduced: with one chunk of rows and with several, with columns for
# several strips, and with rows that are read in packs.
SHAPES = [
    ((5, 3), 0),
    ((1, 4), (0,)),
    ((300, 7), -2),
    ((3, 100, 5, 7), (0, 1)),
    ((3, 100, 5, 7), (1, 0)),
    ((17, 1030), 0),
    ((1030, 1024), 0),
]


@pytest.fixture(params=loader.TYPES)
def dtype(request):
    if request.param == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(request.param)


def launched(function, *args, **options):
    """The result, and the names of the kernels that were launched."""
    with traffic() as launches:
        out = function(*args, **options)
    return out, [launch.name for launch in launches]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape, axis", SHAPES)
def test_values(shape, axis, keepdims, dtype):
    x = (3 + np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    exact = x.astype("float64")
    given = cupy.asarray(x)
    for name, options in [("sum", {}), ("mean", {}), ("var", {}), ("std", {"correction": 0.5})]:
        out, names = launched(getattr(xp, name), given, axis=axis, keepdims=keepdims, **options)
        ddof = {"ddof": 0.5} if options else {}
        expected = getattr(np, name)(exact, axis, keepdims=keepdims, **ddof)
        assert out.dtype == dtype
        assert out.shape == expected.shape
        near = NEAR[dtype.name]
        scale = np.abs(exact).sum(axis, keepdims=keepdims) if name == "sum" else 4
        assert (np.abs(out.get().astype("float64") - expected) <= near * scale).all()
        assert "sum_rows" in names
        assert "sum" not in names


def test_what_is_left_to_cupy():
    x = cupy.ones((4, 5, 6))
    for given, axis in [
        (x, None), (x, 1), (x, (0, 2)), (x, -1), (x, (0, 1, 2)), (x, ()), (x, (0, 0)), (x, 3),
        (x.T, 0), (x[:0], 0), (x.astype("int64"), 0), (x + 0j, 0), (x[0, 0], 0), (x[..., :1], 0),
        (x.reshape(4, 30, 1), (0, 1)),
    ]:  # fmt: skip
        assert shape_without(given, axis, False) is None
    assert xp.sum(x.astype("float32"), axis=0, dtype="float64").dtype == "float64"
    assert np.isnan(xp.var(x[:1], axis=0, correction=1).get()).all()


def test_nan_and_infinity():
    x = np.ones((300, 3))
    x[7, 0], x[8, 1] = np.nan, np.inf
    for name in ("sum", "mean", "var"):
        with np.errstate(invalid="ignore"):
            expected = getattr(np, name)(x, 0)
        assert np.array_equal(getattr(xp, name)(cupy.asarray(x), axis=0).get(), expected, True)


def test_the_sweep_sums_broadcast_cotangents_so():
    x, row = gg.ones((40, 30), device="cuda"), gg.ones(30, device="cuda", requires_grad=True)
    (g,), names = launched(grad, x + row, [row], x)
    assert g.tolist() == [40] * 30
    assert names == ["sum_rows"]
    (g,), names = launched(grad, (x.reshape((2, 20, 30)) + row).sum(), [row])
    assert g.tolist() == [40] * 30


def test_a_sum_is_the_same_each_time():
    x = cupy.asarray(np.random.default_rng(0).standard_normal((5000, 40)))
    assert len({xp.sum(x, axis=0).get().tobytes() for _ in range(3)}) == 1
