"""The kernels of random numbers on the stand-in: the same masks and gradients as on the CPU."""

from itertools import product

import cupy
import numpy as np
import pytest
from definitions import LAYOUTS, declines, no_reads

import gpugrad as gg
import gpugrad.kernels.cuda
from gpugrad import nn
from gpugrad.backends.cupy.kernels import random
from gpugrad.backends.philox import kept

TWINS = gg.dropout.op.twins["cupy"]
SIZES = 0, 1, 15, 16, 17, 511, 512, 513, 4095, 4096, 4097, 10_000


def array(n, dtype, offset=0):
    """An array on the device, aligned to 16 bytes or, with an offset, to one element."""
    return cupy.asarray(np.random.default_rng(0).standard_normal(n + offset).astype(dtype))[offset:]


@pytest.mark.parametrize("n", SIZES)
def test_mask(n):
    for key, p in product(((0, 0), (5, 7), (2**64 - 1, 2**63 + 11)), (0, 0.1, 0.5, 1)):
        mask, expected = random.dropout_mask((n,), p, key).get(), kept((n,), p, key)
        np.testing.assert_array_equal(mask, expected, strict=True, err_msg=f"{key} {p}")


@pytest.mark.parametrize("offset", [0, 1])
def test_twin_equals_the_definition(dtype, offset):
    for n, p in product(SIZES, (0.0, 0.1, 0.5, 1.0)):
        x = array(n, dtype, offset)
        x[:2] = [np.inf, -np.inf][: min(n, 2)]  # which are 0 where they are dropped
        out, c = (TWINS[part](None, x, p, (5, 7)) for part in ("forward", "x"))
        scale = np.asarray(1 / (1 - p) if p < 1 else 1, dtype)
        expected = np.where(kept((n,), p, (5, 7)), x.get() * scale, np.zeros((), dtype))
        assert out.dtype == c.dtype == x.dtype
        assert out.get().tobytes() == c.get().tobytes() == expected.tobytes(), (n, p)


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), lambda x: x[0, 0]], ids=[*LAYOUTS, "0-d"])
def test_mask_does_not_depend_on_memory_layout(layout):
    x = layout(array(40 * 33, "float32").reshape(40, 33))
    out = TWINS["forward"](None, x, 0.5, (5, 7))
    expected = np.where(kept(x.shape, 0.5, (5, 7)), 2 * x.get(), np.float32(0))
    assert np.array_equal(out.get(), expected)


def test_dtypes_without_a_kernel_take_the_definition():
    assert declines(gg.dropout.op, "forward", cupy.ones(5, "complex128"), 0.5, (5, 7))


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_invalid_probability(p):
    for n in 0, 5:
        with pytest.raises(ValueError, match="dropout: the probability p must be from 0 to 1"):
            gg.dropout(gg.ones(n, device="cuda"), p=p, key=(5, 7))


class TestPrograms:
    """Programs give the CPU's results with one kernel in each direction, and no host reads."""

    def both(self, f, *xs):
        results = []
        for device in "cpu", "cuda":
            gg.manual_seed(3)
            given = [x.detach().to(device) for x in xs]
            with no_reads():
                results.append(f(*given))
        for a, b in zip(*results, strict=True):
            assert (a.device, b.device) == ("cpu", "cuda:0")
            assert a.numpy().tobytes() == b.cpu().numpy().tobytes()

    @pytest.mark.parametrize("checkpointed", [False, True])
    def test_forward_and_backward(self, launches, checkpointed):
        layer = nn.Dropout(0.3)

        def f(x):
            x.requires_grad_()
            y = gg.checkpoint(layer, x) if checkpointed else layer(x)
            y.backward(gg.ones_like(y))
            return y.detach(), x.grad

        self.both(f, gg.random.normal((31, 33)))
        assert launches == ["dropout"] * (3 if checkpointed else 2)

    def test_examples(self):
        def f(x):
            drop = lambda x: nn.functional.dropout(x, 0.5)  # noqa: E731
            return (
                gg.vmap(drop)(x),
                gg.vmap(gg.vmap(lambda r: drop(x[0, 0, ...]) + r * 0))(x),
                gg.vmap(lambda r: gg.dropout(r, p=0.5, key=(1, 2)))(x),
            )

        self.both(f, gg.random.normal((6, 5, 40)))


class TestNumbers:
    """`Random` on a device: each number comes from its own bits of Philox."""

    def source(self, seed=3):
        return random.Random(seed, cupy.cuda.Device(0))

    @pytest.mark.parametrize("dtype, bits, word", [("float32", 24, "<u4"), ("float64", 53, "<u8")])
    def test_uniform_uses_the_leading_bits(self, dtype, bits, word):
        source = self.source()
        key = np.array(source.keys.state, np.uint64)
        numbers = np.random.Philox(key=key).random_raw(500).view(word)
        width = numbers.dtype.itemsize * 8
        expected = (numbers >> np.uint64(width - bits).astype(word)) / 2.0**bits
        out = source.uniform((len(numbers) - 1,), np.dtype(dtype)).get()
        assert out.dtype == dtype
        assert np.array_equal(out, expected[:-1])

    def test_distributions(self, dtype):
        n, source, is_half = 100_001, self.source(), dtype.itemsize == 2
        u = source.uniform((n,), dtype).get().astype("float64")
        assert 0 <= u.min()
        assert u.max() < 1
        near = 5 / n**0.5 + 0.002 * is_half
        assert abs(u.mean() - 0.5) < near
        assert abs(np.histogram(u, 8, (0, 1))[0] / n - 1 / 8).max() < 5 * (0.11 / n) ** 0.5
        z = source.normal((n,), dtype).get().astype("float64")
        assert abs(z.mean()) < near
        assert abs(z.std() - 1) < near
        assert abs((z**3).mean()) < 5 * (15 / n) ** 0.5
        assert abs((z**4).mean() - 3) < 5 * (96 / n) ** 0.5 + 0.03 * is_half
        assert abs((np.abs(z) < 1).mean() - 0.682689) < 0.01
        assert abs((z[1:] * z[:-1]).mean()) < 5 / n**0.5
        assert 4 < np.abs(z).max() < 7

    def test_integers(self):
        source = self.source()
        for dtype in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split():
            bounds = np.iinfo(dtype)
            for low, high in ((1, 8), (bounds.min, bounds.max + 1), (bounds.max - 1, bounds.max)):
                out = source.integers(low, high, (4001,), np.dtype(dtype)).get()
                assert out.dtype == dtype
                assert low <= int(out.min()) <= int(out.max()) < high
                share = (out.astype(object) - low).mean() / (high - low)
                assert high == low + 1 or abs(float(share) - 0.5) < 0.1
        # For a range of 3 * 2**62, a quarter of all words would favour some numbers.
        for n, unit, dtype in ((6, 1, "int64"), (3, 1 << 62, "uint64")):
            out = source.integers(0, n * unit, (n * 10_000,), np.dtype(dtype)).get()
            counts = np.bincount((out // np.array(unit, dtype)).astype(int))
            assert abs(counts - 10_000).max() < 5 * 10_000**0.5
        for low, high in ((-1, 5), (0, 257)):
            with pytest.raises(ValueError, match="out of bounds for uint8"):
                source.integers(low, high, (3,), np.dtype("uint8"))

    def test_permutation_and_shapes(self):
        source = self.source()
        orders = [source.permutation(100).get() for _ in range(2)]
        assert all(sorted(order) == list(range(100)) for order in orders)
        assert not np.array_equal(*orders)
        assert source.permutation(0).shape == (0,)
        for shape in ((), (0,), (3, 0), (2, 3)):
            assert source.uniform(shape, np.dtype("float32")).shape == shape
            assert source.integers(0, 5, shape, np.dtype("int32")).shape == shape

    def test_seeds_and_uses_have_different_keys(self):
        words = {self.source(seed).keys.fresh()[0] for seed in [*range(20), None, None]}
        words |= {gg.random.Generator(seed).key()[0] for seed in range(20)}
        assert len(words) == 42
