"""On the stand-in, a compiled loss, its cotangent and what is around them are one kernel."""

from functools import partial

import numpy as np
import pytest
from definitions import launched_by_graph

import gpugrad as gg

BOTH = "cross_entropy_and_backward"


def check(function, *arrays, names, near=1e-5):
    """The results equal those on a CPU in float64, and these kernels are launched."""
    _, results, found = launched_by_graph(function, *[gg.asarray(x).to("cuda") for x in arrays])
    assert sorted(found) == sorted(names), found
    wide = [x.astype("float64") if x.dtype.kind == "f" else x for x in arrays]
    for got, expected in zip(results, function(*map(gg.asarray, wide)), strict=True):
        got, expected = got.cpu().numpy().astype("float64"), expected.numpy()
        np.testing.assert_allclose(got, expected, rtol=near, atol=near * np.abs(expected).max())


def given(*shape, dtype="float32"):
    """Inputs, a weight and a bias, and labels for each row, some of which are to be ignored."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, shape[-1], int(np.prod(shape[:-1])))
    labels[1::3] = -100
    shapes = (*shape[:-1], 4), (shape[-1], 4), shape[-1:]
    return *[rng.standard_normal(s).astype(dtype) for s in shapes], labels


def entropy(h, labels, **options):
    return gg.cross_entropy(gg.reshape(h, (-1, h.shape[-1])), labels, **options)


def step(loss=entropy, between=lambda h, weight, bias, value: (value, [])):
    """A step of a linear layer; ``between`` returns what has the gradient, and other results."""

    def f(x, weight, bias, labels):
        leaves, g = [x.detach().requires_grad_() for x in (weight, bias)], x[..., 0]
        h = gg.linear(x, *leaves)
        value = loss(h, labels)
        of, more = between(h, *leaves, value)
        grads = gg.autograd.grad(of, leaves, g if of.ndim else None)
        return [y.detach() for y in (value, *grads, *more)]

    return f


@pytest.mark.parametrize("shape", [(3, 2), (40, 10), (2, 30, 64), (300, 64), (6, 1030)])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_cross_entropy(reduction, shape):
    check(step(partial(entropy, reduction=reduction)), *given(*shape), names=["gemm", BOTH, "gemm"])


@pytest.mark.parametrize("shape, dtype, names, near", [
    ((40, 10), "float16", [], 4e-3), ((40, 10), "float64", [], 1e-12),
    ((5000, 3), "float32", ["count_labels"], 1e-4),  # which several blocks count
    ((900, 300), "float32", ["sum_rows"], 1e-4),  # more than a block can add up
    ((3, 8200), "float32", ["add", "sum_rows"], 1e-4),  # more columns than registers
])  # fmt: skip
def test_other_sizes(shape, dtype, names, near):
    check(step(), *given(*shape, dtype=dtype), names=["gemm", BOTH, "gemm", *names], near=near)


def test_losses_of_rows():
    def each(h, labels):
        return gg.cross_entropy(h, labels, reduction="none")

    # astype: a copy of the cotangent, a column
    check(step(each), *given(9, 5), names=["gemm", "astype", BOTH, "gemm"])


def test_logits_that_are_needed():
    names = ["gemm", "add", BOTH, "gemm"]
    check(step(between=lambda h, w, b, value: (value, [h])), *given(9, 5), names=names)


def test_a_bias_that_is_changed_first():
    """The bias is added before it is overwritten, by a call of its own."""

    def between(h, weight, bias, value):
        with gg.no_grad():
            changed = bias * 2
        return value, [changed]

    check(step(between=between), *given(9, 5), names=["gemm", BOTH, "gemm", "multiply"])


def test_a_cotangent_of_the_loss():
    """A cotangent that depends on the loss must come after it."""
    names = "gemm add cross_entropy cross_entropy_backward gemm sum_rows fused".split()
    check(step(between=lambda h, w, b, value: (value * value, [])), *given(9, 5), names=names)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(9, 5), (300, 70)])
def test_squared_errors(reduction, shape):
    def loss(h, labels):
        return gg.mse(h, gg.ones_like(h), reduction=reduction)

    check(step(loss), *given(*shape), names=["gemm", "add", "mse", "gemm", "sum_rows"], near=1e-4)
