"""Gradient clipping: the same results as PyTorch's, in memory that only the gradients use."""

import math

import numpy as np
import pytest

import gpugrad
from gpugrad import nn
from gpugrad.nn.utils import clip_grad_norm_, clip_grad_value_

SHAPES = (3, 4), (5,), (), (0, 2)


def gradients(dtype, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    grads = [rng.normal(size=shape) + 1j * rng.normal(size=shape) for shape in SHAPES]
    if np.dtype(dtype).kind != "c":
        grads = [g.real for g in grads]
    return [np.asarray(scale * g, dtype) for g in grads]


def with_gradients(library, grads, layout="contiguous"):
    """Return parameters of the library with these gradients."""
    parameters = [library.tensor(np.zeros_like(g), requires_grad=True) for g in grads]
    for p, g in zip(parameters, grads, strict=True):
        p.grad = library.tensor(g, layout)
    return parameters


def total(grads, norm_type):
    flat = np.concatenate([g.astype("complex128").ravel() for g in grads])
    if norm_type == 0:  # the 0-norm of the norms, as in PyTorch
        return float(sum(bool(g.any()) for g in grads))
    return np.linalg.norm(flat, norm_type)


NEAR = {"float16": 2e-3, "float32": 1e-6, "complex64": 1e-6}


@pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning")  # in torch itself
@pytest.mark.parametrize("norm_type", [2.0, 1, 3.5, math.inf, 0])
@pytest.mark.parametrize("max_norm", [0.5, 1000.0, 0])
def test_clip_by_norm(library, norm_type, max_norm):
    for dtype in filter(library.has, ["float64", "float32", "float16", "complex64"]):
        grads = gradients(dtype)
        parameters = with_gradients(library, grads)
        norm = clip_grad_norm_(parameters, max_norm, norm_type)
        near = NEAR.get(dtype, 1e-12)
        expected = total(grads, norm_type)
        np.testing.assert_allclose(library.values(norm), expected, rtol=near)
        assert norm.shape == ()
        assert library.dtype(norm.dtype) == dtype.replace("complex64", "float32")
        factor = min(1, max_norm / (expected + 1e-6))
        for p, g in zip(parameters, grads, strict=True):
            assert p.grad.dtype == p.dtype
            clipped = library.values(p.grad)
            np.testing.assert_allclose(clipped, factor * g, rtol=near, atol=near / 10)


@pytest.mark.parametrize("norm_type", [2.0, 1, 3.5, math.inf, "inf", 0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_same_as_pytorch(dtype, norm_type):
    torch = pytest.importorskip("torch")
    grads = gradients(dtype)[:3]
    ours = [gpugrad.tensor(np.zeros_like(g), requires_grad=True) for g in grads]
    theirs = [torch.tensor(np.zeros_like(g), requires_grad=True) for g in grads]
    near = NEAR.get(dtype, 1e-13)
    for clip, of_torch, most in (
        (lambda p: clip_grad_norm_(p, 0.7, norm_type), "clip_grad_norm_", (0.7, norm_type)),
        (lambda p: clip_grad_value_(p, 0.2), "clip_grad_value_", (0.2,)),
    ):
        for p, q, g in zip(ours, theirs, grads, strict=True):
            p.grad = gpugrad.tensor(g)
            q.grad = torch.tensor(g)
        norm = clip(ours)
        expected = getattr(torch.nn.utils, of_torch)(theirs, *most)
        if norm is not None:
            np.testing.assert_allclose(norm.numpy(), expected, rtol=near)
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad, rtol=near, atol=near)


@pytest.mark.parametrize("layout", ["transposed", "strided", "reversed"])
def test_layouts(library, layout):
    grads = gradients("float32")
    parameters = with_gradients(library, grads, layout)
    clip_grad_norm_(parameters, 0.5)
    for p, g in zip(parameters, grads, strict=True):
        expected = g * (0.5 / (total(grads, 2) + 1e-6))
        np.testing.assert_allclose(library.values(p.grad), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_sums_of_halves_do_not_overflow():
    p = gpugrad.zeros((4096,), dtype=gpugrad.float16, requires_grad=True)
    p.grad = gpugrad.full((4096,), 1000.0, dtype=gpugrad.float16)
    assert clip_grad_norm_(p, 64.0).item() == 64000
    np.testing.assert_allclose(p.grad.numpy(), 1, rtol=1e-3)
    p.grad = gpugrad.full((4096,), 30000.0, dtype=gpugrad.float16)
    assert clip_grad_norm_(p, 64.0).item() == math.inf  # float16 has no such number
    np.testing.assert_allclose(p.grad.numpy(), 1, rtol=1e-3)


def test_gradients_of_several_dtypes(library):
    grads = [*gradients("float32"), *gradients("float64", 1)]
    parameters = with_gradients(library, grads)
    norm = clip_grad_norm_(parameters, 0.5)
    assert library.dtype(norm.dtype) == "float64"
    np.testing.assert_allclose(library.values(norm), total(grads, 2), rtol=1e-6)
    for p, g in zip(parameters, grads, strict=True):
        assert p.grad.dtype == p.dtype
        expected = g * (0.5 / (total(grads, 2) + 1e-6))
        np.testing.assert_allclose(library.values(p.grad), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_values_that_are_not_finite(library, value):
    p, q = with_gradients(library, [np.array([1.0, value]), np.array([2.0])])
    norm = clip_grad_norm_([p, q], 1.0)
    np.testing.assert_equal(library.values(norm), value)
    np.testing.assert_equal(library.values(p.grad), [np.nan if value != value else 0, np.nan])
    np.testing.assert_equal(library.values(q.grad), [np.nan if value != value else 0])


def test_without_gradients():
    p = gpugrad.ones(3, requires_grad=True)
    q = gpugrad.ones(3, requires_grad=True)
    assert clip_grad_norm_([], 1.0).item() == clip_grad_norm_([p], 1.0).item() == 0
    q.grad = gpugrad.ones(3)
    assert clip_grad_norm_(iter([p, q]), math.inf).item() == pytest.approx(3**0.5)
    clip_grad_value_([p, q], 0.5)
    assert p.grad is None
    assert q.grad.tolist() == [0.5] * 3


CLIPS = {"norm": lambda p: clip_grad_norm_(p, 0.5), "value": lambda p: clip_grad_value_(p, 0.5)}


@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)
class TestGradientsInUseElsewhere:
    def test_the_gradient_is_the_same_tensor(self, library, clip):
        (p,) = with_gradients(library, [np.full(4, 2.0)])
        grad = p.grad
        clip(p)
        assert p.grad is grad
        assert (library.values(grad) < 1).all()

    def test_no_other_tensor_or_array_changes(self, library, clip):
        array = library.array(np.full((2, 4), 2.0))
        p = library.tensor(np.zeros((2, 4)), requires_grad=True)
        q = library.tensor(np.zeros(4), requires_grad=True)
        p.grad, q.grad = gpugrad.asarray(array), gpugrad.asarray(array[1, :])
        detached = p.grad.detach()
        clip([p, q])
        for x in gpugrad.asarray(array), detached:
            assert (library.values(x) == 2).all()
        assert (library.values(p.grad) < 1).all()
        assert (library.values(q.grad) < 1).all()

    def test_a_shared_gradient_is_clipped_once(self, library, clip):
        p, q = with_gradients(library, [np.full(4, 2.0), np.zeros(4)])
        q.grad = p.grad
        clip([p, q, p])
        assert (library.values(p.grad) >= 0.24).all()

    def test_backward_through_a_graph_that_saved_it(self, clip):
        w = gpugrad.ones(3, requires_grad=True)
        p = gpugrad.ones(3, requires_grad=True)
        p.grad = gpugrad.full(3, 2.0)
        later = (p.grad * w).sum()
        clip(p)
        later.backward()
        assert w.grad.tolist() == [2.0] * 3

    def test_a_recorded_gradient_stays_as_it_was_recorded(self, clip):
        p = gpugrad.tensor([1.0, 2.0], requires_grad=True)
        (p * p * p).sum().backward(create_graph=True)
        recorded = p.grad
        clip(p)
        assert p.grad.node is None
        assert recorded.tolist() == [3.0, 12.0]
        (second,) = gpugrad.autograd.grad(recorded.sum(), p)
        assert second.tolist() == [6.0, 12.0]

    def test_read_only_memory(self, clip):
        array = np.full(3, 2.0)
        array.flags.writeable = False
        p = gpugrad.zeros(3, dtype=gpugrad.float64, requires_grad=True)
        p.grad = gpugrad.asarray(array)
        clip(p)
        assert (p.grad.numpy() < 1).all()
        assert (array == 2).all()


@pytest.mark.parametrize(
    "clip, kind, message",
    [
        (lambda p: clip_grad_norm_(p, -1), ValueError, "max_norm must be a number of at least 0"),
        (lambda p: clip_grad_norm_(p, math.nan), ValueError, "max_norm must be .*, not nan"),
        (lambda p: clip_grad_norm_(p, 1, math.nan), ValueError, "norm_type must be .*, not nan"),
        (lambda p: clip_grad_value_(p, -1), ValueError, "clip_grad_value_: clip_value must be"),
        (lambda p: clip_grad_value_(p, 1), TypeError, "a gradient of complex64 has no order"),
        (lambda _: clip_grad_norm_(nn.ReLU(), 1), TypeError, "clip_grad_norm_: .* is a module; "),
        (lambda _: clip_grad_value_(nn.ReLU(), 1), TypeError, r"pass model\.parameters\(\)"),
        (lambda _: clip_grad_norm_(3.0, 1), TypeError, "parameters must be tensors, not 3.0"),
    ],
)
def test_parameters_that_cannot_be_clipped(clip, kind, message):
    p = gpugrad.ones(2, dtype=gpugrad.complex64, requires_grad=True)
    p.grad = gpugrad.ones(2, dtype=gpugrad.complex64)
    with pytest.raises(kind, match=message):
        clip(p)
    assert p.grad.tolist() == [1, 1]


def test_training_with_clipped_gradients():
    gpugrad.manual_seed(0)
    model = nn.MLP(3, [4, 1])
    optimizer = gpugrad.optim.SGD(model.parameters(), lr=1.0)
    before = [p.detach().numpy().copy() for p in model.parameters()]
    x = gpugrad.random.normal((8, 3))
    (100 * model(x)).sum().backward()
    assert clip_grad_norm_(model.parameters(), 0.1).item() > 10
    optimizer.step()
    moved = [p.detach().numpy() - b for p, b in zip(model.parameters(), before, strict=True)]
    assert math.sqrt(sum((m**2).sum() for m in moved)) == pytest.approx(0.1, rel=1e-4)
