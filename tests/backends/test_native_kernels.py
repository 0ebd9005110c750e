"""Kernels have the bits of the bound calls in whose place they are.

Every operation by itself is compared here, and random programs of calls. More random programs are
made with ``GPUGRAD_PROGRAMS=5000 pytest tests/backends/test_native_kernels.py -m fuzz``.
"""

import contextlib
import itertools
import math
import os
import warnings
from functools import partial

import kernels
import numpy as np
import pytest
from kernels import Calls, check
from native import assert_same, memory, misaligned

import gpugrad as gg
from gpugrad.backends.declarations import declaration
from gpugrad.backends.native import calls
from gpugrad.backends.native.calls import TYPES, operations
from gpugrad.backends.native.loops import owner
from gpugrad.backends.numpy import noting
from gpugrad.backends.numpy.binding import address_of, bind
from gpugrad.backends.numpy.namespace import xp

pytestmark = pytest.mark.skipif(not kernels.has_kernels, reason="there is no compiler")
UFUNCS = {
    f.__name__: f for f in (*vars(np).values(), noting.clip)
    if type(f) is np.ufunc and f.nout == 1 and f.signature is None
}  # fmt: skip
MIXED = ["bf", "ld", "fd", "df", "?f", "?l", "Bb", "iI", "lL", "Lb", "hd", "qL", "?d", "IL"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, -2.5, 88.0, np.inf, -np.inf, np.nan]
# Functions whose loops kernels call where elements lie side by side only.
CALLED = {*"arctan2 cos exp expm1 fmod hypot log log1p power sin tanh".split()}
EXACT = set("""
    absolute add ceil copysign divide equal floor greater isfinite isinf isnan less logical_and
    logical_not maximum minimum multiply negative reciprocal rint sign sqrt square subtract trunc
""".split())  # fmt: skip


def values(dtype, n, rng):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(n) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        special = [limits.min, limits.min + 1, 0, 1, 2, limits.max - 1, limits.max]
        found = rng.integers(-9 if dtype.kind == "i" else 0, 9, n).astype(dtype)
    else:
        limits = np.finfo(dtype)
        tiny = [limits.smallest_subnormal, limits.smallest_normal / 2, limits.smallest_normal]
        special = [*SPECIAL, *tiny, *np.negative(tiny), limits.max, limits.min]
        found = (rng.normal(size=n) * 3).astype(dtype)
    special = np.array(special, dtype)
    return np.where(rng.random(n) < 0.5, special[rng.integers(0, special.size, n)], found)


def operand(dtype, shape, layout, rng):
    """An array with other elements around it."""
    like = memory(dtype, shape, layout)
    around = values(dtype, owner(like).size + 1, rng)
    offset = address_of(like) - address_of(owner(like))
    return np.ndarray(shape, dtype, around, offset, like.strides)


LINE, TABLE = ((301,), "C"), ((7, 43), "C")
# Shapes and layouts of inputs, and those of the result.
PLACES = {
    "line": ([LINE] * 3, LINE), "table": ([TABLE] * 3, TABLE),
    "numbers": ([((), "C")] * 3, ((), "C")),
    "long": ([((2500,), "C")] * 3, ((2500,), "C")), "repeated": ([((1,), "C")] * 3, ((5, 9), "C")),
    "transposed": ([((7, 43), "transposed"), TABLE, TABLE], TABLE),
    "all transposed": ([((7, 43), "transposed")] * 3, ((7, 43), "transposed")),
    "second": ([((7, 43), "second"), TABLE, ((7, 43), "gaps")], ((7, 43), "second")),
    "reversed": ([((301,), "reversed"), LINE, LINE], LINE),
    "into reversed": ([LINE, ((301,), "reversed"), LINE], ((301,), "reversed")),
    "row": ([TABLE, ((43,), "C"), ((1, 43), "C")], TABLE),
    "column": ([((7, 1), "C"), TABLE, TABLE], TABLE),
    "outer": ([((7, 1), "C"), ((1, 43), "C"), ((43,), "C")], TABLE),
    "middle": ([((5, 1, 9), "C"), ((5, 7, 1), "C"), ((), "C")], ((5, 7, 9), "C")),
    "number": ([TABLE, ((), "C"), ((), "C")], ((7, 43), "gaps")),
    "one": ([((1, 1), "C"), LINE, ((1,), "C")], ((1, 301), "C")),
    "one element": ([((1,), "C"), ((1, 1), "C"), ((), "C")], ((1, 1), "C")),
}  # fmt: skip


def bound(ufunc, dtypes, place, rng):
    """A bound call of a ufunc, or None if there is none or no kernel can make it."""
    try:
        char = ufunc.resolve_dtypes((*map(np.dtype, dtypes), None))[-1].char
    except TypeError:
        return None
    if char not in TYPES:
        return None
    inputs, out = PLACES[place]
    if ufunc.nin == 1 and place not in ("repeated", "number"):
        inputs = [(out[0], inputs[0][1])]
    inputs = [operand(c, *x, rng) for c, x in zip(dtypes, inputs, strict=False)]
    out = operand(char, *out, rng)
    if place in ("line", "table", "second") and rng.random() < 0.5 and inputs[0].dtype == out.dtype:
        out = inputs[0]
    with contextlib.suppress(noting.CannotNote):
        step = noting.bound_ufunc(ufunc, inputs, out)
        return step if operations(step) is not None else None


@pytest.mark.parametrize("place", PLACES)
def test_ufuncs(place):
    rng = np.random.default_rng(0)
    steps, known = [], {}
    for name, ufunc in UFUNCS.items():
        for dtypes in [c * ufunc.nin for c in TYPES] + (MIXED if ufunc.nin == 2 else []):
            # Layouts matter to the text for all dtypes of a size alike.
            if len(set(dtypes)) == 1 and place != "line" and dtypes[0] not in "?fdlB":
                continue
            if len(set(dtypes)) > 1 and place not in ("line", "row", "numbers"):
                continue
            step = bound(ufunc, dtypes, place, rng)
            if step is not None:
                steps.append(step)
                known.setdefault(name, set()).add(dtypes)
    check([Calls(steps[i : i + 8]) for i in range(0, len(steps), 8)], together=200)
    floats = EXACT | {"line": CALLED, "numbers": CALLED, "number": {"clip"}}.get(place, set())
    lacking = [name for name in floats if not known.get(name, set()) >= {"f" * UFUNCS[name].nin}]
    assert not lacking, place


def test_norms_and_stacks():
    rng, given, found = np.random.default_rng(0), [], []
    for dtype in "fd":
        for n, m in [(1, 1), (2, 1), (9, 1), (3, 100), (5000, 1), (20_000, 1), (70, 130)]:
            arrays = values(dtype, (n, m), rng), rng.normal(size=(n, m)).astype(dtype)
            for x, order, axis in itertools.product(arrays, [1, 2, math.inf], [None, 0, -1]):
                if calls._HAS_PRODUCTS or order != 2 or axis is not None:
                    options = {"ord": order, "axis": axis, "keepdims": n == 9}
                    given.append((xp.linalg.vector_norm, x, options))
        for axis in range(-3, 3):
            places = (dtype, "C"), (dtype, "gaps"), (dtype, "F"), ("l", "C")
            arrays = [operand(char, (4, 9), layout, rng) for char, layout in places]
            given.append((xp.stack, arrays, {"axis": axis}))
        given.append((xp.stack, [operand(dtype, (), "C", rng) for _ in range(9)], {}))
    with np.errstate(all="ignore"):
        for function, x, options in given:
            expected = np.asarray(function(x, **options))
            out = np.empty_like(expected)
            found.append(Calls(declaration(function).steps(x, **options, out=out)))
            for step in found[-1].steps:
                step()
            assert kernels.bits(out) == kernels.bits(expected)
    check(found)


UNARY = [
    xp.exp, xp.tanh, xp.sqrt, xp.negative, xp.abs, xp.square, xp.reciprocal, xp.floor, xp.sign,
    xp.log1p, xp.expm1, xp.log, xp.sin, xp.isnan, xp.logical_not,
]  # fmt: skip
BINARY = [
    xp.add, xp.subtract, xp.multiply, xp.divide, xp.maximum, xp.minimum, xp.hypot, xp.atan2,
    np.add, np.multiply, xp.power, xp.copysign, xp.less, xp.greater_equal, xp.equal, xp.logical_and,
]  # fmt: skip
REDUCTIONS = [xp.sum, xp.sum, xp.max, xp.min]
KINDS = ["unary", "binary", "binary", "number", "select", "reduce", "reduce", "cast", "power",
         "product", "pick", "move"]  # fmt: skip


class Program:
    """Random bound calls, which share memory in all ways in which calls can."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.dtype = str(rng.choice(["f", "d"]))
        self.m = int(rng.choice([1, 2, 3, 7, 32, 64, 200]))
        self.n = int(rng.choice([1, 3, 8, 17, 50, 128, 300, 1100]))
        if rng.random() < 0.1:
            self.m, self.n = self.n, self.m
        m, n, other = self.m, self.n, "fd"[self.dtype == "f"]
        self.arrays = [self.new(x) for x in [(m, n), (n,), (m, 1), (), (1, n), (m, n)]]
        self.arrays += [self.new((n, m)).T, self.new((m, 2 * n))[:, ::2], self.new((2 * m, n))[::2]]
        self.arrays += [self.new((m, n), other), self.new((m, n))[::-1], self.new((3, m, n))[1]]
        self.arrays += [self.new((m, n), c) for c in "?lib"]
        self.given = {id(owner(a)) for a in self.arrays}
        self.steps, self.made = [], []
        for _ in range(int(rng.integers(2, 25))):
            with contextlib.suppress(TypeError, ValueError, IndexError):
                self.append(str(rng.choice(KINDS)))

    def new(self, shape, char=None):
        found = values(char or self.dtype, shape, self.rng)
        if self.rng.random() < 0.6 and found.dtype.kind == "f":  # no special ones
            found = self.rng.normal(size=shape)
        return np.array(found, char or self.dtype)

    def any(self, *kinds):
        found = [a for a in self.arrays if not kinds or a.dtype.kind in kinds]
        recent = found[-4:] if self.rng.random() < 0.5 else found
        return recent[self.rng.integers(len(recent))]

    def choose(self, items):
        return items[self.rng.integers(len(items))]

    def append(self, kind):
        rng, kwargs = self.rng, {}
        if kind == "unary":
            function, args = self.choose(UNARY), (self.any(),)
        elif kind == "binary":
            function, args = self.choose(BINARY), (self.any(), self.any())
            if function is xp.copysign:  # NumPy leaves the sign of a nan to the processor
                args = args[0], -2.0
        elif kind == "number":
            number = self.choose([0.0, 0.5, -2.0, 3.0, 1e-3, 2])
            function, args = self.choose(BINARY), (self.any(), number)
        elif kind == "select":
            last = self.any() if rng.random() < 0.6 else 0.0
            function, args = xp.where, (self.any("b"), self.any(), last)
        elif kind == "reduce":
            axis = self.choose([None, 0, 1, -1, (0, 1)])
            function, args = self.choose(REDUCTIONS), (self.any(),)
            kwargs = {"axis": axis, "keepdims": bool(rng.random() < 0.5)}
        elif kind == "cast":
            function, args = xp.astype, (self.any(), np.dtype(self.choose("fdl?")))
        elif kind == "power":
            function, args = xp.power, (self.any("f"), self.choose([2, 3, 4, 0.5, 2.5, -1]))
        elif kind == "product":
            x = self.any("f")
            function, args = xp.matmul, (x, self.choose([self.arrays[6], x.T, self.arrays[0]]))
        else:
            (self.pick if kind == "pick" else self.move)()
            return
        result = np.asarray(function(*args, **kwargs))
        out = self.out(result, args, is_pointwise=kind not in ("reduce", "product"))
        self.bind(function, args, kwargs, out)

    def out(self, result, args, *, is_pointwise):
        """Memory for a result: new, that of an operand, or a part of other memory."""
        rng = self.rng
        kind = result.shape, result.dtype
        same = [a for a in self.arrays if is_pointwise and (a.shape, a.dtype) == kind]
        mine = [a for a in same if any(a is x for x in args)]
        apart = [a for a in same if not any(np.may_share_memory(a, x) for x in args)]
        if mine and rng.random() < 0.3:
            return self.choose(mine)
        if apart and rng.random() < 0.2:
            return self.choose(apart)
        if result.ndim == 2 and rng.random() < 0.1:
            return np.empty(result.shape[::-1], result.dtype).T
        return np.empty(result.shape, result.dtype)

    def pick(self):
        """Elements at places, of which some are out of range."""
        table, places = self.any("f"), self.choose([a for a in self.arrays if a.dtype.kind == "i"])
        out = np.empty(places.shape, table.dtype)
        self.add([partial(np.ndarray.take, table.reshape(-1), places, None, out, "clip")], out)

    def move(self):
        """A copy, or a sum, into a part of an array; perhaps one that overlaps with the operand."""
        x = self.any("f")
        if not x.ndim or x.shape[0] < 2:
            return
        first, second = self.choose([(x[1:], x[:-1]), (x[:-1], x[1:]), (x, x[::-1]), (x[:1], x[1])])
        if self.rng.random() < 0.3:
            second = self.any("f")[: len(first)]
        if np.broadcast_shapes(first.shape, second.shape) != first.shape:
            return
        if self.rng.random() < 0.5:
            self.add([partial(np.copyto, first, second, "unsafe")], first)
        else:
            self.bind(xp.multiply, (first, second), {}, first)

    def bind(self, function, args, kwargs, out):
        steps = bind(function, args, kwargs, out)
        if steps is not None:
            self.add(steps, out)

    def add(self, steps, out):
        if any(operations(step) is None for step in steps):
            return
        self.steps += steps
        self.made.append(out)
        self.arrays.append(out)
        if out.ndim == 2 and self.rng.random() < 0.2:
            self.arrays.append(self.choose([out.T, out[:1], out[:, -1:], out[::-1], out[:, ::-1]]))

    def calls(self):
        """The calls; of some results nobody needs what is left in memory."""
        owners = [id(owner(a)) for a in self.made]
        private = {x for x in owners if x not in self.given and self.rng.random() < 0.5}
        return Calls(self.steps, private)


@pytest.mark.parametrize("n, number, last", [(600_000, 1, []), (8192, 36, [xp.sum])])
def test_long_rows(n, number, last):
    """A thread has memory for parts of a long row, and for few values of a shorter one."""
    row, x, steps, made = np.full(n, 0.5), np.linspace(-1, 1, 2 * n).reshape(2, n), [], set()
    for function in [xp.add, xp.exp, xp.multiply, xp.tanh] * number + last:
        args = (x, row) if function in (xp.add, xp.multiply) else (x,)
        kwargs = {"axis": 1} if function is xp.sum else {}
        made.add(id(x := np.empty_like(function(*args, **kwargs))))
        steps += bind(function, args, kwargs, x)
    check([Calls(steps, made - {id(x)})])


def test_calls_take_the_place_of_a_kernel_where_an_array_is_not_aligned():
    """NumPy adds such arrays in parts."""

    @gg.compile
    def f(x, y):
        return x.sum(), gg.exp(x) * y + x

    x, y = np.random.default_rng(0).standard_normal((2, 20_000))
    given = [[*map(gg.asarray, (a, y))] for a in (x, misaligned(x), x)]
    for _ in range(2):
        f(*given[0])
    assert f.program(*given[0]).kernels
    for arrays in given:
        found, expected = f(*arrays), f.__wrapped__(*arrays)
        assert_same([a.array for a in found], [a.array for a in expected])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # from NumPy, about infinities
def test_blocks_are_computed_again_where_a_nan_is_discarded():
    """Only these blocks of a long row are computed with the search for discarded nan."""
    rng, inf, nan = np.random.default_rng(0), np.inf, np.nan

    def step(x, w, mask):
        y = x * w
        for _ in range(3):
            y = gg.where(mask, y * w, x - y)
            y = gg.maximum(y, x) * x + y / w
        return gg.autograd.grad(gg.where(mask, y, 0.0).sum(), [x, w])

    compiled = gg.compile(step)
    for number in (1.0, 1.0, 0.0, -0.0, inf, -inf, nan):
        x, w = rng.standard_normal((2, 3000))
        x[700:800:7] = w[702:800:7] = x[2990] = w[701] = number
        given = [gg.tensor(a, requires_grad=True) for a in (x, w)]
        given.append(gg.tensor(rng.random(3000) < 0.5))
        found, expected = compiled(*given), step(*given)
        assert number == 1 or "int fast" in str(compiled.program(*given).kernels)
        for a, b in zip(found, expected, strict=True):
            assert kernels.bits(a.numpy()) == kernels.bits(b.numpy())


def programs(seeds):
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        found = [Program(seed) for seed in seeds]
    return [x.calls() for x in found if x.steps]


def test_random_programs():
    """In 889, an index is the absolute value of the smallest integer, which is negative. In 908,
    GCC 12 left out the rounding of two numbers; in 1341, floats lie where integers were before."""
    check(programs([*range(40), 889, 908, 1341]))


@pytest.mark.fuzz
def test_many_random_programs():
    check(programs(range(40, 40 + int(os.environ.get("GPUGRAD_PROGRAMS", "2000")))))
