"""The kernels of normalization on the stand-in for CuPy equal the ops' definitions."""

import cupy
import numpy as np
import pytest
from cupy._reads import reads
from cupy._traffic import traffic
from definitions import NEAR, agree, both, by_definition, by_twin, declines, in_float64
from definitions import numbers as centered

import gpugrad as gg
from gpugrad import nn
from gpugrad.backends.cupy import xp
from gpugrad.kernels.cuda import normalization as kernels
from gpugrad.ops.normalization import _by_statistics

LAYER, RMS, GROUP = gg.layer_norm.op, gg.rms_norm.op, gg.group_norm.op
BATCH, GIVEN = gg.batch_norm.op, _by_statistics.op
LAYERS = [
    *((3, n) for n in (1, 2, 31, 32, 33, 128, 511, 512, 513, 768, 1000, 1030, 4096)),
    (5,),
    (1, 40),
]
BATCHES = [
    *((1, 3), (2, 1), (40, 4), (33, 33), (64, 100), (600, 40), (1100, 7)),
    *((2, 3, 5), (1, 2, 1, 1), (3, 2, 4, 4), (5, 3, 7, 3), (9, 2, 32, 16), (2, 1, 70, 67)),
]
AFFINE = [(True, True), (True, False), (False, True), (False, False)]
WANTED = [(True, True, True), (True, False, False), (False, True, False), (True, False, True)]


def numbers(*shape, dtype, seed=0):
    return (3 + 2 * centered(*shape, seed=seed)).astype(dtype)


def only(wanted, cotangents):
    return [c if w else None for c, w in zip(cotangents, wanted, strict=True)]


def check(op, shape, parameter, dtype, affine=(True, True), **static):
    """Check values and, for each choice of wanted inputs, cotangents."""
    x, g = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype, seed=1) / dtype.type(4)
    weight, bias = (
        numbers(*parameter, dtype=dtype, seed=2 + i) if given else None
        for i, given in enumerate((*affine, False)[:2])
    )
    inputs = (x, weight, bias)[: len(op.inputs)]
    got = by_twin(op, "forward", *inputs, **static)
    if static.get("eps", 0) is None:
        static["eps"] = float(xp.finfo(dtype).eps)
    agree(got, by_definition(op, "forward", *inputs, **static), dtype)
    g = (g, None, None) if op is BATCH else g
    for wanted in WANTED:
        given = (True, *affine)
        wanted = tuple([w and a for w, a in zip(wanted, given[: len(op.inputs)], strict=False)])
        if any(wanted):
            got = by_twin(op, "joint", g, x, weight, wanted, **static)
            expected = by_definition(op, "joint", g, x, weight, wanted, **static)
            agree(got, only(wanted, expected), dtype)


class TestLayerNorm:
    @pytest.mark.parametrize("shape", LAYERS, ids=str)
    def test_twin(self, shape, dtype):
        check(LAYER, shape, shape[-1:], dtype, ndim=1, eps=1e-5)

    def test_the_longest_rows(self):
        check(LAYER, (2, 8192), (8192,), np.dtype("float32"), ndim=1, eps=1e-5)

    @pytest.mark.parametrize("shape", [(100, 8), (12, 516)], ids=str)
    def test_more_rows_than_blocks_take(self, shape, dtype, monkeypatch):
        monkeypatch.setattr(kernels, "_BLOCKS", 5)
        check(LAYER, shape, shape[-1:], dtype, ndim=1, eps=1e-5)

    @pytest.mark.parametrize("affine", AFFINE)
    @pytest.mark.parametrize("eps", [1e-5, 0.5])
    def test_without_parameters(self, affine, eps, dtype):
        check(LAYER, (10, 24), (24,), dtype, affine, ndim=1, eps=eps)
        check(LAYER, (3, 4, 6), (4, 6), dtype, affine, ndim=2, eps=eps)
        check(LAYER, (2, 3, 4), (2, 3, 4), dtype, affine, ndim=3, eps=eps)

    def test_rows_that_are_not_aligned(self):
        x = cupy.asarray(numbers(1 + 6 * 64, dtype="float32"))[1:].reshape(6, 64)
        out = by_twin(LAYER, "forward", x, ndim=1, eps=1e-5)
        expected = gg.layer_norm(gg.tensor(in_float64(x.get()))).numpy()
        agree(out, expected, np.dtype("float32"))

    def test_infinities_stay_in_their_rows(self):
        x = numbers(4, 100, dtype="float32")
        x[1, 3], x[2, 5] = np.inf, np.nan
        out = by_twin(LAYER, "forward", cupy.asarray(x), ndim=1, eps=1e-5).get()
        assert np.isnan(out[1:3]).all()
        assert np.isfinite(out[[0, 3]]).all()


class TestRMSNorm:
    @pytest.mark.parametrize("shape", [(3, 33), (2, 3, 516), (5,), (2, 1030)], ids=str)
    def test_twin(self, shape, dtype):
        check(RMS, shape, shape[-1:], dtype, ndim=1, eps=0.1)

    def test_options(self, dtype):
        check(RMS, (10, 24), (24,), dtype, (False,), ndim=1, eps=None)
        check(RMS, (3, 4, 6), (4, 6), dtype, (True,), ndim=2, eps=0.5)


class TestGroupNorm:
    @pytest.mark.parametrize("affine", AFFINE)
    @pytest.mark.parametrize(
        "shape, groups", [((2, 6, 5), 3), ((3, 8), 2), ((2, 4, 3, 200), 4), ((2, 4, 8), 1)], ids=str
    )
    def test_twin(self, shape, groups, affine, dtype):
        check(GROUP, shape, shape[1:2], dtype, affine, groups=groups, eps=1e-5)


class TestBatchNorm:
    @pytest.mark.parametrize("shape", BATCHES, ids=str)
    def test_twin(self, shape, dtype):
        check(BATCH, shape, shape[1:2], dtype, eps=1e-5)

    @pytest.mark.parametrize("affine", AFFINE)
    @pytest.mark.parametrize("shape", [(40, 20), (1100, 7), (3, 2, 4, 4)], ids=str)
    def test_without_parameters(self, shape, affine, dtype):
        check(BATCH, shape, shape[1:2], dtype, affine, eps=0.5)

    @pytest.mark.parametrize("shape", [(40, 20), (3, 2, 4, 4), (6, 2, 5, 200)], ids=str)
    @pytest.mark.parametrize("given", [(1, 1, 1), (0, 1, 0), (0, 0, 1), (1, 0, 1)], ids=str)
    def test_cotangents_of_the_statistics(self, shape, given, dtype):
        x, weight = numbers(*shape, dtype=dtype), numbers(shape[1], dtype=dtype)
        shapes = zip((shape, shape[1:2], shape[1:2]), given, strict=True)
        g = [numbers(*s, dtype=dtype, seed=1) if w else None for s, w in shapes]
        inputs = g, x, weight, (True, False, False), 1e-5
        got, expected = by_twin(BATCH, "joint", *inputs), by_definition(BATCH, "joint", *inputs)
        agree(got[0], expected[0], dtype)

    @pytest.mark.parametrize("affine", AFFINE)
    @pytest.mark.parametrize("shape", [(40, 20), (1100, 7), (3, 2, 5, 4), (5, 2, 50, 60)], ids=str)
    def test_given_statistics(self, shape, affine, dtype):
        x, g = (numbers(*shape, dtype=dtype, seed=i) / dtype.type(4) for i in range(2))
        rest = [numbers(shape[1], dtype=dtype, seed=2 + i) ** 2 for i in range(4)]
        rest[2:] = [p if given else None for p, given in zip(rest[2:], affine, strict=True)]
        both(GIVEN, "forward", x, *rest, eps=1e-5)
        for to_x in (True, False):
            wanted = to_x, False, False, *affine
            given = g, x, *rest[:3], wanted, 1e-5
            expected = only(wanted, by_definition(GIVEN, "joint", *given))
            agree(only(wanted, by_twin(GIVEN, "joint", *given)), expected, dtype)

    def test_given_statistics_take_one_pass(self):
        """Also an infinite element stays in its channel, and only its channel's sum is infinite."""
        x = numbers(2, 3, 64, 64, dtype="float32")
        x[1, 2, 3, 4] = np.inf
        layer = nn.BatchNorm2d(3, device="cuda").eval()
        x = gg.tensor(x, device="cuda", requires_grad=True)
        with traffic() as forward:
            out = layer(x)
        with traffic() as backward:
            grads = gg.autograd.grad(out, [x, *layer.parameters()], gg.ones_like(out).detach())
        assert [launch.name for launch in forward] == ["batch_norm"]
        assert len(backward) == 3  # with the ones
        for launches, passes in ((forward, 2), (backward, 4)):
            moved = sum([launch.read + launch.written for launch in launches])
            assert moved < (passes + 0.1) * x.array.nbytes
        assert np.isfinite(grads[0].cpu().numpy()).all()
        assert np.isinf(grads[1].cpu().numpy()).tolist() == [False, False, True]

    @pytest.mark.parametrize("device", ["cuda", "cpu"])
    def test_derivatives_by_given_statistics(self, device):
        """Of first and second order, with those by the statistics, and of several examples."""
        x, mean, var, weight = (
            gg.tensor(numbers(*s, dtype="float64", seed=i) ** 2, device=device)
            for i, s in enumerate(((4, 3, 2), (3,), (3,), (3,)))
        )
        column = (3, 1)

        def composed(x, mean, var, weight):
            x = (x - mean.reshape(column)) / gg.sqrt(var.reshape(column) + 0.1)
            return x * weight.reshape(column)

        def given(*xs):
            return _by_statistics(*xs, eps=0.1)

        inputs = [x.requires_grad_() for x in (x, mean, var, weight)]
        found = []
        for function in (composed, given):
            grads = gg.autograd.grad((function(*inputs) ** 3).sum(), inputs, create_graph=True)
            more = gg.autograd.grad(sum((c**2).sum() for c in grads), inputs)
            batch = [gg.stack([y.detach(), 2 * y.detach()]) for y in inputs]
            found.append([*grads, *more, gg.vmap(function)(*batch)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(*(y.detach().cpu().numpy() for y in (b, a)), rtol=1e-9)

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("half", ["float16", "bfloat16"])
    @pytest.mark.parametrize("shape", [(8, 3, 8, 8), (4, 3, 70, 67), (9, 40)])
    def test_16_bits_and_float32_parameters(self, shape, half, training):
        """As under autocast: the result and the statistics are float32."""
        if half == "bfloat16":
            pytest.importorskip("ml_dtypes")
        x, g = numbers(*shape, dtype="float32"), numbers(*shape, dtype="float32", seed=1)
        results = []
        for device, dtype in (("cuda", "float32"), ("cpu", "float64")):
            layer = nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d
            layer = layer(shape[1], device=device).to(getattr(gg, dtype)).train(training)
            with gg.no_grad():
                layer.weight += 0.5
                layer.running_mean += 2
            on = gg.tensor(x).astype(getattr(gg, half)).to(device)
            on = (on if device == "cuda" else on.astype(gg.float64)).requires_grad_()
            with traffic() as forward:
                out = layer(on)
            with traffic() as backward:
                slope = gg.tensor(g.astype(dtype)).to(device)
                grads = gg.autograd.grad(out, [on, *layer.parameters()], slope)
            results.append([out, *grads, layer.running_mean, layer.running_var])
            if device == "cuda":
                names = [launch.name for launch in (*forward, *backward)]
                assert (
                    len([n for n in names if n.startswith("batch_norm")]) == len(names) - training
                )
                assert len(forward) <= 3
                assert len(backward) <= 2
        for k, (got, expected) in enumerate(zip(*results, strict=True)):
            assert got.dtype == (getattr(gg, half) if k == 1 else gg.float32)
            got, expected = got.detach().cpu().numpy(), expected.detach().numpy()
            near = NEAR[half] if k == 1 else 2e-5
            assert np.abs(got - expected).max() <= near * max(np.abs(expected).max(), 1)

    def test_a_mean_far_from_0(self):
        """The mean of the squares minus the square of the mean would lose all digits."""
        x = numbers(2000, 3, dtype="float64")
        expected = gg.batch_norm(gg.tensor(x))
        far = cupy.asarray((x + 4096).astype("float32"))
        got = by_twin(BATCH, "forward", far, eps=1e-5)
        for a, b, moved in zip(got, expected, (0, 4096, 0), strict=True):
            assert np.allclose(a.get(), b.numpy() + moved, rtol=1e-4, atol=1e-3)


def test_what_is_left_to_the_definitions():
    x, wide, everything = cupy.ones((3, 4), "float32"), cupy.ones((3, 4)), (True, True, True)
    for other in (
        *(cupy.ones(shape) for shape in ((0, 4), (4, 0), (2, 4097), ())),
        cupy.ones((2, 8193), "float32"),
        cupy.ones((3, 4), "int64"),
    ):
        assert declines(LAYER, "forward", other)
    assert declines(LAYER, "forward", x, ndim=0)
    for other in (cupy.ones((0, 4)), cupy.ones((4, 0)), cupy.ones(3)):
        assert declines(BATCH, "forward", other)
    assert declines(RMS, "forward", cupy.ones((0, 4)))
    assert declines(GROUP, "forward", cupy.ones((0, 4)), groups=2)
    assert declines(GROUP, "forward", cupy.ones((1, 1, 8193), "float32"), groups=1)
    assert declines(GROUP, "forward", x, groups=3)
    for weight in (cupy.ones(3, "float32"), cupy.ones(4)):
        for op in (LAYER, BATCH):
            assert declines(op, "forward", x, weight)
        assert declines(LAYER, "joint", x, x, weight, everything, 1, 1e-5)
    assert declines(RMS, "forward", x, cupy.ones(4))
    assert declines(GROUP, "forward", x, cupy.ones(4), groups=2)
    assert declines(LAYER, "joint", wide, x, None, everything, 1, 1e-5)
    assert declines(RMS, "joint", wide, x, None, everything[:2], 1, 0.1)
    assert declines(GROUP, "joint", wide, x, None, everything, 2, 0.1)
    assert declines(BATCH, "joint", (wide, None, None), x, None, (True, False, False), 1e-5)


class TestRunningStatistics:
    def trained(self, device, momentum=0.1):
        """A layer after three batches, and what it launched in the last."""
        layer = nn.BatchNorm1d(4, momentum=momentum, device=device)
        batches = [
            gg.tensor(numbers(9, 4, dtype="float32", seed=i), device=device) for i in range(3)
        ]
        reads.clear()
        for x in batches:
            with traffic() as launches:
                layer(x)
        assert reads == []
        return layer, [launch.name for launch in launches]

    @pytest.mark.parametrize("momentum", [0.1, None])
    def test_are_overwritten_by_one_kernel(self, momentum):
        layer, launches = self.trained("cuda", momentum)
        expected, _ = self.trained("cpu", momentum)
        assert momentum is None or launches == ["batch_norm", "blend"]
        for a, b in zip(layer.buffers(), expected.buffers(), strict=True):
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-6)
        places = [layer.running_mean.array.data.ptr, layer.running_var.array.data.ptr]
        layer(gg.ones((9, 4), device="cuda"))
        assert momentum is None or places == [
            layer.running_mean.array.data.ptr, layer.running_var.array.data.ptr,
        ]  # fmt: skip

    def test_of_another_dtype(self):
        layer = nn.BatchNorm1d(4, device="cuda")
        layer(gg.ones((9, 4), dtype=gg.float64, device="cuda"))
        assert layer.running_mean.dtype == gg.float32
        np.testing.assert_allclose(layer.running_mean.tolist(), [0.1] * 4, rtol=1e-6)

    def test_have_the_same_bits_where_others_have_them(self):
        found = []
        for is_held in (True, False):
            layer = nn.BatchNorm1d(4, dtype=gg.float16, device="cuda")
            for seed in range(3):
                held = [x.array for x in layer.buffers()] if is_held else []
                before = [x.copy() for x in held]
                layer(gg.tensor(numbers(9, 4, dtype="float16", seed=seed), device="cuda"))
                assert all((x.get() == y.get()).all() for x, y in zip(held, before, strict=True))
                del held
            found.append([x.cpu().numpy() for x in layer.buffers()])
        for a, b in zip(*found, strict=True):
            np.testing.assert_array_equal(a, b)

    def test_that_others_have_stay_as_they_are(self):
        """A graph, a state and a view keep the values that they were given."""
        layer, _ = self.trained("cuda")
        x = gg.tensor(numbers(9, 4, dtype="float32"), device="cuda", requires_grad=True)
        for keep in (lambda mean: mean.detach(), lambda mean: mean[:], lambda mean: x * mean):
            mean = layer.running_mean.tolist()
            kept = keep(layer.running_mean)
            layer(x)
            assert layer.running_mean.tolist() != mean
            if kept.node is None:
                assert kept.tolist() == mean
            else:
                kept.backward(gg.ones_like(x))
                np.testing.assert_allclose(x.grad.cpu().numpy(), [mean] * 9, rtol=1e-6)
