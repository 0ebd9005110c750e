"""Gradient clipping: the same results as PyTorch's, in memory that only the gradients use."""

import math

import numpy as np
import pytest
from optimizers import normal

import gpugrad as gg
from gpugrad.nn.utils import clip_grad_norm_, clip_grad_value_


def gradients(dtype, seed=0):
    rng = np.random.default_rng(seed)
    return [normal(rng, shape, dtype) for shape in ((3, 4), (5,), (), (0, 2))]


def with_gradients(library, grads, layout="contiguous"):
    """Return parameters of the library with these gradients."""
    parameters = [library.tensor(np.zeros_like(g), requires_grad=True) for g in grads]
    for p, g in zip(parameters, grads, strict=True):
        p.grad = library.tensor(g, layout)
    return parameters


def total(grads, norm_type):
    if norm_type == 0:  # the 0-norm of the norms, as in PyTorch
        return float(sum(bool(g.any()) for g in grads))
    return np.linalg.norm(np.concatenate([g.ravel().astype("c16") for g in grads]), norm_type)


NEAR = {"float16": 2e-3, "float32": 1e-6, "complex64": 1e-6}


def check_norm(library, grads, dtype, max_norm, norm_type, layout="contiguous"):
    """Clips the gradients, whose norm is of a dtype, and compares with the formula."""
    parameters = with_gradients(library, grads, layout)
    norm = clip_grad_norm_(parameters, max_norm, norm_type)
    assert (norm.shape, library.dtype(norm.dtype)) == ((), dtype)
    near = max(NEAR.get(str(g.dtype), 1e-12) for g in grads)
    expected = total(grads, float(norm_type))
    np.testing.assert_allclose(library.values(norm), expected, rtol=near)
    factor = min(1, max_norm / (expected + 1e-6))
    for p, g in zip(parameters, grads, strict=True):
        assert p.grad.dtype == p.dtype
        np.testing.assert_allclose(library.values(p.grad), factor * g, rtol=near, atol=near / 10)


def test_clip_by_value(library):
    grads = [*gradients("float64"), *gradients("float32")]
    parameters = with_gradients(library, grads)
    assert clip_grad_value_(parameters, 0.2) is None
    for p, g in zip(parameters, grads, strict=True):
        clipped = np.clip(g, *np.array([-0.2, 0.2], g.dtype))
        np.testing.assert_array_equal(library.values(p.grad), clipped)


@pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning")  # in torch itself
@pytest.mark.parametrize("norm_type", [2.0, 1, 3.5, "inf", 0])
@pytest.mark.parametrize("max_norm", [0.5, 1000.0, 0])
def test_clip_by_norm(library, norm_type, max_norm):
    for dtype in filter(library.has, ["float64", "float32", "float16", "complex64"]):
        real = dtype.replace("complex64", "float32")
        check_norm(library, gradients(dtype), real, max_norm, norm_type)
    for layout in "transposed", "strided", "reversed":
        check_norm(library, gradients("float32"), "float32", max_norm, norm_type, layout)
    check_norm(library, gradients("float32")[:1], "float32", max_norm, norm_type)
    both = [*gradients("float32"), *gradients("float64", 1)]
    check_norm(library, both, "float64", max_norm, norm_type)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_sums_of_halves_do_not_overflow():
    p = gg.zeros((4096,), dtype=gg.float16, requires_grad=True)
    for value, norm in (1000.0, 64000), (30000.0, math.inf):  # float16 has no number for the second
        p.grad = gg.full((4096,), value, dtype=gg.float16)
        assert clip_grad_norm_(p, 64.0).item() == norm
        np.testing.assert_allclose(p.grad.numpy(), 1, rtol=1e-3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite(library, value):
    p, q = with_gradients(library, [np.array([1.0, value]), np.array([2.0])])
    norm, least = clip_grad_norm_([p, q], 1.0), math.nan if math.isnan(value) else 0
    for x, expected in (norm, value), (p.grad, [least, math.nan]), (q.grad, [least]):
        np.testing.assert_equal(library.values(x), expected)


def test_without_gradients():
    p, q = (gg.ones(3, requires_grad=True) for _ in range(2))
    assert clip_grad_norm_([], 1.0).item() == clip_grad_norm_([p], 1.0).item() == 0
    q.grad = gg.ones(3)
    assert clip_grad_norm_(iter([p, q]), math.inf).item() == pytest.approx(3**0.5)
    clip_grad_value_([p, q], 0.5)
    assert p.grad is None
    assert q.grad.tolist() == [0.5] * 3


CLIPS = {"norm": lambda p: clip_grad_norm_(p, 0.5), "value": lambda p: clip_grad_value_(p, 0.5)}


each_clip = pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)


@each_clip
def test_a_gradient_stays_the_same_tensor_and_a_shared_one_is_clipped_once(library, clip):
    p, q = with_gradients(library, [np.full(4, 2.0), np.zeros(4)])
    q.grad = grad = p.grad
    clip([p, q, p])
    assert p.grad is grad
    assert ((0.24 <= library.values(grad)) & (library.values(grad) < 1)).all()


@each_clip
def test_no_other_tensor_or_array_changes(library, clip):
    array = library.array(np.full((2, 4), 2.0))
    p, q = with_gradients(library, [np.zeros((2, 4)), np.zeros(4)])
    p.grad, q.grad = gg.asarray(array), gg.asarray(array[1, :])
    detached = p.grad.detach()
    clip([p, q])
    for x in gg.asarray(array), detached:
        assert (library.values(x) == 2).all()
    for x in p, q:
        assert (library.values(x.grad) < 1).all()


@each_clip
def test_a_graph_that_saved_a_gradient_and_read_only_memory(clip):
    array = np.full(3, 2.0)
    array.flags.writeable = False
    w = gg.tensor(np.ones(3), requires_grad=True)
    for grad in gg.tensor(array), gg.asarray(array):
        p = gg.tensor(np.ones(3), requires_grad=True)
        p.grad, w.grad = grad, None
        later = (p.grad * w).sum()
        clip(p)
        later.backward()
        assert w.grad.tolist() == [2.0] * 3
        assert (p.grad.numpy() < 1).all()
        assert (array == 2).all()


@each_clip
def test_a_recorded_gradient_stays_as_it_was_recorded(clip):
    p = gg.tensor([1.0, 2.0], requires_grad=True)
    (p * p * p).sum().backward(create_graph=True)
    recorded = p.grad
    clip(p)
    assert p.grad.node is None
    assert recorded.tolist() == [3.0, 12.0]
    assert gg.autograd.grad(recorded.sum(), p)[0].tolist() == [6.0, 12.0]


REFUSED = [
    (lambda p: clip_grad_norm_(p, -1), ValueError, "max_norm must be a number of at least 0"),
    (lambda p: clip_grad_norm_(p, math.nan), ValueError, "max_norm must be .*, not nan"),
    (lambda p: clip_grad_value_(p, math.nan), ValueError, "clip_value must be .*, not nan"),
    (lambda p: clip_grad_norm_(p, 1, math.nan), ValueError, "norm_type must be .*, not nan"),
    (lambda p: clip_grad_value_(p, -1), ValueError, "clip_grad_value_: clip_value must be"),
    (lambda p: clip_grad_value_(p, 1), TypeError, "a gradient of complex64 has no order"),
    (lambda _: clip_grad_norm_(3.0, 1), TypeError, "must be an iterable of tensors, not a float"),
]


@pytest.mark.parametrize("clip, kind, message", REFUSED)
def test_parameters_that_cannot_be_clipped(clip, kind, message):
    p = gg.ones(2, dtype=gg.complex64, requires_grad=True)
    p.grad = gg.ones(2, dtype=gg.complex64)
    with pytest.raises(kind, match=message):
        clip(p)
    assert p.grad.tolist() == [1, 1]
