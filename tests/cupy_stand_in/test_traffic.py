"""How many kernels ops, layers and models launch on the stand-in for CuPy, and how many bytes move.

For layers this is compared with the least possible: to read every input once, to write every result
once, and what lies between: batch normalization reads its arrays twice, for statistics and then for
the result, and recurrent cells have products between their input and their gates, which they keep
for backward. For 16-bit floats all of this is half as much.
"""

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic
from cupy.cuda.memory import MemoryAsync, PooledMemory, pool
from definitions import graphs_noted

import gpugrad as gg
from gpugrad import nn
from gpugrad.autograd import grad
from gpugrad.backends.cupy import convolution
from gpugrad.backends.cupy.kernels import zero_discarded_nans
from gpugrad.kernels.cuda import elementwise

N = 4096


def cost(recorded):
    """Launches, and passes over memory, each of which reads or writes as a large operand has."""
    moved = sum(launch.read + launch.written for launch in recorded)
    return len(recorded), round(moved / (4 * N), 1)


def leaf(shape=N, low=0.5):
    values = np.random.default_rng(0).uniform(low, 2, shape).astype("float32")
    return gg.tensor(values, device="cuda", requires_grad=True)


def costs(function, inputs):
    """The cost forward, and backward from a cotangent that is given."""
    with traffic() as forward:
        out = function(*inputs)
    cotangent = leaf(out.shape).detach()
    with traffic() as backward:
        grad(out, inputs, cotangent)
    return cost(forward), cost(backward)


OTHER = leaf().detach()
# How many passes functions of large arrays take forward and, guarded, backward; each in one launch.
PASSES = [
    *[(op, 3, 5) for op in (gg.multiply, gg.divide, gg.maximum, gg.minimum)],
    (gg.pow, 3, 6),
    (gg.negative, 2, 2),
    *[(op, 2, 3) for op in (gg.exp, gg.log, gg.sqrt, gg.tanh, gg.sigmoid, gg.relu)],
    *[(op, 2, 3) for op in (gg.square, gg.abs, gg.sin)],
    *[(function, 2, 2) for function in (lambda x: x * 3, lambda x: 3 * x, lambda x: x / 3)],
    *[(function, 2, 3) for function in (lambda x: x**2, lambda x: x**3)],
    # Only what the cotangent of one input needs is read.
    (lambda x: x * OTHER, 3, 3),
    *[(function, 3, 4) for function in (lambda x: OTHER / x, lambda x: gg.maximum(x, OTHER))],
]


@pytest.mark.parametrize("function, forward, backward", PASSES)
def test_elementwise(function, forward, backward):
    inputs = [leaf() for _ in (function.op.inputs if hasattr(function, "op") else "x")]
    assert costs(function, inputs) == ((1, forward), (1, backward))


@pytest.mark.parametrize("kind", [PooledMemory, MemoryAsync])
def test_a_gradient_is_not_copied(kind, monkeypatch):
    monkeypatch.setattr(pool, "_kind", kind)
    y = gg.exp(leaf())
    with traffic() as backward:
        y.backward(gg.ones_like(y))
    assert len(backward) == 2  # the ones, and the rule


def test_arrays_that_lie_in_memory_alike(monkeypatch):
    """They are neither copied nor put into another order; others are left to CuPy."""
    monkeypatch.setattr(elementwise, "LARGE", 0)
    two = gg.tensor(2.0, device="cuda")
    x, y = (leaf((64, N // 64)).detach().T for _ in range(2))
    for function in (lambda: x + y, lambda: x * 2, lambda: gg.exp(x), lambda: two * x):
        with traffic() as forward:
            out = function()
        assert [launch.name.endswith("_forward") for launch in forward] == [True]
        assert out.array.strides == x.array.strides
    other = leaf((N // 64, 64)).detach()
    with traffic() as forward:
        x + other
    assert [(launch.name, launch.written) for launch in forward] == [("add", 4 * N)]


def test_windows_of_a_convolution_take_the_memory_of_a_block(monkeypatch):
    """The windows of all images are nine times as large as these, 38 MB."""
    monkeypatch.setattr(cupy._raw, "computes", False)
    x = gg.zeros((16, 64, 32, 32), device="cuda", requires_grad=True)
    weight = gg.zeros((64, 64, 3, 3), device="cuda", requires_grad=True)
    block, memory = 20 << 20, cupy.get_default_memory_pool()
    memory.free_all_blocks()
    before, out = memory.used_bytes(), gg.convolution(x, weight, padding=1)
    assert memory.total_bytes() - before <= out.array.nbytes + block + 2**20
    g = gg.ones_like(out)
    results = sum(y.array.nbytes for y in (out, g, *grad(out, [x, weight], g)))
    assert memory.total_bytes() - before <= results + 2 * block + 2**20


def test_what_is_searched_for_nan_or_broadcast():
    """Without a kernel, the result of the VJP is read once; only near a nan is more read or
    written. A broadcast cotangent is read as one element."""
    assert costs(lambda x: gg.exp(x).sum(), [leaf()])[1] == (1, 2)
    x, row = leaf((64, N // 64)), leaf(N // 64).detach()
    assert costs(lambda x: x * row, [x])[1] == (2, 3)  # 2 for the product
    c, g = cupy.full(N, np.inf, "float32"), cupy.ones(N, "float32")
    c[:4] = np.nan
    g[1] = 0
    with traffic() as recorded:
        zero_discarded_nans(c, g, in_place=True)
    assert cost(recorded) == (1, 1)
    assert (recorded[0].read, recorded[0].written) == (4 * N + 16, 16)


MOST = 1.2  # bytes, of the least
CACHE = 1 << 19  # for convolutions of arrays that are larger, and cells, whose arrays are smaller


class Layer(NamedTuple):
    """A function of tensors, made for a dtype, and what it may need forward and backward.

    launches: the most launches.
    least: functions of the inputs and the result that return the arrays to be read and written,
        each as often as is necessary.
    cache: how many bytes of float32 fit into the cache behind which traffic counts; None for all
        traffic.
    """

    make: object
    shapes: tuple
    launches: tuple
    least: tuple
    cache: int | None = None


def passes(forward, backward):
    """So many passes over the first input."""
    return lambda x, *_: [x] * forward, lambda x, *_: [x] * backward


def batch_norm(shape, launches, least, layer=nn.BatchNorm2d, training=True):
    def make(dtype):
        found = layer(shape[1], device="cuda", dtype=dtype).train(training)
        call = partial(nn.functional_call, found)
        return lambda x, weight, bias: call({"weight": weight, "bias": bias}, (x,))

    return Layer(make, (shape, shape[1:2], shape[1:2]), launches, passes(*least))


def of(function, *shapes, launches, least, cache=None):
    return Layer(lambda dtype: function, shapes, launches, least, cache)


# Every input and the result once; backward the inputs are read and their cotangents written.
ONCE = lambda *arrays: arrays, lambda *arrays: [*arrays, *arrays[:-1]]


def convolved(x, weight, launches, **options):
    function = partial(gg.convolution, **options)
    return of(function, x, weight, weight[:1], launches=launches, least=ONCE, cache=CACHE)


def pooled(function, launches, reads=1, **options):
    least = lambda x, out: [x, out], lambda x, out: [*[x] * reads, out]
    function = partial(function, stride=2, **options)
    return of(function, (4, 8, 32, 48), launches=launches, least=least)


def labels_of(x):
    return gg.asarray(np.random.default_rng(3).integers(0, x.shape[-1], len(x)), device=x.device)


def rows(function, *shapes, backward=3, launches=(1, 1)):
    least = lambda *given: [given[0], given[-1]], passes(0, backward)[1]
    return of(function, *shapes, launches=launches, least=least)


def cell(kind, gates, states):
    def function(x, *more):
        weights, before = more[:4], more[4:]
        return getattr(gg, kind)(x[None], *weights, *before)[1]

    n, width = 128, 64
    sizes = (gates * width, width), (gates * width, width), (gates * width,), (gates * width,)
    shapes = (n, width), *sizes, *[(n, width)] * states
    # Forward there are products with the input and with the state, the gates, and for LSTM the
    # cell; backward the gates and states that were kept, and their cotangents, for GRU of both
    # products.
    forward, backward = 2 * gates + 4 + states, (8 if gates == 4 else 10) + states
    least = (
        lambda *arrays: [*arrays, *[arrays[0]] * forward],
        lambda *arrays: [*arrays, *arrays[:-1], *[arrays[0]] * backward],
    )
    return of(function, *shapes, launches=(6, 14), least=least, cache=1 << 22)


MASK = np.random.default_rng(4).random((96, 96)) < 0.8
DROPPED = {"dropout_p": 0.2, "dropout_key": (1, 2)}
IMAGES, QUERIES = (24, 16, 16, 20), [(4, 96, 64)] * 3
LAYERS = {
    "BatchNorm2d": batch_norm((4, 8, 32, 48), (3, 5), (3, 5)),
    "BatchNorm2d, few": batch_norm((4, 8, 8, 8), (3, 5), (3, 5)),
    "BatchNorm2d, evaluating": batch_norm((4, 8, 32, 48), (1, 2), (2, 3), training=False),
    "BatchNorm1d": batch_norm((1500, 24), (3, 5), (3, 5), nn.BatchNorm1d),
    "BatchNorm1d, evaluating": batch_norm((1500, 24), (1, 2), (2, 3), nn.BatchNorm1d, False),
    "group_norm": rows(
        lambda *xs: gg.group_norm(*xs, groups=4), (4, 8, 128), (8,), (8,),
        backward=5, launches=(1, 2),
    ),
    "rms_norm": rows(gg.rms_norm, (32, 128)),
    "convolution": convolved(IMAGES, (24, 16, 3, 3), (72, 242), padding=1),
    "convolution, stride 2": convolved(IMAGES, (32, 16, 3, 3), (24, 90), padding=1, stride=2),
    "convolution, groups": convolved(IMAGES, (16, 1, 3, 3), (72, 146), groups=16),
    "convolution, 1 x 1": convolved((24, 32, 16, 20), (32, 32, 1, 1), (24, 98)),
    "convolution, large": convolved((6, 16, 32, 64), (16, 16, 3, 3), (198, 400), padding=1),
    "max_pool": pooled(gg.max_pool, (1, 2), reads=2, size=(2, 2)),
    "max_pool, overlapping": pooled(gg.max_pool, (1, 2), reads=2, size=(3, 3), padding=1),
    "sum_windows": pooled(gg.sum_windows, (1, 1), size=(2, 2), scale=0.25),
    "attention": of(gg.attention, *QUERIES, launches=(1, 2), least=ONCE),
    "attention, masked and dropped": of(
        lambda *inputs: gg.attention(*inputs, gg.asarray(MASK, device="cuda"), **DROPPED),
        *QUERIES, launches=(1, 2), least=ONCE,
    ),
    "softmax": rows(gg.softmax, (64, 1000)), "softmax, long": rows(gg.softmax, (8, 10007)),
    "softmax, channels": rows(lambda x: gg.softmax(x, axis=1), (4, 24, 8, 32)),
    "log_softmax": rows(gg.log_softmax, (64, 1000)),
    "cross_entropy": rows(
        lambda x: gg.cross_entropy(x, labels_of(x)), (64, 1000), backward=2, launches=(2, 2)
    ),
    "LSTM cell": cell("lstm", 4, 2), "GRU cell": cell("gru", 3, 1),
}  # fmt: skip


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
    function = layer.make(getattr(gg, dtype))
    with traffic(cache) as forward:
        out = function(*inputs)
    g = gg.tensor(rng.standard_normal(out.shape).astype(dtype), device="cuda")
    with traffic(cache) as backward:
        grad(out, inputs, g)
    for launches, most, least in zip((forward, backward), layer.launches, layer.least, strict=True):
        expected = sum(x.array.nbytes for x in least(*inputs, out))
        moved = sum(launch.read + launch.written for launch in launches)
        assert len(launches) <= most, [launch.name for launch in launches]
        assert moved <= MOST * expected, [*launches]


BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
# Of the models of the benchmarks: all launches of a step, and the products among them; of a
# compiled step, of its graph.
LAUNCHES = {"CNN": (38, 9), "transformer": (155, 51), "LSTM": (224, 104)}
COMPILED = {"CNN": (35, 9), "transformer": (136, 51), "LSTM": (219, 104), "MLP": (15, 8)}
# A batch and how many MiB are read or written, without those of the optimizers, whose kernels find
# the arrays by their addresses.
MEBIBYTES = {"CNN": (2, 9.3), "transformer": (1, 46.5), "LSTM": (32, 75)}


def check_launches(names, most, products):
    count = Counter(names)
    assert count.total() <= most, count
    assert count["gemm"] <= products


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("model", COMPILED)
def test_launches_of_a_graph(model, monkeypatch):
    """The steps are launched without being computed."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), str(BENCHMARKS / "gpu"), *sys.path])
    monkeypatch.setattr(cupy._raw, "computes", False)
    if model == "MLP":
        import mlp

        training = mlp.Training(mlp.Net(mlp.MLP, 128), "fp32", None)
        step = mlp.prepare("gpugrad compiled", "cuda", training)
    else:
        import model_step

        step = gg.compile(model_step.step_of(model_step.Library("gpugrad", "cuda"), model))
    with graphs_noted() as captured:
        for _ in range(4):
            step()
    check_launches(captured[-1], *COMPILED[model])


@pytest.mark.parametrize("model", LAUNCHES)
def test_a_step(model, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import model_step

    batch, most = MEBIBYTES[model]
    step = model_step.step_of(model_step.Library("gpugrad", "cuda", batch), model)
    step()  # which makes the optimizer's state
    with traffic() as launches:
        step()
    check_launches([launch.name for launch in launches], *LAUNCHES[model])
    moved = sum((launch.read or 0) + (launch.written or 0) for launch in launches)
    assert moved <= most * 2**20, launches
