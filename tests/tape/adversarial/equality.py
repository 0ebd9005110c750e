"""Values that Python calls equal and that are not the same."""

import collections
import decimal
import fractions
import functools
import math

import numpy as np

import gpugrad as gg

from .harness import add


def attack(name, see, *values):
    """A program whose function sees these values in turn, in a closure and as arguments."""

    def runs(world):
        table = {"value": values[0]}
        f, g = world.compile(lambda x: see(x, table["value"])), world.compile(see)
        changes = [functools.partial(table.update, value=v) for v in (*values[1:], *values)]
        world.play(lambda x: (f(x), g(x, table["value"])), changes=changes)

    add(name, __name__, runs)


attack("ones_of_all_types", lambda x, value: (x.astype(gg.int16) * value, type(value)),
       1, True, 1.0, np.float32(1), np.int8(1), complex(1), np.True_, np.float64(1))  # fmt: skip
attack("zeros_of_both_signs",
       lambda x, value: (x * value, 1 / (x * 0 + value), math.copysign(1.0, value)),
       0.0, -0.0, 0, False, -0.0)  # fmt: skip
attack("complex_zeros", lambda x, value: x * value + value,
       0j, complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0))  # fmt: skip
attack("numbers_that_are_not", lambda x, value: (x * value, value == value, type(value)),
       math.nan, float("nan"), np.float32("nan"), 1.0)  # fmt: skip
attack("the_sign_of_what_is_not_a_number",
       lambda x, value: (gg.signbit(x * 0 + value), math.copysign(1.0, value)),
       math.nan, -math.nan)  # fmt: skip
attack("ranges_with_equal_items", lambda x, value: (x * value.stop + value.step, value),
       range(0, 4, 2), range(0, 3, 2), range(0, 5, 4), range(0, 8, 4))  # fmt: skip
attack("tuples_with_equal_items",
       lambda x, value: (x.astype(gg.int32) * value[0] * value[1], type(value[0])),
       (1, 2), (1.0, 2), (True, 2), (1, 2.0))  # fmt: skip


def only(container):
    (item,) = container
    return item


attack("keys_that_are_equal_numbers",
       lambda x, value: (x.astype(gg.int32) * only(value), type(only(value))),
       {1: 2.0}, {1.0: 2.0}, {True: 2.0}, {np.int64(1): 2.0})  # fmt: skip
attack("keys_that_are_zeros", lambda x, value: (1 / (x * 0 + only(value)), only(value)),
       {0.0: 1}, {-0.0: 1}, {0: 1})  # fmt: skip
attack("frozen_sets_with_equal_items",
       lambda x, value: (x.astype(gg.int32) * only(value), only(value)),
       frozenset({1}), frozenset({1.0}), frozenset({True}))  # fmt: skip
attack("sets_with_equal_items", lambda x, value: (x.astype(gg.int32) * only(value), type(value)),
       {1}, {1.0}, {True}, frozenset({1}))  # fmt: skip


def the_order_of_sets(x, value):
    for item in value:
        x = x * 2 + item
    return x


attack("the_order_of_sets", the_order_of_sets, {0, 8}, {8, 0}, {8, 16, 0}, {16, 0, 8})


def the_order_of_dicts(x, value):
    for item in value.values():
        x = x * 3 + item
    return x, [*value]


attack("the_order_of_dicts", the_order_of_dicts,
       {"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, collections.OrderedDict(a=1, b=2))  # fmt: skip
attack("kinds_of_containers", lambda x, value: (x * value[0], type(value)),
       [1.0], (1.0,), collections.deque([1.0]), {0: 1.0})  # fmt: skip
attack("kinds_of_text", lambda x, value: (x * len(value), type(value)), "a", b"a", bytearray(b"a"))


class Text(str):
    gain = 3.0


class Number(float):
    gain = 5.0


def numbered(gain):
    number = Number(1.0)
    number.gain = gain
    return number


attack("a_subclass_of_str", lambda x, value: x * getattr(value, "gain", 1.0), "a", Text("a"), "a")
attack("a_subclass_of_float", lambda x, value: x * value * getattr(value, "gain", 1.0),
       1.0, numbered(2.0), numbered(3.0), Number(1.0))  # fmt: skip
attack("decimals_and_fractions", lambda x, value: (x * len(str(value)), type(value)),
       decimal.Decimal("1.0"), decimal.Decimal("1.00"), fractions.Fraction(1), 1)  # fmt: skip
attack("slices",
       lambda x, value: (x * (1 if value.start is None else 2) + (value.step or 0), value.stop),
       slice(0, 2), slice(0, 2, 1), slice(0, 2.0), slice(None, 2))  # fmt: skip
attack("arrays_with_equal_items",
       lambda x, value: (x * value.size + value.ndim, value.dtype.itemsize),
       *map(np.array, ([1, 2], [1.0, 2.0], [[1, 2]])), np.array([1, 2], np.int8))  # fmt: skip


def data_types(x, value):
    return x * np.dtype(value).itemsize, np.dtype(value).byteorder, type(value).__name__


attack("data_types", data_types,
       np.dtype("f4"), np.dtype(">f4"), np.float32, "float32", np.dtype("f8"))  # fmt: skip
attack("tensors_with_equal_items", lambda x, value: x.astype(gg.int16) * value,
       gg.asarray(1), gg.asarray(1.0), gg.asarray(True), gg.asarray([1]), 1)  # fmt: skip


class Pair(collections.namedtuple("Pair", "a b")):
    pass


attack("named_and_plain_tuples", lambda x, value: (x * value[0], hasattr(value, "a"), type(value)),
       (1.0, 2.0), Pair(1.0, 2.0), [1.0, 2.0])  # fmt: skip


class Same:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return isinstance(other, Same)

    def __hash__(self):
        return 1


attack("objects_that_are_equal",
       lambda x, value: x * (value if isinstance(value, Same) else only(value)).k,
       Same(1.0), Same(2.0), {Same(3.0): 1}, {Same(4.0): 1}, frozenset({Same(5.0)}))  # fmt: skip
attack("built_in_functions_as_values", lambda x, value: x * len(value.__name__),
       len, abs, max, math.sin, math.cos)  # fmt: skip
