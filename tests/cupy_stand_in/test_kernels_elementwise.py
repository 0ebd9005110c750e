"""Elementwise kernels on the stand-in for CuPy."""

from itertools import product

import cupy
import numpy as np
import pytest
from cupy._traffic import traffic
from definitions import LAYOUTS, NEAR, by_definition, dtype_of, numbers
from numpy.testing import assert_array_equal

import gpugrad as gg
from gpugrad.autograd.rules import kept_names
from gpugrad.backends.cupy import xp
from gpugrad.backends.cupy.kernels import loader, transfers, zero_discarded_nans
from gpugrad.backends.numpy import backend as numpy
from gpugrad.kernels.cuda import elementwise
from gpugrad.kernels.cuda.elementwise import FORWARDS, RULES


@pytest.mark.parametrize("n", [0, 1, 7, 8, 1000, 1025])
@pytest.mark.parametrize("name", [*loader.TYPES, "complex64"])
def test_zero_discarded_nans(name, n):
    dtype = dtype_of(name)
    c, g = (numbers(n, dtype=dtype, seed=seed) for seed in range(2))
    c[::3] = np.nan
    c[1::7] = -np.inf
    g[::2] = 0
    expected = np.where(np.isnan(c) & (g == 0), np.zeros((), dtype), c)
    for start in (0, 1):  # aligned to 16 bytes, or to no more than an element
        given = cupy.asarray(c)[start:], cupy.asarray(g)[start:]
        assert (zero_discarded_nans(*given) is not NotImplemented) == (name in loader.TYPES)
        out = xp.zero_discarded_nans(*given)
        assert out.dtype == c.dtype
        assert np.array_equal(out.get(), expected[start:], equal_nan=True)
    backwards = xp.zero_discarded_nans(cupy.asarray(c)[::-1], cupy.asarray(g)[::-1])
    assert np.array_equal(backwards.get()[::-1], expected, equal_nan=True)


def test_zero_discarded_nans_broadcasts_or_overwrites():
    c = cupy.asarray(np.array([[np.nan, 1], [2, np.nan]]))
    assert xp.zero_discarded_nans(c, cupy.zeros((1, 2))).get().tolist() == [[0, 1], [2, 0]]
    c, g = cupy.asarray([1.0, np.nan, np.nan]), cupy.asarray([0.0, 0.0, 1.0])
    assert zero_discarded_nans(c, g, in_place=True) is c
    assert np.array_equal(c.get(), [1, 0, np.nan], equal_nan=True)


# Those whose inputs are in an interval, and what is on its ends or beyond.
INSIDE = dict.fromkeys([gg.asin, gg.acos, gg.atanh], (-0.9, 0.9)) | {gg.acosh: (1.1, 3)}
SPECIAL = 0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0


def operands(op, dtype, n=300):
    """Inputs, the result and a cotangent, as NumPy arrays of a dtype."""
    rng = np.random.default_rng(0)
    low, high = INSIDE.get(op, (-3, 3))
    inputs = [rng.uniform(low, high, n).astype(dtype) for _ in op.op.inputs]
    if op is gg.pow:  # of a negative base only integers are exponents
        inputs[1][::2] = np.rint(inputs[1][::2].astype("float64"))
        inputs[0][1::2] = abs(inputs[0][1::2])
    for k, x in enumerate(inputs):
        x[: len(SPECIAL) ** 2] = np.tile(SPECIAL, 7) if k else np.repeat(SPECIAL, 7)
    if len(inputs) > 1:
        inputs[1][60:70] = inputs[0][60:70]  # ties
    if op is gg.pow:  # as its docstring says, the gradient to the base is 0 for an exponent of 0
        inputs[0][np.isnan(inputs[0].astype("float64")) & (inputs[1] == 0)] = 1
    g = rng.standard_normal(n).astype(dtype)
    g[::3] = 0
    return inputs, g


PARTS = [(op, part) for op in RULES for part in op.op.twins["cupy"] if part != "forward"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op, part", PARTS, ids=lambda x: getattr(x, "__name__", x))
def test_rules(op, part, dtype):
    near, op, (inputs, g) = NEAR[dtype.name], op.op, operands(op, dtype)
    values = dict(zip(op.inputs, inputs, strict=True))
    values["out"] = by_definition(op, "forward", *inputs).astype(dtype)
    rule, expected = op.twins["cupy"][part], []
    for name in op.inputs if part == "together" else [part]:
        kept = [values[x] for x in kept_names(op.rules[name])]
        expected.append(by_definition(op, name, g, *kept))
    for guarded, start in product((True, False), (0, 1)):  # aligned to 16 bytes, or to an element
        given = [cupy.asarray(values[name])[start:] for name in kept_names(rule)]
        got = rule(xp, cupy.asarray(g)[start:], *given, guarded=guarded)
        for a, e in zip(got if part == "together" else [got], expected, strict=True):
            assert a.dtype == dtype
            e = numpy.xp.zero_discarded_nans(e, g.astype("float64")) if guarded else e
            e = e.astype(dtype).astype("float64")[start:]
            np.testing.assert_allclose(a.get().astype("float64"), e, rtol=near, atol=near)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("op", FORWARDS, ids=lambda op: op.__name__)
def test_forwards(op, dtype, monkeypatch):
    monkeypatch.setattr(elementwise, "LARGE", 0)
    near, forward = NEAR[dtype.name], op.op.twins["cupy"]["forward"]

    def check(*inputs):
        got = forward(xp, *[cupy.asarray(x) if isinstance(x, np.ndarray) else x for x in inputs])
        expected = np.asarray(by_definition(op.op, "forward", *inputs)).astype(dtype)
        assert (got.dtype, got.shape) == (dtype, expected.shape)
        a, e = got.get().astype("float64"), expected.astype("float64")
        np.testing.assert_allclose(a, e, rtol=near, atol=near)

    inputs, _ = operands(op, dtype)
    for start in (0, 1):  # aligned to 16 bytes, or to no more than an element
        check(*[x[start:] for x in inputs])
    x = inputs[0][60:180].reshape(6, 20)
    number = x[0, :1].reshape(())
    if len(inputs) == 1:
        given = [(x,), (x.T,), (x.reshape(2, 3, 20).swapaxes(0, 1),), (x[:0],)]
    else:
        given = [(y, other) for y in (x, x.T) for other in (2, 0.5, True, x[:1, :1], number)]
        given += [(x.T, x.T), *((first, x) for first in (number, 2, -0.5))]
    for operands_ in given:
        check(*operands_)


def test_guarded_or_not():
    """Without a guard, 0 times an infinite slope is nan, as on a CPU."""
    x = gg.tensor([0.0, 4.0], device="cuda", requires_grad=True)
    cotangent = gg.tensor([0.0, 1.0], device="cuda")
    (gg.sqrt(x) * cotangent).sum().backward()
    assert np.array_equal(x.grad.cpu().numpy(), [np.nan, 0.25], equal_nan=True)
    x.grad = None
    gg.sqrt(x).backward(cotangent)
    assert x.grad.tolist() == [0, 0.25]


@pytest.mark.parametrize("number", [2, 3.0, 0, -1, True, 0.1])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_numbers(dtype, number):
    for f in (
        *[lambda x: x * number, lambda x: number / x, lambda x: x**number, lambda x: number**x],
        lambda x: gg.maximum(x, number),
    ):
        found = []
        for device in ("cpu", "cuda"):
            x = gg.linspace(0.5, 2, 20, dtype=dtype, device=device, requires_grad=True)
            f(x).backward(gg.ones_like(x))
            assert x.grad.dtype == x.dtype
            found.append(x.grad.cpu().numpy())
        np.testing.assert_allclose(*found, rtol=NEAR[dtype])


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), lambda x: x[:0]], ids=[*LAYOUTS, "empty"])
def test_layouts(layout):
    values = [cupy.asarray(np.random.default_rng(i).uniform(0.5, 2, (6, 8))) for i in range(3)]
    rule = gg.divide.op.twins["cupy"]["together"]
    for i in range(3):
        given = [layout(x) if i == k or not layout(x).size else x for k, x in enumerate(values)]
        g, x2, out = given
        for a, e in zip(rule(xp, *given), (g / x2, -g * out / x2), strict=True):
            np.testing.assert_allclose(a.get(), e.get(), rtol=1e-14)


def test_what_is_left_to_the_definition(monkeypatch):
    add, rule = gg.add.op.twins["cupy"]["forward"], gg.multiply.op.twins["cupy"]["x1"]
    x = cupy.ones((2, 3))
    for g, x2 in [(x, x[0]), (x, x.astype("float32")), (x + 0j, x + 0j)]:
        assert rule(xp, g, x2) is NotImplemented
    assert add(xp, x, x) is NotImplemented  # few elements
    monkeypatch.setattr(elementwise, "LARGE", 0)
    assert add(xp, x, x).tolist() == [[2] * 3] * 2
    for other in (x[0], x.astype("float32"), x[None, :1, :1], 1j, x + 0j, x[::-1], x.T.copy().T):
        assert add(xp, x, other) is NotImplemented


def test_kept_values_stay_as_they_are():
    """What a rule returns is searched for nan in place only if nobody else has it."""
    kept = []

    @gg.op(elementwise=True)
    def scaled(xp, x, y):
        return x * y

    scaled.vjp(x=lambda xp, g, y: y, y=lambda xp, g, x: kept.append(g * np.inf) or kept[-1])
    x, y = (gg.tensor([np.nan, 1.0], device="cuda", requires_grad=True) for _ in range(2))
    scaled(x, y).backward(gg.zeros(2, device="cuda"))
    assert [x.grad.tolist(), y.grad.tolist()] == [[0, 1], [0, 0]]
    assert np.isnan(y.detach().cpu().numpy()[0])
    assert np.isnan(kept[0].get()).all()


@pytest.mark.parametrize("name", [*loader.TYPES, "complex64"])
def test_copies_of_broadcast_arrays(name, monkeypatch):
    monkeypatch.setattr(loader, "MANY", 0)
    x = cupy.asarray(np.arange(24).reshape(2, 3, 4).astype(dtype_of(name)))
    for source, target in (
        *[(x[0, 0, 0], x.shape), (x[0, 0], x.shape)],  # the latter has rows of whole packs
        (x[0, 0, 1:], (5, 3)),  # rows that are not aligned
        *[(x[:, :1, :1], x.shape), (x[:, :1], (2, 7, 4)), (x[:, None], (2, 5, 3, 4))],
        (x[:, :, None, :, None], (2, 3, 5, 4, 6)),  # two axes apart: left to CuPy
        *[(x[:, :, ::2, None], (2, 3, 2, 3)), (x[:0, :, :, None], (0, 3, 4, 5))],
        (cupy.broadcast_to(x[:1, :, ::2], (1, 3, 2)), (1, 3, 2)),
    ):
        view = cupy.broadcast_to(source, target)
        for out in loader.copy(view), gg.asarray(view, copy=True).array:
            assert out.flags.c_contiguous
            assert_array_equal(out.get(), np.broadcast_to(source.get(), target), strict=True)


@pytest.mark.parametrize("dtype, start, unit", [("u1", 1, 1), ("f2", 1, 2), ("f4", 1, 4)])
def test_arguments_are_copied_in_units_as_large_as_they_lie(dtype, start, unit):
    own = cupy.arange(1, 101).astype(dtype)
    own = cupy.concatenate([own] * (16000 // own.nbytes))
    for before, size in ((start, unit), (16, 16)):
        other = cupy.zeros(before + own.size, dtype)[before:]
        addresses = cupy.asarray(np.array([other.data.ptr], np.uint64))
        with traffic() as launches:
            transfers.copy_arrays([own], addresses, np.zeros(1, np.int64), outward=True)
        assert np.array_equal(other.get(), own.get())
        # Each thread also reads the address.
        assert launches[0].accesses == 2 * own.nbytes // size + 256


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64", "complex128"])
def test_joined_arrays(dtype, monkeypatch):
    """Many arrays, copied in units of 16 bytes down to one."""
    units, rng = set(), np.random.default_rng(0)

    def launch(*args):
        units.add(int(args[2][-1]))
        loader.kernel("transfers", "join", np.dtype("f4"))(*args)

    def drawn(*shape):
        return rng.integers(0, 100, shape).astype(dtype)

    monkeypatch.setattr(transfers, "kernel", lambda *names: launch)
    for count, widths in ((130, (1, 3, 0)), (9, (2,)), (9, (0,)), (9, (2504,))):
        made = [drawn(2, widths[k % len(widths)], 2) for k in range(count)]
        shifted = [cupy.asarray(np.append(x.ravel()[:1], x)) for x in made]
        shifted = [y[x.size > 0 :].reshape(x.shape) for x, y in zip(made, shifted, strict=True)]
        for parts in ([*map(cupy.asarray, made)], shifted):
            out = xp.concat(parts, axis=-2).get()
            assert np.array_equal(out, np.concatenate(made, 1)), (count, widths)
    assert (min(units), max(units)) == (np.dtype(dtype).itemsize, 16)
    made = [drawn(2, 4) for _ in range(9)]
    parts = [*map(cupy.asarray, made)]
    for axis in (0, 1, -1):
        assert_array_equal(xp.stack(parts, axis=axis).get(), np.stack(made, axis), strict=True)
    units.clear()
    for others in ([x.T for x in parts], [*parts, parts[0].astype("complex64")]):  # left to CuPy
        assert xp.concat(others, axis=0).shape[0] == sum(len(x) for x in others)
    assert (xp.concat(parts, axis=None).shape, units) == ((72,), set())
    for join, arrays, axis in (
        *[(xp.concat, [*parts, x], axis) for x, axis in ((parts[0][:1], 1), (parts[0][0], 0))],
        *[(xp.stack, [*parts, parts[0][:1]], 0), (xp.concat, parts, 2), (xp.stack, parts, 3)],
    ):
        with pytest.raises(ValueError, match=r"axis|dimension|shape"):
            join(arrays, axis=axis)
