"""Reductions over leading axes on the stand-in for CuPy."""

import cupy
import numpy as np
import pytest
from definitions import LAYOUTS, launched

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels import reductions
from gpugrad.backends.cupy.kernels.reductions import shape_without

NEAR = {"float64": 1e-12, "float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}
# Shapes with the axes that are reduced: with one chunk of rows and with several, with columns for
# several strips, and with rows that are read in packs.
SHAPES = [
    *[((5, 3), 0), ((1, 4), (0,)), ((300, 7), -2), ((3, 100, 5, 7), (0, 1))],
    *[((3, 100, 5, 7), (1, 0)), ((17, 1030), 0), ((1030, 1024), 0)],
]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape, axis", SHAPES)
def test_values(shape, axis, keepdims, dtype):
    x = (3 + np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    exact, near = x.astype("float64"), NEAR[dtype.name]
    sizes = np.abs(exact).sum(axis, keepdims=keepdims)
    for given in (cupy.asarray(x), LAYOUTS["misaligned"](cupy.asarray(x))):
        for name, options in [("sum", {}), ("mean", {}), ("var", {}), ("std", {"correction": 0.5})]:
            out, names = launched(getattr(xp, name), given, axis=axis, keepdims=keepdims, **options)
            ddof = {"ddof": 0.5} if options else {}
            expected = getattr(np, name)(exact, axis, keepdims=keepdims, **ddof)
            assert (out.dtype, out.shape) == (dtype, expected.shape)
            error = np.abs(out.get().astype("float64") - expected)
            assert (error <= near * (sizes if name == "sum" else 4)).all()
            assert {*names} & {"sum_rows", "sum"} == {"sum_rows"}


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
    assert (g.tolist(), names) == ([40] * 30, ["sum_rows"])
    (g,), names = launched(grad, (x.reshape((2, 20, 30)) + row).sum(), [row])
    assert g.tolist() == [40] * 30


def test_sums_are_the_same_each_time():
    rng = np.random.default_rng(0)
    x = cupy.asarray(rng.standard_normal((5000, 40)))
    assert len({xp.sum(x, axis=0).get().tobytes() for _ in range(3)}) == 1
    g, indices = cupy.asarray(rng.standard_normal(3000)), rng.integers(0, 3, 3000)
    x = gg.zeros(3, dtype=gg.float64, device="cuda", requires_grad=True)
    out = gg.take(x, gg.asarray(cupy.asarray(indices)))
    found = [grad(out, [x], gg.asarray(g), retain_graph=True)[0] for _ in range(3)]
    assert len({c.array.get().tobytes() for c in found}) == 1


class TestTake:
    """Gradients of what was taken, perhaps repeatedly, along one axis."""

    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("index_dtype", ["int64", "int32", "uint8"])
    @pytest.mark.parametrize("kernel", ["sum_matches", "sum_segments"])
    def test_gradient(self, axis, index_dtype, dtype, kernel, monkeypatch):
        if kernel == "sum_segments":  # which is for more rows and indices
            monkeypatch.setattr(reductions, "_MOST_COMPARED", 0)
        rng = np.random.default_rng(0)
        x = gg.asarray(cupy.zeros((4, 5, 6), dtype)).requires_grad_()
        indices = rng.integers(0, 4, 20).astype(index_dtype)
        if index_dtype != "uint8":
            indices[::3] -= 4
        out = gg.take(x, gg.asarray(cupy.asarray(indices)), axis=axis)
        g = rng.standard_normal(out.shape).astype(dtype)
        gradient, names = launched(grad, out, [x], gg.asarray(cupy.asarray(g)))
        assert {*names} & {kernel, "add.at"} == {kernel}
        expected = np.zeros(x.shape)
        np.add.at(expected, (*[slice(None)] * (axis % 3), indices), g.astype("float64"))
        near, got = 10 * NEAR[dtype.name], gradient[0].array.get().astype("float64")
        np.testing.assert_allclose(got, expected, rtol=near, atol=near)

    def test_other_dtypes_and_empty_arrays(self):
        def gradient(x, indices):
            out = gg.take(x.requires_grad_(), indices, axis=0)
            (c,), names = launched(grad, out, [x], gg.ones_like(out))
            return c.tolist(), names

        indices = gg.tensor([0, 2, 2], device="cuda")
        c, names = gradient(gg.zeros((3, 2), dtype=gg.complex64, device="cuda"), indices)
        assert (c, names.count("arange")) == ([[1, 1], [0, 0], [2, 2]], 0)
        small = gg.tensor([1, 255], dtype=gg.uint8, device="cuda")
        c, _ = gradient(gg.zeros(1000, device="cuda"), small)
        assert sum(c) == c[1] + c[255] == 2
        for shape, n in [((3, 0), 2), ((3, 2), 0)]:
            c, _ = gradient(gg.zeros(shape, device="cuda"), indices[:n])
            assert c == np.zeros(shape).tolist()


def test_counters_of_blocks():
    """Those of a stream are 0 after each kernel, and no other stream has them."""
    x = cupy.asarray(np.random.default_rng(0).standard_normal((1000, 70)))
    for _ in range(3):
        np.testing.assert_allclose(xp.sum(x, axis=0).get(), x.get().sum(0), atol=1e-12)
    counters = reductions.arrivals()
    assert not counters.get().any()
    assert reductions.arrivals() is counters
    with cupy.cuda.Stream():
        assert reductions.arrivals() is not counters
