"""Visits of places in Python objects in C: what they find, change, raise and leave behind."""

import contextlib
import gc
import sys
from collections import defaultdict

import numpy as np
import pytest
from native import needs_library

from gpugrad.backends.native.objects import visiting

pytestmark = needs_library


class Slotted:
    __slots__ = "first", "second", "third"

    def __init__(self, first=None, second=None):
        self.first, self.second = first, second


class Derived(Slotted):
    __slots__ = ("more",)


class Plain:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Unhashed(str):
    __slots__ = ()

    def __hash__(self):
        raise ZeroDivisionError


class Computed:
    @property
    def value(self):
        return [1]  # another list each time

    @property
    def broken(self):
        raise ZeroDivisionError

    def __len__(self):
        raise ArithmeticError

    def __getitem__(self, key):
        return self if key == 0 else {}[key]


def set_first(x, value=0):
    x.first = value


def empty(x):
    del x.first


VALUE = object()
# A kind, an object, a key, what is expected, and changes after which it does not hold.
CASES = {
    "item of dict": ("item", {"a": VALUE}, "a", VALUE, [dict.clear, lambda x: x.update(a=0)]),
    "item of list": ("item", [0, VALUE], 1, VALUE, [list.reverse]),
    "last item of list": ("item", [0, VALUE], -1, VALUE, [list.reverse]),
    "item of another dict": (
        "item", defaultdict(int, a=VALUE), "a", VALUE, [lambda x: x.update(a=0)],
    ),
    "own item": ("item", x := Computed(), 0, x, []),
    "attribute": ("attribute", Plain(a=VALUE), "a", VALUE, [lambda x: setattr(x, "a", 0)]),
    "attribute of class": ("attribute", Plain(), "__class__", Plain, [
        lambda x: setattr(x, "__class__", type("Other", (Plain,), {})),
    ]),
    "slot": ("slot", Slotted(VALUE), "first", VALUE, [set_first, empty]),
    "slot of base": ("slot", Derived(VALUE), "first", VALUE, [set_first]),
    "None in slot": ("slot", Slotted(), "second", None, [lambda x: setattr(x, "second", 0)]),
    "other": ("other", Slotted(VALUE), "first", None, [lambda x: set_first(x, None)]),
    "same": ("same", Slotted(VALUE), "first", Slotted(VALUE), [set_first]),
    "names": ("names", {"a": 1, "b": 2}, None, ["a", "b"], [
        dict.clear, lambda x: x.pop("b"), lambda x: x.pop("a"), lambda x: x.update(c=3),
        lambda x: x.update(a=x.pop("a")),
    ]),
    "no names": ("names", {}, None, [], [lambda x: x.update(a=1)]),
    "length": ("length", [1, 2], None, 2, [list.clear, lambda x: x.append(3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_places_are_compared(name):
    kind, x, key, value, changes = CASES[name]
    is_changed = [("length", [], None, 0)]  # rows before and after it hold
    for change in [None, *changes]:
        made = type(x)(**vars(x)) if type(x) is Plain else x
        if hasattr(x, "copy"):
            made = x.copy()
        elif isinstance(x, Slotted):
            made = type(x)(x.first, x.second)
        are_same = visiting([*is_changed, (kind, made, key, value), *is_changed])
        assert are_same() is True
        if change is not None:
            change(made)
            assert are_same() is False


@pytest.mark.parametrize(
    "kind, x, key, error",
    [
        ("item", [], 0, IndexError),
        ("item", defaultdict(None), "a", KeyError),
        ("item", {}, Unhashed("a"), ZeroDivisionError),
        ("item", Computed(), 1, KeyError),
        ("item", 3, 0, TypeError),
        ("attribute", Plain(), "a", AttributeError),
        ("attribute", Computed(), "broken", ZeroDivisionError),
        ("length", Computed(), None, ArithmeticError),
        ("length", 3, None, TypeError),
    ],
)
def test_errors_of_looking_up_are_raised(kind, x, key, error):
    are_same = visiting([(kind, x, key, 1)])
    for _ in range(2):
        with pytest.raises(error):
            are_same()


def test_equal_values_are_other_objects():
    x = Computed()
    assert visiting([("attribute", x, "value", x.value)])() is False


def test_every_place_is_compared():
    x = {str(i): object() for i in range(50)}
    rows = [("item", x, key, value) for key, value in x.items()]
    rows.insert(25, ("names", x, None, list(x)))
    are_same = visiting(rows)
    assert are_same() is True
    for key, value in [*x.items()]:
        x[key] = None
        assert are_same() is False
        x[key] = value
    assert are_same() is True
    assert visiting([])() is True


def test_no_references_are_kept_or_lost():
    x = Plain(a=VALUE, d={"a": VALUE}, items=[VALUE], s=Slotted(VALUE))
    rows = [
        ("attribute", x, "a", VALUE),
        ("attribute", x, "missing", VALUE),
        ("item", x.d, "a", VALUE),
        ("item", x.items, 0, VALUE),
        ("item", x.items, -1, VALUE),
        ("slot", x.s, "first", VALUE),
        ("names", x.d, None, [*x.d]),
        ("length", x.items, None, 1),
    ]
    objects = [VALUE, x, x.d, x.items, x.s]
    functions = [visiting([row]) for row in rows]
    before = [*map(sys.getrefcount, objects)]
    for are_same in functions:
        for _ in range(100):
            with contextlib.suppress(AttributeError):
                assert are_same() is True
    gc.collect()
    assert [*map(sys.getrefcount, objects)] == before


def test_a_slot_that_is_none_gives_no_function():
    assert visiting([("slot", Plain(a=1), "__dict__", None)]) is None


def layout_of(x):
    return "layout", 0, None, (x.shape, x.dtype, x.strides)


MATRIX = np.arange(6.0).reshape(2, 3)
# Rows for the first of two registers, what it contains when they hold, and when they do not.
REGISTERS = {
    "is": ([("is", 0, None, VALUE)], VALUE, [None, object()]),
    "equals": ([("equals", 0, None, 1)], VALUE, [None]),
    "differs": ([("differs", 0, None, 1)], None, [VALUE]),
    "type": ([("type", 0, None, Slotted)], Slotted(), [Derived(), 3, None]),
    "field": (
        [("field", 0, Slotted.second, VALUE)], Derived(None, VALUE),
        [Slotted(VALUE), Slotted(None, 3)],
    ),
    "apart": ([("apart", 0, None, {id(None), id(Slotted)})], VALUE, [None, Slotted]),
    "layout": ([layout_of(MATRIX)], MATRIX + 1, [
        MATRIX.T, MATRIX[:, :2], MATRIX[0], MATRIX[None], MATRIX.astype("f"), MATRIX.astype(">d"),
        np.asfortranarray(MATRIX), MATRIX.view(np.recarray), 3.0, None, [1.0],
    ]),
    "layout of a number": ([layout_of(np.array(1.0))], np.array(2.0), [MATRIX, np.zeros(1)]),
    "outside": ([("outside", 0, None, {MATRIX.ctypes.data})], MATRIX.copy(), [
        MATRIX, MATRIX[1:], MATRIX[1:][:, ::-1], np.asarray(memoryview(MATRIX)),
        MATRIX.view(np.recarray)[1:],
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", REGISTERS)
def test_registers_are_compared(name):
    rows, good, bad = REGISTERS[name]
    registers = [None, VALUE]
    are_same = visiting(rows, registers)
    for x, holds in [(good, True), *[(x, False) for x in bad], (good, True)]:
        registers[:] = x, VALUE
        assert are_same() is holds


def test_what_slots_contain_is_loaded_into_registers():
    x, others = Slotted(VALUE), [object(), object()]
    registers = [x, None, *others]
    rows = [("load", 0, Slotted.first, 2), ("load", 2, None, 3), ("load", 0, Slotted.second, 1)]
    are_same = visiting(rows, registers)
    before = [*map(sys.getrefcount, [VALUE, x, *others])]
    for _ in range(10):
        registers[:] = [x, None, *others]
        assert are_same() is True
        assert registers == [x, None, VALUE, VALUE]
    registers[:] = [x, None, *others]
    assert [*map(sys.getrefcount, [VALUE, x, *others])] == before
    del x.first
    assert are_same() is False
    assert registers == [x, None, *others]


def test_an_array_over_foreign_memory_is_outside_of_others():
    buffer = bytearray(64)
    x, y = np.frombuffer(buffer), np.frombuffer(buffer)[4:]
    registers = [x]
    assert visiting([("outside", 0, None, {MATRIX.ctypes.data})], registers)() is True
    inside = visiting([("outside", 0, None, {x.ctypes.data})], registers)
    assert inside() is False
    registers[0] = y
    assert inside() is False


class Forged:
    @property
    def __class__(self):
        return Slotted


def test_classes_and_variables_of_closures():
    x, y, forged = Plain(), None, Forged()

    def closure():
        return y

    (cell,) = closure.__closure__
    rows = [("attribute", x, "__class__", Plain), ("attribute", cell, "cell_contents", None)]
    is_same, is_forged = visiting(rows), visiting([("attribute", forged, "__class__", Forged)])
    assert is_same() is True
    y = VALUE
    assert is_same() is False
    y = None
    x.__class__ = Forged
    assert is_same() is False
    assert is_forged() is False


def test_an_item_that_registers_keep():
    group, registers = {"a": 1.5, "b": VALUE}, [None, 1.5]
    is_kept = visiting([("kept", group, "b", 0), ("kept", group, "a", 1)], registers)
    assert is_kept() is False
    registers[:] = group["b"], group["a"]
    assert is_kept() is True
    group["a"] = float("1.5")
    assert is_kept() is False
    del group["a"]
    assert is_kept() is False


def test_changes():
    calls, result = [], object()
    x, y, items, registers = Slotted(1, 2), Slotted(), [0], [VALUE, None, None, None]
    registers[3] = y
    rows = [
        ("call", lambda: calls.append(1), None, None),
        ("make", lambda: result, None, 1),
        ("put", x, "second", 1),
        ("put", items, 0, 1),
        ("new", 0, 3, (Slotted.first, Slotted.second, Slotted.third)),
    ]
    change = visiting(rows, registers)
    objects = [VALUE, result, None, y]
    assert change() is True
    before = [*map(sys.getrefcount, objects[:2])]
    for n in range(2, 20):
        assert change() is True
        assert calls == [1] * n
    assert [*map(sys.getrefcount, objects[:2])] == before
    assert (x.first, x.second, items, registers) == (1, result, [result], [VALUE, result, None, y])
    assert type(y.third) is Slotted
    assert (y.third.first, y.third.second, y.third.third) == (VALUE, None, None)


def test_a_value_that_is_missing_makes_no_object():
    y = Slotted()
    y.third = VALUE
    rows = [("new", 0, 1, (Slotted.first, Slotted.second, Slotted.third))]
    assert visiting(rows, [None, y])() is True
    assert y.third is None


@pytest.mark.parametrize("kind", ["call", "make"])
def test_an_error_ends_the_changes(kind):
    x, registers = Slotted(1), [VALUE]

    def fail():
        raise ZeroDivisionError

    change = visiting([(kind, fail, None, 0), ("put", x, "first", 0)], registers)
    with pytest.raises(ZeroDivisionError):
        change()
    assert x.first == 1
    assert registers == [VALUE]


def test_slots_are_found_without_an_object_of_the_class():
    class Slots(dict):
        __slots__ = "first", "second"

        def __del__(self):
            ended.append(self.second)

    ended, x, regs = [], Slots(), [1]
    x.first = x.second = 0
    visit = visiting([("slot", x, "second", 0), ("put", x, "second", 0)], regs)
    assert visit()
    assert (x.first, x.second, ended) == (0, 1, [])
    assert visiting([("slot", 1j, "imag", 1.0)]) is None  # a number in C
