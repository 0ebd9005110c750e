"""Kernels of attention, convolution, normalization and recurrence, against float64 on the CPU.

Each is compared in all dtypes with the definition of the same, rounded numbers. Products of small
matrices, which the stand-in for CuPy computes in another way, are only tested here.
"""

import numpy as np
import pytest
from cuda_device import IS_STAND_IN, on_gpu

import gpugrad as gg
from gpugrad.backends.cupy import convolution

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = on_gpu

NEAR = {"float64": 1e-10, "float32": 3e-5, "float16": 1e-2, "bfloat16": 8e-2}
LENGTHS = [(20, 35)] if IS_STAND_IN else [(1, 1), (64, 64), (70, 200), (513, 300)]
FEATURES = [8] if IS_STAND_IN else [8, 32, 40, 64, 100, 128, 200, 256, 300]


@pytest.fixture(params=NEAR)
def dtype(request):
    return np.dtype(getattr(ml_dtypes, request.param, request.param))


def drawn(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def compare(function, arrays, dtype, near=1):
    """Compare values and gradients; arrays that are not floating are passed as they are."""
    found = []
    for device, wide in (("cuda", dtype), ("cpu", np.dtype("float64"))):
        given = [x.astype(dtype).astype(wide) if x.dtype.kind == "f" else x for x in arrays]
        inputs = [gg.tensor(x, device=device) for x in given]
        leaves = [x.requires_grad_() for x in inputs if gg.isdtype(x.dtype, "real floating")]
        out = function(*inputs)
        outs = out if isinstance(out, tuple) else (out,)
        rounded = [drawn(*y.shape, seed=9).astype(dtype) for y in outs]
        g = [gg.tensor(x, dtype=y.dtype, device=device) for x, y in zip(rounded, outs, strict=True)]
        found.append([*outs, *gg.autograd.grad(outs, leaves, g)])
    for a, b in zip(*found, strict=True):
        a, b = a.detach().cpu().numpy().astype("float64"), b.detach().numpy()
        most = NEAR[dtype.name] * near * max(1, np.abs(b).max(initial=0))
        assert np.abs(a - b).max(initial=0) <= most


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("n, m", LENGTHS)
@pytest.mark.parametrize("kind", ["plain", "causal", "bools", "numbers", "dropout", "grouped"])
def test_attention(kind, n, m, features, dtype):
    heads = (2, 3) if kind == "grouped" else (3,)
    keys = (2, 2, 1, m, features) if kind == "grouped" else (2, *heads, m, features)
    arrays = [drawn(2, *heads, n, features), drawn(*keys, seed=1), drawn(*keys, seed=2)]
    if kind == "bools":
        arrays.append(drawn(n, m, seed=3) > -1)
    if kind == "numbers":
        arrays.append(drawn(3, n, m, seed=3))
    options = {"dropout_p": 0.3, "dropout_key": (5, 7)} if kind == "dropout" else {}
    options["is_causal"] = kind in ("causal", "grouped")
    compare(lambda *xs: gg.attention(*xs, **options), arrays, dtype)


@pytest.mark.parametrize("x, weight, options", [
    ((3, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}), ((3, 4, 9), (6, 4, 3), {"dilation": 2}),
    ((3, 4, 9, 8), (6, 2, 3, 2), {"stride": 2, "groups": 2, "padding": (1, 0)}),
    *(((3, 4, 9, 8), (6, 4, 1, 1), options) for options in ({}, {"stride": 2})),
    ((2, 1, 5, 4, 6), (2, 1, 2, 2, 2), {"padding": 1}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("room", [None, 6000, 1])
def test_convolution(x, weight, options, dtype, room, monkeypatch):
    """With all images at once, some, and parts of one at a time."""
    if room is not None:
        monkeypatch.setattr(convolution, "_room", lambda device: room)
    arrays = drawn(*x), drawn(*weight, seed=1), drawn(weight[0], seed=2)
    compare(lambda *xs: gg.convolution(*xs, **options), arrays, dtype, near=4)


@pytest.mark.parametrize("size, stride", [((2, 2), 2), ((3, 2), 1)])
def test_pooling(size, stride, dtype):
    x, options = drawn(2, 3, 9, 10), {"size": size, "stride": stride}
    compare(lambda x: gg.max_pool(x, **options), [x], dtype)
    compare(lambda x: gg.sum_windows(x, **options, padding=1), [x], dtype)


@pytest.mark.parametrize("shape", [(40, 5), (3, 5, 7), (4, 3, 16, 12), (2, 2, 70, 90)], ids=str)
def test_batch_norm(shape, dtype):
    arrays = drawn(*shape), drawn(shape[1], seed=1), drawn(shape[1], seed=2)
    compare(gg.batch_norm, arrays, dtype, near=4)


@pytest.mark.parametrize("shape", [(40, 5), (4, 3, 16, 12), (2, 2, 70, 90)], ids=str)
def test_batch_norm_by_running_statistics(shape, dtype):
    """With the gradients by the statistics, which have no kernel, and without them."""
    arrays = [drawn(*shape), *(drawn(shape[1], seed=i) ** 2 for i in range(1, 5))]
    for detached in (lambda x: x, lambda x: x.detach()):

        def function(x, mean, var, *rest, of=detached):
            return gg.nn.functional.batch_norm(x, of(mean), of(var) + 0.1, *rest), mean + var

        compare(function, arrays, dtype, near=4)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name, gates, states", [("lstm", 4, 2), ("gru", 3, 1)])
def test_recurrence(name, gates, states, reverse, dtype):
    length, rows, features, width = 7, 5, 6, 9
    shapes = (length, rows, features), (gates * width, features), (gates * width, width)
    shapes = *shapes, *[(gates * width,)] * 2, *[(rows, width)] * states
    arrays = [drawn(*s, seed=i) / 2 for i, s in enumerate(shapes)]
    compare(lambda *xs: getattr(gg, name)(*xs, reverse=reverse), arrays, dtype, near=4)


@pytest.mark.parametrize("columns", [3, 64, 1000, 1024, 1028, 8200, 8209])
def test_rows(columns, dtype):
    x = drawn(9, columns)
    for function in (gg.softmax, gg.log_softmax):
        compare(lambda x, f=function: f(x, axis=-1), [x], dtype)
        compare(lambda x, f=function: f(x, axis=0), [x], dtype)
    labels = np.random.default_rng(0).integers(0, columns, 9)
    compare(lambda x: gg.cross_entropy(x, gg.asarray(labels, device=x.device)), [x], dtype)


@pytest.mark.parametrize("function", [gg.add, gg.multiply, gg.exp], ids=lambda f: f.__name__)
def test_large_arrays_that_are_turned(function, dtype):
    values = [(drawn(1030, 1100, seed=i) / 4).astype(dtype) for i in range(len(function.op.inputs))]
    given = [gg.tensor(v, device="cuda").mT for v in values]
    out = function(*given)
    assert out.array.strides == given[0].array.strides
    expected = function(*[gg.tensor(v.astype("float64").T) for v in values]).numpy()
    near = NEAR[dtype.name]
    assert np.allclose(out.cpu().numpy().astype("float64"), expected, rtol=near, atol=near)
