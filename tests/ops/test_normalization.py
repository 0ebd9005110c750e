"""Layer and batch normalization: the layers, their running statistics, comparison to PyTorch."""

from functools import partial

import numpy as np
import pytest
from samples import values

import gpugrad as gg
from gpugrad import nn, ones
from gpugrad.nn import functional as F
from gpugrad.testing import assert_close


def batch(*shape, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).normal(2.0, 3.0, shape).astype(dtype)


# Layer normalization


@pytest.mark.parametrize("call", [gg.layer_norm, gg.batch_norm])
def test_complex_numbers_are_rejected(call):
    with pytest.raises(TypeError, match="_norm: the inputs must be real"):
        call(ones((2, 3), dtype=gg.complex64))


@pytest.mark.parametrize("call", [gg.layer_norm, lambda x: gg.batch_norm(x)[0]])
def test_large_and_equal_values(call, library):
    """A large mean or variance does no harm, and equal elements give 0."""
    x = batch(6, 6)
    expected = library.values(call(library.tensor(x)))
    moved = library.tensor((x + 1000).astype("float32"))
    assert_close(library.values(call(moved)), expected, atol=2e-4)
    large = library.tensor((x * 1e15).astype("float32"))
    assert_close(library.values(call(large)), expected, atol=1e-5)
    equal = library.tensor(np.full((4, 4), 7.0), requires_grad=True)
    y = call(equal)
    y.sum().backward()
    for zeros in y, equal.grad:
        assert_close(library.values(zeros), np.zeros((4, 4)), atol=1e-9)


@pytest.mark.parametrize("call", [gg.layer_norm, lambda x: gg.batch_norm(x)[0]])
def test_float16_is_computed_in_float32(call):
    """The squares of these values, and sums of so many of them, overflow in float16."""
    x = batch(600, 600) * 30
    half = gg.tensor(x.astype("float16"), requires_grad=True)
    y = call(half)
    assert_close(values(y), values(call(gg.tensor(x))), atol=5e-3)
    y.sum().backward()
    assert y.dtype == half.grad.dtype == gg.float16
    assert np.isfinite(values(half.grad)).all()


# Batch normalization


def statistics(layer):
    return {name: b.tolist() for name, b in layer.named_buffers()}


NEW = {"running_mean": [0] * 3, "running_var": [1] * 3, "num_batches_tracked": 0}
X = gg.tensor(batch(8, 3, dtype=np.float32))


def test_resetting_running_statistics():
    layer = nn.BatchNorm1d(3)
    layer(X)
    assert layer.num_batches_tracked.item() == 1
    layer.reset_running_stats()
    assert statistics(layer) == NEW
    nn.BatchNorm1d(3, track_running_stats=False).reset_running_stats()


def test_an_empty_batch_does_not_change_statistics():
    layer = nn.BatchNorm1d(3)
    assert layer(ones((0, 3))).shape == (0, 3)
    assert statistics(layer) | {"num_batches_tracked": 0} == NEW


def test_statistics_move_and_keep_their_dtypes():
    assert nn.BatchNorm1d(3, dtype=gg.float64).running_mean.dtype == gg.float64
    layer = nn.BatchNorm1d(3).to(gg.float64)
    layer(gg.tensor(batch(8, 3)))
    assert [b.dtype for b in layer.buffers()] == [gg.float64, gg.float64, gg.int64]
    layer.to(gg.float16)
    for momentum in 0.1, None:
        layer.momentum = momentum
        y = layer(ones((2, 3), dtype=gg.float16))
        assert y.dtype == layer.running_mean.dtype == gg.float16
    layer = nn.BatchNorm1d(3)
    layer(gg.tensor(batch(8, 3), dtype=gg.float64))
    assert layer.running_mean.dtype == gg.float32


def test_backward_after_statistics_were_updated():
    """Statistics are replaced, not overwritten, so a graph keeps those it was computed with."""
    layer = nn.BatchNorm1d(3).eval()
    loss = layer(X).sum()
    layer.train()(X)
    loss.backward()
    assert_close(values(layer.weight.grad), values(X).sum(0), rtol=1e-5)


def test_functional_call_updates_the_statistics_it_is_given():
    layer = nn.BatchNorm1d(3)
    given = {name: gg.asarray(b, copy=True) for name, b in layer.named_buffers()}
    y = nn.functional_call(layer, given, X)
    assert (statistics(layer), given["num_batches_tracked"].item()) == (NEW, 1)
    assert values(y).tolist() == values(layer(X)).tolist()
    assert statistics(layer) == {name: b.tolist() for name, b in given.items()}


@pytest.mark.parametrize("momentum", [0.1, None])
def test_checkpoint_counts_a_batch_once(momentum):
    x = gg.tensor(X, requires_grad=True)
    plain, checkpointed = (nn.BatchNorm1d(3, momentum=momentum) for _ in range(2))
    nested, gradients = partial(gg.checkpoint, partial(gg.checkpoint, checkpointed)), []
    for layer, call in (plain, plain), (checkpointed, nested):
        gradients.append(gg.autograd.grad((call(x) ** 3).sum(), [x, layer.weight]))
        layer(x)
    for a, b in zip(*gradients, strict=True):
        assert_close(values(a), values(b), rtol=1e-6)
    assert statistics(plain) == statistics(checkpointed)


def test_vmap_uses_running_statistics_and_those_of_each_example():
    x, layer = gg.tensor(batch(4, 6, 3)), nn.BatchNorm1d(3, dtype=gg.float64)
    layer(x[0])
    for call in layer.eval(), nn.BatchNorm1d(3, track_running_stats=False, dtype=gg.float64):
        assert_close(values(gg.vmap(call)(x)), np.stack([values(call(a)) for a in x]))


def test_vmap_rejects_mixing_the_statistics_of_examples():
    layer = nn.BatchNorm1d(3)
    with pytest.raises(ValueError, match=r"batch_norm: inside vmap .*eval"):
        gg.vmap(layer)(gg.tensor(batch(4, 6, 3, dtype=np.float32)))
    assert statistics(layer) == NEW


@pytest.mark.parametrize("call, words", [
    (lambda: nn.LayerNorm(()), "normalized_shape must name at least one axis"),
    (lambda: nn.LayerNorm((3, 0)), "normalized_shape must be an int of at least 1, not 0"),
    (lambda: nn.LayerNorm((3, 4))(ones((3, 3))), r"last axes.*\(3, 4\).*\(3, 3\)"),
    (lambda: F.layer_norm(ones(4), ()), "at least one"),
    (lambda: F.layer_norm(ones(4), (4,), ones(3)),
     r"weight must have the shape \(4,\) of the last axes of x, not \(3,\)"),
    (lambda: gg.layer_norm(ones((2, 4)), None, ones(2)), r"bias must have the shape \(4,\)"),
    (lambda: gg.layer_norm(ones((2, 4)), ndim=3), r"1 to 2, not 3; given .*\(2, 4\)"),
    (lambda: gg.layer_norm(ones((2, 4)), ndim=0), "1 to 2, not 0; given"),
    (lambda: nn.BatchNorm1d(0), "num_features must be an int of at least 1, not 0"),
    (lambda: nn.BatchNorm1d(3)(ones(3)), r"\(n, 3\) or \(n, 3, length\), not \(3,\)"),
    (lambda: nn.BatchNorm1d(3)(ones((2, 3, 1, 1))), r"not \(2, 3, 1, 1\)"),
    (lambda: nn.BatchNorm1d(3)(ones((1, 3))),
     r"the input's shape must hold more than one element per channel, not \(1, 3\)$"),
    (lambda: F.batch_norm(ones((2, 3)), None, None), "needs running_mean and running_var"),
    (lambda: F.batch_norm(ones((2, 3)), None, ones(2)),
     r"running_var must have shape \(3,\).*not \(2,\)"),
    (lambda: F.batch_norm(ones(3), None, None, training=True), r"not \(3,\)"),
    (lambda: gg.batch_norm(ones((2, 3)), ones(2)),
     r"weight must have the shape \(3,\) of the channels of x, not \(2,\)"),
    (lambda: gg.batch_norm(ones(3)), r"\(n, channels, ...\), not \(3,\)"),
])  # fmt: skip
def test_shapes_that_do_not_fit(call, words):
    with pytest.raises(ValueError, match=rf"^(Layer|layer_|Batch|batch_)[Nn]orm(1d)?: .*{words}"):
        call()
