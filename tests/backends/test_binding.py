"""Calls that `numpy.bind` makes have the bits of the functions themselves."""

import operator
import warnings
from functools import cache
from itertools import product

import numpy as np
import pytest

import gpugrad  # noqa: F401  the twins and the namespaces declare what they are
from gpugrad.backends import declarations
from gpugrad.backends.declarations import UFUNCS, declaration, declare
from gpugrad.backends.numpy import binding, namespace
from gpugrad.backends.numpy.namespace import xp


def bind(*args, **options):
    """Return a function that makes the calls of `binding.bind`, which are in ``calls``; or None."""
    calls = binding.bind(*args, **options)
    if calls is None:
        return None

    def make_all():
        for call in calls:
            call()

    make_all.calls = calls
    return make_all


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
    values = rng.normal(size=400_000) * 2
    if special:
        chosen = rng.integers(0, 12, values.size) == 0
        values = np.where(chosen, rng.choice(SPECIAL, values.size), values)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


def memory(dtype, shape, layout):
    """An array of a layout, after the array that owns its memory."""
    if layout == "F":
        base = np.empty(shape[::-1], dtype)
        return base, base.T
    if layout == "sliced":
        base = np.empty([2 * n + 1 for n in shape], dtype)
        return base, base[(..., *[slice(1, None, 2) for _ in shape])]
    if layout == "reversed":
        base = np.empty(shape, dtype)
        return base, base[(..., *[slice(None, None, -1) for _ in shape])]
    if layout == "repeated" and shape:
        base = np.empty((1, *shape[1:]), dtype)
        return base, np.broadcast_to(base, shape)
    base = np.empty(shape, dtype)
    return base, base


class Operand:
    """An array of a layout, which can be given other values in the same memory."""

    def __init__(self, dtype, shape, layout="C", seed=0, *, special=True, low=None, high=None):
        self.rng = np.random.default_rng([seed, len(shape), *shape])
        self.special, self.low, self.high = special, low, high
        self.base, self.array = memory(dtype, shape, layout)
        self._fill(self.base)  # the gaps, too

    def fill(self):
        self._fill(self.array if self.array.flags.writeable else self.base)

    def _fill(self, base):
        rng = self.rng
        if self.high is not None:
            base[...] = rng.integers(self.low, self.high, base.shape)
        elif base.dtype.kind in "iu":
            base[...] = rng.integers(0 if base.dtype.kind == "u" else -9, 9, base.shape)
        elif base.dtype.kind == "b":
            base[...] = rng.integers(0, 2, base.shape)
        else:
            values = numbers(base.dtype, self.special)
            start = rng.integers(max(values.size - base.size, 1))
            base[...] = np.resize(values[start : start + base.size], base.shape)


def bits(x):
    return np.ascontiguousarray(x).tobytes()


def outs(expected):
    """Memory of each layout for a result."""
    yield np.empty_like(expected)
    for layout in ("C", "F", "sliced", "reversed"):
        yield memory(expected.dtype, expected.shape, layout)[1]


def call(function, args, kwargs):
    return np.asarray(function(*args, **kwargs))


def check(function, operands, rest=(), kwargs=None, *, may_refuse=False, order=None):
    """Bind a call to memory of each layout; return how many times `bind` refused."""
    kwargs = kwargs or {}
    args = [x.array for x in operands] + list(rest)
    args = args if order is None else [args[i] for i in order]
    refused = 0
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, before = call(function, args, kwargs), [bits(x.array) for x in operands]
        for out in outs(expected):
            bound = bind(function, args, kwargs, out)
            if bound is None:
                assert may_refuse, (function, args)
                refused += 1
                continue
            for is_first in (True, False):
                out[...] = 1
                bound()
                assert [bits(x.array) for x in operands] == before
                assert bits(out) == bits(expected), (function, expected.shape, expected.dtype)
                if is_first:
                    for x in operands:
                        x.fill()
                    expected = call(function, args, kwargs)
                    before = [bits(x.array) for x in operands]
        if declaration(function).holds("elementwise", args, kwargs):
            check_in_place(function, operands, args, kwargs)
    return refused


def check_in_place(function, operands, args, kwargs):
    """The result may lie where an operand of its dtype and shape does."""
    expected = call(function, args, kwargs)
    for i, x in enumerate(args):
        if not isinstance(x, np.ndarray):
            continue
        if (x.shape, x.dtype) != (expected.shape, expected.dtype) or x.dtype.kind == "c":
            continue
        own = x.copy("K")  # perhaps of other strides, on which last bits may depend
        operands = [own if y is x else y for y in args]
        expected = call(function, operands, kwargs)
        bound = bind(function, operands, kwargs, own)
        if bound is not None:
            bound()
            assert bits(own) == bits(expected), (function, i)


UNARY = {
    f for f in vars(np).values()
    if type(f) is np.ufunc and (f.nin, f.nout) == (1, 1)
} | {operator.neg, operator.pos, operator.abs, operator.invert}  # fmt: skip
BINARY = {
    f for f in vars(np).values()
    if type(f) is np.ufunc and (f.nin, f.nout) == (2, 1) and f.signature is None
} | {f for f in UFUNCS if f not in UNARY} - {operator.inv}  # fmt: skip
IN_PLACE = {f for f in UFUNCS if f.__name__ in ("iadd", "isub", "imul", "itruediv", "ifloordiv")}
BINARY = sorted(BINARY - IN_PLACE, key=lambda f: f.__name__)
BINARY = [f for f in BINARY if not (f in UFUNCS and f.__name__[0] == "i")]
BINARY += [xp.maximum, xp.minimum]
UNARY = sorted(UNARY, key=lambda f: f.__name__)
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
            refused = check(function, [Operand(dtype, shape, layout)], may_refuse=True)
            assert not refused or dtype.kind == "c"


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_functions_of_two_arrays(function):
    others = zip(DTYPES, DTYPES[3:] + DTYPES[:3], strict=True)
    for dtype, second in [*zip(DTYPES, DTYPES, strict=True), *others]:
        if not is_possible(function, np.ones(1, dtype), np.ones(1, second)):
            continue
        is_power = dtype.kind in "iu" and "pow" in function.__name__
        bounds = {"low": 0, "high": 4} if is_power else {}
        for shape, (n, layout) in product(UFUNC_SHAPES, enumerate(LAYOUTS)):
            x = Operand(dtype, shape, layout, 1, **bounds)
            y = Operand(second, shape if n % 2 else shape[-1:], LAYOUTS[n - 1], 2, **bounds)
            check(function, [x, y], may_refuse="c" in (dtype.kind, second.kind))


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_functions_of_an_array_and_a_number(function):
    orders = (0, 1), (1, 0)
    for dtype, number, shape, order in product(
        REALS, (2, 0, 3.5, -0.0, np.nan), [(), (7,), (5000,)], orders
    ):
        if type(number) is float and dtype.kind != "f":
            continue
        x = Operand(dtype, shape, **{"low": 0, "high": 4} if dtype.kind in "iu" else {})
        if is_possible(function, *[(x.array, number)[i] for i in order]):
            check(function, [x], [number], order=order)


@pytest.mark.parametrize("function", sorted(IN_PLACE, key=str), ids=lambda f: f.__name__)
def test_operators_in_place(function):
    for dtype, shape in product(REALS, [(7,), (40, 30)]):
        for other in (Operand(dtype, shape, seed=3).array, 2):
            x = Operand(dtype, shape).array
            if not is_possible(function, x.copy(), other):  # integers do not hold their quotients
                continue
            start = x.copy()
            for out in (x, np.empty_like(x)):
                with np.errstate(all="ignore"):
                    expected = function(start.copy(), other)
                    bind(function, (x, other), {}, out)()
                assert bits(out) == bits(expected)
                x[...] = start


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_reductions(name, layout):
    for dtype in REALS + DTYPES[-2:] * (name in ("sum", "mean")):
        for shape in SHAPES:
            for axis in (None, *range(len(shape)), -1, (0, 1), (1, 2)):
                axes = axis if isinstance(axis, tuple) else (axis or 0,)
                if max(axes) >= max(len(shape), 1) or (axis is not None and not shape):
                    continue
                if name == "sum" or 0 not in shape:
                    for keepdims in (False, True):
                        kwargs = {"axis": axis, "keepdims": keepdims}
                        check(getattr(xp, name), [Operand(dtype, shape, layout)], kwargs=kwargs)
    for dtype, wide in (("e", "f"), ("f", "d"), ("i1", "i4"), ("d", "f")) * (name == "sum"):
        for axis in (None, 0, 1):
            kwargs = {"axis": axis, "dtype": np.dtype(wide)}
            check(xp.sum, [Operand(np.dtype(dtype), (100, 9), layout)], kwargs=kwargs)


def test_sums_of_products():
    pairs = ((7, 30), (7, 30)), ((40, 200), (1, 200)), ((2, 5, 9), (5, 9)), ((9,), (9,))
    dtypes = *FLOATS, np.dtype("i4"), np.dtype("F")
    for dtype, shapes, layout in product(dtypes, pairs, LAYOUTS):
        operands = [Operand(dtype, shape, layout) for shape in shapes]
        check(xp.vecdot, operands, kwargs={"axis": -1})


@pytest.mark.parametrize(
    "function", [xp.matmul, np.matmul, operator.matmul], ids=["xp", "numpy", "operator"]
)
def test_products(function):
    pairs = [  # of shapes
        ((3,), (3,)), ((4, 3), (3,)), ((3,), (3, 4)), ((4, 3), (3, 5)), ((90, 80), (80, 70)),
        ((20, 300), (300, 400)), ((5, 1), (1, 6)), ((700, 1), (1, 600)), ((3, 4, 1), (3, 1, 5)),
        ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((1, 4), (4, 1)), ((64, 3, 4), (4, 5)),
        ((1, 3, 4), (2, 4, 5)), ((0, 3), (3, 4)), ((3, 0), (0, 4)), ((1, 1), (1, 1)),
        ((300, 20, 30), (30, 40)),
    ]  # fmt: skip
    for dtype in [*FLOATS, np.dtype("i4"), np.dtype("F"), np.dtype("D"), np.dtype(bool)]:
        for shape1, shape2 in pairs:
            if dtype.char not in "fd" and len(shape1) == 2 < max(shape1) / 100:
                continue  # BLAS computes none, so it would take long
            if dtype.char in "ei?" and shape1 == (300, 20, 30):
                continue  # nor these
            for k, layout in enumerate(LAYOUTS):
                x = Operand(dtype, shape1, layout, special=k % 2)
                y = Operand(dtype, shape2, LAYOUTS[(2 * k) % 5], 5, special=k % 2)
                check(function, [x, y], may_refuse=dtype.kind == "c")


@pytest.mark.parametrize("exponent", [
    0, 1, 2, 3, 4, 5, 6, 7, -1, -2, -3, -4, 0.5, 1.5, -0.5, -1.5, 2.0, 3.0, 0.3, 2.5, 1000, 1025,
    np.inf, np.nan, -0.0,
])  # fmt: skip
def test_powers(exponent):
    for dtype in REALS:
        if dtype.kind != "f" and (type(exponent) is float or not 0 <= exponent <= 100):
            continue
        for shape in [(), (0,), (7,), (256,), (257,), (5000,), (90, 100)]:
            for layout in LAYOUTS:
                check(xp.pow, [Operand(dtype, shape, layout)], [exponent])
                x = Operand(dtype, shape, layout)
                check(operator.pow, [x], [exponent], may_refuse=True)
        if dtype.kind == "f":
            x = Operand(dtype, (5000,), special=False)
            x.low, x.high = 0, 5
            x.fill()
            check(xp.pow, [x], [exponent])


def test_where():
    shapes = (), (0,), (7,), (300,), (5000,), (90, 100)
    for dtype, shape, (k, layout) in product(REALS, shapes, enumerate(LAYOUTS)):
        condition = Operand(np.dtype(bool), shape, LAYOUTS[k - 1])
        x, y = Operand(dtype, shape, layout), Operand(dtype, shape, LAYOUTS[k - 2], 3)
        row = Operand(dtype, shape[-1:], seed=4)
        for pair in ([x, y], [x, row], [row, x]):
            check(xp.where, [condition, *pair])
        for number in (0, 0.0, -0.0, 1, 2.5, np.inf, np.nan):
            if type(number) is int or dtype.kind == "f":
                check(xp.where, [condition, x], [number])
                check(xp.where, [condition, x], [number], order=(0, 2, 1))


def test_casts_and_copies():
    shapes = (), (0, 2), (7,), (90, 100), (4, 3, 70)
    for dtype, shape, layout in product(DTYPES, shapes, LAYOUTS):
        x = Operand(dtype, shape, layout, special=False)
        for to in DTYPES:
            check(xp.astype, [x], [to], may_refuse=True)
        check(namespace.duplicate, [x])


def test_labels():
    shapes = (1,), (7,), (300,), (2, 3), (0,)
    for dtype, shape, layout in product(("i1", "i4", "i8", "u1", "u8"), shapes, LAYOUTS):
        labels = Operand(np.dtype(dtype), shape, layout, low=0, high=5)
        check(xp.one_hot, [labels], [5])
        for kind, order in product(FLOATS, "CF"):
            check(xp.pick, [Operand(kind, (*shape, 5), order, special=False), labels])


@pytest.mark.parametrize("function", [xp.one_hot, xp.pick])
def test_labels_out_of_range_raise(function):
    labels = np.array([0, 1, 2])
    args = (labels, 4) if function is xp.one_hot else (np.ones((3, 4)), labels)
    out = np.empty_like(function(*args))
    bound, unchecked = bind(function, args, {}, out), bind(function, args, {}, out, checked=True)
    raises, operands = declaration(function).check(args, {})
    assert len(bound.calls) == len(unchecked.calls) + 1
    for wrong in (4, -1):
        labels[0] = wrong
        for call in (bound, lambda: raises(*operands)):
            with pytest.raises(IndexError, match="labels must be from 0 to 3"):
                call()
        labels[0] = 1
        bound()
        raises(*operands)


TESTED = {
    xp.sum, xp.mean, xp.max, xp.min, xp.vecdot, xp.matmul, np.matmul, operator.matmul, xp.maximum,
    xp.minimum, xp.pow, operator.pow, operator.ipow, xp.where, xp.astype, namespace.duplicate,
    xp.one_hot, xp.pick, *UNARY, *BINARY, *UFUNCS,
}  # fmt: skip


def test_all_functions_with_out_are_tested():
    declared = [function for function, known in declarations._declared.values() if known.out]
    assert not [f for f in declared if f not in TESTED]


def test_numbers_that_change():
    """0-d arrays stand for numbers where the function does the same with both."""
    for dtype in FLOATS:
        x = Operand(dtype, (50,)).array
        number = np.array(0.5, dtype)
        out = np.empty_like(x)
        bound = bind(operator.mul, (x, number), {}, out)
        for value in (0.5, 2.25):
            number[()] = value
            bound()
            assert bits(out) == bits(x * value)
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
    def first(x):
        return x

    def second(x):
        return x

    assert declare(first, aliases=True) is first
    declare(first, fails=True)
    assert declaration(first).aliases
    assert declaration(first).fails
    second.__name__ = "first"
    assert not declaration(second).aliases

    class Library:
        def take(self):
            pass

    one, other = Library(), Library()
    declare(one.take, fails=True)
    assert declaration(one.take).fails
    assert not declaration(other.take).fails


def test_getitem_fails_by_arrays_only():
    x, places = np.ones(4), np.array([0, 9])
    known = declaration(operator.getitem)
    assert known.holds("fails", (x, places), {})
    assert known.holds("fails", (x, (slice(None), places)), {})
    assert not known.holds("fails", (x, (slice(1, 2), None)), {})
    assert not known.holds("values_shape", (x, places), {})
    assert known.holds("values_shape", (x, x > 0), {})


def matrices(dtype):
    """Matrices of the same shape, the first a harmless one."""
    ones = np.ones((3, 3), dtype)
    yield np.eye(3, dtype=dtype) + ones
    yield ones - 1
    yield ones
    yield ones - 3
    yield ones * 100
    if dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny):
            x = ones.copy()
            x[1, 2] = value
            yield x
            yield ones * value


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
