"""How many kernels ops launch, and how often these go through memory, on the stand-in for CuPy."""

from typing import NamedTuple

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic
from cupy.cuda.memory import MemoryAsync, PooledMemory, pool

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.backends.cupy.kernels import zero_discarded_nans
from gpugrad.kernels.cuda import elementwise

N = 4096


class Cost(NamedTuple):
    """Launches of a forward and a backward pass, and passes over memory.

    A pass reads or writes as many bytes as a large operand has.
    """

    launches: int
    passes: float


def cost(recorded):
    assert None not in [launch.read for launch in recorded]
    moved = sum(launch.read + launch.written for launch in recorded)
    return Cost(len(recorded), round(moved / (4 * N), 1))


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


# How many passes ops of large arrays take forward and, guarded, backward; each in one launch.
PASSES = {
    **dict.fromkeys([gg.multiply, gg.divide, gg.maximum, gg.minimum], (3, 5)),
    gg.pow: (3, 6),
    gg.negative: (2, 2),
    **dict.fromkeys([gg.exp, gg.log, gg.sqrt, gg.tanh, gg.sigmoid, gg.relu], (2, 3)),
    **dict.fromkeys([gg.square, gg.abs, gg.sin], (2, 3)),
}


@pytest.mark.parametrize("op", PASSES, ids=lambda op: op.__name__)
def test_elementwise(op):
    forward, backward = PASSES[op]
    assert costs(op, [leaf() for _ in op.op.inputs]) == ((1, forward), (1, backward))


@pytest.mark.parametrize("kind", [PooledMemory, MemoryAsync])
def test_a_gradient_is_not_copied(kind, monkeypatch):
    monkeypatch.setattr(pool, "_kind", kind)
    x = leaf()
    y = gg.exp(x)
    with traffic() as backward:
        y.backward(gg.ones_like(y))
    assert cost(backward)[0] == 2  # the ones, and the rule


def test_with_a_number():
    for function in (lambda x: x * 3, lambda x: 3 * x, lambda x: x / 3):
        assert costs(function, [leaf()]) == ((1, 2), (1, 2))
    for function in (lambda x: x**2, lambda x: x**3):
        assert costs(function, [leaf()]) == ((1, 2), (1, 3))


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


def test_of_one_input():
    """Only what its cotangent needs is read; a broadcast cotangent as one element."""
    x, y = leaf(), leaf().detach()
    assert costs(lambda x: x * y, [x])[1] == (1, 3)
    assert costs(lambda x: y / x, [x])[1] == (1, 4)
    assert costs(lambda x: gg.maximum(x, y), [x])[1] == (1, 4)
    assert costs(lambda x: gg.exp(x).sum(), [x])[1] == (1, 2)


def test_normalization_and_attention():
    """A kernel of the weights' cotangents reads both arrays; attention stores no weights."""
    x, weight, bias = leaf((4, 8, 128)), leaf(8), leaf(8)
    groups = costs(lambda *xs: gg.group_norm(*xs, groups=4), [x, weight, bias])
    assert groups == ((1, 2), (2, 5))
    assert costs(lambda x: gg.rms_norm(x), [leaf((32, 128))]) == ((1, 2), (1, 3))
    inputs = [leaf((1, 64, 64)) for _ in range(3)]
    assert costs(gg.attention, inputs) == ((1, 4), (2, 7.1))


def test_windows_of_a_convolution_take_the_memory_of_a_block(monkeypatch):
    """The windows of all images are nine times as large as these, 38 MB."""
    monkeypatch.setattr(cupy._raw, "computes", False)
    x = gg.zeros((16, 64, 32, 32), device="cuda", requires_grad=True)
    weight = gg.zeros((64, 64, 3, 3), device="cuda", requires_grad=True)
    block, memory = 20 << 20, cupy.get_default_memory_pool()
    memory.free_all_blocks()
    before = memory.used_bytes()
    out = gg.convolution(x, weight, padding=1)
    assert memory.total_bytes() - before <= out.array.nbytes + block + 2**20
    g = gg.ones_like(out)
    grads = grad(out, [x, weight], g)
    results = sum(y.array.nbytes for y in (out, g, *grads))
    assert memory.total_bytes() - before <= results + 2 * block + 2**20


def test_what_has_no_kernel_is_searched_for_nan_once():
    """The result of the definition's VJP is read; only near a nan is more read or written."""
    x, row = leaf((64, N // 64)), leaf(N // 64).detach()
    assert costs(lambda x: x * row, [x])[1] == (2, 3)  # 2 for the product

    c, g = cupy.full(N, np.inf, "float32"), cupy.ones(N, "float32")
    c[:4] = np.nan
    g[1] = 0
    with traffic() as recorded:
        zero_discarded_nans(c, g, in_place=True)
    assert cost(recorded) == (1, 1)
    assert (recorded[0].read, recorded[0].written) == (4 * N + 16, 16)
