"""The CUDA twins of recurrent layers on the stand-in for CuPy equal the definitions."""

from collections import Counter

import cupy
import numpy as np
import pytest
from cupy._reads import reads
from cupy._traffic import traffic

import gpugrad as gg
from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels import loader
from gpugrad.backends.numpy import backend as numpy
from gpugrad.ops.recurrent import _gru, _lstm

NEAR = {"float64": 1e-12, "float32": 1e-5, "float16": 6e-3, "bfloat16": 6e-2}
OPS = {"lstm": (_lstm.op, 4, 2), "gru": (_gru.op, 3, 1)}  # the gates and the states


@pytest.fixture(params=loader.TYPES)
def dtype(request):
    if request.param == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(request.param)


def drawn(*shape, dtype, seed=0):
    x = np.random.default_rng((seed, *shape)).standard_normal(shape) / 2
    return x.astype(dtype)


def on(x, device):
    if type(x) in (tuple, list):
        return [on(y, device) for y in x]
    if x is None:
        return None
    return cupy.asarray(x) if device else x.astype("float64")


def agree(got, expected, dtype):
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.dtype, a.shape) == (dtype, b.shape)
            errors = np.abs(a.get().astype("float64") - b)
            assert errors.max() <= NEAR[dtype.name] * max(1, np.abs(b).max())


def without_reads(twin, *args, **static):
    reads.clear()
    got = twin(xp, *args, **static)
    assert reads == []
    return got


def inputs_of(name, dtype, shape, biases, states):
    (length, rows, features, width), gates = shape, OPS[name][1]
    shapes = (length, rows, features), (gates * width, features), (gates * width, width)
    shapes = *shapes, *[(gates * width,) if b else None for b in biases]
    shapes = *shapes, *[(rows, width) if states else None] * OPS[name][2]
    return [s and drawn(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)]


@pytest.mark.parametrize("shape", [(5, 3, 4, 6), (1, 1, 1, 1), (3, 70, 2, 5)], ids=str)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("biases, states", [((1, 1), True), ((0, 1), False), ((0, 0), True)])
@pytest.mark.parametrize("name", OPS)
def test_twin(name, biases, states, reverse, shape, dtype):
    op, _, count = OPS[name]
    inputs = inputs_of(name, dtype, shape, biases, states)
    got = without_reads(op.twins["cupy"]["forward"], *on(inputs, True), reverse=reverse)
    expected = op.forward(numpy.xp, *on(inputs, False), reverse=reverse)
    agree(got, expected, dtype)
    out = [x.get() for x in got]
    for given in ((1,) * (count + 1), (1,) + (0,) * count, (0, 1, 1)[: count + 1]):
        g = [
            drawn(*y.shape, dtype=dtype, seed=9) if k < len(given) and given[k] else None
            for k, y in enumerate(out)
        ]
        for wanted in ((True,) * 7, (False, True, False, True, False, False, False)):
            kept = g, inputs[0], *inputs[1:3], *inputs[5:], out
            rest = wanted[: len(inputs)], reverse
            got = without_reads(op.twins["cupy"]["joint"], *on(kept, True), *rest)
            expected = list(op.joint(numpy.xp, *on(kept, False), *rest))
            kinds = [1, 1, 1, 1, 1, *[states] * count]
            for k, (w, given_) in enumerate(zip(rest[0], kinds, strict=True)):
                if not (w and given_):  # more may be computed
                    got = [*got[:k], None, *got[k + 1 :]]
                    expected[k] = None
            agree(got, expected, dtype)


def test_falls_back_to_the_definition():
    for name, (op, _, _) in OPS.items():
        inputs = on(inputs_of(name, np.dtype("float32"), (2, 3, 4, 5), (1, 1), True), True)
        forward = op.twins["cupy"]["forward"]
        for k, other in ((0, inputs[0][:0]), (0, inputs[0].astype("float64")), (1, inputs[1][1:])):
            changed = [*inputs[:k], other, *inputs[k + 1 :]]
            assert forward(xp, *changed, reverse=False) is NotImplemented
        out = forward(xp, *inputs, reverse=False)
        kept = *inputs[:3], *inputs[5:], out, (True,) * len(inputs), False
        joint = op.twins["cupy"]["joint"]
        assert joint(xp, [None] * (len(out) - 1) + [out[-1]], *kept) is NotImplemented


@pytest.mark.parametrize("name", OPS)
def test_second_derivatives(name):
    found = []
    for device in ("cuda", "cpu"):
        inputs = inputs_of(name, np.dtype("float64"), (3, 2, 2, 3), (1, 1), True)
        inputs = [gg.tensor(x, device=device, requires_grad=True) for x in inputs]
        out = getattr(gg, name)(*inputs)[0]
        grads = gg.autograd.grad((out * out).sum(), inputs, create_graph=True)
        found.append(gg.autograd.grad(sum((x * x).sum() for x in grads), inputs))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().cpu().numpy(), b.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", OPS)
def test_launches(name, layers, bidirectional, dtype, monkeypatch):
    """A product and a kernel for each step, and a few for all of them; not computed."""
    monkeypatch.setattr(cupy._raw, "computes", False)
    options = {"bidirectional": bidirectional, "device": "cuda"}
    layer = getattr(gg.nn, name.upper())(4, 5, layers, **options).to(dtype)
    length, cells = 20, layers * (1 + bidirectional)
    x = gg.zeros((length, 3, 4), dtype=dtype, device="cuda", requires_grad=True)
    with traffic() as forward:
        out = layer(x)[0]
    g = gg.ones(out.shape, dtype=dtype, device="cuda")
    with traffic() as backward:
        out.backward(g)
    count = Counter([launch.name for launch in (*forward, *backward)])
    forward_steps, backward_steps = count[f"{name}_cell"], count[f"{name}_cell_backward"]
    assert (forward_steps, backward_steps) == (length * cells, length * cells)
    # None for the first state, which is 0; one for all inputs, their cotangent and each weight's.
    assert count["gemm"] == cells * (2 * (length - 1) + 4)
    assert len(forward) <= cells * (2 * length + 5)
    assert len(backward) <= cells * (2 * length + 12)
