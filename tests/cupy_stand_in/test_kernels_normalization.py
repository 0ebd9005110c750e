"""The kernels of normalization on the stand-in for CuPy equal the ops' definitions."""

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic
from definitions import LAYOUTS, NEAR, agree, both, by_definition, by_twin, declines, no_reads, only
from definitions import numbers as centered

import gpugrad as gg
from gpugrad import nn
from gpugrad.backends.cupy import xp
from gpugrad.kernels.cuda import normalization as kernels
from gpugrad.ops.normalization import _by_statistics

LAYER, RMS, GROUP = gg.layer_norm.op, gg.rms_norm.op, gg.group_norm.op
BATCH, GIVEN = gg.batch_norm.op, _by_statistics.op
COLUMNS = 1, 2, 31, 32, 33, 128, 511, 512, 513, 768, 1000, 1030, 4096
LAYERS = [*((3, n) for n in COLUMNS), (5,), (1, 40)]
BATCHES = [
    *((1, 3), (2, 1), (40, 4), (33, 33), (64, 100), (600, 40), (1100, 7)),
    *((2, 3, 5), (1, 2, 1, 1), (3, 2, 4, 4), (5, 3, 7, 3), (9, 2, 32, 16), (2, 1, 70, 67)),
]
GROUPS = [((2, 6, 5), 3), ((3, 8), 2), ((2, 4, 3, 200), 4), ((2, 4, 8), 1)]
RMS_SHAPES = (3, 33), (2, 3, 516), (5,), (2, 1030)
AFFINE = [(True, True), (True, False), (False, True), (False, False)]
WANTED = [(True, True, True), (True, False, False), (False, True, False), (True, False, True)]
# The shapes of the inputs and of the parameters, which of these are given, and other arguments.
CASES = [
    *[(LAYER, s, s[-1:], (True, True), {"ndim": 1, "eps": 1e-5}) for s in LAYERS],
    *[
        (LAYER, s, s[-n:], affine, {"ndim": n, "eps": eps})
        for affine in AFFINE
        for n, s, eps in ((1, (10, 24), 1e-5), (2, (3, 4, 6), 0.5), (3, (2, 3, 4), 1e-5))
    ],
    *[(RMS, s, s[-1:], (True,), {"ndim": 1, "eps": 0.1}) for s in RMS_SHAPES],
    (RMS, (10, 24), (24,), (False,), {"ndim": 1, "eps": None}),
    (RMS, (3, 4, 6), (4, 6), (True,), {"ndim": 2, "eps": 0.5}),
    *[(GROUP, s, s[1:2], given, {"groups": n, "eps": 1e-5}) for s, n in GROUPS for given in AFFINE],
    *[(BATCH, s, s[1:2], (True, True), {"eps": 1e-5}) for s in BATCHES],
    *[
        (BATCH, s, s[1:2], affine, {"eps": 0.5})
        for s in ((40, 20), (1100, 7), (3, 2, 4, 4))
        for affine in AFFINE
    ],
]


def numbers(*shape, dtype, seed=0):
    return (3 + 2 * centered(*shape, seed=seed)).astype(dtype)


def check(op, shape, parameter, affine, static, dtype):
    """Check values and, for each choice of wanted inputs, cotangents."""
    x, g = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype, seed=1) / dtype.type(4)
    weight, bias = (
        numbers(*parameter, dtype=dtype, seed=2 + i) if given else None
        for i, given in enumerate((*affine, False)[:2])
    )
    inputs = (x, weight, bias)[: len(op.inputs)]
    got = by_twin(op, "forward", *inputs, **static)
    if static["eps"] is None:
        static = {**static, "eps": float(xp.finfo(dtype).eps)}
    agree(got, by_definition(op, "forward", *inputs, **static), dtype)
    g = (g, None, None) if op is BATCH else g
    for choice in WANTED:
        wanted = tuple([w and a for w, a in zip(choice, (True, *affine), strict=False)])
        if any(wanted):
            got = by_twin(op, "joint", g, x, weight, wanted, **static)
            expected = by_definition(op, "joint", g, x, weight, wanted, **static)
            agree(got, only(wanted, expected), dtype)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].name} {case[1:]}")
def test_twin(case, dtype):
    check(*case, dtype)


@pytest.mark.parametrize("shape", [(100, 8), (12, 516), (2, 8192)], ids=str)
def test_more_rows_than_blocks_take_and_the_longest(shape, monkeypatch):
    monkeypatch.setattr(kernels, "_BLOCKS", 5)
    check(LAYER, shape, shape[-1:], (True, True), {"ndim": 1, "eps": 1e-5}, np.dtype("float32"))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts(layout):
    x = layout(cupy.asarray(numbers(6, 64, dtype="float32")))
    for op in (LAYER, BATCH):
        expected = by_definition(op, "forward", x.get(), eps=1e-5)
        agree(by_twin(op, "forward", x, eps=1e-5), expected, np.dtype("float32"))


def test_infinities_stay_in_their_rows_and_channels():
    x = numbers(4, 100, dtype="float32")
    x[1, 3], x[2, 5] = np.inf, np.nan
    out = by_twin(LAYER, "forward", x, ndim=1, eps=1e-5).get()
    assert np.isfinite(out).all(1).tolist() == [True, False, False, True]
    x, ones = numbers(2, 3, 64, 64, dtype="float32"), np.ones(3, "float32")
    x[1, 2, 3, 4] = np.inf
    given = np.ones_like(x), x, ones, ones, ones, (True, False, False, True, True), 1e-5
    to_x, *_, to_weight, _ = by_twin(GIVEN, "joint", *given)
    assert np.isfinite(to_x.get()).all()
    assert np.isfinite(to_weight.get()).tolist() == [True, True, False]


class TestBatchNorm:
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

    @pytest.mark.parametrize("device", ["cuda", "cpu"])
    def test_derivatives_by_given_statistics(self, device):
        """Of first and second order, with those by the statistics, and of several examples."""
        shapes = (4, 3, 2), (3,), (3,), (3,)
        values = [numbers(*s, dtype="float64", seed=i) ** 2 for i, s in enumerate(shapes)]
        inputs = [gg.tensor(x, device=device, requires_grad=True) for x in values]

        def composed(x, mean, var, weight):
            mean, var, weight = (y.reshape((3, 1)) for y in (mean, var, weight))
            return (x - mean) / gg.sqrt(var + 0.1) * weight

        found = []
        for function in (composed, lambda *xs: _by_statistics(*xs, eps=0.1)):
            grads = gg.autograd.grad((function(*inputs) ** 3).sum(), inputs, create_graph=True)
            more = gg.autograd.grad(sum((c**2).sum() for c in grads), inputs)
            batch = [gg.stack([y.detach(), 2 * y.detach()]) for y in inputs]
            found.append([*grads, *more, gg.vmap(function)(*batch)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(*(y.detach().cpu().numpy() for y in (b, a)), rtol=1e-9)

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("half", ["float16", "bfloat16"])
    @pytest.mark.parametrize("shape", [(8, 3, 8, 8), (4, 3, 70, 67), (9, 40)])
    def test_16_bits_and_float32_parameters(self, shape, half, training, bfloat16):
        """As under autocast: the result and the statistics are float32."""
        x, g = numbers(*shape, dtype="float32"), numbers(*shape, dtype="float32", seed=1)
        x, kind = gg.tensor(x).astype(half), nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d
        results = []
        for device, dtype in (("cuda", None), ("cpu", "float64")):
            layer = kind(shape[1], device=device, dtype=dtype).train(training)
            with gg.no_grad():
                layer.weight += 0.5
                layer.running_mean += 2
            on = gg.tensor(x, dtype=dtype, device=device).requires_grad_()
            with traffic() as launches:
                out, slope = layer(on), gg.tensor(g, dtype=dtype).to(device)
                grads = gg.autograd.grad(out, [on, *layer.parameters()], slope)
            results.append([out, *grads, layer.running_mean, layer.running_var])
            if device == "cuda":
                names = [launch.name.partition("_norm")[0] for launch in launches]
                assert names.count("batch") == len(names) - training <= 5
        for k, (got, expected) in enumerate(zip(*results, strict=True)):
            assert str(got.dtype) == (half if k == 1 else "float32")
            got, expected = got.detach().cpu().numpy(), expected.detach().numpy()
            near = NEAR[half] if k == 1 else 2e-5
            assert np.abs(got - expected).max() <= near * max(np.abs(expected).max(), 1)

    def test_a_mean_far_from_0(self):
        """The mean of the squares minus the square of the mean would lose all digits."""
        x = numbers(2000, 3, dtype="float64")
        expected = gg.batch_norm(gg.tensor(x))
        got = by_twin(BATCH, "forward", cupy.asarray((x + 4096).astype("float32")), eps=1e-5)
        for a, b, moved in zip(got, expected, (0, 4096, 0), strict=True):
            assert np.allclose(a.get(), b.numpy() + moved, rtol=1e-4, atol=1e-3)


def test_what_is_left_to_the_definitions():
    def ones(*shape, dtype="float32"):
        return cupy.ones(shape, dtype)

    x, wide, all_wanted = ones(3, 4), ones(3, 4, dtype="float64"), (True, True, True)
    for op, static, others in (
        (LAYER, {}, [ones(0, 4), ones(4, 0), ones(2, 4097, dtype="float64"), ones(2, 8193)]),
        (LAYER, {}, [ones(), ones(3, 4, dtype="int64")]), (LAYER, {"ndim": 0}, [x]),
        (BATCH, {}, [ones(0, 4), ones(4, 0), ones(3)]), (RMS, {}, [ones(0, 4)]),
        (GROUP, {"groups": 2}, [ones(0, 4)]), (GROUP, {"groups": 1}, [ones(1, 1, 8193)]),
        (GROUP, {"groups": 3}, [x]),
    ):  # fmt: skip
        for other in others:
            assert declines(op, "forward", other, **static)
    for weight in (ones(3), wide[0]):
        for op in (LAYER, BATCH):
            assert declines(op, "forward", x, weight)
        assert declines(LAYER, "joint", x, x, weight, all_wanted, 1, 1e-5)
    assert declines(RMS, "forward", x, wide[0])
    assert declines(GROUP, "forward", x, wide[0], groups=2)
    for op, wanted in ((LAYER, all_wanted), (RMS, all_wanted[:2]), (GROUP, all_wanted)):
        assert declines(op, "joint", wide, x, None, wanted, 1, 0.1)
    assert declines(BATCH, "joint", (wide, None, None), x, None, (True, False, False), 1e-5)


class TestRunningStatistics:
    def trained(self, device, momentum=0.1):
        """A layer after three batches, and what it launched in the last."""
        layer = nn.BatchNorm1d(4, momentum=momentum, device=device)
        batches = [numbers(9, 4, dtype="float32", seed=i) for i in range(3)]
        batches = [gg.tensor(x, device=device) for x in batches]
        for x in batches:
            with no_reads(), traffic() as launches:
                layer(x)
        return layer, [launch.name for launch in launches]

    @pytest.mark.parametrize("momentum", [0.1, None])
    def test_are_overwritten_by_one_kernel(self, momentum):
        layer, launches = self.trained("cuda", momentum)
        expected, _ = self.trained("cpu", momentum)
        assert momentum is None or launches == ["batch_norm", "blend"]
        for a, b in zip(layer.buffers(), expected.buffers(), strict=True):
            np.testing.assert_allclose(a.cpu().numpy(), b.numpy(), rtol=1e-6)
        places = [x.array.data.ptr for x in layer.buffers()]
        layer(gg.ones((9, 4), device="cuda"))
        assert momentum is None or places[:2] == [x.array.data.ptr for x in layer.buffers()][:2]

    def test_of_another_dtype(self):
        layer = nn.BatchNorm1d(4, device="cuda")
        layer(gg.ones((9, 4), dtype=gg.float64, device="cuda"))
        assert layer.running_mean.dtype == gg.float32
        np.testing.assert_allclose(layer.running_mean.tolist(), [0.1] * 4, rtol=1e-6)

    def test_that_others_have_stay_as_they_are(self):
        """A graph, a state and a view keep the values that they were given, and the new values
        have the bits that the kernel gives them."""
        (layer, _), (alone, _) = self.trained("cuda"), self.trained("cuda")
        x = gg.tensor(numbers(9, 4, dtype="float32"), device="cuda", requires_grad=True)
        for keep in (lambda mean: mean.detach(), lambda mean: mean[:], lambda mean: x * mean):
            mean, kept = layer.running_mean.tolist(), keep(layer.running_mean)
            layer(x)
            alone(x)
            assert mean != layer.running_mean.tolist() == alone.running_mean.tolist()
            if kept.node is None:
                assert kept.tolist() == mean
            else:
                kept.backward(gg.ones_like(x))
                np.testing.assert_allclose(x.grad.cpu().numpy(), [mean] * 9, rtol=1e-6)
