"""The CUDA twin of attention on the stand-in for CuPy equals the definition."""

from itertools import product

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic
from definitions import LAYOUTS, agree, by_definition, by_twin, declines, dtype_of, on_device

import gpugrad as gg
from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels import loader
from gpugrad.kernels.cuda import attention as kernels

OP = gg.attention.op
NEAR = {"float64": 1e-12, "float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}


def drawn(*shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def some(*shape):
    """Bools, all False in the first row if there are several."""
    out = drawn(*shape) > -0.5
    if len(shape) > 1:
        out[..., 0, :] = False
    return out


def check(shapes, mask=None, dtype="float32", wanted=None, dropout=(0, (0, 0)), turned=(), **given):
    """Compare the value and the cotangents with the definition's, of the same rounded inputs."""
    dtype, static = dtype_of(dtype), {"is_causal": False, "scale": None} | given
    arrays = [drawn(*shape, seed=i).astype(dtype) for i, shape in enumerate(shapes)]
    arrays = [x.swapaxes(*turned).copy().swapaxes(*turned) if turned else x for x in arrays]
    has_slope = mask is not None and mask.dtype.kind == "f"
    arrays.append(mask.astype(dtype) if has_slope else mask)
    p, key = dropout
    rest = *static.values(), p, key, wanted or (True, True, True, has_slope)
    expected = by_definition(OP, "forward", *arrays, **static, dropout_p=p, dropout_key=key)
    g = drawn(*expected.shape, seed=9).astype(dtype)
    expected = [expected, *by_definition(OP, "joint", g, *arrays, *rest)]

    g, *on = on_device([g, *arrays])
    with traffic() as forward:
        out = by_twin(OP, "forward", *on, **static, dropout_p=p, dropout_key=key)
    with traffic() as backward:
        got = [out, *by_twin(OP, "joint", g, *on, *rest)]
    room, slices = kernels._room(max(x.shape[-1] for x in on[:3]), dtype.itemsize, 0)
    assert [x.name for x in forward] == [f"attention_forward_{room}{'s' * (slices > 1)}"]
    assert len(backward) == 2 + rest[-1][3]  # with the counts of jobs, which are 0 at first
    for x, e in zip(got, expected, strict=True):
        assert (x is None) == (e is None)
        if x is None:
            continue
        x = x.get().astype("float64")
        if x.shape != e.shape:  # keys and values that several queries share
            axes = tuple([i for i in range(x.ndim) if x.shape[i] != e.shape[i]])
            assert all(x.shape[i] == 1 for i in axes)
            e = e.sum(axis=axes, keepdims=True)
        e = e.reshape(x.shape)
        scale = max(1, np.max(np.abs(e), initial=0))
        scale *= max(1, on[0].shape[-1] / 130)  # sums of more products round more often
        assert np.abs(x - e).max(initial=0) <= NEAR[dtype.name] * scale
    return got


def some_pairs(first, second):
    """Pair each of the first with two of the second, so that each of the second has some."""
    second = [*second]
    return [(x, second[(i + k) % len(second)]) for i, x in enumerate(first) for k in range(2)]


QUERIES = (2, 3, 70, 8), (2, 3, 75, 8), (2, 3, 75, 5)
SMALL = (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4)
FEATURES = *((n, n) for n in (1, 32, 33, 70, 130, 257)), (8, 40), (300, 20), (20, 300)
MASKS = (5, 6), (1, 6), (6,), (5, 1), (3, 5, 6), (3, 1, 6), (2, 1, 5, 6), (2, 1, 1, 6)


CAUSAL, DROPPED = {"is_causal": True}, {"dropout": (0.4, (1, 2))}
SLICES = (2, 5, 280), (2, 70, 280), (2, 70, 280)
SHARED = (2, 2, 3, 20, 4), (2, 2, 1, 30, 4), (2, 2, 1, 30, 4)
LEADING = (2, 1, 2, 3, 1, 2, 2, 5, 4), (2, 2, 1, 3, 2, 1, 2, 6, 4), (3, 2, 2, 1, 6, 4)
WANTED = (1, 1, 1, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 1, 1, 0)
CASES = [
    *[(QUERIES, {"is_causal": is_causal, "scale": 0.4}) for is_causal in (False, True)],
    *[
        (QUERIES, {"is_causal": is_causal, "dropout": (p, (5, 2**63 + 1))})
        for is_causal, p in product((False, True), (0.3, 1.0))
    ],
    *[
        (SMALL, {"is_causal": is_causal, "mask": mask})
        for is_causal, shape in product((False, True), MASKS)
        for mask in (some(*shape), drawn(*shape))[: 1 + (shape[-1] > 1)]
    ],
    # A block computes one slice of the features of its results.
    *[(SLICES, {"mask": drawn(2, 1, 70), **DROPPED}), (SLICES, {"mask": some(5, 70), **CAUSAL})],
    *[(SHARED, CAUSAL), (SHARED, {"mask": some(2, 2, 3, 20, 30), "dropout": (0.3, (1, 2))})],
    *[(LEADING, CAUSAL), (LEADING, {"mask": drawn(2, 1, 1, 3, 1, 2, 1, 5, 6)})],
]
LENGTHS = (1, 1), (1, 130), (130, 1), (16, 16), (64, 64), (65, 129)
IN_FLOAT32 = [
    *[(((2, 2, 70, 200), *[(2, 1, 90, 200)] * 2), {"wanted": wanted}) for wanted in WANTED],
    *[(((2, n, 4), *[(2, m, 4)] * 2), given) for n, m in LENGTHS for given in ({}, CAUSAL)],
    *[(SMALL, {"mask": np.zeros((5, 6), bool)}), (SMALL, {"mask": drawn(3, 5, 6), **DROPPED})],
    (((1, 20, 128), *[(1, 70, 128)] * 2), DROPPED),
    *[(((3, 5, 4), (1, 6, 4), (6, 4)), {}), (((5, 4), (2, 6, 4), (3, 1, 6, 4)), {})],
    (((3, 5, 4), (1, 6, 4), (1, 6, 4)), {"mask": drawn(2, 1, 5, 6)}),
]


class TestTwin:
    @pytest.mark.parametrize("shapes, given", CASES)
    def test_each_dtype(self, dtype, shapes, given):
        got = check(shapes, dtype=dtype, **given)
        assert shapes is not SHARED or got[2].shape == SHARED[1]

    @pytest.mark.parametrize("shapes, given", IN_FLOAT32)
    def test_float32(self, shapes, given):
        check(shapes, **given)

    @pytest.mark.parametrize("wanted", WANTED)
    @pytest.mark.parametrize("ahead", [1, 3])
    def test_few_statistics_are_ahead(self, ahead, wanted, monkeypatch):
        monkeypatch.setattr(kernels, "_AHEAD", ahead)
        for heads in (3, 1):
            check((QUERIES[0], *[(2, heads, *shape[2:]) for shape in QUERIES[1:]]), wanted=wanted)

    @pytest.mark.parametrize("sizes, dtype", some_pairs(FEATURES, loader.TYPES))
    def test_features(self, sizes, dtype):
        d, e = sizes
        check(((2, 20, d), (2, 30, d), (2, 30, e)), dtype=dtype)

    def test_nothing_to_attend_to(self):
        mask = np.full((5, 6), -np.inf)
        mask[1:] = 0
        assert not check(SMALL, mask)[0].get()[..., 0, :].any()

    def test_heads_are_not_copied(self, dtype):
        """The result lies in memory as the query does."""
        got = check(((2, 3, 20, 8), (2, 3, 30, 8), (2, 3, 30, 8)), dtype=dtype, turned=(1, 2))
        assert all(x.swapaxes(1, 2).flags.c_contiguous for x in got[:4])

    @pytest.mark.parametrize("mask", ["int8", "float32", "float64"])
    def test_a_mask_of_another_dtype(self, mask):
        x, mask = drawn(6, 4).astype("float16"), drawn(6, 6).astype(mask)
        assert_forward([x, x, x, mask], atol=4e-3)

    @pytest.mark.parametrize("name", ["transposed", "strided", "misaligned", "reversed"])
    def test_layouts(self, name):
        """Also of a cotangent that is one number."""
        x = LAYOUTS[name](cupy.asarray(drawn(4, 6, 7)))
        rest = None, False, None, 0.0, (0, 0), (True, True, True, False)
        joint = cupy.broadcast_to(x[:1, :1, :1], x.shape), x, x, x, *rest
        for part, given in (("forward", (x, x, x)), ("joint", joint)):
            on_host = [a.get() if isinstance(a, cupy.ndarray) else a for a in given]
            agree(by_twin(OP, part, *given), by_definition(OP, part, *on_host), x.dtype)

    def test_values_that_are_not_finite(self):
        x = drawn(2, 40, 4).astype("float32")
        x[0, 3], x[1, 2, 1] = np.nan, np.inf
        assert_forward([x] * 3, atol=1e-5)


def assert_forward(arrays, atol):
    got = by_twin(OP, "forward", *arrays).get().astype("float64")
    np.testing.assert_allclose(got, by_definition(OP, "forward", *arrays), rtol=1e-5, atol=atol)


@pytest.mark.parametrize("features", [8, 70, 130])
@pytest.mark.parametrize("shared", [48, 64])
def test_older_devices(shared, features, dtype, monkeypatch):
    """They have less shared memory for a block, and so take smaller slices of features."""
    properties = cupy.cuda.runtime.getDeviceProperties

    def of_device(device):
        return properties(device) | {"sharedMemPerBlockOptin": shared << 10}

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceProperties", of_device)
    monkeypatch.setattr(cupy._raw, "getDeviceProperties", of_device)
    for cached in (kernels._room, kernels._kernel):
        monkeypatch.setattr(kernels, cached.__name__, cached.__wrapped__)
    shapes = (1, 70, features), (1, 75, features), (1, 75, features)
    check(shapes, drawn(75), dtype, is_causal=True, dropout=(0.4, (1, 2)))


@pytest.mark.parametrize("names, result", [
    ("float32 float64 float64", "float64"), ("float16 float32 float16", "float32"),
    ("float16 float16 bfloat16", "float32"), ("int32 int32 float16", "float16"),
])  # fmt: skip
def test_several_dtypes(names, result, bfloat16):
    """They are promoted to that of the result, and the gradients have those of their inputs."""
    arrays = [(2 * drawn(2, 5, 4, seed=i)).astype(dtype_of(x)) for i, x in enumerate(names.split())]
    found = []
    with traffic() as launches:
        for device, given in (("cuda", arrays), ("cpu", [x.astype("float64") for x in arrays])):
            inputs = [gg.tensor(x, device=device) for x in given]
            leaves = [x.requires_grad_() for x in inputs[2 * names.startswith("int") :]]
            out = gg.attention(*inputs)
            g = gg.asarray(drawn(2, 5, 4, seed=9), dtype=out.dtype, device=device)
            grads = gg.autograd.grad(out, leaves, g)
            assert [x.dtype for x in grads] == [x.dtype for x in leaves]
            found.append([out.detach(), *grads])
    launched = [x.name for x in launches if x.name.startswith("attention")]
    assert launched == ["attention_forward_16", "attention_backward_16"]
    assert str(found[0][0].dtype) == result
    for x, e in zip(*found, strict=True):
        near = NEAR[str(x.dtype)] * 4
        assert np.allclose(x.cpu().numpy().astype("float64"), e.numpy(), atol=near)


@pytest.mark.parametrize("shape", [(2, 0, 4), (0, 5, 4)], ids=str)
def test_nothing_to_sum(shape):
    """The definition says what it is."""
    x, y = cupy.ones((shape[0], 3, 4)), cupy.ones(shape)
    assert declines(OP, "forward", x, y, y)
    assert declines(OP, "joint", x, x, y, y, None, False, None, 0.0, (0, 0), (1, 1, 1, 0))


def test_a_mask_with_one_column():
    """It adds the same number to all scores of a query, so its cotangent is 0."""
    x, mask, g = cupy.asarray(drawn(5, 4)), cupy.asarray(drawn(5, 1)), cupy.ones((5, 4))
    rest = False, None, 0.0, (0, 0), (False, False, False, True)
    assert np.allclose(OP.twins["cupy"]["joint"](xp, g, x, x, x, mask, *rest)[3].get(), 0)


def test_scores_beyond_the_range_of_16_bits(dtype):
    """They are computed and kept in float32, as their differences are."""
    x = np.full((1, 4, 8), 256.0)
    x[:, 1] = -256
    x[0, :, 0] += [0, 0, 8, 16]
    assert_forward([a.astype(dtype) for a in (x, x, drawn(1, 4, 8))], atol=2 * NEAR[dtype.name])


KINDS = ["", "causal", "bools", "numbers", "dropout", "grouped", "numbers dropout grouped"]


@pytest.mark.parametrize("sizes", [(512, 64), (8192, 64), (2048, 512)])
@pytest.mark.parametrize("kinds, dtype", some_pairs(KINDS, ["float32", "float16", "bfloat16"]))
def test_launches(kinds, dtype, sizes, monkeypatch):
    """Few at any length, and no more memory at a time than rows have. Not computed."""
    length, features = sizes
    monkeypatch.setattr(cupy._raw, "computes", False)
    dtype, pool = dtype_of(dtype), cupy.get_default_memory_pool()
    heads = 2 if "grouped" in kinds else 8
    shapes = (2, 8, length, features), *[(2, heads, length, features)] * 2
    if has_slope := "numbers" in kinds:
        shapes = *shapes, (8, 1, length)
    inputs = [gg.empty(x, dtype=dtype, device="cuda", requires_grad=True) for x in shapes]
    query, key, value, mask = inputs if has_slope else [*inputs, None]
    if "bools" in kinds:
        mask = gg.empty((length, length), dtype=bool, device="cuda")
    options = {"is_causal": "causal" in kinds, "enable_gqa": "grouped" in kinds}
    options |= {"attn_mask": mask, "dropout_p": 0.1 if "dropout" in kinds else 0.0}
    pool.free_all_blocks()
    before = pool.used_bytes()
    with traffic() as forward:
        out = gg.nn.functional.scaled_dot_product_attention(query, key, value, **options)
    assert pool.total_bytes() - before == query.array.nbytes
    g = gg.empty(out.shape, dtype=dtype, device="cuda")
    with traffic() as backward:
        grads = gg.autograd.grad(out, inputs, g)
    # Two numbers of each query in float32, the counts of blocks, and the sum for a mask.
    more = 4 * (2 * 2 * 8 * length + 8 * length * has_slope) + 512
    # Gradients of leaves that are views of others, here of grouped heads, are copied.
    copied = grads if heads == 2 else ()
    arrays = [x.array.nbytes for x in (out, g, *grads, *copied)]
    assert pool.total_bytes() - before <= sum(arrays) + more
    kernels = [x.name for x in backward if x.name.startswith("attention")]
    assert (len(forward), len(kernels)) == (1, 1 + has_slope)
    assert len(backward) <= 3 + has_slope + len(copied)
