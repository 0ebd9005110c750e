"""How many launches and bytes layers need, on the stand-in for CuPy, beside the least possible.

The least is to read every input once, to write every result once, and what lies between: batch
normalization reads its arrays twice, for statistics and then for the result, and recurrent cells
have products between their input and their gates, which they keep for backward. For 16-bit floats
all of this is half as much.
"""

from typing import NamedTuple

import numpy as np
import pytest
from cupy._traffic import traffic

import gpugrad as gg
from gpugrad import nn
from gpugrad.backends.cupy import convolution

MOST = 1.2  # bytes, of the least
CACHE = 1 << 19  # for convolutions of arrays that are larger, and cells, whose arrays are smaller


class Layer(NamedTuple):
    """A function of tensors, and what it may need forward and backward.

    launches: the most launches.
    least: functions of the inputs and the result that return the arrays to be read and written,
        each as often as is necessary.
    cache: how many bytes of float32 fit into the cache behind which traffic counts; None for all
        traffic.
    """

    function: object
    shapes: list
    launches: tuple
    least: tuple
    cache: int | None = None


def batch_norm(shape, launches, passes, layer=nn.BatchNorm2d, training=True):
    def make(dtype):
        found = layer(shape[1], device="cuda", dtype=dtype).train(training)
        return lambda x, weight, bias: nn.functional_call(
            found, {"weight": weight, "bias": bias}, (x,)
        )

    forward, backward = passes
    least = lambda x, *_: [x] * forward, lambda x, *_: [x] * backward
    return Layer(make, [shape, shape[1:2], shape[1:2]], launches, least)


def of(function, *shapes, launches, least, cache=None):
    return Layer(lambda dtype: function, list(shapes), launches, least, cache)


# Every input and the result once; backward the inputs are read and their cotangents written.
ONCE = lambda *arrays: arrays, lambda *arrays: [*arrays, *arrays[:-1]]


def convolved(x, weight, launches, **options):
    def function(*inputs):
        return gg.convolution(*inputs, **options)

    return of(function, x, weight, weight[:1], launches=launches, least=ONCE, cache=CACHE)


def pooled(function, launches, backward):
    least = lambda x, out: [x, out], backward
    return of(function, (4, 8, 32, 48), launches=launches, least=least)


def labels_of(x):
    labels = np.random.default_rng(3).integers(0, x.shape[-1], len(x))
    return gg.asarray(labels, device=x.device)


def rows(function, shape, backward=3, launches=(1, 1)):
    least = lambda x, out: [x, out], lambda x, out: [x] * backward
    return of(function, shape, launches=launches, least=least)


def cell(kind, gates, states):
    n, width = 128, 64

    def function(x, *more):
        weights, before = more[:4], more[4:]
        return getattr(gg, kind)(x[None], *weights, *before)[1]

    sizes = (gates * width, width), (gates * width, width), (gates * width,), (gates * width,)
    shapes = (n, width), *sizes, *[(n, width)] * states

    def forward(*arrays):
        # Products with the input and with the state, the gates, and for LSTM the cell.
        return [*arrays, *[arrays[0]] * (gates + gates + 4 + states)]

    def backward(*arrays):
        # The gates and states that were kept, and their cotangents, for GRU of both products.
        each = 4 + 4 if gates == 4 else 4 + 6
        return [*arrays, *arrays[:-1], *[arrays[0]] * (each + states)]

    return of(function, *shapes, launches=(6, 14), least=(forward, backward), cache=1 << 22)


MASK = np.random.default_rng(4).random((96, 96)) < 0.8
LAYERS = {
    "BatchNorm2d": batch_norm((4, 8, 32, 48), (3, 5), (3, 5)),
    "BatchNorm2d, few": batch_norm((4, 8, 8, 8), (3, 5), (3, 5)),
    "BatchNorm2d, evaluating": batch_norm((4, 8, 32, 48), (1, 2), (2, 3), training=False),
    "BatchNorm1d": batch_norm((1500, 24), (3, 5), (3, 5), nn.BatchNorm1d),
    "BatchNorm1d, evaluating": batch_norm(
        (1500, 24), (1, 2), (2, 3), nn.BatchNorm1d, training=False
    ),
    "convolution": convolved((24, 16, 16, 20), (24, 16, 3, 3), (72, 242), padding=1),
    "convolution, stride 2": convolved(
        (24, 16, 16, 20), (32, 16, 3, 3), (24, 90), padding=1, stride=2
    ),
    "convolution, groups": convolved((24, 16, 16, 20), (16, 1, 3, 3), (72, 146), groups=16),
    "convolution, 1 x 1": convolved((24, 32, 16, 20), (32, 32, 1, 1), (24, 98)),
    "convolution, large": convolved((6, 16, 32, 64), (16, 16, 3, 3), (198, 400), padding=1),
    "max_pool": pooled(
        lambda x: gg.max_pool(x, size=(2, 2), stride=2), (1, 2), lambda x, out: [x, x, out]
    ),
    "max_pool, overlapping": pooled(
        lambda x: gg.max_pool(x, size=(3, 3), stride=2, padding=1),
        (1, 2),
        lambda x, out: [x, x, out],
    ),
    "sum_windows": pooled(
        lambda x: gg.sum_windows(x, size=(2, 2), stride=2, scale=0.25),
        (1, 1),
        lambda x, out: [x, out],
    ),
    "attention": of(gg.attention, *[(4, 96, 64)] * 3, launches=(1, 4), least=ONCE),
    "attention, masked and dropped": of(
        lambda *inputs: gg.attention(
            *inputs, gg.asarray(MASK, device="cuda"), dropout_p=0.2, dropout_key=(1, 2)
        ),
        *[(4, 96, 64)] * 3,
        launches=(1, 4),
        least=ONCE,
    ),
    "softmax": rows(gg.softmax, (64, 1000)),
    "softmax, long": rows(gg.softmax, (8, 10007)),
    "softmax, channels": rows(lambda x: gg.softmax(x, axis=1), (4, 24, 8, 32)),
    "log_softmax": rows(gg.log_softmax, (64, 1000)),
    "cross_entropy": rows(
        lambda x: gg.cross_entropy(x, labels_of(x)), (64, 1000), backward=2, launches=(2, 2)
    ),
    "LSTM cell": cell("lstm", 4, 2),
    "GRU cell": cell("gru", 3, 1),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, dtype, monkeypatch):
    layer = LAYERS[name]
    cache = layer.cache and layer.cache * np.dtype(dtype).itemsize // 4  # for as many elements
    monkeypatch.setattr(convolution, "_room", lambda device: cache // 2)
    rng = np.random.default_rng(0)
    inputs = [
        gg.tensor(rng.standard_normal(s).astype(dtype) / 4, device="cuda", requires_grad=True)
        for s in layer.shapes
    ]
    function = layer.function(getattr(gg, dtype))
    with traffic(cache) as forward:
        out = function(*inputs)
    g = gg.tensor(rng.standard_normal(out.shape).astype(dtype), device="cuda")
    with traffic(cache) as backward:
        gg.autograd.grad(out, inputs, g)
    for launches, most, least in zip((forward, backward), layer.launches, layer.least, strict=True):
        names = [launch.name for launch in launches]
        expected = sum(x.array.nbytes for x in least(*inputs, out))
        moved = sum(launch.read + launch.written for launch in launches)
        print(f"{len(names)} launches, {moved / expected:.2f} of the least bytes")
        assert len(names) <= most, names
        assert moved <= MOST * expected, [*launches]
