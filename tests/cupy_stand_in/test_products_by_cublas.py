"""Matrix products on the stand-in for CuPy: the calls of cuBLAS, and the copies of operands.

The stand-in's cuBLAS multiplies the numbers at the given addresses, column by column, so a wrong
flag, leading dimension or distance gives wrong numbers.
"""

import itertools
import math
import threading

import cupy
import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy
import numpy as np
import pytest
from cupy._reads import reads
from cupy.cuda import cublas
from matrices import MATRICES, STACKS, matrix, small_integers, stack, transposed

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad.backends import namespace_of
from gpugrad.backends.cupy import products
from gpugrad.backends.cupy.products import plan_for
from gpugrad.testing import assert_close

xp = namespace_of[type(gg.zeros(1, device="cuda").array)]


@pytest.fixture
def copied(monkeypatch):
    """A list of the shapes of the operands that were copied."""
    found, own = [], products.contiguous
    monkeypatch.setattr(products, "contiguous", lambda x: (found.append(x.shape), own(x))[1])
    reads.clear()
    yield found
    assert reads == []


def multiplied(x1, x2, copied):
    """Check a product; the names of cuBLAS's functions, and how many operands were copied."""
    copied.clear()
    cublas._calls.clear()
    out = xp.matmul(x1, x2)
    expected = np.matmul(x1._values.astype("float64"), x2._values.astype("float64"))
    assert out.shape == expected.shape
    assert out.flags.c_contiguous
    assert_close(out._values.astype("float64"), expected, rtol=0)
    return [*cublas._calls], len(copied)


SIZES = [*itertools.product((1, 3), repeat=3), (4, 2, 3), (2, 5, 2)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("way1", MATRICES)
def test_matrices(copied, way1, sizes):
    """The stride of an axis of length 1 means nothing, so only overlapping operands are copied."""
    m, k, n = sizes
    for way2, batch in itertools.product(MATRICES, [(), (1,), (3,), (2, 3)]):
        (x1, free1), (x2, free2) = matrix(way1, *batch, m, k), matrix(way2, *batch, k, n)
        calls, copies = multiplied(x1, x2, copied)
        # Matrices that are parts of arrays in memory are still at equal distances.
        most = (not free1) + (not free2)
        assert len(calls) <= 1
        assert copies <= most if 1 in sizes or batch == (1,) else (len(calls), copies) == (1, most)


COPIES = dict.fromkeys(STACKS, (1, 1)) | {
    "first alone": (1, 0),
    **dict.fromkeys(["in order", "some of one", "no batch", "neither", "repeated"], (0, 0)),
}


@pytest.mark.parametrize("way2", STACKS)
@pytest.mark.parametrize("way1", STACKS)
def test_batches(copied, way1, way2):
    for m, k, n in (4, 5, 2), (1, 5, 2), (4, 5, 1):
        x1, x2 = stack(way1, m, k), stack(way2, k, n)
        calls, copies = multiplied(x1, x2, copied)
        assert len(calls) == 1
        if way2 == "in order":
            assert copies == (0 if way1 == "between the axes" and m == 1 else COPIES[way1][0])
        if way1 == "in order":
            assert copies == COPIES[way2][1]
        multiplied(transposed(x2), transposed(x1), copied)


def test_rows_of_a_batch_are_one_product(copied):
    for x in (
        small_integers((2, 3, 4, 5)),
        small_integers((2, 3, 4, 8))[..., :5],
        transposed(small_integers((5, 24))).reshape(2, 3, 4, 5),
        small_integers((7, 1, 5)),
        small_integers((4, 3, 1, 5))[::2],
    ):
        for w in small_integers((5, 6)), transposed(small_integers((6, 5))):
            calls, copies = multiplied(x, w, copied)
            plan = plan_for(x.shape, x.strides, w.shape, w.strides, x.itemsize)
            assert (plan.m, plan.products) == (math.prod(x.shape[:-1]), 1) or x.shape[0] == 2
            assert calls == ["gemmEx" if plan.products == 1 else "gemmStridedBatchedEx"]
            assert copies == 0


def test_vectors(copied):
    vector, x = small_integers((5,)), small_integers((2, 3, 4, 5))
    every_other, stacks = small_integers((10,))[::2], (x[0, 0], x[0], x, x.reshape(2, 3, 5, 4).mT)
    for v, matrices in itertools.product((vector, every_other, vector[::-1]), stacks):
        for a, b in (matrices, v), (v, transposed(matrices)):
            calls, copies = multiplied(a, b, copied)
            assert (len(calls), copies) == (1, v.strides[0] < 0)
    multiplied(vector, every_other, copied)


HALVES = {"float16": 2**-11, "bfloat16": 2**-8}


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_halves_are_summed_in_float32_and_never_cast(copied, dtype, monkeypatch):
    x, y = (small_integers(shape, dtype) / 4 for shape in ((3, 40, 200), (3, 200, 30)))
    ones = small_integers((1, 4096), dtype) * 0 + 1
    monkeypatch.setattr(cupy.ndarray, "astype", lambda *_, **__: pytest.fail("cast"))
    for a, b in (x, y), (x[0], y[0]), (transposed(y), transposed(x)), (x, y[0]):
        out = xp.matmul(a, b)
        assert out.dtype == dtype
        expected = np.matmul(a._values.astype("float64"), b._values.astype("float64"))
        near = HALVES.get(dtype, 1e-7) * np.abs(expected) + 1e-12
        assert np.all(np.abs(out._values - expected) <= near)
    assert xp.matmul(ones, transposed(ones))._values.item() == 4096  # sums in float16 stop at 2048
    assert copied == []


@pytest.mark.parametrize("dtype, big", [("float16", 2048), ("bfloat16", 256)])
def test_partial_sums_of_halves_are_not_rounded(dtype, big):
    """cuBLAS may round them unless it is told, in each thread, not to."""
    row, ones = small_integers((1, 4), dtype), small_integers((4, 1), dtype) * 0 + 1
    row[0] = cupy.asarray([big, 1, -big, 1]).astype(row.dtype)
    found = []
    thread = threading.Thread(target=lambda: found.append(xp.matmul(row, ones)._values.item()))
    thread.start()
    thread.join()
    assert [*found, xp.matmul(row, ones)._values.item()] == [2, 2]


def test_mixed_dtypes(copied):
    x, y = small_integers((2, 3), "float32"), small_integers((3, 4), "float64")
    assert xp.matmul(x, y).dtype == "float64"
    multiplied(x, y, copied)
    cublas._calls.clear()
    for dtype in "int64", "complex64":
        assert xp.matmul(x.astype(dtype), y.astype(dtype)).dtype == dtype
    assert cublas._calls == []


def test_errors():
    for shapes, message in [
        (((2, 3), (4, 5)), r"x1 \(2, 3\) and x2 \(4, 5\) do not align: 3 != 4"),
        (((2, 3, 4), (3, 4, 5)), "broadcast"), (((), (2, 3)), "not a matrix"),
        (((3,), (4,)), "lengths 3 and 4"),
    ]:  # fmt: skip
        x1, x2 = map(small_integers, shapes)
        with pytest.raises(ValueError, match=message):
            xp.matmul(x1, x2)
        with pytest.raises(ValueError, match=r"matmul: .*"):
            gg.matmul(gg.asarray(x1), gg.asarray(x2))
    with cupy.cuda.Device(1):
        other = small_integers((3, 2))
    with pytest.raises(ValueError, match="devices 0 and 1"):
        xp.matmul(small_integers((2, 3)), other)


def weigh(q, k, v):
    return gg.softmax(q @ k.mT) @ v


GRADIENTS = {
    "linear": (gg.linear, (8, 4), (3, 4), (3,)),
    "linear of sequences": (gg.linear, (2, 5, 4), (3, 4), (3,)),
    "matmul": (gg.matmul, (5, 4), (4, 3)),
    "matmul with a transpose": (lambda a, b: gg.matmul(a, b.mT), (5, 4), (3, 4)),
    "attention": (weigh, *[(6, 5, 4)] * 3), "heads": (weigh, *[(2, 3, 5, 4)] * 3),
    "einsum": (lambda a, b: gg.einsum("bij,bkj->bik", a, b), (6, 5, 4), (6, 3, 4)),
    "einsum over two": (lambda a, b: gg.einsum("aij,ijk->ak", a, b), (6, 5, 4), (5, 4, 3)),
    "tensordot": (lambda a, b: gg.tensordot(a, b, axes=2), (6, 5, 4), (5, 4, 3)),
    "tensordot of firsts": (
        lambda a, b: gg.tensordot(a, b, axes=((0, 1), (0, 1))), (5, 4, 6), (5, 4, 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GRADIENTS)
def test_backward_copies_nothing(copied, name, monkeypatch):
    function, *shapes = GRADIENTS[name]
    inputs = [gg.asarray(small_integers(s, "float32")).requires_grad_() for s in shapes]
    g = gg.asarray(small_integers(function(*inputs).shape, "float32"))
    reshaped, own = [], cupy.ndarray.reshape

    def reshape(x, *shape, **options):
        out = own(x, *shape, **options)
        if out.size and not np.may_share_memory(out._values, x._values):
            reshaped.append(x.shape)
        return out

    monkeypatch.setattr(cupy.ndarray, "reshape", reshape)
    function(*inputs).backward(g)
    assert (copied, reshaped, reads) == ([], [], [])
    on_cpu = [x.detach().cpu().requires_grad_() for x in inputs]
    function(*on_cpu).backward(g.cpu())
    for x, expected in zip(inputs, on_cpu, strict=True):
        assert_close(x.grad.cpu().numpy(), expected.grad.numpy(), rtol=1e-5, atol=1e-5)
    reads.clear()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_step_in_halves(copied, monkeypatch, dtype, autocast, bfloat16):
    """All products of a step are in 16 bits, forward and backward; nothing is waited for."""
    dtypes, own = [], cublas._multiply

    def multiply(**given):
        dtypes.append(cublas._DTYPES[given["Atype"]])
        own(**given)

    monkeypatch.setattr(cublas, "_multiply", multiply)
    kept = "float32" if autocast else dtype
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 3))
    model.to(device="cuda", dtype=kept)
    optimizer, scaler = optim.Adam(model.parameters()), gg.amp.GradScaler(enabled=autocast)
    x = gg.ones((2, 4, 6), dtype=kept, device="cuda")
    labels = gg.tensor([0, 1, 2, 0, 1, 2, 0, 1], device="cuda")
    for _ in range(2):
        optimizer.zero_grad()
        with gg.amp.autocast("cuda", dtype, enabled=autocast):
            loss = gg.cross_entropy(model(x).reshape(8, 3), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    assert (copied, dtypes) == ([], [dtype] * 2 * 5)
    assert {str(p.grad.dtype) for p in model.parameters()} == {kept}
