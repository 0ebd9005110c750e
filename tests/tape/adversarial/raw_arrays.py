"""Raw arrays of NumPy: whatever a function may do with them, and whoever writes them in between."""

import collections
import collections.abc
import copy
import ctypes
import dataclasses
import fractions
import functools
import hashlib
import importlib.util
import operator
import pickle
import tempfile
import weakref

import numpy as np

import gpugrad as gg

from .harness import add, normal, plays, program, uses


def raw_numbers(*values):
    return np.array(values or (0.5, 1.5, 2.5), np.float32)


def uses_of_one(name, use, make=raw_numbers, changes=None):
    """Programs in which a function uses an array that it names, one given, and a tensor's."""
    changes = changes or [lambda a: a.__setitem__(0, 5.0), lambda a: a.fill(2.0)]

    def runs(is_named, world):
        raw = make()
        named = world.compile(lambda x: x * use(raw))
        given = world.compile(lambda x, a: x * use(a))
        world.watch(raw if raw.dtype != object else lambda: repr(raw))
        f = named if is_named else lambda x: given(x, raw)
        world.play(f, changes=[functools.partial(change, raw) for change in changes])

    add(f"{name}_of_state", __name__, functools.partial(runs, True))
    add(f"{name}_of_argument", __name__, functools.partial(runs, False))
    if make is raw_numbers:
        given = [gg.asarray(raw_numbers(0.5 + k, 1.5, 2.5)) for k in range(4)]
        plays(f"{name}_of_a_tensor", lambda x: x * use(x.array), lambda i: (given[i // 2],))


USES = {
    "memoryview": lambda a: memoryview(a)[0], "bytes": lambda a: bytes(a)[3],
    "a_hash_of_the_bytes": lambda a: hashlib.sha256(a).digest()[0],
    "the_attribute_data": lambda a: a.data[0], "the_attribute_flat": lambda a: a.flat[0],
    "the_attribute_ctypes": lambda a: a.ctypes.data_as(_FLOATS)[0],
    "the_type": lambda a: 2 if type(a) is np.ndarray else 3,
    "the_class": lambda a: 2 if a.__class__ is np.ndarray else 3,
    "methods_of_the_class": lambda a: float(np.ndarray.sum(a)),
    "frombuffer": lambda a: float(np.frombuffer(a, np.float32)[0]),
    "as_strided": lambda a: float(np.lib.stride_tricks.as_strided(a, (2,), (4,))[0]),
    "the_interface": lambda a: float(np.array(_Interface(a))[0]),
    "nditer": lambda a: float(sum(v * 2 for v in np.nditer(a))),
    "comparison": lambda a: 2 if a[0] > 1 else 3, "deepcopy": lambda a: copy.deepcopy(a) * 2,
    "pickle": lambda a: pickle.loads(pickle.dumps(a)) * 2,
    "weakref": lambda a: weakref.ref(a)()[0], "text": lambda a: len(str(a)) + len(f"{a}"),
    "indices": lambda a: gg.asarray([3.0, 4.0, 5.0])[a.argsort()],
    "masks": lambda a: gg.asarray([3.0, 4.0, 5.0])[a > 1].sum(),
    "identity": lambda a: 2 if any(x is a for x in [a]) else 3,
    "sets_of_numbers": lambda a: 2 if float(a[0]) in {0.5, 1.0} else 3,
    "pattern_matching": lambda a: _matched(a), "gradients_of_it": lambda a: _gradient_at(a),
    "ops_of_gpugrad_alone": lambda a: gg.exp(a) + gg.sum(a),
    "a_copy_of_another_dtype": lambda a: np.asarray(a, dtype="f8"),
    "vectorize": np.vectorize(lambda v: v * 2),
    "an_array_of_elements": lambda a: np.array([a[0], a[1], a[2]]),
}  # fmt: skip


class _Interface:
    def __init__(self, a):
        self.__array_interface__ = a.__array_interface__


def _matched(a):
    match a:
        case np.ndarray(ndim=1):
            return 2 * float(a[0])
    return 3


def _gradient_at(a):
    x = gg.tensor(a, requires_grad=True)
    (x**3).sum().backward()
    return x.grad


_FLOATS = ctypes.POINTER(ctypes.c_float)

if importlib.util.find_spec("scipy"):
    import scipy.interpolate
    import scipy.linalg
    import scipy.special

    USES |= {
        "ufuncs_of_scipy": lambda a: scipy.special.expit(a),
        "functions_of_scipy": lambda a: float(scipy.special.logsumexp(a)),
        "scipy_in_c": lambda a: scipy.linalg.blas.sdot(a, a),
        "splines": lambda a: scipy.interpolate.BSpline([0, 0, 0, 1, 1, 1], a, 2)(0.3),
    }

for _name, _use in USES.items():
    uses_of_one(_name, _use)


class Own(np.ndarray):
    pass


def lists():
    made = np.empty(1, object)
    made[0] = [1.0]
    return made


def mapped():
    return np.memmap(tempfile.TemporaryFile(), np.float32, "w+", shape=3)


def put(value, place=0):
    return lambda a: a.__setitem__(place, value)


def fill(value):
    return lambda a: a.fill(value)


def base(change):
    return lambda a: change(a.base)


TEXT = getattr(np.dtypes, "StringDType", lambda: object)
RECORD = [("a", "f4"), ("b", "i4")]
# How an array is used, what makes it, and changes.
for _name, (_use, _make, *_changes) in {
    "the_shape_set_in_place": (lambda a: a.shape[0], raw_numbers,
        *[lambda a, shape=shape: setattr(a, "shape", shape) for shape in ((3, 1), (1, 3))]),
    "the_dtype_set_in_place": (lambda a: float(a[0]), raw_numbers,
        *[lambda a, dtype=dtype: setattr(a, "dtype", dtype) for dtype in (np.int32, np.float32)]),
    "an_array_that_is_made_read_only": (lambda a: 2 if a.flags.writeable else 3, raw_numbers,
        lambda a: a.setflags(write=False), lambda a: a.setflags(write=True)),
    "zeros_of_another_sign_and_nan": (lambda a: np.copysign(1, a), raw_numbers,
        *map(put, (0.0, -0.0, np.nan, -np.nan))),
    "an_array_without_axes": (lambda a: a * 2 + float(a) + a[()], lambda: np.array(0.5),
        put(2.0, ()), fill(3.0)),
    "a_structured_array": (lambda a: float(a["a"][0]) + a[0]["b"], lambda: np.ones(2, RECORD),
        lambda a: a["a"].fill(2), lambda a: a["b"].fill(3), lambda a: put(5, "b")(a[0])),
    "an_element_of_a_structured_array": (lambda a: float(a["a"]) + a["b"],
        lambda: np.ones(2, RECORD)[0], put(2, "a"), put(3, "b")),
    "an_array_of_dates": (lambda a: a.astype("i8").sum(), lambda: np.array(["2020"], "M8[D]"),
        fill(np.datetime64("2021")), fill(np.datetime64("NaT"))),
    "an_array_of_lists": (lambda a: a[0][0], lists, lambda a: put(3.0)(a[0]), put([7.0])),
    "an_array_of_texts": (lambda a: len(a[0]), lambda: np.array(["a" * 50, "b"], TEXT()),
        put("a" * 90), fill("abc")),
    "a_masked_array": (lambda a: float(a.sum()), lambda: np.ma.array([1.0, 2.0, 3.0]),
        put(5.0), put(np.ma.masked)),
    "a_matrix": (lambda a: float((a * a)[0, 0]), lambda: np.matrix("1 2; 3 4"),
        put(5, (0, 0)), fill(2)),
    "a_view_with_gaps": (lambda a: gg.asarray(a).sum() + a.sum(), lambda: np.ones(9)[::3],
        put(5), base(fill(2)), base(lambda a: a.put(1, 9))),
    "a_broadcast_array": (lambda a: a.sum(), lambda: np.broadcast_to(np.ones(1), (3,)),
        base(fill(2))),
    "a_reversed_array": (lambda a: a @ a + a[0], lambda: np.arange(3.0)[::-1], base(fill(2))),
    "a_memory_map": (lambda a: a.sum() + float(a[0]), mapped, put(7.0), fill(2.0)),
    "an_array_over_a_memory_map": (lambda a: a.sum() + float(a[0]), lambda: np.asarray(mapped()),
        put(7.0), base(fill(2.0))),
    "an_array_over_other_memory": (lambda a: a.sum() + a[0],
        lambda: np.frombuffer(bytearray(raw_numbers()), "f4"),
        base(lambda memory: put(np.float32(3).tobytes(), slice(4))(memory))),
    "an_own_subclass": (lambda a: 2 * a.sum(), lambda: np.ones(3).view(Own), put(5.0), fill(2.0)),
}.items():  # fmt: skip
    uses_of_one(_name, _use, _make, _changes)


@program
def an_argument_that_is_also_named(world):
    raw, other = raw_numbers(), raw_numbers(3, 4, 5)
    f = world.compile(lambda x, a: x * a * (2 if a is raw else 3) + raw)
    arrays = [raw, raw, other, raw, other, other, raw, raw, other, raw]
    world.play(f, lambda i: (normal(3, seed=i), arrays[i % 10]), changes=[lambda: raw.fill(2)])


@program
def an_argument_that_is_looked_for(world):
    arrays, same = [raw_numbers(), raw_numbers(3, 4, 5)], operator.is_
    functions = (
        lambda x: gg.asarray(x) * (2 if any(x is y for y in arrays[:1]) else 3),
        lambda x: gg.asarray(x) * (2 if x in arrays[:1] else 3),
        lambda x: gg.asarray(x) * (2 if same(x, arrays[0]) else 3),
        lambda x: gg.asarray(x) * (2 if arrays.index(x) == 0 else 3),
    )
    for f in functions:
        world.play(world.compile(f), lambda i: (arrays[0],))


@program
def a_tensor_that_is_also_named(world):
    w, other = gg.ones(3), normal(3)
    f = world.compile(lambda x: x * 2 if x is w else x * 3 + w)
    world.play(f, lambda i: [other, other, other, w, w, other, w][i % 7])


@dataclasses.dataclass
class Holder:
    a: np.ndarray
    more: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: np.ndarray


Pair = collections.namedtuple("Pair", "a b")


def attribute_of(holder):
    return lambda: holder.a


def item_of(holder):
    return lambda: holder[0]


@program
def raw_arrays_in_objects(world):
    places = {
        "a dataclass": lambda a: attribute_of(Holder(a)),
        "a frozen dataclass": lambda a: attribute_of(Frozen(a)),
        "a named tuple": lambda a: attribute_of(Pair(a, 1)),
        "a class": lambda a: attribute_of(type("C", (), {"a": a})),
        "a list of an object": lambda a: item_of(Holder(None, [a]).more),
        "a deque": lambda a: item_of(collections.deque([a])),
        "an iterator": lambda a: item_of(a.flat), "a memory view": lambda a: item_of(memoryview(a)),
        "a polynomial": lambda a: functools.partial(np.poly1d(a), 2.0),
        "a partial": lambda a: functools.partial(np.add, a, 1),
        "a partial of a getter": lambda a: functools.partial(operator.getitem, a, 0),
        "a bound method": lambda a: a.sum,
        "a bound slot": lambda a: functools.partial(a.__getitem__, 0),
        "a bound operator": lambda a: functools.partial(a.__mul__, 2),
        "a default": lambda a: lambda *, a=a: a,
        "a caller of a method": lambda a: functools.partial(
             operator.methodcaller("__rmul__", a), np.array(2.0)),
        "a weak reference": weakref.ref,
    }  # fmt: skip
    for make in places.values():
        get = make(raw := raw_numbers())
        f = world.compile(lambda x, get=get: x * gg.asarray(get()))
        for number in range(8):
            if number % 3 == 2:
                raw[0] += 1
            world.call(f, normal(3, seed=number))


@program
def an_array_over_the_memory_of_a_tensor(world):
    raw = raw_numbers()
    w = gg.asarray(raw)

    @world.compile
    def reads(x):
        w.__iadd__(x)
        return x * float(raw[0]) + raw

    @world.compile
    def writes(x):
        raw[:] += 1
        y = x * w
        raw[:] -= 1
        return y

    world.play(lambda x: (writes(x), reads(x)), changes=[lambda: raw.fill(2)], watch=[raw, w])


@program
def an_array_that_becomes_the_memory_of_a_tensor(world):
    raw, w = raw_numbers(), gg.asarray(raw_numbers())

    def f(x):
        w.__iadd__(x)
        return x * np.exp(raw)

    world.check(f, changes=[lambda: setattr(w, "array", raw), lambda: raw.fill(1)], watch=[raw, w])


@program
def arrays_that_are_returned(world):
    raw = raw_numbers()
    arrays = lambda: (raw * 2, raw[1:] + 0, np.exp(raw)), lambda: (raw,), lambda: (raw[1:],)

    def change(result):
        for part in result[1:]:
            part += 1

    world.watch(raw)
    for made in arrays:
        world.check(lambda x, made=made: (x, *made()), after=change)


uses("operators_between_raw_arrays_and_tensors",
     lambda x, raw: (raw * x, x * raw, raw - x, raw @ x, raw < x, raw**x, raw * x.array),
     raw_numbers, fill(2))  # fmt: skip


@program
def constants_that_are_returned_and_written(world):
    raw = raw_numbers()
    makes = lambda: np.exp(np.zeros(3)), lambda: gg.asarray(np.exp(raw)), lambda: gg.exp(raw)[1:]

    def write(result):
        array = getattr(result[1], "array", result[1])
        array += 5

    for make in makes:
        f = world.compile(lambda x, make=make: (x * 2, make()))
        g = world.compile(lambda x, make=make: (lambda c: (x[:1] * c, c, c[1:]))(make()))
        for number in range(8):
            after = write if number == world.first else None
            world.play(f, lambda i, k=number: (normal(3, seed=k),), after=after, calls=1)
            world.play(g, lambda i, k=number: (normal(3, seed=k),), after=after, calls=1)


def failing(function):
    try:
        function()
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return ""


def _of_argument(use, world):
    given = [raw_numbers(0.5 + i // 2, 1.5, 2.5) for i in range(8)]
    world.check(lambda x, a: x * use(a), lambda i: (normal(3, seed=i), given[i]), watch=[given])


# What a function may do with an argument, besides what it may do with an array that it names.
for _name, _use in {
    "set_shape": lambda a: [setattr(a, "shape", (3, 1)), a.sum(0), setattr(a, "shape", 3)][1],
    "set_real": lambda a: [setattr(a, "real", 2.0), a * 1][1],
    "set_flags": lambda a: a.setflags(write=True) or a.flags.writeable,
    "contains": lambda a: (1.5 in a) + 2 * (7.5 in a.reshape(3, 1)) + (0.5 in a[:, None]),
    "lists": lambda a: a + [1, 2, 3] + ([1, 2, 3] - a) + np.float32(2) * a,
    "equal_to_a_list": lambda a: 2 * (a == [0.5, 1, 2.5]),
    "equal_to_a_text": lambda a: 1 + np.asarray(a == "a").ndim,
    "in_place_by_a_list": lambda a: a.__iadd__([1, 2, 3]) * 1,
    "in_place": lambda a: [a.__imul__(2), a.sort(), a * 1][2],
    "numbers_of_other_types": lambda a: a * fractions.Fraction(1, 2) if a.ndim == 2 else a + True,
    "hash": lambda a: isinstance(a, collections.abc.Hashable) + len(failing(lambda: {a: 1})),
    "not_a_number": lambda a: len(failing(lambda: float(a)) + failing(lambda: 3 if a else 4)),
    "attribute_that_is_missing": lambda a: len(failing(lambda: a.nothing)),
    "new_attribute": lambda a: len(failing(lambda: setattr(a, "nothing", 3))),
    "divmod": lambda a: divmod(a, 2)[1] + divmod(7, a)[0],
    "shifts": lambda a: (a > 1) & (a < 2) | ~(a > 2) ^ True,
    "matmul": lambda a: a @ a + a @ np.eye(3, dtype=np.float32) + np.ones(3) @ a,
    "out_of_another": lambda a: np.add(a, 1, out=np.empty(3, np.float32)),
    "choice_by_gpugrad": lambda a: gg.where(a > 1, a, 0),
    "rows": lambda a: sum([row.sum() for row in a[:, None]]),
    "ellipsis": lambda a: a[..., None][:, 0] + a[[0, 1, 1]] + a[np.array([2, 1, 0])],
    "to_dlpack": lambda a: np.from_dlpack(a) * 2,
    "array_of_it": lambda a: np.array(a) + np.array([a, a])[0] + np.asarray(a) + np.stack([a])[0],
    "dtype_kind": lambda a: 2 if a.dtype == np.float32 and np.issubdtype(a.dtype, float) else 3,
    "getattr_by_name": lambda a: getattr(a, "s" + "um")(),
    "copies": lambda a: copy.copy(a) + a.copy() + a.view() + a.astype(np.float64),
}.items():
    add(f"an_argument_and_{_name}", __name__, functools.partial(_of_argument, _use))


@program
def objects_with_raw_arrays_as_arguments(world):
    class Plain:
        def __init__(self, a):
            self.a = a

    @dataclasses.dataclass
    class Static:
        a: np.ndarray = dataclasses.field(metadata={"static": True})
        b: np.ndarray = None

    plain, static = (Plain(raw_numbers()), Static(raw_numbers(), raw_numbers(7, 8, 9)))
    f = world.compile(lambda x, h: x * h.a + float(h.a[0]))
    g = world.compile(lambda x, h: x * h.a + np.exp(h.a) + (0 if h.b is None else h.b))

    changes = lambda: plain.a.fill(2), lambda: static.a.fill(2)
    world.play(lambda x: (f(x, plain), g(x, static)), changes=changes)


@program
def arguments_that_are_kept_or_returned(world):
    kept = {"a": None}

    def keep(x, a):
        kept["a"] = a
        return x * a

    world.watch(kept)
    for f in (keep, lambda x, a: (a, x), lambda x, a: (a[1:], a.T, x), lambda x, a: [a * 2, a[0]]):
        world.play(world.compile(f), lambda i: (normal(3, seed=i), raw_numbers(i, 1, 2)))


@program
def many_raw_arrays_and_large_ones(world):
    small = [np.full(3, k, np.float32) for k in range(20)]
    large = np.ones(9_000_000, np.float32)
    f = world.compile(lambda x: sum([x * a for a in small], x))
    g = world.compile(lambda x: x * float(large[-1]) + large[:3])
    changes = lambda: small[7].fill(9), lambda: large.__setitem__(-1, 4)
    world.play(lambda x: (f(x), g(x)), changes=changes)
