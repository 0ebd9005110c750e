"""The kernels of neural network ops on the stand-in for CuPy equal the ops' definitions."""

import cupy
import definitions
import numpy as np
import pytest
from definitions import LAYOUTS, agree, both, by_definition, by_twin, declines, numbers, only

from gpugrad.autograd.operation import Op
from gpugrad.backends.cupy.kernels import loader
from gpugrad.kernels.cuda import neural as kernels

OPS = {name: op for name, op in Op.registry.items() if "cupy" in op.twins}
COLUMNS = 1, 2, 10, 31, 33, 128, 257, 1000, 1024, 1025, 1056, 8200, 8209


def special_rows(columns, dtype):
    """Return rows with infinities, nan and values that overflow; the last is all -inf."""
    x = numbers(8, columns, dtype=dtype)
    x[1, columns // 2] = -np.inf
    x[2, -1] = np.inf
    x[3, 0] = np.nan
    x[4] *= 5e3
    x[5] = 0
    x[6, ::2] = -np.inf
    x[7] = -np.inf
    return x


def test_sigmoid(dtype):
    """Small results keep their digits."""
    for n in (0, 1, 7, 8, 1000, 1025):
        x = 5 * numbers(n, dtype=dtype)
        x[:4] = [0, np.nan, np.inf, -np.inf][: min(n, 4)]
        both(OPS["sigmoid"], "forward", x, along=-1)
    x = np.array([-700.0, -40, 40, 800])
    found = by_twin(OPS["sigmoid"], "forward", x).get()
    assert np.allclose(found, 1 / (1 + np.exp(-x)), rtol=1e-15)


def operands(shape, dtype):
    """Rows, a weight and a bias of a layer with a result of this shape."""
    shapes = (*shape[:-1], 6), (shape[-1], 6), shape[-1:]
    return [numbers(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)]


each_activation = pytest.mark.parametrize("activation", ["relu", "sigmoid", "tanh"])
SHAPES = (1, 5), (128, 10), (2, 3, 33), (300, 1000), (257, 100), (1100, 1024)


@each_activation
@pytest.mark.parametrize("shape", [(5,), *SHAPES[:4], (0, 4)])
def test_dense(shape, activation, dtype):
    *layer, bias = operands(shape, dtype)
    both(OPS["dense"], "forward", *layer, bias, along=-1, activation=activation)
    both(OPS["dense"], "forward", *layer, None, along=-1, activation=activation)
    both(OPS["linear"], "forward", *layer, bias, along=-1)


@each_activation
@pytest.mark.parametrize("shape", SHAPES)
def test_cotangents_of_dense(shape, activation, dtype):
    op, (x, weight, _) = OPS["dense"], operands(shape, dtype)
    out = by_definition(op, "forward", x, weight, activation=activation).astype(dtype)
    given = numbers(*shape, dtype=dtype, seed=2), x, weight, out
    *expected, to_rows = by_definition(op, "joint", *given, activation, (True, True, True))
    expected.append(to_rows.reshape(-1, shape[-1]).sum(0))
    for wanted in [(True, True, True), (False, True, True), (True, False, False), (True, True)]:
        got = by_twin(op, "joint", *given, activation=activation, wanted=wanted)
        agree(got, only((*wanted, False)[:3], expected), dtype, -1)


PLACES = [((5, 7, 16), 1), ((9, 3, 5), -2), ((33, 40), 0), ((4, 3, 300, 10), 3)]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
class TestSoftmax:
    @pytest.mark.parametrize("columns", COLUMNS)
    def test_rows(self, name, columns, dtype):
        x, op = special_rows(columns, dtype), OPS[name]
        both(op, "forward", x, along=-1, axis=-1)
        both(op, "forward", x[0], along=-1, axis=0)
        out = by_definition(op, "forward", x).astype(dtype)
        both(op, "x", numbers(*x.shape, dtype=dtype, seed=1), out, along=-1, axis=1)

    @pytest.mark.parametrize("shape, axis", PLACES)
    @pytest.mark.parametrize("columns", [1 << 14, 1])
    def test_along_an_axis(self, name, columns, shape, axis, dtype, monkeypatch):
        monkeypatch.setattr(kernels, "_COLUMNS", columns)
        n, op = shape[axis], OPS[name]
        x = numbers(np.prod(shape) // n, n, dtype=dtype)
        rows = special_rows(n, dtype)[: len(x)]
        x[: len(rows)] = rows
        x = np.moveaxis(x.reshape(*np.delete(shape, axis), n), -1, axis).copy()
        both(op, "forward", x, along=axis, axis=axis)
        out = by_definition(op, "forward", x, axis=axis).astype(dtype)
        both(op, "x", numbers(*shape, dtype=dtype, seed=1), out, along=axis, axis=axis)


def test_blocks_have_enough_registers():
    """With 256 threads a kernel has 255 for each, of which the sources need up to 216."""
    for name in ("softmax", "softmax_backward", "cross_entropy", "cross_entropy_backward"):
        for dtype in loader.TYPES:
            assert loader.kernel("neural", name, np.dtype(dtype)).kernel.most == 256


def labels(rows, columns, dtype="int64"):
    target = np.random.default_rng(3).integers(0, columns, rows).astype(dtype)
    target[1::3] = columns  # not a class
    target[2::5] = -1
    target[3::4] = -100  # to be ignored
    return target


def entropy(g, x, target, reduction, ignored):
    """The loss and its cotangent as on a GPU, where labels that are not classes have no logit."""
    g, x = (a.astype("float64") for a in (g, x))
    shifted = x - x.max(-1, keepdims=True)
    e, counted = np.exp(shifted), np.asarray(target != ignored)
    one_hot = target[..., None] == np.arange(x.shape[-1])
    losses = np.log(e.sum(-1)) - np.where(one_hot, shifted, 0).sum(-1)
    losses, n = np.where(counted, losses, 0), counted.sum() if reduction == "mean" else 1
    each = g[..., None] if reduction == "none" else g / max(n, 1)
    to_x = np.where(counted[..., None], each * (e / e.sum(-1, keepdims=True) - one_hot), 0)
    return losses if reduction == "none" else losses.sum() / n, to_x


@np.errstate(all="ignore")
def check_entropy(x, target, reduction, ignored=-100):
    options = {"reduction": reduction, "ignore_index": ignored}
    g = numbers(*np.shape(target)[: reduction == "none"], dtype=x.dtype, seed=1)
    op, given = OPS["cross_entropy"], (x, np.asarray(target))
    loss, to_x = entropy(g, *given, reduction, ignored)
    agree(by_twin(op, "forward", *given, **options), loss, x.dtype, -1)
    agree(by_twin(op, "logits", g, *given, **options), to_x, x.dtype, -1)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("columns", COLUMNS)
def test_cross_entropy(columns, reduction, dtype):
    x = numbers(9, columns, dtype=dtype)
    check_entropy(x, labels(9, columns), reduction)
    check_entropy(x[0], labels(1, columns)[0], reduction)
    check_entropy(x, np.full(9, -100), reduction)
    if reduction == "none":
        check_entropy(special_rows(columns, dtype), labels(8, columns, "int32"), reduction)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("rows", [1, 20, 1000, 1030, 5000, 40_000])
def test_cross_entropy_of_many_rows(rows, reduction):
    x = numbers(rows, 7, dtype="float32")
    check_entropy(x, labels(rows, 7), reduction)
    check_entropy(x, np.arange(rows) % 7, reduction, ignored=3)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(), (1,), (3, 33), (1 << 14,), (5, 10_000)])
def test_mse(shape, reduction, dtype):
    x, target = (numbers(*shape, dtype=dtype, seed=i) for i in range(2))
    x.flat[::2] = target.flat[::2]
    out = both(OPS["mse"], "forward", x, target, along=-1, reduction=reduction)
    g = numbers(*out.shape, dtype=dtype, seed=3)
    for name in ("x", "target"):
        both(OPS["mse"], name, g, x, target, along=-1, reduction=reduction)


def test_what_is_left_to_the_definitions():
    x, target, few = cupy.zeros((3, 4)), cupy.zeros(3, "int64"), cupy.zeros((1 << 17, 2))
    softmax, entropy, mse = (OPS[name] for name in ("softmax", "cross_entropy", "mse"))
    assert declines(softmax, "forward", few, 0)  # each of the columns is processed by one thread
    for axis in (None, (0, 1), 2, -3):
        assert declines(softmax, "forward", x, axis)
        assert declines(softmax, "x", x, x, axis)
    for other in (cupy.zeros((0, 3)), cupy.zeros(()), cupy.zeros((2, 3), "complex64")):
        assert declines(softmax, "forward", other)
    for wrong in [(x, target[:2]), (x[:0], target[:0]), (x, target.astype("int8"))]:
        assert declines(entropy, "forward", *wrong)
    assert declines(entropy, "forward", x, target, reduction="least")
    assert declines(entropy, "forward", x, target, ignore_index=None)
    for pair in ((x, x[0]), (x, x.astype("float32")), (x[:0], x[:0])):
        assert declines(mse, "forward", *pair)
    for activation in ("gelu", "none"):
        assert declines(OPS["dense"], "forward", x, x, activation=activation)
    assert declines(OPS["linear"], "forward", x, few, x[0])


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "broadcast"])
def test_layouts(layout, monkeypatch):
    """Of the arrays of each twin; those of an array that is broadcast would have other values."""

    def laid_out(x):
        return definitions.each(lambda a: LAYOUTS[layout](cupy.asarray(a)), x)

    monkeypatch.setattr(definitions, "on_device", laid_out)
    dtype = np.dtype("float32")
    test_sigmoid(dtype)
    for activation in ("relu", "sigmoid", "tanh"):
        test_dense((6, 10), activation, dtype)
        test_cotangents_of_dense((6, 10), activation, dtype)
    for name in ("softmax", "log_softmax"):
        TestSoftmax().test_rows(name, 10, dtype)
    for reduction in ("mean", "sum", "none"):
        test_cross_entropy(10, reduction, dtype)
        test_mse((6, 10), reduction, dtype)
