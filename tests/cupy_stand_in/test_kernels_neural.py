"""The kernels of neural network ops on the stand-in for CuPy equal the ops' definitions."""

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic
from definitions import agree, both, by_definition, by_twin, declines, in_float64, numbers

import gpugrad as gg
from gpugrad.autograd.operation import Op
from gpugrad.backends.cupy import xp
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


class TestActivations:
    @pytest.mark.parametrize("n", [0, 1, 7, 8, 1000, 1025])
    @pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh"])
    def test_twin(self, name, n, dtype):
        x, op = 5 * numbers(n, dtype=dtype), OPS[name]
        x[:4] = [0, np.nan, np.inf, -np.inf][: min(n, 4)]
        if name == "sigmoid":
            both(op, "forward", x, along=-1)
        out = by_definition(op, "forward", x).astype(dtype)
        both(op, "x", numbers(n, dtype=dtype, seed=1), out, along=-1)

    def test_small_sigmoids_keep_their_digits(self):
        x = np.array([-700.0, -40, 40, 800])
        found = by_twin(OPS["sigmoid"], "forward", x).get()
        assert np.allclose(found, 1 / (1 + np.exp(-x)), rtol=1e-15)


@pytest.mark.parametrize("activation", ["relu", "sigmoid", "tanh"])
class TestDense:
    def given(self, shape, dtype):
        x, weight = numbers(*shape[:-1], 6, dtype=dtype), numbers(shape[-1], 6, dtype=dtype, seed=1)
        return x, weight, numbers(shape[-1], dtype=dtype, seed=2)

    @pytest.mark.parametrize("shape", [(5,), (1, 5), (128, 10), (2, 3, 33), (300, 1000), (0, 4)])
    def test_forward(self, shape, activation, dtype):
        x, weight, bias = self.given(shape, dtype)
        both(OPS["dense"], "forward", x, weight, bias, along=-1, activation=activation)
        both(OPS["dense"], "forward", x, weight, None, along=-1, activation=activation)
        both(OPS["linear"], "forward", x, weight, bias, along=-1)

    @pytest.mark.parametrize(
        "shape", [(1, 5), (128, 10), (2, 3, 33), (257, 100), (300, 1000), (1100, 1024)]
    )
    def test_backward(self, shape, activation, dtype):
        op, (x, weight, _) = OPS["dense"], self.given(shape, dtype)
        out = by_definition(op, "forward", x, weight, activation=activation).astype(dtype)
        g = numbers(*shape, dtype=dtype, seed=2)
        for wanted in [(True, True, True), (False, True, True), (True, False, False), (True, True)]:
            kept = {"activation": activation, "wanted": wanted}
            if np.prod(shape) > 1e6 and not all(wanted):
                continue
            expected = by_definition(op, "joint", g, x, weight, out, **kept)
            expected = *expected[:2], expected[2].reshape(-1, shape[-1]).sum(0)
            expected = [e if w else None for e, w in zip(expected, (*wanted, False), strict=False)]
            agree(by_twin(op, "joint", g, x, weight, out, **kept), expected, dtype, -1)
        if np.prod(shape) < 1e6:
            rows = in_float64(g.reshape(-1, shape[-1]))
            sums = xp.sum(cupy.asarray(g), axis=tuple(range(g.ndim - 1)))  # as the sweep has it
            agree(sums, rows.sum(0), dtype, -1)


def test_sums_of_rows():
    """Also of rows that are not aligned; and they are the same each time."""
    g = cupy.asarray(numbers(1 + (1 << 20), dtype="float32"))
    found = []
    for start in (0, 1, 0):
        rows = g[start : start + (1 << 20)].reshape(1 << 10, 1 << 10)
        found.append(xp.sum(rows, axis=0).get())
        assert np.allclose(found[-1], rows.get().sum(0), atol=1e-3)
    assert found[0].tobytes() == found[2].tobytes()


def test_errors_of_dense_are_the_definitions():
    x, weight = (gg.ones(shape, device="cuda") for shape in [(2, 3), (4, 5)])
    with pytest.raises(ValueError, match="must be the in_features"):
        gg.dense(x, weight, None, activation="relu")
    for other in ("gelu", "none"):
        with pytest.raises(ValueError, match="activation must be 'relu', 'sigmoid' or 'tanh'"):
            gg.dense(x, weight[:, :3], None, activation=other)
    with pytest.raises(ValueError, match="bias must have shape"):
        gg.linear(x, weight[:, :3], gg.ones(3, device="cuda"))


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
class TestSoftmax:
    @pytest.mark.parametrize("columns", COLUMNS)
    def test_rows(self, name, columns, dtype):
        x, op = special_rows(columns, dtype), OPS[name]
        both(op, "forward", x, along=-1, axis=-1)
        both(op, "forward", x[0], along=-1, axis=0)
        out = by_definition(op, "forward", x).astype(dtype)
        both(op, "x", numbers(*x.shape, dtype=dtype, seed=1), out, along=-1, axis=1)

    @pytest.mark.parametrize(
        "shape, axis",
        [((5, 7, 16), 1), ((9, 3, 5), -2), ((33, 40), 0), ((4, 3, 300, 10), 3)],
    )
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


class TestCrossEntropy:
    OP = OPS["cross_entropy"]

    def labels(self, rows, columns, dtype="int64"):
        target = np.random.default_rng(3).integers(0, columns, rows).astype(dtype)
        target[1::3] = columns  # not a class
        target[2::5] = -1
        target[3::4] = -100  # to be ignored
        return target

    def expected(self, x, target, reduction, ignored):
        """Return the loss as on a GPU, where labels that are not classes have no logit."""
        x = in_float64(x)
        shifted = x - x.max(-1, keepdims=True)
        inside = (target >= 0) & (target < x.shape[-1])
        picked = np.take_along_axis(shifted, np.where(inside, target, 0)[..., None], -1)[..., 0]
        losses = np.log(np.exp(shifted).sum(-1)) - np.where(inside, picked, 0)
        losses = np.where(target == ignored, 0, losses)
        if reduction == "none":
            return losses
        return losses.sum() / ((target != ignored).sum() if reduction == "mean" else 1)

    def expected_cotangent(self, g, x, target, reduction, ignored):
        x = in_float64(x)
        e = np.exp(x - x.max(-1, keepdims=True))
        one_hot = target[..., None] == np.arange(x.shape[-1])
        counted = np.asarray(target != ignored)
        g = in_float64(g) / (max(counted.sum(), 1) if reduction == "mean" else 1)
        g = g[..., None] if reduction == "none" else g
        return np.where(counted[..., None], g * (e / e.sum(-1, keepdims=True) - one_hot), 0)

    @np.errstate(all="ignore")
    def check(self, x, target, reduction, ignored=-100):
        target, dtype = np.asarray(target), x.dtype
        options = {"reduction": reduction, "ignore_index": ignored}
        got = by_twin(self.OP, "forward", x, target, **options)
        agree(got, self.expected(x, target, reduction, ignored), dtype, -1)
        g = numbers(*got.shape, dtype=dtype, seed=1)
        got = by_twin(self.OP, "logits", g, x, target, **options)
        agree(got, self.expected_cotangent(g, x, target, reduction, ignored), dtype, -1)

    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("columns", COLUMNS)
    def test_twin(self, columns, reduction, dtype):
        x = numbers(9, columns, dtype=dtype)
        self.check(x, self.labels(9, columns), reduction)
        self.check(x[0], self.labels(1, columns)[0], reduction)
        if reduction == "none":
            self.check(special_rows(columns, dtype), self.labels(8, columns, "int32"), reduction)

    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("rows", [1, 20, 1000, 1030, 5000, 40_000])
    def test_many_rows(self, rows, reduction):
        x = numbers(rows, 7, dtype="float32")
        self.check(x, self.labels(rows, 7), reduction)
        self.check(x, np.arange(rows) % 7, reduction, ignored=3)

    def test_several_blocks_count_labels(self):
        x, target = numbers(20_000, 2, dtype="float32"), np.zeros(20_000, int)
        options = {"reduction": "mean", "ignore_index": -100}
        with traffic() as launches:
            by_twin(self.OP, "logits", np.ones((), "float32"), x, target, **options)
        assert [x.blocks >= 4 for x in launches if x.name == "count_labels"] == [True]

    def test_no_label_counts(self):
        self.check(numbers(4, 3, dtype="float32"), np.full(4, -100), "mean")


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


def calls():
    """Yield a call for each twin."""
    x, g, out = (numbers(6, 10, dtype="float32", seed=i) for i in range(3))
    weight, bias, target, number = x, g[0, :6], np.arange(6), np.asarray(g[0, 0])
    yield "relu", "x", (g, out), {}
    yield "sigmoid", "forward", (x,), {}
    yield "sigmoid", "x", (g, out), {}
    yield "tanh", "x", (g, out), {}
    yield "linear", "forward", (x, weight, bias), {}
    yield "dense", "forward", (x, weight, bias), {"activation": "tanh"}
    wanted = {"activation": "tanh", "wanted": (True, True, True)}
    yield "dense", "joint", (g[:, :6], x, weight, out[:, :6]), wanted
    for name in ("softmax", "log_softmax"):
        yield name, "forward", (x,), {"axis": -1}
        yield name, "x", (g, out), {"axis": -1}
    for reduction, to_x, to_logits in (("mean", number, number), ("none", g, g[:, 0])):
        static = {"reduction": reduction}
        yield "cross_entropy", "forward", (x, target), static
        yield "cross_entropy", "logits", (to_logits, x, target), static | {"ignore_index": -100}
        yield "mse", "forward", (x, out), static
        yield "mse", "x", (to_x, x, out), static


LAYOUTS = {
    "transposed": lambda x: cupy.asarray(np.array(x.T)).T,
    "strided": lambda x: cupy.asarray(np.repeat(x, 2, -1))[..., ::2] if x.ndim else cupy.asarray(x),
    "misaligned": lambda x: cupy.asarray(np.append(x.ravel()[:1], x))[1:].reshape(x.shape),
    "reversed": lambda x: cupy.asarray(x[::-1].copy())[::-1] if x.ndim else cupy.asarray(x),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("call", list(calls()), ids=lambda call: "-".join(call[:2]))
def test_layouts(call, layout):
    name, part, inputs, static = call
    expected = by_twin(OPS[name], part, *inputs, **static)
    got = OPS[name].twins["cupy"][part](xp, *map(LAYOUTS[layout], inputs), **static)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, expected)], strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=1e-6, atol=1e-7)
