"""Windows and convolutions by CUDA kernels on the stand-in for CuPy equal those of NumPy."""

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.backends.cupy import convolution, xp
from gpugrad.backends.cupy.kernels import loader
from gpugrad.backends.numpy import backend as numpy

NEAR = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
# The shape of an array, and windows over its last axes.
WINDOWS = [
    ((2, 3, 7), {"size": (3,)}),
    ((2, 3, 7), {"size": (2,), "stride": 2, "padding": 1, "dilation": 3}),
    ((2, 3, 7, 6), {"size": (3, 3), "padding": 1}),
    ((2, 3, 7, 6), {"size": (2, 3), "stride": (2, 1), "padding": ((1, 0), (2, 2))}),
    ((9, 8), {"size": (3, 2), "stride": 3, "dilation": 2}),
    ((2, 9, 8), {"size": (2, 2), "padding": (-1, 0)}),
    ((2, 1, 40, 41), {"size": (1, 1)}),
    ((2, 5, 4, 6), {"size": (2, 3, 2), "stride": (1, 2, 2), "padding": 1}),
    ((1, 12, 12), {"size": (12, 12), "padding": 6}),
]


@pytest.fixture(params=loader.TYPES)
def dtype(request):
    if request.param == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(request.param)


def drawn(*shape, dtype, seed=0):
    # Few different numbers, so that several elements of a window are the largest.
    return np.random.default_rng((seed, *shape)).integers(-9, 9, shape).astype(dtype) / dtype.type(
        4
    )


def agree(got, expected, dtype):
    assert got.dtype == dtype
    assert got.shape == expected.shape
    expected = np.asarray(expected, "float64")
    scale = max(1, np.abs(expected).max(initial=0))
    assert (
        np.abs(got.get().astype("float64") - expected).max(initial=0)
        <= NEAR.get(dtype.name, 0) * scale
    )


def both(name, arrays, dtype, **options):
    """The result on the device, compared, and on the host; in one launch."""
    given = [x if x.dtype.kind in "iu" else x.astype("float64") for x in arrays]
    expected = getattr(numpy.xp, name)(*given, **options)
    on = [cupy.asarray(x) for x in arrays]
    with traffic() as launches:
        got = getattr(xp, name)(*on, **options)
    assert len(launches) == 1
    agree(
        got,
        expected,
        np.dtype("int32" if got.itemsize == 4 else "int8") if name.startswith("find") else dtype,
    )
    return got.get()


@pytest.mark.parametrize("shape, options", WINDOWS, ids=str)
def test_windows(shape, options, dtype):
    x = drawn(*shape, dtype=dtype)
    elements = both("sliding_windows", [x], dtype, **options)
    lengths = {"shape": shape[len(shape) - len(options["size"]) :]}
    rest = {k: v for k, v in options.items() if k != "size"}
    both("add_windows", [elements], dtype, **lengths, **rest)
    both("sum_windows", [x], dtype, **options, scale=0.25)
    largest = both("max_pool", [x], dtype, **options)
    taps = both("find_in_windows", [x, largest], dtype, **options)
    both("take_from_windows", [x, taps], dtype, **options)
    both(
        "put_in_windows",
        [drawn(*taps.shape, dtype=dtype, seed=1), taps],
        dtype,
        **lengths,
        **options,
    )


def test_values_that_are_not_finite():
    x = np.array([[1, np.nan, 2, -np.inf, -np.inf, np.inf, 3]], "float32")
    options = {"size": (2,), "padding": 1}
    got, expected = (of(x) for of in (
        lambda x: xp.max_pool(cupy.asarray(x), **options).get(),
        lambda x: numpy.xp.max_pool(x, **options),
    ))  # fmt: skip
    np.testing.assert_array_equal(got, expected)
    got = xp.find_in_windows(cupy.asarray(x), cupy.asarray(expected), **options).get()
    np.testing.assert_array_equal(got, numpy.xp.find_in_windows(x, expected, **options))


@pytest.mark.parametrize("kind", ["int32", "four axes", "not contiguous"])
def test_other_arrays(kind):
    x = np.arange(360).reshape(3, 4, 5, 6)[:, :, ::2] if kind == "not contiguous" else None
    x = np.arange(360).reshape(3, 4, 5, 6) if x is None else x
    x = x.astype("int32" if kind == "int32" else "float32")
    options = {"size": (2,) * (4 if kind == "four axes" else 2), "padding": 1}
    for name in ("sliding_windows", "sum_windows", "max_pool"):
        got = getattr(xp, name)(cupy.asarray(x), **options)
        np.testing.assert_array_equal(got.get(), getattr(numpy.xp, name)(x, **options))
    taps = numpy.xp.find_in_windows(x, numpy.xp.max_pool(x, **options), **options).astype("uint8")
    got = xp.take_from_windows(cupy.asarray(x), cupy.asarray(taps), **options)
    np.testing.assert_array_equal(got.get(), numpy.xp.max_pool(x, **options) * (got.get() != 0))


CONVOLUTIONS = [
    ((5, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
    ((5, 4, 9, 8), (6, 2, 3, 2), {"stride": 2, "groups": 2, "padding": (1, 0)}),
    ((5, 4, 9), (6, 4, 3), {"dilation": 2}),
    ((5, 4, 9, 8), (6, 4, 1, 1), {}),
    ((5, 4, 9, 8), (6, 4, 1, 1), {"stride": 2}),
    ((2, 1, 5, 4, 6), (2, 1, 2, 2, 2), {"padding": 1}),
]


@pytest.mark.parametrize("room", [1 << 24, 6000, 1])
@pytest.mark.parametrize("x, weight, options", CONVOLUTIONS, ids=str)
def test_convolution(x, weight, options, room, dtype, monkeypatch):
    """Values and gradients, with all images at once, some, and parts of one at a time."""
    monkeypatch.setattr(convolution, "_room", lambda device: room)
    bias = weight[:1]
    arrays = [drawn(*shape, dtype=dtype, seed=i) for i, shape in enumerate((x, weight, bias))]
    found = []
    for of in (lambda x: gg.tensor(x, device="cuda"), lambda x: gg.tensor(x.astype("float64"))):
        inputs = [of(x).requires_grad_() for x in arrays]
        out = gg.convolution(*inputs, **options)
        g = drawn(*out.shape, dtype=dtype, seed=3)
        found.append([out, *grad(out, inputs, of(g))])
    for a, b in zip(*found, strict=True):
        agree(a.detach().array, b.detach().numpy(), dtype)


def test_second_derivatives():
    """They are convolutions too."""
    found = []
    for device in ("cuda", "cpu"):
        shapes = (2, 2, 5, 4), (3, 2, 2, 2)
        inputs = [gg.tensor(drawn(*s, dtype=np.dtype("float64")), device=device) for s in shapes]
        inputs = [x.requires_grad_() for x in inputs]
        out = gg.max_pool(gg.convolution(*inputs, stride=2, padding=1), size=(2, 2))
        grads = grad((out * out).sum(), inputs, create_graph=True)
        found.append(grad(sum((x * x).sum() for x in grads), inputs))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().cpu().numpy(), b.numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("images", [1, 8])
def test_launches(images):
    """A product and the elements of windows, for each part of the images; and the bias."""
    x = gg.tensor(drawn(images, 4, 16, 16, dtype=np.dtype("float32")), device="cuda")
    weight = gg.tensor(drawn(8, 4, 3, 3, dtype=np.dtype("float32")), device="cuda")
    x, weight = x.requires_grad_(), weight.requires_grad_()
    with traffic() as forward:
        out = gg.convolution(x, weight, padding=1)
    g = gg.ones(out.shape, device="cuda")
    with traffic() as backward:
        grad(out, [x, weight], g)
    assert [launch.name for launch in forward] == ["window_elements", "gemm"]
    assert [launch.name for launch in backward if launch.name == "sum"] == []
    assert len(backward) <= 8
    pooled = gg.max_pool(out, size=(2, 2), stride=2)
    with traffic() as backward:
        grad(pooled, [out], gg.ones(pooled.shape, device="cuda"))
    assert [launch.name for launch in backward][-2:] == ["find_taps", "put_taps"]
