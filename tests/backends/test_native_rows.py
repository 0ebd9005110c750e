"""Kernels of rows and of elements have the bits of what NumPy computes in their place."""

import os
import subprocess
import sys
import sysconfig
from itertools import islice, product
from math import prod

import numpy as np
import pytest
from native import assert_same, check_errors, check_twin, misaligned, needs_library, run
from stand_in import ROOT

import gpugrad as gg
from gpugrad import nn
from gpugrad.autograd.rules import kept_names
from gpugrad.backends.native import base, compiler, kernel
from gpugrad.backends.native.reductions import added_slices, outer_product, reduced
from gpugrad.backends.numpy import threads
from gpugrad.backends.numpy.namespace import xp
from gpugrad.kernels.numpy import neural
from gpugrad.ops import activations as smooth
from gpugrad.ops import neural as ops
from gpugrad.ops import normalization

pytestmark = needs_library
LENGTHS = [*range(1, 40), *range(56, 300, 9), 127, 128, 129, 130, 136, 255, 256, 257, 264]
LENGTHS += [300, 512, 784, 1000, 1024, 1025, 4096, 10007]
DTYPES, KINDS = (np.float32, np.float64), ("ordinary", "some special", "zeros")


def values(shape, dtype, kind, seed):
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * rng.choice([1, 1, 5, 100])).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0, tiny, -tiny, 3, -3, 88, -88], dtype)
    if kind != "ordinary":
        chosen = rng.random(shape) < (0.02 if kind == "some special" else 0.9)
        x[chosen] = rng.choice(special[3:] if kind == "zeros" else special, chosen.sum())
    return x


def each_kind(test):
    return pytest.mark.parametrize("dtype", DTYPES)(pytest.mark.parametrize("kind", KINDS)(test))


@each_kind
def test_reductions(dtype, kind):
    ufuncs = {"sum": np.add, "max": np.maximum, "min": np.minimum}
    for length, other in product(LENGTHS, (1, 2, 5, 70)):
        for shape, axes in (
            ((other, length), (-1, 0, None, (0, 1))),
            ((3, length, other), (1, 0, (1, 2), (0, 1), (-1,), (0, 2))),
        ):
            if np.prod(shape) > 300_000:
                continue
            x, keepdims = values(shape, dtype, kind, length), length % 2 == 0
            for axis, (name, ufunc) in product(axes, ufuncs.items()):
                found = reduced(name, x, axis, keepdims)
                if found is not None:
                    expected = ufunc.reduce(x, axis, None, None, keepdims)
                    assert_same(found, expected)
                    assert name != "sum" or not np.isnan(expected).any()
    assert reduced("sum", np.ones_like(x), 1, False) is not None


@pytest.mark.parametrize("size", [1 << 17, (1 << 17) + 1, 200_001, 1 << 20, 3_000_017])
def test_sums_of_many_elements(size):
    x = values(size, np.float32, "ordinary", size)
    assert_same(reduced("sum", x, None, False), np.add.reduce(x))


@each_kind
def test_outer_products(dtype, kind):
    for m, n in (1, 8192), (8192, 1), (819, 11), (11, 819), (300, 100), (1000, 300):
        x, y = values((m, 1), dtype, kind, m), values((1, n), dtype, kind, n)
        if kind == "ordinary" or m * n < 8192:
            assert_same(outer_product(x, y), np.multiply(x, y))
        assert_same(xp.matmul(x, y), np.multiply(x, y))
        assert_same(xp.matmul(x, y, out=np.empty((n, m), dtype).T), np.multiply(x, y))
    assert outer_product(x, y.astype(np.float16)) is None
    assert outer_product(x[::2], y) is None


def added(x, indices, shape, axis):
    """What `added_slices` computes, by NumPy."""
    out = np.zeros(shape, x.dtype)
    np.add.at(np.moveaxis(out, axis, 0), indices.reshape(-1), np.moveaxis(x, axis, 0))
    return out


@each_kind
def test_slices_are_added(dtype, kind):
    for axis, shape, n in (0, (30, 130), 300), (0, (9, 3), 20_000), (1, (5, 70, 2, 50), 80):
        x = values((*shape[:axis], n, *shape[axis + 1 :]), dtype, kind, n)
        m, at = shape[axis], [n if k == axis else 1 for k in range(x.ndim)]
        indices = np.random.default_rng(n).integers(-m, m, at)
        for given in indices, (indices % m).astype(np.uint8), indices.astype(np.int32):
            found = added_slices(x, given, shape, axis - x.ndim)
            assert found is not None or kind == "some special"  # whose errors NumPy reports
            if found is not None:
                assert_same(found, added(x, given, shape, axis))
    assert_same(added_slices(x[::-1], indices, shape, 1), added(x[::-1], indices, shape, 1))


def test_slices_that_are_left_to_numpy():
    x, indices = np.ones((300, 130), np.float32), np.zeros((300, 1), int)
    assert added_slices(x, indices, (7, 130), 0)[0, 0] == 300
    for args in (
        (x.astype(np.float16), indices, (7, 130), 0), (x[:9], indices[:9], (7, 130), 0),
        (x, indices[:, 0], (7, 130), 0), (x, indices[:1], (7, 130), 0),
        (x, indices, (7, 1), 0), (x, indices, (7, 130), 2), (x, indices.T, (300, 7), 1),
        (x, indices + 7, (7, 130), 0), (x, indices - 8, (7, 130), 0),
    ):  # fmt: skip
        assert added_slices(*args) is None
    with pytest.raises(IndexError):
        gg.add_along_axis(x, indices + 7, shape=(7, 130), axis=0)


def test_what_reductions_leave_to_numpy():
    x = values((64, 128), np.float32, "ordinary", 0)
    for other in (x.T, x[:, ::2], x[::-1], x.astype(np.float16), x[:0], x.astype(int)):
        assert reduced("sum", other, -1, False) is None
    for axis in (2, -3, (0, 0), (), (5,), 1.5):
        assert reduced("sum", x, axis, False) is None
    with pytest.raises(np.exceptions.AxisError):
        xp.sum(x, axis=2)
    with pytest.raises(ValueError, match="zero-size"):
        xp.max(np.zeros((0, 3), np.float32), axis=0)
    assert_same(xp.sum(x[:0], axis=0), np.zeros(128, np.float32))


ELEMENTWISE = [
    *[(call, {}) for call in (ops.sigmoid, ops.relu, smooth.silu, smooth.mish, smooth.hardswish)],
    *[(smooth.leaky_relu, {"negative_slope": slope}) for slope in (0.01, 1.5, 0.0, -0.5)],
    *[(smooth.softplus, {"beta": b, "threshold": t}) for b, t in ((1.0, 20.0), (2.5, np.inf))],
    *[
        (smooth.elu, dict(zip(("alpha", "scale", "input_scale"), numbers, strict=True)))
        for numbers in ((1.0, 1.0, 1.0), (1.67, 1.05, 1.0), (2.0, 1.0, 0.5))
    ],
    (smooth.gelu, {"approximate": "tanh"}),
    *[(call, {}) for call in (smooth.logsigmoid, smooth.tanhshrink, smooth.softsign)],
    *[(call, {"lambd": 0.3}) for call in (smooth.hardshrink, smooth.softshrink)],
    (smooth.hardsigmoid, {}), (smooth.hardtanh, {"min_val": 0.0, "max_val": 6.0}),
    (smooth.threshold, {"threshold": 0.1, "value": 20.0}),
]  # fmt: skip


def by_kernel(twin, *args, **static):
    """What a twin returns once there is a kernel, which is ordered the second time."""
    for _ in range(2):
        twin(xp, *args, **static)
    for _, made in twin._kernels._kernels.values():
        made.build.wait()
    return twin(xp, *args, **static)


@each_kind
@pytest.mark.parametrize("call, static", ELEMENTWISE)
def test_elementwise_functions(call, static, dtype, kind):
    op = call.op
    rule, twins = op.rules["x"], op.twins["numpy"]
    for size in (8192, 10_007, 100_003):
        x, g = (values(size, dtype, kind, seed) for seed in (size, size + 1))
        out = op.forward(xp, x, **static)
        if "forward" in twins:
            assert_same(by_kernel(twins["forward"], x, **static), out)
        kept = [{"x": x, "out": out, **static}[name] for name in kept_names(rule)]
        for cotangent in (g, np.broadcast_to(g[:1], size)):
            expected = rule(xp, cotangent, *kept)
            assert_same(by_kernel(twins["x"], cotangent, *kept), expected)
            guarded = xp.zero_discarded_nans(expected, cotangent)
            assert_same(by_kernel(twins["x"], cotangent, *kept, guarded=True), guarded)


def test_rows_of_columns_have_kernels():
    wide = values((64, 256), np.float32, "ordinary", 0)
    sigmoid = ops.sigmoid.op.twins["numpy"]["forward"]
    assert_same(by_kernel(sigmoid, wide[:, 128:]), ops.sigmoid.op.forward(xp, wide[:, 128:]))
    assert sigmoid(xp, wide.T) is NotImplemented
    for twin in (ops.sigmoid.op.twins["numpy"]["x"], smooth.silu.op.twins["numpy"]["x"]):
        for g in (wide[0], wide[:, :1], np.asfortranarray(wide)):
            g = np.broadcast_to(g, wide.shape)
            assert_same(by_kernel(twin, g, wide), by_kernel(twin, g.copy(), wide))


@pytest.mark.parametrize("kind", KINDS)
def test_gelu_is_that_of_its_pieces(kind, monkeypatch):
    x, g = (values(100_003, np.float32, kind, seed) for seed in (1, 2))
    twins = smooth.gelu.op.twins["numpy"]
    found = by_kernel(twins["forward"], x), by_kernel(twins["x"], g, x, "none")
    monkeypatch.setattr(kernel.Formula, "__call__", lambda *args: False)
    assert_same(found, (twins["forward"](xp, x), twins["x"](xp, g, x, "none")))


def shapes_of_rows():
    for n, number in product(LENGTHS, (1, 2, 5, 63, 64, 65, 130, 300)):
        if 1024 <= n * number < 100_000 and (n + number) % 3 == 0:
            yield number, n


@each_kind
@pytest.mark.parametrize("call", [ops.softmax, ops.log_softmax])
def test_softmax(call, dtype, kind):
    for shape in shapes_of_rows():
        x, g = (values(shape, dtype, kind, seed) for seed in (1, 2))
        check_twin(call.op, "x", g, check_twin(call.op, "forward", x, -1), -1)


each_choice = pytest.mark.parametrize("parameters", ["weight and bias", "weight", "bias", ""])
WANTED = (True, True, True), (True, False, False), (False, True, True)


def given_to_norm(parameters, shape, of_parameters, dtype, kind):
    """An input, a cotangent, a weight and a bias; those not in ``parameters`` are None."""
    shapes = zip(("x", "g", "weight", "bias"), [shape] * 2 + [of_parameters] * 2, strict=True)
    made = [(name, values(s, dtype, kind, seed)) for seed, (name, s) in enumerate(shapes)]
    return [x if name in f"x g {parameters}" else None for name, x in made]


@each_kind
@each_choice
def test_layer_norm_and_rms_norm(parameters, dtype, kind):
    layer, rms = normalization.layer_norm.op, normalization.rms_norm.op
    for shape in islice(shapes_of_rows(), "weight" in parameters, None, 2):
        x, g, weight, bias = given_to_norm(parameters, shape, shape[1:], dtype, kind)
        check_twin(layer, "forward", x, weight, bias, ndim=1, eps=1e-5)
        if bias is not None:  # which only that depends on
            continue
        check_twin(rms, "forward", x, weight, ndim=1, eps=None)
        for wanted in WANTED:
            check_twin(layer, "joint", g, x, weight, wanted, 1, 1e-5)
            check_twin(rms, "joint", g, x, weight, wanted[:2], 1, None)


# Shapes of x, and groups. Some channels have one element of an example.
CHANNELS = [
    ((4, 6, 5, 9), 3), ((3, 8, 300), 2), ((40, 64), 8), ((33, 130), 10), ((600, 2), 1),
    ((2, 6, 1, 200), 1), ((5, 3, 16, 16), 3), ((1, 30, 64), 3), ((9, 1, 200), 1), ((130, 10, 1), 5),
]  # fmt: skip


@each_kind
@each_choice
def test_group_norm_and_batch_norm(parameters, dtype, kind):
    group, batch = normalization.group_norm.op, normalization.batch_norm.op
    by_statistics = normalization._by_statistics.op
    for shape, groups in CHANNELS:
        x, g, weight, bias = given_to_norm(parameters, shape, shape[1:2], dtype, kind)
        check_twin(group, "forward", x, weight, bias, groups=groups)
        if shape[1] > 1:  # the sum of one channel is left to NumPy
            check_twin(batch, "forward", x, weight, bias)
        if len(shape) > 2:
            mean, var = values(shape[1:2], dtype, kind, 4), np.arange(1, shape[1] + 1, dtype=dtype)
            given = x, mean, var, weight, bias
            check_twin(by_statistics, "forward", *given, may_decline=True, eps=1e-5)
            for wanted in ((True, False, False, True, True), (False, True, True, False, False)):
                given = g, x, mean, var, weight, wanted, 1e-5
                if shape[1] > 1 and prod(shape[2:]) > 1:
                    check_twin(by_statistics, "joint", *given, may_decline=True)
        for wanted in WANTED:
            check_twin(group, "joint", g, x, weight, wanted, groups, 1e-5)
            if shape[1] > 1:
                check_twin(batch, "joint", [g, None, None], x, weight, wanted, 1e-5)
    mean = np.ones(shape[1], dtype)
    for g_of in ([g, mean, None], [g, None, mean], [None, mean, mean]):
        twin = batch.twins["numpy"]["joint"].twin
        assert twin(xp, g_of, x, weight, wanted, 1e-5) is NotImplemented


@pytest.mark.parametrize("layer, shape, name", [
    (nn.BatchNorm1d(70), (40, 70), "batch_norm_columns"),
    (nn.BatchNorm2d(6), (4, 6, 20, 20), "batch_norm"),
    (nn.GroupNorm(2, 6), (4, 6, 20, 20), "group_norm"),
    (nn.InstanceNorm1d(6), (4, 6, 200), "group_norm"),
])  # fmt: skip
def test_layers_of_channels_use_kernels(layer, shape, name, monkeypatch):
    calls = [calls_of(monkeypatch, kernel) for kernel in (name, f"{name}_vjp")]
    step = gg.compile(lambda x: (layer(x) ** 3).sum().backward())
    for _ in range(4):
        step(gg.tensor(values(shape, np.float32, "ordinary", 0), requires_grad=True))
    assert [*map(bool, calls)] == [True, True]


@each_kind
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(reduction, dtype, kind, monkeypatch):
    rng = np.random.default_rng(0)

    def both():
        return (
            neural._cross_entropy(xp, x, labels, reduction=reduction, ignore_index=ignored),
            neural._cross_entropy_vjp(xp, to_loss, x, labels, reduction, ignored),
        )

    for number, n in shapes_of_rows():
        x, g = (values((number, n), dtype, kind, seed) for seed in (1, 2))
        kind_of_labels = rng.choice([np.int64, np.int16, np.uint8 if n < 256 else np.uint64])
        labels = rng.integers(0, n, number, kind_of_labels)
        ignored = -100 if labels.dtype.kind == "i" and n % 2 else 0
        labels[:: 3 + n % 2] = ignored
        to_loss = np.ascontiguousarray(g[:, 0]) if reduction == "none" else np.asarray(g[0, 0])
        found = both()
        with monkeypatch.context() as patch:
            patch.setattr(neural, "_by_kernel", lambda *args, **options: False)
            assert_same(found, both())
        if reduction == "none":
            together = np.empty(number, dtype), np.empty((number, n), dtype)
            arrays = x, labels.astype(np.int64), *together, to_loss
            if base.rows("cross_entropy", x.dtype, number, n, *arrays, n=ignored, m=1):
                assert_same(together, found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_that_are_not_aligned(dtype):
    """They are left to NumPy, but for labels, of which a kernel needs no alignment."""
    x = values((40, 300), dtype, "ordinary", 0)
    odd, labels = misaligned(x), misaligned(np.arange(40), 4)
    assert reduced("max", odd, -1, False) is None
    assert outer_product(odd.reshape(-1, 1), odd.reshape(1, -1)) is None
    assert not base.rows("cross_entropy", x.dtype, *x.shape, odd, labels, odd[0], n=-1)
    assert_same(gg.sum(gg.asarray(odd)).array, np.sum(odd, keepdims=True).reshape(()))
    layers = gg.softmax, gg.layer_norm, gg.gelu, gg.silu
    for f in (*layers, lambda x: gg.cross_entropy(x, gg.asarray(labels))):
        assert_same(f(gg.asarray(odd)).array, f(gg.asarray(x)).array)
    x, places = values((600, 64), dtype, "ordinary", 0), np.arange(600)[:, None] % 7
    found = added_slices(x, misaligned(places, 4), (7, 64), 0)
    assert_same(found, added_slices(x, places, (7, 64), 0) if dtype == np.float32 else None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_another_byte_order(dtype):
    """They are computed in their own precision, by NumPy."""
    x = values((8, 4, 60), dtype, "ordinary", 0)
    swapped = x.astype(x.dtype.newbyteorder())
    for f in (
        gg.softmax,
        gg.layer_norm,
        gg.rms_norm,
        lambda x: gg.group_norm(x, groups=2),
        gg.silu,
        lambda x: gg.batch_norm(x)[0],
        lambda x: gg.attention(x, x, x),
        lambda x: x @ x.mT,
    ):
        found, expected = [f(gg.asarray(a)).array for a in (swapped, x)]
        eps = np.finfo(dtype).eps
        np.testing.assert_allclose(found, expected, 20 * eps, eps * abs(expected).max())


def test_other_orders_in_memory_have_the_same_bits_without_the_library():
    code = """
        import numpy as np
        import gpugrad as gg
        from gpugrad.backends.native import base

        base.wait()
        x = gg.asarray(np.random.default_rng(0).standard_normal((1000, 3, 4)))
        x, g = x.requires_grad_(), gg.asarray(np.linspace(-1, 1, 12000).reshape(1000, 4, 3).T)
        for layer in (
            gg.softmax, gg.log_softmax, gg.layer_norm, lambda x: gg.group_norm(x, groups=4),
            lambda x: gg.batch_norm(x)[0],
        ):
            out = layer(gg.permute_dims(x, (1, 2, 0)))
            (found,) = gg.autograd.grad(out, x, gg.permute_dims(g, (0, 1, 2)))
            print(hash(out.array.tobytes()), hash(found.array.tobytes()))
        """
    found = [run(code, PYTHONHASHSEED="0", **x) for x in ({}, {"GPUGRAD_NATIVE": "0"})]
    assert found[0] == found[1]


ROWS = {
    "softmax": (lambda x: gg.softmax(x, axis=-1), [()]),
    "log_softmax": (lambda x: gg.log_softmax(x, axis=1), [()]),
    "softmax of columns": (lambda x: gg.softmax(x, axis=0), [()]),
    "gelu": (gg.gelu, [()]),
    "gelu tanh": (lambda x: gg.gelu(x, approximate="tanh"), [()]),
    "layer_norm": (gg.layer_norm, [(), (60,), (60,)]),
    "layer_norm, no bias": (gg.layer_norm, [(), (60,)]),
    "layer_norm, alone": (gg.layer_norm, [()]),
    "layer_norm, two axes": (lambda *xs: gg.layer_norm(*xs, ndim=2), [(), (20, 60), (20, 60)]),
    "rms_norm": (gg.rms_norm, [(), (60,)]),
    "group_norm": (lambda *xs: gg.group_norm(*xs, groups=3), [(), (60,), (60,)]),
    "group_norm, alone": (lambda x: gg.group_norm(x, groups=60), [()]),
    "batch_norm": (lambda *xs: gg.batch_norm(*xs)[0], [(), (60,), (60,)]),
    "batch_norm, images": (lambda *xs: gg.batch_norm(*xs)[0], [(), (20,)]),
}


@each_kind
@pytest.mark.parametrize("has_copy", [False, True])
@pytest.mark.parametrize("wanted", ["all", "first", "others"])
@pytest.mark.parametrize("name", ROWS)
def test_programs_compute_rows_in_their_kernel(name, wanted, has_copy, dtype, kind):
    function, (_, *parameters) = ROWS[name]
    if name == "gelu" and dtype == np.float64:
        return  # SciPy's function
    shape = (150, 20, 60) if "two" in name or "images" in name else (150, 60)
    arrays = [values(s, dtype, kind, i) for i, s in enumerate([shape, *parameters])]
    xs = [gg.asarray(a) for a in arrays]
    leaves = {"all": xs, "first": xs[:1], "others": xs[1:]}[wanted]
    for x in leaves:
        x.requires_grad_()

    def f(*xs):
        y = function(xs[0] * 2, *xs[1:])
        loss = y.sum() if has_copy else (y * y).sum()  # a cotangent that broadcasts is copied
        gradients = gg.autograd.grad(loss, leaves) if leaves else ()
        return [y.detach() * 3, *gradients]

    compiled = gg.compile(f)
    with np.errstate(all="ignore"):
        expected = f(*xs)
        first = [compiled(*xs) for _ in range(2)]
        rows = compiled.program(*xs).rows
        compiled(*xs)
        found = compiled(*xs)
    # The rule of batch normalization takes no cotangents that broadcast.
    assert {row["kernel"] for row in rows} == {0} or (has_copy and "images" in name)
    for y in (*first, found):
        assert_same([a.array for a in y], [a.array for a in expected])


@pytest.mark.parametrize("ignored", [-100, 1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_compiled_cross_entropy_is_one_call_with_its_gradient(reduction, ignored):
    x = gg.tensor(values((50, 7), np.float32, "ordinary", 0), requires_grad=True)
    labels = gg.asarray(np.arange(50) % 7)

    options = {"reduction": reduction, "ignore_index": ignored}

    def f(labels):
        loss = gg.nn.functional.cross_entropy(x * 2, labels, **options)
        x.grad = None
        loss.backward()
        return loss.detach()

    expected, gradient = f(labels).numpy(), x.grad.numpy()
    compiled = gg.compile(f)
    for _ in range(9):
        assert_same(compiled(labels).numpy(), expected)
        assert_same(x.grad.numpy(), gradient)
        for program in compiled._programs:
            program.use_kernels()
    (program,) = compiled._programs
    names = [call.name for call in program.plan.calls]
    assert [name for name in names if "entropy" in name] == ["cross_entropy_and_vjp"]
    assert (program.segments[0].start, program.segments[0].end) == (0, len(names))
    with pytest.raises(IndexError, match="labels must be from 0 to 6"):
        compiled(labels + 7)


def calls_of(monkeypatch, name):
    """The arguments of the calls of a kernel."""
    key, calls = (np.dtype(np.float32), name), []
    kernel, number = base._kernels[key]
    noted = (lambda *args: calls.append(args) or kernel(*args)), number
    monkeypatch.setitem(base._kernels, key, noted)
    return calls


@pytest.mark.parametrize("name", ["layer_norm", "softmax"])
def test_a_cotangent_that_broadcasts(name, monkeypatch):
    x = gg.tensor(values((40, 300), np.float32, "ordinary", 0), requires_grad=True)
    row = np.linspace(-1, 1, 300, dtype=np.float32)
    calls = calls_of(monkeypatch, f"{name}_vjp")
    gradients = [
        gg.autograd.grad(getattr(gg, name)(x), x, gg.asarray(g))[0].array
        for g in (np.broadcast_to(row, x.shape), np.tile(row, (40, 1)))
    ]
    assert_same(*gradients)
    assert len(calls) == 2


@pytest.mark.parametrize("function", [gg.softmax, gg.log_softmax])
def test_errors_are_reported_as_by_numpy(function):
    x = values((64, 64), np.float32, "ordinary", 0)
    x[3, 4] = np.inf
    check_errors(lambda: function(x), "invalid value")


@pytest.mark.parametrize("limit", [None, 1])
def test_a_limit_by_threadpoolctl(limit, number, monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    if not threads._blas.is_known or threads._blas.first == 1:
        pytest.skip("the limit makes no difference")
    x, calls = np.ones((300, 1024), np.float32), calls_of(monkeypatch, "sum")
    with threadpoolctl.threadpool_limits(limit):
        assert (threads.get_num_threads() == 1) is (limit == 1)
        assert_same(xp.sum(x, axis=1), np.add.reduce(x, 1))
    assert [items <= in_piece for _, items, in_piece, *_ in calls] == [limit == 1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="preloads the sanitizers of gcc")
@pytest.mark.skipif(
    sysconfig.get_config_var("Py_GIL_DISABLED") == 1, reason="Python has only its own allocator"
)
def test_nothing_is_read_outside_of_arrays(tmp_path):
    """Without the arrays of zeros, with which no other line of the library runs."""
    if compiler.command()[0].endswith("clang"):
        pytest.skip("preloads the sanitizers of gcc")
    parts = "rows", "products", "recurrent", "attention", "windows", "objects"
    files = [f"{ROOT}/tests/backends/test_native_{part}.py" for part in parts]
    files.append(f"{ROOT}/tests/backends/test_native_kernels.py::test_random_programs")
    words = [*compiler.command(), "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    found = [
        subprocess.check_output([words[0], f"-print-file-name={name}"], text=True).strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    if not all(map(os.path.isabs, found)):
        pytest.skip("needs libasan and libubsan")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-x", "-p", "no:cacheprovider",
         "-m", "not slow", "-k", "not fork and not zeros", *files],
        cwd=ROOT,
        env=os.environ | {
            "CC": " ".join(words), "LD_PRELOAD": " ".join(found), "XDG_CACHE_HOME": str(tmp_path),
            "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc",
        },
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    assert " passed" in done.stdout
    assert "no C compiler" not in done.stdout
