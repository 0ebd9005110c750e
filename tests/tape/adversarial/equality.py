"""Values that Python calls equal and that are not the same."""

import collections
import decimal
import fractions
import functools
import math

import numpy as np

import gpugrad as gg

from .harness import add

KINDS = {float: 2.0, int: 3.0, bool: 5.0, tuple: 7.0, str: 11.0}


def attack(*values):
    """A program whose function sees these values in turn, in a closure and as arguments."""

    def decorate(see):
        def runs(world):
            table = {"value": values[0]}
            f, g = world.compile(lambda x: see(x, table["value"])), world.compile(see)
            changes = [functools.partial(table.update, value=v) for v in (*values[1:], *values)]
            world.play(lambda x: (f(x), g(x, table["value"])), changes=changes)

        return add(see.__name__, __name__, runs)

    return decorate


@attack(1, True, 1.0, np.float32(1), np.int8(1), complex(1), np.True_, np.float64(1))
def ones_of_all_types(x, value):
    return x.astype(gg.int16) * value, type(value)


@attack(0.0, -0.0, 0, False, -0.0)
def zeros_of_both_signs(x, value):
    return x * value, 1 / (x * 0 + value), math.copysign(1.0, value)


@attack(0j, complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0))
def complex_zeros(x, value):
    return x * value + value


@attack(math.nan, float("nan"), np.float32("nan"), 1.0)
def numbers_that_are_not(x, value):
    return x * value, value == value, type(value)


@attack(math.nan, -math.nan)
def the_sign_of_what_is_not_a_number(x, value):
    return gg.signbit(x * 0 + value), math.copysign(1.0, value)


@attack(range(0, 4, 2), range(0, 3, 2), range(0, 5, 4), range(0, 8, 4))
def ranges_with_equal_items(x, value):
    return x * value.stop + value.step, value


@attack(range(0), range(5, 5), range(3, 0))
def empty_ranges(x, value):
    return x * value.start + value.stop, value


@attack((1, 2), (1.0, 2), (True, 2), (1, 2.0))
def tuples_with_equal_items(x, value):
    return x.astype(gg.int32) * value[0] * value[1], type(value[0])


@attack({(1,): 2.0}, {(1.0,): 2.0}, {(True,): 2.0})
def keys_that_are_equal_tuples(x, value):
    ((key,),) = value
    return x.astype(gg.int32) * key, key


@attack({1: 2.0}, {1.0: 2.0}, {True: 2.0}, {np.int64(1): 2.0})
def keys_that_are_equal_numbers(x, value):
    (key,) = value
    return x.astype(gg.int32) * key, type(key)


@attack({0.0: 1}, {-0.0: 1}, {0: 1})
def keys_that_are_zeros(x, value):
    (key,) = value
    return 1 / (x * 0 + key), key


@attack(frozenset({1}), frozenset({1.0}), frozenset({True}))
def frozen_sets_with_equal_items(x, value):
    (item,) = value
    return x.astype(gg.int32) * item, item


@attack({1}, {1.0}, {True}, frozenset({1}))
def sets_with_equal_items(x, value):
    (item,) = value
    return x.astype(gg.int32) * item, type(value)


@attack(frozenset({(1,)}), frozenset({(1.0,)}))
def frozen_sets_of_equal_tuples(x, value):
    ((item,),) = value
    return x.astype(gg.int32) * item, item


@attack({0, 8}, {8, 0}, {8, 16, 0}, {16, 0, 8})
def the_order_of_sets(x, value):
    for item in value:
        x = x * 2 + item
    return x


@attack({"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, collections.OrderedDict(a=1.0, b=2.0))
def the_order_of_dicts(x, value):
    for item in value.values():
        x = x * 3 + item
    return x, [*value]


@attack([1.0], (1.0,), collections.deque([1.0]), {0: 1.0})
def kinds_of_containers(x, value):
    return x * value[0], type(value)


@attack("a", b"a", bytearray(b"a"))
def kinds_of_text(x, value):
    return x * len(value), type(value)


class Text(str):
    gain = 3.0


class Number(float):
    gain = 5.0


def numbered(gain):
    number = Number(1.0)
    number.gain = gain
    return number


@attack("a", Text("a"), "a")
def a_subclass_of_str(x, value):
    return x * getattr(value, "gain", 1.0)


@attack(1.0, numbered(2.0), numbered(3.0), Number(1.0))
def a_subclass_of_float(x, value):
    return x * value * getattr(value, "gain", 1.0)


@attack(np.float32(0.1), np.float64(0.1), 0.1, np.float16(0.1), float(np.float32(0.1)))
def tenths(x, value):
    return x * value, x.astype(gg.float16) * value


@attack(2**53, float(2**53), 2**53 + 1, np.int64(2**53))
def large_numbers(x, value):
    return x.astype(gg.int64) + 1, x.astype(gg.float64) * value, value % 2


@attack(decimal.Decimal("1.0"), decimal.Decimal("1.00"), fractions.Fraction(1), 1)
def decimals_and_fractions(x, value):
    return x * len(str(value)), type(value)


@attack(slice(0, 2), slice(0, 2, 1), slice(0, 2.0), slice(None, 2))
def slices(x, value):
    return x * (1 if value.start is None else 2) + (value.step or 0), value.stop


@attack(..., None, NotImplemented, Ellipsis)
def singletons(x, value):
    return x * (2 if value is None else 3 if value is ... else 4)


@attack(np.array([1, 2]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.array([1, 2], np.int8))
def arrays_with_equal_items(x, value):
    return x * value.size + value.ndim, value.dtype.itemsize


@attack(np.dtype("f4"), np.dtype(">f4"), np.float32, "float32", np.dtype("f8"))
def data_types(x, value):
    return x * np.dtype(value).itemsize, np.dtype(value).byteorder, type(value).__name__


@attack(gg.asarray(1), gg.asarray(1.0), gg.asarray(True), gg.asarray([1]), 1)
def tensors_with_equal_items(x, value):
    return x.astype(gg.int16) * value


class Pair(collections.namedtuple("Pair", "a b")):
    pass


@attack((1.0, 2.0), Pair(1.0, 2.0), [1.0, 2.0])
def named_and_plain_tuples(x, value):
    return x * value[0], hasattr(value, "a"), type(value)


class Same:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return isinstance(other, Same)

    def __hash__(self):
        return 1


@attack(Same(1.0), Same(2.0), {Same(3.0): 1}, {Same(4.0): 1}, frozenset({Same(5.0)}))
def objects_that_are_equal(x, value):
    same = value if isinstance(value, Same) else next(iter(value))
    return x * same.k


@attack(float, int, bool, tuple, str)
def types_as_values(x, value):
    return x * KINDS[value]


@attack(len, abs, max, math.sin, math.cos)
def built_in_functions_as_values(x, value):
    return x * len(value.__name__)


@attack("1" * 3, str(111), "111 ".strip())
def texts_that_are_equal_are_one(x, value):
    return x * len(value)
