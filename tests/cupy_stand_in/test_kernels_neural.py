"""The kernels of neural network ops on the stand-in for CuPy equal the ops' definitions."""

import cupy
import numpy as np
import pytest
from cupy._raw import Kernel
from cupy._reads import reads
from cupy._traffic import traffic

import gpugrad as gg
from gpugrad.autograd.operation import Op
from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels import loader
from gpugrad.backends.numpy import backend as numpy
from gpugrad.kernels.cuda import neural as kernels

twins = {name: op.twins["cupy"] for name, op in Op.registry.items() if "cupy" in op.twins}

NEAR = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
COLUMNS = 1, 2, 10, 31, 33, 128, 257, 1000, 1024, 1025, 1056, 8200, 8209
MANY_ROWS = 300


@pytest.fixture(params=loader.TYPES)
def dtype(request):
    if request.param == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(request.param)


def numbers(*shape, dtype, scale=1.0, seed=0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def on_device(x):
    return cupy.asarray(x) if isinstance(x, np.ndarray) else x


def twin(name, part, *inputs, **static):
    """Run the kernel on NumPy arrays; return its results."""
    reads.clear()
    static = {k: on_device(x) for k, x in static.items()}
    out = twins[name][part](xp, *map(on_device, inputs), **static)
    assert out is not NotImplemented
    assert reads == []
    return out


def is_floating(x):
    return isinstance(x, np.ndarray) and x.dtype.kind in "fV"


def in_float64(x):
    return x.astype("float64") if is_floating(x) else x


def by_definition(name, part, *inputs, **static):
    """Run the op's definition on NumPy arrays in float64; return its results."""
    op = Op.registry[name]
    function = {"forward": op.forward, "joint": op.joint, **op.rules}[part]
    with np.errstate(all="ignore"):
        return function(numpy.xp, *map(in_float64, inputs), **static)


def agree(got, expected, dtype):
    assert got.dtype == dtype
    assert got.shape == expected.shape
    near = NEAR[dtype.name]
    got, expected = np.atleast_1d(in_float64(got.get()), expected)
    finite = np.isfinite(expected)
    assert np.array_equal(got[~finite], expected[~finite], equal_nan=True)
    errors = np.abs(np.subtract(got, expected, where=finite, out=np.zeros_like(got)))
    scale = np.max(np.abs(expected), axis=-1, keepdims=True, where=finite, initial=0)
    assert (errors <= near * scale).all()


def both(name, part, *inputs, **static):
    (dtype,) = {x.dtype for x in inputs if is_floating(x)}
    agree(twin(name, part, *inputs, **static), by_definition(name, part, *inputs, **static), dtype)


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
        x = numbers(n, dtype=dtype, scale=5)
        x[:4] = [0, np.nan, np.inf, -np.inf][: min(n, 4)]
        if name == "sigmoid":
            both(name, "forward", x)
        out = by_definition(name, "forward", x).astype(dtype)
        both(name, "x", numbers(n, dtype=dtype, seed=1), out)

    def test_small_sigmoids_keep_their_digits(self):
        x = np.array([-700.0, -40, 40, 800])
        assert np.allclose(twin("sigmoid", "forward", x).get(), 1 / (1 + np.exp(-x)), rtol=1e-15)


class TestDense:
    ACTIVATIONS = "relu", "sigmoid", "tanh"

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize("shape", [(5,), (1, 5), (128, 10), (2, 3, 33), (300, 1000), (0, 4)])
    def test_forward(self, shape, activation, dtype):
        columns = shape[-1]
        x, weight = numbers(*shape[:-1], 6, dtype=dtype), numbers(columns, 6, dtype=dtype, seed=1)
        bias = numbers(columns, dtype=dtype, seed=2)
        both("dense", "forward", x, weight, bias, activation=activation)
        both("dense", "forward", x, weight, None, activation=activation)
        both("linear", "forward", x, weight, bias)

    @pytest.mark.parametrize("activation", ACTIVATIONS)
    @pytest.mark.parametrize(
        "shape", [(1, 5), (128, 10), (2, 3, 33), (257, 100), (MANY_ROWS, 1000), (1100, 1024)]
    )
    def test_backward(self, shape, activation, dtype):
        columns = shape[-1]
        x, weight = numbers(*shape[:-1], 6, dtype=dtype), numbers(columns, 6, dtype=dtype, seed=1)
        out = by_definition("dense", "forward", x, weight, activation=activation).astype(dtype)
        g = numbers(*shape, dtype=dtype, seed=2)
        for wanted in [(True, True, True), (False, True, True), (True, False, False), (True, True)]:
            kept = {"activation": activation, "wanted": wanted}
            if np.prod(shape) > 1e6 and not all(wanted):
                continue
            expected = by_definition("dense", "joint", g, x, weight, None, out, **kept)
            got = twin("dense", "joint", g, x, weight, out, **kept)
            assert [c is not None for c in got] == [*wanted, False][:3]
            for c, e in zip(got[:2], expected[:2], strict=True):
                if c is not None:
                    agree(c, e, dtype)
            if got[2] is not None:
                agree(got[2], expected[2].reshape(-1, columns).sum(0), dtype)
        if np.prod(shape) < 1e6:
            rows = g.reshape(-1, columns)
            agree(twin("linear", "bias", g), in_float64(rows).sum(0), dtype)

    def test_rows_that_are_not_aligned(self):
        g = cupy.asarray(numbers(1 + (1 << 20), dtype="float32"))
        for start in (0, 1):
            rows = g[start : start + (1 << 20)].reshape(1 << 10, 1 << 10)
            got = twins["linear"]["bias"](xp, rows)
            assert np.allclose(got.get(), rows.get().sum(0), atol=1e-3)

    def test_a_sum_is_the_same_each_time(self):
        g = cupy.asarray(numbers(5000, 40, dtype="float32"))
        sums = [twins["linear"]["bias"](xp, g).get().tobytes() for _ in range(3)]
        assert len(set(sums)) == 1

    def test_the_definition_raises(self):
        x, weight = (gg.ones(shape, device="cuda") for shape in [(2, 3), (4, 5)])
        with pytest.raises(ValueError, match="must be the in_features"):
            gg.dense(x, weight, None, activation="relu")
        for other in ("gelu", "none"):
            with pytest.raises(ValueError, match="activation must be 'relu', 'sigmoid' or 'tanh'"):
                gg.dense(x, weight[:, :3], None, activation=other)
        with pytest.raises(ValueError, match="bias must have shape"):
            gg.linear(x, weight[:, :3], gg.ones(3, device="cuda"))


class TestRows:
    @pytest.mark.parametrize("columns", COLUMNS)
    @pytest.mark.parametrize("name", ["softmax", "log_softmax"])
    def test_softmax(self, name, columns, dtype):
        x = special_rows(columns, dtype)
        both(name, "forward", x, axis=-1)
        both(name, "forward", x, axis=1)
        both(name, "forward", x[0], axis=0)
        out = by_definition(name, "forward", x).astype(dtype)
        both(name, "x", numbers(*x.shape, dtype=dtype, seed=1), out, axis=-1)

    @pytest.mark.parametrize("shape, axis", [((5, 7, 16), 1), ((9, 3, 5), -2), ((33, 40), 0)])
    @pytest.mark.parametrize("columns", [1 << 14, 1])
    @pytest.mark.parametrize("name", ["softmax", "log_softmax"])
    def test_along_other_axes(self, name, columns, shape, axis, dtype, monkeypatch):
        monkeypatch.setattr(kernels, "_COLUMNS", columns)
        last = shape[axis], np.prod(shape) // shape[axis]
        rows = special_rows(shape[axis], dtype)[: last[1]]
        x = numbers(*last[::-1], dtype=dtype)
        x[: len(rows)] = rows
        x = np.moveaxis(x.reshape(*np.delete(shape, axis), shape[axis]), -1, axis).copy()
        got = twin(name, "forward", x, axis=axis)
        expected = by_definition(name, "forward", x, axis=axis)
        # The tolerance is for the largest element along the last axis.
        agree(cupy.moveaxis(got, axis, -1), np.moveaxis(expected, axis, -1), dtype)
        out, g = expected.astype(dtype), numbers(*shape, dtype=dtype, seed=1)
        got = twin(name, "x", g, out, axis=axis)
        expected = by_definition(name, "x", g, out, axis=axis)
        agree(cupy.moveaxis(got, axis, -1), np.moveaxis(expected, axis, -1), dtype)

    def test_blocks_have_enough_registers(self):
        """With 256 threads a kernel has 255 for each, of which the sources need up to 216."""
        for name in ("softmax", "softmax_backward", "cross_entropy", "cross_entropy_backward"):
            for dtype in loader.TYPES:
                assert loader.kernel("neural", name, np.dtype(dtype)).kernel.most == 256

    def test_more_axes(self, dtype):
        x = numbers(4, 3, MANY_ROWS, 10, dtype=dtype)
        both("softmax", "forward", x, axis=3)
        both("softmax", "x", x, x[::-1], axis=-1)

    def test_falls_back_to_the_definition(self):
        x = cupy.zeros((3, 4))
        forward, rule = (twins["softmax"][part] for part in ("forward", "x"))
        few = cupy.zeros((1 << 17, 2))  # columns, each processed by one thread
        assert forward(xp, few, 0) is NotImplemented
        for axis in (None, (0, 1), 2, -3):
            assert forward(xp, x, axis) is NotImplemented
            assert rule(xp, x, x, axis) is NotImplemented
        for other in (cupy.zeros((0, 3)), cupy.zeros(()), cupy.zeros((2, 3), "complex64")):
            assert forward(xp, other) is NotImplemented


class TestCrossEntropy:
    REDUCTIONS = "mean", "sum", "none"

    def labels(self, rows, columns, dtype="int64"):
        target = np.random.default_rng(3).integers(0, columns, rows).astype(dtype)
        target[1::3] = columns  # not a class
        target[2::5] = -1
        target[3::4] = -100  # to be ignored
        return target

    def expected(self, x, target, reduction, ignored=-100):
        """Return the loss as on a GPU, where labels that are not classes have no logit."""
        x = in_float64(x)
        with np.errstate(all="ignore"):
            shifted = x - x.max(-1, keepdims=True)
            inside = (target >= 0) & (target < x.shape[-1])
            picked = np.take_along_axis(shifted, np.where(inside, target, 0)[..., None], -1)[..., 0]
            losses = np.log(np.exp(shifted).sum(-1)) - np.where(inside, picked, 0)
            losses = np.where(target == ignored, 0, losses)
            if reduction == "none":
                return losses
            return losses.sum() / ((target != ignored).sum() if reduction == "mean" else 1)

    def expected_cotangent(self, g, x, target, reduction, ignored=-100):
        x = in_float64(x)
        with np.errstate(all="ignore"):
            e = np.exp(x - x.max(-1, keepdims=True))
            one_hot = target[..., None] == np.arange(x.shape[-1])
            counted = np.asarray(target != ignored)
            g = in_float64(g) / (max(counted.sum(), 1) if reduction == "mean" else 1)
            g = g[..., None] if reduction == "none" else g
            return np.where(counted[..., None], g * (e / e.sum(-1, keepdims=True) - one_hot), 0)

    @pytest.mark.parametrize("reduction", REDUCTIONS)
    @pytest.mark.parametrize("columns", COLUMNS)
    def test_twin(self, columns, reduction, dtype):
        x = numbers(9, columns, dtype=dtype)
        cases = [(x, self.labels(9, columns)), (x[0], self.labels(1, columns)[0])]
        special = special_rows(columns, dtype)
        if reduction == "none":
            cases.append((special, self.labels(8, columns, "int32")))
        for x, target in cases:
            target = np.asarray(target)
            got = twin("cross_entropy", "forward", x, target, reduction=reduction)
            agree(got, np.asarray(self.expected(x, target, reduction)), dtype)
            g = numbers(*got.shape, dtype=dtype, seed=1) if got.shape else np.array(3, dtype)
            options = {"reduction": reduction, "ignore_index": -100}
            got = twin("cross_entropy", "logits", g, x, target, **options)
            agree(got, self.expected_cotangent(g, x, target, reduction), dtype)

    @pytest.mark.parametrize("rows", [1, 1000, 1030, 5000, 40_000])
    def test_many_rows(self, rows):
        x, target = numbers(rows, 3, dtype="float32"), self.labels(rows, 3)
        for reduction in self.REDUCTIONS:
            got = twin("cross_entropy", "forward", x, target, reduction=reduction)
            agree(got, np.asarray(self.expected(x, target, reduction)), x.dtype)
        options = {"reduction": "mean", "ignore_index": -100}
        got = twin("cross_entropy", "logits", np.array(3, x.dtype), x, target, **options)
        agree(got, self.expected_cotangent(3, x, target, "mean"), x.dtype)

    def test_several_blocks_count_labels(self):
        x, target = numbers(20_000, 2, dtype="float32"), np.zeros(20_000, int)
        options = {"reduction": "mean", "ignore_index": -100}
        with traffic() as launches:
            twin("cross_entropy", "logits", np.ones((), "float32"), x, target, **options)
        assert [x.blocks >= 4 for x in launches if x.name == "count_labels"] == [True]

    def test_definition(self):
        """With valid labels, the expected values equal the definition's."""
        x, target = numbers(20, 7, dtype="float64"), np.arange(20) % 7
        for reduction in self.REDUCTIONS:
            both("cross_entropy", "forward", x, target, reduction=reduction)
            g = numbers(*([20] * (reduction == "none")), dtype="float64")
            options = {"reduction": reduction, "ignore_index": -100}
            both("cross_entropy", "logits", np.asarray(g), x, target, **options)

    @pytest.mark.parametrize("rows", [20, 5000])
    def test_another_ignored_label(self, rows):
        x, target = numbers(rows, 7, dtype="float64"), np.arange(rows) % 7
        for reduction in self.REDUCTIONS:
            options = {"reduction": reduction, "ignore_index": 3}
            got = twin("cross_entropy", "forward", x, target, **options)
            agree(got, np.asarray(self.expected(x, target, reduction, 3)), x.dtype)
            g = numbers(*([rows] * (reduction == "none")), dtype="float64")
            got = twin("cross_entropy", "logits", np.asarray(g), x, target, **options)
            agree(got, self.expected_cotangent(g, x, target, reduction, 3), x.dtype)

    def test_no_label_counts(self):
        x, target = numbers(4, 3, dtype="float32"), np.full(4, -100)
        assert np.isnan(twin("cross_entropy", "forward", x, target).get())
        options = {"reduction": "mean", "ignore_index": -100}
        g = np.ones((), "float32")
        assert not twin("cross_entropy", "logits", g, x, target, **options).get().any()

    def test_falls_back_to_the_definition(self):
        forward = twins["cross_entropy"]["forward"]
        x, target = cupy.zeros((4, 3)), cupy.zeros(4, "int64")
        for wrong in [(x, target[:3]), (x[:0], target[:0]), (x, target.astype("int8"))]:
            assert forward(xp, *wrong) is NotImplemented
        assert forward(xp, x, target, reduction="least") is NotImplemented
        assert forward(xp, x, target, ignore_index=None) is NotImplemented


class TestMSE:
    @pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
    @pytest.mark.parametrize("shape", [(), (1,), (3, 33), (1 << 14,), (5, 10_000)])
    def test_twin(self, shape, reduction, dtype):
        x, target = (np.asarray(numbers(*shape, dtype=dtype, seed=i)) for i in range(2))
        x.flat[::2] = target.flat[::2]
        static = {"reduction": reduction}
        expected = np.asarray(by_definition("mse", "forward", x, target, **static))
        agree(twin("mse", "forward", x, target, **static), expected, dtype)
        g = np.asarray(numbers(*expected.shape, dtype=dtype, seed=3), dtype)
        for name in ("x", "target"):
            both("mse", name, g, x, target, **static)

    def test_falls_back_to_the_definition(self):
        x = cupy.zeros((4, 3))
        for other in (cupy.zeros(3), cupy.zeros((4, 3), "float32")):
            assert twins["mse"]["forward"](xp, x, other) is NotImplemented
        assert twins["mse"]["forward"](xp, x[:0], x[:0]) is NotImplemented


def calls():
    """Yield a call for each twin."""
    x, g, out = (numbers(6, 10, dtype="float32", seed=i) for i in range(3))
    weight, bias, target = x.reshape(6, 10), g[0, :6], np.arange(6)
    kept = {"out": out, "axis": -1}
    yield "relu", "x", (g, out), {}
    yield "sigmoid", "forward", (x,), {}
    yield "sigmoid", "x", (g, out), {}
    yield "tanh", "x", (g, out), {}
    yield "linear", "forward", (x, weight, bias), {}
    yield "linear", "bias", (g,), {}
    yield "dense", "forward", (x, weight, bias), {"activation": "tanh"}
    wanted = {"activation": "tanh", "wanted": (True, True, True)}
    yield "dense", "joint", (g[:, :6], x, weight, out[:, :6]), wanted
    for name in ("softmax", "log_softmax"):
        yield name, "forward", (x,), {"axis": -1}
        yield name, "x", (g,), kept
    for reduction in ("mean", "none"):
        static = {"reduction": reduction}
        yield "cross_entropy", "forward", (x, target), static
        yield "mse", "forward", (x, out), static
        given = g if reduction == "none" else np.asarray(g[0, 0])
        yield "mse", "x", (given, x, out), static
        given = g[:, 0] if reduction == "none" else np.asarray(g[0, 0])
        static = static | {"ignore_index": -100}
        yield "cross_entropy", "logits", (given, x, target), static


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
    expected = twin(name, part, *inputs, **static)
    place = LAYOUTS[layout]
    got = twins[name][part](
        xp,
        *[place(np.asarray(x)) for x in inputs],
        **{k: place(x) if isinstance(x, np.ndarray) else x for k, x in static.items()},
    )
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, expected)], strict=True):
        np.testing.assert_allclose(a.get(), b.get(), rtol=1e-6, atol=1e-7)


@pytest.fixture
def launches(monkeypatch):
    """A list of the names of launched kernels."""
    names = []
    launch = Kernel.launch

    def noted(self, *args):
        names.append(self.name)
        return launch(self, *args)

    monkeypatch.setattr(Kernel, "launch", noted)
    return names


def test_a_step_launches_few(launches):
    x, target = gg.ones((20, 6), device="cuda"), gg.zeros(20, dtype=gg.int64, device="cuda")
    weights = [
        gg.random.normal(shape, device="cuda", requires_grad=True) for shape in [(5, 6), (3, 5)]
    ]
    biases = [gg.zeros(n, device="cuda", requires_grad=True) for n in (5, 3)]
    launches.clear()
    hidden = gg.dense(x, weights[0], biases[0], activation="relu")
    loss = gg.cross_entropy(gg.linear(hidden, weights[1], biases[1]), target)
    assert launches == ["activate", "activate", "cross_entropy"]
    launches.clear()
    loss.backward()
    backward = "cross_entropy_backward sum_rows activate_backward_and_sum"
    assert launches == backward.split()


@pytest.mark.parametrize("name", sorted(twins))
def test_names(name):
    """A twin has rules for the op's inputs, and they keep no more than the definition's."""
    op = Op.registry[name]
    assert set(twins[name]) <= {"forward", "joint", "together", *op.inputs}
