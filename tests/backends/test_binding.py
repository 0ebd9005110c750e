"""Calls that `numpy.bind` makes have the bits of the functions themselves."""

import operator
import warnings
from functools import cache
from itertools import product

import numpy as np
import pytest
from native import memory

import gpugrad  # noqa: F401  the twins and the namespaces declare what they are
from gpugrad.backends import declarations
from gpugrad.backends.declarations import UFUNCS, declaration, declare
from gpugrad.backends.numpy import binding, namespace
from gpugrad.backends.numpy.binding import owner
from gpugrad.backends.numpy.namespace import xp


def bind(*args):
    """A function that makes the calls of `binding.bind`, or None."""
    calls = binding.bind(*args)
    return None if calls is None else lambda: [call() for call in calls]


FLOATS = [np.dtype(c) for c in "efd"]
REALS = [*FLOATS, *map(np.dtype, ("i1", "i4", "i8", "u1", "u8"))]
DTYPES = [*REALS, np.dtype(bool), np.dtype("F"), np.dtype("D")]
SHAPES = [
    (), (0, 3), (1,), (7,), (5000,), (3, 5), (70, 3), (300, 20), (90, 100), (2, 600), (4, 3, 70),
    (70, 1), (600, 130), (3, 0, 2),
]  # fmt: skip
LAYOUTS = ["C", "F", "sliced", "reversed", "repeated"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 3.5, -1e-40, 1e30]


@cache
def numbers(dtype, special):
    """Random numbers, from which operands take some that follow each other."""
    rng = np.random.default_rng(0)
    if dtype.kind in "iub":
        low, high = {"i": (-9, 9), "u": (0, 9), "b": (0, 2)}[dtype.kind]
        return rng.integers(low, high, 400_000).astype(dtype)
    values = rng.normal(size=400_000) * 2
    if special:
        chosen = rng.integers(0, 12, values.size) == 0
        values = np.where(chosen, rng.choice(SPECIAL, values.size), values)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


class Operand:
    """An array of a layout, which can be given other values in the same memory.

    high: the values are integers from 0 to this one, which they do not reach.
    """

    def __init__(self, dtype, shape, layout="C", seed=0, *, special=True, high=None):
        self.rng = np.random.default_rng([seed, len(shape), *shape])
        self.special, self.high = special, high
        self.array = memory(dtype, shape, layout)
        self.fill(owner(self.array))  # the gaps, too

    def fill(self, x=None):
        if x is None:
            x = self.array if self.array.flags.writeable else owner(self.array)
        if self.high is None:
            values = numbers(x.dtype, self.special)
            start = self.rng.integers(max(values.size - x.size, 1))
            taken = values[start : start + x.size]
            x[...] = (np.reshape if taken.size == x.size else np.resize)(taken, x.shape)
        else:
            x[...] = self.rng.integers(0, self.high, x.shape)


def check(function, *args, may_refuse=False, **kwargs):
    """Bind a call to memory of each layout; return how many times `bind` refused.

    args: operands, and what else the function takes.
    """
    operands, refused = [x for x in args if isinstance(x, Operand)], 0
    args = [x.array if isinstance(x, Operand) else x for x in args]

    def now():
        expected = np.asarray(function(*args, **kwargs))
        return expected, expected.tobytes(), [x.array.tobytes() for x in operands]

    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        expected, bits, before = now()
        for out in [memory(expected.dtype, expected.shape, x) for x in LAYOUTS[:-1]]:
            bound = bind(function, args, kwargs, out)
            if bound is None:
                assert may_refuse, (function, args)
                refused += 1
                continue
            for is_first in (True, False):
                out[...] = 1
                bound()
                assert [x.array.tobytes() for x in operands] == before
                assert out.tobytes() == bits, (function, expected.shape, expected.dtype)
                if is_first:
                    for x in operands:
                        x.fill()
                    expected, bits, before = now()
        if declaration(function).holds("elementwise", args, kwargs):
            check_in_place(function, args, kwargs, expected)
    return refused


def check_in_place(function, args, kwargs, expected):
    """The result may lie where an operand of its dtype and shape does."""
    for i, x in enumerate(args):
        if not isinstance(x, np.ndarray) or x.dtype.kind == "c":
            continue
        if (x.shape, x.dtype) == (expected.shape, expected.dtype):
            own = x.copy("K")  # perhaps of other strides, on which last bits may depend
            operands = [own if y is x else y for y in args]
            expected = np.asarray(function(*operands, **kwargs))
            if bound := bind(function, operands, kwargs, own):
                bound()
                assert own.tobytes() == expected.tobytes(), (function, i)


FUNCTIONS = [f for f in vars(np).values() if type(f) is np.ufunc and f.signature is None]
SHAPED = [(f, (ufunc.nin, ufunc.nout)) for f, ufunc in ({f: f for f in FUNCTIONS} | UFUNCS).items()]
IN_PLACE = [getattr(operator, f"i{name}") for name in "add sub mul truediv floordiv".split()]
UNARY = [f for f, numbers in SHAPED if numbers == (1, 1)]
BINARY = [f for f, n in SHAPED if n == (2, 1) and not (f in UFUNCS and f.__name__[0] == "i")]
BINARY += [xp.maximum, xp.minimum]
each_binary = pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
UFUNC_SHAPES = [(), (0, 3), (7,), (5000,), (40, 30), (4, 3, 70)]


def is_possible(function, *args):
    try:
        with np.errstate(all="ignore"):
            function(*args)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_functions_of_one_array(function):
    for dtype, shape, layout in product(DTYPES, UFUNC_SHAPES, LAYOUTS):
        if is_possible(function, np.ones(1, dtype)):
            refused = check(function, Operand(dtype, shape, layout), may_refuse=True)
            assert not refused or dtype.kind == "c"


@each_binary
def test_functions_of_two_arrays(function):
    for dtype, second in zip(DTYPES * 2, DTYPES + DTYPES[3:] + DTYPES[:3], strict=True):
        if not is_possible(function, np.ones(1, dtype), np.ones(1, second)):
            continue
        high = 4 if dtype.kind in "iu" and "pow" in function.__name__ else None
        for shape, (n, layout) in product(UFUNC_SHAPES, enumerate(LAYOUTS)):
            x = Operand(dtype, shape, layout, 1, high=high)
            y = Operand(second, shape if n % 2 else shape[-1:], LAYOUTS[n - 1], 2, high=high)
            check(function, x, y, may_refuse="c" in (dtype.kind, second.kind))


@each_binary
def test_functions_of_an_array_and_a_number(function):
    for dtype, number, shape in product(REALS, (2, 0, 3.5, -0.0, np.nan), [(), (7,), (5000,)]):
        if type(number) is float and dtype.kind != "f":
            continue
        x = Operand(dtype, shape, high=4 if dtype.kind in "iu" else None)
        for args in ((x, number), (number, x)):
            if is_possible(function, *[a.array if a is x else a for a in args]):
                check(function, *args)


def test_clip():
    for dtype, shape, layout in product(REALS, UFUNC_SHAPES, LAYOUTS):
        x, low, high = (Operand(dtype, shape, layout, seed) for seed in range(3))
        row = Operand(dtype, shape[-1:], seed=4)
        numbers = ((0.0, 1.5), (-0.0, None), (np.nan, 1.0)) if dtype.kind == "f" else ((1, 3),)
        for bounds in ((None, None), (low, None), (None, 1), (low, high), (row, 2), *numbers):
            check(xp.clip, x, *bounds)


@pytest.mark.parametrize("function", IN_PLACE, ids=lambda f: f.__name__)
def test_operators_in_place(function):
    for dtype, shape, is_number in product(REALS, [(7,), (40, 30)], (False, True)):
        x, other = Operand(dtype, shape).array, Operand(dtype, shape, seed=3).array
        start, other = x.copy(), 2 if is_number else other
        if not is_possible(function, x.copy(), other):  # integers do not hold their quotients
            continue
        for out in (x, np.empty_like(x)):
            with np.errstate(all="ignore"):
                expected = function(start.copy(), other)
                bind(function, (x, other), {}, out)()
            assert out.tobytes() == expected.tobytes()
            x[...] = start


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_reductions(name, layout):
    function, is_sum = getattr(xp, name), name in ("sum", "mean")
    axes = None, 0, 1, 2, -1, (0, 1), (1, 2)
    for (k, dtype), shape, axis in product(enumerate(REALS + DTYPES[-2:] * is_sum), SHAPES, axes):
        is_there = axis is None or max(np.atleast_1d(axis)) < len(shape) > 0
        if is_there and (name == "sum" or 0 not in shape):
            keepdims = (k + len(shape)) % 2 == 0
            check(function, Operand(dtype, shape, layout), axis=axis, keepdims=keepdims)
    if name == "sum":
        for (dtype, wide), axis in product(("ef", "fd", "bi", "df"), (None, 0, 1)):
            x = Operand(np.dtype(dtype), (100, 9), layout)
            check(xp.sum, x, axis=axis, dtype=np.dtype(wide))


def test_sums_of_products():
    pairs = ((7, 30), (7, 30)), ((40, 200), (1, 200)), ((2, 5, 9), (5, 9)), ((9,), (9,))
    for dtype, shapes, layout in product((*FLOATS, np.dtype("i4"), np.dtype("F")), pairs, LAYOUTS):
        check(xp.vecdot, *[Operand(dtype, shape, layout) for shape in shapes], axis=-1)


PRODUCTS = {"xp": xp.matmul, "numpy": np.matmul, "operator": operator.matmul}


@pytest.mark.parametrize("function", PRODUCTS.values(), ids=PRODUCTS)
def test_products(function):
    pairs = [  # of shapes
        ((3,), (3,)), ((4, 3), (3,)), ((3,), (3, 4)), ((4, 3), (3, 5)), ((90, 80), (80, 70)),
        ((20, 300), (300, 400)), ((5, 1), (1, 6)), ((700, 1), (1, 600)), ((3, 4, 1), (3, 1, 5)),
        ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((1, 4), (4, 1)), ((64, 3, 4), (4, 5)),
        ((1, 3, 4), (2, 4, 5)), ((0, 3), (3, 4)), ((3, 0), (0, 4)), ((1, 1), (1, 1)),
        ((300, 20, 30), (30, 40)),
    ]  # fmt: skip
    dtypes = [*FLOATS, np.dtype("i4"), np.dtype("F"), np.dtype("D"), np.dtype(bool)]
    pairs = pairs[:4] if function is operator.matmul else pairs
    for dtype, (shape1, shape2) in product(dtypes, pairs):
        if dtype.char not in "fd" and len(shape1) == 2 < max(shape1) / 100:
            continue  # BLAS computes none, so it would take long
        if dtype.char in "ei?" and shape1 == (300, 20, 30):
            continue  # nor these
        for k, layout in enumerate(LAYOUTS):
            x = Operand(dtype, shape1, layout, special=k % 2)
            y = Operand(dtype, shape2, LAYOUTS[(2 * k) % 5], 5, special=k % 2)
            check(function, x, y, may_refuse=dtype.kind == "c")


@pytest.mark.parametrize("exponent", [
    0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, 0.5, 1.5, -0.5, -1.5, 2.0, 3.0, 0.3, 2.5, 1000, 1025,
    np.inf, np.nan, -0.0,
])  # fmt: skip
def test_powers(exponent):
    for dtype in REALS:
        if dtype.kind != "f" and (type(exponent) is float or not 0 <= exponent <= 100):
            continue
        for shape, layout in product([(), (0,), (7,), (256,), (257,), (5000,), (90, 100)], LAYOUTS):
            check(xp.pow, Operand(dtype, shape, layout), exponent)
            if shape in ((), (7,)):
                check(operator.pow, Operand(dtype, shape, layout), exponent, may_refuse=True)
        if dtype.kind == "f":
            check(xp.pow, Operand(dtype, (5000,), high=5), exponent)


def test_where():
    shapes = (), (0,), (7,), (300,), (5000,), (90, 100)
    for dtype, shape, (k, layout) in product(REALS, shapes, enumerate(LAYOUTS)):
        condition = Operand(np.dtype(bool), shape, LAYOUTS[k - 1])
        x, y = Operand(dtype, shape, layout), Operand(dtype, shape, LAYOUTS[k - 2], 3)
        row, narrow = Operand(dtype, shape[-1:], seed=4), (*shape[:-1], 1)[: len(shape)]
        column, some = Operand(dtype, narrow, seed=4), Operand(np.dtype(bool), narrow, layout)
        pairs = [(x, y), (x, row), (row, x), (column, x), (column, column)]
        for number in (0, 1, *(0.0, -0.0, 2.5, np.inf, np.nan) * (dtype.kind == "f")):
            pairs += [(x, number), (number, x), (column, number), (number, column)]
        for pair in pairs:
            check(xp.where, condition, *pair)
        check(xp.where, some, x, 0.0)
        check(xp.where, some, 0.0, x)


COPIES = namespace.duplicate, namespace.in_c_order


def test_casts_and_copies():
    for dtype, shape, layout in product(DTYPES, ((), (0, 2), (7,), (90, 100), (4, 3, 70)), LAYOUTS):
        x = Operand(dtype, shape, layout, special=False)
        for to in DTYPES:
            check(xp.astype, x, to, may_refuse=True)
        for copy in COPIES:
            check(copy, x)


def test_labels():
    shapes = (1,), (7,), (300,), (2, 3), (0,)
    for dtype, shape, layout in product(("i1", "i4", "i8", "u1", "u8"), shapes, LAYOUTS):
        labels = Operand(np.dtype(dtype), shape, layout, high=5)
        check(xp.one_hot, labels, 5)
        for kind, order in product(FLOATS, "CF"):
            check(xp.pick, Operand(kind, (*shape, 5), order, special=False), labels)


@pytest.mark.parametrize("function", [xp.one_hot, xp.pick])
def test_labels_out_of_range_raise(function):
    labels = np.array([0, 1, 2])
    args = (labels, 4) if function is xp.one_hot else (np.ones((3, 4)), labels)
    out = np.empty_like(function(*args))
    unchecked = binding.bind(function, args, {}, out, checked=True)
    assert len(binding.bind(function, args, {}, out)) == len(unchecked) + 1
    raises, operands = declaration(function).check(args, {})
    for call, wrong in product((bind(function, args, {}, out), lambda: raises(*operands)), (4, -1)):
        labels[0] = wrong
        with pytest.raises(IndexError, match="labels must be from 0 to 3"):
            call()
        labels[0] = 1
        call()


TESTED = {
    xp.sum, xp.mean, xp.max, xp.min, xp.vecdot, xp.matmul, np.matmul, operator.matmul, xp.maximum,
    xp.minimum, xp.pow, operator.pow, operator.ipow, xp.where, xp.astype, xp.clip,
    xp.one_hot, xp.pick, *COPIES, *UNARY, *BINARY, *UFUNCS,
}  # fmt: skip


def test_all_functions_with_out_are_tested():
    declared = [function for function, known in declarations._declared.values() if known.out]
    assert not [f for f in declared if f not in TESTED]


def test_numbers_that_change():
    """0-d arrays stand for numbers where the function does the same with both."""
    for dtype in FLOATS:
        x, number = Operand(dtype, (50,)).array, np.array(0.5, dtype)
        out = np.empty_like(x)
        bound = bind(operator.mul, (x, number), {}, out)
        for value in (0.5, 2.25):
            number[()] = value
            bound()
            assert out.tobytes() == (x * value).tobytes()
        assert bind(xp.pow, (x, number), {}, out) is None
        assert bind(operator.pow, (x, number), {}, out) is None
    large = np.ones(5000, np.float32)
    assert bind(xp.maximum, (large, np.array(0, np.float32)), {}, np.empty_like(large)) is None


def test_what_is_not_known_is_not_bound():
    def duplicate(x):
        return 2 * x

    x = np.ones(3)
    assert bind(duplicate, (x,), {}, np.empty(3)) is None
    assert declaration(duplicate) == declarations.Declaration()
    assert declaration(np.divmod) == declaration(np.linalg.inv) == declarations.Declaration()
    assert bind(np.add, (x, x), {"where": x > 0}, np.empty(3)) is None


def test_declarations_belong_to_objects():
    first, second = (lambda x: x), (lambda x: x)
    assert declare(first, aliases=True) is first
    declare(first, fails=True)
    known = declaration(first)
    assert (known.aliases, known.fails) == (True, True)
    assert not declaration(second).aliases

    class Library:
        def take(self):
            """Give nothing."""

    one, other = Library(), Library()
    declare(one.take, fails=True)
    assert declaration(one.take).fails
    assert not declaration(other.take).fails


def test_getitem_fails_by_arrays_only():
    x, places = np.ones(4), np.array([0, 9])
    holds = declaration(operator.getitem).holds
    keys = places, (slice(None), places), (slice(1, 2), None)
    assert [holds("fails", (x, key), {}) for key in keys] == [True, True, False]
    assert [holds("values_shape", (x, key), {}) for key in (places, x > 0)] == [False, True]


def matrices(dtype):
    """Matrices of the same shape, the first a harmless one."""
    ones = np.ones((3, 3), dtype)
    yield from (np.eye(3, dtype=dtype) + ones, ones - 1, ones, ones - 3, ones * 100)
    if dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny):
            x = ones.copy()
            x[1, 2] = value
            yield from (x, ones * value)


# They write files, or do other things than compute.
UNPROBED = "_", "save", "savez", "show_config", "show_runtime", "info", "test", "get_include"
PROBED = [
    (f"{prefix}{name}", function)
    for prefix, space in (("", xp), ("linalg.", xp.linalg))
    for name, function in vars(space).items()
    if callable(function) and not isinstance(function, type) and not name.startswith(UNPROBED)
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.dtype("d"), np.dtype("i8")], ids=str)
@pytest.mark.parametrize("number", [1, 2])
def test_functions_that_fail_by_values_are_declared(number, dtype):
    undeclared = set()
    for (name, function), extra in product(PROBED, ((), (1,))):
        harmless, *others = matrices(dtype)
        with np.errstate(all="ignore"):
            try:
                function(*[harmless] * number, *extra)
            except Exception:  # noqa: BLE001  it takes other arguments
                continue
            for x in others:
                args = (harmless, x)[2 - number :] + extra
                try:
                    function(*args)
                except Exception as error:  # noqa: BLE001
                    if not declaration(function).holds("fails", args, {}):
                        undeclared.add(f"{name}: {type(error).__name__}: {error}")
    assert not undeclared
